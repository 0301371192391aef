"""What libraries do around tensors: decorators, configuration objects, masks that are looked at, records of results."""

import collections
import contextvars
import dataclasses
import functools
import inspect
import os

import pytest
import torch
from twice import NO_HITS, program


@program
def test_instance_dict(t):
    class A:
        pass

    @t.compile
    def f(o, a):
        return a * o.__dict__.get("scale", 2) + o.__dict__["shift"]

    o = A()
    o.shift = 1.0
    t.calls(f, lambda: (o, torch.ones(3)))
    o.shift = 5.0
    t.calls(f, lambda: (o, torch.ones(3)))
    o.scale = 7
    t.calls(f, lambda: (o, torch.ones(3)))
    del o.scale
    t.calls(f, lambda: (o, torch.ones(3)))


@program
def test_instance_dict_beside_a_store(t):
    class A:
        pass

    @t.compile
    def f(o, a):
        before = o.__dict__["n"]
        o.n = before + 1
        return a * before, a * o.__dict__["n"], a * o.n

    o = A()
    o.n = 1
    t.calls(f, lambda: (o, torch.ones(3)))


@program
def test_class_attribute_container(t):
    class Registry:
        names = {"a": 2.0}
        sizes = [3, 4]

        def pick(self, key):
            return self.names[key] if key in self.names else 1.0

    r = Registry()

    @t.compile
    def f(a):
        return a * r.pick("a") + r.pick("b") * Registry.sizes[0]

    t.calls(f, lambda: (torch.ones(3),))
    Registry.names["b"] = 9.0
    t.calls(f, lambda: (torch.ones(3),))
    Registry.names = {"a": 4.0}
    t.calls(f, lambda: (torch.ones(3),))
    Registry.sizes[0] = 8
    t.calls(f, lambda: (torch.ones(3),))
    r.names = {"a": 6.0}
    t.calls(f, lambda: (torch.ones(3),))


@program
def test_parts_of_functions(t):
    def g(x, y=1):
        return x

    @t.compile
    def f(a):
        n = len(g.__name__) + g.__code__.co_argcount + ("y" in g.__code__.co_varnames) + len(g.__doc__ or "")
        return a * n + getattr(g, "factor", 0)

    t.calls(f, lambda: (torch.ones(3),))
    g.__name__ = "another"
    t.calls(f, lambda: (torch.ones(3),))
    g.factor = 3
    t.calls(f, lambda: (torch.ones(3),))
    g.__doc__ = "words"
    t.calls(f, lambda: (torch.ones(3),))
    g.__code__ = (lambda x, y, z: x).__code__
    t.calls(f, lambda: (torch.ones(3),))


@program
def test_getattr_through_python(t):
    class Config:
        alias = {"old": "new"}

        def __init__(self):
            self.new = 2.0

        def __getattribute__(self, name):
            if name != "alias" and name in super().__getattribute__("alias"):
                name = super().__getattribute__("alias")[name]
            return super().__getattribute__(name)

        @property
        def half(self):
            return self.new / 2

    c = Config()

    @t.compile
    def f(a):
        missing = getattr(c, "nothing", None)
        return a * getattr(c, "old", 1.0) + getattr(c, "half", 0.0), missing is None, hasattr(c, "other"), hasattr(c, "half")

    t.calls(f, lambda: (torch.ones(3),))
    c.new = 4.0
    t.calls(f, lambda: (torch.ones(3),))
    c.nothing = 1
    t.calls(f, lambda: (torch.ones(3),))
    Config.other = 1
    t.calls(f, lambda: (torch.ones(3),))
    Config.alias["old"] = "nothing"
    t.calls(f, lambda: (torch.ones(3),))


@program
def test_exception_caught_inside(t):
    table = {}

    def look(key):
        try:
            return table[key]
        except KeyError:
            return 1.0

    def ask(o):
        try:
            return o.size
        except AttributeError:
            return 2.0
        finally:
            pass

    class A:
        pass

    o = A()

    @t.compile
    def f(a):
        return a * look("k") + ask(o)

    t.calls(f, lambda: (torch.ones(3),))
    table["k"] = 5.0
    t.calls(f, lambda: (torch.ones(3),))
    o.size = 7.0
    t.calls(f, lambda: (torch.ones(3),))
    del table["k"], o.size
    t.calls(f, lambda: (torch.ones(3),))


