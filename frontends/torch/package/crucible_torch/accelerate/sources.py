"""From what was seen before each observed call: the numbers as sources, and the formulas of torch.optim's classes over
them, once for each group of parameters and for each set of its parameters that keep the same counts."""

import dataclasses

import torch

from crucible_torch.accelerate.expressions import Argument, Count, Expression, Group, State, bits
from crucible_torch.accelerate.formulas import FAMILIES, LIKE_ADAM, adjusted_ratio
from crucible_torch.accelerate.snapshot import argument_path, group_path, state_path

_MOST_STEPS = 8  # optimizer.step() of one optimizer in a call
_ABSENT = {"step": 0.0, "mu_product": 1.0, "mu": 1.0}  # before the first step


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A formula of an optimizer's class for some of its parameters."""

    expression: Expression
    formula: tuple  # what other parameters' candidates of the same formula have, too
    where: str  # the parameters, in words


class Sources:
    """All numbers of the snapshots, which must have the same optimizers."""

    def __init__(self, snapshots, frees=False):
        self.snapshots, self.frees = snapshots, frees
        self.groups = {}  # (optimizer, group): {(key, index): Group}
        self.states = {}  # (optimizer, group): list of {key: State}, one for each set of parameters
        self.arguments = self._arguments()
        self.steps = 1  # of an optimizer in a call, at most
        for i, optimizer in enumerate(snapshots[0].optimizers):
            for g in range(len(optimizer.groups)):
                self.groups[i, g] = self._group(i, g)
                self.states[i, g] = self._states(i, g)
        counts = [states["step"].values for sets in self.states.values() for states in sets if "step" in states]
        for values in counts:
            rises = [int(after - before) for before, after in zip(values, values[1:])]
            self.steps = max([self.steps, *(rise for rise in rises if rise <= _MOST_STEPS)])

    def _seen(self, i, g):
        return [snapshot.optimizers[i].groups[g] for snapshot in self.snapshots]

    def _arguments(self):
        first, *others = [snapshot.arguments for snapshot in self.snapshots]
        return [
            Argument(argument_path(keys), [value, *(other[keys] for other in others)], keys)
            for keys, value in first.items()
            if all(keys in other for other in others)
        ]

    def _group(self, i, g):
        first, *others = [group.numbers for group in self._seen(i, g)]
        return {
            where: Group(group_path(i, g, *where), [value, *(other[where] for other in others)], i, g, *where,
                         frees=self.frees)
            for where, value in first.items()
            if all(where in other for other in others)
        }

    def _states(self, i, g):
        seen = self._seen(i, g)
        keys = sorted({key for group in seen for key in group.states})
        sets = {}
        for k in range(len(seen[0].shapes)):
            held = {}
            for key in keys:
                values = [group.states[key][k] if key in group.states else None for group in seen]
                if values[-1] is None:
                    continue
                held[key] = tuple(_ABSENT.get(key) if value is None else value for value in values)
            if held:
                names = tuple((key, tuple(map(bits, values))) for key, values in held.items() if None not in values)
                sets.setdefault(names, (held, []))[1].append(k)
        found = []
        for held, members in sets.values():
            states = {}
            for key, values in held.items():
                if None in values:
                    continue
                path = state_path(i, g, key, None if len(sets) == 1 else members[0])
                dtype = next(group.tensors[key] for group in reversed(seen) if key in group.tensors)
                states[key] = State(path, values, i, g, key, members, dtype is not None, dtype)
            found.append(states)
        return found

    def families(self):
        """(optimizer, group, family, whether it is that of the optimizer's class) of all groups."""
        for i, optimizer in enumerate(self.snapshots[0].optimizers):
            for g in range(len(optimizer.groups)):
                if optimizer.family is not None:
                    yield i, g, FAMILIES[optimizer.family], True
                else:
                    for family in dict.fromkeys([*FAMILIES.values(), LIKE_ADAM]):
                        yield i, g, family, False

    def bind(self, i, g, family, texts):
        """Candidates for those of the texts whose numbers are all there, each once."""
        found = {}
        for candidate in self._bind(i, g, family, texts):
            found.setdefault(candidate.expression.words(), candidate)
        return list(found.values())

    def _bind(self, i, g, family, texts):
        names = {}
        for name, where in family.names.items():
            key, index = where if isinstance(where, tuple) else (where, None)
            if (key, index) in self.groups[i, g]:
                names[name] = self.groups[i, g][key, index]
        shapes, adjust = self.snapshots[0].optimizers[i].groups[g].shapes, self.snapshots[0].optimizers[i].groups[
            g].adjust
        ratios = {adjusted_ratio(shape, adjust) for shape in shapes if len(shape) == 2} if family.by_shape else {1.0}
        for states in (self.states[i, g] or [{}]) if family.states else [{}]:
            if not all(key in states for key in family.states):
                continue
            for k in range(1, self.steps + 1 if family.states else 2):
                for ratio in sorted(ratios):
                    parts = names | {"ratio": ratio} | {key: states[key] for key in family.states if key != "step"}
                    if "step" in family.states:
                        parts["step"] = Count(states["step"], k)
                    yield from _bound(family, texts, parts, states, (k, ratio), f"optimizer[{i}].param_groups[{g}]")


def _bound(family, texts, parts, states, variant, where):
    narrow = any(state.dtype is not None and state.dtype != torch.float64 for state in states.values())
    parts = dict(parts)
    for name, text in family.helpers.items():
        expression = _expression(text, parts, narrow)
        if expression is not None:
            parts[name] = expression
            expression.name = name
    for text in texts:
        expression = _expression(text, parts, narrow)
        if expression is not None:
            yield Candidate(expression, (id(family), text, *variant), where)


def _expression(text, parts, narrow):
    """`kept(x)` is x as the state's tensors hold it."""
    try:
        return Expression(text.replace("kept(", "f32(" if narrow else "("), parts)
    except KeyError:
        return None
