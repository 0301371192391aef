"""Every display of every hand-made report, in three forms, against golden files.

``DYNO_BLESS=1 pytest tests/magics/test_golden.py`` writes them anew; read the difference before committing it.
"""

import os
import pathlib

import pytest
from fake_core import load

from dyno.magics import bench_page, explain, graph, guards, help, status, why
from dyno.magics.page_html import html
from dyno.magics.page_markdown import markdown
from dyno.magics.page_text import WIDTH, text

GOLDEN = pathlib.Path(__file__).parent / "golden"
SVG = '<svg width="10pt" height="10pt"><polygon fill="#ffffff"/></svg>'


def drawn(dot):
    return SVG


def undrawn(dot):
    return None


CASES = {
    "chain.explain": lambda: explain.page(load("chain"), {}),
    "chain.explain_verbose": lambda: explain.page(load("chain"), {"verbose": True}),
    "chain.why": lambda: why.page(load("chain"), {}),
    "chain.graph": lambda: graph.page(load("chain"), {}, drawn),
    "chain.graph_capture": lambda: graph.page(load("chain"), {"stage": "capture"}, drawn),
    "chain.graph_without_library": lambda: graph.page(load("chain"), {}, undrawn),
    "chain.guards": lambda: guards.page(load("chain"), {}),
    "chain.guards_all": lambda: guards.page(load("chain"), {"all": True}),
    "breaks.explain": lambda: explain.page(load("breaks"), {}),
    "breaks.explain_verbose": lambda: explain.page(load("breaks"), {"verbose": True}),
    "breaks.why": lambda: why.page(load("breaks"), {}),
    "breaks.why_line": lambda: why.page(load("breaks"), {"line": 5}),
    "breaks.why_fine_line": lambda: why.page(load("breaks"), {"line": 4}),
    "breaks.graph": lambda: graph.page(load("breaks"), {}, drawn),
    "breaks.graph_kernel": lambda: graph.page(load("breaks"), {"kernel": 1}, drawn),
    "breaks.guards_entry": lambda: guards.page(load("breaks"), {"entry": 0}),
    "layers.explain": lambda: explain.page(load("layers"), {}),
    "layers.why": lambda: why.page(load("layers"), {}),
    "inlined.explain": lambda: explain.page(load("inlined"), {}),
    "inlined.why": lambda: why.page(load("inlined"), {}),
    "inlined.graph": lambda: graph.page(load("inlined"), {}, drawn),
    "inlined.guards_all": lambda: guards.page(load("inlined"), {"all": True}),
    "interpreted.explain": lambda: explain.page(load("interpreted"), {}),
    "interpreted.graph": lambda: graph.page(load("interpreted"), {}, drawn),
    "interpreted.why": lambda: why.page(load("interpreted"), {}),
    "not_called.guards": lambda: guards.page(load("not_called"), {}),
    "redefined.explain": lambda: explain.page(load("redefined"), {}),
    "status.status": lambda: status.page(load("status"), {}),
    "bench.bench": lambda: bench_page.page(load("bench"), {}),
    "help.overview": help.overview,
    "help.graph": lambda: help.command_page(__import__("dyno.magics.table", fromlist=["BY_NAME"]).BY_NAME["graph"]),
}
FORMS = {"txt": lambda page: text(page) + "\n", "md": markdown, "html": lambda page: html(page) + "\n"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
def test_golden(case, form):
    made = FORMS[form](CASES[case]())
    path = GOLDEN / f"{case}.{form}"
    if os.environ.get("DYNO_BLESS") == "1":
        path.write_text(made)
    assert path.read_text() == made


def test_no_golden_file_is_left_over():
    assert {path.name for path in GOLDEN.iterdir()} == {f"{case}.{form}" for case in CASES for form in FORMS}


@pytest.mark.parametrize("case", CASES)
def test_text_is_narrow_and_plain(case):
    made = text(CASES[case]())
    assert max(map(len, made.splitlines())) <= WIDTH
    assert "\x1b" not in made and "\t" not in made


@pytest.mark.parametrize("case", CASES)
def test_every_fact_of_the_text_is_in_the_html_words(case):
    # Colours only repeat: what the text says, the HTML says in words (attributes do not count).
    import re
    from html import unescape

    # A picture's sentence is the image's alt, which front ends without images show; it counts as words.
    bare = unescape(re.sub(r'<img alt="([^"]*)"[^>]*>', r" \1 ", html(CASES[case]())))
    words = set(re.findall(r"\w+", re.sub(r"<[^>]*>", " ", bare) + " " + bare)) | {"picture"}
    missing = [word for word in re.findall(r"\w+", text(CASES[case]())) if word not in words and not any(word in whole for whole in words)]
    assert missing == []
