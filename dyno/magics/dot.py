"""A report's graph as text for Graphviz, and the finished picture.

Input: one entry's graph and kernels. Output: DOT text with every label escaped and at most 300 nodes; above that kernels stand for
their operations. The layout itself is the core's (``draw_svg``).
"""

import re
from html import escape

from dyno.magics.facts import count, dims

MOST_NODES = 300
MOST_BYTES = 200_000
LONGEST_LABEL = 60
FUSED_FILL, PLAIN_FILL, INPUT_FILL, FRAME, INK = "#d7f0dd", "#eceff3", "#ffffff", "#8a8f98", "#1b2027"


def quoted(words):
    """One label as a DOT string: no quote, backslash or line break of the user's can end it."""
    words = words if len(words) <= LONGEST_LABEL else words[: LONGEST_LABEL - 1] + "…"
    clean = "".join(character if character.isprintable() else " " for character in words)
    # Graphviz reads character entities, so the ampersand is one too.
    return '"' + clean.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') + '"'


def label(*lines):
    """Several escaped lines as one DOT string."""
    return '"' + "\\n".join(quoted(line)[1:-1] for line in lines if line) + '"'


def inputs_of(graph):
    """Input id -> what is known of it; plain ids are allowed."""
    rows = [item if isinstance(item, dict) else {"id": item} for item in graph.get("inputs", ())]
    return {row["id"]: {"name": f"input {row['id']}", **row} for row in rows}


def value_name(graph, number):
    """``a`` for an input, ``%3`` for a node."""
    known = inputs_of(graph)
    return known[number]["name"] if number in known else f"%{number}"


def picked(entry, kernel):
    """The entry with only the operations of one kernel, or all of them."""
    if kernel is None:
        return entry
    graph = entry["graph"]
    known = inputs_of(graph)
    nodes = [node for node in graph["nodes"] if node.get("kernel") == kernel]
    made = {node["id"] for node in nodes}
    by_id = {node["id"]: node for node in graph["nodes"]}
    needed = [number for number in dict.fromkeys(arg for node in nodes for arg in arguments(node)) if number not in made]
    inputs = [known.get(number) or {**by_id.get(number, {}), "id": number, "name": f"%{number}"} for number in needed]
    used = {arg for node in graph["nodes"] if node["id"] not in made for arg in arguments(node)} | set(graph.get("outputs", ()))
    outputs = [number for number in (node["id"] for node in nodes) if number in used]
    return {
        **entry,
        "graph": {"inputs": inputs, "nodes": nodes, "outputs": outputs},
        "kernels": [row for row in entry["kernels"] if row["id"] == kernel],
    }


def arguments(node):
    """The operands that are values; literals are strings or dicts."""
    return [arg for arg in node.get("args", ()) if isinstance(arg, int) and not isinstance(arg, bool)]


def condensed(entry):
    """Kernels in place of operations; library calls stay alone."""
    graph = entry["graph"]
    owner = {}
    for node in graph["nodes"]:
        owner[node["id"]] = f"k{node['kernel']}" if node.get("kernel") is not None else f"n{node['id']}"
    boxes, edges = {}, {}
    for node in graph["nodes"]:
        box = boxes.setdefault(owner[node["id"]], {"nodes": [], "kernel": node.get("kernel")})
        box["nodes"].append(node)
        for arg in arguments(node):
            source = owner.get(arg, f"i{arg}")
            if source != owner[node["id"]]:
                edges[source, owner[node["id"]]] = None
    return boxes, list(edges)


def size(entry):
    """Boxes in a picture of every operation."""
    graph = entry["graph"]
    return len(graph["nodes"]) + len(inputs_of(graph)) + len(graph.get("outputs", ()))


def dot(entry, stage, condense):
    """DOT text for one entry at one stage; with ``condense``, kernels in place of operations."""
    lines = condensed_lines(entry) if condense else operation_lines(entry, stage)
    return "\n".join([*head(), *lines, "}"])


