"""How far eager itself moves when what a call starts from moves by a rounding: what a compiled call may differ by where a
tensor is what is left of a difference of larger ones - the loss of a net that has learnt its batch, and all that comes
of it. `crucible replay --verify` asks the same of the interpreter (runtime/judge/sensitivity.cpp)."""

from __future__ import annotations

from typing import Any, Callable

import torch

from crucible_torch.accelerate import judge

RUNS = 3
ROOM = 4.0  # a compiled call's sums are of another order: some roundings, where a run moves by one


def moved(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each element one rounding up, down, or as it is. Memory of its own, of the same strides."""
    if not tensor.dtype.is_floating_point:
        return tensor
    signs = torch.randint(-1, 2, tensor.shape, generator=generator).to(tensor.dtype)
    other = torch.empty_like(tensor)
    return other.copy_(tensor.detach() * (1 + signs * torch.finfo(tensor.dtype).eps))


def moves(start: Callable[[], None], states: list[torch.Tensor], call: Callable[[Callable[[Any], Any]], Any],
          compare: Callable[[Any], list[judge.Difference]]) -> dict[str, float]:
    """By name the largest share by which anything moved in RUNS calls of eager. `start()` puts back what the call starts
    from; `call(move)` calls eager with its arguments moved; `compare(result)` gives all that differs, however little.
    Threads and effects: those of the call."""
    generator = torch.Generator().manual_seed(0)
    found: dict[str, float] = {}
    for _ in range(RUNS):
        start()
        with torch.no_grad():
            for tensor in states:
                if tensor.dtype.is_floating_point:
                    tensor.detach().copy_(moved(tensor, generator))
        result = call(lambda leaf: moved(leaf, generator) if isinstance(leaf, torch.Tensor) else leaf)
        for each in compare(result):
            found[each.name] = max(found.get(each.name, 0.0), each.largest)
    return found
