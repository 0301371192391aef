"""Runs the cells that front ends send.

Input: execute requests, one at a time, on the kernel's loop. Output: the reply, exactly one for each; everything a cell shows goes out
on the way. A cell without top-level await runs in one go; one that awaits is a task, and the loop turns beneath it.
It must not let an exception out, and an interrupt may reach Python only between ``open_interrupts`` and ``close_interrupts``.
"""

import asyncio
import inspect
import json
import os
import sys

from . import _kernel, messages, notices, streams


class CellRunner:
    """The one place where cells start and end."""

    def __init__(self, shell, loop):
        self._shell = shell
        self._loop = loop
        self._task = None  # the cell that awaits
        self._running = False  # user code runs, or may run, right now
        self._stdin_allowed = False
        self._accepted = set(inspect.signature(shell.run_cell_async).parameters)
        self.after_cell = lambda: None  # called when a reply is out

    # ---- interrupts

    def on_sigint(self, _signal, _frame):
        """Python's handler. An awaiting cell is cancelled, other user code gets KeyboardInterrupt, an idle kernel nothing."""
        if self._task is not None and asyncio.current_task(self._loop) is not self._task:
            self._shell.interrupted = True
            self._loop.call_soon_threadsafe(self._task.cancel)  # a plain cancel would not wake the loop
        elif self._running:
            raise KeyboardInterrupt

    def interruptible(self, function, *arguments):
        """Calls user code that is no cell, such as a widget's callback."""
        _kernel.open_interrupts()
        self._running = True
        try:
            return function(*arguments)
        finally:
            self._running = False
            _kernel.close_interrupts()

    # ---- stdin

    def ask(self, prompt="", password=False):
        """``input()`` and ``getpass()``."""
        from IPython.core.error import StdinNotImplementedError

        streams.flush_all()
        if not self._stdin_allowed:
            raise StdinNotImplementedError("the front end does not take input requests")
        return _kernel.ask(str(prompt), password)

    # ---- cells

    def execute(self, content, metadata):
        """Starts a cell; its reply is sent now, or when its task is done."""
        request = json.loads(content)
        code, silent = request["code"], bool(request.get("silent", False))
        counted = bool(request.get("store_history", True)) and not silent
        shell = self._shell
        shell.cell_number = max(shell.execution_count - (not counted), 0)
        shell.silent, shell.last_error, shell.interrupted = silent, None, False
        self._stdin_allowed = bool(request.get("allow_stdin", False))
        if not silent:
            messages.publish("execute_input", {"code": code, "execution_count": shell.cell_number})
            for sentence in notices.take_for_user():
                print(f"dyno: {sentence}", file=sys.stderr)
        transformed, failure = self._transform(code)
        options = {"store_history": counted, "silent": silent, "transformed_cell": transformed, "preprocessing_exc_tuple": failure}
        if "cell_id" in self._accepted:
            options["cell_id"] = json.loads(metadata).get("cellId")
        coroutine = shell.run_cell_async(code, **options)
        if shell.should_run_async(code, transformed_cell=transformed, preprocessing_exc_tuple=failure):
            self._start_task(coroutine, request)
        else:
            self._finish(self._run(coroutine, silent), request)

    def _transform(self, code):
        try:
            return self._shell.transform_cell(code), None
        except Exception:
            return code, sys.exc_info()

    def _run(self, coroutine, silent):
        """Drives a cell that never awaits. Returns IPython's result, or ``None`` if the cell did not get so far."""
        result = None
        _kernel.open_interrupts()
        self._running = True
        try:
            try:
                coroutine.send(None)
                raise RuntimeError("a cell without await is waiting")
            except StopIteration as done:
                result = done.value
            self._tell_extensions(silent, result)
        except BaseException:  # an interrupt outside of the cell's own code
            self._shell.showtraceback()
        finally:
            self._running = False
            _kernel.close_interrupts()
        return result

    def _start_task(self, coroutine, request):
        silent = bool(request.get("silent", False))
        _kernel.open_interrupts()
        self._running = True
        self._task = self._loop.create_task(coroutine)

        def done(task):
            result = None
            try:
                result = task.result()
                self._tell_extensions(silent, result)
            except BaseException as error:
                self._shell.showtraceback((type(error), error, error.__traceback__))
            finally:
                self._task, self._running = None, False
                _kernel.close_interrupts()
            self._finish(result, request)

        self._task.add_done_callback(done)

    def _tell_extensions(self, silent, result):
        self._shell.events.trigger("post_execute")  # inline figures are shown here
        if not silent:
            self._shell.events.trigger("post_run_cell", result)

    # ---- replies

    def _finish(self, result, request):
        if messages.in_forked_child():  # a cell that forked: there is one kernel, and this is the other process
            streams.flush_all()
            os._exit(0)
        _kernel.settle_output()
        streams.flush_all()
        shell = self._shell
        reply = {"execution_count": shell.cell_number, "user_expressions": {}}
        error = self._error_of(result)
        if error is None:
            reply["status"] = "ok"
            reply["user_expressions"] = shell.user_expressions(request.get("user_expressions") or {})
        else:
            reply.update(error, status="error")
        reply["payload"] = shell.payload_manager.read_payload()
        shell.payload_manager.clear_payload()
        _kernel.finish_cell(messages.to_json(reply))
        self.after_cell()

    def _error_of(self, result):
        """The cell's error as the protocol wants it, or ``None``. An error that a cell only showed is not its own."""
        if result is None:
            return self._shell.last_error or {"ename": "KeyboardInterrupt", "evalue": "", "traceback": []}
        error = result.error_before_exec or result.error_in_exec
        if error is None:
            return None
        name = type(error).__name__
        shown = self._shell.last_error
        if shown is not None and shown["ename"] == name:
            return shown
        return {"ename": name, "evalue": str(error), "traceback": []}  # shown as text: UsageError
