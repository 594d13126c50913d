"""What a call has left behind - its result, states, gradients, torch's random numbers - and how far two such are
apart."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Collection

import torch
from torch.utils import _pytree as pytree

from crucible_torch.accelerate import judge
from crucible_torch.accelerate.structure import is_same_value, opened

GENERATOR = "the state of torch's random numbers"
# (name, eager's tensor, tolerance of its kind): share of its size
Allowed = Callable[[str, torch.Tensor, float], float]


def as_usual(_name: str, tensor: torch.Tensor, wide: float) -> float:
    return judge.tolerance_of(tensor, wide)


def nothing(_name: str, _tensor: torch.Tensor, _wide: float) -> float:
    return 0.0


@dataclasses.dataclass
class Outcome:
    leaves: list[Any]
    spec: Any
    states: list[torch.Tensor]
    grads: list[torch.Tensor | None]
    generator: torch.Tensor
    grad_objects: list[torch.Tensor | None]

    @staticmethod
    def now(result: Any, states: list[torch.Tensor], parameters: list[torch.Tensor]) -> "Outcome":
        """Of the tensors as they lie: kept() makes it last."""
        leaves, spec = pytree.tree_flatten(opened(result))
        grads = [parameter.grad for parameter in parameters]
        return Outcome(leaves, spec, states, grads, torch.get_rng_state(), grads)

    def kept(self) -> "Outcome":
        """In memory of its own, as calls follow that write the rest."""
        leaves = [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        grads = [None if grad is None else grad.detach().clone() for grad in self.grads]
        return dataclasses.replace(self, leaves=leaves, states=[tensor.detach().clone() for tensor in self.states],
                                   grads=grads)

    def put_gradients(self, parameters: list[torch.Tensor]) -> None:
        """The same objects, with what they held."""
        for parameter, grad, value in zip(parameters, self.grad_objects, self.grads):
            parameter.grad = grad
            if grad is not None and value is not grad:
                grad.detach().copy_(value)


def differences(mine: Outcome, eager: Outcome, names: tuple[list[str], list[str]], masks: list[Any],
                allowed: Allowed = as_usual, rooms: dict[str, float] = {},
                leaning: Collection[str] | None = None, noise: float = judge.NOISE) -> list[judge.Difference]:
    """`names` of states and of gradients; `masks`, of states, as judge.noise_masks() has them; `rooms`: how far numbers
    may be apart that were read from tensors, by name; `leaning`: what is asked for its lean, else all that differs;
    `noise`: the share of the largest gradient below which one is noise."""
    found: list[judge.Difference | None] = []

    def leans(name: str) -> bool:
        return leaning is None or name in leaning

    if mine.spec != eager.spec or len(mine.leaves) != len(eager.leaves):
        found.append(judge.Difference("what is returned, by its structure,", float("inf"), 0.0))
    else:
        for k, (a, b) in enumerate(zip(mine.leaves, eager.leaves)):
            name = f"result {k}"
            if isinstance(b, torch.Tensor) and isinstance(a, torch.Tensor):
                found.append(judge.difference(name, a, b, allowed(name, b, judge.RESULT), leaning=leans(name)))
            elif name in rooms and type(a) is type(b):
                mine_, theirs = (torch.tensor(float(each), dtype=torch.double) for each in (a, b))
                share = rooms[name] / max(abs(float(b)), torch.finfo(torch.float32).tiny)
                found.append(judge.difference(name, mine_, theirs, max(allowed(name, theirs, judge.RESULT), share)))
            elif not is_same_value(a, b) and a is not b:
                found.append(judge.Difference(name, float("inf"), 0.0))
    for name, a, b, (mask, room) in zip(names[0], mine.states, eager.states, masks):
        found.append(judge.difference(name, a, b, allowed(name, b, judge.STATE), mask, room, leans(name)))
    largest = max((judge.largest_of(grad) for grad in eager.grads if grad is not None and grad.numel()), default=0.0)
    for name, a, b in zip(names[1], mine.grads, eager.grads):
        if (a is None) != (b is None):
            found.append(judge.Difference(f"whether {name} has a gradient", float("inf"), 0.0))
        elif a is not None and a is not b:
            name = f"the gradient of {name}"
            bound = noise * largest
            found.append(judge.difference(name, a, b, allowed(name, b, judge.STATE), judge.Excused(b, bound), bound,
                                          leans(name)))
    if not torch.equal(mine.generator, eager.generator):
        found.append(judge.Difference(GENERATOR, float("inf"), 0.0))
    return [each for each in found if each is not None]
