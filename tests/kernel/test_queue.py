"""The order of requests: while a cell runs, after an error, from many clients."""

import threading
import time


def test_request_sent_during_a_cell(kernel):
    cell = kernel.send("import time; time.sleep(0.5)")
    kernel.until_started(cell)
    info = kernel.client.kernel_info()
    assert kernel.request(info, timeout=5)["status"] == "ok"
    assert kernel.run("1").value == "1"


def test_request_sent_during_an_awaiting_cell(kernel):
    cell = kernel.send("import asyncio; await asyncio.sleep(0.5)")
    kernel.until_started(cell)
    info = kernel.client.kernel_info()
    assert kernel.request(info, timeout=5)["status"] == "ok"
    assert kernel.run("1").value == "1"


def test_control_channel_answers_while_a_cell_runs(kernel):
    cell = kernel.send("import time; time.sleep(1.5)")
    kernel.until_started(cell)
    message = kernel.client.session.msg("kernel_info_request", {})
    started = time.monotonic()
    kernel.client.control_channel.send(message)
    reply = kernel.client.get_control_msg(timeout=5)
    assert reply["parent_header"]["msg_id"] == message["header"]["msg_id"] and time.monotonic() - started < 1
    assert reply["content"]["protocol_version"].startswith("5.")
    kernel.wait(cell)


def test_replies_keep_their_parents_beside_control_requests(kernel):
    """A front end that starts up asks on both channels at once; each reply and each idle must name its own request."""
    for turn in range(30):
        asked = [kernel.client.session.msg("kernel_info_request", {}) for _ in range(5)]
        cells = [kernel.send(f"{turn}"), kernel.send("pass")]
        for message in asked:
            kernel.client.control_channel.send(message)
        kernel.wait(*cells, timeout=10)
        assert cells[0].value == str(turn) and cells[1].value is None
        answered = {kernel.client.get_control_msg(timeout=5)["parent_header"]["msg_id"] for _ in asked}
        assert answered == {message["header"]["msg_id"] for message in asked}


def statuses(kernel, stop_on_error):
    cells = [kernel.send(code, stop_on_error=stop_on_error) for code in ("1/0", "'second'", "'third'")]
    kernel.wait(*cells)
    return [cell.status for cell in cells], cells


def test_cells_after_an_error_are_aborted(kernel):
    got, cells = statuses(kernel, True)
    assert got == ["error", "aborted", "aborted"]
    for cell in cells[1:]:
        assert [content["execution_state"] for content in cell.of("status")] == ["busy", "idle"] and not cell.of("execute_input")
    assert kernel.run("'fresh'").value == "'fresh'"


def test_cells_after_an_error_run_on_if_asked(kernel):
    got, cells = statuses(kernel, False)
    assert got == ["error", "ok", "ok"] and [cell.value for cell in cells] == [None, "'second'", "'third'"]


def test_error_of_an_awaiting_cell_aborts_too(kernel):
    cells = [kernel.send("import asyncio\nawait asyncio.sleep(0.2)\n1/0"), kernel.send("2")]
    kernel.wait(*cells)
    assert [cell.status for cell in cells] == ["error", "aborted"]


def test_other_requests_are_not_aborted(kernel):
    kernel.send("import time; time.sleep(0.3); 1/0")
    complete = kernel.client.complete("zi")
    assert kernel.request(complete, timeout=10)["matches"] == ["zip"]
    assert kernel.run("1").value == "1"


def test_many_clients(start):
    one = start()
    clients = [one.another_client() for _ in range(10)]
    good = []

    def work(client, number):
        for turn in range(10):
            reply = client.execute_interactive(f"{number}*{turn}", timeout=30, output_hook=lambda message: None, allow_stdin=False)
            good.append(reply["content"]["status"] == "ok")

    threads = [threading.Thread(target=work, args=(client, number)) for number, client in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.stop_channels()
    assert good == [True] * 100


def test_a_forged_message_is_dropped(kernel):
    from jupyter_client.session import Session

    forger = Session(key=b"wrong")
    message = forger.msg("execute_request", {"code": "forged = 1", "silent": False})
    kernel.client.shell_channel.socket.send_multipart(forger.serialize(message))
    assert kernel.run("'forged' in globals()").value == "False"
