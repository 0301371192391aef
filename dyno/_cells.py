"""Runs the cells of an IPython shell through the core.

Input: a running shell. Output: the same shell whose synchronous cell code is entered by ``core.run_cell(code, globals, key)``, the
statements before the last expression as one code object, so that they can be compiled together. Everything else stays as IPython has it: display hook, tracebacks, exit handling, top-level await. It must not compile anything
and must not add a Python frame between IPython's machinery and the cell.
"""

import ast
import bdb
import hashlib
import inspect
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


def parts_of(nodes, name, interactivity, compiler, flags):
    """The cell's body as one code object and its last expression as another, or ``None`` where that would change what the cell does."""
    if interactivity == "last_expr":
        interactivity = "last" if isinstance(nodes[-1], ast.Expr) else "none"
    if interactivity not in ("last", "none") or not hasattr(compiler, "extra_flags"):
        return None
    body, last = (nodes[:-1], nodes[-1:]) if interactivity == "last" else (nodes, [])
    if any(changes_meaning(node) for node in body):
        return None
    try:
        with compiler.extra_flags(flags):
            parts = [compiler(ast.Module(body, []), name, "exec")] if body else []
            parts += [compiler(ast.Interactive(last), name, "single")] if last else []
    except Exception:
        return None  # IPython runs the statements before the wrong one, then shows the error
    return None if any(code.co_flags & inspect.CO_COROUTINE for code in parts) else parts


def changes_meaning(node):
    """Statements that act differently alone and in a module: imports from the future, and strings, which become ``__doc__``."""
    future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    return future or isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


async def run_parts(shell, parts, result):
    """Runs a cell's code objects until one raises; returns whether one did."""
    for code in parts:
        if await shell.run_code(code, result):
            return True
    return False


def in_place_of(function, own, name):
    """``function`` as a stand-in for IPython's ``own``: IPython leaves its own frames out of tracebacks and tells them by their file."""
    facts = {"co_filename": own.__code__.co_filename, "co_firstlineno": own.__code__.co_firstlineno, "co_name": name}
    return types.FunctionType(function.__code__.replace(**facts), globals(), name)


def replacements(shell):
    """``run_code`` and ``run_ast_nodes`` for this shell. Top-level await and unusual namespaces stay with IPython's own.

    Neither is a coroutine function itself: a frame of its own would show in the depth of the stack.
    """
    own_code, own_nodes = type(shell).run_code, type(shell).run_ast_nodes
    enter_here, run_here = in_place_of(enter, own_code, "run_code"), in_place_of(run_parts, own_nodes, "run_ast_nodes")

    def run_code(code, result=None, *, async_=False):
        if async_ or shell.user_ns is not shell.user_global_ns:
            return own_code(shell, code, result, async_=async_)
        return enter_here(shell, code, result)

    def run_ast_nodes(nodelist, cell_name, interactivity="last_expr", compiler=compile, result=None):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if shell.autoawait else 0
        parts = parts_of(nodelist, cell_name, interactivity, compiler, flags) if nodelist else None
        if parts is None:
            return own_nodes(shell, nodelist, cell_name, interactivity, compiler, result)
        return run_here(shell, parts, result)

    return {"run_code": run_code, "run_ast_nodes": run_ast_nodes}


def attach(shell):
    """Replaces this shell's two methods; a second call does nothing. A shell that enters cells through the core itself keeps its own."""
    if getattr(type(shell), "enters_through_dyno", False) or {"run_code", "run_ast_nodes"} & vars(shell).keys():
        return
    for name, method in replacements(shell).items():
        method.made_by_dyno = True
        setattr(shell, name, method)


def detach(shell):
    """Gives the shell its own methods back."""
    for name in ("run_code", "run_ast_nodes"):
        if getattr(vars(shell).get(name), "made_by_dyno", False):
            delattr(shell, name)
