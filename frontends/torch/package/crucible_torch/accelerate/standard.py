"""What calls mean of functions that are neither torch's nor followed: those of libraries.py, what functools.cache wraps,
fields of dataclasses, the environment. Part of bytecode.py's checker.
"""

import copy
import dataclasses
import inspect
import os
import types

import torch

from . import known as tables
from .classes import is_user_class, own_dict, own_special_of
from .operands import sources
from .values import (Known, Outside, Plain, Tuple, constant, has_tensor, is_simple, join, known, options, source)

COPYING = ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__new__")


def _is_of_simple(obj):
    """Whether it is a simple value, or such in plain containers."""
    if type(obj) in (list, tuple, set, dict):
        return all(_is_of_simple(item) for item in (obj.values() if type(obj) is dict else obj))
    return is_simple(obj)


class Standard:
    """Mixed into calls.Calls."""

    def _trusted(self, function, answer, path, arguments, keywords):
        """What a call of one of libraries.py's functions gives."""
        values = [*arguments, *keywords.values()]
        if answer in ("keeps", "kept"):
            return self._kept(answer, arguments)
        if answer != "copy" or not all(isinstance(value, Known) and not value.moves for value in values):
            return Known(None, "constant") if answer == "nothing" else Plain()
        key = function, *((name, id(value.obj)) for name, value in [*enumerate(arguments), *keywords.items()])
        if key not in self._copies:
            self._copies[key] = function(*(value.obj for value in arguments),
                                         **{name: value.obj for name, value in keywords.items()})
            self.reach.whole.update((id(value.obj), value.obj) for value in values if not is_simple(value.obj))
        return known(self._copies[key], f"{path}()")

    def _kept(self, answer, arguments):
        """Of a function that keeps what it is given, and of the one that gives it, whose first argument is the object."""
        box = self.box("kept", id(arguments[0].obj) if arguments and isinstance(arguments[0], Known) else 0)
        if answer == "keeps" and len(arguments) > 1:
            self.grow_box(box, arguments[1])
        return Plain() if answer == "keeps" else join(Known(None, "constant"), box.value)

    def _of_environment(self, frame, arguments):
        """A variable of the environment, which is watched."""
        is_constant, name = constant(arguments[0])
        if not is_constant or not isinstance(name, str):
            frame.refuse("reads a variable of the environment whose name is not a constant", "write the name out")
            return Plain()
        self.reach.environment.add(name)
        if name in os.environ:
            return Known(os.environ[name], f"os.environ[{name!r}]")
        return arguments[1] if len(arguments) > 1 else Known(None, "constant")

    def _context_of(self, frame, function, path, arguments, keywords, site):
        """What entering gives is what the generator yields."""
        made = self.fresh("context", site)
        given = self.call(frame, known(function.__wrapped__, path), arguments, keywords, site)
        self.grow(made, self.element(frame, given) or Plain())
        return made

    def _fields(self, value):
        """dataclasses.fields of a class or an object whose class is known; None for any other."""
        cls = value.obj if isinstance(value, Known) and isinstance(value.obj, type) else self.class_of(value)
        if cls is None or not isinstance(vars(cls).get("__dataclass_fields__"), dict):
            return None
        return Tuple([Known(field, f"{cls.__qualname__}.{field.name}") for field in dataclasses.fields(cls)])

    def _known_standard(self, function, arguments, keywords, site):
        """What some functions of the standard library give, and of torch that it has wrapped; None for any other."""
        if function in tables.SAME_OBJECT:
            return arguments[-1] if arguments else Plain()
        if function is inspect.signature:
            return Plain()
        if function in tables.KERNEL_CONTEXTS and not sources(*arguments, *keywords.values()):
            return self.fresh("context", site)
        is_copy = function in (copy.copy, copy.deepcopy) and len(arguments) == 1 and not keywords
        return self._copied(arguments[0], function is copy.deepcopy, site) if is_copy else None

    def _copied(self, value, is_deep, site):
        """A copy of an object that is nothing but attributes, a deep one where those are simple, as configurations are;
        None for any other."""
        own = own_dict(value.obj) if isinstance(value, Known) and not value.moves else None
        cls = type(value.obj) if own is not None else None
        if type(cls) is not type or issubclass(cls, (type, dict, torch.Tensor, torch.nn.Module)) or not (
                is_user_class(cls) or cls is types.SimpleNamespace):
            return None
        if any(own_special_of(cls, name) is not None for name in COPYING) or is_deep and not all(
                map(_is_of_simple, own.values())):
            return None
        made = self.fresh_object(cls, site)
        self.note_class(cls)
        self.reach.whole[id(value.obj)] = value.obj
        for name, attribute in own.items():
            self.grow_attribute(made, name, known(attribute, f"{value.path}.{name}"))
        return made

    def _call_cached(self, frame, function, path, arguments, keywords, site):
        """What functools.cache keeps is what the function gives, as long as that is a number or a text. Where the calls
        that were seen got what was kept, the function does nothing: its effects are done, as a hint's that is shown once.
        """
        values = [*arguments, *keywords.values()]
        code = getattr(function.__wrapped__, "__code__", None)
        if self.taken is not None and not self.taken.has_run(code) and function.cache_parameters()["maxsize"] is None \
                and not source(*values) and not any(has_tensor(value) for value in values):
            return Outside(f"{path}()")
        result = self.call(frame, known(function.__wrapped__, path), arguments, keywords, site)
        for option in options(result):
            if not (isinstance(option, Plain) or isinstance(option, Known)):
                frame.refuse(f"calls {path}, whose cache lives longer than the call",
                             "call the function without the cache, or outside")
                return Outside(f"{path}()")
        return result

    def _builtin_sorted(self, frame, arguments, keywords, site):
        element = self.element(frame, arguments[0]) if arguments else None
        if element is not None and has_tensor(element) and "key" not in keywords:
            frame.refuse("sorts by tensors' values", "use torch.sort", "value leaves")
        if "key" in keywords and element is not None:
            self.call(frame, keywords["key"], [element], {}, site)
        made = self.fresh("list", site)
        if element is not None:
            self.grow(made, element)
        return made
