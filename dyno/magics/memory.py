"""The peak of memory that one call needs beyond what the process has already.

Input: a call. Output: bytes, or ``None`` where the system does not tell. Measured by the kernel's own high-water mark, so that every
library's memory counts, and freed blocks that a library keeps for later do not.
"""

PROCESS = "/proc/self/"


def peak_of(call):
    """Bytes by which the resident memory rose above its start while ``call()`` ran, whole pages; the result is dropped at once."""
    try:
        with open(PROCESS + "clear_refs", "w") as file:
            file.write("5")  # the high-water mark starts anew from the present size
        before = field("VmRSS")
        call()
        return max(0, field("VmHWM") - before)
    except (OSError, ValueError, KeyError):
        return None


def field(name):
    """One size of this process's status, in bytes."""
    with open(PROCESS + "status") as file:
        rows = dict(line.split(":", 1) for line in file)
    return int(rows[name].split()[0]) * 1024


def in_words(size):
    """``0 MB``, ``1.5 MB``, ``192 MB``."""
    if size is None:
        return ""
    megabytes = size / 2**20
    return f"{megabytes:.0f} MB" if megabytes >= 10 or megabytes < 0.05 else f"{megabytes:.1f} MB"