@program
def test_exception_through_frames(t):
    def inner(d):
        return d["missing"]

    def outer(d):
        try:
            return inner(d)
        except (KeyError, IndexError):
            return 3.0

    d = {}

    @t.compile
    def f(a):
        return a + outer(d)

    t.calls(f, lambda: (torch.ones(3),))
    d["missing"] = 1.0
    t.calls(f, lambda: (torch.ones(3),))


@program
def test_exception_nobody_catches(t):
    d = {}

    def inner(a):
        b = a * 2
        return b + d["missing"]

    @t.compile
    def f(a):
        return inner(a) + 1

    t.calls(f, lambda: (torch.ones(3),))
    d["missing"] = 1.0
    t.calls(f, lambda: (torch.ones(3),))


@program
def test_exception_in_use_in_its_handler(t):
    d = {}

    @t.compile
    def f(a):
        b = a * 2
        try:
            b = b + d["k"]
        except KeyError as error:
            print("caught", error)
            b = b - 1
        return b * 3

    t.calls(f, lambda: (torch.ones(3),))


@program
def test_environment(t):
    @t.compile
    def f(a):
        return a * 2 if os.environ.get("DYNO_TEST_PLUMBING", "0") == "1" else a * 3

    os.environ.pop("DYNO_TEST_PLUMBING", None)
    t.calls(f, lambda: (torch.ones(3),))
    os.environ["DYNO_TEST_PLUMBING"] = "1"
    t.calls(f, lambda: (torch.ones(3),))
    del os.environ["DYNO_TEST_PLUMBING"]
    t.calls(f, lambda: (torch.ones(3),))


@program
def test_keyword_dicts(t):
    def inner(a, scale=1.0, **rest):
        return a * scale + len(rest)

    @t.compile
    def f(a, **kwargs):
        flag = kwargs.pop("flag", False)
        kwargs.setdefault("scale", 2.0)
        kwargs.update({"x": 1})
        other = kwargs.copy()
        other.pop("x")
        return inner(a, **kwargs) + inner(a, **other) * (2 if flag else 1)

    t.calls(f, lambda: (torch.ones(3),))
    t.calls(lambda a: f(a, flag=True), lambda: (torch.ones(3),))
    t.calls(lambda a: f(a, scale=5.0), lambda: (torch.ones(3),))


@program
def test_context_variable_set_and_reset(t):
    variable = contextvars.ContextVar("plumbing", default=0)

    def depth():
        return variable.get()

    @t.compile
    def f(a):
        token = variable.set(3)
        try:
            b = a * depth()
        finally:
            variable.reset(token)
        return b + 1

    t.calls(f, lambda: (torch.ones(3),))
    t.note(variable.get())


@program
def test_context_variable_open_at_a_print(t):
    variable = contextvars.ContextVar("plumbing", default=0)

    @t.compile
    def f(a):
        token = variable.set(3)
        b = a * 2
        print(variable.get())
        variable.reset(token)
        return b + variable.get()

    t.calls(f, lambda: (torch.ones(3),))


@program
def test_list_of_modules(t):
    layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(4))

    @t.compile
    def f(a):
        with_index = 0
        for k, layer in enumerate(layers[:3]):
            a = layer(a)
            with_index += k
        for layer in reversed(layers):
            a = a + layer.bias
        return a * len(layers) + layers[-1].bias, with_index

    with torch.no_grad():
        t.calls(f, lambda: (torch.ones(2, 3),))
        layers[1] = torch.nn.Linear(3, 3)
        t.calls(f, lambda: (torch.ones(2, 3),))
        layers.append(torch.nn.Linear(3, 3))
        t.calls(f, lambda: (torch.ones(2, 3),))


@program
def test_list_of_modules_in_use_at_a_print(t):
    layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(4))

    @t.compile
    def f(a):
        some = layers[1:3]
        a = a * 2
        print(len(some))
        for layer in some:
            a = layer(a)
        return a

    with torch.no_grad():
        t.calls(f, lambda: (torch.ones(2, 3),))


