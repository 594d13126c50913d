"""What classes of the user's do by themselves, found without running anything of theirs."""

import collections
import inspect
import types

import torch

from . import known as tables

MISSING = object()
SCHEDULERS = (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
CONTAINERS = (list, tuple, dict, set, frozenset)


def is_user_class(cls):
    """Whether a class's code is the user's: not torch's, not Python's own."""
    if cls in (collections.UserDict, collections.UserList):  # written in Python, as the user's own are
        return True
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


def own_dict(obj):
    """The dict of an object's own attributes, without running anything of the user's; None where it has none."""
    try:
        own = object.__getattribute__(obj, "__dict__")
    except (AttributeError, TypeError):
        return None
    return own if isinstance(own, dict) else None


def holder_of(obj, name):
    """The dict in which an attribute of the object's own is kept: of a module a table for its buffers."""
    own = own_dict(obj)
    buffers = own.get("_buffers") if own is not None and isinstance(obj, torch.nn.Module) else None
    return buffers if isinstance(buffers, dict) and name in buffers else own


def static(obj, name):
    """(where it was found: "instance", "class" or "", object) of an attribute, without running anything of the
    user's.
    """
    own = own_dict(obj) or {}
    if isinstance(obj, torch.nn.Module):
        for table in ("_parameters", "_buffers", "_modules"):
            if name in own.get(table, ()):
                return "instance", own[table][name]
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
