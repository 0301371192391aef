"""The tour as a file: what a reader finds in it before anything was run. What it prints is tools/run_tour.py's to say.

Input: notebooks/tour.ipynb. It must not start a kernel: `make tour` does.
"""

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "notebooks" / "tour.ipynb"


@pytest.fixture(scope="module")
def tour():
    return json.loads(NOTEBOOK.read_text())


def sources(tour, kind):
    return ["".join(cell["source"]) for cell in tour["cells"] if cell["cell_type"] == kind]


def test_it_is_valid_and_asks_for_the_kernel(tour):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.from_dict(tour))
    spec = json.loads((ROOT / "share/jupyter/kernels/xdyno/kernel.json.in").read_text())
    assert tour["metadata"]["kernelspec"]["display_name"] == spec["display_name"]


def test_no_output_is_committed(tour):
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in tour["cells"] if cell["cell_type"] == "code")


def test_its_six_parts_stand_in_order(tour):
    heads = re.findall(r"^## (\d)\. ", "\n".join(sources(tour, "markdown")), re.M)
    assert heads == list("123456")


def test_every_part_compares_with_plain_python(tour):
    """Each part holds at least one assertion, and the parts that call functions hold one against ``dyno.off()``."""
    parts, part = {}, "0"
    for cell in tour["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            part = (re.findall(r"^## (\d)\. ", text, re.M) or [part])[-1]
        else:
            parts[part] = parts.get(part, "") + text + "\n"
    for number in "123456":
        assert "assert" in parts[number] and "dyno.off()" in parts[number], f"part {number}"


def test_cells_are_python_below_their_magics(tour):
    for text in sources(tour, "code"):
        body = re.sub(r"^%%dyno explain\n|^%dyno .*$|^%dyno$", "", text, flags=re.M)
        ast.parse(body)


def test_nothing_is_annotated(tour):
    """The tour shows the transparent mode: no call of ``dyno.compile``."""
    assert not any("compile(" in text for text in sources(tour, "code"))
