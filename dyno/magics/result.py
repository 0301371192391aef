"""The value of a magic, and its display: one bundle of forms that agree.

Input: a report (data) and a page (words). Output: MIME bundles. ``application/json`` never stands beside HTML, since front ends
would prefer it; the data travel in a vendor type that they all ignore and the saved notebook keeps.
"""

import json

from dyno.magics.page import Page
from dyno.magics.page_html import html
from dyno.magics.page_markdown import markdown
from dyno.magics.page_text import text


class Result:
    """What a command found. ``report`` is the data (a dict), ``str(result)`` the text; displays itself in a notebook."""

    def __init__(self, report, page: Page, *, form="page", svg=None):
        self.report = report
        self.page = page
        self.form = form  # page: all forms | text: text alone | json: data and text | svg: page and raw picture
        self.svg = svg
        self.shown_in = None  # execution count of the cell that has shown it already

    def __str__(self):
        return text(self.page)

    def __repr__(self):
        return str(self)

    def bundle(self):
        """The MIME bundle of this result's form."""
        plain = {"text/plain": text(self.page)}
        if self.form == "text":
            return plain
        if self.form == "json":
            return {**plain, "application/json": self.report}
        kind = self.report["kind"]
        data = {"text/markdown": markdown(self.page), "text/html": html(self.page), f"application/vnd.dyno.{kind}.v1+json": self.report}
        picture = {"image/svg+xml": self.svg} if self.form == "svg" and self.svg else {}
        return {**plain, **data, **picture}

    def _repr_mimebundle_(self, include=None, exclude=None):
        return self.bundle()

    def _ipython_display_(self):
        # The magic has shown the result in its own cell; the display hook must not show it there again.
        shell = running_shell()
        if shell is None:
            print(self)
        elif self.shown_in != shell.execution_count:
            show(shell, self)

    def to_json(self):
        """The report as JSON text."""
        return json.dumps(self.report, indent=2)


def running_shell():
    """IPython's shell of this process, or ``None``."""
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def show(shell, result):
    """Shows a result under the running cell."""
    from IPython.display import publish_display_data

    result.shown_in = shell.execution_count
    publish_display_data(result.bundle())
