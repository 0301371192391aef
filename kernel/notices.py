"""What is missing in this environment, said once.

Input: sentences from the kernel's start. Output: each once in the kernel's log; those that change what a user's cells do, once as
stderr text of the first cell; all of them in the kernel's banner. It must not look for what is missing: the callers know.
"""

import sys

_said = []
_for_user = []


def say(sentence, *, to_user=False):
    """Logs the sentence; with ``to_user`` the first visible cell shows it too. A sentence said before is dropped."""
    if sentence in _said:
        return
    _said.append(sentence)
    print(f"xdyno: {sentence}", file=sys.__stderr__, flush=True)
    if to_user:
        _for_user.append(sentence)


def said():
    """All sentences so far, oldest first."""
    return tuple(_said)


def take_for_user():
    """The sentences that the next cell has to show; each is given out once."""
    taken, _for_user[:] = tuple(_for_user), []
    return taken
