"""Every switch that changes what torch, NumPy or CPython do moves the ambient word and comes back; the rest leaves it alone."""
import contextlib
import sys
import threading
import numpy as np
import pytest
import torch
import python_door as door

assert door.ready() and door.numpy_ready()
RAW, FUNCTIONS, CALLS = 1, 2, 3


@contextlib.contextmanager
def switch(setter, on, off):
    setter(on)
    try:
        yield
    finally:
        setter(off)


class Function(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, f, t, a=(), k=None): return f(*a, **(k or {}))


class Dispatch(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, f, t, a=(), k=None): return f(*a, **(k or {}))


@contextlib.contextmanager
def vmapped():
    torch._C._functorch._vmap_increment_nesting(2, "error")
    try:
        yield
    finally:
        torch._C._functorch._vmap_decrement_nesting()


PLAIN = {
    "no_grad": torch.no_grad, "inference": torch.inference_mode, "default dtype": lambda: switch(torch.set_default_dtype, torch.float64, torch.float32),
    "deterministic": lambda: switch(torch.use_deterministic_algorithms, True, False),
    "warn only": lambda: switch(lambda v: torch.use_deterministic_algorithms(v, warn_only=v), True, False),
    "errstate": lambda: np.errstate(divide="raise"), "errstate callback": lambda: np.errstate(call=print),
}
NOT_PLAIN = {
    "function mode": (Function, "function mode"), "dispatch mode": (Dispatch, "dispatch mode"), "device context": (lambda: torch.device("meta"), "function mode"),
    "default device": (lambda: switch(torch.set_default_device, "meta", None), "function mode"), "autocast": (lambda: torch.autocast("cpu"), "autocast"),
    "autocast cuda": (lambda: switch(lambda v: torch.set_autocast_enabled("cuda", v), True, False), "autocast"), "vmap": (vmapped, "transform"),
    "function disabled": (torch._C.DisableTorchFunction, "disabled"), "saved tensor hooks": (lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x), "hooks"),
    "anomaly": (lambda: torch.autograd.set_detect_anomaly(True, check_nan=False), "anomaly"), "profiler": (lambda: torch.autograd.profiler.profile(), "profiler"),
    "flush denormal": (lambda: switch(torch.set_flush_denormal, True, False), "floating-point"),
}
RAW_ONLY = {"fill": lambda: switch(lambda v: setattr(torch.utils.deterministic, "fill_uninitialized_memory", v), False, True),
            "tf32": lambda: switch(lambda v: setattr(torch.backends.cuda.matmul, "allow_tf32", v), True, False),
            "view replay": lambda: torch.autograd._force_original_view_tracking(True)}


@pytest.fixture(params=[RAW, FUNCTIONS, CALLS], ids=["raw words", "functions", "public calls"], autouse=True)
def way(request):
    assert door.set_way(request.param) and door.way() == request.node.callspec.id.split("-")[0]
    yield request.param
    door.set_way(RAW)


def moves(make):
    off = door.words()
    for _ in range(2):
        with make():
            on, reason = door.words(), door.reason()
            assert door.matches_ambient(on) and not door.matches_ambient(off)
        assert door.words() == off and door.matches_ambient(off)
        assert on != off
    return reason


def test_raw_words_were_proved():
    assert door.way_refused() is None


def test_nothing_moves_nothing():
    words = door.words()
    torch.ones(3).add(2), np.ones(3) + 2, torch.manual_seed(3)
    assert door.words() == words and door.reason() is None


@pytest.mark.parametrize("name", PLAIN)
def test_switches_that_stay_plain(name):
    assert moves(PLAIN[name]) is None


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_switches_that_are_not_plain(name):
    make, word = NOT_PLAIN[name]
    assert word in moves(make)


@pytest.mark.parametrize("name", RAW_ONLY)
def test_switches_only_the_raw_words_see(name, way):
    if way != RAW:
        pytest.skip("no exported function or cheap public call tells of it")
    assert moves(RAW_ONLY[name]) is None


def test_modes_nest():
    seen = [door.words()]
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(Function())
            seen.append(door.words())
    assert len(set(map(tuple, seen))) == 6 and door.words() == seen[0]


def test_grad_and_inference():
    assert door.modes() == (1, 0, 0)
    with torch.no_grad():
        assert door.modes() == (0, 0, 0)
        with torch.enable_grad():
            assert door.modes() == (1, 0, 0)
    with torch.inference_mode():
        assert door.modes() == (int(torch.is_grad_enabled()), 1, 0)
        assert door.reason() is None
        with torch.inference_mode(False):
            assert door.modes() == (1, 0, 0) and door.reason() is None
    with PLAIN["deterministic"]():
        assert door.modes() == (1, 0, 1)


def test_threads_have_their_own_word():
    main, other = door.words(), []

    def run():
        other.append(door.words())
        with torch.no_grad():
            other.append(door.words())
    with torch.no_grad():
        inside = door.words()
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert other[0] == main and other[1] == inside


def test_tracing_and_profiling():
    def nothing(*args): return None
    states, old = [], sys.gettrace()
    sys.settrace(nothing)
    try: states.append(door.reason())
    finally: sys.settrace(old)
    sys.setprofile(nothing)
    try: states.append(door.reason())
    finally: sys.setprofile(None)
    assert "tracer" in states[0] and "profiler" in states[1] and door.reason() is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring")
def test_monitoring():
    m = sys.monitoring
    m.use_tool_id(3, "test")
    try:
        m.set_events(3, m.events.LINE)
        assert "monitoring" in door.reason()
    finally:
        m.set_events(3, 0)
        m.free_tool_id(3)
    assert door.reason() is None
