"""What goes into a call and what comes out of it, as flat lists of leaves: containers that torch's pytree knows (tuples,
lists, dicts, named tuples, what libraries register) around tensors and simple values."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch.utils import _pytree as pytree

SIMPLE = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


class Refusal(Exception):
    """A call cannot be more than eager; the text says why, where, and what to change."""


def flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """(leaves, spec); two calls with equal specs have their leaves at the same places."""
    if not kwargs and not any(type(arg) in pytree.SUPPORTED_NODES or isinstance(arg, tuple) for arg in args):
        return args, len(args)
    leaves, spec = pytree.tree_flatten((args, kwargs))
    return tuple(leaves), spec


def unflatten_call(leaves: tuple[Any, ...], spec: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that flatten_call() made these of."""
    return (leaves, {}) if isinstance(spec, int) else pytree.tree_unflatten(list(leaves), spec)


def whole(leaf: Any) -> Any:
    """The leaf, or a copy of a tensor that is part of larger memory: how large that is differs from call to call."""
    if not isinstance(leaf, torch.Tensor) or leaf.untyped_storage().nbytes() == leaf.numel() * leaf.element_size():
        return leaf
    return leaf.detach().clone()


def objects_among(leaves: tuple[Any, ...]) -> tuple[Any, ...]:
    """Those that are told by their identity: modules, optimizers, functions, configurations."""
    return tuple(leaf for leaf in leaves if not isinstance(leaf, (torch.Tensor, *SIMPLE)))


def name_of_leaf(args: tuple[Any, ...], kwargs: dict[str, Any], index: int) -> str:
    """ "argument 2", "argument labels['x']": for people."""
    paths, _ = pytree.tree_flatten_with_path((args, kwargs))
    path = paths[index][0]
    first, rest = path[1], pytree.keystr(path[2:]) if len(path) > 2 else ""
    name = getattr(first, "idx", None)
    return f"argument {name if name is not None else first.key}{rest}"


class _Opened:
    """In the place of a plain object among results: its class, and its attributes, which are results too."""

    def __init__(self, obj: Any):
        self.cls, self.names = type(obj), tuple(vars(obj))
        self.values = [opened(value) for value in vars(obj).values()]


def _made(values: Any, kind: tuple[type, tuple[str, ...]]) -> Any:
    """An object as it was, with other attributes, without what its class does when one is made."""
    made = kind[0].__new__(kind[0])
    vars(made).update(zip(kind[1], values))
    return made


pytree.register_pytree_node(_Opened, lambda one: (one.values, (one.cls, one.names)), _made)


def opened(result: Any) -> Any:
    """The result with instances of dataclasses and namespaces in it as pytree can look into them."""
    leaves, spec = pytree.tree_flatten(result)
    if not any(_is_plain_object(leaf) for leaf in leaves):
        return result
    return pytree.tree_unflatten([_Opened(leaf) if _is_plain_object(leaf) else leaf for leaf in leaves], spec)


def _plain_objects(value: Any) -> list[Any]:
    found = [leaf for leaf in pytree.tree_leaves(value) if _is_plain_object(leaf)]
    return found + [inner for each in found for inner in _plain_objects(list(vars(each).values()))]


def _is_plain_object(leaf: Any) -> bool:
    cls = type(leaf)
    if cls is types.SimpleNamespace:
        return True
    return "__dataclass_fields__" in vars(cls) and cls.__new__ is object.__new__ and not any(
        "__slots__" in vars(base) for base in cls.__mro__[:-1])


class Answer:
    """How a call's result is put together from what a run gives: for each leaf its origin, and the containers."""

    def __init__(self, result: Any):
        leaves, self.spec = pytree.tree_flatten(opened(result))
        self.objects = _plain_objects(result)  # one that another call returns too lives longer
        self.leaves = leaves
        self.is_one = len(leaves) == 1 and leaves[0] is result
        # ("output", number), ("argument", leaf), ("number", entry of the call's numbers), ("same", object),
        # ("gradient", parameter), ("view", answers.View of one of these)
        self.origins: list[tuple[str, Any]] = []
        self.has_views = False

    def build(self, outputs: list[torch.Tensor], arguments: tuple[Any, ...], numbers: list[Any] = []) -> Any:
        given = {"output": outputs, "argument": arguments, "number": numbers}
        leaves = [given[kind][what] if kind in given else what.grad if kind == "gradient" else what
                  for kind, what in self.origins]
        if self.has_views:
            for k, (kind, view) in enumerate(self.origins):
                if kind == "view":
                    base, what = view.of
                    leaves[k] = view.take(given[base][what] if base in given else what)
        return leaves[0] if self.is_one else pytree.tree_unflatten(leaves, self.spec)


def is_same_value(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a is b or a == b or isinstance(a, float) and a != a and b != b)