def head():
    """The looks of the whole picture: opaque, the same in light and dark pages."""
    return [
        "digraph dyno {",
        f'graph [bgcolor="#ffffff", rankdir=TB, fontname="Helvetica", fontsize=10, fontcolor="{INK}", pad=0.2, nodesep=0.25, ranksep=0.35]',
        f'node [shape=box, style="filled", fillcolor="{PLAIN_FILL}", color="{FRAME}", fontcolor="{INK}", fontname="Helvetica"]',
        'node [fontsize=10, height=0.3, margin="0.12,0.06"]',
        f'edge [color="{FRAME}", arrowsize=0.6]',
    ]


def input_lines(graph):
    """Input boxes."""
    return [f'i{number} [label={label(row["name"], dims(row))}, fillcolor="{INPUT_FILL}"]' for number, row in inputs_of(graph).items()]


def operation_lines(entry, stage):
    """Every operation; at stage ``fused`` those of one kernel in one frame."""
    graph = entry["graph"]
    lines = input_lines(graph)
    for kernel in sorted({node["kernel"] for node in graph["nodes"] if node.get("kernel") is not None}) if stage == "fused" else ():
        inside = " ".join(f"n{node['id']};" for node in graph["nodes"] if node.get("kernel") == kernel)
        frame = f'label={label(f"K{kernel}")}; labeljust=l; labelloc=b; style="filled"; color="{FRAME}"; fillcolor="{FUSED_FILL}";'
        lines.append(f"subgraph cluster_{kernel} {{ {frame} {inside} }}")
    names = inputs_of(graph)
    for node in graph["nodes"]:
        fill = f', fillcolor="{FUSED_FILL}"' if node.get("kernel") is not None else ""
        spot = f"line {node['line']}" if node.get("line") is not None else ""
        lines.append(f"n{node['id']} [label={label(node['op'], dims(node), spot)}{fill}]")
        lines.extend(f"{'i' if arg in names else 'n'}{arg} -> n{node['id']}" for arg in arguments(node))
    for position, number in enumerate(graph.get("outputs", ())):
        lines.append(
            f'o{position} [label={label("result" if len(graph["outputs"]) == 1 else f"result {position}")}, fillcolor="{INPUT_FILL}"]'
        )
        lines.append(f"{'i' if number in names else 'n'}{number} -> o{position}")
    return lines


def condensed_lines(entry):
    """One box a kernel; if even those are too many, the first 300."""
    boxes, edges = condensed(entry)
    kept = dict(list(boxes.items())[:MOST_NODES])
    lines = []
    for name, box in kept.items():
        if box["kernel"] is None:
            lines.append(f"{name} [label={label(box['nodes'][0]['op'], dims(box['nodes'][0]))}]")
        else:
            ops = ", ".join(dict.fromkeys(node["op"] for node in box["nodes"]))
            words = label(f"kernel K{box['kernel']}", count(len(box["nodes"]), "operation"), ops)
            lines.append(f'{name} [label={words}, fillcolor="{FUSED_FILL}"]')
    return lines + [f"{source} -> {to}" for source, to in edges if source in kept and to in kept]


def compact(svg):
    """The SVG without what no reader sees: comments, names of boxes and arrows, and looks that all texts share."""
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"<title>.*?</title>", "", svg, flags=re.S)
    svg = re.sub(r' (?:id|class)="[^"]*"', "", svg)
    shared = ' text-anchor="middle" font-family="Helvetica,sans-Serif" font-size="10.00"'
    for part in shared.split(" ")[1:]:
        svg = svg.replace(" " + part, "")
    return re.sub(r"\n+", "\n", svg.replace("<svg", "<svg" + shared, 1)).strip()


def titled(svg, title, sentence):
    """The SVG with a title and a description as its first children."""
    start = svg.find("<svg")
    end = svg.find(">", start) + 1
    return f"{svg[start:end]}<title>{escape(title)}</title><desc>{escape(sentence)}</desc>{svg[end:]}" if start >= 0 else svg
