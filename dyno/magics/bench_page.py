"""The display of a benchmark: one table, the spread as bars, and what follows from it. Pure: a report in, a page out."""

from dyno.magics import agreement, facts, memory
from dyno.magics.page import BREAK, FUSED, INTERPRETED, Cell, Page, Say, table

SMALL = 20e-6  # a call below this is mostly overhead


def seconds(value):
    """A time with three digits and its unit."""
    if value is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def page(report, options):
    """The table and its reading."""
    head = [report["call"]]
    if report["arguments"]:
        head.append("arguments: " + ", ".join(argument["text"] for argument in report["arguments"]))
    head.append(facts.count(report["threads"], "thread"))
    blocks = [Say("; ".join(head[1:])), results_line(report), times(report)]
    blocks += [Say(f"{row['name']}: not measured: {row['reason']}") for row in report["absent"]]
    blocks += [Say(sentence, tone) for sentence, tone in readings(report)]
    blocks.append(Say(method(report)))
    return Page(f"bench {report['call']}", tuple(block for block in blocks if block is not None))


def results_line(report):
    """Whether all contestants computed the same."""
    rows = [row for row in report["contestants"] if row["agreement"] is not None]
    if not rows:
        return None
    wrong = any(row["agreement"]["verdict"] == "differ" for row in rows)
    return Say(
        "Against interpreted: " + "; ".join(f"{row['name']}: {agreement.words(row['agreement'])}" for row in rows), BREAK if wrong else None
    )


def times(report):
    """One row for each contestant, with its spread as a bar."""
    widest = max(row["upper_s"] for row in report["contestants"])
    rows = []
    for row in report["contestants"]:
        spread = (row["lower_s"] / widest, row["upper_s"] / widest)
        tone = FUSED if row["name"] == "compiled" else INTERPRETED
        name = row["name"] + (" (noisy)" if row["noisy"] else "")
        median = Cell(seconds(row["median_s"]), tone, bar=spread)
        rows.append(
            (
                name,
                median,
                seconds(row["upper_s"] - row["lower_s"]),
                seconds(row["min_s"]),
                seconds(row["first_call_s"]),
                memory.in_words(row.get("peak_bytes")),
                versus(row),
            )
        )
    columns = ("", "median", "IQR", "min", "first call", "peak mem", "vs interpreted")
    return table("Steady state, time a call", columns, rows, right=("IQR", "min", "first call", "peak mem"))


def versus(row):
    """``3.39x (3.3-3.5)``, or that there is no difference, which is what an interval around 1 means."""
    if row["name"] == "interpreted":
        return "1.00x"
    low, high = row["speedup_interval"]
    if low <= 1.0 <= high:
        return f"no difference ({low:.2f}-{high:.2f})"
    return f"{row['speedup']:.2f}x ({low:.2f}-{high:.2f})"


def readings(report):
    """What the figures say, in sentences with a tone."""
    compiled = next((row for row in report["contestants"] if row["name"] == "compiled"), None)
    if compiled is None:
        return
    name = report["function"]["name"]
    if report["interpreted_because"] is not None:
        yield f"{name} ran interpreted in the compiled row too, because {report['interpreted_because']}", BREAK
        return
    low, high = compiled["speedup_interval"]
    if high < 1.0:
        yield f"not worth compiling: {compiled['speedup']:.2f}x", INTERPRETED
    if high < 1.0 or low <= 1.0 <= high:
        if compiled["median_s"] < SMALL:
            yield "too small to gain: at this size the call itself costs more than its work", INTERPRETED
        return
    facts_words = f"{facts.count(report['kernels'], 'kernel')}, compiled in {seconds(report['compile_s'])} in the background"
    if report.get("bytes_moved"):
        rate = report["bytes_moved"] / compiled["median_s"] / 1e9
        facts_words += f"; {report['bytes_moved'] / 1e6:,.3g} MB moved, {rate:.3g} GB/s"
    after = report["break_even_calls"]
    yield (f"worth it after {facts.count(after, 'call')}; {facts_words}" if after is not None else facts_words), FUSED


def method(report):
    """How it was measured, and how often the call ran."""
    samples = min(len(row["samples_s"]) for row in report["contestants"])
    sentence = f"The call ran {report['runs']} times. Contestants interleaved, {samples} samples or more each; "
    sentence += "medians, 95 % bootstrap interval; warm caches."
    first = next((row for row in report["contestants"] if row["name"] == "compiled"), None)
    if first is not None and first["first_call_s"] is None:
        sentence += " It had been called before, so its first call was not timed."
    return sentence + " " + ", ".join(f"{name} {version}" for name, version in report["versions"].items()) + "."
