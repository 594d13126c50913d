"""What a variant looks at before and behind an observed call: the function's tensors by their roles, its gradients, its
optimizers; and a call while it is observed."""

from __future__ import annotations

import weakref
from typing import Any, Callable

import torch

from crucible_torch.accelerate import rules
from crucible_torch.accelerate.graphs import BackwardRoots
from crucible_torch.accelerate.observe import ROLE_BUFFER, ROLE_OPTIMIZER_STATE, ROLE_PARAMETER
from crucible_torch.accelerate.reads import Reading
from crucible_torch.accelerate.structure import Refusal


def role_of(path: str, tensor: torch.Tensor) -> int:
    if isinstance(tensor, torch.nn.Parameter):
        return ROLE_PARAMETER
    return ROLE_OPTIMIZER_STATE if path.startswith("optimizer[") else ROLE_BUFFER


def optimizers_of(seen: Any) -> list[Any]:
    return [optimizer for _, optimizer in seen.optimizers]


def trained(seen: Any) -> list[torch.Tensor]:
    """Tensors whose gradients a call may make or clear: frozen parameters among them, for zero_grad() clears theirs."""
    return [tensor for _, tensor in seen.tensors
            if tensor.is_leaf and (tensor.requires_grad or isinstance(tensor, torch.nn.Parameter))]


def owner_of(grad: torch.Tensor, seen: Any) -> torch.Tensor | None:
    """The tensor whose gradient it is."""
    return next((tensor for _, tensor in seen.tensors if tensor.is_leaf and tensor.grad is grad), None)


def are_open(scalers: list[Any]) -> bool:
    """Whether a GradScaler has unscaled or stepped, and was not updated since: that is Python's, and decides what it
    does next."""
    return any(vars(scaler).get("_per_optimizer_states") for scaler in scalers)


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class GradPattern:
    """Which parameters have a gradient when a call begins, and what has become of them when it ends. Holds none of them:
    a call that lets go of its gradients before it makes new ones needs memory for one of them, not for two."""

    def __init__(self, parameters: list[torch.Tensor]):
        self.parameters = parameters
        present = [parameter.grad for parameter in parameters]
        self.before = [None if grad is None else weakref.ref(grad) for grad in present]
        self._versions = [None if grad is None else grad._version for grad in present]
        self._layouts = [self._strides(grad) for grad in present]

    def layouts(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """For each parameter the strides of its gradient when the call begins and now."""
        return [(before, self._strides(parameter.grad)) for parameter, before in zip(self.parameters, self._layouts)]

    @staticmethod
    def _strides(grad: torch.Tensor | None) -> tuple[int, ...]:
        return () if grad is None else tuple(grad.stride())

    def after(self) -> list[str]:
        """For each parameter "kept" (untouched, or none before and after), "cleared", "new" or "written"."""
        kinds = []
        for parameter, before, version in zip(self.parameters, self.before, self._versions):
            grad = parameter.grad
            if grad is (None if before is None else before()) and (before is None) == (grad is None):
                kinds.append("kept" if grad is None or grad._version == version else "written")
            else:
                kinds.append("cleared" if grad is None else "new")
        return kinds


class ObservedCall:
    """What is there when an observed call begins, and what sees it run between `with` and its end."""

    def __init__(self, look: Callable[[], Any], arguments: dict[str, Any], steps_schedulers: bool, reading: Reading):
        self._look, self._arguments, self.steps_schedulers = look, arguments, steps_schedulers
        self.reading = reading
        self.roots = BackwardRoots()
        self.problem: Refusal | None = None
        self.begin: Any = None  # puts.Settings

    def look(self) -> None:
        self.seen = self._look()
        self.snapshot = rules.Snapshot.take(optimizers_of(self.seen), self._arguments)
        moving = () if not self.steps_schedulers else self.snapshot.numbers  # what their steps set
        self.guards = self.seen.guards(frozenset(path for path in moving if ".param_groups[" in path))
        self.grads = GradPattern(trained(self.seen))
        self.are_scalers_open = are_open([scaler for _, scaler in self.seen.scalers])

    def __enter__(self) -> None:
        self.roots.__enter__()
        self.reading.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self.reading.__exit__()
        self.roots.__exit__()


class Differs(Refusal):
    """Two observed calls are of two variants."""
