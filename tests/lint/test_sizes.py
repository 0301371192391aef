"""The maximum is limited: lines of a file, lines of a function, lines of a header's contract-free stretch.

A file above 400 lines or a function above 50 deserves a second look (`python tests/lint/test_sizes.py` lists them);
above 800 and 100 the test fails. Tables (.def files and the corpora named here) are exempt.
"""

from __future__ import annotations

import ast
import re

import pytest
import tree

FILE_ASKED, FILE_REFUSED = 400, 800
FUNCTION_ASKED, FUNCTION_REFUSED = 50, 100
TABLES = (r"\.def$", r"^notebooks/", r"^docs/", r"\.ipynb$", r"\.(svg|png|json|jsonl|txt)$")
# The one function that may be long: one case for each canonical instruction.
EXEMPT_FUNCTIONS = {("compiler/frame/evaluator.cpp", "run")}
CHECKED = (".cpp", ".h", ".py", ".sh", ".cu")
NOT_A_FUNCTION = re.compile(r"^\s*(template\s*<[^{}]*>\s*)?(inline\s+)?(namespace|struct|class|enum|union|extern\s+\"C\"|concept)\b")
KEYWORDS = {
    "if",
    "for",
    "while",
    "switch",
    "catch",
    "return",
    "sizeof",
    "alignas",
    "decltype",
    "static_assert",
    "__attribute__",
    "noexcept",
    "requires",
}


def blanked(source: str) -> str:
    """C++ without comments, strings and preprocessor lines; every newline is kept."""
    pattern = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'')
    bare = pattern.sub(lambda m: '""' + "\n" * m[0].count("\n"), source)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m[0].count("\n"), bare, flags=re.M)


def name_of(head: str) -> str | None:
    """The function that a brace after `head` opens, or None."""
    if NOT_A_FUNCTION.match(head) or "(" not in head or re.search(r"[^=!<>+\-*/&|^%]=[^=]", head.split("(")[0]):
        return None
    names = [n for n in re.findall(r"(~?[A-Za-z_][\w:~]*|operator\s*\S+?)\s*\(", head) if n not in KEYWORDS]
    return names[0] if names else None


def cpp_functions(source: str) -> list[tuple[str, int, int]]:
    """(name, first line, lines) of the functions defined at namespace or class level."""
    found, stack, start, line, head = [], [], None, 1, []
    for char in blanked(source):
        if char == "\n":
            line += 1
        if char == "{" and head and not head[-1].isspace():
            stack.append("")  # a braced initialiser: formatted code has a space before the brace of a body
        elif char == "{":
            name = None if start else name_of("".join(head))
            stack.append(name)
            start = start or (name and (name, line))
            head = []
        elif char == "}":
            name = stack.pop() if stack else None
            if name and start:
                found.append((start[0], start[1], line - start[1] + 1))
                start = None
            head = head if name == "" else []
        elif char == ";" and not start:
            head = []
        elif not start:
            head.append(char)
    return found


def python_functions(source: str) -> list[tuple[str, int, int]]:
    """The same for Python, nested functions counted with their parents."""
    return [
        (node.name, node.lineno, node.end_lineno - node.lineno + 1)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def functions(name: str, source: str) -> list[tuple[str, int, int]]:
    return python_functions(source) if name.endswith(".py") else cpp_functions(source) if name.endswith(tree.CPP) else []


def checked() -> list[str]:
    return [name for name in tree.files() if name.endswith(CHECKED) and not any(re.search(p, name) for p in TABLES)]


def too_long(limit_file: int, limit_function: int) -> list[str]:
    found = []
    for name in checked():
        lines = tree.text(name).count("\n")
        if lines > limit_file:
            found.append(f"{name}: {lines} lines (limit {limit_file})")
        for function, line, length in functions(name, tree.text(name)):
            if length > limit_function and (name, function.rsplit("::", 1)[-1]) not in EXEMPT_FUNCTIONS:
                found.append(f"{name}:{line}: {function} has {length} lines (limit {limit_function})")
    return found


def test_nothing_is_above_the_ceilings() -> None:
    found = too_long(FILE_REFUSED, FUNCTION_REFUSED)
    assert not found, "\n".join(found)


SAMPLE = """
namespace a {
struct S : B {
    int f(int x) const noexcept { return x; }   // } in a comment
    S(int x) : x_{x}, y_(2) {
        if (x) { g("}"); }
    }
};
static const Row rows[] = {{1, 2}, {3, 4}};
template <typename T> std::vector<T> make(T a,
                                          T b) {
    auto l = [&](int k) {
        return k;
    };
    return {a, b};
}
}
"""


def test_functions_are_measured() -> None:
    assert [(n, k) for n, _, k in cpp_functions(SAMPLE)] == [("f", 1), ("S", 3), ("make", 6)]


@pytest.mark.parametrize("ending", ["py", "cpp"])
def test_a_long_function_is_found(ending: str) -> None:
    body = "\n".join("    x = 1;" for _ in range(120))
    source = f"def long():\n{body}\n" if ending == "py" else f"int long_one() {{\n{body}\n}}\n"
    assert max(length for _, _, length in functions(f"a.{ending}", source)) > FUNCTION_REFUSED


if __name__ == "__main__":
    print("\n".join(too_long(FILE_ASKED, FUNCTION_ASKED)) or "nothing to look at")
