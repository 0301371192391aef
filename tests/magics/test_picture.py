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
from dyno.magics.page import Picture

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
    svg = dot.titled(dot.compact(pictured(dot.dot(chain(), "fused", False))), "f", "what it shows")
    root = xml.fromstring(svg)
    names = [child.tag.split("}")[1] for child in root]
    assert svg.startswith("<svg") and names[:2] == ["title", "desc"] and root[1].text == "what it shows"
    background = next(element for element in root.iter() if element.tag.endswith("polygon"))
    assert background.get("fill") == "#ffffff"
    assert "http" not in re.sub(r'xmlns(:xlink)?="[^"]*"', "", svg)


def test_compacting_keeps_every_word_and_line(pictured):
    def seen(svg):
        return [
            (element.tag, element.text)
            for element in xml.fromstring(svg).iter()
            if element.tag.split("}")[1] in ("text", "path", "polygon")
        ]

    svg = pictured(dot.dot(load("breaks")["entries"][0], "fused", False))
    assert seen(dot.compact(svg)) == seen(svg) and len(dot.compact(svg)) < 0.7 * len(svg)


def test_same_text_gives_the_same_picture(pictured):
    text = dot.dot(chain(), "fused", False)
    assert pictured(text) == pictured(text)


def test_stage_decides_about_frames():
    assert "cluster_0" in dot.dot(chain(), "fused", False)
    assert "cluster_0" not in dot.dot(chain(), "capture", False)


@pytest.mark.parametrize(
    "name", ['"', "\\", '\\"', "a\nb", "</text><script>x</script>", "<b>", "}", "\x00", "\\N", "é\u2028x", "x" * 500, "&amp;", "\\n"]
)
def test_labels_cannot_leave_their_place(pictured, name):
    entry = chain()
    entry["graph"]["nodes"][0]["op"] = name
    entry["graph"]["inputs"][0]["name"] = name
    svg = pictured(dot.dot(entry, "fused", False))
    assert svg is not None
    root = xml.fromstring(svg)
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    shown = " ".join(element.text or "" for element in root.iter() if element.tag.endswith("text"))
    clean = "".join(character if character.isprintable() else " " for character in name)[: dot.LONGEST_LABEL - 1]
    assert clean.split() == [] or clean.split()[0] in shown


def test_broken_text_gives_no_picture(draw):
    assert draw("digraph { a -> ") is None
    assert draw("") is None


def pages(entries, draw):
    return graph.page({**load("chain"), "entries": entries}, {}, draw)


def pictures(page):
    return [block for block in page.blocks if isinstance(block, Picture)]


def said(page):
    return " ".join(getattr(block, "text", "") for block in page.blocks)


def test_large_graphs_are_condensed_to_kernels(pictured):
    page = pages([long_chain(dot.MOST_NODES + 5, kernel=50)], pictured)
    (shown,) = pictures(page)
    assert shown.svg.count(" operations<") == 7 and "kernel K6" in shown.svg and ">50 operations<" in shown.svg
    assert "More than 300 operations: the picture shows kernels" in said(page)


def test_even_condensed_graphs_are_capped(pictured):
    text = dot.dot(long_chain(2 * dot.MOST_NODES), "fused", True)
    assert pictured(text).count('class="node"') == dot.MOST_NODES


def test_small_graphs_are_not_condensed(pictured):
    page = pages([long_chain(dot.MOST_NODES - 2 - 100, kernel=50)], pictured)
    assert pictures(page)[0].svg.count(">add<") == dot.MOST_NODES - 102 and "the picture shows kernels" not in said(page)


def test_bytes_of_all_pictures_are_capped(pictured):
    page = pages([{**long_chain(150, kernel=5), "id": number} for number in range(4)], pictured)
    assert 0 < sum(len(picture.svg) for picture in pictures(page)) <= dot.MOST_BYTES
    assert "Too large for a notebook as operations" in said(page)


def test_what_cannot_be_drawn_is_said(pictured):
    page = pages([long_chain(3)], lambda text: pictured(text) if "dyno" not in text else None)
    assert pictures(page) == [] and "Part 0 has no picture" in said(page)


def test_one_kernel_keeps_its_inputs_and_results():
    entry = dot.picked(load("breaks")["entries"][0], 1)
    assert [row["name"] for row in entry["graph"]["inputs"]] == ["input 0", "%1", "%2"]
    assert [node["op"] for node in entry["graph"]["nodes"]] == ["sub", "div"] and entry["graph"]["outputs"] == [4]
