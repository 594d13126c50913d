"""Schedulers that the function steps by itself. That is Python's work alone, numbers for the next call: it is put off
until the function has returned, where nobody tells the difference, and a compiled call does it after its run."""

from __future__ import annotations

from typing import Any

from torch.optim.optimizer import register_optimizer_step_pre_hook

from crucible_torch.accelerate.structure import Refusal

_WHEN = "; step it outside, after the call"


class PutOff:
    """Between `with` and its end, steps of these schedulers are noted and not made. Errors: none; what cannot be put
    off is in `problem`."""

    def __init__(self, schedulers: list[Any]):
        self._schedulers = schedulers
        self.steps: list[int] = []  # which scheduler, in order
        self.problem: Refusal | None = None
        self._hook: Any = None

    def __enter__(self) -> "PutOff":
        if self._schedulers:
            self._hook = register_optimizer_step_pre_hook(self._optimizer_steps)
        for number, scheduler in enumerate(self._schedulers):
            if "step" in vars(scheduler):
                self.problem = Refusal("a scheduler has a step of its own" + _WHEN)
                continue
            vars(scheduler)["step"] = lambda *args, number=number, **kwargs: self._note(number, args, kwargs)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._hook is not None:
            self._hook.remove()
        for scheduler in self._schedulers:
            vars(scheduler).pop("step", None)

    def _note(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if args or kwargs:
            self.problem = Refusal("a scheduler is stepped by a value" + _WHEN)
            type(self._schedulers[number]).step(self._schedulers[number], *args, **kwargs)
        else:
            self.steps.append(number)

    def _optimizer_steps(self, *_: Any) -> None:
        if self.steps:
            self.problem = Refusal("an optimizer steps after a scheduler did" + _WHEN)
            self.make()

    def make(self) -> None:
        """The steps that were put off."""
        steps, self.steps = self.steps, []
        make_steps(self._schedulers, steps)


def make_steps(schedulers: list[Any], steps: list[int]) -> None:
    for number in steps:
        type(schedulers[number]).step(schedulers[number])
