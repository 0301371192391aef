"""Compares two runs of a case, fact by fact, and says how far values may differ.

The rule: nothing but values may differ at all. Values must be equal bit for bit, the sign of a zero too, unless the plain program's own
result moves when gated and ordered operations (transcendental functions, sums that round) are moved by one unit in the last place; then
they may differ by 4 + 4 x that move, and their distance from the same program in a wider dtype must be at most twice eager's plus 1 unit.
A case whose structure depends on such a move is unstable where it differs, and is not judged. So is one whose traceback differs where the
plain program's own lines change once its code is warm: CPython 3.11 joins two loads to one instruction, with the first one's line.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Sequence

from facts import Seen

# Looked at last: differences that do not change what the call left behind.
LATE_KINDS = frozenset(("exception type", "exception text", "traceback", "references"))


@dataclasses.dataclass
class Verdict:
    """pass | wrong | unstable; which kind of fact differs first, and in which words."""

    status: str
    kind: str = ""
    why: str = ""


MOVED_SEEDS = range(1, 7)  # two moves in a row may put a value back: not in all of them


class References:
    """The plain program run otherwise, made only where facts differ: moved by last bits, in a wider dtype, by cold and by warm code."""

    def __init__(
        self,
        moved: Callable[[int], list[Seen]],
        wide: Callable[[], list[Seen]],
        warmths: Sequence[Callable[[], list[Seen]]] = (),
    ) -> None:
        self._moved, self._wide, self._warmths = moved, wide, warmths
        self._cache: dict[Any, Any] = {}

    def moved(self, call: int) -> list[dict[Any, Any]]:
        """The facts of a call in the moved runs; runs that fail as a whole are left out."""
        if "moved" not in self._cache:
            self._cache["moved"] = [run for seed in MOVED_SEEDS if (run := attempt(lambda: self._moved(seed)))]
        return [run[call].named() for run in self._cache["moved"] if call < len(run)]

    def move(self, call: int, key: tuple[str, str], want: dict[Any, Any]) -> float:
        """How far moving last bits moves this value: the value's own move, at least the largest finite one of the call's values."""
        own = [other[key].apart(want[key]) for other in self.moved(call) if key in other]
        if ("call", call) not in self._cache:
            moves = [other[k].apart(want[k]) for other in self.moved(call) for k in want if k[0] == "value" and k in other]
            self._cache["call", call] = max((move for move in moves if move < float("inf")), default=0.0)
        return max([*own, self._cache["call", call]], default=0.0)

    def warmths(self, call: int) -> list[dict[Any, Any]]:
        """The facts of a call by code that never ran and by code that ran often, which is other code where CPython specialises it."""
        if "warmths" not in self._cache:
            self._cache["warmths"] = [run for make in self._warmths if (run := attempt(make))]
        return [run[call].named() for run in self._cache["warmths"] if call < len(run)]

    def wide(self, call: int) -> dict[Any, Any]:
        if "wide" not in self._cache:
            self._cache["wide"] = attempt(self._wide) or []
        run = self._cache["wide"]
        return run[call].named() if call < len(run) else {}


def attempt(run: Callable[[], list[Seen]]) -> list[Seen] | None:
    try:
        return run()
    except Exception:
        return None


def compare_call(got: Seen, want: Seen, call: int, references: References) -> Verdict:
    """The first difference of one call; what it left behind is looked at first."""
    mine, theirs = got.named(), want.named()
    if mine == theirs:
        return Verdict("pass")
    raises = ("raises", "")
    if raises in mine.keys() ^ theirs.keys():
        kind, facts = ("raised", mine) if raises in mine else ("not raised", theirs)
        return stable(Verdict("wrong", kind, str(facts[raises])[:400]), raises, theirs, call, references)
    for key in sorted({**theirs, **mine}, key=lambda key: key[0] in LATE_KINDS):
        if key not in mine or key not in theirs:
            words = "missing" if key in theirs else "not there plainly"
            verdict = Verdict("wrong", key[0], f"{key[1]}: {words}")
        else:
            verdict = compare_fact(key, mine, theirs, call, references)
        if verdict.status != "pass":
            return stable(verdict, key, theirs, call, references)
    return Verdict("pass")


def stable(verdict: Verdict, key: tuple[str, str], plain: dict[Any, Any], call: int, references: References) -> Verdict:
    """The verdict, or `unstable` where moved last bits alone change this very fact of the plain call (values have their
    own rule, and references are counted on other objects there), or where the lines of its traceback hang on how warm its code is."""
    absent = object()
    others = references.moved(call) if key[0] not in ("value", "references") else []
    if key[0] == "traceback":
        others = [*others, *references.warmths(call)]
    if any(other.get(key, absent) != plain.get(key, absent) for other in others):
        return Verdict("unstable", verdict.kind, verdict.why)
    return verdict


def compare_fact(key: tuple[str, str], mine: dict[Any, Any], theirs: dict[Any, Any], call: int, references: References) -> Verdict:
    (kind, where), got, want = key, mine[key], theirs[key]
    if kind != "value":
        if got == want:
            return Verdict("pass")
        return Verdict("wrong", kind, f"{where}: {str(got)[:200]} instead of {str(want)[:200]}")
    apart = got.apart(want)
    if apart == 0:
        return Verdict("pass")
    moved = references.move(call, key, theirs)
    allowed = 4 + 4 * moved if moved else 0.0
    text = f"{where}: {str(got)[:200]} instead of {str(want)[:200]} ({apart:.3g} roundings apart, {allowed:.3g} allowed)"
    if apart > allowed:
        return Verdict("wrong", "bits" if apart <= 64 else "value", text)
    exact = references.wide(call).get(key)
    wider = exact is not None and exact.eps < want.eps
    errors = (got.error(exact), want.error(exact)) if wider else (None, None)
    # Where eager itself is far from the wider result, that is not the same program (random numbers drawn wide, a cast inside).
    comparable = None not in errors and errors[1] <= 16 + 16 * moved
    if comparable and errors[0] > 2 * errors[1] + 1:
        return Verdict("wrong", "accuracy", f"{text}; {errors[0]:.3g} roundings from the wider result, eager {errors[1]:.3g}")
    return Verdict("pass")


def compare_runs(got: list[Seen], want: list[Seen], references: References, ignored: frozenset[str] = frozenset()) -> Verdict:
    """The first difference of any call; one of a late kind only where there is no other."""
    first = Verdict("pass")
    for call, (mine, theirs) in enumerate(zip(got, want)):
        verdict = compare_call(mine.without(ignored), theirs.without(ignored), call, references)
        if verdict.status == "pass":
            continue
        verdict.why = f"call {call}: {verdict.why}"
        if verdict.kind not in LATE_KINDS:
            return verdict
        first = verdict if first.status == "pass" else first
    return first
