"""When torch is met: not before its import is over, not by force, and without a trace."""
import os
import subprocess
import sys
import textwrap
import python_door

HERE = os.path.dirname(os.path.abspath(__file__))


def run(code, **env):
    path = os.pathsep.join([os.path.dirname(python_door.__file__), HERE])
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, "PYTHONPATH": path, **env}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return done


def test_nothing_is_imported():
    run("""
        import sys, python_door as d
        assert not d.ready() and not d.numpy_ready() and d.read(3) is None and d.read_array([]) is None
        assert d.threads() == 0 and d.errstate() == 0 and d.way() == "none" and d.reason() is None
        words = d.words()
        assert not any(words[:9]) and words == d.words()
        assert d.modes() == (0, 0, 0) and "torch" not in sys.modules and "numpy" not in sys.modules
    """)


def test_torch_half_imported_is_not_met():
    run("""
        import sys, types, python_door as d
        import importlib.machinery
        half = types.ModuleType("torch"); half.__spec__ = importlib.machinery.ModuleSpec("torch", None); half.__spec__._initializing = True
        sys.modules["torch"] = half
        assert not d.ready()
        half.__spec__._initializing = False
        assert not d.ready()                      # no Tensor in it
        del sys.modules["torch"]
        import torch
        assert d.ready() and d.refusal() is None and d.read(torch.ones(2)) is not None
    """)


def test_the_proof_leaves_no_trace():
    run("""
        import torch, warnings, python_door as d
        warnings.simplefilter("error")
        torch.manual_seed(3)
        def state():
            return (torch.get_rng_state().tolist(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(),
                    torch.is_deterministic_algorithms_warn_only_enabled(), torch.utils.deterministic.fill_uninitialized_memory, torch._C._len_torch_function_stack(),
                    torch._C._len_torch_dispatch_stack(), torch.is_autocast_enabled("cpu"), torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision(),
                    torch.get_num_threads(), torch.cuda.is_initialized(), torch._C._dispatch_tls_local_include_set().raw_repr(), torch._C._dispatch_tls_local_exclude_set().raw_repr(),
                    torch.is_anomaly_enabled(), torch._C._is_view_replay_enabled(), torch.autograd.forward_ad._current_level)
        before = state()
        assert d.ready() and d.refusal() is None
        assert state() == before
    """)


def test_the_proof_works_under_the_users_settings():
    together = (["torch.set_grad_enabled(False)", "torch.set_default_device('meta')", "torch.set_default_dtype(torch.float64)", "torch.use_deterministic_algorithms(True)",
                 "torch.autograd.graph.saved_tensors_hooks(bad, bad).__enter__()", "torch.set_float32_matmul_precision('medium')"],
                ["torch.inference_mode().__enter__()", "torch.autocast('cpu').__enter__()", "torch.autograd.set_detect_anomaly(True)"])
    for settings in together:
        setting = "; ".join(settings)
        run(f"""
            import torch, python_door as d
            def bad(x): raise AssertionError("called")
            {setting}
            before = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_device(), torch.get_float32_matmul_precision()
            assert d.ready() and d.refusal() is None, d.refusal()
            assert d.way() == "raw words", d.way_refused()
            assert before == (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_device(), torch.get_float32_matmul_precision())
        """)


def test_modes_and_transforms_put_the_proof_off():
    run("""
        import torch, python_door as d
        class Seen(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, f, t, a=(), k=None): raise AssertionError("called")
        with Seen(): assert not d.ready()
        torch.func.vmap(lambda x: (x, d.ready())[0])(torch.ones(2))
        assert d.way() == "none"
        assert d.ready()
    """)


def test_a_refusal_is_said_once():
    done = run("""
        import torch, python_door as d
        assert d.ready() and d.ready() and "request" in d.refusal() and d.way() == "public calls"
        d.read(torch.ones(2)); d.words()
    """, DYNO_REFUSE_PROBE="1")
    assert done.stderr.count("dyno:") == 1


def test_threads_are_torchs():
    run("""
        import torch, python_door as d
        d.ready(); torch.set_num_threads(1); assert d.threads() == 1
        torch.set_num_threads(2); assert d.threads() == 2
    """)
