"""``%dyno help``: made from the table of commands, and the glossary."""

from dyno.magics.errors import UsageError, similar
from dyno.magics.page import Page, Say, table
from dyno.magics.result import Result

WORDS = (
    ("compiled", "replayed from recorded work, without Python's interpreter"),
    ("interpreted", "run by Python as always"),
    ("break", "a place where compiled code ends because the next step needs Python; compiling resumes after it"),
    ("fused", "several operations in one generated kernel, so that their data is read and written once"),
    ("kernel", "one generated program for the processor or GPU"),
    ("guard", "a condition under which a compiled version may be used, such as a shape or a global's value"),
    ("entry", "one compiled part with its guards; a function has several when parts or conditions differ"),
    ("hit", "one use of a compiled part"),
    ("recompile", "compiling a part again because a guard did not hold"),
    ("specialise", "compile for one value, such as one shape, instead of for any"),
    ("eager", "torch or NumPy without a compiler: the same as interpreted"),
)
WORKED = (
    "%dyno                              is it on, what was compiled",
    "%dyno explain f                    the source of f, line by line",
    "%dyno graph f --stage fused        operations grouped into kernels",
    "%dyno bench f(x) --vs eager,torch  how fast, against what",
    "%dyno why f:4                      why line 4 was not compiled",
)


def run(request):
    """The overview, one command, or the glossary."""
    from dyno.magics.table import BY_NAME

    topic = request.words[0] if request.words else None
    if topic is None:
        return result(overview(), topic)
    if topic == "words":
        return result(Page("Words", (table("", ("word", "meaning"), WORDS),)), topic)
    if topic not in BY_NAME:
        near = similar(topic, [*BY_NAME, "words"], limit=1)
        raise UsageError(
            f"no help on '{topic}'." + (f" Did you mean '{near[0]}'?" if near else "") + f" Topics: {', '.join(BY_NAME)}, words"
        )
    return result(command_page(BY_NAME[topic]), topic)


def result(page, topic):
    """A text result."""
    return Result({"schema": "dyno.report/1", "kind": "help", "topic": topic}, page, form="text")


def overview():
    """All commands with one line each."""
    from dyno.magics.table import COMMANDS

    rows = [(f"%dyno {command.name} {command.usage}".rstrip(), command.meaning) for command in COMMANDS]
    rows.append(("%%dyno explain", "runs the cell, then explains its lines"))
    closing = Say("One command: %dyno help graph. The words: %dyno help words. All take --json (data only) and -q (value only).")
    return Page("%dyno shows what the compiler made of your code", (table("", ("command", "meaning"), rows), closing))


def command_page(command):
    """One command with its options and an example."""
    blocks = [Say(command.meaning[0].upper() + command.meaning[1:] + ".")]
    blocks.append(table("", ("option", "meaning"), [(option.spelling(), option.meaning) for option in command.all_options()]))
    if command.cell:
        blocks.append(Say(f"As a cell magic, %%dyno {command.name} runs the cell first."))
    blocks.append(Say(f"Example: {command.example}"))
    used = [row for row in WORDS if row[0] in command.meaning]
    if used:
        blocks.append(table("", ("word", "meaning"), used))
    return Page(f"%dyno {command.name} {command.usage}".rstrip(), tuple(blocks))


def docstring():
    """The text of ``%dyno?``."""
    from dyno.magics.page_text import text

    return "\n".join([text(overview()), "", "Worked lines", *("  " + line for line in WORKED)])
