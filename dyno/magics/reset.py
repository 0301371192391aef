"""``%dyno reset [f]``: drops compiled code and says how many bytes that freed."""

from dyno import _backend
from dyno.magics.page import Page
from dyno.magics.result import Result


def run(request):
    """Resets one function, or everything."""
    target = request.targets[0] if request.targets else None
    freed = _backend.core.reset(target.function if target else None)
    subject = target.name if target else "all functions"
    report = {"schema": "dyno.report/1", "kind": "reset", "target": target.name if target else None, "freed_bytes": freed}
    return Result(report, Page(f"compiled code of {subject} dropped: {freed:,} bytes freed"), form="text")
