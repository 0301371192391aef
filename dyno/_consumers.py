"""Builtins that go through an iterable, in Python: the recorder follows these where it meets a call of the builtin.

They do what CPython 3.11's C functions do (Python/bltinmodule.c), step by step, and their frames are hidden: no traceback names them and
``sys._getframe`` skips them. Nothing but the recorder calls them.
"""

__all__ = ["all", "any", "call", "extend", "first", "list", "reduce", "reduce_from", "sum", "tuple"]


def any(iterable):
    """Whether one of its items is true; goes no further than that."""
    for item in iterable:
        if item:
            return True
    return False


def all(iterable):
    """Whether no item is false; goes no further than the first."""
    for item in iterable:
        if not item:
            return False
    return True


def sum(iterable, start=0):
    """``start`` with the items added one by one, never in place."""
    for item in iterable:
        start = start + item
    return start


def list(iterable):
    """A list of the items."""
    items = []
    for item in iterable:
        items.append(item)
    return items


def tuple(iterable):
    """A tuple of the items."""
    items = []
    for item in iterable:
        items.append(item)
    return (*items,)


def extend(items, iterable):
    """What ``[*iterable]`` does for a list under way."""
    for item in iterable:
        items.append(item)


def call(function, iterable):
    """``function(*iterable)``."""
    items = []
    for item in iterable:
        items.append(item)
    return function(*items)


def first(iterable, count):
    """A tuple of the first ``count`` items, or of all if there are fewer; goes no further."""
    items = []
    for item in iterable:
        items.append(item)
        if len(items) == count:
            break
    return (*items,)


def reduce(function, iterable):
    """functools.reduce() without an initial value."""
    value, started = None, False
    for item in iterable:
        if started:
            value = function(value, item)
        else:
            value, started = item, True
    if not started:
        raise TypeError("reduce() of empty iterable with no initial value")
    return value


def reduce_from(function, iterable, value):
    """functools.reduce() with one."""
    for item in iterable:
        value = function(value, item)
    return value
