"""The messaging protocol, checked message by message by jupyter_kernel_test; every class attribute is set."""

import os
import tempfile
import unittest

import jupyter_kernel_test

from client import build_folder


def setUpModule():
    os.environ["JUPYTER_PATH"] = str(build_folder() / "share" / "jupyter")
    os.environ["IPYTHONDIR"] = tempfile.mkdtemp(prefix="dyno-protocol-")


class ProtocolTests(jupyter_kernel_test.KernelTests):
    kernel_name = "xdyno"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "import os; os.getcw", "matches": {"getcwd", "getcwdb"}},
        {"text": "%matplotli", "matches": {"%matplotlib"}},
    ]
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2", "if True:"]
    invalid_code_samples = ["import = 7q", "a b"]
    code_page_something = "zip?"
    code_generate_error = "raise ValueError('wanted')"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
        {"code": "from IPython.display import HTML; HTML('<b>x</b>')", "mime": "text/html", "result": "<b>x</b>"},
    ]
    code_display_data = [
        {"code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))", "mime": "text/html"},
        {"code": "from IPython.display import Math, display; display(Math('\\\\frac{1}{2}'))", "mime": "text/latex"},
        {"code": "from IPython.display import SVG, display; display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))", "mime": "image/svg+xml"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


class WelcomeTests(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "xdyno"
    support_iopub_welcome = False  # xeus 2.4 speaks protocol 5.3; the message came with 5.4


del jupyter_kernel_test.KernelTests, jupyter_kernel_test.IopubWelcomeTests  # pytest would collect the bases too

if __name__ == "__main__":
    unittest.main()
