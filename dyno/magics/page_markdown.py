"""A page as Markdown: the same tables, for screen readers and for exports."""

from dyno.magics.page import Chips, Fold, Listing, Page, Picture, Say, Table

ESCAPED = str.maketrans({character: "\\" + character for character in "\\`*_{}[]<>#|~$"})


def markdown(page: Page) -> str:
    """The whole page; ends with one line break."""
    return "\n\n".join([f"**{escape(page.title)}**"] + [block_markdown(block) for block in page.blocks]) + "\n"


def escape(words):
    """Plain words, with nothing that Markdown or HTML would read as its own."""
    return words.replace("\n", " ").translate(ESCAPED)


def block_markdown(block):
    """One block."""
    match block:
        case Say(sentence):
            return escape(sentence)
        case Chips(items):
            return " · ".join(escape(words) for words, _ in items)
        case Listing(lines):
            fence = "`" * max(3, longest_ticks("\n".join(lines)) + 1)
            return "\n".join([fence + "text", *lines, fence])
        case Table():
            return table_markdown(block)
        case Picture(_, sentence):
            return f"*Picture: {escape(sentence)}*"
        case Fold(summary, blocks):
            return "\n\n".join([f"**{escape(summary)}**"] + [block_markdown(inner) for inner in blocks])
    raise TypeError(type(block).__name__)


def table_markdown(block):
    """A pipe table under its caption."""
    head = "| " + " | ".join(escape(name) for name in block.columns) + " |"
    rule = "|" + "|".join(" ---: " if name in block.right else " :--- " for name in block.columns) + "|"
    rows = ["| " + " | ".join(cell_markdown(cell) for cell in row) + " |" for row in block.rows]
    return "\n".join([f"*{escape(block.caption)}*", "", head, rule, *rows])


def cell_markdown(cell):
    """One cell on one line."""
    if not cell.code or not cell.text.strip():
        return escape(cell.text)
    ticks = "`" * (longest_ticks(cell.text) + 1)
    spaced = f" {cell.text} " if ticks != "`" or cell.text.startswith(" ") else cell.text
    return ticks + spaced.replace("|", "\\|") + ticks


def longest_ticks(words):
    """Length of the longest run of backticks."""
    longest = run = 0
    for character in words:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
