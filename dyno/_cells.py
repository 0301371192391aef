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


async def run_code(shell, code, result=None, *, async_=False):
    """IPython's contract for ``run_code``: runs one code object, shows what it raises, returns True if it raised."""
    __tracebackhide__ = "__ipython_bottom__"
    if async_ or shell.user_ns is not shell.user_global_ns:
        return await type(shell).run_code(shell, code, result, async_=async_)
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


def attach(shell):
    """Replaces this shell's ``run_code``; a second call does nothing. A shell that enters cells through the core itself keeps its own."""
    if getattr(type(shell), "enters_through_dyno", False) or "run_code" in vars(shell):
        return
    shell.run_code = types.MethodType(run_code, shell)


def detach(shell):
    """Gives the shell its own ``run_code`` back."""
    current = vars(shell).get("run_code")
    if getattr(current, "__func__", None) is run_code:
        del shell.run_code
