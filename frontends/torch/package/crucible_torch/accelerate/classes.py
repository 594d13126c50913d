"""What classes of the user's do by themselves, found without running anything of theirs."""

import inspect
import types

import torch

from . import known as tables

MISSING = object()
CONTAINERS = (list, tuple, dict, set, frozenset)


def is_user_class(cls):
    """Whether a class's code is the user's: not torch's, not Python's own."""
    return not tables.is_torch_class(cls) and cls.__module__ not in ("builtins", "collections", "types", "functools",
                                                                     "enum", "abc")


def own_special(obj, name):
    """The user's own special method of an object's class, or None."""
    return own_special_of(type(obj), name)


def own_special_of(owner, name):
    """The same of a class itself."""
    for cls in owner.__mro__:
        if name in vars(cls):
            found = vars(cls)[name]
            return found if isinstance(found, types.FunctionType) and is_user_class(cls) else None
    return None


def static(obj, name):
    """(where it was found: "instance", "class" or "", object) of an attribute, without running anything of the
    user's.
    """
    if isinstance(obj, torch.nn.Module):
        for table in ("_parameters", "_buffers", "_modules"):
            if name in vars(obj).get(table, ()):
                return "instance", vars(obj)[table][name]
    own = vars(obj) if hasattr(type(obj), "__dictoffset__") and isinstance(getattr(obj, "__dict__", None), dict) else {}
    meant = inspect.getattr_static(type(obj), name, MISSING)
    if name in own and not isinstance(meant, property):
        return "instance", own[name]
    return ("class", meant) if meant is not MISSING else ("", None)


def own_special_class(cls):
    """Whether a class writes an operator of its own; comparing of dataclasses is one that Python wrote."""
    names = ("__add__", "__sub__", "__mul__", "__truediv__", "__eq__", "__lt__", "__matmul__", "__radd__", "__rmul__",
             "__neg__", "__iadd__")
    return any(
        isinstance(vars(base).get(name), types.FunctionType) for base in cls.__mro__ if is_user_class(base)
        for name in names)
