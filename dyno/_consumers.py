"""Builtins that go through an iterable, in Python: the recorder follows these where it meets a call of the builtin.

They do what CPython 3.11's C functions do (Python/bltinmodule.c), step by step, and their frames are hidden: no traceback names them and
``sys._getframe`` skips them. Nothing but the recorder calls them.
"""

import sys
from collections import OrderedDict

__all__ = [
    "accumulate_all", "accumulate_by", "all", "any", "at", "call", "chain_all", "combinations_all", "compress_all", "dict_of", "dropwhile_all", "extend", "filter_all", "filterfalse_all", "first",
    "islice_all", "islice_to", "kept", "list", "map_all", "map_many", "max_by", "min_by", "missing", "ordered_of", "pairwise_all", "permutations_all", "product_all", "put_masked", "reduce", "reduce_from", "repeat_all", "sorted_by",
    "starmap_all", "sum", "takewhile_all", "tuple",
]  # fmt: skip

EMPTY = [f"{name}() {'iterable argument is empty' if sys.version_info >= (3, 12) else 'arg is an empty sequence'}" for name in ("min", "max")]


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


def dict_of(pairs):
    """``dict(pairs)`` of what is known to be pairs."""
    made = {}
    for key, value in pairs:
        made[key] = value
    return made


def ordered_of(pairs):
    """``OrderedDict(pairs)`` of what is known to be pairs."""
    made = OrderedDict()
    for key, value in pairs:
        made[key] = value
    return made


def missing(items, key, factory):
    """What a defaultdict does for a key that it lacks."""
    value = factory()
    items[key] = value
    return value


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


def at(function, array, indices, *values):
    """What ``array`` holds after ``function.at(array, indices, *values)`` of a NumPy ufunc, as a new array."""
    array = array.copy()
    function.at(array, indices, *values)
    return array


def put_masked(array, mask, values):
    """What ``array`` holds after ``array[mask] = values``, as a new array."""
    array = array.copy()
    array[mask] = values
    return array


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


# The following give a list of what an iterator would have: its consumer takes all of it at once. A function that raises StopIteration ends it.


def map_all(function, iterable):
    """map() over one iterable."""
    items = []
    for item in iterable:
        try:
            value = function(item)
        except StopIteration:
            break
        items.append(value)
    return items


def map_many(function, *iterables):
    """map() over several."""
    return starmap_all(function, zip(*iterables))


def starmap_all(function, iterable):
    """itertools.starmap()."""
    items = []
    for arguments in iterable:
        try:
            value = function(*arguments)
        except StopIteration:
            break
        items.append(value)
    return items


def filter_all(function, iterable):
    """filter()."""
    return kept(function, iterable, True)


def filterfalse_all(function, iterable):
    """itertools.filterfalse()."""
    return kept(function, iterable, False)


def kept(function, iterable, wanted):
    """The items of which the function, or None the items themselves, are true or false as wanted."""
    items = []
    for item in iterable:
        if function is None:
            answer = item
        else:
            try:
                answer = function(item)
            except StopIteration:
                break
        if answer:
            if wanted:
                items.append(item)
        elif not wanted:
            items.append(item)
    return items


def takewhile_all(function, iterable):
    """itertools.takewhile()."""
    items = []
    for item in iterable:
        try:
            wanted = function(item)
        except StopIteration:
            break
        if not wanted:
            break
        items.append(item)
    return items


def dropwhile_all(function, iterable):
    """itertools.dropwhile()."""
    items, begun = [], False
    for item in iterable:
        if not begun:
            try:
                dropped = function(item)
            except StopIteration:
                break
            if dropped:
                continue
            begun = True
        items.append(item)
    return items


def compress_all(iterable, selectors):
    """itertools.compress()."""
    items = []
    for item, selected in zip(iterable, selectors):
        if selected:
            items.append(item)
    return items


