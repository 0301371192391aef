"""A page as plain text: complete, at most 100 columns, no escape codes."""

import textwrap

from dyno.magics.page import Chips, Fold, Listing, Page, Picture, Say, Table

WIDTH = 100
GAP = "  "
NARROWEST = 8  # any column keeps at least this many characters
PROSE = 28  # a column of prose is not narrowed below this for the sake of code


def text(page: Page) -> str:
    """The whole page; ends without a line break."""
    parts = [wrapped(page.title, "")] + [block_text(block, "") for block in page.blocks]
    return "\n\n".join(part for part in parts if part)


def wrapped(sentence, indent):
    """One paragraph within the width; later lines indented by two more."""
    lines = textwrap.wrap(sentence, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False)
    return "\n".join(lines) or indent


def block_text(block, indent):
    """One block, each line indented."""
    match block:
        case Say(sentence):
            return wrapped(sentence, indent)
        case Chips(items):
            return wrapped(" | ".join(words for words, _ in items), indent)
        case Listing(lines):
            return "\n".join(piece for line in lines for piece in folded(line, WIDTH - len(indent), indent))
        case Table():
            return table_text(block, indent)
        case Picture(_, sentence):
            return wrapped(f"[picture: {sentence}]", indent)
        case Fold(summary, blocks):
            return "\n".join([wrapped(summary, indent)] + [block_text(inner, indent + "  ") for inner in blocks])
    raise TypeError(type(block).__name__)


def folded(line, width, indent=""):
    """A line of code in pieces that fit, spaces kept."""
    return [indent + line[start : start + width].rstrip() for start in range(0, max(len(line), 1), width)]


def table_text(block, indent):
    """The caption, the head and the rows; wide columns are wrapped until the table fits."""
    widths = column_widths(block, WIDTH - len(indent))
    lines = [wrapped(block.caption, indent)] if block.caption else []
    lines.append(indent + row_line(block.columns, widths, block))
    for row in block.rows:
        columns = [cell_lines(cell, width) for cell, width in zip(row, widths)]
        for index in range(max(map(len, columns))):
            pieces = [column[index] if index < len(column) else "" for column in columns]
            lines.append(indent + row_line(pieces, widths, block))
    return "\n".join(line.rstrip() for line in lines)


def cell_lines(cell, width):
    """A cell's text in lines of at most ``width``; code keeps its spaces."""
    if cell.code:
        return folded(cell.text, width)
    return textwrap.wrap(cell.text, width, break_on_hyphens=False) or [""]


def column_widths(block, room):
    """Natural widths; prose columns are narrowed first, code only where that is not enough."""
    widths = [max([len(name)] + [len(row[index].text) for row in block.rows]) for index, name in enumerate(block.columns)]
    code = {index for index in range(len(widths)) if any(row[index].code for row in block.rows)}
    room -= len(GAP) * (len(widths) - 1)
    narrow(widths, [index for index in range(len(widths)) if index not in code], room, PROSE)
    narrow(widths, list(range(len(widths))), room, NARROWEST)
    return widths


def narrow(widths, columns, room, least):
    """Takes width from the widest of these columns until all fit or each is at ``least``."""
    while sum(widths) > room and any(widths[index] > least for index in columns):
        widest = max(columns, key=lambda index: widths[index])
        second = max([widths[index] for index in columns if index != widest], default=least)
        widths[widest] = max(widths[widest] - (sum(widths) - room), min(second, widths[widest] - 1), least)


def row_line(pieces, widths, block):
    """One printed line of a row."""
    placed = [
        piece.rjust(width) if name in block.right else piece.ljust(width) for piece, width, name in zip(pieces, widths, block.columns)
    ]
    return GAP.join(placed)
