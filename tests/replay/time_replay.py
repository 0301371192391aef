"""Nanoseconds of a guard check and of a whole hit, printed: `python tests/replay/time_replay.py`. Not a test: machines differ."""
from __future__ import annotations

import numpy as np
import torch
from segments import Segment, add_two, reads


def line(name: str, nanoseconds: float) -> None:
    print(f"{name:55} {nanoseconds:9.0f} ns")


def guards_only(a, b):
    """Two guarded inputs, None returned: entry, guards, reads, exit."""
    segment = Segment()
    segment.input(segment.slot(0), a), segment.input(segment.slot(1), b)
    segment.returns = segment.value(None)
    return segment.plan()


def model_of(layers: int):
    """What the recorder guards of an nn.Sequential: per layer its type, dicts, no hooks, parameters' facts."""
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(layers)])
    segment = reads(("slot",))
    modules = segment.source("attribute", 0, name="_modules")
    linear, forward = segment.anchor(torch.nn.Linear), segment.anchor(torch.nn.Linear.forward)
    for i in range(layers):
        layer = segment.source("dict_item", modules, name=str(i))
        segment.guard("type", layer, expected=linear)
        segment.guard("no_attribute", layer, expected=segment.constant("forward"))
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            segment.guard("length", segment.source("attribute", layer, name=hooks), expected=0)
        parameters = segment.source("attribute", layer, name="_parameters")
        for name in ("weight", "bias"):
            segment.input(segment.source("dict_item", parameters, name=name), getattr(model[i], name))
    segment.guard("type_attribute", linear, name=segment.constant("forward"), expected=forward)
    segment.returns = segment.value(None)
    return segment.plan(), model


def main() -> None:
    a, b = torch.rand(8, 8), torch.rand(8, 8)
    line("two tensors: guards, ambient word, no kernel", guards_only(a, b).time([a, b], 20_000))
    line("two tensors: one kernel, one tensor returned", add_two(a, b).plan().time([a, b], 5_000))
    x, y = np.random.rand(8, 8), np.random.rand(8, 8)
    line("two arrays: guards, ambient word, no kernel", guards_only(x, y).time([x, y], 20_000))
    line("two arrays: one kernel, one array returned", add_two(x, y).plan().time([x, y], 5_000))
    line("nothing: entry and exit", reads(("slot",)).plan().time([None], 20_000))
    plan, model = model_of(82)
    line("82 layers: types, hooks, parameters", plan.time([model], 200))


if __name__ == "__main__":
    main()
