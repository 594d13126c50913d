"""A checked call: compiled, then from the same start in eager, whose outcome is what stays; both are compared."""

from __future__ import annotations

import time
from typing import Any, Callable

import torch
from torch.utils import _pytree as pytree

from crucible_torch.accelerate import judge, sensitivity
from crucible_torch.accelerate.outcome import Outcome, as_usual, differences, nothing


def is_lack_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


class Check:
    """Of one call of a variant. Errors: those of the call in eager, and of interrupts, which leave things as they were
    before the call or as an interrupt of eager does."""

    def __init__(self, variant: Any, parameters: list[torch.Tensor], function: Callable[..., Any],
                 args: tuple[Any, ...], kwargs: dict[str, Any]):
        self._variant, self._program = variant, variant._program
        # Giving the variant up lets go of its list, not of the tensors.
        self._written = [*variant._written, *(parameter.grad for parameter in variant._written_grads
                                              if parameter.grad is not None)]
        self._parameters = parameters
        self._function, self._args, self._kwargs = function, args, kwargs

    def make(self, leaves: tuple[Any, ...]) -> tuple[Any, list[judge.Difference], str | None]:
        """(Eager's result, where the two differ, why the compiled call had to be left to eager)."""
        variant = self._variant
        try:
            self._saved = [tensor.detach().clone() for tensor in self._written]
        except RuntimeError as error:  # the allocator's
            return self._without(f"there is no memory to check it: {error}")
        self._grads = [parameter.grad for parameter in self._parameters]
        self._generator = torch.get_rng_state()
        self._program.forget_grads()
        try:
            began = time.perf_counter()
            reason, answer = variant.run(leaves)
            compiled_ms = (time.perf_counter() - began) * 1e3
            if reason is None:
                ours = Outcome.now(answer, self._written, self._parameters, "states")
            self._put_back()
        except RuntimeError as error:
            self._put_back()
            return self._without(f"a compiled call failed: {error}")
        except BaseException:  # an interrupt: it is as if the call had not begun
            self._put_back()
            raise
        began = time.perf_counter()
        try:
            result = self._function(*self._args, **self._kwargs)
        except RuntimeError as error:
            if not is_lack_of_memory(error):
                raise
            self._put_back()
            return self._without(f"there is no memory beside its arena: {error}")
        if reason is not None:
            return result, [], reason
        variant.checks += 1
        variant.eager_ms.append((time.perf_counter() - began) * 1e3)
        variant.compiled_ms.append(compiled_ms)
        try:
            return result, self._compare(ours, result), None
        except RuntimeError as error:
            reason = f"it could not be compared with eager: {error}"
            variant.give_up(reason)
            return result, [], reason

    def _without(self, reason: str) -> tuple[Any, list[judge.Difference], str]:
        self._variant.give_up(reason)
        return self._function(*self._args, **self._kwargs), [], reason

    def _put_back(self) -> None:
        """Everything is as it was when the call began."""
        self._write(self._saved)
        for parameter, grad in zip(self._parameters, self._grads):
            parameter.grad = grad
        self._program.forget_grads()
        torch.set_rng_state(self._generator)
        self._variant.note_other()

    def _write(self, states: list[torch.Tensor]) -> None:
        with torch.no_grad():
            for tensor, value in zip(self._written, states):
                tensor.detach().copy_(value)

    def _compare(self, ours: Outcome, result: Any) -> list[judge.Difference]:
        """Where the two differ by more than is usual, eager is asked how far it moves itself."""
        variant = self._variant
        paths = {id(tensor): path for path, tensor in variant.visible.tensors}
        names = ([paths.get(id(tensor), "a gradient") for tensor in self._written],
                 [paths[id(parameter)] for parameter in self._parameters])
        noise = judge.noise_masks(variant._optimizers)
        masks = [noise.get(id(tensor), (None, 0.0)) for tensor in self._written]
        eager = Outcome.now(result, self._written, self._parameters, "nothing")
        found = differences(ours, eager, names, masks)
        if not found or any(each.largest == float("inf") for each in found):
            return found
        eager = Outcome.now(result, self._written, self._parameters, "everything")
        room: dict[str, float] = {}
        try:
            room = sensitivity.moves(
                self._put_back, self._written, self._call,
                lambda other: differences(Outcome.now(other, self._written, self._parameters, "nothing"), eager, names,
                                          masks, nothing))
        except Exception:  # the call's own, of arguments that are a rounding away: nothing is known then
            return found
        finally:
            self._put_back()
            self._write(eager.states)
            eager.put_gradients(self._parameters)
            torch.set_rng_state(eager.generator)
        def allowed(name: str, tensor: torch.Tensor, wide: float) -> float:
            return max(as_usual(name, tensor, wide), sensitivity.ROOM * room.get(name, 0.0))

        return differences(ours, eager, names, masks, allowed)

    def _call(self, move: Callable[[Any], Any]) -> Any:
        args, kwargs = pytree.tree_map(move, (self._args, self._kwargs))
        return self._function(*args, **kwargs)
