"""The Jupyter kernel "Python (compiled)". ``xdyno`` and ``python -m dyno.kernel`` both come to ``main``.

Input: a command line. Output: a running kernel, an installed kernelspec, or one sentence on stderr and a status.
This file must import nothing heavy: ``--version`` and refusals have to work in any Python.
"""

import argparse
import sys

__all__ = ["main"]


def parse(argv):
    """The options of the command line; what Jupyter front ends add beyond them is ignored."""
    parser = argparse.ArgumentParser(prog="xdyno", description='The Jupyter kernel "Python (compiled)".', allow_abbrev=False)
    parser.add_argument("-f", "--f", metavar="FILE", dest="file", help="run the kernel on this connection file")
    parser.add_argument("--python", metavar="PATH", help="the environment's python (xdyno only)")
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    parser.add_argument("--install", action="store_true", help="write the kernelspec and leave; without a place: --sys-prefix")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="install for this user")
    place.add_argument("--prefix", metavar="DIR", help="install under DIR/share/jupyter")
    place.add_argument("--sys-prefix", action="store_true", help="install under the environment's own prefix")
    parser.add_argument("--name", default="xdyno", help="folder of the kernelspec (default: xdyno)")
    parser.add_argument("--display-name", default="Python (compiled)", help="name in the launcher")
    options, _ = parser.parse_known_args(argv)
    return parser, options


def missing_module():
    """Why the kernel cannot run here, as one sentence, or ``None`` if it can."""
    try:
        from . import _kernel  # noqa: F401
    except ImportError as error:
        from importlib import machinery
        from pathlib import Path

        here = "%d.%d" % sys.version_info[:2]
        built = [file.name.split(".")[1] for file in Path(__file__).parent.glob("_kernel.*.so")]
        if built and not any(file.endswith(machinery.EXTENSION_SUFFIXES[0]) for file in ("." + tag + ".so" for tag in built)):
            return f"this kernel was built for {', '.join(sorted(built))} and cannot run in Python {here} ({sys.executable})."
        return f"the kernel's extension module could not be loaded in Python {here}: {error}."
    from importlib.util import find_spec

    if find_spec("IPython") is None:
        return f"IPython is not installed in {sys.prefix}, and the kernel needs it."
    return None


def main(argv=None, program=None):
    """Runs the kernel or does what the options ask; returns the exit status. ``program``: the launcher's path, if one started us."""
    parser, options = parse(sys.argv[1:] if argv is None else argv)
    if options.version:
        from importlib import import_module

        print(f"xdyno {getattr(import_module('dyno'), '__version__', '0.1.0')} (Python {sys.version.split()[0]}, {sys.prefix})")
        return 0
    objection = missing_module()
    if objection is not None:
        print(f"xdyno: {objection}", file=sys.stderr)
        return 3
    if options.install:
        from .kernelspec import install

        return install(options, program)
    if options.file is None:
        parser.print_usage(sys.stderr)
        print("xdyno: -f CONNECTION_FILE, --install or --version is needed.", file=sys.stderr)
        return 2
    from . import start

    return start.run(options.file)
