"""Writes the kernelspec.

Input: the options of the command line and the launcher's path. Output: kernel.json and the logos in the place that Jupyter searches,
with absolute paths of the environment they were installed from. It must not start anything.
"""

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

LOGOS = ("logo-32x32.png", "logo-64x64.png", "logo-svg.svg")


def command(program):
    """The kernel's argv: by the launcher that runs this or lies in the environment, else by this python."""
    # abspath, not realpath: the python of a venv is a link, and what it links to is another environment
    python = os.path.abspath(sys.executable)
    if program is None:
        beside = Path(sysconfig.get_path("scripts")) / "xdyno"
        program = beside if os.access(beside, os.X_OK) else None
    if program is None:
        return [python, "-m", "dyno.kernel", "-f", "{connection_file}"]
    return [os.path.abspath(program), "--python", python, "-f", "{connection_file}"]


def specification(program, display_name):
    """The content of kernel.json."""
    return {
        "argv": command(program),
        "display_name": display_name,
        "language": "python",
        "interrupt_mode": "message",
        "kernel_protocol_version": "5.3",
        "metadata": {"debugger": False},
    }


def data_folder(options):
    """The Jupyter data folder that the options name."""
    if options.user:
        try:
            from jupyter_core.paths import jupyter_data_dir

            return Path(jupyter_data_dir())
        except ImportError:
            return Path.home() / ".local" / "share" / "jupyter"
    return Path(options.prefix or sys.prefix) / "share" / "jupyter"


def install(options, program):
    """Writes the files and says where; returns the exit status."""
    folder = (data_folder(options) / "kernels" / options.name).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.json").write_text(json.dumps(specification(program, options.display_name), indent=1) + "\n")
        for logo in LOGOS:
            shutil.copyfile(Path(__file__).parent / "logos" / logo, folder / logo)
    except OSError as error:
        print(f"xdyno: the kernelspec could not be written: {error}.", file=sys.stderr)
        return 1
    print(f"xdyno: installed kernelspec {options.name} in {folder}")
    return 0
