"""Questions that several displays ask of a report. Pure functions from report dicts to words and rows; the schema is docs/report.md."""

from dyno.magics.page import BREAK, FUSED, INTERPRETED, Cell, Listing, Page, Say, table
from dyno.magics.places import headline, place

STATES = {"compiled": FUSED, "interpreted": INTERPRETED, "not_called": INTERPRETED, "compiling": INTERPRETED}


def count(number, noun, plural=None):
    """``1 kernel``, ``2 kernels``."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def kernels(report):
    """Kernels of all entries, in order."""
    return [kernel for entry in report.get("entries", ()) for kernel in entry.get("kernels", ())]


def kernel_names(numbers):
    """``K0, K2``."""
    return ", ".join(f"K{number}" for number in numbers)


def ranges(numbers):
    """``0-3, 5``."""
    spans = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def broken_lines(report):
    """Lines with a graph break, one row a line, in source order."""
    return [row for row in report.get("lines", ()) if row.get("status") == "break"]


def status_cell(row, breaks):
    """The status of a source line: a word, with its kernel or break number."""
    status = row.get("status")
    if status == "fused":
        return Cell(f"fused {kernel_names(row.get('kernels') or ())}".strip(), FUSED)
    if status == "break":
        return Cell(f"BREAK B{breaks.index(row) + 1}", BREAK)
    words = {"extern": "compiled, library call", "compiled": "compiled", "interpreted": "interpreted", "not_run": "not run yet"}
    tone = {"extern": FUSED, "compiled": FUSED, "interpreted": INTERPRETED}
    return Cell(words.get(status, ""), tone.get(status))


def state_words(report):
    """``compiled, 2 kernels, 1 break``."""
    function = report["function"]
    state = function["state"].replace("_", " ")
    if function["state"] != "compiled":
        return state
    return ", ".join([state, count(len(kernels(report)), "kernel"), count(len(broken_lines(report)), "break")])


def reasons(report):
    """Why something was not compiled, fused or kept: rows of kind, line, text, hint; first cause first, each sentence once."""
    found = list(report.get("reasons", ()))
    function = report["function"]
    if not found and function["state"] == "interpreted" and function.get("reason"):
        found.append({"kind": "interpreted", "line": None, "text": function["reason"], "hint": function.get("hint")})
    for row in report.get("lines", ()):
        if row.get("status") in ("break", "interpreted") and row.get("reason"):
            found.append({"kind": row["status"], "line": row["line"], "text": row["reason"], "hint": row.get("hint")})
    for entry in report.get("entries", ()):
        if entry.get("drop_reason"):
            found.append({"kind": "dropped", "line": None, "text": entry["drop_reason"], "hint": None})
    for kernel in kernels(report):
        for miss in kernel.get("not_fused", ()):
            found.append({"kind": "not fused", "line": miss.get("line"), "text": miss["reason"], "hint": miss.get("hint")})
    for again in report.get("recompiles", ()):
        found.append(
            {
                "kind": "recompiled",
                "line": again.get("line"),
                "text": f"{again['guard']}: was {again['was']}, now {again['now']}",
                "hint": again.get("hint"),
            }
        )
    seen, once = set(), []
    for row in found:
        mark = (row["kind"].replace("_", " "), row.get("line"), row["text"])
        if mark not in seen:
            seen.add(mark)
            once.append({**row, "kind": mark[0]})
    return once


def reason_table(rows, caption):
    """The rows of ``reasons`` as a table."""
    tones = {"break": BREAK, "interpreted": INTERPRETED}
    made = [
        (Cell(row["kind"], tones.get(row["kind"])), "" if row.get("line") is None else row["line"], row["text"], row.get("hint") or "")
        for row in rows
    ]
    return table(caption, ("what", "line", "reason", "what helps"), made)


def early(report, command):
    """The page where there is nothing to show yet: never called, or interpreted. ``None`` where there are entries."""
    function = report["function"]
    name = function["name"]
    if function["state"] == "not_called":
        if function.get("redefined"):
            return Page(
                f"{name} was redefined in {place(function, with_line=False) or 'another place'}; showing the new one (not called yet)"
            )
        return Page(f"{name} has not been called yet. Call it, or give arguments: %dyno {command} {name}(x)")
    if report.get("entries"):
        return None
    if function["state"] == "compiling":
        return Page(f"{name} is being compiled; it runs interpreted until then")
    causes = reasons(report)
    return Page(f"{name} runs interpreted because {causes[0]['text'] if causes else 'no tensor or array work was met in it'}")


def switched_off(report):
    """Why a function with compiled parts runs interpreted: by %dyno off, or since it was slower."""
    function = report["function"]
    if function["state"] != "interpreted" or not function.get("reason"):
        return ()
    return (Say(f"{function['name']} runs interpreted because {function['reason']}; what was compiled of it is kept"),)


def redefinition(report):
    """A note where the function is younger than what was compiled under its name."""
    function = report["function"]
    if not function.get("redefined"):
        return ()
    return (Say(f"{function['name']} was redefined in {place(function, with_line=False) or 'another place'}; showing the new one"),)


def recompile_listing(report):
    """The guard that failed, old and new value, and the user's stack, for each recompile."""
    lines = []
    name = report["function"]["name"]
    for number, again in enumerate(report.get("recompiles", ()), start=2):
        stack = [spot if isinstance(spot, str) else place(spot) for spot in again.get("stack", ())]
        lines.append(f"{name} recompiled ({ordinal(again.get('version', number))} version)" + (f" at {stack[0]}" if stack else ""))
        spot = {**report["function"], "line": again.get("line"), **again.get("at", {})}
        origin = place(spot) if spot["line"] is not None else ""
        lines.append(f"  guard     {again['guard']}" + (f"    from {origin}" if origin else ""))
        if origin and again.get("text"):
            lines.append(f"            {again['text']}")
        lines.append(f"  was       {again['was']}    now  {again['now']}")
        lines.extend(f"  called by {spot}" for spot in stack[1:])
        if again.get("note"):
            lines.append(f"  note      {again['note']}")
    return (Listing(tuple(lines)),) if lines else ()


def ordinal(number):
    """``2nd``, ``3rd``, ``11th``."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def owner(entry):
    """`` (of g)`` for a part that belongs to another function, which called this one."""
    return f" (of {entry['of']['name']})" if entry.get("of") else ""


def having(name, noun, numbers):
    """``f has kernels 0-3``, ``f has one kernel, 0``, ``f has no kernels``."""
    if not numbers:
        return f"{name} has no {noun[1]}"
    return f"{name} has one {noun[0]}, {numbers[0]}" if len(numbers) == 1 else f"{name} has {noun[1]} {ranges(numbers)}"


def title(report):
    """The title of a page about one function."""
    return f"{headline(report['function'])}: {state_words(report)}"


def dims(value):
    """``float32[n, 8]`` for a node or input."""
    names = {
        "f16": "float16",
        "bf16": "bfloat16",
        "f32": "float32",
        "f64": "float64",
        "i8": "int8",
        "i16": "int16",
        "i32": "int32",
        "i64": "int64",
        "u8": "uint8",
        "u16": "uint16",
        "u32": "uint32",
        "u64": "uint64",
        "c64": "complex64",
        "c128": "complex128",
        "b1": "bool",
        "b8": "bool",
    }
    dtype = value.get("dtype")
    if dtype is None:
        return ""
    return f"{names.get(dtype, dtype)}[{', '.join(str(size) for size in value.get('shape', ()))}]"
