"""What a call means for the values of values.py: followed where it is the user's code, trusted where it is torch's or
a pure builtin, refused where its effects would be left out by a replay. Part of bytecode.py's checker.
"""

import abc
import collections
import dataclasses
import functools
import inspect
import os
import types

import torch

from . import known as tables
from . import libraries
from .attributes import PLAIN_ACCESS
from .containers import Containers
from .folding import FOLDED, Folding
from .standard import Standard
from .instructions import instructions_of
from .classes import SCHEDULERS, own_special, own_special_of
from .numbers_read import Numbers
from .operands import sources
from .questions import LEAVES
from .values import (Bound, Fresh, FreshObject, Function, Iterator, Known, Method, Outside, Plain, Rest, Slice, Super,
                     Tensor, Tuple, at_key, constant, constants, fixed, has_tensor, is_number, is_simple, is_tensor,
                     join, join_all, known, known_all, options, source)

SCALERS = (torch.amp.GradScaler,)
PLAIN_NEW = (object.__new__, dict.__new__, collections.OrderedDict.__new__)
BY_VALUE = {  # optimizers whose own Python looks at tensors' values
    torch.optim.LBFGS: "decides by tensors' values how often it calls its closure",
    torch.optim.Adafactor: "computes with numbers that it reads from tensors"
}
OWN_PACKAGES = ("crucible", "crucible_torch")
PLAIN_KINDS = (type, abc.ABCMeta)


