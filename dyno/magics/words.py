"""Splits a command's line into words: brackets and quotes keep an expression together, so ``f(a, -b) --vs eager`` is three words."""

from dyno.magics.errors import UsageError

CLOSERS = {"(": ")", "[": "]", "{": "}"}


def split(line):
    """The words of ``line``; raises UsageError for a bracket or quote that is not closed."""
    found, start, open_brackets, index = [], None, [], 0
    while index < len(line):
        character = line[index]
        if character.isspace() and not open_brackets:
            if start is not None:
                found.append(line[start:index])
                start = None
            index += 1
            continue
        start = index if start is None else start
        if character in "\"'":
            index = end_of_string(line, index)
            continue
        if character in CLOSERS:
            open_brackets.append(character)
        elif open_brackets and character == CLOSERS[open_brackets[-1]]:
            open_brackets.pop()
        index += 1
    if open_brackets:
        raise UsageError(f"'{open_brackets[-1]}' is not closed in: {line.strip()}")
    return found + ([line[start:]] if start is not None else [])


def end_of_string(line, start):
    """Index after the string literal that opens at ``start``."""
    quote = line[start] * 3 if line.startswith(line[start] * 3, start) else line[start]
    index = start + len(quote)
    while index < len(line):
        if line[index] == "\\":
            index += 2
        elif line.startswith(quote, index):
            return index + len(quote)
        else:
            index += 1
    raise UsageError(f"a string is not closed in: {line.strip()}")
