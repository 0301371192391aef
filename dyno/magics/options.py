"""Options of commands as rows, and the parser over them.

Input: words and the rows of one command. Output: the values by name and the words that are no options. The same rows make the
help text and the completion.
"""

from dataclasses import dataclass

from dyno.magics.errors import UsageError, similar


@dataclass(frozen=True)
class Option:
    """``value`` is the placeholder of its value, or None for a switch; ``kind`` converts it; ``choices`` limit it."""

    name: str
    meaning: str
    short: str | None = None
    value: str | None = None
    kind: type = str
    choices: tuple = ()
    many: bool = False  # a list with commas

    @property
    def key(self):
        """The name as an identifier."""
        return self.name.lstrip("-").replace("-", "_")

    def spelling(self):
        """As the user writes it."""
        both = f"{self.short}, {self.name}" if self.short else self.name
        return f"{both} {self.value}" if self.value else both


JSON = Option("--json", "data only: application/json and text")
QUIET = Option("--quiet", "no output, value only", short="-q")


def looks_like_option(word):
    """``-v`` and ``--all``, not ``-1`` or ``-x`` inside an expression."""
    return len(word) > 1 and word[0] == "-" and (word[1] == "-" or word[1].isalpha())


def parse(command, rows, words):
    """Returns (values by key, other words). Raises UsageError in the command's name."""
    by_spelling = {spelling: row for row in rows for spelling in (row.name, row.short) if spelling}
    values, others, pending = {}, [], list(words)
    while pending:
        word = pending.pop(0)
        if not looks_like_option(word):
            others.append(word)
            continue
        name, equals, attached = word.partition("=")
        row = by_spelling.get(name)
        if row is None:
            raise UsageError(unknown(command, rows, name))
        values[row.key] = option_value(row, name, attached if equals else None, pending)
    return values, others


def option_value(row, name, attached, pending):
    """The value of one option, taken from ``--name=value`` or from the next word."""
    if row.value is None:
        if attached is not None:
            raise UsageError(f"{name} takes no value")
        return True
    if attached is None:
        if not pending or looks_like_option(pending[0]):
            raise UsageError(f"{name} needs a value: {row.spelling()}")
        attached = pending.pop(0)
    if row.many:
        return tuple(part.strip() for part in attached.split(",") if part.strip())
    if row.choices and attached not in row.choices:
        raise UsageError(f"{name} takes {' or '.join(row.choices)}, not '{attached}'")
    try:
        return row.kind(attached)
    except ValueError:
        noun = {int: "a whole number", float: "a number"}.get(row.kind, "a value")
        raise UsageError(f"{name} takes {noun}, not '{attached}'") from None


def unknown(command, rows, name):
    """The sentence for an option that the command does not have."""
    near = similar(name, [row.name for row in rows], limit=1)
    if near:
        row = next(row for row in rows if row.name == near[0])
        spelled = f"{row.short}/{row.name}" if row.short else row.name
        return f"{command} has no option {name} (did you mean {spelled}?)"
    return f"{command} has no option {name}; options: {', '.join(row.name for row in rows)}"
