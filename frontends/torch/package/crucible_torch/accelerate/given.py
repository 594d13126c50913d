"""Objects that are new in each call: a batch with tensors in its attributes, a closure, a partial. Their identity says
nothing; a call is told by their classes or code, and by what is in them: they are opened, as containers are.

An object is opened once it has been another one in each call; one that stays is told by its identity, and what is read of
it is watched (visible.py)."""

from __future__ import annotations

import collections
import functools
import types
from typing import Any

import torch
from torch.utils import _pytree as pytree

from crucible_torch.accelerate.classes import is_user_class, own_dict

MOST_PARTS = 4096
HEAP_TYPE = 1 << 9  # of a class that Python code has made
NEVER = (torch.Tensor, torch.nn.Module, torch.optim.Optimizer, type, types.ModuleType, BaseException)
TIMES = 2  # that another object came
CONTAINERS = (list, dict, collections.OrderedDict)


class Same:
    """Something that is told by its identity, in a tree's spec."""

    def __init__(self, obj: Any):
        self.obj = obj

    def __eq__(self, other: Any) -> bool:
        return type(other) is Same and other.obj is self.obj

    def __hash__(self) -> int:
        return id(self.obj)


class Given:
    """In the place of an object that is opened: what it is (`kind`), and what is in it."""

    def __init__(self, kind: tuple[Any, ...], values: list[Any]):
        self.kind, self.values = kind, values


pytree.register_pytree_node(
    Given, lambda one: (one.values, one.kind), lambda values, kind: _made(kind, list(values)),
    flatten_with_keys_fn=lambda one: ([(pytree.GetAttrKey(name), value)
                                       for name, value in zip(_names(one.kind), one.values)], one.kind))


def key_of(obj: Any) -> Any:
    """What objects have in common that are opened alike; None of one that is never opened."""
    if type(obj) is types.FunctionType:
        return obj.__code__
    if type(obj) is types.MethodType:
        return types.MethodType, obj.__func__
    if type(obj) is functools.partial:
        return functools.partial, obj.func
    return type(obj) if _is_plain(type(obj)) else None


@functools.lru_cache(maxsize=1024)
def _is_plain(cls: type) -> bool:
    """Whether everything that is in an instance is in its attributes, and in the dict or list that it is."""
    if cls is types.SimpleNamespace:
        return True
    if issubclass(cls, NEVER) or not is_user_class(cls) or type(cls).__module__ not in ("builtins", "abc", "typing"):
        return False
    if hasattr(cls, "__next__") or cls.__module__.partition(".")[0] in ("numpy", "threading", "queue", "io", "weakref"):
        return False
    return all(base in CONTAINERS or base.__flags__ & HEAP_TYPE for base in cls.__mro__[:-1])


@functools.lru_cache(maxsize=1024)
def _slots(cls: type) -> tuple[Any, ...]:
    return tuple(found for base in cls.__mro__ for found in vars(base).values()
                 if isinstance(found, types.MemberDescriptorType) and found.__name__ != "__dict__")


def _names(kind: tuple[Any, ...]) -> list[str]:
    what = kind[0]
    if what == "function":
        return [*kind[4], *(f"__defaults__[{at}]" for at in range(kind[5])), *kind[6]]
    if what == "method":
        return ["__self__"]
    return ["func", "args", "keywords"] if what == "partial" else [str(name) for name in (*kind[2], *kind[3])]


