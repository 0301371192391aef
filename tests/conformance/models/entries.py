"""What an entry of the models corpus is: a tiny instance of a public model with random weights, and its example inputs.

Only public constructors of the packages are called, so what a compiler meets is the packages' own forward code. torch and transformers
alone give 75 entries; every other package (requirements-models.txt) is optional and its entries are left out when absent.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, field
from typing import Any, Callable

SEED = 1234


@dataclass(frozen=True)
class Entry:
    name: str
    package: str  # import name
    family: str
    build: Callable[[], "Built"]
    train: bool = True  # a training step makes sense and is deterministic
    infer: bool = True
    notes: str = ""
    needs: tuple = ()  # further import names


@dataclass
class Built:
    """A ready instance.  `call(*args, **kwargs)` is the function that a backend wraps."""

    module: Any
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    call: Callable | None = None
    loss: Callable | None = None

    def __post_init__(self):
        if self.call is None:
            module = self.module
            self.call = lambda *a, **k: module(*a, **k)


_TABLE: list[Entry] = []


def entry(name, package, family, **flags):
    """Register a builder; it returns (module, args), (module, args, kwargs) or a Built."""

    def register(builder):
        def build():
            import torch

            torch.manual_seed(SEED)
            made = builder()
            return made if isinstance(made, Built) else Built(*made)

        _TABLE.append(Entry(name, package, family, build, **flags))
        return builder

    return register


def entries() -> list[Entry]:
    """The entries whose packages are installed."""
    needed = {package for e in _TABLE for package in (e.package, *e.needs)}
    present = {package for package in needed if importlib.util.find_spec(package) is not None}
    return [e for e in _TABLE if present.issuperset((e.package, *e.needs))]


def randn(*shape):
    import torch

    return torch.randn(*shape)


def ids(batch=2, length=16, vocab=96):
    import torch

    return torch.randint(5, vocab, (batch, length))


def ones(*shape):
    import torch

    return torch.ones(*shape, dtype=torch.long)


TEXT = dict(
    vocab_size=96,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
ENC = dict(TEXT, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
DEC = dict(TEXT, num_key_value_heads=2, use_cache=False)
VIS = dict(
    image_size=32,
    patch_size=8,
    num_channels=3,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=48,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
S2S = dict(
    vocab_size=96,
    d_model=32,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_ffn_dim=48,
    max_position_embeddings=64,
    dropout=0.0,
    attention_dropout=0.0,
    activation_dropout=0.0,
    use_cache=False,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
)


def hf(name, family, model, config, settings, inputs, **flags):
    """One `transformers` model from its config class; `inputs` makes the keyword arguments."""

    @entry(name, "transformers", family, **flags)
    def _():
        import transformers

        made = getattr(transformers, config)(**(settings() if callable(settings) else settings))
        return getattr(transformers, model)(made), (), inputs()


def text_in():
    return dict(input_ids=ids(), attention_mask=ones(2, 16))


def padded_in():
    mask = ones(2, 16)
    mask[1, 10:] = 0
    return dict(input_ids=ids(), attention_mask=mask)


def lm_in():
    x = ids()
    return dict(input_ids=x, attention_mask=ones(2, 16), labels=x.clone())


def seq2seq_in():
    return dict(input_ids=ids(), labels=ids(2, 8))


def image_in(size=32):
    return dict(pixel_values=randn(2, 3, size, size))
