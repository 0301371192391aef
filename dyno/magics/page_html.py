"""A page as HTML that survives every front end.

Only what an untrusted notebook keeps: tables with scope and caption, details, inline styles with plain colours, data-URI images
with alt. No style or script element, no class, no id, no variables; a coloured cell sets both its background and its text.
"""

import base64
from html import escape

from dyno.magics.page import BREAK, FUSED, INTERPRETED, Chips, Fold, Listing, Page, Picture, Say, Table

FRAME = "#8a8f98"
PALETTE = {FUSED: ("#0b3d1e", "#d7f0dd"), BREAK: ("#6d140b", "#ffe2de"), INTERPRETED: ("#2f3a46", "#eceff3")}  # (text, background)
CODE = "font-family:monospace;white-space:pre"


def html(page: Page) -> str:
    """The whole page as one fragment."""
    blocks = "".join(block_html(block) for block in page.blocks)
    return f'<div style="text-align:left"><div style="font-weight:bold">{escape(page.title)}</div>{blocks}</div>'


def colours(tone):
    """The style of a tone, or nothing."""
    if tone is None:
        return ""
    front, back = PALETTE[tone]
    return f"color:{front};background-color:{back}"


def style(*parts):
    """A style attribute from its parts."""
    return f' style="{";".join(part for part in parts if part)}"'


def block_html(block):
    """One block."""
    match block:
        case Say(sentence, tone):
            return f"<div{style('margin:6px 0', 'padding:2px 8px' if tone else '', colours(tone))}>{escape(sentence)}</div>"
        case Chips(items):
            return f'<div style="margin:6px 0">{" ".join(chip(words, tone) for words, tone in items)}</div>'
        case Listing(lines):
            return f"<div{style('margin:6px 0', 'overflow-x:auto', CODE)}>{escape(chr(10).join(lines))}</div>"
        case Table():
            return table_html(block)
        case Picture(svg, sentence):
            data = base64.b64encode(svg.encode()).decode()
            return f'<div style="margin:6px 0;overflow-x:auto"><img alt="{escape(sentence)}" src="data:image/svg+xml;base64,{data}"></div>'
        case Fold(summary, blocks):
            return f"<details><summary>{escape(summary)}</summary>{''.join(block_html(inner) for inner in blocks)}</details>"
    raise TypeError(type(block).__name__)


def chip(words, tone):
    """A short fact in a frame."""
    return f"<span{style('padding:1px 8px', f'border:1px solid {FRAME}', colours(tone))}>{escape(words)}</span>"


def table_html(block):
    """A real table: caption, column heads and row heads with scope."""
    edge = f"border:1px solid {FRAME}"
    head = "".join(f'<th scope="col"{style(align(block, name), "padding:2px 8px", edge)}>{escape(name)}</th>' for name in block.columns)
    rows = "".join(
        f"<tr>{''.join(cell_html(block, name, cell, index == 0) for index, (name, cell) in enumerate(zip(block.columns, row)))}</tr>"
        for row in block.rows
    )
    caption = (
        f'<caption style="text-align:left;white-space:nowrap;padding:2px 0">{escape(block.caption)}</caption>' if block.caption else ""
    )
    return (
        '<div style="overflow-x:auto;margin:6px 0"><table style="border-collapse:collapse">'
        f"{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def align(block, name):
    """Numbers to the right, the rest explicitly to the left: front ends differ in their defaults."""
    return "text-align:right" if name in block.right else "text-align:left"


def cell_html(block, name, cell, heads):
    """One cell; the first of a row is its head."""
    looks = style(
        align(block, name),
        "vertical-align:top",
        "padding:2px 8px",
        f"border:1px solid {FRAME}",
        "font-weight:normal" if heads else "",
        CODE if cell.code else "",
        colours(cell.tone),
    )
    inner = escape(cell.text) + (bar(*cell.bar, cell.tone) if cell.bar else "")
    return f'<th scope="row"{looks}>{inner}</th>' if heads else f"<td{looks}>{inner}</td>"


def bar(lower, upper, tone):
    """A strip up to the lower quartile, a lighter part up to the upper one."""
    front = PALETTE[tone or INTERPRETED][0]
    first, second = f"{100 * lower:.1f}%", f"{100 * upper:.1f}%"
    shades = f"linear-gradient(to right, {front} 0%, {front} {first}, {FRAME} {first}, {FRAME} {second}, #ffffff {second}, #ffffff 100%)"
    return f'<div style="width:160px;height:8px;border:1px solid {FRAME};background:{shades}"></div>'
