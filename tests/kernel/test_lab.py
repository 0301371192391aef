"""Journeys in JupyterLab. ``--pictures DIR`` saves the screenshots of the documentation, light and dark."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from client import build_folder
from lab import CHROMIUM_FLAGS, Lab, Server, chromium

playwright = pytest.importorskip("playwright.sync_api")
pytest.importorskip("jupyterlab")
pytestmark = pytest.mark.skipif(chromium() is None, reason="Chromium is not installed")

CHAIN = "import torch\na, b = torch.randn(65536), torch.randn(65536)\n\ndef f(a, b):\n    y = a + b\n    z = y.relu()\n    w = z * 2\n    return w"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("lab"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch_persistent_context(
            tempfile.mkdtemp(), executable_path=chromium(), headless=True, viewport={"width": 1200, "height": 900}, args=CHROMIUM_FLAGS
        )
        yield running
        running.close()


@pytest.fixture
def lab(server, browser, tmp_path):
    page = browser.new_page()
    yield Lab(server, page)
    page.close()


def test_user_journey(lab):
    lab.open()
    lab.new_notebook()
    assert "7" in lab.run(0, "print(3 + 4)").inner_text()
    out = lab.run(1, "from IPython.display import HTML, display\ndisplay(HTML('<b class=\"probe\" style=\"color:green\">rich</b>'))")
    assert out.locator("b.probe").evaluate("e => getComputedStyle(e).color") == "rgb(0, 128, 0)"
    picture = "<svg xmlns='http://www.w3.org/2000/svg' width='80' height='40'><rect width='80' height='40' fill='orange'/></svg>"
    out = lab.run(2, f'import base64\ndisplay(HTML("<img src=\'data:image/svg+xml;base64," + base64.b64encode({picture!r}.encode()).decode() + "\'>"))')
    assert out.locator("img").evaluate("e => e.decode().then(() => e.naturalWidth)") == 80
    out = lab.run(3, "import matplotlib.pyplot as plt; plt.figure(figsize=(2, 1)); plt.plot([1, 3, 2]);")
    out.locator(".jp-RenderedImage img").wait_for()
    out = lab.run(4, "1/0")
    assert "ZeroDivisionError" in out.inner_text() and "Cell In" in out.inner_text()

    lab.start(5, "while True: pass")
    lab.page.wait_for_timeout(1000)
    lab.press("interrupt")
    lab.cell(5).locator(".jp-OutputArea", has_text="KeyboardInterrupt").first.wait_for(timeout=10000)

    lab.start(6, "name = input('name? '); print('got', name)")
    line = lab.page.locator(".jp-Stdin-input")
    line.wait_for(timeout=10000)
    line.fill("bob")
    line.press("Enter")
    lab.cell(6).locator(".jp-OutputArea", has_text="got bob").first.wait_for(timeout=10000)

    lab.press("restart")
    lab.accept()
    lab.until("Restarting|Unknown|Starting|Busy")
    lab.until("Idle")
    assert "NameError" in lab.run(7, "name").inner_text()


def test_widget(lab):
    pytest.importorskip("ipywidgets")
    lab.open()
    lab.new_notebook()
    lab.run(0, "import ipywidgets as w; s = w.IntSlider(7, description='slide'); s")
    lab.notebook.locator(".widget-slider").wait_for(timeout=20000)
    readout = lab.notebook.locator(".widget-readout")
    readout.wait_for()
    readout.click()
    lab.page.keyboard.press("Control+a")
    lab.page.keyboard.type("21")
    lab.page.keyboard.press("Enter")
    lab.cell(1).locator(".cm-content").click()
    assert "21" in lab.run(1, "s.value").inner_text()


@pytest.mark.parametrize("turn", range(3))
def test_cell_sent_while_the_kernel_starts(lab, turn):
    """The cell is run as soon as JupyterLab takes one, before the kernel has said a word."""
    lab.open()
    lab.new_notebook(state="Connecting|Starting|Unknown|Busy|Idle")
    assert "first" in lab.run(0, "print('first')", timeout=30).inner_text()
    assert "second" in lab.run(1, "print('second')", timeout=10).inner_text()


def test_completer(lab):
    """Tab in a fresh kernel; JupyterLab waits a second for a completer."""
    lab.open()
    lab.new_notebook()
    lab.run(0, "import os")
    lab.type(1, "os.getc")
    lab.page.keyboard.press("Tab")
    box = lab.page.locator(".jp-Completer:visible")
    box.wait_for(timeout=10000)
    texts = lab.page.locator(".jp-Completer-item .jp-Completer-match").all_inner_texts()
    assert "getcwd" in texts and "getcwdb" in texts


def why_nothing_is_compiled(folder):
    """The reason that the build tree under test gives, or ``None``."""
    environment = {**os.environ, "PYTHONPATH": str(build_folder() / "python")}
    asked = subprocess.run([sys.executable, "-c", "from dyno import _backend; print(_backend.reason)"], env=environment, cwd=folder, capture_output=True, text=True)
    answer = asked.stdout.strip() or asked.stderr.strip()[-200:]
    return None if answer == "None" else answer


def has_table_and_picture(out):
    """The output of %dyno graph: a picture that loads and says what it is, and the table of nodes."""
    image = out.locator("img").first
    image.wait_for(timeout=20000)
    assert image.evaluate("e => e.decode().then(() => e.naturalWidth)") > 50 and image.get_attribute("alt")
    table = out.locator("table").first
    text = table.inner_text() if table.is_visible() else table.text_content()
    assert all(word in text for word in ("add", "relu", "mul")), text


def bench_table(out):
    text = out.locator("table").first.inner_text()
    assert re.search(r"[\d.]+\s*(ns|µs|us|ms|s)\b", text), text


def test_the_chain_and_its_magics(lab, server, request):
    """The chain, its graph and its bench: table and picture; again when the saved notebook is opened untrusted."""
    reason = why_nothing_is_compiled(server.folder)
    if reason:
        pytest.skip(f"nothing is compiled here: {reason}")
    lab.open()
    lab.new_notebook()
    lab.run(0, CHAIN + "\n\nfor _ in range(3): f(a, b)", timeout=90)
    lab.run(1, "import dyno; dyno.wait()", timeout=60)
    has_table_and_picture(lab.run(2, "%dyno graph f", timeout=60))
    bench_table(lab.run(3, "%dyno bench f(a, b)", timeout=180))
    lab.save()
    saved = max(server.notebooks.glob("*.ipynb"), key=lambda path: path.stat().st_mtime)
    content = json.loads(saved.read_text())
    assert content["metadata"]["kernelspec"]["name"] == "xdyno"
    make_untrusted(content)
    (server.notebooks / "chain.ipynb").write_text(json.dumps(content))
    folder = request.config.getoption("--pictures")
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        server.settings(theme)
        lab.open("/tree/chain.ipynb")
        lab.notebook.wait_for(timeout=60000)
        probe = lab.cell(1).locator(".jp-Cell-outputArea b")
        probe.wait_for(timeout=30000)
        assert probe.get_attribute("onclick") is None, "the notebook is trusted"
        has_table_and_picture(lab.cell(2).locator(".jp-Cell-outputArea"))
        bench_table(lab.cell(3).locator(".jp-Cell-outputArea"))
        if folder:
            take_pictures(lab, Path(folder), theme.split()[-1].lower())
    server.settings()


def make_untrusted(content):
    """Another digest, which the server has not signed; and an output that shows whether JupyterLab cleans it."""
    content["metadata"]["changed"] = "elsewhere"
    for cell in content["cells"]:
        cell.get("metadata", {}).pop("trusted", None)
    probe = {"output_type": "display_data", "metadata": {}, "data": {"text/html": ['<b onclick="0">waited</b>'], "text/plain": ["waited"]}}
    content["cells"][1]["outputs"] = [probe]


def take_pictures(lab, folder, theme):
    """The graph and the bench as a reader of the documentation sees them."""
    folder.mkdir(parents=True, exist_ok=True)
    lab.until("Idle")
    lab.page.keyboard.press("Control+b")  # the file browser goes
    lab.page.wait_for_timeout(500)
    for index, name in ((2, "graph"), (3, "bench")):
        cell = lab.cell(index)
        cell.scroll_into_view_if_needed()
        lab.page.wait_for_timeout(300)
        cell.screenshot(path=str(folder / f"{name}-{theme}.png"))
    lab.page.screenshot(path=str(folder / f"notebook-{theme}.png"))
