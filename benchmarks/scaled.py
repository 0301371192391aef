"""The fixed list of scaled cases: functions of the conformance corpus and small models, with inputs so large that eager takes 2 to 50 ms on one
core. It was written down before the compiler ran, and no case may leave it for being slow.

`CASES` maps a name to a maker of (function, arguments); every call of a maker gives a fresh function (a code object of its own) and equal
fresh arguments.
"""

from __future__ import annotations

import copy
import pathlib
import sys
import types
from typing import Any, Callable

CONFORMANCE = pathlib.Path(__file__).resolve().parents[1] / "tests/conformance"
sys.path.insert(0, str(CONFORMANCE))

import torch  # noqa: E402
from functions import numpy_cases, python_cases, torch_cases  # noqa: E402, F401  they register their cases
from functions.cases import CASES as CORPUS  # noqa: E402
from functions.cases import Gen  # noqa: E402

Made = tuple[Callable[..., Any], tuple[Any, ...]]
KNOWN = {case.name: case for case in CORPUS}

# Name of the corpus's function -> its arguments at a size that takes milliseconds.
SCALED: dict[str, Callable[[Gen], tuple[Any, ...]]] = {
    "n_pairwise_distances": lambda g: (g.a(900, 3), g.a(300, 3)),
    "n_kmeans_step": lambda g: (g.a(20_000, 2), g.a(8, 2)),
    "n_softmax_regression": lambda g: (g.a(3000, 40), g.i(3, 3000), g.a(40, 3) * 0.1, 0.1),
    "n_black_scholes": lambda g: (100 * g.u(200_000) + 50, 100.0, g.u(200_000), 0.02, 0.3),
    "n_mandelbrot": lambda g: (-2.0, 0.5, 200, 160, 20),
    "n_nbody": lambda g: (g.a(120, 3), g.a(120, 3) * 0.1, g.u(120), 0.001, 6),
    "n_game_of_life": lambda g: (g.i(2, 256, 256), 5),
    "n_convolution_by_slicing": lambda g: (g.a(400, 400), g.a(5, 5)),
    "n_fft_low_pass": lambda g: (g.a(250_000), 0.2),
    "n_newton_square_root": lambda g: (g.u(400_000) * 5,),
    "n_jacobi_heat": lambda g: (g.u(96, 96),),
    "n_pca": lambda g: (g.a(20_000, 40),),
    "n_least_squares": lambda g: (g.a(60_000, 12), g.a(60_000)),
    "n_robust_clip": lambda g: (g.a(400, 400), 1.5),
    "n_moving_average": lambda g: (g.a(100_000), 9),
    "n_scatter_add": lambda g: (g.a(60_000), g.i(4, 60_000)),
    "n_norm_by_name": lambda g: (g.a(200_000, 3), "b"),
    "n_image_to_uint8": lambda g: (g.u(1200, 1200) * 255,),
    "n_masked_assign": lambda g: (g.a(400, 300),),
    "t_mlp_layer": lambda g: (g.t(2048, 128), g.t(128, 512), g.t(512)),
    "t_causal_attention": lambda g: (g.t(8, 256, 64), g.t(8, 256, 64), g.t(8, 256, 64)),
    "t_rnn_loop": lambda g: (g.t(200, 32, 64), g.t(32, 128), g.t(64, 128) * 0.1, g.t(128, 128) * 0.1),
    "t_branch_on_sum": lambda g: (g.t(4_000_000),),
    "t_item_scaling": lambda g: (g.t(4_000_000),),
    "t_inplace_update": lambda g: (g.t(4000, 3000), torch.zeros(3000)),
    "t_overlapping_arguments": lambda g: (lambda x: (x, x, x[2:]))(g.t(4_000_000)),
    "t_einsum": lambda g: (g.t(8, 160, 160), g.t(8, 160, 160)),
    "t_boolean_mask": lambda g: (g.t(150_000),),
    "t_numpy_bridge": lambda g: (g.a(600, 600), g.t(600, 600)),
    "p_print_inside": lambda g: (g.t(2_000_000),),
}


def function_case(name: str) -> Callable[[], Made]:
    """A case of the corpus at its scaled size, with a fresh code object, so that nothing compiled earlier is found."""

    def make() -> Made:
        made = KNOWN[name].make({})
        code = made.__code__.replace(co_name=made.__code__.co_name)
        fn = types.FunctionType(code, made.__globals__, made.__name__, made.__defaults__, made.__closure__)
        return fn, tuple(SCALED[name](Gen(0)))

    return make


def transformer(kind: str, config: str, **settings: Any) -> Callable[[], Made]:
    """A model of `transformers` in eval mode without gradients, on a batch of token numbers or an image."""

    def make() -> Made:
        import transformers

        torch.manual_seed(0)
        model = getattr(transformers, kind)(getattr(transformers, config)(**settings)).eval().requires_grad_(False)
        if "image_size" in settings:
            return (lambda x: model(pixel_values=x)[0]), (torch.randn(2, 3, 64, 64),)
        return (lambda x: model(input_ids=x)[0]), (torch.randint(0, 500, (2, 64)),)

    return make


def stack(width: int, depth: int) -> Callable[[], Made]:
    """Plain torch layers: linear, layer norm, GELU, residual."""

    def make() -> Made:
        torch.manual_seed(0)
        layers = [torch.nn.Sequential(torch.nn.LayerNorm(width), torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(depth)]
        model = torch.nn.ModuleList(layers).eval().requires_grad_(False)

        def forward(x: torch.Tensor) -> torch.Tensor:
            for layer in model:
                x = x + layer(x)
            return x

        return forward, (torch.randn(512, width),)

    return make


TEXT = {"vocab_size": 500, "hidden_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 192,
        "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
IMAGE = {"image_size": 64, "patch_size": 8, "hidden_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 192}
CASES: dict[str, Callable[[], Made]] = {
    **{name: function_case(name) for name in SCALED},
    "m_gpt2": transformer("GPT2LMHeadModel", "GPT2Config", vocab_size=500, n_embd=96, n_layer=4, n_head=4, n_positions=128, use_cache=False,
                          bos_token_id=1, eos_token_id=2),
    "m_bert": transformer("BertModel", "BertConfig", **TEXT),
    "m_llama": transformer("LlamaForCausalLM", "LlamaConfig", **TEXT, num_key_value_heads=2, use_cache=False),
    "m_vit": transformer("ViTModel", "ViTConfig", **IMAGE),
    "m_residual_stack": stack(128, 6),
}  # fmt: skip


def fresh(name: str) -> Made:
    """A case's function and arguments; arguments are copied so that no two contestants share memory."""
    fn, args = CASES[name]()
    return fn, args


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments for one call of a function that may write into them; aliases among them stay aliases."""
    return copy.deepcopy(args)
