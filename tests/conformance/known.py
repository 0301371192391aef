"""The list of differences that are known and not yet mended, known_differences.txt: it can only shrink.

A line is `SUITE/MODE/CASE  KIND  REASON`. A run is clean when every case that differs is listed with its kind and every listed case that
was run still differs; a listed case that has become equal must leave the list. Nothing is left out of a run because it is listed.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, Iterable

LIST = pathlib.Path(__file__).with_name("known_differences.txt")
Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Known:
    """One line of the list."""

    suite: str
    mode: str
    item: str
    kind: str
    reason: str


@dataclasses.dataclass
class Outcome:
    """What a run says beside the list: differences that stand in it and that do not, and lines that no longer hold."""

    known: list[Record] = dataclasses.field(default_factory=list)
    new: list[Record] = dataclasses.field(default_factory=list)
    gone: list[Known] = dataclasses.field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.new and not self.gone

    def lines(self) -> list[str]:
        """What the run prints: every known difference with its reason, their number, and what must be done."""
        found = [f"known difference  {r['item']}: {kind_of(r)}" for r in self.known]
        found += [f"new difference    {r['item']}: {kind_of(r)}: {str(r.get('why', ''))[:300]}" for r in self.new]
        found += [f"no longer differs {k.item}: take its line ({k.kind}) out of {LIST.name}" for k in self.gone]
        return [*found, f"{len(self.known)} known differences, {len(self.new)} new, {len(self.gone)} no longer there"]


def kind_of(record: Record) -> str:
    return record.get("kind") or record["status"]


def differs(record: Record) -> bool:
    return record["status"] not in ("pass", "skip")


def parse(text: str) -> list[Known]:
    """The lines of the list; one that is not of its form, or stands there twice, is an error."""
    found: list[Known] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split(None, 2)
        case = parts[0].split("/", 2)
        if len(parts) != 3 or len(case) != 3:
            raise ValueError(f"{LIST.name}:{number}: not SUITE/MODE/CASE KIND REASON: {line!r}")
        found.append(Known(*case, *parts[1:]))
        if any((k.suite, k.mode, k.item) == tuple(case) for k in found[:-1]):
            raise ValueError(f"{LIST.name}:{number}: listed twice: {parts[0]}")
    return found


def read() -> list[Known]:
    return parse(LIST.read_text())


def compare(records: Iterable[Record], suite: str, mode: str, listed: Iterable[Known]) -> Outcome:
    """Sets a run of one suite and mode beside the list; a listed case that was not run or not judged says nothing."""
    mine = {known.item: known for known in listed if (known.suite, known.mode) == (suite, mode)}
    outcome = Outcome()
    for record in records:
        known = mine.get(record["item"])
        if differs(record):
            same = known is not None and known.kind == kind_of(record).replace(" ", "_")
            (outcome.known if same else outcome.new).append(record)
        elif known is not None and record["status"] == "pass":
            outcome.gone.append(known)
    return outcome
