"""``dyno.config``: settings as attributes.

Input: assignments by the user. Output: validated values, forwarded to the core at once. The core holds the values; this file
only knows types, bounds and meanings. Names that the core has and this file has not are accepted with the type of their value.
"""

import difflib
import json
from dataclasses import dataclass

from dyno import _backend


@dataclass(frozen=True)
class Setting:
    """One setting. ``least`` bounds numbers from below; ``unit`` is a word for the reader."""

    name: str
    kind: type
    default: object
    meaning: str
    least: object = None
    unit: str = ""


SETTINGS = (
    Setting("check", int, 0, "compare the first n replays of each entry with eager's results; a mismatch drops the entry", 0, "replays"),
    Setting("reproducible", bool, False, "only bit-equal operations are compiled; the others run in torch or NumPy"),
    Setting("debug_break_everywhere", bool, False, "end a segment after every operation (slow; finds bugs)"),
    Setting("debug_force_miss", bool, False, "never use an entry that exists (slow; finds bugs)"),
)
KNOWN = {setting.name: setting for setting in SETTINGS}


def values():
    """All settings with their present values, in the table's order, then the core's own in its order."""
    held = json.loads(_backend.core.get_config())
    merged = {setting.name: held.pop(setting.name, setting.default) for setting in SETTINGS}
    return {**merged, **held}


def checked(name, value, present):
    """``value`` if it may be assigned to ``name``; raises TypeError or ValueError in plain words."""
    kind = KNOWN[name].kind if name in KNOWN else type(present)
    if kind is float and type(value) is int:
        value = float(value)
    if present is not None and type(value) is not kind:
        raise TypeError(f"dyno.config.{name} takes {kind.__name__}, not {type(value).__name__}")
    least = KNOWN[name].least if name in KNOWN else None
    if least is not None and value < least:
        raise ValueError(f"dyno.config.{name} must be at least {least}, not {value}")
    return value


class Config:
    """Settings of this process: read and assign attributes; takes effect at once.

    >>> dyno.config.check = 3          # compare the first 3 replays of each entry with eager

    Assigning a wrong type raises TypeError, a wrong value ValueError, an unknown name AttributeError with the nearest name.
    """

    __slots__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        held = values()
        if name not in held:
            raise AttributeError(unknown(name, held))
        return held[name]

    def __setattr__(self, name, value):
        held = values()
        if name not in held:
            raise AttributeError(unknown(name, held))
        _backend.core.set_config(name, checked(name, value, held[name]))

    def __delattr__(self, name):
        raise AttributeError(f"dyno.config.{name} cannot be deleted; assign its default instead")

    def __dir__(self):
        return [*values()]

    def __repr__(self):
        lines = []
        for name, value in values().items():
            meaning = KNOWN[name].meaning if name in KNOWN else ""
            lines.append(f"{name} = {value!r}" + (f"    {meaning}" if meaning else ""))
        return "\n".join(lines)


def unknown(name, held):
    """The sentence for a name that is no setting."""
    near = difflib.get_close_matches(name, held, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "settings: " + ", ".join(held)
    return f"dyno.config has no setting {name!r}; {hint}"


config = Config()
