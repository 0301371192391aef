"""Bundles: which forms go together, what an untrusted notebook keeps, and what each option changes."""

import json
import re
from html.parser import HTMLParser

import pytest

SHOWN = (
    "%dyno", "%dyno explain f", "%dyno explain step -v", "%dyno why step", "%dyno why step:5", "%dyno graph f",
    "%dyno graph step --stage capture", "%dyno graph step --kernel 1", "%dyno guards f", "%dyno guards step --all",
    "%dyno guards step --entry 1", "%dyno bench g() --min-time 0.01", "%%dyno explain\nx = 1",
)  # fmt: skip
TEXT_ONLY = (
    "%dyno on",
    "%dyno off",
    "%dyno on f step",
    "%dyno reset",
    "%dyno reset f",
    "%dyno help",
    "%dyno help graph",
    "%dyno help words",
)

# What JupyterLab's sanitiser of 4.7 was seen to keep; everything else is taken away when a notebook is opened untrusted.
TAGS = {"div", "span", "table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "img"}
ATTRIBUTES = {"style", "scope", "alt", "src"}
PROPERTIES = {
    "text-align", "vertical-align", "padding", "margin", "border", "border-collapse", "color", "background-color", "background",
    "font-family", "font-weight", "white-space", "overflow-x", "width", "height",
}  # fmt: skip
REFUSED_VALUES = re.compile(r"var\(|light-dark|currentcolor|url\(|expression", re.I)


class Checker(HTMLParser):
    """Collects everything that is not on the lists."""

    def __init__(self):
        super().__init__()
        self.wrong, self.open, self.tables, self.heads = [], [], 0, 0

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.wrong += [tag] if tag not in TAGS else []
        self.wrong += [name for name in attributes if name not in ATTRIBUTES]
        styles = dict(part.split(":", 1) for part in attributes.get("style", "").split(";") if part)
        self.wrong += [name for name in styles if name.strip() not in PROPERTIES]
        self.wrong += [value for value in styles.values() if REFUSED_VALUES.search(value)]
        if "background-color" in styles and "color" not in styles or "color" in styles and "background-color" not in styles:
            self.wrong.append("one colour alone")
        if tag == "td" and "text-align" not in styles:
            self.wrong.append("a td without text-align")
        if tag == "img" and not (attributes.get("alt") and attributes.get("src", "").startswith("data:image/svg+xml;base64,")):
            self.wrong.append("an image without alt or not embedded")
        if tag == "th" and attributes.get("scope") not in ("row", "col"):
            self.wrong.append("a th without scope")
        self.open += [tag] if tag != "img" else []

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"unbalanced {tag}")


def wrong_parts(fragment):
    checker = Checker()
    checker.feed(fragment)
    return checker.wrong + checker.open


def test_the_checker_can_fail():
    for bad in (
        "<style>a{}</style>",
        '<td style="color:red">x</td>',
        '<div class="a">',
        '<div style="color:var(--jp-a)">',
        "<svg></svg>",
        "<div>",
    ):
        assert wrong_parts(bad)


@pytest.mark.parametrize("line", SHOWN)
def test_bundle(shell, line):
    (bundle,) = shell.magic(line)
    vendor = [name for name in bundle if name.startswith("application/")]
    assert set(bundle) == {"text/plain", "text/markdown", "text/html", *vendor} and len(vendor) == 1
    report = bundle[vendor[0]]
    assert vendor[0] == f"application/vnd.dyno.{report['kind']}.v1+json" and report["schema"] == "dyno.report/1"
    assert json.loads(json.dumps(report)) == report
    assert wrong_parts(bundle["text/html"]) == []
    assert "\x1b" not in bundle["text/plain"] and max(map(len, bundle["text/plain"].splitlines())) <= 100
    assert not re.search(r"0x[0-9a-f]{6,}", bundle["text/plain"])


@pytest.mark.parametrize("line", TEXT_ONLY)
def test_text_only(shell, line):
    (bundle,) = shell.magic(line)
    assert set(bundle) == {"text/plain"} and bundle["text/plain"].strip()


@pytest.mark.parametrize("line", [line for line in SHOWN if "\n" not in line])
def test_json_stands_beside_text_alone(shell, line):
    (bundle,) = shell.magic(line + " --json")
    assert set(bundle) == {"text/plain", "application/json"}


def test_quiet_shows_nothing_and_gives_the_value(shell):
    assert shell.magic("r = %dyno explain f -q") == []
    assert shell.ip.user_ns["r"].report["function"]["name"] == "f"
    assert shell.magic("%dyno explain f -q") == []


