"""torch programs evaluated: module calls inlined, tensors, autograd, hooks, with blocks. Skipped without torch."""
try:
    import torch
except ImportError:
    torch = None

import frame_probe


def close(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2))


def small_net():
    """No module whose Python asks torch.backends, where descriptors written in Python answer."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(8, 8)), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()


def forward():
    model, x = net(), torch.ones(3, 4)
    return model(x) + 1


def training():
    model = net().eval()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x, y = torch.arange(12.0).reshape(3, 4), torch.zeros(3, 2)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        return losses, model(x)


def attention():
    torch.manual_seed(1)
    q, k, v = (torch.randn(2, 3, 4) for _ in range(3))
    scores = (q @ k.transpose(-1, -2)) / 4**0.5
    mask = torch.tril(torch.ones(3, 3)).bool()
    scores = scores.masked_fill(~mask, float("-inf"))
    out = torch.softmax(scores, -1) @ v
    a, *rest = out.unbind(0)
    return {"first": a, "rest": [r[..., ::2] for r in rest]}["first"], [f"{float(r.sum()):.3f}" for r in rest]


def hooks():
    seen = []
    model = net().eval()
    handle = model[0].register_forward_hook(lambda m, args, out: seen.append(type(m).__name__) or out * 2)
    out = model(torch.ones(1, 4))
    handle.remove()
    return out, seen


def test_torch_programs():
    for program in (forward, training, attention, hooks) if torch else ():
        want = program()
        for name, run in {
            "walked": lambda: frame_probe.walk(program),
            "at every boundary": lambda: frame_probe.walk(program, every_boundary=True),
            "recorded": lambda: frame_probe.record(program, inline=True),
            "everywhere": lambda: frame_probe.record(program, inline=True, everywhere=True),
        }.items():
            assert close(run(), want), (program.__name__, name)
            counts = frame_probe.counts()
            assert counts["mismatches"] == 0 and counts["bugs"] == 0, (program.__name__, name, counts)


def test_module_calls_are_inlined():
    if not torch:
        return
    model = small_net()

    def run(x):
        return model(x)

    x = torch.ones(3, 4)
    with torch.no_grad():
        assert close(frame_probe.record(run, (x,), inline=True), model(x))
    counts = frame_probe.counts()
    assert counts["left"] == counts["entered"] + 1 >= 15 and counts["strangers"] == counts["failed"] == 0, counts


def test_rebuild_inside_modules():
    if not torch:
        return
    model = small_net()

    def run(x):
        return model(x) * 2

    x = torch.ones(3, 4)
    with torch.no_grad():
        want = model(x) * 2
        taken = 0
        for at in range(1, 1200, 13):
            try:
                frame_probe.record(run, (x,), inline=True, stop_at=at, take_state=True)
            except frame_probe.Abandoned:
                assert close(frame_probe.resume(at % 2), want), at
                taken += 1
            else:
                break
    assert taken > 20, taken
