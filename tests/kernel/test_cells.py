"""Cells: values, names, counting, errors and what runs them. The expected behaviour is IPython's; where it can be asked, it is."""

import json

import pytest


def test_value_and_names(kernel):
    assert kernel.run("x = 41\nx + 1").value == "42"
    assert kernel.run("_").value == "42"
    assert kernel.run("_ + Out[max(Out)]").value == "84"
    assert kernel.run("x + 1;").value is None  # a semicolon keeps it quiet
    assert kernel.run("").status == "ok"


def test_numbers_of_cells(kernel):
    first = kernel.run("1").reply["content"]["execution_count"]
    hidden = kernel.run("2", store_history=False)
    assert hidden.value == "2"
    assert hidden.reply["content"]["execution_count"] == hidden.of("execute_input")[0]["execution_count"] == first
    second = kernel.run("3")
    assert second.reply["content"]["execution_count"] == first + 1
    assert second.of("execute_result")[0]["execution_count"] == first + 1
    assert second.of("execute_input")[0]["execution_count"] == first + 1
    silent = kernel.run("print('unseen'); 4", silent=True)
    assert silent.value is None and not silent.of("execute_input")
    assert kernel.run("5").reply["content"]["execution_count"] == first + 2


def test_silent_cell_shows_no_error(kernel):
    cell = kernel.run("1/0", silent=True)
    assert cell.status == "error" and cell.reply["content"]["ename"] == "ZeroDivisionError" and not cell.of("error")


def test_body_is_one_module(kernel):
    """Two statements share a code object, the last expression has its own; lines are the cell's."""
    kernel.run("import sys")
    cell = kernel.run("a = sys._getframe()\n\nb = sys._getframe()\n(a.f_code is b.f_code, a is b, sys._getframe().f_code is a.f_code, b.f_lineno, sys._getframe().f_lineno)")
    assert cell.value == "(True, True, False, 3, 4)"


def test_source_under_the_file_name(kernel):
    kernel.run("def f():\n    '''docs'''\n    return 7")
    assert kernel.run("import inspect, linecache; print(inspect.getsource(f)); print(linecache.getline(f.__code__.co_filename, 3))").text() == (
        "def f():\n    '''docs'''\n    return 7\n\n    return 7\n\n"
    )


def test_traceback_names_cell_and_line(kernel):
    cell = kernel.run("def g(n):\n    return 1 / n\n\ng(1)\ng(0)\n'unreached'")
    number = cell.reply["content"]["execution_count"]
    assert cell.error == "ZeroDivisionError" and cell.reply["content"]["ename"] == "ZeroDivisionError"
    assert f"Cell In[{number}], line 5" in cell.traceback or f"Cell In [{number}], line 5" in cell.traceback
    assert f"line 2, in g" in cell.traceback
    for hidden in ("run_code", "dyno", "skipping hidden"):
        assert hidden not in cell.traceback
    assert len(cell.of("error")) == 1


ERRORS = [
    "1/0",
    "print('before')\nreturn",
    "print('before')\nx = 5\nglobal x",
    "def f(:\n  pass",
    "  indented",
    "if True:\nprint(1)",
    "raise SystemExit(3)",
    "raise KeyboardInterrupt",
    "raise ValueError('a') from KeyError('b')",
    "class E(Exception): pass\nraise E('ü\\n2')",
    "%nomagic",
    "%timeit -n1 -r1 1/0",
    "get_ipython().run_line_magic('run', 'nofile.py')",
    "exec('1/0')",
    "import asyncio\nawait asyncio.sleep(0)\n1/0",
    "await_ = 1\nawait 1",
    "lambda: (yield)\nyield 1",
    "print('before')\nfrom __future__ import annotations\nraise KeyError(1)",
    "assert 1 == 2, 'no'",
]


