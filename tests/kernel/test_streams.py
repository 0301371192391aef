"""Text output: complete, in order, attributed to the right cell, from Python, C code, threads and children."""

import time


def test_two_streams_in_order(kernel):
    cell = kernel.run("import sys\nprint('a')\nprint('b', file=sys.stderr)\nprint('c')")
    assert cell.text() == "a\nc\n" and cell.text("stderr") == "b\n"


def test_short_print_is_one_message(kernel):
    assert [content["text"] for content in kernel.run("print('ok')").of("stream")] == ["ok\n"]


def test_text_before_result_and_display(kernel):
    cell = kernel.run("from IPython.display import display\nprint('first')\ndisplay(1)\nprint('second')\n2")
    kinds = [message["msg_type"] for message in cell.messages if message["msg_type"] not in ("status", "execute_input")]
    assert kinds == ["stream", "display_data", "stream", "execute_result"]


def test_twenty_thousand_prints(kernel):
    cell = kernel.run("for i in range(20000): print('line', i)", timeout=60)
    assert cell.text() == "".join(f"line {i}\n" for i in range(20000))
    assert len(cell.of("stream")) < 200 and cell.idle


def test_long_output_arrives_while_the_cell_runs(kernel):
    cell = kernel.send("print('early')\nimport time; time.sleep(1.5)\nprint('late')")
    started = time.monotonic()
    kernel.until_started(cell)
    while "early" not in cell.text():
        message = kernel.client.get_iopub_msg(timeout=1.2)
        if message["parent_header"].get("msg_id") == cell.id:
            cell.messages.append(message)
    assert time.monotonic() - started < 1.2
    assert kernel.wait(cell).text() == "early\nlate\n"


def test_printing_threads_beside_cells(kernel):
    """Three threads print while 300 cells run; on xeus's own server this corrupts memory."""
    first = kernel.run("import threading\ndef f(k):\n    for i in range(2000): print('t', k, i)\nthreads = [threading.Thread(target=f, args=(k,)) for k in range(3)]\nfor t in threads: t.start()")
    others = [kernel.run("pass") for _ in range(300)]
    assert all(cell.status == "ok" for cell in others)
    last = kernel.run("for t in threads: t.join()")
    assert last.status == "ok" and not any("t " in cell.text() for cell in others + [last])
    assert first.text().count("\n") <= 6000


def test_output_of_a_thread_belongs_to_its_cell(kernel):
    """Also when another cell runs, or none."""
    first = kernel.run("import threading, time\ndef late():\n    time.sleep(0.3)\n    print('from the thread')\nt = threading.Thread(target=late); t.start()")
    second = kernel.send("t.join(); print('mine')")
    seen = []
    while not second.idle:
        message = kernel.client.get_iopub_msg(timeout=5)
        if message["msg_type"] == "stream":
            seen.append((message["parent_header"]["msg_id"], message["content"]["text"]))
        second.idle = message["msg_type"] == "status" and message["content"]["execution_state"] == "idle" and message["parent_header"]["msg_id"] == second.id
    assert sorted(seen) == sorted([(first.id, "from the thread\n"), (second.id, "mine\n")])


def test_output_of_a_task_belongs_to_its_cell(kernel):
    first = kernel.run("import asyncio\nasync def late():\n    await asyncio.sleep(0.2)\n    print('from the task')\ntask = asyncio.create_task(late())")
    second = kernel.run("await asyncio.sleep(0.4); print('mine')")
    assert second.text() == "mine\n" and first.id != second.id


def test_c_code_and_children(kernel):
    cell = kernel.run("import ctypes, os\nctypes.CDLL(None).puts(b'from C')\nos.system('echo from a child; echo error >&2')")
    assert cell.text() == "from C\nfrom a child\n" or sorted(cell.text().split("\n")) == ["", "from C", "from a child"]
    assert cell.text("stderr") == "error\n"


def test_c_code_that_holds_the_gil_cannot_block_on_the_pipe(kernel):
    cell = kernel.run("import ctypes\nlibc = ctypes.PyDLL(None)\nfor _ in range(40): libc.write(1, b'x' * 65536, 65536)", timeout=40)
    assert len(cell.text()) == 40 * 65536


def test_characters_cut_by_the_pipe(kernel):
    cell = kernel.run("import os, time\nfor byte in 'aé€🙂'.encode(): os.write(1, bytes([byte])); time.sleep(0.02)")
    assert cell.text() == "aé€🙂"


def test_forked_children_print(kernel):
    cell = kernel.run("import multiprocessing as mp, os\ndef work(i):\n    print('child', i, flush=True)\n    return i * i\nwith mp.get_context('fork').Pool(2) as pool: squares = pool.map(work, range(4))\nsquares")
    assert cell.value == "[0, 1, 4, 9]" and sorted(cell.text().split("\n")) == ["", "child 0", "child 1", "child 2", "child 3"]
    assert kernel.run("print('still here')").text() == "still here\n"


def test_cell_that_forks(kernel):
    """The child ends with its cell; there stays one kernel."""
    cell = kernel.run("import os\nchild = os.fork()\nif child == 0:\n    print('in the child')\nelse:\n    os.waitpid(child, 0)\n    print('in the parent')")
    assert cell.text() == "in the child\nin the parent\n" or sorted(cell.text().split("\n")) == ["", "in the child", "in the parent"]
    assert kernel.run("'one'").value == "'one'"


def test_spawned_pool(kernel, tmp_path):
    (tmp_path / "spawned_work.py").write_text("import sys\ndef where(_): return sys.prefix\n")
    cell = kernel.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport spawned_work\nwith mp.get_context('spawn').Pool(1) as pool: there = pool.map(spawned_work.where, [0])\nthere[0] == sys.prefix", timeout=60)
    assert cell.value == "True"


def test_stream_is_a_file(kernel):
    cell = kernel.run("import sys\nsys.stdout.writelines(['a\\n', 'b\\n'])\n(sys.stdout.encoding, sys.stdout.errors, sys.stdout.closed, sys.stdout.isatty(), sys.stdout.fileno(), sys.stdout.writable())")
    assert cell.text() == "a\nb\n" and cell.value == "('utf-8', 'replace', False, False, 1, True)"
    assert kernel.run("print('\\ud800')").text() == "?\n"
    assert kernel.run("sys.stdout.write(b'no')").error == "TypeError"


def test_logging_and_warnings(kernel):
    cell = kernel.run("import logging, warnings\nlogging.getLogger('x').warning('watch out')\nwarnings.warn('old')")
    assert "watch out" in cell.text("stderr") and "UserWarning: old" in cell.text("stderr")


def test_clear_and_update(kernel):
    cell = kernel.run("from IPython.display import display, clear_output\nh = display('one', display_id=True)\nh.update('two')\nclear_output(wait=True)")
    assert cell.of("update_display_data")[0]["data"]["text/plain"] == "'two'"
    assert cell.of("display_data")[0]["transient"] == cell.of("update_display_data")[0]["transient"]
    assert cell.of("clear_output") == [{"wait": True}]


def test_values_that_json_has_no_word_for(kernel):
    cell = kernel.run("from IPython.display import publish_display_data\npublish_display_data({'application/json': {'nan': float('nan'), 'inf': [float('inf')], 3: b'ab'}, 'text/plain': 'x'})")
    assert cell.of("display_data")[0]["data"]["application/json"] == {"nan": "nan", "inf": ["inf"], "3": "YWI="}