def test_value_is_shown_once_in_its_cell_and_again_later(shell):
    assert len(shell.magic("r = %dyno explain f")) == 1
    assert len(shell.magic("r")) == 1
    assert len(shell.magic("%dyno explain f")) == 1
    assert set(shell.ip.user_ns["r"]._repr_mimebundle_()) >= {"text/plain", "text/html"}


def test_svg_only_when_asked(shell):
    (bundle,) = shell.magic("%dyno graph f --svg")
    assert bundle["image/svg+xml"].startswith("<svg") and "<title>f, part 0</title>" in bundle["image/svg+xml"]
    assert "<desc>Graph of f: 3 operations in 1 kernel, 2 inputs, 1 result.</desc>" in bundle["image/svg+xml"]


def test_without_graphviz_the_table_stays(shell, core):
    core.draw_svg = lambda dot: None
    (bundle,) = shell.magic("%dyno graph f")
    assert "<img" not in bundle["text/html"] and "Graphviz's library (libgvc) is not installed" in bundle["text/plain"]
    assert "relu" in bundle["text/html"]


def test_users_text_cannot_become_markup(shell, core):
    core.by_name["f"]["lines"][1]["text"] = "    y = '<b onclick=x>' | `a` \\ </td><script>"
    (bundle,) = shell.magic("%dyno explain f")
    assert "<b" not in bundle["text/html"] and "<script" not in bundle["text/html"]
    row = next(line for line in bundle["text/markdown"].splitlines() if "onclick" in line)
    assert row.count("|") - row.count("\\|") == 4  # three cells still


def test_cell_explain_runs_the_cell_through_the_core(shell, core):
    import fake_core

    core.by_name["<module>"] = {**fake_core.load("chain"), "lines": [{"line": 2, "text": None, "status": "compiled", "kernels": []}]}
    core.by_name["<module>"]["function"] = {"name": "<module>", "file": None, "state": "compiled", "first_line": 1, "last_line": 4}
    entered = len(core.cells)
    count = shell.run("%%dyno explain\nq = 20\nq += 1\nq * 2").execution_count
    value = shell.shown[-1]
    assert shell.ip.user_ns["q"] == 21 and value["text/plain"].startswith("this cell")
    assert len(core.cells) - entered == 3  # the cell of the magic, its statements, its last expression
    names = [name for name, number in shell.ip.compile._filename_map.items() if number == count]
    assert len(names) == 2  # the body counts as the cell that the user sees


def test_arguments_compile_a_function_that_was_not_called(shell, core):
    import fake_core

    core.after_call["h"] = {**fake_core.load("chain"), "function": {**fake_core.load("chain")["function"], "name": "h"}}
    assert shell.plain("%dyno guards h(3)").startswith("h (In [4], line 1): compiled, 1 kernel")


def test_source_text_and_cell_come_from_the_shell(shell, core):
    f = shell.ip.user_ns["f"]
    report = core.by_name["f"]
    report["function"].update(file=f.__code__.co_filename, cell=None)
    report["lines"] = [{"line": 2, "text": None, "status": "fused", "kernels": [0]}]
    shown = shell.plain("%dyno explain f")
    assert "return a + b" in shown
    assert shown.startswith(f"f (In [{shell.ip.compile._filename_map[f.__code__.co_filename]}], line 1)")


def test_a_module_is_explained_by_layer(shell, core):
    pytest.importorskip("torch")
    import fake_core

    shell.run(
        "import torch\nnet = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))"
    )
    core.by_name["Sequential"] = core.by_name["forward"] = fake_core.load("chain")
    (bundle,) = shell.magic("%dyno explain net")
    report = bundle["application/vnd.dyno.explain.v1+json"]
    assert [(row["class"], row["paths"]) for row in report["layers"]] == [("Linear", ["0", "2", "3"]), ("ReLU", ["1"])]
    assert "0 ... 3 (3)" in bundle["text/plain"]


def test_a_library_s_decorator_does_not_stand_for_the_layer(shell, core):
    pytest.importorskip("torch")
    import fake_core

    shell.run(
        "import functools, torch\n"
        "def wrapper(forward):\n    return functools.wraps(forward)(lambda self, *args: forward(self, *args))\n"
        "class Block(torch.nn.Module):\n    @wrapper\n    def forward(self, x): return x\n"
        "net = torch.nn.Sequential(Block(), Block())"
    )
    asked = []
    report = core.report
    core.report = lambda kind, target, options: asked.append(target) or report(kind, target, options)
    core.by_name["Sequential"] = core.by_name["Block"] = core.by_name["forward"] = fake_core.load("chain")
    shell.magic("%dyno explain net")
    assert asked[-1] is shell.ip.user_ns["Block"].forward.__wrapped__


