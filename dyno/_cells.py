"""Runs the cells of an IPython shell through the core.

Input: a running shell. Output: the same shell whose synchronous cell code is entered by ``core.run_cell(code, globals, key)``.
Everything else stays as IPython has it: display hook, tracebacks, exit handling, top-level await. It must not compile anything
and must not add a Python frame between IPython's machinery and the cell.
"""

import bdb
import hashlib
import sys
import types
import warnings

from dyno import _backend


def content_key(code):
    """A short text that is equal for code objects that do the same at the same lines, whatever file name they carry."""
    digest = hashlib.blake2b(digest_size=12)
    pending = [code]
    while pending:
        part = pending.pop()
        plain = [constant for constant in part.co_consts if not isinstance(constant, types.CodeType)]
        facts = (part.co_name, part.co_firstlineno, part.co_names, part.co_varnames, part.co_freevars, part.co_flags, constants(plain))
        digest.update(repr(facts).encode("utf-8", "backslashreplace"))
        digest.update(part.co_code)
        digest.update(getattr(part, "co_linetable", b""))
        pending.extend(constant for constant in part.co_consts if isinstance(constant, types.CodeType))
    return digest.hexdigest()


def constants(values):
    """Constants as text, with types told apart and sets in one order."""
    return [(type(value).__name__, sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)) for value in values]


async def enter(shell, code, result):
    """IPython's contract for ``run_code``: runs one code object, shows what it raises, returns True if it raised."""
    __tracebackhide__ = "__ipython_bottom__"
    hook, sys.excepthook = sys.excepthook, shell.excepthook
    shell.sys_excepthook = hook
    key = content_key(code)
    try:
        try:
            _backend.core.run_cell(code, shell.user_ns, key)
        finally:
            sys.excepthook = hook
    except SystemExit as error:
        note(result, error)
        shell.showtraceback(exception_only=True)
        warnings.warn("To exit: use 'exit', 'quit', or Ctrl-D.", stacklevel=1)
    except bdb.BdbQuit as error:
        note(result, error)
    except shell.custom_exceptions as error:
        note(result, error)
        shell.CustomTB(*sys.exc_info())
    except BaseException as error:
        note(result, error)
        shell.showtraceback(running_compiled_code=True)
    else:
        return False
    return True


def note(result, error):
    """Puts the error where IPython's caller looks for it."""
    if result is not None:
        result.error_in_exec = error


def replacement(shell):
    """A ``run_code`` for this shell. Top-level await and unusual namespaces stay with IPython's own."""
    own = type(shell).run_code
    # IPython leaves its own frames out of tracebacks, and tells them by their file; this frame stands in for one of them.
    stand_in = enter.__code__.replace(co_filename=own.__code__.co_filename, co_firstlineno=own.__code__.co_firstlineno, co_name="run_code")
    entering = types.FunctionType(stand_in, globals(), "run_code")

    def run_code(code, result=None, *, async_=False):
        # Not a coroutine function itself: a frame of its own would show in the depth of the stack.
        if async_ or shell.user_ns is not shell.user_global_ns:
            return own(shell, code, result, async_=async_)
        return entering(shell, code, result)

    run_code.made_by_dyno = True
    return run_code


def attach(shell):
    """Replaces this shell's ``run_code``; a second call does nothing. A shell that enters cells through the core itself keeps its own."""
    if getattr(type(shell), "enters_through_dyno", False) or "run_code" in vars(shell):
        return
    shell.run_code = replacement(shell)


def detach(shell):
    """Gives the shell its own ``run_code`` back."""
    if getattr(vars(shell).get("run_code"), "made_by_dyno", False):
        del shell.run_code
