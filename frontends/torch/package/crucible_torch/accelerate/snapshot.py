"""The numbers that are there before a call: those of param_groups, the counts that optimizers keep, and numbers among
the arguments. Observed calls each have one; rules.py looks for what the recorded numbers are functions of.

Paths are stable, guards name the same things so:
    optimizer[0].param_groups[1]['lr']          optimizer[0].param_groups[1]['betas'][0]
    optimizer[0].step[1]                        the count that this call's step() uses for the parameters of group 1
    optimizer[0].state[1][7]['step']            the same for parameter 7 of group 1, where the group's counts differ
    arguments['scale']                          arguments['options'][0]['weight']
"""

import dataclasses

import torch

from crucible_torch.accelerate.expressions import is_number
from crucible_torch.accelerate.formulas import FAMILIES, STATE_KEYS, class_of

_DEEPEST = 4  # of containers among the arguments


def group_path(optimizer, group, key, index=None):
    """The path of a number in param_groups."""
    return f"optimizer[{optimizer}].param_groups[{group}][{key!r}]" + ("" if index is None else f"[{index}]")


def state_path(optimizer, group, key, parameter=None):
    """The path of a number in an optimizer's state: of the whole group, or of one of its parameters."""
    return (f"optimizer[{optimizer}].{key}[{group}]"
            if parameter is None else f"optimizer[{optimizer}].state[{group}][{parameter}][{key!r}]")


def argument_path(keys):
    return "arguments" + "".join(f"[{key!r}]" for key in keys)


def group_numbers(group):
    """(key, index or None, number) of each number in one of param_groups."""
    for key, value in group.items():
        if is_number(value):
            yield key, None, value
        elif isinstance(value, (tuple, list)) and key != "params":
            for index, item in enumerate(value):
                if is_number(item):
                    yield key, index, item


def _argument_numbers(value, keys):
    if is_number(value):
        yield keys, value
    elif len(keys) <= _DEEPEST and isinstance(value, (tuple, list)) and len(value) <= 64:
        for index, item in enumerate(value):
            yield from _argument_numbers(item, (*keys, index))
    elif len(keys) <= _DEEPEST and isinstance(value, dict) and len(value) <= 64:
        for key, item in value.items():
            if isinstance(key, (str, int)):
                yield from _argument_numbers(item, (*keys, key))


@dataclasses.dataclass(frozen=True)
class GroupSeen:
    """One of an optimizer's param_groups before a call."""

    numbers: dict  # (key, index or None): number
    shapes: tuple  # of its parameters
    states: dict  # key: what the state of each parameter holds, None where it has none
    tensors: dict  # key: the dtype of the tensors that hold it, None: Python's numbers
    adjust: object  # Muon's adjust_lr_fn


@dataclasses.dataclass(frozen=True)
class OptimizerSeen:
    """An optimizer before a call: its class's name, the class of torch.optim whose step() it has, its groups."""

    name: str
    family: str | None
    groups: tuple


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The numbers before a call. `numbers`: by path, as they are."""

    optimizers: tuple
    arguments: dict  # keys: number

    @classmethod
    def take(cls, optimizers, arguments):
        """Reads the numbers of the optimizers (in their order) and of `arguments` (a dict by name). Call it before the
        observed call runs. Tensors on a device are not read, so nothing waits.

        Threads: none of its own; nobody else may change the optimizers meanwhile."""
        found = {}
        for name, value in arguments.items():
            found.update(_argument_numbers(value, (name,)))
        return cls(tuple(_optimizer(optimizer) for optimizer in optimizers), found)

    @property
    def numbers(self):
        found = {}
        for i, optimizer in enumerate(self.optimizers):
            for g, group in enumerate(optimizer.groups):
                for (key, index), value in group.numbers.items():
                    found[group_path(i, g, key, index)] = value
                if optimizer.family in FAMILIES and "step" in FAMILIES[optimizer.family].states:
                    if group.shapes and "step" not in group.states:
                        found[state_path(i, g, "step")] = 1  # none has stepped yet
                for key, values in group.states.items():
                    held = {k: value + 1 if key == "step" else value
                            for k, value in enumerate(values) if value is not None}
                    if len(set(held.values())) == 1:
                        found[state_path(i, g, key)] = next(iter(held.values()))
                    else:
                        found.update({state_path(i, g, key, k): value for k, value in held.items()})
        return found | {argument_path(keys): value for keys, value in self.arguments.items()}


def _optimizer(optimizer):
    groups = []
    for group in optimizer.param_groups:
        parameters = group["params"]
        states, tensors = {}, {}
        for k, parameter in enumerate(parameters):
            for key, value in (optimizer.state.get(parameter) or {}).items():
                held, dtype = _held(key, value)
                if held is not None:
                    states.setdefault(key, [None] * len(parameters))[k] = held
                    tensors[key] = dtype
        groups.append(
            GroupSeen({(key, index): value for key, index, value in group_numbers(group)},
                      tuple(tuple(parameter.shape) for parameter in parameters),
                      {key: tuple(values) for key, values in states.items()}, tensors, group.get("adjust_lr_fn")))
    return OptimizerSeen(type(optimizer).__name__, class_of(optimizer), tuple(groups))


def _held(key, value):
    """The number that an entry of the state is, and the dtype of the tensor that holds it."""
    if is_number(value):
        return value, None
    is_count = key in STATE_KEYS and isinstance(value, torch.Tensor) and value.dim() == 0
    if is_count and value.device.type == "cpu" and not value.is_complex() and value.dtype != torch.bool:
        return value.item(), value.dtype
    return None, None


def baked(optimizers):
    """The paths of all numbers in param_groups. A program has those as constants that no rule reads (Rules.sources,
    Rules.idle): guards compare them, and a change is another variant."""
    return {
        group_path(i, g, key, index)
        for i, optimizer in enumerate(optimizers)
        for g, group in enumerate(optimizer.param_groups)
        for key, index, _ in group_numbers(group)
    }
