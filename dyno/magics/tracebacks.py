"""Tracebacks of the user's own errors under a magic: they begin at the user's code.

Input: an exception that passes through a magic. Output: the same exception, which IPython will show without the magic's frames. The
exception, its traceback object and what debuggers see stay as they are.
"""

import os

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def begin_at_user(shell, error):
    """Arranges the shortened display, once. Exceptions that take no attributes keep the long one."""
    trace = error.__traceback__
    last_of_ours = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(OURS):
            last_of_ours = trace
        trace = trace.tb_next
    start = last_of_ours.tb_next if last_of_ours is not None else None
    if start is None or shell is None:
        return

    def render():
        del error._render_traceback_
        return shell.InteractiveTB.structured_traceback(type(error), error, start, tb_offset=0)

    try:
        error._render_traceback_ = render
    except AttributeError:
        pass