def _open(obj: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """(What it is, what is in it)."""
    if type(obj) is types.FunctionType:
        cells = [cell.cell_contents for cell in obj.__closure__ or ()]
        defaults, named = obj.__defaults__ or (), obj.__kwdefaults__ or {}
        kind = ("function", Same(obj.__code__), Same(obj.__globals__), obj.__name__, obj.__code__.co_freevars,
                len(defaults), tuple(named))
        return kind, [*cells, *defaults, *named.values()]
    if type(obj) is types.MethodType:
        return ("method", Same(obj.__func__)), [obj.__self__]
    if type(obj) is functools.partial:
        return ("partial",), [obj.func, list(obj.args), dict(obj.keywords)]
    own = dict(own_dict(obj) or {})
    for slot in _slots(type(obj)):
        try:
            own[slot.__name__] = slot.__get__(obj)
        except AttributeError:  # nothing was put there
            continue
    items: dict[Any, Any] = {}
    if isinstance(obj, dict):
        items = dict((collections.OrderedDict if isinstance(obj, collections.OrderedDict) else dict).items(obj))
    elif isinstance(obj, list):
        items = dict(enumerate(list.__iter__(obj)))
    return ("object", type(obj), tuple(own), tuple(items)), [*own.values(), *items.values()]


def _made(kind: tuple[Any, ...], values: list[Any]) -> Any:
    """An object as it was, with other parts, without what its class does when one is made."""
    what = kind[0]
    if what == "function":
        cells, defaults = len(kind[4]), kind[5]
        made = types.FunctionType(kind[1].obj, kind[2].obj, kind[3], tuple(values[cells:cells + defaults]) or None,
                                  tuple(types.CellType(value) for value in values[:cells]))
        made.__kwdefaults__ = dict(zip(kind[6], values[cells + defaults:])) or None
        return made
    if what == "method":
        return types.MethodType(kind[1].obj, values[0])
    if what == "partial":
        return functools.partial(values[0], *values[1], **values[2])
    cls, own, items = kind[1:]
    made = cls.__new__(cls)
    slots = {slot.__name__: slot for slot in _slots(cls)}
    for name, value in zip(own, values):
        if name in slots:
            slots[name].__set__(made, value)
        else:
            vars(made)[name] = value
    rest = values[len(own):]
    if isinstance(made, dict):
        kind_of_dict = collections.OrderedDict if isinstance(made, collections.OrderedDict) else dict
        for key, value in zip(items, rest):
            kind_of_dict.__setitem__(made, key, value)
    elif isinstance(made, list):
        list.extend(made, rest)
    return made


class Opening:
    """What a function is given, with what is new in each call opened. `objects`: those that were, of the last call."""

    def __init__(self) -> None:
        self.keys: set[Any] = set()  # of what is opened
        self._last: dict[Any, tuple[Any, int]] = {}  # by place and key: the object, how often it was another one

    def open(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], list[Any]]:
        """(Arguments with a Given in the place of each object that is opened, those objects)."""
        objects: list[Any] = []
        if not self.keys:
            return args, kwargs, objects
        seen: set[int] = set()

        def opened(value: Any) -> Any:
            if isinstance(value, torch.Tensor) or (key := key_of(value)) is None or key not in self.keys:
                return value
            if id(value) in seen or len(objects) > MOST_PARTS:
                return value  # it is in itself, or there twice: told by its identity
            seen.add(id(value))
            try:
                kind, parts = _open(value)
            except ValueError:  # an empty cell
                return value
            objects.append(value)
            return Given(kind, [pytree.tree_map(opened, part) for part in parts])

        args, kwargs = pytree.tree_map(opened, (args, kwargs))
        return args, kwargs, objects

    def learn(self, leaves: tuple[Any, ...]) -> bool:
        """Called with the leaves of a call that is of no variant that there is. Whether more is opened from now on."""
        is_more = False
        for place, leaf in enumerate(leaves):
            if leaf is None or isinstance(leaf, (torch.Tensor, bool, int, float, str)):
                continue
            if (key := key_of(leaf)) is None or key in self.keys:
                continue
            last, times = self._last.get((place, key), (None, -1))
            if last is not leaf:
                times += 1
            self._last[place, key] = (leaf, times)
            if times >= TIMES:
                self.keys.add(key)
                is_more = True
        if is_more:
            self._last.clear()
        return is_more


def places(args: tuple[Any, ...], kwargs: dict[str, Any], objects: list[Any]) -> dict[int, Any]:
    """By their ids: objects that are opened, containers among the arguments and in those, attributes' dicts, cells.
    The next call has others in their places, so that what is stored there is gone."""
    found: dict[int, Any] = {}

    def note(value: Any) -> None:
        if id(value) in found or type(value) not in (dict, list, tuple):
            return
        found[id(value)] = value
        for part in value.values() if type(value) is dict else value:
            note(part)

    for value in (*args, *kwargs.values()):
        note(value)
    for obj in objects:
        found[id(obj)] = obj
        for cell in (obj.__closure__ or ()) if type(obj) is types.FunctionType else ():
            found[id(cell)] = cell
        if (own := own_dict(obj)) is not None:
            found[id(own)] = own
        for part in _open(obj)[1]:
            note(part)
    return found