@pytest.mark.parametrize("code", ERRORS)
def test_errors_are_ipythons(kernel, code):
    """What a cell prints, and the name and text of its error, equal IPython's own in the same process."""
    ours = kernel.run(code)
    other = (
        "import contextlib, io, sys, json\n"
        "from IPython.core.interactiveshell import InteractiveShell as _S\n"
        "def _ask(code):\n"
        "    shell = get_ipython()\n"
        "    plain = {name: getattr(_S, name).__get__(shell) for name in ('run_ast_nodes', 'run_code')}\n"
        "    shell.__dict__.update(plain)\n"
        "    out = io.StringIO()\n"
        "    try:\n"
        "        with contextlib.redirect_stdout(out):\n"
        "            result = shell.run_cell(code) if 'await' not in code else None\n"
        "    finally:\n"
        "        for name in plain: del shell.__dict__[name]\n"
        "    error = result and (result.error_before_exec or result.error_in_exec)\n"
        "    return result and [out.getvalue(), type(error).__name__, str(error)]\n"
    )
    theirs = json.loads(kernel.run(f"{other}\nprint('ANSWER' + json.dumps(_ask({code!r})))").text().partition("ANSWER")[2])
    if theirs is None:  # awaits: IPython would need a loop of its own
        assert ours.status == "error"
        return
    reply = ours.reply["content"]
    assert [ours.text(), reply.get("ename", "NoneType")] == theirs[:2]
    if theirs[1] not in ("SyntaxError", "IndentationError", "NoneType"):  # a syntax error's text names the file, and the cell has another number
        assert reply["evalue"] == theirs[2]


def test_statements_before_a_wrong_one_run(kernel):
    cell = kernel.run("seen = 1\nprint('ran')\nreturn 2")
    assert cell.text() == "ran\n" and cell.error == "SyntaxError"
    assert kernel.run("seen").value == "1"


def test_future_import_inside_a_cell(kernel):
    assert kernel.run("a = 1\nfrom __future__ import annotations\ndef f(x: undefined): pass\nf.__annotations__['x']").value == "'undefined'"


def test_usage_error_is_text_and_an_error_reply(kernel):
    cell = kernel.run("%nosuchmagic 1")
    assert cell.status == "error" and cell.reply["content"]["ename"] == "UsageError"
    assert "UsageError" in cell.text("stderr") and not cell.of("error")


def test_magics_and_shell_escapes(kernel):
    assert kernel.run("!echo from a child").text().strip() == "from a child"
    assert kernel.run("%%bash\necho $((6*7))").text() == "42\n"
    assert kernel.run("files = !printf 'a\\nb'\nfiles").value == "['a', 'b']"
    cell = kernel.run("%%capture got\nprint('inside')\n5")
    assert cell.text() == "" and kernel.run("got.stdout").value == "'inside\\n'"
    assert "CPU times" in kernel.run("%%time\nsum(range(10))").text()
    assert "loop" in kernel.run("%timeit -n1 -r1 pass").text()
    assert kernel.run("get_ipython().run_cell('print(1)\\n2')").text() == "1\n"


def test_payloads(kernel):
    assert kernel.run("print?").reply["content"]["payload"][0]["source"] == "page"
    assert kernel.run("%load_ext autoreload").status == "ok"
    payload = kernel.run("get_ipython().set_next_input('y = 2')").reply["content"]["payload"]
    assert payload == [{"source": "set_next_input", "text": "y = 2", "replace": False}]


def test_user_expressions(kernel):
    kernel.run("n = 4")
    answers = kernel.run("pass", user_expressions={"double": "n*2", "wrong": "1/0"}).reply["content"]["user_expressions"]
    assert answers["double"]["data"]["text/plain"] == "8" and answers["wrong"]["status"] == "error"


def test_top_level_await(kernel):
    cell = kernel.run("import asyncio\nasync def late(v):\n    await asyncio.sleep(0.05)\n    return v\nprint('before')\nawait late(5)")
    assert cell.text() == "before\n" and cell.value == "5"
    assert kernel.run("await asyncio.gather(late(1), late(2))").value == "[1, 2]"


def test_background_tasks_go_on_between_cells(kernel):
    kernel.run("import asyncio\nticks = []\nasync def tick():\n    for i in range(5):\n        ticks.append(i)\n        await asyncio.sleep(0.02)\ntask = asyncio.create_task(tick())")
    import time

    time.sleep(0.4)
    assert kernel.run("len(ticks), task.done()").value == "(5, True)"


