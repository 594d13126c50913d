"""What goes into a call and what comes out of it, as flat lists of leaves: containers that torch's pytree knows (tuples,
lists, dicts, named tuples, what libraries register) around tensors and simple values."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

SIMPLE = (bool, int, float, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


class Refusal(Exception):
    """A call cannot be more than eager; the text says why, where, and what to change."""


def flatten_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
    """(leaves, spec); two calls with equal specs have their leaves at the same places."""
    if not kwargs and all(type(arg) is torch.Tensor for arg in args):
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


def name_of_leaf(args: tuple[Any, ...], kwargs: dict[str, Any], index: int) -> str:
    """ "argument 2", "argument labels['x']": for people."""
    paths, _ = pytree.tree_flatten_with_path((args, kwargs))
    path = paths[index][0]
    first, rest = path[1], pytree.keystr(path[2:]) if len(path) > 2 else ""
    name = getattr(first, "idx", None)
    return f"argument {name if name is not None else first.key}{rest}"


class Answer:
    """How a call's result is put together from what a run gives: for each leaf its origin, and the containers."""

    def __init__(self, result: Any):
        leaves, self.spec = pytree.tree_flatten(result)
        self.leaves = leaves
        self.is_one = len(leaves) == 1 and leaves[0] is result
        self.origins: list[tuple[str, Any]] = []  # ("output", number), ("argument", leaf), ("same", object)

    def build(self, outputs: list[torch.Tensor], arguments: tuple[Any, ...]) -> Any:
        leaves = [
            outputs[what] if kind == "output" else arguments[what] if kind == "argument" else what
            for kind, what in self.origins
        ]
        return leaves[0] if self.is_one else pytree.tree_unflatten(leaves, self.spec)


def is_same_value(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a is b or a == b or isinstance(a, float) and a != a and b != b)
