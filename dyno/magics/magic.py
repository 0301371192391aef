"""One line or cell of ``%dyno``: find the command, parse, resolve, run, show.

Input: the text after ``%dyno``. Output: a Result, shown under the cell unless ``-q``. All complaints about bad input are raised here
or below as UsageError, one sentence each.
"""

from dyno.magics import options, target, words
from dyno.magics.errors import UsageError, similar
from dyno.magics.request import Request
from dyno.magics.result import show
from dyno.magics.table import BY_NAME, COMMANDS


def line_magic(shell, line):
    """``%dyno ...``."""
    parts = words.split(line)
    if not parts or options.looks_like_option(parts[0]):
        parts.insert(0, "status")
    command = command_named(parts[0])
    return shown(shell, command.run, request_for(shell, command, parts[1:]))


def cell_magic(shell, line, body):
    """``%%dyno CMD``."""
    parts = words.split(line)
    ready = [command.name for command in COMMANDS if command.cell]
    if not parts:
        raise UsageError(f"%%dyno needs a command: {', '.join('%%dyno ' + name for name in ready)}")
    command = command_named(parts[0])
    if command.cell is None:
        raise UsageError(f"{command.name} is no cell command; as a cell: {', '.join('%%dyno ' + name for name in ready)}")
    values, others = options.parse(command.name, command.all_options(), parts[1:])
    if others:
        raise UsageError(f"%%dyno {command.name} takes no '{others[0]}': it explains the cell itself")
    if not body.strip():
        raise UsageError(f"%%dyno {command.name} needs a cell body")
    return shown(shell, lambda request: command.cell(request, body), Request(shell, command.name, values))


def command_named(word):
    """The row of a command; an unknown word is answered with the nearest."""
    if word in BY_NAME:
        return BY_NAME[word]
    near = similar(word, BY_NAME, limit=1)
    raise UsageError(f"unknown command '{word}'." + (f" Did you mean '{near[0]}'?" if near else "") + f" Commands: {', '.join(BY_NAME)}")


def request_for(shell, command, parts):
    """The parsed request: options, and what stands beside them as the row's ``takes`` says."""
    values, others = options.parse(command.name, command.all_options(), parts)
    expression = " ".join(others)
    if command.takes == "words":
        return Request(shell, command.name, values, words=tuple(others))
    if command.takes == "functions":
        return Request(shell, command.name, values, tuple(target.resolve(word, shell.user_ns) for word in others))
    if command.takes == "nothing" and others:
        raise UsageError(f"{command.name} takes no '{others[0]}'")
    if not others:
        if command.takes in ("nothing", "optional"):
            return Request(shell, command.name, values)
        if command.takes == "call":
            raise UsageError(f"{command.name} needs a call: %dyno {command.name} f(x)")
        raise UsageError(f"{command.name} needs a function, for example: %dyno {command.name} f")
    found = target.resolve(expression, shell.user_ns)
    if found.line is not None and not command.line:
        raise UsageError(f"{command.name} takes no line; did you mean %dyno why {expression}?")
    if command.takes == "call" and found.args is None:
        raise UsageError(f"{command.name} needs a call: %dyno {command.name} {found.name}(x)")
    return Request(shell, command.name, values, (found,), (expression,))


def shown(shell, run, request):
    """Runs the command and shows its result in the form that the options ask for."""
    result = run(request)
    if request.options.get("json"):
        result.form = "json"
    if request.options.get("quiet"):
        result.shown_in = shell.execution_count
    else:
        show(shell, result)
    return result
