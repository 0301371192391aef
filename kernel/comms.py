"""Comms: the channel of widgets, on the package ``comm``.

Input: comm messages of the front end. Output: the registered targets are called, and what Python comms send is published.
Without the package the kernel works, and widgets show as text.
"""

import json

from . import messages

try:
    import comm as _comm
    from comm.base_comm import BaseComm, CommManager
except ImportError:
    _comm = None


if _comm is not None:

    class Comm(BaseComm):
        """A comm whose messages go out on iopub."""

        def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
            messages.publish(msg_type, {"comm_id": self.comm_id, "data": data or {}, **keys}, metadata, buffers)


manager = None


class KernelFace:
    """What libraries look for at ``get_ipython().kernel``: the parent of the running cell and the comm manager."""

    def __init__(self, shell):
        self.shell = shell
        self.comm_manager = manager

    def get_parent(self, channel=None):
        """The running request, as far as Python may know it."""
        header = json.loads(messages.parent())
        return {"header": header, "msg_id": header.get("msg_id", ""), "msg_type": header.get("msg_type", "")}


def install(shell):
    """Makes ``comm.create_comm`` and the manager ours. Returns False if the package is missing."""
    global manager
    if _comm is not None:
        manager = CommManager()
        _comm.create_comm = lambda *arguments, **options: Comm(*arguments, **options)
        _comm.get_comm_manager = lambda: manager
    shell.kernel = KernelFace(shell)
    return _comm is not None


def info(target):
    """The open comms, of one target or of all."""
    live = manager.comms if manager is not None else {}
    return {"status": "ok", "comms": {key: {"target_name": item.target_name} for key, item in live.items() if target in (None, "", item.target_name)}}


def receive(kind, header, content, metadata, buffers):
    """Hands ``comm_open``, ``comm_msg`` or ``comm_close`` to its comm. An unknown comm is ignored, an unknown target is closed."""
    if manager is None or kind not in ("comm_open", "comm_msg", "comm_close"):
        return
    if kind != "comm_open" and content.get("comm_id") not in manager.comms:
        return  # a widget of an earlier kernel
    message = {"header": header, "content": content, "metadata": metadata, "buffers": buffers, "msg_type": kind}
    getattr(manager, kind)(None, None, message)
