"""What reading and storing an attribute of an object means where the user's own code has a say: properties,
__getattribute__, __getattr__ and __setattr__ are functions of the object and are followed as such; what they read is
watched. Part of bytecode.py's checker.
"""

import inspect
import os
import types

import torch

from . import known as tables
from . import libraries
from .classes import SCHEDULERS, holder_of, own_dict, own_special, own_special_of, static
from .values import (Absent, Bound, Fresh, FreshObject, Known, Method, Missing, Outside, Plain, Tensor, constants,
                     is_tensor, join, known, options)

# Of class object: what Python does without the user's code.
PLAIN_ACCESS = ("__getattribute__", "__setattr__", "__delattr__")
CHANGES = "return the value and store it behind the call"


class Attributes:
    """Mixed into objects.Objects."""

    # Reading.

    def instance_attribute(self, frame, owner, name):
        """An attribute of an object that was there before the call."""
        obj, path = owner.obj, f"{owner.path}.{name}"
        if name == "__class__":
            return Known(type(obj), f"type({owner.path})")
        if obj is os.environ and name == "get":
            return Method(owner, name)
        if (trusted := libraries.attribute(obj, name)) is not None:
            return Bound(Known(trusted, path), owner)
        if (reason := tables.reason_for(obj)) is not None:
            frame.refuse(f"uses {owner.path}, which {reason[0]}", reason[1])
            return Plain()
        reads = own_special(obj, "__getattribute__")
        if reads is not None:
            return self._read_by(frame, reads, "__getattribute__", owner, name)
        return self.plain_attribute(frame, owner, name)

    def _read_by(self, frame, function, special, owner, name):
        """What the user's own code gives for an attribute."""
        self.reach.names.add(name)
        path = f"{self.name(owner)}.{special}"
        return self.call(frame, Known(function, path), [owner, Known(name, "constant")], {},
                         (*frame.site, special, name))

    def plain_attribute(self, frame, owner, name):
        """What Python finds in the object and its class, and __getattr__ where there is nothing."""
        self.reach.names.add(name)
        if isinstance(owner, FreshObject):
            return self._plain_fresh_attribute(frame, owner, name)
        obj, path = owner.obj, f"{owner.path}.{name}"
        if name == "__dict__" and not isinstance(obj, type) and own_dict(obj) is not None:
            self.reach.whole[id(obj)] = obj
            return Known(own_dict(obj), path)
        where, found = static(obj, name)
        if isinstance(obj, SCHEDULERS) and where == "instance" and name != "optimizer":
            self.note_rate(frame, path)
        if where == "instance" and (count := self.count_at(holder_of(obj, name), name)) is not None:
            return count
        if where == "instance":
            return known(found, path, owner.moves)
        if where == "class":
            return self._class_attribute(frame, owner, type(obj), owner, name, found)
        reads = own_special(obj, "__getattr__")
        return self._read_by(frame, reads, "__getattr__", owner, name) if reads is not None else Missing(path)

    def fresh_attribute(self, frame, owner, name):
        """An attribute of an object that was made inside the call."""
        if name == "__class__":
            return Known(owner.cls, f"type({self.name(owner)})")
        reads = own_special_of(owner.cls, "__getattribute__")
        if reads is not None:
            return self._read_by(frame, reads, "__getattribute__", owner, name)
        return self._plain_fresh_attribute(frame, owner, name)

    def _plain_fresh_attribute(self, frame, owner, name):
        if name == "__dict__":
            return self.attributes_of(owner)
        meant = inspect.getattr_static(owner.cls, name, None)
        if name in owner.attributes and not isinstance(meant, property):
            stored = owner.attributes[name]
            if meant is None or hasattr(type(meant), "__get__"):
                return stored
            return join(stored, self._class_attribute(frame, owner, owner.cls, owner, name))  # until it was stored
        if meant is None and not name.startswith("__"):
            reads = own_special_of(owner.cls, "__getattr__")
            if reads is not None:
                return self._read_by(frame, reads, "__getattr__", owner, name)
        return self._class_attribute(frame, owner, owner.cls, owner, name)

    def attributes_of(self, owner):
        """The dict of an object that was made inside the call, whatever is in it by now."""
        made = self.fresh("dict", (owner.site, id(owner.cls), "attributes"))
        made.keys = owner.attributes
        made.maybe |= owner.attributes.keys()
        for value in owner.attributes.values():
            made.elements = join(made.elements, value)
        return made

    def _property(self, frame, found, bound_to, name, path):
        """A property is a function of the object."""
        if found.fget is None:
            return Missing(path)
        if tables.is_torch_callable(found.fget):
            if isinstance(bound_to, Known) and isinstance(bound_to.obj, torch.nn.Module):  # a parametrized weight
                self.follow_children(frame, bound_to.obj, path, (*frame.site, name))
            return Tensor()
        if not isinstance(found.fget, types.FunctionType):
            frame.refuse(f"reads {path}, a property that is no plain function",
                         "keep the value in an attribute, or pass it as an argument")
            return Outside(path)
        return self.call(frame, Known(found.fget, path), [bound_to], {}, (*frame.site, "property", name))

    # getattr and the like.

    def _names(self, frame, arguments, what):
        """The names that a builtin is given; None, with a refusal, where they cannot be known."""
        names = constants(arguments[1]) if len(arguments) > 1 else None
        if names is None or not all(isinstance(name, str) for name in names):
            frame.refuse(f"calls {what} with a name that is not a constant", "write the attribute out")
            return None
        self.reach.names.update(names)
        return names

    def _builtin_getattr(self, frame, arguments, keywords, site):
        names = self._names(frame, arguments, "getattr")
        if names is None:
            return Outside("getattr(...)")
        result = None
        for name in names:
            for owner in options(arguments[0]):
                found = self.attribute(frame, owner, name)
                if len(arguments) == 3:
                    found = self._or_default(owner, found, arguments[2])
                result = join(result, found)
        return result

    def _or_default(self, owner, found, default):
        """An attribute, or what getattr gives where there is none."""
        there = [option for option in options(found) if not isinstance(option, Missing)]
        result = default if len(there) < len(options(found)) or not self._is_certain(owner) else None
        for option in there:
            result = join(result, option)
        return result

    @staticmethod
    def _is_certain(owner):
        """Whether an attribute that was found is there: no code of the user's may raise AttributeError."""
        if not isinstance(owner, Known) or is_tensor(owner) or isinstance(owner.obj, (type, types.ModuleType)):
            return False
        return own_special(owner.obj, "__getattribute__") is None

    def _builtin_hasattr(self, frame, arguments, keywords, site):
        names = self._names(frame, arguments, "hasattr")
        if names is None:
            return Plain()
        answers = {self._has(frame, owner, name) for owner in options(arguments[0]) for name in names}
        answer = answers.pop() if len(answers) == 1 else None
        return Plain() if answer is None else Known(answer, "constant")

    def _has(self, frame, owner, name):
        """Whether there is such an attribute; None where that is not known."""
        if isinstance(owner, FreshObject):
            if own_special_of(owner.cls, "__getattribute__") is None and name not in owner.attributes:
                if (meant := inspect.getattr_static(owner.cls, name, None)) is not None:
                    return None if isinstance(meant, property) else True
                if own_special_of(owner.cls, "__getattr__") is None:
                    return False
        elif not isinstance(owner, Known) or isinstance(owner.obj, (types.ModuleType, type)):
            return None
        elif is_tensor(owner) and name not in tables.TENSOR_NAMES:
            return not isinstance(self.attribute(frame, owner, name), Missing)
        elif own_special(owner.obj, "__getattribute__") is None:
            where, found = static(owner.obj, name)
            if where == "" and own_special(owner.obj, "__getattr__") is None:
                return False
            if where and not (where == "class" and isinstance(found, property)):
                return True
        found = self.attribute(frame, owner, name)
        return False if all(isinstance(option, Missing) for option in options(found)) else None

    def _builtin_setattr(self, frame, arguments, keywords, site):
        value = arguments[2] if len(arguments) > 2 else Plain()
        for name in (constants(arguments[1]) if len(arguments) > 1 else None) or ["..."]:
            self.store_attribute(frame, arguments[0], name, value)
        return Known(None, "constant")

    def _builtin_delattr(self, frame, arguments, keywords, site):
        for name in (constants(arguments[1]) if len(arguments) > 1 else None) or ["..."]:
            self.store_attribute(frame, arguments[0], name, None)
        return Known(None, "constant")

    # Storing.

    def store_attribute(self, frame, owner, name, value):
        """`value`: None where it is deleted. `name`: "..." where it is not known."""
        for option in options(owner):
            if isinstance(option, FreshObject):
                self._store_fresh(frame, option, name, value)
            elif isinstance(option, Fresh) and option.kind == "namespace":
                self.grow(option, value or Plain())
            elif is_tensor(option) and name == "grad" and isinstance(value, Known) and value.obj is None:
                continue
            elif is_tensor(option) and name == "requires_grad" and value is not None and self.sets_gradient(value):
                continue
            elif isinstance(option, Absent) or type(option).__name__ == "Function" or self.puts_back(
                    option, name, value):
                continue
            else:
                frame.refuse(
                    f"{'deletes' if value is None else 'stores'} {self.name(option)}.{name}, which lives longer than "
                    "the call", CHANGES)

    def _store_fresh(self, frame, option, name, value):
        special = "__delattr__" if value is None else "__setattr__"
        stores = own_special_of(option.cls, special)
        if stores is None:
            return self.store_plainly(frame, option, name, value)
        given = [option, Known(name, "constant") if name != "..." else Plain()]
        self.call(frame, Known(stores, f"{option.cls.__qualname__}.{special}"),
                  given if value is None else [*given, value], {}, (*frame.site, frame.line, special, name))
        return None

    def store_plainly(self, frame, option, name, value):
        """What object.__setattr__ does with an object that was made inside the call."""
        setter = inspect.getattr_static(option.cls, name, None)
        if isinstance(setter, property):
            if setter.fset is not None:
                self.call(frame, Known(setter.fset, f"{option.cls.__qualname__}.{name}"), [option, value or Plain()],
                          {}, (*frame.site, frame.line))
        elif hasattr(type(setter), "__set__") and not isinstance(setter, types.MemberDescriptorType):
            frame.refuse(f"stores {self.name(option)}.{name}, which runs code of its class",
                         "store it in a plain attribute")
        elif name == "...":
            frame.refuse(f"stores an attribute of {self.name(option)} whose name is not a constant",
                         "write the attribute out")
        elif value is not None:
            self.grow_attribute(option, name, value)

    def plain_access(self, frame, owner, special, arguments):
        """object.__getattribute__, __setattr__ or __delattr__ of `owner`; the value that it gives."""
        names = constants(arguments[0]) if arguments else None
        if names is None or not all(isinstance(name, str) for name in names):
            frame.refuse(f"calls {special} with a name that is not a constant", "write the attribute out")
            return Outside(f"{special}(...)")
        if special == "__getattribute__":
            result = None
            for name in names:
                result = join(result, self.plain_attribute(frame, owner, name)
                              if isinstance(owner, (Known, FreshObject)) else Method(owner, name))
            return result
        value = None if special == "__delattr__" else arguments[1] if len(arguments) > 1 else Plain()
        for name in names:
            if isinstance(owner, FreshObject):
                self.store_plainly(frame, owner, name, value)
            else:
                self.store_attribute(frame, owner, name, value)
        return Known(None, "constant")


