"""What attributes, elements, operators and stores mean for the values of values.py: the part of bytecode.py's checker
that looks at objects without calling them.
"""

import abc
import enum
import functools
import inspect
import math
import types

import torch

from . import known as tables
from .attributes import PLAIN_ACCESS, Attributes
from .classes import CONTAINERS, MISSING, is_user_class, own_special, own_special_of, static
from .questions import LEAVES, Questions
from .values import (Bound, Direct, Fresh, FreshObject, Function, Iterator, Known, Method, Missing, Null, Number,
                     Outside, Plain, Rest, Sequence, Slice, Super, Tensor, Tuple, Union, at_key, constant, fixed,
                     has_tensor, holds_rates, is_simple, is_tensor, join, join_all, known, known_all, options, source)

MOST_ONE_BY_ONE = 16
KEYED = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)


class Objects(Attributes, Questions):
    """Mixed into bytecode.Checker."""

    def attribute(self, frame, owner, name):
        """Whichever of them has it: reading what is not there raises, which another way begins with."""
        found = [self._attribute(frame, option, name) for option in options(owner)]
        there = [option for value in found for option in options(value) if not isinstance(option, Missing)]
        return join_all(there or found)

    def _attribute(self, frame, owner, name):
        if isinstance(owner, Known):
            return self._known_attribute(frame, owner, name)
        if isinstance(owner, Tensor):
            return self._tensor_attribute(owner, name)
        if isinstance(owner, FreshObject):
            return self.fresh_attribute(frame, owner, name)
        if isinstance(owner, Super):
            return self._super_attribute(frame, owner, name)
        if isinstance(owner, Method):  # an attribute of data
            base = Tensor() if has_tensor(owner) else Plain()
            return self._attribute(frame, base, name)
        if isinstance(owner, (Function, Bound)):
            return Plain()
        if isinstance(owner, Outside):
            return Outside(f"{owner.what}.{name}")
        if isinstance(owner, Number):
            frame.refuse(f"uses .{name} of {self.number_words()}", LEAVES, "value leaves")
            return Number()
        if isinstance(owner, Fresh) and owner.kind == "namespace":
            if name in ("saved_tensors", "needs_input_grad"):
                return Tensor() if name == "saved_tensors" else Plain()
            is_method = name in ("save_for_backward", "mark_non_differentiable", "set_materialize_grads", "mark_dirty")
            return Method(owner, name) if is_method else owner.elements or Plain()
        return Method(owner, name)

    def _tensor_attribute(self, owner, name):
        if name in tables.TENSOR_DATA:
            return Plain()
        if name in ("grad", "data"):
            return Tensor(outside=True, fixed=owner.fixed if name == "data" else None)
        return Method(owner, name)

    def _own_attribute(self, frame, owner, name, path):
        """What somebody has put on a tensor, or will: on the one that the next call is given there may be something
        else."""
        if path.startswith("argument"):
            frame.refuse(f"reads {path}, which is put on the tensor", "pass it as an argument of its own")
            return Outside(path)
        self.reach.whole[id(owner.obj)] = owner.obj
        return known(vars(owner.obj)[name], path) if name in vars(owner.obj) else Missing(path)

    def _known_attribute(self, frame, owner, name):
        obj, path = owner.obj, f"{owner.path}.{name}"
        if isinstance(obj, torch.Tensor):
            if name in ("grad", "data", "T", "mT", "H", "real", "imag"):
                return Tensor(outside=True)
            if name == "requires_grad" and self.reach.sets_gradients:
                return Plain()
            if name in tables.TENSOR_DATA:
                return known(getattr(obj, name), path)
            if name not in vars(obj) and name in tables.TENSOR_NAMES:
                return Method(owner, name)
            return self._own_attribute(frame, owner, name, path)
        if isinstance(obj, enum.Enum) and name in ("name", "value") and isinstance(
                inspect.getattr_static(type(obj), name, None), types.DynamicClassAttribute):
            return known(getattr(obj, f"_{name}_"), path)
        if isinstance(obj, types.ModuleType):
            found = vars(obj).get(name, MISSING)
            if found is MISSING and tables.is_torch_class(types.SimpleNamespace(__module__=obj.__name__)):
                found = getattr(obj, name, MISSING)  # torch makes some of its modules late
            if found is MISSING:
                return Outside(path)
            self.note_module(obj, name)
            if (count := self.count_at(vars(obj), name)) is not None:
                return count
            return Direct(found, path) if obj is math and found in tables.MATHEMATICS else known(found, path)
        if is_simple(obj) or isinstance(obj, CONTAINERS) and not is_user_class(type(obj)):
            return Method(owner, name) if hasattr(type(obj), name) else Missing(path)
        if isinstance(obj, type):
            return self._class_attribute(frame, owner, obj, owner, name)
        if isinstance(obj, torch.optim.Optimizer) and name in ("param_groups", "state", "defaults"):
            return Known(getattr(obj, name), path, moves=True)
        if isinstance(obj, (types.FunctionType, types.MethodType, types.BuiltinFunctionType)):
            found = getattr(obj, "__dict__", {}).get(name, MISSING)
            if found is MISSING and name in ("__code__", "__name__", "__qualname__", "__module__"):
                found = getattr(obj, name, MISSING)
            return known(found, path) if found is not MISSING else Method(owner, name)
        if isinstance(obj, types.CodeType):
            return known(getattr(obj, name), path) if name.startswith("co_") else Missing(path)
        return self.instance_attribute(frame, owner, name)

    def _class_attribute(self, frame, owner, cls, bound_to, name, found=MISSING):
        """What `name` of a class means on an instance (`bound_to` is no class) or on the class itself."""
        path = f"{owner.path}.{name}" if isinstance(owner, Known) else f"{cls.__qualname__}.{name}"
        on_class = isinstance(bound_to, Known) and bound_to.obj is cls
        if found is MISSING:
            if on_class and name in ("__name__", "__qualname__", "__module__") and type(cls) in (type, abc.ABCMeta):
                return known(getattr(cls, name), path)
            found = inspect.getattr_static(cls, name, MISSING)
        if found is MISSING:
            return Method(owner, name) if name.startswith("__") else Missing(path)
        if isinstance(found, staticmethod):
            return known(found.__func__, path)
        if isinstance(found, classmethod):
            if tables.is_torch_callable(found.__func__):
                return Method(Known(cls, path), name)
            return Bound(Known(found.__func__, path), Known(cls, cls.__qualname__))
        if isinstance(found, property):
            return known(found, path) if on_class else self._property(frame, found, bound_to, name, path)
        if isinstance(found, types.FunctionType) and not on_class:
            if isinstance(bound_to, Known) and tables.is_torch_throughout(found):
                return Method(bound_to, name)
            return Bound(Known(found, path), bound_to)
        if isinstance(found, functools._lru_cache_wrapper) and not on_class:
            return Bound(Known(found, path), bound_to)
        if isinstance(found, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            if isinstance(bound_to, Known) and not on_class and isinstance(found, types.MemberDescriptorType):
                try:
                    return known(found.__get__(bound_to.obj, cls), path)
                except AttributeError:
                    return Missing(path)
            return Plain()
        if isinstance(found,
                      (types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType)):
            return Method(bound_to, name)
        if type(found).__name__ == "_tuplegetter" and isinstance(bound_to, Known) and isinstance(bound_to.obj, tuple):
            return known(tuple.__getitem__(bound_to.obj, found.__reduce__()[1][0]), path, bound_to.moves)
        if hasattr(type(found), "__get__") and not isinstance(found, (types.FunctionType, type)):
            frame.refuse(f"reads {path}, which is a descriptor",
                         "keep the value in an attribute, or pass it as an argument")
            return Outside(path)
        return known(found, path)

    def _super_attribute(self, frame, owner, name):
        own = owner.owner
        cls = own.cls if isinstance(own, FreshObject) else None
        if isinstance(own, Known):
            cls = own.obj if isinstance(own.obj, type) else type(own.obj)
        if cls is None or owner.cls not in cls.__mro__:
            return Outside(f"super().{name}")
        for base in cls.__mro__[cls.__mro__.index(owner.cls) + 1:]:
            if name in vars(base):
                found = vars(base)[name]
                if isinstance(found, types.FunctionType) and tables.is_torch_callable(found):
                    return Method(own, "forward of torch" if name == "forward" else name)
                if base is object and name not in PLAIN_ACCESS:
                    return Method(Plain(), name)
                return self._class_attribute(frame, own, cls, own, name, found)
        return Missing(f"super().{name}")

    # Elements.

    def iterated(self, frame, value):
        """What GET_ITER makes of it."""
        if (few := self._one_by_one(frame, value)) is not None:
            return Sequence(few)
        if isinstance(value, (Iterator, Fresh, Tuple, Tensor, Plain, Known, Union, Number)):
            return value
        if isinstance(value, Method) and not has_tensor(value):
            return Plain()
        return value

    def _one_by_one(self, frame, value):
        """The elements of few that are known one by one, in their order; None for any other."""
        found = None
        if isinstance(value, Tuple) and not any(isinstance(item, Rest) for item in value.items):
            found = value.items
        elif isinstance(value, Known) and type(value.obj) in (list, tuple, dict, torch.nn.ModuleList):
            if len(value.obj) <= MOST_ONE_BY_ONE:
                found = self._known_elements(frame, value)
        return found if found is not None and len(found) <= MOST_ONE_BY_ONE else None

    def element(self, frame, value):
        """One element of what is iterated; None where there is none (so far)."""
        result = None
        for option in options(value):
            result = join(result, self._element(frame, option))
        return result

    def _element(self, frame, value):
        if isinstance(value, Iterator):
            return value.element
        if isinstance(value, Sequence):
            return join_all(value.items[value.at:]) if value.at < len(value.items) else None
        if isinstance(value, Fresh):
            return self.keys_of(value) if value.kind == "dict" else value.elements
        if isinstance(value, Tuple):
            return join_all(value.items) if value.items else None
        if isinstance(value, (Plain, Null, Number)):
            return value
        if is_tensor(value) or isinstance(value, Method) and has_tensor(value):
            return Tensor(fixed=fixed(value))
        if isinstance(value, Method):
            return Plain()
        if isinstance(value, Known):
            found = self._known_elements(frame, value)
            if found is not None:
                return join_all(found) if found else None
        if isinstance(value, (Known, FreshObject)):
            cls = type(value.obj) if isinstance(value, Known) else value.cls
            if own_special_of(cls, "__iter__") is not None:
                return self.element(frame, self.call(frame, self.attribute(frame, value, "__iter__"), [], {},
                                                     (*frame.site, frame.line, "iter")))
            if isinstance(value, FreshObject) and value.mapping is not None:
                return self.keys_of(value.mapping)
        frame.refuse(f"goes through {self.name(value)}, whose elements cannot be known",
                     "make a list of them outside of the call, or pass them as an argument")
        return Outside("an element")

    def _known_elements(self, frame, value):
        """The elements of an object that is watched, as values; None where they cannot be known."""
        obj, path = value.obj, value.path
        if isinstance(obj, (str, bytes, range, torch.Size)):
            return [Plain()]
        if isinstance(obj, dict) and not is_user_class(type(obj)):
            return known_all(obj, lambda at: path, value.moves)
        if isinstance(obj, (list, tuple, set, frozenset)) and own_special(obj, "__iter__") is None:
            return known_all(obj, lambda at: f"{path}[{at}]", value.moves)
        if isinstance(obj, torch.nn.ModuleDict):
            return [Known(key, path) for key in obj._modules]
        if isinstance(obj, (torch.nn.ModuleList, torch.nn.Sequential)) and own_special(obj, "__iter__") is None:
            return [Known(child, f"{path}[{key}]") for key, child in obj._modules.items()]
        if isinstance(obj, torch.nn.ParameterDict):
            return [Known(key, path) for key in obj.keys()]
        if isinstance(obj, torch.nn.ParameterList):
            return [Tensor(outside=True)]
        if isinstance(obj, type) and hasattr(obj, "__members__"):
            return [Known(member, path) for member in obj]
        return None

    def dict_values(self, frame_or_value, value=None):
        """Whatever a dict holds, whichever key."""
        value = frame_or_value if value is None else value
        result = None
        for option in options(value):
            if isinstance(option, Fresh):
                result = join(result, option.elements)
            elif isinstance(option, Known) and isinstance(option.obj, dict):
                keys, path = list(option.obj), option.path
                self.refuse_stored(frame_or_value if value is not frame_or_value else None, option.obj, path)
                if holds_rates(option):
                    self.note_rate(frame_or_value if value is not frame_or_value else None, path)
                for item in known_all(option.obj.values(), lambda at: f"{path}[{keys[at]!r}]", option.moves):
                    result = join(result, item)
            elif isinstance(option, Known) and isinstance(option.obj, torch.nn.ModuleDict):
                for key, item in option.obj._modules.items():
                    result = join(result, Known(item, at_key(option.path, key)))
            elif isinstance(option, (Plain, Null)):
                continue
            else:
                result = join(result, Outside("a keyword argument"))
        return result if result is not None else Plain()

    def spread(self, frame, value):
        """The arguments of f(*value): one by one, or an Iterator at the end for any number of them."""
        if isinstance(value, Tuple):
            return list(value.items)
        if isinstance(value, Known) and isinstance(value.obj, (tuple, list)):
            return [known(item, f"{value.path}[{at}]", value.moves) for at, item in enumerate(value.obj)]
        element = self.element(frame, value)
        if element is None:
            return []
        return [*value.first, Rest(element)] if isinstance(value, Fresh) else [Rest(element)]

    def unpack(self, frame, value, count):
        """`count` values of a sequence; all of them where count is None."""
        if isinstance(value, Tuple) and count in (None, len(value.items)):
            return list(value.items)
        if isinstance(value, Known) and isinstance(value.obj, (tuple, list)) and count in (None, len(value.obj)):
            return [known(item, f"{value.path}[{at}]", value.moves) for at, item in enumerate(value.obj)]
        if isinstance(value, Union):
            parts = [self.unpack(frame, option, count) for option in options(value)]
            return [join_all(part) for part in zip(*parts)]
        element = self.element(frame, value)
        return [element if element is not None else Plain()] * (count or 0)

    def subscript(self, frame, owner, key, offset):
        self.keyed(frame, key)
        return join_all([self._subscript(frame, option, key, offset) for option in self._with_elements(owner)])

    @staticmethod
    def _with_elements(owner):
        """Without lists that are empty as far as is known, whose elements are none: reading one raises."""
        every = options(owner)
        return [option for option in every if not isinstance(option, Fresh) or option.kind not in ("list", "tuple")
                or option.elements is not None] or every

    def _subscript(self, frame, owner, key, offset):
        if isinstance(owner, Fresh):
            if owner.kind == "dict":
                return self.taken_out(owner, key)[0] or Plain()
            made = owner.elements or Plain()
            kinds = {isinstance(each, Slice) or isinstance(each, Known) and isinstance(each.obj, slice)
                     for each in options(key)} if owner.kind != "dict" else {False}
            return owner if kinds == {True} else made if kinds == {False} else join(made, owner)
        if is_tensor(owner) or isinstance(owner, Method) and has_tensor(owner):
            return Tensor(outside=getattr(owner, "outside", True), fixed=fixed(owner, key))
        if isinstance(owner, Number):
            return owner
        if isinstance(owner, (Plain, Method)):
            return Plain(source(owner, key))
        if isinstance(owner, Tuple):
            is_constant, index = constant(key)
            if is_constant and type(index) is int and -len(owner.items) <= index < len(owner.items):
                return owner.items[index]
            if isinstance(key, Slice) and key.real is not None and not any(isinstance(i, Rest) for i in owner.items):
                return Tuple(owner.items[key.real])
            return self._slice(owner.items, (frame.site, offset)) if isinstance(key, Slice) else join_all(owner.items)
        if isinstance(owner, Known):
            return self._known_subscript(frame, owner, key, offset)
        if isinstance(owner, FreshObject):
            return self.call(frame, self.attribute(frame, owner, "__getitem__"), [key], {}, (frame.code, offset))
        return Outside(f"{self.name(owner)}[...]")

    def _slice(self, items, site):
        made = self.fresh("list", site)
        for item in items:
            self.grow(made, item)
        return made

    def _known_subscript(self, frame, owner, key, offset):
        obj, path = owner.obj, owner.path
        if moving := source(key):
            frame.refuse(f"picks an element of {path} by {moving}", "pass a string, or the element itself",
                         "number decides")
        is_constant, index = constant(key)
        if isinstance(obj, (type, types.GenericAlias)) or is_simple(obj) and not isinstance(obj, tuple):
            return Plain()
        if (reason := tables.reason_for(obj)) is not None:
            frame.refuse(f"reads {path}, which {reason[0]}", reason[1])
            return Plain()
        special = own_special(obj, "__getitem__")
        if special is not None:
            return self.call(frame, Bound(Known(special, f"{path}.__getitem__"), owner), [key], {},
                             (frame.code, offset))
        if isinstance(obj, (*CONTAINERS, *KEYED)) and not isinstance(obj, (set, frozenset)):
            if is_constant and (not isinstance(obj, dict) or index in obj):
                try:
                    found = obj[index]
                except (KeyError, IndexError, TypeError):
                    return Outside(at_key(path, index))
                if type(found) in (int, float, tuple) and holds_rates(owner):
                    self.note_rate(frame, at_key(path, index))
                return self.count_at(obj, index) or known(found, at_key(path, index), owner.moves)
            if type(obj).__name__ == "defaultdict" and not owner.moves:
                frame.refuse(f"reads an element of {path} that may be made by reading it", "use a dict, or .get()")
                return Outside(f"{path}[...]")
            if is_constant:
                return Outside(at_key(path, index))
            children = self.dict_values(owner) if isinstance(obj,
                                                             (dict,
                                                              torch.nn.ModuleDict)) else self._element(frame, owner)
            if children is None:
                return Plain()
            if isinstance(key, Slice):
                return self._slice([children], (frame.site, offset))
            return children
        if isinstance(obj, (torch.nn.ParameterList, torch.nn.ParameterDict)):
            return Tensor(outside=True)
        frame.refuse(f"reads an element of {path}, a {type(obj).__qualname__}, which cannot be known",
                     "pass the element as an argument")
        return Outside(f"{path}[...]")

    def rates_among(self, frame, values):
        """Hyperparameters of optimizers that are handed on whole."""
        for value in values:
            for option in options(value):
                if holds_rates(option) and not all(isinstance(item, torch.Tensor) for item in option.obj):
                    self.note_rate(frame, option.path)

    # Stores.

    def puts_back(self, owner, name, value):
        """Whether an attribute of what lives longer than the call is counted up, or set to what it is."""
        if not isinstance(owner, Known) or value is None or self.stores_by_itself(owner.obj):
            return False
        where, there = static(owner.obj, name)
        holder = self.attribute_holder(owner, name)
        if holder is None:
            return where == "instance" and self.is_there(value, there)
        return not self.outlasts(holder, name, f"{owner.path}.{name}", value, there)

    def puts_element_back(self, owner, key, value):
        """The same of an element of a list or dict."""
        is_constant, index = constant(key)
        if not isinstance(owner, Known) or not is_constant or value is None or type(owner.obj) not in (dict, list):
            return False
        try:
            there = owner.obj[index]
        except (KeyError, IndexError, TypeError):
            return False
        if holds_rates(owner):  # a rate that somebody sets between two calls would be overwritten here
            self.note_rate(None, at_key(owner.path, index))
        if type(owner.obj) is list or owner.moves:  # an argument: the next call is given another one
            return self.is_there(value, there)
        return not self.outlasts(owner.obj, index, at_key(owner.path, index), value, there)

    def store_element(self, frame, owner, key, value):
        self.keyed(frame, key)
        if moving := source(key):
            if not has_tensor(owner):
                frame.refuse(f"picks an element by {moving}", "pass a string, or the element itself", "number decides")
        for option in options(owner):
            if isinstance(option, Fresh):
                if value is not None:
                    self.put(option, key, value)
                elif option.kind == "dict":
                    self.removed(option, key)
            elif is_tensor(option):
                self.no_number(frame, "writes into a tensor", value)
                if fixed(option) and fixed(key, value or Plain()) is None:
                    self.wrote(option)
            elif isinstance(option, FreshObject):
                special = "__delitem__" if value is None else "__setitem__"
                self.call(frame, self.attribute(frame, option, special), [key] if value is None else [key, value], {},
                          (*frame.site, frame.line))
            elif not self.puts_element_back(option, key, value):
                frame.refuse(f"writes into {self.name(option)}, which lives longer than the call",
                             "make the container inside of the call, or return the value and store it behind the call")
