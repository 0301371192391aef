"""The tour's driver: what it prints, what it counts as failed, and its last line."""
from __future__ import annotations

import pathlib

import nbformat
import pytest
import run_tour

STANDIN = """
import sys, types
sys.modules["dyno"] = types.SimpleNamespace(stats=lambda: {"kernels": 3, "graph_breaks": 2, "by_function": {"f": {"hits": 4}, "g": {"hits": 0}}})
print("counted")
"""


@pytest.fixture
def tour(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a notebook of these cells in IPython's kernel, with counters made up by its first cell."""

    def run(*cells: str, tags: tuple[str, ...] = ()) -> int:
        notebook = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_markdown_cell("# A title"), nbformat.v4.new_code_cell(STANDIN)]
        notebook.cells += [nbformat.v4.new_code_cell(cell, metadata={"tags": list(tags)}) for cell in cells]
        path = tmp_path / "tour.ipynb"
        nbformat.write(notebook, path)
        monkeypatch.setattr(run_tour, "TOUR", path)
        monkeypatch.setattr(run_tour, "kernel_name", lambda: "python3")
        return run_tour.main()

    return run


def test_a_good_tour(tour, capsys: pytest.CaptureFixture[str]) -> None:
    assert tour("1 + 1") == 0
    printed = capsys.readouterr().out
    assert "# A title" in printed and "counted" in printed and "\n2\n" in printed
    assert printed.splitlines()[-1] == "tour: cells=2 failed=0 captured=1 kernels=3 breaks=2"


def test_a_cell_that_raises_is_a_failure(tour, capsys: pytest.CaptureFixture[str]) -> None:
    assert tour("1 / 0") == 1
    printed = capsys.readouterr().out
    assert "ZeroDivisionError" in printed and printed.splitlines()[-1].startswith("tour: cells=2 failed=1 ")


def test_a_cell_that_is_meant_to_raise_is_none(tour, capsys: pytest.CaptureFixture[str]) -> None:
    assert tour("1 / 0", tags=("raises-exception",)) == 0
    assert "failed=0" in capsys.readouterr().out.splitlines()[-1]


def test_without_our_kernel_it_says_so(tour, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run_tour, "TOUR", pathlib.Path(__file__))
    monkeypatch.setattr(run_tour, "kernel_name", lambda: None)
    assert run_tour.main() == 1
    assert "no kernelspec" in capsys.readouterr().err
