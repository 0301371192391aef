"""``%load_ext dyno`` in a real ipykernel, as it is in this environment: replies, bundles, completion. With or without the extension."""

import os
import pathlib

import pytest

jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")
ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kernel():
    from jupyter_client.manager import start_new_kernel

    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
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