def chain_all(*iterables):
    """itertools.chain()."""
    items = []
    for iterable in iterables:
        for item in iterable:
            items.append(item)
    return items


def islice_to(iterable, stop):
    """itertools.islice() with an end only: takes no item more."""
    items = []
    if stop == 0:
        return items
    for item in iterable:
        items.append(item)
        if stop is not None and len(items) >= stop:
            break
    return items


def islice_all(iterable, start, stop, step=1):
    """itertools.islice(); the end is known to lie behind the start."""
    items, place = [], 0
    start, step = start or 0, step or 1
    following = start
    if stop is not None and stop <= 0:
        return items
    for item in iterable:
        if place == following and (stop is None or place < stop):
            items.append(item)
            following += step
        place += 1
        if stop is not None and place >= stop:
            break
    return items


def accumulate_all(iterable):
    """itertools.accumulate() by addition."""
    items, total, started = [], None, False
    for item in iterable:
        total = total + item if started else item
        started = True
        items.append(total)
    return items


def accumulate_by(iterable, function):
    """itertools.accumulate() by a function of two arguments."""
    items, total, started = [], None, False
    for item in iterable:
        total = function(total, item) if started else item
        started = True
        items.append(total)
    return items


def pairwise_all(iterable):
    """itertools.pairwise()."""
    items, before, started = [], None, False
    for item in iterable:
        if started:
            items.append((before, item))
        before, started = item, True
    return items


def product_all(*iterables):
    """itertools.product()."""
    items = [()]
    for iterable in iterables:
        pool, longer = [], []
        for item in iterable:
            pool.append(item)
        for front in items:
            for item in pool:
                longer.append((*front, item))
        items = longer
    return items


def combinations_all(iterable, count):
    """itertools.combinations(), by the places of the items."""
    pool, items = [], []
    for item in iterable:
        pool.append(item)
    size = len(pool)
    if count > size:
        return items
    places = []
    for place in range(count):
        places.append(place)
    while True:
        chosen = []
        for place in places:
            chosen.append(pool[place])
        items.append((*chosen,))
        k = count - 1
        while k >= 0 and places[k] == k + size - count:
            k -= 1
        if k < 0:
            return items
        places[k] += 1
        for later in range(k + 1, count):
            places[later] = places[later - 1] + 1


def permutations_all(iterable, count=None):
    """itertools.permutations(), in the order of the places of the items."""
    pool, fronts, items = [], [()], []
    for item in iterable:
        pool.append(item)
    size = len(pool)
    for _ in range(size if count is None else count):
        longer = []
        for front in fronts:
            for place in range(size):
                if place not in front:
                    longer.append((*front, place))
        fronts = longer
    for front in fronts:
        chosen = []
        for place in front:
            chosen.append(pool[place])
        items.append((*chosen,))
    return items


def repeat_all(item, count):
    """itertools.repeat() so many times."""
    items = []
    for _ in range(count):
        items.append(item)
    return items


def sorted_by(iterable, function, reverse):
    """sorted() by a key: stable, each key worked out once."""
    pool, keyed, items = [], [], []
    for item in iterable:
        pool.append(item)
    for place in range(len(pool)):
        keyed.append((function(pool[place]), -place if reverse else place))
    for pair in sorted(keyed, reverse=reverse):
        items.append(pool[-pair[1] if reverse else pair[1]])
    return items


def max_by(iterable, function):
    """max() by a key: the first of several."""
    best, best_key, started = None, None, False
    for item in iterable:
        key = function(item)
        if not started or key > best_key:
            best, best_key, started = item, key, True
    if not started:
        raise ValueError(EMPTY[1])
    return best


def min_by(iterable, function):
    """min() by a key: the first of several."""
    best, best_key, started = None, None, False
    for item in iterable:
        key = function(item)
        if not started or key < best_key:
            best, best_key, started = item, key, True
    if not started:
        raise ValueError(EMPTY[0])
    return best
