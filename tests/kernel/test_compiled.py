"""Compiled code in the kernel: it is compiled at all, an interrupt ends it, errors name the right lines."""

import time

import pytest

pytest.importorskip("torch")


def counted(cell):
    return int(cell.text().split("hits ")[1])


# The turns must outlast the compiling that they cause, on a slow machine too.
TURNS = 500_000


def test_a_loop_in_the_cell_that_imports_torch(start):
    kernel = start()
    kernel.run("pass")
    code = f"import torch, dyno\nx = torch.ones(1000)\nfor i in range({TURNS}):\n    x = x * 1.0001\nprint('hits', dyno.stats()['hits'])"
    assert counted(kernel.run(code, timeout=120)) > 0


def test_a_loop_in_the_cell_that_imports_numpy(start):
    kernel = start()
    kernel.run("pass")
    code = f"import dyno\nimport numpy as np\nx = np.ones(1000)\nfor i in range({TURNS}):\n    x = x * 1.0001\nprint('hits', dyno.stats()['hits'])"
    assert counted(kernel.run(code, timeout=120)) > 0


@pytest.fixture(scope="module")
def torch_kernel(kernel):
    assert kernel.run("import torch, dyno\na = torch.ones(1000)", timeout=60).status == "ok"
    return kernel


@pytest.mark.parametrize("line", ["x = x * 1.0001", "x = step(x)"])
def test_a_compiled_loop_is_interrupted(torch_kernel, line):
    torch_kernel.run("def step(x):\n    y = x * 1.0001\n    return y + 0.5\nx = a\nbefore = dyno.stats()['hits']")
    cell = torch_kernel.send(f"for i in range(10**9):\n    {line}")
    torch_kernel.until_started(cell)
    time.sleep(1.5)
    started = time.monotonic()
    torch_kernel.manager.interrupt_kernel()
    torch_kernel.wait(cell, timeout=10)
    assert cell.error == "KeyboardInterrupt" and time.monotonic() - started < 3
    assert "Cell In[" in cell.traceback and ("line 2" in cell.traceback or "line 1" in cell.traceback)
    assert counted(torch_kernel.run("print('hits', dyno.stats()['hits'] - before)")) > 100
    assert torch_kernel.run("i > 100, x.shape[0], bool((x == x).all())").value == "(True, 1000, True)"


def test_one_long_compiled_call_is_interrupted(torch_kernel):
    torch_kernel.run("def long(x):\n    for _ in range(60):\n        x = torch.sin(x).exp().log1p().tanh()\n    return x\nbig = torch.ones(200_000)\nfor _ in range(3): long(big); dyno.wait()", timeout=120)
    cell = torch_kernel.send("while True:\n    long(big)")
    torch_kernel.until_started(cell)
    time.sleep(0.5)
    torch_kernel.manager.interrupt_kernel()
    assert torch_kernel.wait(cell, timeout=10).error == "KeyboardInterrupt"
    assert torch_kernel.run("1 + 1").value == "2"


def test_errors_of_compiled_functions_name_their_lines(torch_kernel):
    torch_kernel.run("def f(a, b):\n    c = a + 1\n    d = c * b\n    return d.relu()\nfor _ in range(4): f(a, a); dyno.wait()")
    cell = torch_kernel.run("f(a,\n  torch.ones(3))")
    assert cell.error == "RuntimeError" and "must match the size" in cell.traceback
    assert "line 3, in f" in cell.traceback and "----> 3     d = c * b" in cell.traceback.replace("---> 3", "----> 3").replace("-----> 3", "----> 3")
    assert "dyno" not in cell.traceback


def test_an_error_after_a_compiled_loop_names_its_line(torch_kernel):
    cell = torch_kernel.run("x = a\nfor i in range(800):\n    x = x + 1\n    if i == 700:\n        x = x + torch.ones(7)")
    assert cell.error == "RuntimeError" and "line 5" in cell.traceback
    assert torch_kernel.run("i, float(x[0])").value == "(700, 702.0)"


def test_inspection_tells_of_compiled_parts(torch_kernel):
    torch_kernel.run("def told(a):\n    'Doubles.'\n    return a * 2\nfor _ in range(3): told(a); dyno.wait()")
    text = torch_kernel.request(torch_kernel.client.inspect("told", 2))["data"]["text/plain"]
    assert "Doubles." in text and "Compiled: 1 part, 0 breaks" in text and "%dyno explain told" in text


def test_completion_of_the_magic(torch_kernel):
    torch_kernel.run("def made(a):\n    return a * 2\nfor _ in range(3): made(a); dyno.wait()")
    for code, wanted in (("%dyno expl", "explain"), ("%dyno graph made --st", "--stage"), ("%dyno graph made --stage ", "fused"), ("%dyno explain mad", "made")):
        matches = torch_kernel.request(torch_kernel.client.complete(code, len(code)))["matches"]
        assert any(match.endswith(wanted) for match in matches), (code, matches)
