"""Completion: order, options, values, lines with a break; through IPython's own completer."""

import pytest

from dyno.magics.completion import candidates, own_names


@pytest.fixture
def texts(shell):
    shell.run("import types\nspace = types.SimpleNamespace()\nclass M:\n    def forward(self): pass\n    size = 3\nm = M()\nnumber = 3")
    return lambda line: [candidate.text for candidate in candidates(line, own_names(shell.ip))]


def test_commands_come_with_their_meaning(shell):
    found = candidates("%dyno ", {})
    assert [candidate.text for candidate in found] == ["status", "on", "off", "explain", "why", "graph", "guards", "bench", "reset", "help"]
    assert all(candidate.meaning for candidate in found)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%dyno ex", ["explain"]),
        ("%%dyno ", ["explain"]),
        ("%dyno explain f", ["f", "f2"]),
        ("%dyno explain --", ["--verbose", "--json", "--quiet"]),
        ("%dyno explain f -v --", ["--json", "--quiet"]),
        ("%dyno graph f --stage ", ["capture", "fused"]),
        ("%dyno graph f --stage c", ["capture"]),
        ("%dyno graph f --k", ["--kernel"]),
        ("%dyno bench g() --vs ", ["eager", "torch", "numpy"]),
        ("%dyno why step:", ["step:3", "step:5"]),
        ("%dyno why step:5", ["step:5"]),
        ("%dyno graph m.", ["m.forward"]),
        ("%dyno graph number.", []),
        ("%dyno help w", ["why", "words"]),
        ("%dyno zzz ", []),
    ],
)
def test_candidates(texts, line, expected):
    assert texts(line) == expected


def test_functions_known_to_the_compiler_come_first_and_the_latest_cell_first(texts):
    found = [text for text in texts("%dyno explain ") if not text.startswith("-")]
    assert found[:3] == ["step", "f", "g"] and set(found) == {"step", "f", "g", "f2", "h"} and "number" not in found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%dyno gra", "graph"),
        ("%dyno graph ste", "step"),
        ("%dyno graph f --st", "--stage"),
        ("%dyno graph f --stage fu", "fused"),
        ("%%dyno exp", "explain"),
    ],
)
def test_through_ipython(shell, line, expected):
    _, matches = shell.ip.complete("", line, len(line))
    assert expected in matches


def test_lines_through_ipython_replace_only_the_word(shell):
    text, matches = shell.ip.complete("", "%dyno why step:", len("%dyno why step:"))
    assert [("step:" + match if text == "" else match) for match in matches] == ["step:3", "step:5"]
