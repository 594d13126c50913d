"""A checked call: compiled, then from the same start in eager, whose outcome is what stays; both are compared."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable

import torch

from crucible_torch.accelerate import judge, sensitivity
from crucible_torch.accelerate.outcome import GENERATOR, Outcome, differences, nothing
from crucible_torch.accelerate.structure import unflatten_call
from crucible_torch.accelerate.worker import THREAD


DECIDES = "a tensor's value, by which the function branches, is another one"
# Why a call may be another variant's; the first two as Program.run() says it.
OF_ANOTHER = ("a parameter has no gradient", "a parameter has a gradient", DECIDES)


MOST_DISTURBED = 8  # checks of a variant whose draws another thread's may have come between
MOST_CLOSE_CALLS = 3  # of a variant: checks whose difference a condition may explain that a rounding decides


def others_are_there() -> bool:
    """Whether another thread of the program may have drawn from torch's generator during a check."""
    own = threading.current_thread()
    return any(each is not own and each.name != THREAD for each in threading.enumerate())


def is_lack_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


class Check:
    """Of one call of a variant. Errors: those of the call in eager, and of interrupts, which leave things as they were
    before the call or as an interrupt of eager does."""

    def __init__(self, variant: Any, parameters: list[torch.Tensor], function: Callable[..., Any],
                 args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any):
        self._variant, self._program = variant, variant._program
        # Giving the variant up lets go of its list, not of the tensors.
        self._written = [*variant._written, *(parameter.grad for parameter in variant._written_grads
                                              if parameter.grad is not None)]
        self._parameters = parameters
        self._function, self._args, self._kwargs, self._spec = function, args, kwargs, spec

    def make(self, leaves: tuple[Any, ...]) -> tuple[Any, list[judge.Difference], str | None]:
        """(Eager's result, where the two differ, why the compiled call had to be left to eager, which has not run where
        that is one of OF_ANOTHER)."""
        variant, self._leaves = self._variant, leaves
        try:
            self._saved = [tensor.detach().clone() for tensor in self._written]
        except RuntimeError as error:  # the allocator's
            return self._without(f"there is no memory to check it: {error}")
        self._kept = variant.python_state()
        self._grads = [parameter.grad for parameter in self._parameters]
        self._generator = torch.get_rng_state() if variant.draws else None
        self._program.forget_grads()
        try:
            began = time.perf_counter()
            reason, answer = variant.run(leaves)
            compiled_ms = (time.perf_counter() - began) * 1e3
            if reason is None:
                self._rooms, self._is_close = variant.number_rooms()
                ours = Outcome.now(answer, self._written, self._parameters, "states")
            self._put_back()
        except RuntimeError as error:
            self._put_back()
            return self._without(f"a compiled call failed: {error}")
        except BaseException:  # an interrupt: it is as if the call had not begun
            self._put_back()
            raise
        if reason in OF_ANOTHER:
            return None, [], reason
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
            found = self._compare(ours, result)
            return result, found, None if variant.tier == "compiled" else variant.reason
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
        if self._generator is not None:  # or what other threads have drawn meanwhile would be drawn again
            torch.set_rng_state(self._generator)
        self._kept.put_back()
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
        found = differences(ours, eager, names, masks, rooms=self._rooms)
        if any(each.name == GENERATOR for each in found) and others_are_there():
            if self._generator is not None:
                return self._is_disturbed()
            found = [each for each in found if each.name != GENERATOR]
        if found and self._is_close and variant.close_calls < MOST_CLOSE_CALLS:
            variant.close_calls += 1  # eager may have gone the other way
            return []
        if not found or any(each.largest == float("inf") for each in found):
            return found
        eager, behind = Outcome.now(result, self._written, self._parameters, "everything"), variant.python_state()
        # A parameter whose gradient is noise goes anywhere, by its rate. How far noise itself moves is what is asked:
        # of a tensor that is nothing else, a compiled call's may be beyond what is excused, and eager's within.
        trained = {id(parameter) for parameter in self._parameters}
        masks = [(excused.kept(), room) if excused is not None and id(tensor) in trained else (None, 0.0)
                 for tensor, (excused, room) in zip(self._written, masks)]
        still = dict.fromkeys(self._rooms, 0.0)
        wrong = {each.name for each in found}
        moves = sensitivity.Moves(
            self._put_back, self._written, self._call,
            lambda other: differences(Outcome.now(other, self._written, self._parameters, "nothing"), eager, names,
                                      masks, nothing, still, wrong, noise=0.0))
        left = found
        try:
            while left and moves.may_run():
                moves.run()
                left = moves.beyond(found)
        except Exception:  # the call's own, of arguments that are a rounding away: nothing is known then
            return found
        finally:
            self._put_back()
            self._write(eager.states)
            eager.put_gradients(self._parameters)
            if self._generator is not None:
                torch.set_rng_state(eager.generator)
            behind.put_back()
        return left

    def _is_disturbed(self) -> list[judge.Difference]:
        """Another thread drew random numbers between the two: nothing is known of this call."""
        self._variant.disturbed += 1
        if self._variant.disturbed > MOST_DISTURBED:
            self._variant.give_up("another thread draws random numbers while a call is checked: draw with a generator of "
                                  "its own there")
        return []

    def _call(self, move: Callable[[Any], Any]) -> Any:
        args, kwargs = unflatten_call(tuple(move(leaf) for leaf in self._leaves), self._spec)
        return self._function(*args, **kwargs)
