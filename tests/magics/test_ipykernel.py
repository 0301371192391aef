"""``%load_ext dyno`` in a real ipykernel, as it is in this environment: replies, bundles, completion. With or without the extension."""

import os
import pathlib

import pytest

jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")


@pytest.fixture(scope="module")
def kernel():
    from jupyter_client.manager import start_new_kernel

    import dyno

    path = os.pathsep.join([str(pathlib.Path(dyno.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    manager, client = start_new_kernel(kernel_name="python3", env={**os.environ, "PYTHONPATH": path})

    def run(code):
        messages = []
        reply = client.execute_interactive(code, output_hook=messages.append, timeout=120)
        kept = [(message["msg_type"], message["content"]) for message in messages if message["msg_type"] not in ("status", "execute_input")]
        return reply["content"]["status"], kept

    run.client = client
    assert run("%load_ext dyno")[0] == "ok"
    run("def f(x):\n    return x + 1\nf(1)")
    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_display_is_one_message_and_no_result(kernel):
    status, messages = kernel("%dyno explain f")
    assert status == "ok" and [kind for kind, _ in messages] == ["display_data"]
    assert "application/json" not in messages[0][1]["data"] and "text/html" in messages[0][1]["data"]


def test_a_value_can_be_kept(kernel):
    status, messages = kernel("r = %dyno why f\nr.report['function']['name']")
    assert status == "ok" and [kind for kind, _ in messages] == ["display_data", "execute_result"]
    assert messages[1][1]["data"]["text/plain"] == "'f'"


def test_bad_input_is_an_error_of_one_line(kernel):
    status, messages = kernel("%dyno grpah f")
    assert status == "error" and [kind for kind, _ in messages] == ["stream"]
    assert messages[0][1]["name"] == "stderr" and messages[0][1]["text"].startswith(
        "UsageError: unknown command 'grpah'. Did you mean 'graph'?"
    )


def test_a_cells_own_error_is_an_error_with_its_traceback(kernel):
    status, messages = kernel("%%dyno explain\nx = 1\nx / 0")
    assert status == "error" and messages[-1][0] == "error" and messages[-1][1]["ename"] == "ZeroDivisionError"
    assert "magic.py" not in "".join(messages[-1][1]["traceback"])


def test_a_cells_value_is_shown_before_its_explanation(kernel):
    status, messages = kernel("%%dyno explain\nx = 41\nx + 1")
    assert status == "ok" and [kind for kind, _ in messages] == ["execute_result", "display_data"]
    assert messages[0][1]["data"]["text/plain"] == "42"


def test_plain_cells_are_as_ever(kernel):
    status, messages = kernel("import asyncio\nprint('a')\nawait asyncio.sleep(0)\n1 / 0")
    assert status == "error" and messages[0] == ("stream", {"name": "stdout", "text": "a\n"})
    assert "dyno" not in "".join(messages[-1][1]["traceback"])


def test_completion_offers_commands_and_values(kernel):
    for line, expected in (("%dyno gra", "graph"), ("%dyno graph f --stage ", "fused")):
        reply = kernel.client.complete(line, len(line), reply=True, timeout=60)
        assert expected in reply["content"]["matches"]


# ---- with the extension: what the compiler really did


@pytest.fixture(scope="module")
def compiling(kernel):
    from dyno import _backend

    if _backend.reason is not None:
        pytest.skip(_backend.reason)
    pytest.importorskip("torch")
    assert (
        kernel("import torch\nx = torch.randn(1000)\ndef chain(a, b):\n    y = a + b\n    z = y.relu()\n    w = z * 2\n    return w")[0]
        == "ok"
    )
    return kernel


def report_of(messages):
    (content,) = [content for kind, content in messages if kind == "display_data"]
    return next(value for name, value in content["data"].items() if name.startswith("application/vnd.dyno.")), content["data"]["text/plain"]


def test_a_function_not_called_says_so_and_a_call_compiles_it(compiling):
    assert report_of(compiling("%dyno guards chain")[1])[1].startswith("chain has not been called yet.")
    report, text = report_of(compiling("%dyno explain chain(x, x)")[1])
    assert report["function"]["state"] == "compiled" and "compiled, 1 kernel, 0 breaks" in text
    assert [row.get("status") for row in report["lines"]][1:4] == ["fused"] * 3
    assert [row["text"].strip() for row in report["lines"]][1] == "y = a + b" and "In [" in text


def test_the_graph_has_one_kernel_and_a_picture_or_a_sentence(compiling):
    status, messages = compiling("%dyno graph chain")
    report, text = report_of(messages)
    assert status == "ok" and len(report["entries"][0]["kernels"]) == 1
    assert "picture: Graph of chain" in text or "No picture: Graphviz" in text
    assert compiling("%dyno graph chain --kernel 9")[0] == "error"


def test_a_bench_replays(compiling):
    report, text = report_of(compiling("%dyno bench chain(x, x) --min-time 0.05")[1])
    assert report["hits"] > 0 and report["interpreted_because"] is None
    assert {row["name"]: row["agreement"] and row["agreement"]["verdict"] for row in report["contestants"]} == {
        "interpreted": None,
        "compiled": "equal",
    }


def test_a_break_has_a_line_and_a_reason(compiling):
    compiling("def talks(a):\n    b = a * 2\n    print('seen')\n    return b.exp() + 1\nq = talks(x); q = talks(x)")
    report, text = report_of(compiling("%dyno why talks")[1])
    assert "line 3" in text and "print" in text


def test_a_loop_in_a_cell_is_explained(compiling):
    report, text = report_of(compiling("%%dyno explain\nt = torch.zeros(100)\nfor i in range(100):\n    t = t * 0.5 + 1\nt.sum()")[1])
    assert text.startswith("this cell (In [") and [row["line"] for row in report["lines"]] == [1, 2, 3, 4, 5]
    assert report["lines"][3]["status"] == "fused"


def test_status_and_reset(compiling):
    report, text = report_of(compiling("%dyno")[1])
    assert report["state"] == "on" and report["totals"]["captures"] >= 1 and "chain" in text
    assert compiling("%dyno reset chain")[0] == "ok"
