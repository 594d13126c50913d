"""What a call sets in what lives longer than it, to values that follow from what guards compare: `model.eval()`, and
`model.train()` behind it; `p.requires_grad_(False)`; a flag in an attribute. Whether something is read before or behind
that is the same in each call of a variant, and so is what is there when the call ends: a compiled call sets that behind its
run. Puts are found by bytecode.py's checker (Putting); what they are set to, observed calls say (Settings)."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

import torch

from crucible_torch.accelerate.classes import own_special
from crucible_torch.accelerate.structure import SIMPLE, is_same_value
from crucible_torch.accelerate.values import Known, Plain, Value, is_simple, join, known, options


class Put:
    """An entry of a dict of attributes, or of one of the user's own."""

    def __init__(self, holder: dict[Any, Any], key: Any, path: str):
        self.holder, self.key, self.path = holder, key, path

    def read(self) -> Any:
        return self.holder.get(self.key)

    def set(self, value: Any) -> None:
        self.holder[self.key] = value


class GradientFlag:
    """Whether a parameter takes a gradient."""

    def __init__(self, tensor: torch.Tensor, path: str):
        self.tensor, self.path = tensor, f"{path}.requires_grad"

    def read(self) -> bool:
        return self.tensor.requires_grad

    def set(self, value: bool) -> None:
        self.tensor.requires_grad_(value)


def puts_of(reach: Any, tensors: list[tuple[str, torch.Tensor]]) -> list[Any]:
    """Everything that calls may set. `tensors`: those that the function can see, with their paths."""
    found: list[Any] = list(reach.puts.values())
    if reach.sets_gradients:
        found += [GradientFlag(tensor, path) for path, tensor in tensors if isinstance(tensor, torch.nn.Parameter)]
    return found


class Settings:
    """What is there at one moment."""

    def __init__(self, puts: list[Any]):
        self.puts = puts
        self.values = [put.read() for put in puts]

    def put_back(self) -> None:
        for put, value in zip(self.puts, self.values):
            if put.read() is not value:
                put.set(value)

    @contextlib.contextmanager
    def as_they_were(self) -> Iterator[None]:
        """Between `with` and its end everything is as it was at that moment."""
        now = Settings(self.puts)
        self.put_back()
        try:
            yield
        finally:
            now.put_back()

    def differs_from(self, other: "Settings") -> str:
        """What is another value in the other, or none that a compiled call can set; "" where nothing is."""
        for put, mine, theirs in zip(self.puts, self.values, other.values):
            if not isinstance(theirs, SIMPLE) or not is_same_value(mine, theirs):
                return f"{put.path} is set to {theirs!r} in one call and to {mine!r} in another"
        return ""

    def against(self, begin: "Settings") -> list[tuple[Any, Any]]:
        """What is another value here than there, with this one's."""
        return [(put, value) for put, value, before in zip(self.puts, self.values, begin.values) if value is not before]


class Putting:
    """Mixed into bytecode.Checker. `reach.puts`: {(id of a dict, key): Put}."""

    def can_put(self, holder: Any, key: Any, path: str, value: Value, there: Any) -> bool:
        """Notes a store of simple values that follow from what is guarded. Whether it is one."""
        if type(holder) is not dict or id(holder) in self.places or not is_simple(there) or isinstance(there, tuple):
            return False
        for option in options(value):
            is_fixed = isinstance(option, Known) and is_simple(option.obj) and not option.moves
            if not is_fixed and not (type(option) is Plain and not option.source and not isinstance(there, (int, float))
                                     or type(option) is Plain and not option.source and isinstance(there, bool)):
                return False
        place = id(holder), key
        if place not in self.reach.puts:
            self.reach.puts[place] = Put(holder, key, path)
            self._version += 1
        before = self._put_values.get(place)
        after = join(before, value)
        if before is None or before.key() != after.key():
            self._put_values[place] = after
            self._version += 1
        return True

    def forget_put(self, place: tuple[int, Any]) -> None:
        """It is something else, as was found later."""
        del self.reach.puts[place]
        self._put_values.pop(place, None)
        self._version += 1

    def put_at(self, holder: Any, key: Any) -> Value | None:
        """Whatever may be there while the call runs, if it is something that the call sets."""
        put = self.reach.puts.get((id(holder), key))
        if put is None:
            return None
        return join(known(put.read(), put.path), self._put_values[id(holder), key])

    def sets_gradient(self, value: Value) -> bool:
        """Notes that the function says which parameters take a gradient. Whether what it says is fixed."""
        if not all(isinstance(option, Known) and type(option.obj) is bool or type(option) is Plain and not option.source
                   for option in options(value)):
            return False
        if not self.reach.sets_gradients:
            self.reach.sets_gradients = True
            self._version += 1
        return True

    def switch_mode(self, frame: Any, module: torch.nn.Module, path: str, value: Value, site: Any) -> None:
        """module.train(value), as torch.nn.Module does it."""
        if not self.set_own(module, "training", f"{path}.training", value):
            frame.refuse(f"switches {path} by train() or eval() in a way that cannot be known",
                         f"call {path}.train() or {path}.eval() before the call")
            return
        for name, child in module.named_children():
            of_users = own_special(child, "train")
            if of_users is not None:
                self._call(frame, Known(of_users, f"{path}.{name}.train"), [Known(child, f"{path}.{name}"), value], {},
                           (*site, name))
            else:
                self.switch_mode(frame, child, f"{path}.{name}", value, (*site, name))

    def set_own(self, obj: Any, name: str, path: str, value: Value) -> bool:
        """A store to an attribute of a module's own. Whether it is one that can be done behind the run."""
        own = vars(obj)
        if name not in own or own_special(obj, "__setattr__") is not None:
            return False
        place = id(own), name
        if place not in self.reach.puts and self.is_there(value, own[name]):
            return True
        return self.can_put(own, name, path, value, own[name])