def test_class_of_a_cell_can_be_pickled(kernel):
    assert kernel.run("import pickle\nclass P:\n    v = 3\npickle.loads(pickle.dumps(P())).v").value == "3"


def test_name_main(kernel):
    assert kernel.run("__name__, '__file__' in globals()").value == "('__main__', False)"


def test_completion(kernel):
    kernel.run("class Thing:\n    alpha = 1\n    @property\n    def angry(self): raise RuntimeError('called')\n    def apply(self): pass\nthing = Thing()")
    reply = kernel.request(kernel.client.complete("thing.a"))
    assert set(reply["matches"]) == {"alpha", "angry", "apply"} and (reply["cursor_start"], reply["cursor_end"]) == (6, 7)
    kinds = {item["text"]: item["type"] for item in reply["metadata"]["_jupyter_types_experimental"]}
    assert kinds == {"alpha": "instance", "angry": "property", "apply": "function"}
    reply = kernel.request(kernel.client.complete("x = 1\nthi", 8))
    assert "thing" in reply["matches"] and reply["cursor_start"] == 6
    assert "%timeit" in kernel.request(kernel.client.complete("%timei"))["matches"]


def test_completion_is_fast_enough_for_jupyterlab(start):
    """JupyterLab drops what a completer brings after a second, also the first time."""
    import time

    fresh = start()
    fresh.run("import os, json, numpy as np")
    for code in ("os.getc", "np.lin", "json.du"):
        began = time.monotonic()
        reply = fresh.request(fresh.client.complete(code))
        assert reply["matches"] and time.monotonic() - began < 1.0, code


def test_inspection(kernel):
    reply = kernel.request(kernel.client.inspect("zip", 2))
    assert reply["found"] and "zip" in reply["data"]["text/plain"]
    assert kernel.request(kernel.client.inspect("nothing_here", 3)) == {"status": "ok", "found": False, "data": {}, "metadata": {}}


def test_kernel_info(kernel):
    info = kernel.request(kernel.client.kernel_info())
    assert info["implementation"] == "xdyno" and info["language_info"]["name"] == "python"
    assert info["language_info"]["codemirror_mode"]["name"] == "ipython" and info["language_info"]["nbconvert_exporter"] == "python"
    assert kernel.run("import sys; '%d.%d.%d' % sys.version_info[:3]").value == repr(info["language_info"]["version"])


def test_unknown_request_gets_an_answer(kernel):
    message = kernel.client.session.msg("create_subshell_request", {})
    kernel.client.shell_channel.send(message)
    assert kernel.request(message["header"]["msg_id"])["status"] == "error"
    assert kernel.run("1").value == "1"


def test_input_and_password(kernel):
    prompts = []

    def answer(message):
        prompts.append(message["content"])
        kernel.client.input("bob")

    cell = kernel.run("name = input('who? ')\nimport getpass\nkey = getpass.getpass('key: ')\nprint(name, key)", answer=answer, allow_stdin=True)
    assert cell.text() == "bob bob\n"
    assert prompts == [{"prompt": "who? ", "password": False}, {"prompt": "key: ", "password": True}]
    assert kernel.run("input()").error == "StdinNotImplementedError"


def test_threads_run_while_input_waits(kernel):
    import time

    kernel.run("import threading, time\ncount = 0\ngo = True\ndef work():\n    global count\n    while go:\n        count += 1\n        time.sleep(0.01)\nthreading.Thread(target=work).start()")

    def answer(message):
        time.sleep(0.5)
        kernel.client.input("x")

    kernel.run("before = count; _ = input(); after = count", answer=answer, allow_stdin=True)
    kernel.run("go = False")
    assert int(kernel.run("after - before").value) > 10


def test_debugger_by_input(kernel):
    lines = iter(["p n * 2", "c"])
    cell = kernel.run(
        "def buggy(n):\n    breakpoint()\n    return n\nbuggy(21)", answer=lambda message: kernel.client.input(next(lines, "c")), allow_stdin=True, timeout=40
    )
    assert "42" in cell.text() and cell.value == "21"
