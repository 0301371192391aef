"""The kernel's IPython shell.

Input: a cell's syntax tree from IPython. Output: the statements before the last expression run as one module code object, the last
expression as another, both entered by ``_kernel.run_cell``; names, line numbers, ``_`` and errors are IPython's own. Where a cell
awaits at top level, or is correct only statement by statement, IPython's way is taken. It must not add frames between itself and
the cell: tracebacks are cut by counting them.
"""

import ast
import asyncio
import bdb
import hashlib
import inspect
import linecache
import marshal
import os
import sys
import warnings

from IPython.core import page, payloadpage
from IPython.core.application import BaseIPythonApplication
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.shellapp import InteractiveShellApp

from . import _kernel, display, messages, streams

AWAIT_AT_TOP = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def whole_parts(nodes, cell_name, interactivity, compiler, flags):
    """The cell's code objects: its body as one module and its last expression, or ``None`` where that would change its meaning."""
    if interactivity == "last_expr":
        interactivity = "last" if isinstance(nodes[-1], ast.Expr) else "none"
    if interactivity not in ("last", "none") or not hasattr(compiler, "extra_flags"):
        return None
    if any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in nodes):
        return None  # legal anywhere in a cell, but only at the top of a module
    body, last = (nodes[:-1], nodes[-1:]) if interactivity == "last" else (nodes, [])
    try:
        with compiler.extra_flags(flags):
            parts = [compiler(ast.Module(body, []), cell_name, "exec")] if body else []
            if last:
                parts.append(compiler(ast.Interactive(last), cell_name, "single"))
    except Exception:
        return None  # IPython runs what stands before the wrong statement and shows the error
    return None if any(code.co_flags & inspect.CO_COROUTINE for code in parts) else parts


class Shell(InteractiveShell):
    """IPython's shell with the kernel's output channels and its own way into a cell."""

    enters_through_dyno = True  # extensions leave run_code alone
    cell_number = 0  # the number that the running cell shows
    interrupted = False  # an interrupt cancelled the awaiting cell
    silent = False
    last_error = None
    exit_now = False
    keepkernel_on_exit = None
    _part = 0

    def init_io(self):
        pass  # the streams are the kernel's

    def init_hooks(self):
        super().init_hooks()
        self.set_hook("show_in_pager", page.as_hook(payloadpage.page), 99)

    def enable_gui(self, gui=None):
        if gui not in (None, "inline"):
            print(f"GUI event loops are not supported by this kernel: {gui}", file=sys.stderr)

    def ask_exit(self):
        self.exit_now = not self.keepkernel_on_exit
        self.payload_manager.write_payload({"source": "ask_exit", "keepkernel": bool(self.keepkernel_on_exit)})

    def set_next_input(self, text, replace=False):
        self.payload_manager.write_payload({"source": "set_next_input", "text": text, "replace": replace})

    def _showtraceback(self, etype, evalue, stb):
        streams.flush_all()
        name = getattr(etype, "__name__", str(etype))
        self.last_error = {"ename": name, "evalue": str(evalue), "traceback": list(stb)}
        if not self.silent:
            messages.publish("error", self.last_error)

    async def run_ast_nodes(self, nodelist, cell_name, interactivity="last_expr", compiler=compile, result=None):
        outer_part, self._part = self._part, 0
        try:
            flags = AWAIT_AT_TOP if self.autoawait else 0
            parts = whole_parts(nodelist, cell_name, interactivity, compiler, flags) if nodelist else None
            if parts is None:
                return await super().run_ast_nodes(nodelist, cell_name, interactivity, compiler, result)
            for code in parts:
                if await self.run_code(code, result):
                    return True
            return False
        finally:
            self._part = outer_part

    def content_key(self, code):
        """Equal for the same part of a cell with the same text."""
        self._part += 1
        entry = linecache.cache.get(code.co_filename)
        if entry is None or len(entry) < 3 or self.ast_transformers:
            text = marshal.dumps(code)
        else:
            text = "".join(entry[2]).encode("utf-8", "backslashreplace")
        return f"{hashlib.blake2b(text, digest_size=16).hexdigest()}.{self._part}"

    async def run_code(self, code_obj, result=None, *, async_=False):
        __tracebackhide__ = "__ipython_bottom__"
        self.sys_excepthook, sys.excepthook = sys.excepthook, self.excepthook
        try:
            try:
                if async_:
                    try:
                        await eval(code_obj, self.user_global_ns, self.user_ns)
                    except asyncio.CancelledError as error:
                        if not self.interrupted:
                            raise
                        raise KeyboardInterrupt().with_traceback(error.__traceback__.tb_next) from None
                elif self.user_ns is self.user_global_ns:
                    _kernel.run_cell(code_obj, self.user_ns, self.content_key(code_obj))
                else:
                    exec(code_obj, self.user_global_ns, self.user_ns)
            finally:
                sys.excepthook = self.sys_excepthook
        except SystemExit as error:
            self._note(result, error)
            self.showtraceback(exception_only=True)
            warnings.warn("To exit: use 'exit', 'quit', or Ctrl-D.", stacklevel=1)
        except bdb.BdbQuit as error:
            self._note(result, error)
        except self.custom_exceptions as error:
            self._note(result, error)
            self.CustomTB(*sys.exc_info())
        except BaseException as error:
            self._note(result, error)
            # without this frame; IPython would cut its own by the name of its package, or by counting
            self.showtraceback((type(error), error, error.__traceback__.tb_next), tb_offset=0, running_compiled_code=True)
        else:
            return False
        return True

    @staticmethod
    def _note(result, error):
        if result is not None:
            result.error_in_exec = error


class Application(BaseIPythonApplication, InteractiveShellApp):
    """Reads IPython's configuration, start-up files and extensions, and makes the shell."""

    def initialize(self, argv=None):
        super().initialize([])
        self.init_path()
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
        self.shell = Shell.instance(parent=self, display_pub_class=display.Publisher, displayhook_class=display.Hook, user_ns=self.user_ns)
        self.shell.configurables.append(self)
        self.init_gui_pylab()
        self.init_extensions()
        self.init_code()

    def exit(self, status=0):
        pass
