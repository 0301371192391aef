"""nn.Module: forward, hooks, train and eval, containers, buffers, parameters, attributes; results are compared in no_grad and with gradients."""
import pytest
import torch
from torch import nn
from twice import program


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 2)
        self.scale = 2.0
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        x = torch.relu(self.a(x)) * self.scale
        return self.b(x) + self.count


def x():
    return (torch.arange(12.0).view(3, 4) / 8,)


@program
def test_forward(t):
    torch.manual_seed(0)
    f = t.compile(Net())
    with torch.no_grad():
        t.calls(f, x)


@program(hits=0)
def test_forward_and_backward(t):
    torch.manual_seed(0)
    net = Net()
    f = t.compile(net)
    for _ in range(4):
        out = t.call(f, *x())
        out.sum().backward()
        t.note([p.grad for p in net.parameters()])
        net.zero_grad()


@program
@pytest.mark.law(7)
def test_attributes_and_parameters_change(t):
    torch.manual_seed(0)
    net = Net()
    f = t.compile(net)
    with torch.no_grad():
        t.calls(f, x)
        net.scale = 3.0
        t.calls(f, x)
        net.a.weight.mul_(2)
        t.calls(f, x)
        net.a = nn.Linear(4, 8, bias=False)
        t.calls(f, x)
        net.b.weight = nn.Parameter(torch.ones(2, 8))
        t.calls(f, x)
        net.count += 1
        t.calls(f, x)
        net.count = torch.ones(())
        t.calls(f, x)
        net.b.bias = None
        t.calls(f, x)
        net.double()
        t.calls(f, lambda: (x()[0].double(),))


@program
@pytest.mark.law(7)
def test_hooks(t):
    torch.manual_seed(0)
    net = Net()
    f = t.compile(net)
    log = []
    with torch.no_grad():
        t.calls(f, x)
        handle = net.a.register_forward_hook(lambda m, args, out: log.append(out.max()))
        t.calls(f, x)
        change = net.b.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
        t.calls(f, x)
        handle.remove()
        t.calls(f, x)
        change.remove()
        replace = net.register_forward_hook(lambda m, args, out: out + 100)
        t.calls(f, x)
        replace.remove()
        t.calls(f, x)
    t.note(log)


@program
@pytest.mark.law(7)
def test_global_hook_and_class_forward(t):
    torch.manual_seed(0)
    f = t.compile(Net())
    log = []
    with torch.no_grad():
        t.calls(f, x)
        handle = nn.modules.module.register_module_forward_hook(lambda m, args, out: log.append(type(m).__name__))
        try:
            t.calls(f, x, 2)
        finally:
            handle.remove()
        t.note(log)
        t.calls(f, x)
        kept = nn.Linear.forward
        try:
            nn.Linear.forward = lambda self, x: kept(self, x) * 0
            t.calls(f, x)
        finally:
            nn.Linear.forward = kept
        t.calls(f, x)


@program
def test_train_and_eval(t):
    class Drop(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x):
            return self.drop(self.norm(x)) + (1 if self.training else 2)

    torch.manual_seed(0)
    net = Drop()
    f = t.compile(net)
    with torch.no_grad():
        for mode in (True, True, False, False, False, True, False):
            net.train(mode)
            t.call(f, *x())
    t.note(net)


@program
def test_containers(t):
    class Many(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.named = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
            self.chain = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
            self.extra = nn.ParameterList([nn.Parameter(torch.ones(4)) for _ in range(2)])

        def forward(self, x, which):
            for i, layer in enumerate(self.layers):
                x = self.named[which](layer(x)) + i
            for p in self.extra:
                x = x * p
            return self.chain(x), len(self.layers)

    torch.manual_seed(0)
    net = Many()
    f = t.compile(net)
    with torch.no_grad():
        for which in ("relu", "relu", "relu", "tanh", "tanh", "none", "relu"):
            t.call(f, *x(), which)
        net.layers.append(nn.Linear(4, 4))
        t.calls(f, lambda: (*x(), "relu"))
        net.chain[1] = nn.Sigmoid()
        t.calls(f, lambda: (*x(), "relu"))
        del net.layers[0]
        t.calls(f, lambda: (*x(), "relu"))


@program
def test_two_instances(t):
    torch.manual_seed(0)
    nets = [Net() for _ in range(3)]
    fs = [t.compile(net) for net in nets]
    with torch.no_grad():
        for _ in range(3):
            for f in fs:
                t.call(f, *x())


@program
def test_module_inside_function(t):
    torch.manual_seed(0)
    net, other = Net(), Net()

    @t.compile
    def f(net, x):
        return net(x) + torch.nn.functional.relu(x).sum()

    with torch.no_grad():
        for which in (net, net, net, other, other, net):
            t.call(f, which, *x())


@program
def test_counting_module(t):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.seen = []
            self.register_buffer("total", torch.zeros(4))

        def forward(self, x):
            self.calls += 1
            self.seen.append(x.shape[0])
            self.total += x.sum(0)
            self.last = x * self.calls
            return self.last + self.total

    net = Counting()
    f = t.compile(net)
    with torch.no_grad():
        t.calls(f, x, 6)
    t.note(net, net.calls, net.seen, net.last)


@program
def test_common_layers(t):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.LayerNorm(8), nn.GELU(),
                        nn.Softmax(-1))

    @t.compile
    def f(x):
        return (net(x) * 1000).round()

    net.eval()
    with torch.no_grad():
        t.calls(f, lambda: (torch.arange(16.0).view(1, 1, 4, 4),))


@program
def test_embedding_out_of_range(t):
    torch.manual_seed(0)
    f = t.compile(nn.Embedding(5, 3))
    with torch.no_grad():
        for last in (1, 1, 4, 5, -1, 0):
            t.call(f, torch.tensor([0, last]))


@program
def test_state_dict_round(t):
    torch.manual_seed(0)
    net = Net()
    f = t.compile(net)
    with torch.no_grad():
        t.calls(f, x)
        net.load_state_dict({k: v * 0 + 1 for k, v in net.state_dict().items()})
        t.calls(f, x)
        net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()}, assign=True)
        t.calls(f, x)


@program(hits=0)
def test_training_steps(t):
    torch.manual_seed(0)
    net = Net()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @t.compile
    def step(x):
        optimiser.zero_grad()
        loss = (net(x) ** 2).mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    t.calls(step, x, 6)
    t.note(net)
