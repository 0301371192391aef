"""The public way, with the proof refused on request: the same answers, only slower."""
from test_start import run


def test_tensors_and_outputs():
    run("""
        import torch, python_door as d, sys
        assert d.ready() and d.refusal()
        from strangers import strangers, check
        assert sum(check(d, t) for t in strangers(300)) > 200
        a = torch.empty(3, 4)
        assert d.matches(a, torch.empty(3, 4)) and not d.matches(a, torch.empty(3, 5)) and not d.matches(a, torch.empty(4, 3).t()) and d.matches(a, torch.empty(7, 4), 0)
        for odd in (torch.ones(2).to_sparse(), torch.ones(2, dtype=torch.complex64).conj(), torch.empty(2, device="meta"), 3):
            assert not d.plain(odd)
        import torch.autograd.forward_ad as fwd
        with fwd.dual_level():
            assert not d.plain(fwd.make_dual(torch.ones(2), torch.ones(2)))
        d.bump(a); assert a._version == 1 and d.read(a)["version"] == 1
        t = torch.randn(3, requires_grad=True); t.sum().backward(); assert d.read(t)["has_grad"]
        before = sys.getrefcount(t)
        for _ in range(50): d.read(t)
        assert sys.getrefcount(t) == before
        for n in (16, 1 << 19):
            u = d.make("f32", (n,), (1,)); like = torch.empty(n)
            assert u.dtype is like.dtype and u._version == 0 and torch._C._dispatch_keys(u) == torch._C._dispatch_keys(like) and d.plain(u)
        assert d.large_way(None) == "fresh"
        base = torch.arange(24.0)
        v = d.alias(base, (3, 2), (6, 2), 7)
        assert v.equal(base.as_strided((3, 2), (6, 2), 7)) and v._base is None
        base.add_(1); assert v[0, 0] == 8
        # the ambient word by public calls
        assert d.way() == "public calls" and d.reason() is None and d.modes() == (1, 0, 0)
        w = d.words()
        with torch.no_grad(): assert d.words() != w and d.reason() is None and d.modes()[0] == 0
        with torch.inference_mode(): assert d.words() != w and d.reason() is None and d.modes()[1] == 1
        with torch.autocast("cpu"): assert "autocast" in d.reason()
        assert d.words() == w and d.threads() == torch.get_num_threads()
    """, DYNO_REFUSE_PROBE="1")
