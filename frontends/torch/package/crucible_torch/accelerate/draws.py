"""Random numbers of a compiled call: torch's own ops draw them again before each run, in the order of the recorded call
and from torch's own generator, so that a run draws what eager would have drawn."""

from __future__ import annotations

from typing import Any, Callable

import torch

from crucible_torch.accelerate.structure import Refusal

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool
}
# In place, with numbers alone beside the tensor that they fill.
FILLING = {
    "aten::bernoulli_.float", "aten::uniform_", "aten::normal_", "aten::exponential_", "aten::random_",
    "aten::random_.from", "aten::random_.to", "aten::geometric_", "aten::cauchy_", "aten::log_normal_"
}
# With a tensor of which sizes alone count.
LIKE = {"aten::rand_like", "aten::randn_like", "aten::randint_like", "aten::randint_like.low_dtype"}
# Of numbers alone.
MAKING = {
    "aten::rand", "aten::randn", "aten::randint", "aten::randint.low", "aten::randperm", "aten::normal.float_float"
}


def _empty(shape: tuple[list[int], list[int], str]) -> torch.Tensor:
    sizes, strides, dtype = shape
    if dtype not in DTYPES:
        raise Refusal(f"random numbers of type {dtype} are drawn")
    return torch.empty_strided(sizes, strides, dtype=DTYPES[dtype])


def _plain(value: Any, name: str) -> Any:
    if value is Ellipsis or isinstance(value, tuple):
        raise Refusal(f"{name} draws in a way that depends on more than numbers (a generator of its own, a tensor of "
                      "probabilities); draw with fixed probabilities and torch's default generator")
    return DTYPES[value["dtype"]] if isinstance(value, dict) else value


def make_draw(name: str, arguments: list[Any], output: int, shape: Any) -> tuple[Callable[[], torch.Tensor], bool]:
    """(a function that draws and returns the tensor, whether that is the same tensor each time)."""
    if output != 0 or name not in FILLING | LIKE | MAKING:
        raise Refusal(f"{name} draws random numbers, and draws of it are not made again yet")
    base, _, overload = name.removeprefix("aten::").partition(".")
    packet = getattr(torch.ops.aten, base)
    operator = getattr(packet, overload or "default")
    if name in FILLING:
        tensor = _empty(shape)
        rest = [_plain(value, name) for value in arguments[1:]]
        if rest and rest[-1] is None:
            rest.pop()  # the generator
        if base == "random_" and overload == "from" and rest and rest[-1] is None:
            rest.pop()
        if tensor.is_contiguous():
            return (lambda: operator(tensor, *rest)), True
        dense = torch.empty(tensor.shape, dtype=tensor.dtype)  # as a program holds what was drawn: row by row
        return (lambda: dense.copy_(operator(tensor, *rest))), True
    keywords: dict[str, Any] = {}
    positional = []
    schema = operator._schema
    for value, argument in zip(arguments, schema.arguments):
        if name in LIKE and argument.name == "self":
            positional.append(_empty(value))
            continue
        value = _plain(value, name)
        if argument.kwarg_only:
            if value is not None:
                keywords[argument.name] = value
        else:
            positional.append(value)
    return (lambda: operator(*positional, **keywords).contiguous()), False