@program
def test_dropout_that_does_not_train(t):
    drop = torch.nn.Dropout(0.5)

    @t.compile
    def f(a):
        return drop(a * 2) + 1

    drop.eval()
    t.calls(f, lambda: (torch.ones(4),))
    norm = torch.nn.BatchNorm1d(4)

    @t.compile
    def g(a):
        return norm(a * 2)

    norm.eval()
    with torch.no_grad():
        t.calls(g, lambda: (torch.randn(3, 4),))
        norm.train()
        t.calls(g, lambda: (torch.randn(3, 4),))


@program
def test_loss_module_made_inside(t):
    @t.compile
    def f(a, b):
        return torch.nn.MSELoss()(a, b) + torch.nn.CrossEntropyLoss(reduction="sum")(a, b)

    t.calls(f, lambda: (torch.ones(2, 3), torch.full((2, 3), 0.5)))


@program
def test_signature_and_type_limits(t):
    def g(x, y):
        return x

    @t.compile
    def f(a):
        return a.clamp(max=torch.finfo(a.dtype).max / 2) * len(inspect.signature(g).parameters)

    t.calls(f, lambda: (torch.ones(3),))


@program
def test_super_of_a_dict(t):
    class Table(collections.OrderedDict):
        def __getitem__(self, key):
            kind, scale = super().__getitem__(key)
            return kind(scale)

    table = Table(half=(float, 0.5))

    @t.compile
    def f(a):
        return a * table["half"]

    t.calls(f, lambda: (torch.ones(3),))
    collections.OrderedDict.__setitem__(table, "half", (float, 0.25))
    t.calls(f, lambda: (torch.ones(3),))


@program
def test_user_record(t):
    @dataclasses.dataclass
    class Out(collections.OrderedDict):
        first: object = None
        second: object = None

        def __post_init__(self):
            self["first"] = self.first

    @t.compile
    def f(a):
        out = Out(first=a * 2)
        return out.first + 1, len(out)

    t.calls(f, lambda: (torch.ones(3),))


def test_model_output_is_a_record():
    transformers = pytest.importorskip("transformers")
    import dyno
    from transformers.modeling_outputs import BaseModelOutput

    @dyno.compile
    def f(a):
        out = BaseModelOutput(last_hidden_state=a * 2, hidden_states=None)
        return BaseModelOutput(last_hidden_state=out[0] + out.last_hidden_state, attentions=(a,)), out.to_tuple()[0] - 1

    hits = dyno.stats()["hits"]
    for _ in range(3):
        a = torch.ones(3)
        out, other = f(a)
        dyno.wait()
        assert type(out) is BaseModelOutput and list(out) == ["last_hidden_state", "attentions"]
        assert torch.equal(out.last_hidden_state, torch.full((3,), 4.0)) and torch.equal(out["last_hidden_state"], out[0])
        assert out.attentions[0] is a and torch.equal(other, torch.ones(3)) and out.hidden_states is None
    assert NO_HITS or dyno.stats()["hits"] > hits
    assert transformers


@program
def test_remembered_functions_of_the_user(t):
    calls = []

    @functools.lru_cache
    def g(n):
        calls.append(n)
        return n * 2

    @t.compile
    def f(a):
        return a * g(3)

    t.calls(f, lambda: (torch.ones(3),))
    g.cache_clear()
    t.calls(f, lambda: (torch.ones(3),))


@program(hits=1)
def test_a_mask_that_installed_code_looks_at(t):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=20)
    torch.manual_seed(0)
    model = transformers.BertModel(config).eval()

    @t.compile
    def f(ids, mask):
        return model(input_ids=ids, attention_mask=mask).last_hidden_state.round(decimals=4)

    ids, whole = torch.arange(8).reshape(2, 4), torch.ones(2, 4, dtype=torch.long)
    padded = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    with torch.no_grad():
        t.calls(f, lambda: (ids, whole))
        t.calls(f, lambda: (ids, padded))
        t.calls(f, lambda: (ids, whole))
