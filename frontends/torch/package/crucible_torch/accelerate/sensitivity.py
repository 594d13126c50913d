"""How far eager itself moves when what a call starts from moves by a rounding: what a compiled call may differ by where a
tensor is what is left of a difference of larger ones - the loss of a net that has learnt its batch, and all that comes
of it. `crucible replay --verify` asks the same of the interpreter (runtime/judge/sensitivity.cpp)."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch

from crucible_torch.accelerate import judge

RUNS, MORE_RUNS = 3, 21
ROOM = 4.0  # a compiled call's sums are of another order: some roundings, where a run moves by one
# What is beyond its room by less than this is looked at again after more runs: of some tens of tensors that are nothing
# but rounding, one is often further apart than four times the most of three runs.
FAR = 8.0


SQUARES = ("['exp_avg_sq']", "['max_exp_avg_sq']", "['square_avg']", "['sum']")  # states that hold gradients' squares


def room_for(name: str, share: float) -> float:
    """How far a compiled call may be from eager, where eager itself moves by `share`. A gradient that is further away by
    ROOM times has a square that is by more: of 1 + d it is 2 d + d * d away, of 1 + ROOM * d what is given here."""
    if not name.endswith(SQUARES):
        return ROOM * share
    d = math.sqrt(1.0 + share) - 1.0
    return 2.0 * ROOM * d + (ROOM * d)**2


def moved(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each element one rounding up, down, or as it is. Memory of its own, of the same strides."""
    if not tensor.dtype.is_floating_point:
        return tensor
    signs = torch.randint(-1, 2, tensor.shape, generator=generator).to(tensor.dtype)
    other = torch.empty_like(tensor)
    return other.copy_(tensor.detach() * (1 + signs * torch.finfo(tensor.dtype).eps))


class Moves:
    """By name the largest share by which anything moved in calls of eager. `start()` puts back what the call starts from;
    `call(move)` calls eager with its arguments moved; `compare(result)` gives all that differs, however little.
    Threads and effects: those of the call."""

    def __init__(self, start: Callable[[], None], states: list[torch.Tensor],
                 call: Callable[[Callable[[Any], Any]], Any], compare: Callable[[Any], list[judge.Difference]]):
        self.found: dict[str, float] = {}
        self._start, self._states, self._call, self._compare = start, states, call, compare
        self._generator = torch.Generator().manual_seed(0)

    def run(self, count: int) -> None:
        for _ in range(count):
            self._start()
            with torch.no_grad():
                for tensor in self._states:
                    if tensor.dtype.is_floating_point:
                        tensor.detach().copy_(moved(tensor, self._generator))
            result = self._call(lambda leaf: moved(leaf, self._generator) if isinstance(leaf, torch.Tensor) else leaf)
            for each in self._compare(result):
                self.found[each.name] = max(self.found.get(each.name, 0.0), each.largest)
