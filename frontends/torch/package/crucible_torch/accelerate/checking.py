"""A checked call: eager, whose outcome is what stays, and compiled, from the same start; both are compared."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any, Callable

import torch

from crucible_torch.accelerate import judge, sensitivity
from crucible_torch.accelerate.outcome import GENERATOR, Outcome, differences, nothing
from crucible_torch.accelerate.structure import unflatten_call
from crucible_torch.accelerate.worker import THREAD


DECIDES = "a tensor's value, by which the function branches, is another one"
OTHERWISE = "a tensor's value, by which the function branches, was another one once more"
# Why a call may be another variant's; the first two as Program.run() says it.
OF_ANOTHER = ("a parameter has no gradient", "a parameter has a gradient", DECIDES)


MOST_DISTURBED = 8  # checks of a variant whose draws another thread's may have come between
MOST_CLOSE_CALLS = 3  # of a variant: checks whose difference a condition may explain that a rounding decides


def others_are_there() -> bool:
    """Whether another thread of the program may have drawn from torch's generator during a check."""
    own = threading.current_thread()
    return any(each is not own and each.name != THREAD for each in threading.enumerate())


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """With all of the memory that the tensor lies in, as a place of a program is."""
    memory = tensor.detach().untyped_storage().clone()
    return torch.empty(0, dtype=tensor.dtype).set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())


def is_lack_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


