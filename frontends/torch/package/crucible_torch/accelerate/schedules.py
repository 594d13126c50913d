"""Schedulers that the function steps by itself. That is Python's work alone, numbers for the next call: an observed call does
it and it is noted, a compiled call does it after its run. Where the function could tell the difference it is refused: here,
and by the bytecode where it reads a rate."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from crucible_torch.accelerate.puts import Settings
from crucible_torch.accelerate.structure import Refusal

_WHEN = "; step it outside, after the call"


class Noted:
    """Between `with` and its end, steps of these schedulers are made and noted. Errors: none; what a compiled call could
    not do behind its run is in `problem`."""

    def __init__(self, schedulers: list[Any]):
        self._schedulers = schedulers
        self.steps: list[int] = []  # which scheduler, in order
        self.problem: Refusal | None = None
        self._hook: Any = None

    def is_any(self) -> bool:
        return bool(self._schedulers)

    def __enter__(self) -> "Noted":
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
        self.steps.append(number)
        scheduler = self._schedulers[number]
        type(scheduler).step(scheduler, *args, **kwargs)

    def _optimizer_steps(self, *_: Any) -> None:
        if self.steps:
            self.problem = Refusal("an optimizer steps after a scheduler did" + _WHEN)


def make_steps(schedulers: list[Any], steps: list[int]) -> None:
    """What a compiled call leaves to be done behind its run."""
    for number in steps:
        type(schedulers[number]).step(schedulers[number])


class Kept:
    """What schedulers, counters and stored tensors of a function are at one moment: a call that is made once more begins from there.
    `counters`: as counters.Counter; `stored`: as stored.Stored."""

    def __init__(self, schedulers: list[Any], counters: list[Any], stored: list[Any], puts: list[Any]):
        every = _with_inner(schedulers)
        self._schedulers = [(scheduler, {name: _copied(value) for name, value in vars(scheduler).items()})
                            for scheduler in every]
        optimizers = {id(each.optimizer): each.optimizer for each in every if hasattr(each, "optimizer")}
        self._groups = [(group, {key: value for key, value in group.items() if key != "params"},
                         {key: value.clone() for key, value in group.items() if isinstance(value, torch.Tensor)})
                        for optimizer in optimizers.values() for group in optimizer.param_groups]
        self._counts = [(counter, counter.read()) for counter in counters]
        self._stored = [(place, place.read()) for place in stored]
        self._settings = Settings(puts)

    def put_back(self) -> None:
        self._settings.put_back()
        for scheduler, attributes in self._schedulers:
            vars(scheduler).update({name: _copied(value) for name, value in attributes.items()})
        for group, numbers, tensors in self._groups:
            group.update(numbers)
            for key, value in tensors.items():
                group[key].copy_(value)
        for counter, number in self._counts:
            if type(number) is int and counter.read() != number:
                counter.add(number - counter.read())
        for place, value in self._stored:
            place.write(value)


def _with_inner(schedulers: list[Any]) -> list[Any]:
    """Those that schedulers hold, too: SequentialLR, ChainedScheduler."""
    found: list[Any] = []
    for scheduler in schedulers:
        if not any(scheduler is each for each in found):
            found += [scheduler, *_with_inner(getattr(scheduler, "_schedulers", []))]
    return found


def _copied(value: Any) -> Any:
    return list(value) if type(value) is list else dict(value) if type(value) is dict else value
