"""The kernel's main loop: an asyncio loop that lives as long as the kernel, so that background tasks go on between cells.

Input: the descriptors that wake it. Output: ``_kernel.step`` is called when there is a message. It must not end for anything but a
shutdown: what a background task raises is its own affair.
"""

import asyncio
import faulthandler
import sys

from . import _kernel, messages, streams

LOOP = asyncio.new_event_loop()
GUARD_SECONDS = 1.0  # a look without being woken: the descriptor of a ZeroMQ socket is edge-triggered

_listeners = []


def on_event(listener):
    """Calls ``listener(json_text)`` on the main thread for each event of the compiler."""
    _listeners.append(listener)


def _hand_on_events():
    for event in _kernel.events():
        for listener in _listeners:
            try:
                listener(event)
            except Exception as error:
                print(f"xdyno: a listener failed: {error!r}", file=sys.__stderr__)


def _pump():
    """Serves one message and comes again at once if there are more; other callbacks of the loop get their turn between."""
    _kernel.step()
    _hand_on_events()
    if _kernel.done():
        LOOP.stop()
    elif _kernel.pending():
        LOOP.call_soon(_pump)


def _guard():
    _pump()
    LOOP.call_later(GUARD_SECONDS, _guard)


def serve():
    """Runs until a shutdown request."""
    streams.install()
    streams.capture_descriptors()
    faulthandler.enable(sys.__stderr__)
    messages.follow_threads()
    asyncio.set_event_loop(LOOP)
    for descriptor in _kernel.descriptors():
        LOOP.add_reader(descriptor, _pump)
    LOOP.call_soon(_guard)
    while not _kernel.done():
        try:
            LOOP.run_forever()
        except BaseException as error:  # SystemExit or KeyboardInterrupt of a background task
            print(f"xdyno: a background task ended with {error!r}", file=sys.__stderr__)
