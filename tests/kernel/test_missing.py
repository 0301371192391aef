"""Environments that lack something: the kernel works and says once what is missing."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpec

from client import build_folder


def spec_of(python):
    return KernelSpec(
        argv=[str(build_folder() / "bin" / "xdyno"), "--python", str(python), "-f", "{connection_file}"], display_name="x", language="python", interrupt_mode="message"
    )


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory):
    """A real environment with everything of this one but torch."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, capture_output=True)
    site = folder / "lib" / ("python%d.%d" % sys.version_info[:2]) / "site-packages"
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("torch", "functorch", "dyno")) and not entry.name.endswith(".pth"):
            (site / entry.name).symlink_to(entry)
    return folder / "bin" / "python"


def test_without_torch(start, without_torch):
    kernel = start(spec=spec_of(without_torch))
    kernel.run("pass")
    assert kernel.run("import sys, numpy as np; (np.arange(3.0) + 1).tolist()").value == "[1.0, 2.0, 3.0]"
    assert kernel.run("sys.prefix").value == repr(str(without_torch.parent.parent))
    assert kernel.run("import torch").error == "ModuleNotFoundError"
    sentence = "torch is not installed: NumPy and plain Python only."
    assert kernel.log_text.count(sentence) == 1
    assert sentence in kernel.request(kernel.client.kernel_info())["banner"]


def test_without_ipython(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True, capture_output=True)
    got = subprocess.run(spec_of(tmp_path / "bare" / "bin" / "python").argv[:3] + ["-f", "none"], capture_output=True, text=True, timeout=30)
    assert (got.returncode, got.stderr) == (3, f"xdyno: IPython is not installed in {tmp_path / 'bare'}, and the kernel needs it.\n")


def test_segmentation_fault_is_logged(start):
    kernel = start()
    kernel.send("import faulthandler; faulthandler._sigsegv()")
    assert kernel.gone_within(10) is not None and "Segmentation fault" in kernel.log_text and "ipython-input" in kernel.log_text


def test_with_torch_says_nothing(start):
    pytest.importorskip("torch")
    kernel = start()
    kernel.run("pass")
    assert "torch" not in kernel.log_text
    assert kernel.run("import torch\na = torch.ones(3)\n(a + a).relu() * 2", timeout=60).value == "tensor([4., 4., 4.])"


def test_without_graphviz(start, tmp_path):
    """A damaged library stands before the good one."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libgvc.so.6").write_bytes(b"this is no library")
    kernel = start({"LD_LIBRARY_PATH": str(tmp_path / "lib")})
    kernel.run("pass")
    assert kernel.run("6 * 7").value == "42"
    assert kernel.log_text.count("Graphviz's library libgvc.so.6 is not installed: graphs are shown as tables.") == 1


def test_home_that_cannot_be_written(start):
    """Also for root, whom no permission stops."""
    kernel = start({"HOME": "/proc/nowhere", "IPYTHONDIR": "", "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": "", "MPLCONFIGDIR": ""})
    first = kernel.run("6 * 7")
    assert first.value == "42"
    assert first.text("stderr").count("/proc/nowhere/.ipython cannot be written: history and settings last for this session only.") == 1
    assert kernel.run("1").text("stderr") == ""
    assert kernel.request(kernel.client.history(hist_access_type="tail", n=2))["history"][-1][2] == "1"
    assert kernel.run("import matplotlib.pyplot as plt; plt.plot([1, 2]);", timeout=60).of("display_data")


def test_without_the_compiler(start):
    """DYNO=0 switches it off; so does a missing dyno._core."""
    kernel = start({"DYNO": "0"})
    first = kernel.run("6 * 7")
    assert first.value == "42"
    assert first.text("stderr").count("nothing is compiled") == 1
    assert kernel.run("1").text("stderr") == ""


def test_history_is_kept_between_sessions(start, tmp_path):
    environment = {"IPYTHONDIR": str(tmp_path / "ipython")}
    first = start(environment)
    first.run("kept = 'for the next session'")
    first.client.shutdown()
    assert first.gone_within(5) is not None
    second = start(environment)
    found = second.request(second.client.history(hist_access_type="search", pattern="kept*"))["history"]
    assert found[0][2] == "kept = 'for the next session'" and os.path.exists(tmp_path / "ipython")