class Calls(Containers, Folding, Standard, Numbers):
    """Mixed into bytecode.Checker."""

    def call(self, frame, target, arguments, keywords, site):
        if self.tracks:
            self.note_call(target, arguments, keywords)
        found = options(target) if self.taken is None else self.taken.that_ran(options(target))
        return join_all([self._call(frame, option, list(arguments), dict(keywords), site) for option in found])

    def _call(self, frame, target, arguments, keywords, site):
        if isinstance(target, Known):
            return self._call_known(frame, target, arguments, keywords, site)
        if isinstance(target, Function):
            return self.follow(frame, target, arguments, keywords, site)
        if isinstance(target, Bound):
            return self._call(frame, target.function, [target.owner, *arguments], keywords, site)
        if isinstance(target, Method):
            return self._call_method(frame, target, arguments, keywords, site)
        if isinstance(target, FreshObject):
            return self.call(frame, self.attribute(frame, target, "__call__"), arguments, keywords, site)
        if isinstance(target, Tensor):  # what torch made: a functional, a module
            return self._library(frame, arguments, keywords, site)
        self._unknown(frame, self.name(target))
        return Outside(f"{self.name(target)}()")

    @staticmethod
    def _unknown(frame, name):
        frame.refuse(f"calls {name}, which cannot be known", "pass its result as an argument, or call it outside")

    # Objects.

    def _call_known(self, frame, target, arguments, keywords, site):
        obj, path = target.obj, target.path
        if (answer := self.number_call(frame, target, arguments, keywords)) is not None:
            return answer
        if (answer := libraries.answer(obj)) is not None:
            return self._trusted(obj, answer, path, arguments, keywords)
        if tables.module_name(obj if callable(obj) and hasattr(obj, "__code__") else type(obj)).partition(
                ".")[0] in OWN_PACKAGES:
            frame.refuse(f"calls {path}, which is accelerated by itself", "accelerate the outer function alone")
            return Outside(f"{path}()")
        if isinstance(obj, torch.nn.Module):
            return self.call_module(frame, obj, path, arguments, keywords, site)
        if isinstance(obj, functools.partial):
            first = [known(item, f"{path}.args[{at}]") for at, item in enumerate(obj.args)]
            named = {name: known(item, f"{path}.keywords[{name!r}]") for name, item in obj.keywords.items()}
            for name, value in keywords.items():
                named[name] = join(self.given(value), named.get(name)) if self.may_be_absent(value) else value
            return self.call(frame, known(obj.func, f"{path}.func"), [*first, *arguments], named, site)
        if hasattr(obj, "_torchdynamo_orig_callable") or isinstance(obj, torch.jit.ScriptFunction):
            frame.refuse(f"calls {path}, which is compiled by torch",
                         "pass the function as it was before torch.compile or torch.jit")
            return Tensor()
        if isinstance(obj, types.MethodType):
            owner = Known(obj.__self__, path.rpartition(".")[0] or path)
            if tables.is_torch_throughout(obj.__func__):
                return self._call_method(frame, Method(owner, obj.__name__), arguments, keywords, site)
            return self._call(frame, Known(obj.__func__, path), [owner, *arguments], keywords, site)
        if isinstance(obj, types.FunctionType):
            return self._call_function(frame, obj, path, arguments, keywords, site)
        if isinstance(obj, type):
            return self._construct(frame, obj, path, arguments, keywords, site)
        if isinstance(obj, (types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType,
                            types.WrapperDescriptorType)):
            return self._call_builtin(frame, obj, path, arguments, keywords, site)
        if isinstance(obj, functools._lru_cache_wrapper):
            return self._call_cached(frame, obj, path, arguments, keywords, site)
        if tables.is_torch_callable(obj):
            return self._call_torch(frame, obj, path, arguments, keywords, site)
        special = own_special(obj, "__call__")
        if special is not None:
            return self._call(frame, Known(special, f"{path}.__call__"), [target, *arguments], keywords, site)
        self._refuse_by_name(frame, obj, path)
        return Outside(f"{path}()")

    def _call_function(self, frame, function, path, arguments, keywords, site):
        if tables.in_torch(function.__code__):
            if hasattr(function, "__wrapped__"):  # a decorator of torch's around a user's function
                inner = function.__wrapped__
                if not tables.is_torch_callable(inner):
                    return self._call(frame, known(inner, path), arguments, keywords, site)
            if arguments and function.__qualname__.count(".") == 1 and self._is_method_of(
                    arguments[0]):  # Class.method(object, ...)
                return self._call_method(frame, Method(arguments[0], function.__name__), arguments[1:], keywords, site)
            return self._call_torch(frame, function, path, arguments, keywords, site)
        makes_context = function.__code__ is tables.MAKES_CONTEXT  # what contextlib.contextmanager makes of a generator
        if makes_context and function not in tables.KERNEL_CONTEXTS:
            return self._context_of(frame, function, path, arguments, keywords, site)
        if tables.in_standard_library(function.__code__):
            if (answer := self._known_standard(function, arguments, keywords, site)) is not None:
                return answer
            if function is os.getenv and arguments:
                return self._of_environment(frame, arguments)
            if function is dataclasses.fields and len(arguments) == 1 and (fields := self._fields(arguments[0])):
                return fields
            if function.__module__ in tables.FOLLOWED_MODULES:
                return self.follow_known(frame, function, path, arguments, keywords, site)
            if (reason := tables.REASONS.get(function.__module__.partition(".")[0])) is not None:
                frame.refuse(f"calls {tables.name_of(function)}, which {reason[0]}", reason[1])
            else:
                frame.refuse(
                    f"calls {tables.name_of(function)} of the standard library, which may have effects",
                    "call it outside and pass the result")
            return Outside(f"{path}()")
        root = (function.__module__ or "").partition(".")[0]
        if root in tables.REASONS and root != "compile":
            what, advice = tables.REASONS[root]
            frame.refuse(f"calls {tables.name_of(function)}, which {what}", advice)
            return Outside(f"{path}()")
        return self.follow_known(frame, function, path, arguments, keywords, site)

    @staticmethod
    def _is_method_of(value):
        """Whether a method of torch's says of this object what it changes."""
        return any(
            is_tensor(option) or isinstance(option, Known) and isinstance(option.obj, (
                torch.nn.Module, torch.optim.Optimizer, *SCHEDULERS, *SCALERS)) for option in options(value))

    def _construct(self, frame, cls, path, arguments, keywords, site):
        if cls is type and len(arguments) == 1:
            obj = arguments[0]
            cls = self.class_of(obj)
            return Known(cls, f"type({self.name(obj)})") if cls is not None else Plain()
        if cls is super:
            return self._super(frame, arguments)
        if cls in (zip, enumerate, map, filter, reversed) or cls in tables.ITERTOOLS:
            return self._iterator(frame, cls, arguments, keywords, site)
        if cls in tables.FRESH_TYPES:
            return self._container(frame, cls, arguments, keywords, site)
        if cls in tables.PURE_BUILTINS:
            return self._pure(frame, cls, arguments, keywords)
        if cls in (staticmethod, classmethod, property):
            return Plain()
        if cls is functools.partial:
            return Bound(arguments[0], arguments[1]) if len(arguments) == 2 and not keywords else \
                arguments[0] if len(arguments) == 1 and not keywords else self._later(frame, arguments, keywords, site)
        if own_special_of(cls, "__del__") is not None:
            frame.refuse(f"makes a {cls.__qualname__}, whose __del__ runs when it is gone", "make it outside of the call")
        if cls in tables.CONTEXTS:
            made = self.fresh("context", site)
            for value in (*arguments, *keywords.values()):
                self.grow(made, value)
            return made
        if issubclass(cls, BaseException):
            return Plain()
        if tables.is_torch_class(cls):
            return self._call_torch(frame, cls, path, arguments, keywords, site)
        if hasattr(cls, "__members__"):
            return Plain()
        made_by = getattr(cls.__new__, "__globals__", {}).get("__name__", "")
        if issubclass(cls, tuple) and hasattr(cls, "_fields") and made_by.startswith("namedtuple_") and \
                cls.__init__ is object.__init__ and type(cls) is type:
            made = self.fresh_object(cls, site)
            for name, value in [*zip(cls._fields, arguments), *keywords.items()]:
                self.grow_attribute(made, name, value)
            return made if not any(isinstance(value, Rest) for value in arguments) else Plain()
        if isinstance(cls.__init__, types.FunctionType) and type(cls) in PLAIN_KINDS and cls.__new__ in PLAIN_NEW and \
                not issubclass(cls, torch.nn.Module):
            made = self.fresh_object(cls, site)
            self.note_class(cls)
            self._call_function(frame, cls.__init__, f"{path}.__init__", [made, *arguments], keywords, site)
            return made
        if cls.__init__ is object.__init__ and cls.__new__ is object.__new__ and type(cls) in PLAIN_KINDS and \
                cls.__module__ not in tables.REASONS and "__dict__" in dir(cls):
            self.note_class(cls)
            return self.fresh_object(cls, site)
        self._refuse_by_name(frame, cls, path)
        return Outside(f"{path}()")

    def _later(self, frame, arguments, keywords, site):
        """A partial: followed at once with nothing more known than what it has."""
        self._functions_among(frame, arguments, keywords, site)
        return Outside("a partial")

    def _super(self, frame, arguments):
        if len(arguments) == 2 and isinstance(arguments[0], Known):
            return Super(arguments[0].obj, arguments[1])
        cls = frame.boxes.get("__class__")
        cls = self.unbox(cls, frame) if cls is not None else None
        first = frame.code.co_varnames[0] if frame.code.co_argcount else None
        if isinstance(cls, Known) and first in frame.arguments:
            return Super(cls.obj, frame.arguments[first])
        return Outside("super()")

    # Builtins.

    def _call_builtin(self, frame, obj, path, arguments, keywords, site):
        owner = getattr(obj, "__self__", None)
        name = getattr(obj, "__name__", "")
        if isinstance(owner, type) and issubclass(owner, torch.autograd.Function) and name == "apply":
            return self.apply_function(frame, owner, arguments, keywords, site)
        if tables.is_torch_callable(obj):
            return self._call_torch(frame, obj, path, arguments, keywords, site)
        module = owner.__name__ if isinstance(owner, types.ModuleType) else ""
        if module == "builtins":
            special = getattr(self, f"_builtin_{name}", None)
            if special is not None:
                return special(frame, arguments, keywords, site)
            if obj in tables.PURE_BUILTINS:
                return self._pure(frame, obj, arguments, keywords)
        elif module.endswith("operator") and name in tables.CHANGING_OPERATORS and arguments:
            if name in ("setitem", "delitem"):
                self.store_element(frame, arguments[0], arguments[1], arguments[2] if name == "setitem" else None)
                return Known(None, "constant")
            return self.operate(frame, "+=", arguments[0], arguments[-1], site)
        elif module in tables.PURE_MODULES or (getattr(obj, "__module__", None) or "") in tables.PURE_MODULES:
            return self._pure(frame, obj, arguments, keywords, leaves=module in ("math", "cmath"))
        elif obj in tables.ITERTOOLS:
            return self._iterator(frame, obj, arguments, keywords, site)
        elif owner is not None and not isinstance(owner, (types.ModuleType, type)):
            return self._call_method(frame, Method(Known(owner,
                                                         path.rpartition(".")[0]), name), arguments, keywords, site)
        elif isinstance(obj, types.MethodDescriptorType) and arguments:
            return self._call_method(frame, Method(arguments[0], name), arguments[1:], keywords, site)
        self._refuse_by_name(frame, obj, path)
        return Outside(f"{path}()")

    def _refuse_by_name(self, frame, obj, path):
        name = getattr(obj, "__name__", "")
        root = tables.module_name(obj).partition(".")[0] or type(getattr(obj, "__self__",
                                                                         None)).__module__.partition(".")[0]
        named = name if root in ("builtins", "_io", "io") and name in tables.REASONS else root.lstrip("_")
        reason = tables.REASONS.get(named) or tables.REASONS.get(root)
        if reason is None:
            self._unknown(frame, path)
        else:
            frame.refuse(f"calls {path}, which {reason[0]}", reason[1])

    def _pure(self, frame, obj, arguments, keywords, leaves=False):
        values = [*arguments, *keywords.values()]
        if obj in (float, int, bool, complex, str, repr, format, bytes, hash) or leaves:
            if any(has_tensor(value) for value in values):
                if fixed(*values) is not None:
                    return Plain()
                frame.refuse(f"makes a {getattr(obj, '__name__', 'number')} of a tensor", LEAVES, "value leaves")
                return Plain()
        if obj is bool and len(values) == 1 and (answer := self.truth(values[0])) is not None:
            return Known(answer, "constant")
        if obj is slice:
            return Slice(source(*values))
        if obj is range and (moving := source(*values)):
            frame.refuse(f"repeats something as often as {moving} says", "pass the count as a string, or fix it",
                         "number decides")
        if obj in FOLDED and not keywords and (folded := self.fold(obj, values)) is not None:
            return folded
        if obj in (str, repr) and len(values) == 1 and self._is_plain_class(values[0]):
            return Known(obj(values[0].obj), "constant")
        self._operators(frame,
                        [value for value in values if not is_tensor(value)] if obj not in (len, id, callable) else [])
        if obj is len and values:
            for option in options(values[0]):
                special = own_special(option.obj, "__len__") if isinstance(option, Known) else None
                if special is not None or isinstance(option, FreshObject):
                    self.call(frame, self.attribute(frame, option, "__len__"), [], {}, (*frame.site, frame.line, "len"))
        if obj is len and len(values) == 1 and (length := self.length(values[0])) is not None:
            return length
        if obj is len or obj in (callable, issubclass, id):
            return Plain()
        self.rates_among(frame, values)
        if not leaves and any(has_tensor(value) for value in values):
            return Tensor()
        return Plain(source(*values), sources(*values))

    @staticmethod
    def _is_plain_class(value):
        """Whether it is a class whose text Python makes by itself."""
        return isinstance(value, Known) and type(value.obj) in PLAIN_KINDS

    def _builtin_isinstance(self, frame, arguments, keywords, site):
        if len(arguments) == 2:
            _, classes = arguments
            if isinstance(classes, Tuple) and all(isinstance(item, Known) for item in classes.items):
                classes = tuple(item.obj for item in classes.items)
            else:
                classes = classes.obj if isinstance(classes, Known) else None
            answers = set()
            for option in options(arguments[0]) if classes is not None else ():
                cls = type(option.obj) if isinstance(option,
                                                     Known) else option.cls if isinstance(option, FreshObject) else None
                try:
                    answers.add(issubclass(cls, classes) if cls is not None else None)
                except TypeError:
                    answers.add(None)
            if len(answers) == 1 and (answer := answers.pop()) is not None:
                return Known(answer, "constant")
        return Plain()

    def _builtin_next(self, frame, arguments, keywords, site):
        for option in options(arguments[0]) if arguments else ():
            if not isinstance(option, Iterator):
                frame.refuse(f"takes the next of {self.name(option)}, an iterator that may live on",
                             tables.REASONS["next"][1])
                return Outside("next(...)")
        return join_all([self.element(frame, arguments[0]) or Plain(), *arguments[1:]])

    def _builtin_iter(self, frame, arguments, keywords, site):
        element = self.element(frame, arguments[0]) if arguments else None
        return Iterator(element or Plain())

    def _elements_of(self, frame, arguments):
        return arguments if len(arguments) > 1 else [self.element(frame, arguments[0]) or Plain()
                                                     ] if arguments else [Plain()]

    def _builtin_min(self, frame, arguments, keywords, site):
        found = self._elements_of(frame, arguments)
        if any(has_tensor(value) for value in found):
            frame.refuse("compares tensors in min or max", "use torch.minimum or torch.maximum", "value leaves")
        if "key" in keywords:
            self.call(frame, keywords["key"], [join_all(found)], {}, site)
        whole = len(found) == 1 or any(has_tensor(value) or is_number(value) for value in found)
        return join_all(found) if whole else Plain(source(*found))

    _builtin_max = _builtin_min

    def _builtin_sum(self, frame, arguments, keywords, site):
        found = self._elements_of(frame, arguments[:1])
        return Tensor() if any(has_tensor(value) for value in [*found, *arguments[1:]]) else Plain(source(*found))

    def _builtin_any(self, frame, arguments, keywords, site):
        for value in self._elements_of(frame, arguments[:1]):
            frame.truth(value)
        return Plain()

    _builtin_all = _builtin_any

    # torch.

    def _call_torch(self, frame, obj, path, arguments, keywords, site):
        if id(obj) in tables.NEVER:
            return Known(False, "constant")
        self.no_number(frame, f"gives {path}", *arguments, *keywords.values())
        plain = id(obj) in tables.PLAIN
        if id(obj) in tables.DENIED or not plain and tables.denied_part(obj) is not None and not isinstance(
                obj, torch._ops.OpOverload):
            name = tables.DENIED.get(id(obj)) or tables.name_of(obj)
            frame.refuse(f"calls {name}, which changes or reads what lies outside of the call", "call it outside")
            return Tensor()
        if id(obj) in tables.MODES and not self._is_entered(frame, site):
            frame.refuse(f"sets torch's mode by {path}",
                         "use torch.no_grad() or torch.enable_grad() in a with statement")
        if isinstance(obj, type) and issubclass(obj, torch.autograd.Function):
            return Tensor()
        if isinstance(obj, type) and issubclass(
                obj, (torch.optim.Optimizer, *SCHEDULERS, *SCALERS, torch.nn.Module, torch.Generator)) and not (
                    obj.__module__ in tables.MADE_INSIDE and not issubclass(obj, tables.WITH_PARAMETERS)):
            frame.refuse(f"makes a {obj.__name__} in the call", "make it outside and use it inside")
            return Outside(f"{path}()")
        if id(obj) in tables.LEAVING and fixed(*arguments) is None:
            frame.refuse(f"calls {path}, whose answer is a Python value", LEAVES, "value leaves")
            return Plain()
        if id(obj) in tables.DATA and (moving := source(*arguments, *keywords.values())):
            frame.refuse(f"makes a tensor of {moving}", "pass a tensor instead of the number", "number decides")
        given = self._library(frame, arguments, keywords, site)
        if plain:
            return Plain()
        if given.outside:
            return given
        name = getattr(obj, "__name__", "")
        self.note_use(name, arguments, keywords)
        return self.made_of(name, arguments, keywords, site)

    @staticmethod
    def _is_entered(frame, site):
        """Whether what a call makes is entered by the with statement right behind it."""
        instructions, index_of, _ = instructions_of(frame.code) if frame.code is not None else ([], {}, [])
        behind = index_of.get(site[-1] if site else None, len(instructions)) + 1
        return behind < len(instructions) and instructions[behind].opname in ("BEFORE_WITH", "SETUP_WITH")

    def _library(self, frame, arguments, keywords, site):
        # What comes from functions of the user's may be anything.
        is_of_users = self._functions_among(frame, arguments, keywords, site)
        values = [*arguments, *keywords.values()]
        self.rates_among(frame, values)
        self.refuse_counters(frame, values, "gives it to torch")
        return Tensor(outside=is_of_users)

    def _functions_among(self, frame, arguments, keywords, site):
        """Follows every function of the user's that is handed to code which may call it. Whether there is one."""
        values = [*arguments, *keywords.values()]
        self.no_number(frame, "gives torch", *values)
        found = self._follow_among(values, frame, site, 2)
        if found:
            self.wrote(*values)  # it may be given them
        return found

    def _follow_among(self, values, frame, site, depth):
        """Whether there was one."""
        found = False
        for at, value in enumerate(values):
            for option in options(value):
                if depth and isinstance(option, (Tuple, Fresh)):
                    inner = option.items if isinstance(
                        option, Tuple) else [option.elements] if option.elements is not None else []
                    found |= self._follow_among(inner, frame, (*site, at), depth - 1)
                elif depth and isinstance(option, Known) and isinstance(
                        option.obj, (list, tuple, dict)) and not is_simple(option.obj):
                    inner = option.obj.values() if isinstance(option.obj, dict) else option.obj
                    found |= self._follow_among([known(item, option.path) for item in inner if callable(item)], frame,
                                                (*site, at), depth - 1)
                called = isinstance(option, (Function, Bound)) or self._is_called(option)
                if called:
                    found = True
                    self.call(frame, option, [Rest(Tensor(outside=True))], {}, (*site, at))
        return found

    @staticmethod
    def _is_called(option):
        """Whether an argument is a function or module that may do something."""
        if isinstance(option, Method):
            return option.name in tables.CHANGING_METHODS and not is_tensor(option.owner)
        if not isinstance(option, Known) or isinstance(option.obj, type):
            return False
        if isinstance(option.obj, torch.nn.Module):
            return type(option.obj).forward is not torch.nn.Module.forward
        functions = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
        return isinstance(option.obj, functions) and not tables.is_torch_callable(option.obj)

    # Methods.

    def _call_method(self, frame, method, arguments, keywords, site):
        return join_all([
            self._call_one(frame, Method(owner, method.name), arguments, keywords, site)
            for owner in options(method.owner)
        ])

    def _call_one(self, frame, method, arguments, keywords, site):
        owner, name = method.owner, method.name
        self.number_method(frame, owner, name, arguments, keywords)
        if name in PLAIN_ACCESS and isinstance(owner, (Known, FreshObject)):
            if isinstance(owner, Known) and owner.obj is object and arguments:  # object.__setattr__(made, ...)
                owner, arguments = arguments[0], arguments[1:]
            if not (isinstance(owner, Known) and isinstance(owner.obj, (torch.nn.Module, type, torch.Tensor))):
                return self.plain_access(frame, owner, name, arguments)
        if is_tensor(owner) or isinstance(owner, Method) and has_tensor(owner):
            return self._tensor_method(frame, owner, name, arguments, keywords, site)
        if isinstance(owner, (Fresh, Iterator)):
            return self._fresh_method(frame, owner, name, arguments, keywords, site)
        if isinstance(owner, Tuple) and name in ("index", "count"):
            return Plain()
        if isinstance(owner, Known):
            return self._known_method(frame, owner, name, arguments, keywords, site)
        if isinstance(owner, FreshObject) and owner.mapping is not None and (name == "__init__" or hasattr(dict, name)):
            return self._mapping_method(frame, owner, name, arguments, keywords, site)
        if isinstance(owner, FreshObject) and name in ("__init__", "__post_init__", "__init_subclass__"):
            return Known(None, "constant")
        if isinstance(owner, (Plain, Method, Tuple)) and name not in tables.CHANGING_METHODS:
            return Plain(source(owner, *arguments, *keywords.values()))
        self._unknown(frame, f"{self.name(owner)}.{name}")
        return Outside(f"{name}()")

    def _tensor_method(self, frame, owner, name, arguments, keywords, site):
        if name in tables.TENSOR_LEAVES | tables.TENSOR_READ and fixed(owner) is not None:
            return Plain()
        if name in tables.TENSOR_READ:
            return self.read_of(frame, owner, name, arguments, keywords)
        if name in tables.TENSOR_LEAVES:
            frame.refuse(f"reads a tensor's value by .{name}()", LEAVES, "value leaves")
            return Plain()
        if name in tables.TENSOR_PLAIN:
            return Plain()
        outside = isinstance(owner, Known) or getattr(owner, "outside", False)
        if name == "requires_grad_" and outside and self.sets_gradient(
                next(iter([*arguments, *keywords.values()]), Known(True, "constant"))):
            return owner
        if name in tables.TENSOR_DENIED or name == "requires_grad_" and outside:
            frame.refuse(f"calls .{name}() of a tensor, which outlasts the call", "call it outside")
            return Tensor()
        if name in tables.TENSOR_NAMES or name in ("save_for_backward", "mark_non_differentiable",
                                                   "_asdict"):
            self._library(frame, arguments, keywords, site)
            self.note_use(name, [owner, *arguments], keywords)
            return self.made_of(name, [owner, *arguments], keywords, site)
        if not outside and name not in tables.CHANGING_METHODS and not isinstance(owner, Known):
            return self._library(frame, arguments, keywords, site)
        self._unknown(frame, f"{self.name(owner)}.{name}")
        return Tensor()

    def _known_method(self, frame, owner, name, arguments, keywords, site):
        obj, path = owner.obj, f"{owner.path}.{name}"
        if obj is os.environ and name == "get" and arguments:
            return self._of_environment(frame, arguments)
        if isinstance(obj, type):
            found = inspect.getattr_static(obj, name, None)
            if obj is object and name == "__setattr__" and self.sets_own(arguments):
                return Known(None, "constant")
            if issubclass(obj, torch.Tensor) and arguments and not isinstance(found, (classmethod, staticmethod)):
                return self._call_method(frame, Method(arguments[0], name), arguments[1:], keywords, site)
            if issubclass(obj, torch.autograd.Function) and name == "apply":
                return self.apply_function(frame, obj, arguments, keywords, site)
            if tables.is_torch_class(obj) or isinstance(
                    found, (classmethod, staticmethod)) and tables.is_torch_callable(found.__func__):
                return self._call_torch(frame, getattr(obj, name, obj), path, arguments, keywords, site)
            if isinstance(found, types.MethodDescriptorType) and arguments:
                return self._call_one(frame, Method(arguments[0], name), arguments[1:], keywords, site)
            if isinstance(found, types.ClassMethodDescriptorType) and obj in (dict, int, float, bytes, str):
                if obj is not dict:
                    return Plain()
                made = self.fresh("dict", site)
                if arguments and (key := self.element(frame, arguments[0])) is not None:
                    self.put(made, key, arguments[1] if len(arguments) > 1 else Known(None, "constant"))
                return made
        elif isinstance(obj, torch.nn.Module):
            return self.module_method(frame, owner, name, arguments, keywords, site)
        elif isinstance(obj, torch.optim.Optimizer):
            if name == "step" and type(obj) in BY_VALUE:
                frame.refuse(f"steps {owner.path}, and {type(obj).__name__} {BY_VALUE[type(obj)]}",
                             "use another optimizer", "value leaves")
            if name in ("step", "zero_grad"):
                self._functions_among(frame, arguments, keywords, site)
                return Tensor() if name == "step" and arguments else Known(None, "constant")
        elif isinstance(obj, SCHEDULERS):
            if name == "step":
                frame.refuse(f"steps the scheduler {owner.path}", "step it behind the call", "scheduler")
                return Known(None, "constant")
            if name == "get_last_lr":
                self.note_rate(frame, f"{path}()")
                return Plain(f"{path}()")
        elif isinstance(obj, SCALERS):
            if name in ("scale", "step", "update", "unscale_", "get_scale", "is_enabled"):
                return self.scaler_method(frame, owner, name, arguments, keywords, site)
        elif name in tables.CHANGING_METHODS and isinstance(obj, (list, dict, set, bytearray, collections.deque)):
            frame.refuse(f"changes {owner.path} by {name}, which lives longer than the call",
                         "make the container inside of the call, or return the value and store it behind the call")
            return Outside(f"{path}()")
        elif isinstance(obj, dict) and name in ("items", "values", "keys", "get", "copy"):
            keys = constants(arguments[0]) if arguments and name == "get" else None
            default = arguments[1] if len(arguments) > 1 else Known(None, "constant")
            if keys is not None:
                return join_all([
                    self.count_at(obj, key) or known(dict.__getitem__(obj, key), at_key(owner.path, key), owner.moves)
                    if dict.__contains__(obj, key) else default for key in keys
                ])
            values = self.dict_values(frame, owner)
            if name == "get":
                return join(values, default)
            if name == "copy":
                made = self.fresh("dict", site)
                self.merge(frame, made, owner)
                return made
            keys = join_all(known_all(obj, lambda at: owner.path)) if obj else Plain()
            return Iterator({"items": Tuple([keys, values]), "values": values, "keys": keys}[name]) if obj else Tuple(
                ())
        elif isinstance(obj, (list, tuple, set, frozenset)) and name == "copy":
            made = self.fresh("list", site)
            if (element := self.element(frame, owner)) is not None:
                self.grow(made, element)
            return made
        elif (is_simple(obj) or isinstance(
                obj,
            (list, tuple, dict, set, frozenset))) and name in tables.PURE_METHODS | {"__len__", "__contains__"}:
            if name == "format" and any(has_tensor(value) for value in [*arguments, *keywords.values()]):
                frame.refuse("makes text of a tensor", "make it behind the call", "value leaves")
            folded = None
            if is_simple(obj) and not owner.moves and not keywords and type(obj) in (str, int, float, tuple):
                folded = self.fold(getattr(type(obj), name), [owner, *arguments])
            return folded if folded is not None else Plain(source(*arguments, *keywords.values()))
        elif isinstance(obj, (torch.dtype, torch.device, torch.Size, torch.finfo, torch.iinfo)):
            return Plain()
        self._refuse_by_name(frame, obj, path)
        return Outside(f"{path}()")
