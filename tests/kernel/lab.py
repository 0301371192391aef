"""JupyterLab in a headless Chromium, driven as a user drives it.

Input: a folder for everything the server and the browser write. Output: notebooks that are opened, run and looked at.
Selectors are those of JupyterLab 4.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from client import build_folder

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOKEN = "test"


def chromium():
    """The browser's path, or ``None``."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Server:
    """One JupyterLab server with the build tree's kernelspec and no settings of the user."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.notebooks = self.folder / "notebooks"
        self.notebooks.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.environment = {
            **os.environ,
            "HOME": str(self.folder),
            "IPYTHONDIR": str(self.folder / "ipython"),
            "JUPYTER_PATH": str(build_folder() / "share" / "jupyter"),
            "JUPYTER_CONFIG_DIR": str(self.folder / "config"),
            "JUPYTER_DATA_DIR": str(self.folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.folder / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(self.folder / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(self.folder / "workspaces"),
        }
        options = [
            "--no-browser",
            "--allow-root",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            f"--IdentityProvider.token={TOKEN}",
            f"--ServerApp.root_dir={self.notebooks}",
            "--LabApp.news_url=None",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
            "--LabApp.extension_manager=readonly",
        ]
        self.settings()
        self.log = open(self.folder / "server.log", "ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options], env=self.environment, stdout=self.log, stderr=self.log, cwd=str(self.folder)
        )
        self._wait()

    def _wait(self):
        for _ in range(240):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/status?token={TOKEN}", timeout=2)
                return
            except OSError:
                time.sleep(0.25)
        raise TimeoutError("JupyterLab's server did not come up: " + (self.folder / "server.log").read_text()[-2000:])

    def address(self, path=""):
        return f"http://127.0.0.1:{self.port}/lab{path}?reset&token={TOKEN}"

    def settings(self, theme="JupyterLab Light"):
        """What pages opened from now on look like: the theme, and no question about news over the cells."""
        folder = self.folder / "settings" / "@jupyterlab" / "apputils-extension"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "themes.jupyterlab-settings").write_text(f'{{"theme": "{theme}"}}')
        (folder / "notification.jupyterlab-settings").write_text('{"fetchNews": "false"}')

    def close(self):
        self.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


class Lab:
    """A page of JupyterLab."""

    def __init__(self, server, page):
        self.server = server
        self.page = page

    def open(self, path=""):
        self.page.goto(self.server.address(path))
        self.page.wait_for_selector("#jupyterlab-splash", state="detached", timeout=90000)

    @property
    def notebook(self):
        return self.page.locator(".jp-NotebookPanel:visible")

    def new_notebook(self, kernel="Python (compiled)", state="Idle"):
        """Picks the kernel in the launcher and waits for the state.

        The state is read from the status bar. The toolbar's indicator says idle from the moment a notebook is drawn, and JupyterLab
        drops, without a word, a cell that is run before its session has a kernel; so it does with every kernel.
        """
        card = self.page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text=kernel)
        card.wait_for(timeout=60000)
        card.click()
        self.notebook.wait_for(timeout=60000)
        self.until(state)

    def until(self, state="Idle"):
        """Waits for a state of the kernel, a pattern."""
        self.page.locator("#jp-main-statusbar .jp-StatusBar-TextItem", has_text=re.compile(rf"\| ({state})$")).wait_for(timeout=60000)

    def cell(self, index):
        return self.notebook.locator(f".jp-CodeCell >> nth={index}")

    def type(self, index, code):
        """Puts code into a cell and makes it the active one."""
        editor = self.cell(index).locator(".cm-content")
        editor.wait_for()
        editor.click()
        self.page.keyboard.insert_text(code)

    def run(self, index, code, timeout=60):
        """Runs code in a cell; returns its output area when the cell has a number."""
        self.start(index, code)
        return self.done(index, timeout)

    def start(self, index, code):
        """Runs code in a cell and does not wait."""
        self.type(index, code)
        self.page.keyboard.press("Shift+Enter")

    def done(self, index, timeout=60):
        prompt = self.cell(index).locator(".jp-InputPrompt")
        try:
            prompt.filter(has_text=re.compile(r"^\[\d+\]:$")).wait_for(timeout=timeout * 1000)
        except Exception as error:
            picture = self.server.folder / f"cell-{index}-not-done.png"
            self.page.screenshot(path=str(picture))
            status = self.page.locator("#jp-main-statusbar .jp-StatusBar-TextItem", has_text="|").all_inner_texts()
            prompts = self.notebook.locator(".jp-InputPrompt").all_inner_texts()
            raise TimeoutError(f"cell {index} has no number after {timeout} s: status {status}, prompts {prompts}, picture {picture}") from error
        return self.cell(index).locator(".jp-Cell-outputArea")

    def press(self, button):
        """Clicks a button of the notebook's toolbar."""
        self.notebook.locator(f'[data-jp-item-name="{button}"] jp-button, [data-jp-item-name="{button}"] button').first.click()

    def accept(self):
        self.page.locator(".jp-Dialog .jp-mod-accept").click()

    def save(self):
        self.page.keyboard.press("Control+s")
        self.page.wait_for_timeout(500)
        rename = self.page.locator(".jp-Dialog .jp-mod-accept")
        if rename.count():
            rename.first.click()
        self.page.wait_for_timeout(1500)