class Check:
    """Of one call of a variant: eager first, beside one copy of what the call began with; then compiled, on another copy,
    when eager's temporary tensors are gone. Errors: those of the call in eager, and of interrupts, which leave things as
    an interrupt of eager does."""

    def __init__(self, variant: Any, parameters: list[torch.Tensor], function: Callable[..., Any],
                 args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any):
        self._variant, self._program = variant, variant._program
        # Giving the variant up lets go of its list, not of the tensors.
        self._places, bound = list(variant._written_places), list(variant._written)
        self._moved = [parameter for parameter in variant._written_grads if parameter.grad is not None]
        self._written = [*bound, *(parameter.grad for parameter in self._moved)]
        self._parameters = parameters
        self._function, self._args, self._kwargs, self._spec = function, args, kwargs, spec

    def make(self, leaves: tuple[Any, ...]) -> tuple[Any, list[judge.Difference], str | None]:
        """(Eager's result, where the two differ, why the compiled call had to be left to eager, which has not run where
        that is one of OF_ANOTHER)."""
        from crucible_torch import _accelerate

        variant, self._leaves = self._variant, leaves
        reason, numbers = variant.numbers_now(leaves)
        if reason is None:
            leaves = variant.with_stored(leaves)  # eager stores something else there
            reason = variant.why_not(leaves, numbers)
        if reason is not None:
            return (None if reason in OF_ANOTHER else self._function(*self._args, **self._kwargs)), [], reason
        try:
            self._saved = [copy_of(tensor) for tensor in self._written]
        except RuntimeError as error:  # the allocator's
            return self._without(f"there is no memory to check it: {error}")
        self._kept = variant.python_state()
        self._grads = [parameter.grad for parameter in self._parameters]
        # Where the call draws nothing, nothing is drawn again: other threads may have drawn meanwhile.
        self._began_with = torch.get_rng_state()
        self._generator = self._began_with if variant.draws else None
        self._program.forget_grads()
        self._program.give_back_arena()
        began = time.perf_counter()
        try:
            result = self._function(*self._args, **self._kwargs)
        except RuntimeError as error:
            if not is_lack_of_memory(error):
                raise
            self._put_back()
            return self._without(f"there is no memory beside its arena: {error}")
        eager_ms = (time.perf_counter() - began) * 1e3
        eager, behind = Outcome.now(result, self._written, self._parameters), variant.python_state()
        _accelerate.give_back_memory()  # eager's temporary tensors, before the arena and other gradients take as much
        try:
            ours, reason = self._compiled(leaves, numbers)
        except RuntimeError as error:
            reason = "there is no memory to check it" if is_lack_of_memory(error) else "a compiled call failed"
            variant.give_up(f"{reason}: {error}")
            return result, [], variant.reason
        finally:
            eager.put_gradients(self._parameters)
            self._program.forget_grads()
            if self._generator is not None:
                torch.set_rng_state(eager.generator)
            behind.put_back()
            variant.note_other()
        if reason is not None:
            return result, [], OTHERWISE if reason in OF_ANOTHER else reason
        variant.checks += 1
        variant.eager_ms.append(eager_ms)
        variant.compiled_ms.append(self._compiled_ms)
        try:
            found = self._compare(ours, eager, behind)
            return result, found, None if variant.tier == "compiled" else variant.reason
        except RuntimeError as error:
            reason = f"it could not be compared with eager: {error}"
            variant.give_up(reason)
            return result, [], reason

    def _compiled(self, leaves: tuple[Any, ...], numbers: Any) -> tuple[Outcome | None, str | None]:
        """The compiled call on copies, which it leaves as it would have left the states: (its outcome, why it was not made).
        What it does to gradients, random numbers and schedulers is the caller's to undo."""
        copies = [copy_of(tensor) for tensor in self._saved]
        for parameter, grad in zip(self._parameters, self._grads):
            parameter.grad = grad
        for parameter, copy in zip(self._moved, copies[len(self._places):]):
            parameter.grad = copy
        if self._generator is not None:
            torch.set_rng_state(self._generator)
        self._kept.put_back()
        began = time.perf_counter()
        reason, answer = self._variant.run_beside(leaves, numbers, list(zip(self._places, copies)))
        self._compiled_ms = (time.perf_counter() - began) * 1e3
        if reason is not None:
            return None, reason
        self._rooms, self._is_close = self._variant.number_rooms()
        ours = Outcome.now(answer, copies, self._parameters)
        return ours if self._generator is not None else dataclasses.replace(ours, generator=self._began_with), None

    def _without(self, reason: str) -> tuple[Any, list[judge.Difference], str]:
        self._variant.give_up(reason)
        return self._function(*self._args, **self._kwargs), [], reason

    def _put_back(self) -> None:
        """Everything is as it was when the call began."""
        self._write(self._saved)
        for parameter, grad in zip(self._parameters, self._grads):
            parameter.grad = grad
        self._program.forget_grads()
        if self._generator is not None:
            torch.set_rng_state(self._generator)
        self._kept.put_back()
        self._variant.note_other()

    def _write(self, states: list[torch.Tensor]) -> None:
        with torch.no_grad():
            for tensor, value in zip(self._written, states):
                tensor.detach().copy_(value)

    def _compare(self, ours: Outcome, eager: Outcome, behind: Any) -> list[judge.Difference]:
        """Where the two differ by more than is usual, eager is asked how far it moves itself."""
        variant = self._variant
        paths = {id(tensor): path for path, tensor in variant.visible.tensors}
        names = ([paths.get(id(tensor), "a gradient") for tensor in self._written],
                 [paths[id(parameter)] for parameter in self._parameters])
        noise = judge.noise_masks(variant._optimizers)
        masks = [noise.get(id(tensor), (None, 0.0)) for tensor in self._written]
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
        eager = eager.kept()
        # A parameter whose gradient is noise goes anywhere, by its rate. How far noise itself moves is what is asked:
        # of a tensor that is nothing else, a compiled call's may be beyond what is excused, and eager's within.
        trained = {id(parameter) for parameter in self._parameters}
        masks = [(excused.kept(), room) if excused is not None and id(tensor) in trained else (None, 0.0)
                 for tensor, (excused, room) in zip(self._written, masks)]
        still = dict.fromkeys(self._rooms, 0.0)
        wrong = {each.name for each in found}
        moves = sensitivity.Moves(
            self._put_back, self._written, self._call,
            lambda other: differences(Outcome.now(other, self._written, self._parameters), eager, names, masks,
                                      nothing, still, wrong, noise=0.0))
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
