"""Rich output: results of cells, display(), clear_output().

Input: bundles that IPython's formatters made. Output: messages, after the text that was printed before them.
It must not format values itself.
"""

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher

from . import messages, streams


class Publisher(DisplayPublisher):
    """What ``display()`` calls."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):
        streams.flush_all()
        kind = "update_display_data" if update else "display_data"
        messages.publish(kind, {"data": data, "metadata": metadata or {}, "transient": transient or {}})

    def clear_output(self, wait=False):
        streams.flush_all()
        messages.publish("clear_output", {"wait": bool(wait)})


class Hook(DisplayHook):
    """What shows the value of a cell's last expression."""

    @property
    def prompt_count(self):
        return self.shell.cell_number

    def start_displayhook(self):
        self._bundle, self._metadata = {}, {}

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        self._bundle, self._metadata = format_dict, md_dict or {}

    def finish_displayhook(self):
        streams.flush_all()
        if self._bundle:
            content = {"execution_count": self.prompt_count, "data": self._bundle, "metadata": self._metadata}
            messages.publish("execute_result", content)
        self._is_active = False
