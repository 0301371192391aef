"""Widgets, comms, figures, whole notebooks."""

import nbformat
import pytest
from nbclient import NotebookClient

from client import build_folder


def test_inline_figures(kernel):
    pytest.importorskip("matplotlib")
    cell = kernel.run("import matplotlib.pyplot as plt\nplt.figure(figsize=(2, 1)); plt.plot([1, 3, 2]);", timeout=60)
    assert [sorted(content["data"]) for content in cell.of("display_data")] == [["image/png", "text/plain"]]
    assert len(kernel.run("plt.plot([1]); plt.show()").of("display_data")) == 1
    cell = kernel.run("%matplotlib inline\nplt.plot([3, 1]);")
    assert cell.of("display_data") and cell.text("stderr") == ""


def test_comm_opened_by_the_front_end(kernel):
    kernel.run("import comm\ngot = []\ndef target(c, message):\n    got.append(message['content']['data'])\n    c.on_msg(lambda m: (got.append(m['content']['data']), print('handled'), c.send({'answer': 42}, buffers=[b'raw'])))\ncomm.get_comm_manager().register_target('t', target)")
    open_message = kernel.client.session.msg("comm_open", {"comm_id": "c1", "target_name": "t", "data": {"first": 1}})
    kernel.client.shell_channel.send(open_message)
    message = kernel.client.session.msg("comm_msg", {"comm_id": "c1", "data": {"second": 2}})
    kernel.client.shell_channel.send(message)
    info = kernel.client.comm_info("t")
    assert kernel.request(info)["comms"] == {"c1": {"target_name": "t"}}
    seen = []
    while not any(one["msg_type"] == "comm_msg" for one in seen) or not any(one["msg_type"] == "stream" for one in seen):
        seen.append(kernel.client.get_iopub_msg(timeout=5))
    sent = next(one for one in seen if one["msg_type"] == "comm_msg")
    assert sent["content"] == {"comm_id": "c1", "data": {"answer": 42}} and [bytes(buffer) for buffer in sent["buffers"]] == [b"raw"]
    assert sent["parent_header"]["msg_id"] == message["header"]["msg_id"]
    assert kernel.run("got").value == "[{'first': 1}, {'second': 2}]"


def test_unknown_comms_do_no_harm(kernel):
    for kind, content in (
        ("comm_open", {"comm_id": "x", "target_name": "nobody", "data": {}}),
        ("comm_msg", {"comm_id": "unknown", "data": {}}),
        ("comm_close", {"comm_id": "unknown", "data": {}}),
    ):
        kernel.client.shell_channel.send(kernel.client.session.msg(kind, content))
    assert kernel.run("'alive'").value == "'alive'"


def test_widgets(kernel):
    pytest.importorskip("ipywidgets")
    cell = kernel.run("import ipywidgets as w\nslider = w.IntSlider(7)\nmoves = []\nslider.observe(lambda change: moves.append(change['new']), 'value')\nslider", timeout=60)
    assert "application/vnd.jupyter.widget-view+json" in cell.of("execute_result")[0]["data"] and len(cell.of("comm_open")) >= 3
    model = cell.of("execute_result")[0]["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]
    update = {"comm_id": model, "data": {"method": "update", "state": {"value": 33}, "buffer_paths": []}}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", update))
    assert kernel.run("slider.value, moves").value == "(33, [33])"


def test_output_widget_takes_output(kernel):
    pytest.importorskip("ipywidgets")
    cell = kernel.run("import ipywidgets as w\nout = w.Output()\nwith out:\n    print('captured')\nprint('free')")
    messages = [content["data"]["state"]["msg_id"] for content in cell.of("comm_msg") if "msg_id" in content["data"].get("state", {})]
    assert messages == [cell.id, ""]  # the front end takes what comes between


def test_callback_of_a_widget_can_be_interrupted(kernel):
    import time

    pytest.importorskip("ipywidgets")
    cell = kernel.run("import time\nbutton = w.Button()\nstarted = []\ndef slow(_):\n    started.append(1)\n    time.sleep(1000)\nbutton.on_click(slow)\nprint(button.model_id)")
    click = {"comm_id": cell.text().strip(), "data": {"method": "custom", "content": {"event": "click"}}}
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_msg", click))
    time.sleep(0.5)
    kernel.manager.interrupt_kernel()
    assert kernel.run("started", timeout=10).value == "[1]"


def test_notebook_by_nbclient(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_PATH", str(build_folder() / "share" / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    cells = [
        "pass",
        "def f(a, b):\n    y = a + b\n    z = abs(y)\n    return z * 2\nf(-3, 1)",
        "print('text')",
        "from IPython.display import HTML\nHTML('<b>x</b>')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="xdyno", timeout=60).execute()
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, 3, 4]
    assert notebook.cells[1].outputs[0]["data"]["text/plain"] == "4"
    assert notebook.cells[2].outputs == [{"output_type": "stream", "name": "stdout", "text": "text\n"}]
    assert notebook.cells[3].outputs[0]["data"]["text/html"] == "<b>x</b>"
    assert notebook.metadata["language_info"]["name"] == "python"


def test_nbclient_stops_at_the_first_error(monkeypatch, tmp_path):
    from nbclient.exceptions import CellExecutionError

    monkeypatch.setenv("JUPYTER_PATH", str(build_folder() / "share" / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in ("1", "1/0", "open('ran', 'w')")])
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        NotebookClient(notebook, kernel_name="xdyno", timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert not (tmp_path / "ran").exists()
