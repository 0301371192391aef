"""Numeric work in torch: 33 functions of the corpus."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F

from functions.cases import case


@case(lambda g: (g.t(g.n, 4), g.t(4, 8), g.t(8)), "")
def t_mlp_layer(x, w, b):
    return F.gelu(x @ w + b)


@case(lambda g: (g.t(2, 5 + g.seed, 8), g.t(2, 5 + g.seed, 8), g.t(2, 5 + g.seed, 8)), "mask")
def t_causal_attention(q, k, v):
    n = q.shape[1]
    mask = torch.triu(torch.ones(n, n, dtype=torch.bool), 1)
    s = (q @ k.transpose(1, 2)) / math.sqrt(q.shape[-1])
    return torch.softmax(s.masked_fill(mask, float("-inf")), -1) @ v


@case(lambda g: (g.t(6 + g.seed, 2, 3), g.t(2, 4), g.t(3, 4), g.t(4, 4)), "loop lists")
def t_rnn_loop(xs, h, wx, wh):
    out = []
    for x in xs:
        h = torch.tanh(x @ wx + h @ wh)
        out.append(h)
    return torch.stack(out), h


@case(lambda g: (g.t(3, 3) * 0.3,), "while data-dependent item")
def t_matrix_exponential_series(a):
    term, total, k = torch.eye(3), torch.eye(3), 1
    while term.abs().max() > 1e-7:
        term = term @ a / k
        total = total + term
        k += 1
    return total, k


@case(lambda g: (g.t(g.n) * (-1) ** g.seed,), "if data-dependent", seeds=(0, 1, 2, 0))
def t_branch_on_sum(x):
    if x.sum() > 0:
        return x * 2
    return x - 1, "negative"


@case(lambda g: (g.t(g.n),), "item float")
def t_item_scaling(x):
    s = x.abs().max().item()
    return x / s, round(s, 3) if s > 1 else 0


@case(lambda g: (g.t(4, 4), torch.zeros(4)), "inplace mutates-args alias")
def t_inplace_update(x, total):
    total += x.sum(0)
    x[0].mul_(2)
    x[:, 1] = 7
    y = x.view(-1)
    y[5] = -1
    return y, x.t(), total


@case(lambda g: (g.t(5), g.t(5)), "alias same-object")
def t_returns_argument(a, b):
    return a, [b, a], a[1:], b.detach()


@case(lambda g: (lambda x: (x, x, x[2:]))(g.t(6)), "alias mutates-args overlapping-args")
def t_overlapping_arguments(a, b, tail):
    tail.add_(1)
    b.mul_(2)
    return a + tail.sum()


@case(lambda g: (torch.zeros(1 + g.seed, 1).expand(1 + g.seed, 4), g.t(6, 4).t(), g.t(2, 3, 4).permute(2, 0, 1)), "strided expanded")
def t_noncontiguous(a, b, c):
    return a + 1, b.is_contiguous(), (b * 2).stride(), c.reshape(4, -1), c.flatten(1).sum(1), b[::2].contiguous(), (c + 1).stride()


@case(lambda g: (torch.zeros(0, 3), g.t(4, 0)), "zero-size", seeds=(0, 0))
def t_zero_size(a, b):
    return a.sum(), a.mean(), b @ torch.ones(0, 2), torch.cat([a, torch.ones(1, 3)]), a.view(3, 0), b.any(), a.numel(), F.relu(a)


@case(
    lambda g: (
        torch.tensor(3),
        torch.tensor(2.5),
        torch.tensor([1, 2], dtype=torch.int32),
        torch.tensor([1.5], dtype=torch.float16),
        torch.tensor([True, False]),
    ),
    "dtype-promotion 0-d",
    seeds=(0, 0),
)
def t_promotion(i, f, v, h, b):
    return (
        i + 1.5,
        i / 2,
        v + i,
        v + f,
        v * 2.0,
        h * f,
        h + 1.0,
        b + 1,
        b * 2.5,
        b & ~b,
        v // 2,
        -7 // v,
        torch.true_divide(v, 2),
        i**-1.0,
        v.sum(),
        b.sum(),
        v.float().mean(),
        h + v,
    )


@case(lambda g: (g.t(4, dtype=torch.complex64), g.t(4)), "complex")
def t_complex(z, x):
    w = torch.polar(x.abs(), x)
    return z * w, z.abs(), torch.view_as_real(z) * 2, (z.conj() @ w), z.angle(), torch.fft.fft(z), (z * z.conj()).real


@case(lambda g: (torch.tensor([1.0, 0.0, -1.0, float("inf"), float("nan")]),), "nan inf", seeds=(0, 0))
def t_special_values(x):
    return (
        x / 0,
        x.sqrt(),
        torch.where(x.isnan(), 0.0, x),
        x.max(),
        torch.nan_to_num(x),
        x.clamp(-0.5, 0.5),
        torch.sign(x),
        x.sort().values,
        x == x,
        torch.fmod(x, 0.3),
        x % 0.3,
    )


@case(lambda g: (g.t(10 + g.seed),), "boolean-mask data-dependent-shape")
def t_boolean_mask(x):
    pos = x[x > 0]
    x = x.clone()
    x[x < -0.5] = 0
    return pos, pos.numel(), x, x.nonzero(), torch.unique(x.round())


@case(lambda g: (g.t(2, 3, 4), g.t(2, 4, 5 + g.seed)), "einsum")
def t_einsum(a, b):
    return torch.einsum("bij,bjk->bik", a, b), torch.einsum("bij->bj", a), torch.einsum("...ij,...jk->...ik", a, b).sum()


@case(lambda g: (g.t(1, 4), g.t(3, 1), g.t(()), g.t(2, 1, 1)), "broadcast 0-d", seeds=(0, 0))
def t_broadcast(a, b, c, d):
    return a + b, (a * b * c * d).shape, torch.maximum(a, b), a.expand(3, 4) + c, torch.broadcast_tensors(a, b)[0].stride()


@case(lambda g: (g.t(8, 4),), "random torch-rng")
def t_dropout_noise(x):
    return F.dropout(x, 0.5, True) + torch.randn_like(x) * torch.rand(()), torch.randperm(5)


@case(lambda g: (g.t(8, 4),), "random manual-seed")
def t_seeded_inside(x):
    torch.manual_seed(3)
    g = torch.Generator().manual_seed(5)
    return x + torch.randn(4), torch.rand(2, generator=g)


@case(lambda g: (g.t(6, 3), g.ti(3, 6), g.t(3, 3).requires_grad_()), "autograd backward")
def t_backward_inside(x, y, w):
    loss = F.cross_entropy(x @ w, y)
    loss.backward()
    return loss.detach(), w.grad.clone()


@case(lambda g: (g.t(5),), "autograd grad second-order")
def t_autograd_grad(x):
    x = x.clone().requires_grad_(True)
    y = (x**3).sum()
    (g1,) = torch.autograd.grad(y, x, create_graph=True)
    (g2,) = torch.autograd.grad(g1.sum(), x)
    return g1.detach(), g2


@case(lambda g: (g.t(5).requires_grad_(), g.t(5)), "autograd requires-grad result-graph", seeds=(0, 0))
def t_result_has_graph(w, x):
    return (w * x).sum(), w.detach() * 2, x * 1


@case(lambda g: (g.t(4, 3), g.t(4, 1)), "optimizer loop module state", tolerance=1e-4)
def t_optimizer_loop(x, y):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    opt = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(4):
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return losses, [p.detach().clone() for p in model.parameters()]


@case(lambda g: (g.t(6, 2), g.t(6)), "inplace no_grad leaf loop", tolerance=1e-4)
def t_manual_gradient_descent(x, y):
    w = torch.zeros(2, requires_grad=True)
    for _ in range(5):
        loss = ((x @ w - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
    return w.detach(), loss.item(), torch.is_grad_enabled()


@case(lambda g: (g.t(6),), "custom-autograd-function", state=True)
def t_custom_function(env):
    class Clamp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(-1, 1)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() < 1) * 2

    def run(x):
        x = x.clone().requires_grad_()
        y = Clamp.apply(x * 2)
        y.sum().backward()
        return y.detach(), x.grad

    return run


@case(lambda g: (g.t(3, 4),), "module buffers state training-flag", state=True)
def t_batch_norm_state(env):
    torch.manual_seed(0)
    m = env["module"] = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))

    def run(x):
        m.train()
        y = m(x)
        m.eval()
        return y.detach(), m(x).detach(), m[0].num_batches_tracked.item()

    return run


@case(lambda g: (g.t(3, 4),), "hooks module state", state=True)
def t_forward_hook(env):
    torch.manual_seed(0)
    m, seen = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()), env.setdefault("seen", [])
    m[0].register_forward_hook(lambda mod, inp, out: seen.append(out.detach().sum().item()))
    return lambda x: (m(x).detach(), len(seen))


@case(lambda g: (g.t(3, 5), g.t(4, 5)), "functional-transform vmap")
def t_vmap_jacobian(x, y):
    f = lambda a: torch.sin(a).sum() * a[0]
    return torch.func.vmap(torch.func.grad(f))(x), torch.func.jacrev(torch.sin)(y[0]), torch.vmap(torch.dot, (None, 0))(x[0], y)


@case(lambda g: (g.t(4, 4, dtype=torch.float64),), "linalg")
def t_linear_algebra(a):
    s = a @ a.T + 4 * torch.eye(4, dtype=a.dtype)
    l = torch.linalg.cholesky(s)
    return torch.linalg.solve(s, a), torch.cholesky_solve(a, l), torch.linalg.eigvalsh(s), torch.logdet(s), torch.linalg.svdvals(a)


@case(lambda g: (g.t(2, 3, 9, 9), g.t(4, 3, 3, 3)), "conv pool")
def t_conv_block(x, w):
    y = F.conv2d(x, w, padding=1, stride=2)
    return (
        F.max_pool2d(F.relu(y), 2),
        F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False).sum(),
        F.pad(x, (1, 1), mode="reflect").shape,
        F.unfold(x, 3).shape,
    )


@case(lambda g: (g.t(5, 3), g.ti(5, 7), g.ti(4, 5)), "index gather scatter")
def t_index_ops(x, i, j):
    return (
        x[i],
        x.gather(0, i[:3, None].expand(3, 3)),
        torch.zeros(4, 3).index_add(0, j, x),
        torch.zeros(4, 3).scatter_reduce(0, j[:, None].expand(5, 3), x, "amax"),
        x[i.tolist()[:2]],
        x[..., -1],
        x[None, :, 1:2],
    )


@case(lambda g: (g.t(6).numpy(), g.t(6)), "numpy-torch-mix alias")
def t_numpy_bridge(a, t):
    b = torch.from_numpy(a)
    b.mul_(2)
    c = t.numpy()
    c += 1
    return np.sin(a) + c, torch.as_tensor(a).sum(), t


@case(lambda g: (g.t(4),), "autocast context device")
def t_contexts(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.mm(x[:, None], x[None])
    with torch.inference_mode():
        z = x * 2
    with torch.set_grad_enabled(False):
        s = (x * 3).requires_grad
    return y, z.clone().is_inference(), s, torch.get_default_dtype(), y.dtype
