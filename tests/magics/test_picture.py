"""DOT text and the pictures made from it, by the core or by its one file compiled here."""

import ctypes
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest
from fake_core import load

from dyno.magics import dot, graph

ROOT = pathlib.Path(__file__).parents[2]
SHIM = """
#include "compiler/report/graph_picture.h"
#include <cstring>
extern "C" int draw(const char* text, char* out, int room) {
    const auto picture = dyno::report::draw(text);
    if (!picture || static_cast<int>(picture->size()) >= room) { return -1; }
    std::memcpy(out, picture->c_str(), picture->size() + 1);
    return static_cast<int>(picture->size());
}
"""


@pytest.fixture(scope="module")
def draw(tmp_path_factory):
    """``draw(dot) -> str | None``: the extension's, else the same source compiled alone."""
    try:
        from dyno import _core

        return _core.draw_svg
    except (ImportError, AttributeError):
        pass
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("neither the extension nor a C++ compiler is here")
    folder = tmp_path_factory.mktemp("picture")
    (folder / "shim.cpp").write_text(SHIM)
    library = folder / "picture.so"
    sources = [folder / "shim.cpp", ROOT / "compiler/report/graph_picture.cpp"]
    subprocess.run([compiler, "-std=c++20", "-shared", "-fPIC", "-I", ROOT, *sources, "-o", library, "-ldl"], check=True)
    loaded = ctypes.CDLL(str(library))

    def call(text):
        out = ctypes.create_string_buffer(4 << 20)
        return None if loaded.draw(text.encode(), out, len(out)) < 0 else out.value.decode()

    return call


@pytest.fixture
def pictured(draw):
    """Skips where Graphviz's library is absent, which is a supported state."""
    if draw("digraph { a }") is None:
        pytest.skip("Graphviz's library is not installed")
    return draw


def chain():
    return load("chain")["entries"][0]


def long_chain(length, kernel=None):
    """A chain of additions; each ``kernel`` operations share a kernel."""
    nodes = []
    for index in range(length):
        owner = None if kernel is None else index // kernel
        nodes.append({"id": index + 1, "op": "add", "args": [index, 0], "dtype": "f32", "shape": [4], "line": 2, "kernel": owner})
    kernels = [] if kernel is None else [{"id": number, "nodes": []} for number in range(-(-length // kernel))]
    return {"id": 0, "graph": {"inputs": [0], "nodes": nodes, "outputs": [length]}, "kernels": kernels}


def test_picture_is_one_opaque_svg_element(pictured):
    svg = dot.titled(pictured(dot.dot(chain(), "fused")[0]), "f", "what it shows")
    root = xml.fromstring(svg)
    names = [child.tag.split("}")[1] for child in root]
    assert svg.startswith("<svg") and names[:2] == ["title", "desc"] and root[1].text == "what it shows"
    background = next(element for element in root.iter() if element.tag.endswith("polygon"))
    assert background.get("fill") == "#ffffff"
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", svg)


def test_same_text_gives_the_same_picture(pictured):
    text = dot.dot(chain(), "fused")[0]
    assert pictured(text) == pictured(text)


def test_stage_decides_about_frames():
    assert "cluster_0" in dot.dot(chain(), "fused")[0]
    assert "cluster_0" not in dot.dot(chain(), "capture")[0]


@pytest.mark.parametrize(
    "name", ['"', "\\", '\\"', "a\nb", "</text><script>x</script>", "<b>", "}", "\x00", "\\N", "é\u2028x", "x" * 500, "&amp;", "\\n"]
)
def test_labels_cannot_leave_their_place(pictured, name):
    entry = chain()
    entry["graph"]["nodes"][0]["op"] = name
    entry["graph"]["inputs"][0]["name"] = name
    svg = pictured(dot.dot(entry, "fused")[0])
    assert svg is not None
    root = xml.fromstring(svg)
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    shown = " ".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))
    clean = "".join(character if character.isprintable() else " " for character in name)[: dot.LONGEST_LABEL - 1]
    assert clean.split() == [] or clean.split()[0] in shown


def test_broken_text_gives_no_picture(draw):
    assert draw("digraph { a -> ") is None
    assert draw("") is None


def test_large_graphs_are_condensed_to_kernels(pictured):
    text, was_condensed = dot.dot(long_chain(dot.MOST_NODES + 5, kernel=50), "fused")
    assert was_condensed and "kernel K6" in text and "50 operations" in text
    assert pictured(text).count('class="node"') == 7


def test_even_condensed_graphs_are_capped(pictured):
    text, was_condensed = dot.dot(long_chain(2 * dot.MOST_NODES), "fused")
    assert was_condensed
    assert pictured(text).count('class="node"') == dot.MOST_NODES


def test_small_graphs_are_not_condensed():
    assert not dot.dot(long_chain(dot.MOST_NODES - 2), "fused")[1]


def test_the_page_says_that_it_was_condensed(pictured):
    report = {**load("chain"), "entries": [long_chain(dot.MOST_NODES + 5, kernel=50)]}
    page = graph.page(report, {}, pictured)
    assert any("the picture shows kernels" in getattr(block, "text", "") for block in page.blocks)


def test_one_kernel_keeps_its_inputs_and_results():
    entry = dot.picked(load("breaks")["entries"][0], 1)
    assert [row["name"] for row in entry["graph"]["inputs"]] == ["input 0", "%1", "%2"]
    assert [node["op"] for node in entry["graph"]["nodes"]] == ["sub", "div"] and entry["graph"]["outputs"] == [4]
