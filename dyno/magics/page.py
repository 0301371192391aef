"""What a display says, without how it looks: the product that every magic makes and every renderer reads.

A page is a title and blocks. Status words are in the texts themselves; a tone only repeats them in colour.
"""

from dataclasses import dataclass, field

FUSED, BREAK, INTERPRETED = "fused", "break", "interpreted"  # the three tones


@dataclass(frozen=True)
class Cell:
    """One table cell. ``code`` keeps spaces and uses a fixed-width font; ``bar`` draws a share between 0 and 1 under the text."""

    text: str
    tone: str | None = None
    code: bool = False
    bar: tuple | None = None  # (lower quartile, upper quartile) as shares of the widest bar


@dataclass(frozen=True)
class Say:
    """One paragraph."""

    text: str
    tone: str | None = None


@dataclass(frozen=True)
class Chips:
    """Short facts in one line: (text, tone) pairs."""

    items: tuple


@dataclass(frozen=True)
class Listing:
    """Fixed-width text whose line breaks are kept."""

    lines: tuple


@dataclass(frozen=True)
class Table:
    """Rows of cells under named columns. ``right`` names columns of numbers. The first column heads its row."""

    caption: str
    columns: tuple
    rows: tuple
    right: frozenset = frozenset()


@dataclass(frozen=True)
class Picture:
    """An SVG text and one sentence that says what it shows."""

    svg: str
    sentence: str


@dataclass(frozen=True)
class Fold:
    """Blocks that HTML shows on demand; the other forms show them under the summary."""

    summary: str
    blocks: tuple


@dataclass(frozen=True)
class Page:
    """A title and blocks, in reading order."""

    title: str
    blocks: tuple = field(default=())


def table(caption, columns, rows, right=()):
    """A table from plain values and cells; ``None`` is an empty cell. Columns with nothing in any row are left out."""
    made = [[cell if isinstance(cell, Cell) else Cell("" if cell is None else str(cell)) for cell in row] for row in rows]
    kept = [index for index in range(len(columns)) if index == 0 or not made or any(row[index].text for row in made)]
    shown = tuple(tuple(row[index] for index in kept) for row in made)
    return Table(caption, tuple(columns[index] for index in kept), shown, frozenset(right))