def test_functions_of_libraries_are_folded_away():
    from dyno.magics import status

    rows = [
        {"name": "helper", "file": "/lib/library.py", "first_line": 3, "state": "interpreted"},
        {"name": "seen", "cell": 2, "first_line": 1, "state": "interpreted"},
        {"name": "few", "file": "/lib/library.py", "first_line": 9, "state": "compiled", "hits": 2},
        {"name": "many", "cell": 1, "first_line": 1, "state": "compiled", "hits": 9},
    ]
    shown, folded = status.function_tables(rows)
    assert [row[0].text for row in shown.rows] == ["many", "few", "seen"]
    assert folded.summary.startswith("1 function") and [row[0].text for row in folded.blocks[0].rows] == ["helper"]


def test_long_functions_are_shortened_where_nothing_happens():
    from dyno.magics import explain

    quiet = [{"line": number, "text": f"quiet {number}"} for number in range(1, 46)]
    quiet[9]["status"] = "fused"
    report = {"function": {"name": "long", "state": "compiled"}, "lines": quiet}
    shown = [row[1].text for row in explain.line_table(report, (), whole=False).rows]
    assert shown == ["... 9 lines", "quiet 10", "... 35 lines"]
    assert len(explain.line_table(report, ()).rows) == 45


def test_a_number_is_an_operand_not_an_operation():
    from dyno.magics import graph

    nodes = [{"id": 1, "op": "expand", "args": [{"value": 2}]}, {"id": 2, "op": "mul", "args": [0, 1]}, {"id": 3, "op": "expand", "args": [2]}]
    shown = graph.as_written({"graph": {"inputs": [0], "nodes": nodes, "outputs": [3]}})["graph"]["nodes"]
    assert [(node["op"], node["args"]) for node in shown] == [("mul", [0, {"value": 2}]), ("expand", [2])]


def test_views_and_numbers_are_no_library_calls():
    from dyno.magics import graph

    words = {op: graph.elsewhere({"op": op}) for op in ("permute", "scalar", "torch.matmul")}
    assert words == {"permute": "view", "scalar": "", "torch.matmul": "library call"}


def with_nulls(value):
    """The report with every optional field present and empty."""
    optional = (
        "reason",
        "hint",
        "note",
        "line",
        "stack",
        "callees",
        "reasons",
        "memory",
        "code_bytes",
        "events",
        "cell",
        "not_fused",
        "bytes",
    )
    if isinstance(value, list):
        return [with_nulls(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {**dict.fromkeys(optional), **{key: with_nulls(item) for key, item in value.items()}}


@pytest.mark.parametrize(
    "line", ["%dyno explain step -v", "%dyno why step", "%dyno graph step", "%dyno guards step --all", "%dyno explain g"]
)
def test_empty_fields_are_as_good_as_absent_ones(shell, core, line):
    before = shell.plain(line)
    core.by_name = {name: with_nulls(report) for name, report in core.by_name.items()}
    assert shell.plain(line) == before


def test_lsmagic_lists_it_and_automagic_leaves_a_variable(shell):
    assert "dyno" in shell.ip.magics_manager.magics["line"] and "dyno" in shell.ip.magics_manager.magics["cell"]
    shell.run("dyno = 3")
    shell.run("seen = dyno + 1\ndyno")
    assert shell.ip.user_ns["seen"] == 4 and shell.ip.user_ns["_"] == 3


def test_help_names_every_command_and_option(shell):
    from dyno.magics.table import COMMANDS

    overview, doc = shell.plain("%dyno help"), shell.ip.magics_manager.magics["line"]["dyno"].__doc__
    for command in COMMANDS:
        assert f"%dyno {command.name}" in overview and f"%dyno {command.name}" in doc
        page = shell.plain(f"%dyno help {command.name}")
        assert all(option.name in page for option in command.all_options())
    assert doc.count("\n  %dyno") >= 5


def test_question_mark_appends_two_lines(shell):
    found = shell.ip.inspector.info(shell.ip.user_ns["step"], "step")
    assert found["docstring"].splitlines()[-2:] == ["Compiled: 2 parts, 2 breaks.", "See %dyno explain step"]
    assert "Compiled" not in shell.ip.inspector.info(shell.ip.user_ns["g"], "g")["docstring"]
