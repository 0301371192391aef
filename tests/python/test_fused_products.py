"""Calls of torch that multiply and add in one rounding, or look as if they did."""
import pytest
import torch
from twice import program

CALLS = {
    "add": lambda x, y, z: torch.add(x, y, alpha=0.3),
    "add of ints": lambda x, y, z: x.int().add(y.int(), alpha=3),
    "sub": lambda x, y, z: torch.sub(x, y, alpha=1.7),
    "rsub": lambda x, y, z: torch.rsub(x, y, alpha=0.1),
    "lerp": lambda x, y, z: torch.lerp(x, y, 0.3),
    "lerp far": lambda x, y, z: x.lerp(y, 0.9),
    "lerp of tensors": lambda x, y, z: x.lerp(y, z),
    "addcmul": lambda x, y, z: torch.addcmul(x, y, z, value=0.7),
    "addcdiv": lambda x, y, z: torch.addcdiv(x, y, z, value=0.7),
    "moving average": lambda x, y, z: x.mul(0.9).add(y, alpha=0.1).addcmul(y, y, value=0.001),
    "in place": lambda x, y, z: x.clone().add_(y, alpha=0.3).lerp_(z, 0.1),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CALLS)
@program()
def test_equal_and_compiled(t, name, dtype):
    call = CALLS[name]
    f = t.compile(lambda x, y, z: call(x, y, z))

    def made():
        torch.manual_seed(5)
        return tuple(torch.randn(7, 41).to(dtype) * scale for scale in (1, 3, 0.5))

    t.calls(f, made)
    t.calls(f, lambda: tuple(torch.tensor([0.0, -0.0, float("inf"), float("nan"), 1.0], dtype=dtype) for _ in range(3)))
