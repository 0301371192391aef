"""The one error of bad input: IPython's UsageError where IPython is there (one line, no traceback), else a ValueError of that name."""

import difflib

try:
    from IPython.core.error import UsageError
except ImportError:

    class UsageError(ValueError):
        """A command was used wrongly; the text says what to write instead."""


def similar(word, known, limit=3):
    """Names close to ``word``: those that share its start first, then by likeness; in a fixed order."""
    names = sorted(set(known))
    starts = [name for name in names if name.lower().startswith(word.lower()) or (name and word.lower().startswith(name.lower()))]
    near = difflib.get_close_matches(word, names, n=limit, cutoff=0.6 if len(word) > 3 else 0.5)
    return list(dict.fromkeys(sorted(starts, key=lambda name: (abs(len(name) - len(word)), name)) + near))[:limit]


def article(noun):
    """``noun`` with "a" or "an"."""
    return ("an " if noun[:1].lower() in "aeiou" else "a ") + noun


def reason_of(error):
    """An exception as one clause."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
