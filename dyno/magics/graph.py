"""``%dyno graph f``: the graph of each compiled part as a picture and a table."""

import dataclasses

from dyno import _backend
from dyno.magics import dot, facts
from dyno.magics.errors import UsageError
from dyno.magics.page import FUSED, Cell, Fold, Page, Picture, Say, table
from dyno.magics.request import describe

STAGES = ("capture", "fused")


def run(request):
    """The result for the request's target; ``--svg`` adds the raw picture of the first part."""
    result = describe(request, "graph", lambda report, options: page(report, options, _backend.core.draw_svg))
    if request.options.get("svg"):
        result.form = "svg"
        result.svg = next((block.svg for block in result.page.blocks if isinstance(block, Picture)), None)
        if result.svg is None and result.report.get("entries"):
            note = Say("--svg: there is no picture to give")
            result.page = dataclasses.replace(result.page, blocks=(*result.page.blocks, note))
    return result


def page(report, options, draw):
    """Picture and table of each entry. ``draw`` makes SVG text from DOT text, or returns ``None``."""
    stop = facts.early(report, "graph")
    if stop is not None:
        return stop
    stage, kernel = options.get("stage", "fused"), options.get("kernel")
    check_kernel(report, kernel)
    entries = [dot.picked(as_written(entry), kernel) for entry in report["entries"] if entry.get("graph")]
    entries = [entry for entry in entries if kernel is None or entry["graph"]["nodes"]]
    blocks, room = list(facts.redefinition(report)), dot.MOST_BYTES
    can_draw = draw("digraph { a }") is not None
    for entry in entries:
        made = picture(report, entry, stage, draw, room) if can_draw and entry["graph"]["nodes"] else ()
        room -= sum(len(block.svg) for block in made if isinstance(block, Picture))
        blocks.extend(made)
        blocks.extend(tables(report, entry, stage))
    if not can_draw:
        blocks.append(Say("No picture: Graphviz's library (libgvc) is not installed here. The tables are complete."))
    return Page(facts.title(report), tuple(blocks))


def as_written(entry):
    """The entry without the steps that only give a number the shape of its partner: ``z * 2`` is one operation to its writer."""
    graph, numbers, kept = entry["graph"], {}, []
    for node in graph["nodes"]:
        args = [numbers.get(arg, arg) if isinstance(arg, int) else arg for arg in node.get("args", ())]
        if node["op"] == "expand" and args and isinstance(args[0], dict) and node["id"] not in graph.get("outputs", ()):
            numbers[node["id"]] = args[0]
        else:
            kept.append({**node, "args": args})
    return {**entry, "graph": {**graph, "nodes": kept}}


def check_kernel(report, kernel):
    """Raises for a kernel that the function does not have."""
    have = [row["id"] for row in facts.kernels(report)]
    if kernel is not None and kernel not in have:
        raise UsageError(facts.having(report["function"]["name"], ("kernel", "kernels"), have))


def picture(report, entry, stage, draw, room):
    """The picture within ``room`` bytes: of operations, else of kernels, with a sentence that says so; else a sentence alone."""
    sentence = summary(report, entry, stage)
    condense = dot.size(entry) > dot.MOST_NODES
    for condensed in (True,) if condense else (False, True):
        svg = draw(dot.dot(entry, stage, condensed))
        if svg is None:
            continue
        svg = dot.titled(dot.compact(svg), f"{report['function']['name']}, part {entry['id']}", sentence)
        if len(svg) <= room:
            why = f"More than {dot.MOST_NODES} operations" if condense else "Too large for a notebook as operations"
            return (Picture(svg, sentence), *((Say(f"{why}: the picture shows kernels, the table every operation."),) if condensed else ()))
    return (Say(f"Part {entry['id']} has no picture: it would be too large for a notebook. The tables are complete."),)


def summary(report, entry, stage):
    """The picture in one sentence."""
    graph = entry["graph"]
    operations = facts.count(len(graph["nodes"]), "operation")
    shape = f"in {facts.count(len(entry['kernels']), 'kernel')}" if stage == "fused" else "as captured"
    ends = f"{facts.count(len(dot.inputs_of(graph)), 'input')}, {facts.count(len(graph.get('outputs', ())), 'result')}"
    return f"Graph of {report['function']['name']}: {operations} {shape}, {ends}."


def tables(report, entry, stage):
    """The kernels (at stage ``fused``) and every operation."""
    graph, part = entry["graph"], f"part {entry['id']}{facts.owner(entry)}"
    rows = [node_row(graph, node) for node in graph["nodes"]]
    columns = ("value", "operation", "from", "type", "line", "kernel")
    if stage != "fused":  # nothing is in a kernel yet
        return (table(f"Operations of {part}", columns[:-1], [row[:-1] for row in rows], right=("line",)),)
    nodes = table(f"Operations of {part}", columns, rows, right=("line",))
    rows = [kernel_row(graph, kernel) for kernel in entry["kernels"]]
    fused = table(
        f"Kernels of {part}",
        ("kernel", "operations", "lines", "bytes moved", "not fused with its neighbours because"),
        rows,
        right=("bytes moved",),
    )
    return (fused, Fold(f"{facts.count(len(graph['nodes']), 'operation')} one by one", (nodes,))) if rows else (nodes,)


def node_row(graph, node):
    """One operation."""
    operands = ", ".join(
        dot.value_name(graph, arg) if isinstance(arg, int) and not isinstance(arg, bool) else literal(arg) for arg in node.get("args", ())
    )
    kernel = node.get("kernel")
    where = Cell(elsewhere(node) if kernel is None else f"K{kernel}", FUSED if kernel is not None else None)
    return (
        f"%{node['id']}",
        Cell(node["op"], code=True),
        Cell(operands, code=True),
        facts.dims(node),
        line_of(node),
        where,
    )


def line_of(node):
    """``4``, or ``g:4`` for a line of another function."""
    if node.get("line") is not None:
        return node["line"]
    return f"{node['at']['function']}:{node['at']['line']}" if node.get("at") else ""


def elsewhere(node):
    """What an operation without a kernel is: a number of the program, another name for data that is there, or a call."""
    if node["op"] in ("scalar", "extern_result"):
        return ""
    return "view" if node["op"] in ("reshape", "permute", "expand", "slice") else "library call"


def literal(arg):
    """An operand that is no value: a number or a name in the report's own form."""
    return str(arg.get("value", arg.get("name", ""))) if isinstance(arg, dict) else str(arg)


def lines_of(nodes):
    """``3-4, 7``, and ``; in g: 2`` for lines of other functions."""
    here = facts.ranges(node["line"] for node in nodes if node.get("line") is not None)
    others = {}
    for node in nodes:
        if node.get("line") is None and node.get("at"):
            others.setdefault(node["at"]["function"], []).append(node["at"]["line"])
    return "; ".join([*([here] if here else []), *(f"in {name}: {facts.ranges(lines)}" for name, lines in others.items())])


def kernel_row(graph, kernel):
    """One kernel."""
    inside = [node for node in graph["nodes"] if node["id"] in set(kernel["nodes"])]
    ops = ", ".join(node["op"] for node in inside)
    lines = lines_of(inside)
    missed = "; ".join(dict.fromkeys(miss["reason"] for miss in kernel.get("not_fused", ())))
    size = kernel.get("bytes")
    return (Cell(f"K{kernel['id']}", FUSED), ops, lines, "" if size is None else f"{size:,}", missed)
