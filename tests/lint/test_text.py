"""Headers guard themselves, files say what they are for, and nothing names the machine it was written on."""

from __future__ import annotations

import re

import pytest
import tree

# Folders of one person's machine, and hosts that only an installer should know. Written so that this file passes itself.
PLACES = re.compile(r"(?<![\w.$}/-])/(?:w[o]rk|r[o]ot|h[o]me/\w+|Us[e]rs/\w+|o[p]t/(?:wheels|pypi))(?:/|\b)")
HOSTS = re.compile(
    r"\b(?:py[p]i\.org|files\.python[h]osted\.org|deb\.d[e]bian\.org|registry\.npm[j]s\.org|download\.py[t]orch\.org|proxy\.g[o]lang\.org)\b"
)
BINARY = (".png", ".jpg", ".ico", ".gz", ".so", ".whl")


def guarded(source: str) -> bool:
    """Whether a header guards itself before its first declaration."""
    lines = [line for line in source.splitlines() if line.strip() and not line.lstrip().startswith(("//", "/*", "*"))]
    return bool(lines) and lines[0].strip() == "#pragma once"


def opens_with_comment(name: str, source: str) -> bool:
    """Whether a file says at its top what it is for."""
    source = source.lstrip()
    if name.endswith(".py"):
        return source.startswith(('"""', 'r"""', "#!", "#")) or not source
    return source.startswith(("//", "/*", "#!", "#pragma once\n//", "#pragma once\n\n//"))


def machine_words(source: str) -> list[str]:
    """Paths and hosts that belong to one machine."""
    return [match[0] for pattern in (PLACES, HOSTS) for match in pattern.finditer(source)]


def test_headers_guard_themselves() -> None:
    found = [name for name in tree.cpp_files() if name.endswith(".h") and not guarded(tree.text(name))]
    assert not found, f"no #pragma once first: {found}"


def test_files_say_what_they_are_for() -> None:
    names = [n for n in tree.files() if n.endswith((".cpp", ".h", ".def", ".py"))]
    found = [name for name in names if not opens_with_comment(name, tree.text(name))]
    assert not found, f"no opening comment: {found}"


def test_nothing_names_this_machine() -> None:
    names = [n for n in tree.files() if not n.endswith(BINARY)]
    found = [f"{name}: {word}" for name in names for word in machine_words(tree.text(name))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("planted", ["see /w" + "ork/main/x", '"/r' + 'oot/x"', "cd /ho" + "me/me/x", "https://py" + "pi.org/simple"])
def test_a_machine_word_is_found(planted: str) -> None:
    assert machine_words(planted)


@pytest.mark.parametrize("harmless", ["a framework/x", "${ROOT}/work/x", "a/root/b", "../shared/x", "/usr/lib/llvm-19", "homework/x"])
def test_other_paths_are_not(harmless: str) -> None:
    assert not machine_words(harmless)


def test_guards_and_comments_are_seen() -> None:
    assert guarded("// words\n#pragma once\nint x;") and not guarded("int x;\n#pragma once")
    assert opens_with_comment("a.h", "// it\n") and not opens_with_comment("a.h", "int x;") and not opens_with_comment("a.py", "import os")
