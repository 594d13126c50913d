"""Where a number may go that a function reads from a tensor: what observed calls follow (tape.py, reads.py) is allowed,
all else refused. Part of bytecode.py's checker.
"""

import builtins
import collections
import itertools
import types

import torch

from . import known as tables
from .values import (Direct, Fresh, FreshObject, Known, Number, Plain, Tensor, Tuple, has_number, has_tensor,
                     is_number, options)

CONVERSIONS = (float, int, bool)
OPERATORS = (builtins.abs, builtins.round, builtins.divmod, builtins.pow)
# Take numbers among others, and say of themselves what they give.
CARRYING = (zip, enumerate, map, filter, reversed, list, tuple, dict, collections.OrderedDict, collections.defaultdict,
            collections.deque, sorted, any, all, min, max, next, iter, str, repr, format, setattr, getattr, len, id,
            super, itertools.chain, itertools.starmap, itertools.chain.from_iterable)
RETURNED = ("list", "tuple", "dict")  # kinds of containers


class Numbers:
    """Mixed into calls.Calls."""

    def number_call(self, frame, target, arguments, keywords):
        """What a call gives whose arguments are numbers that were read; None where the function itself says."""
        obj, values = target.obj, [*arguments, *keywords.values()]
        if any(obj is each for each in CONVERSIONS):
            if not any(is_number(value) or has_tensor(value) for value in values):
                return None
            if len(values) != 1 or keywords:
                self.no_number(frame, f"calls {obj.__name__} with more than", *values)
            return Number()
        is_mathematics = isinstance(obj, types.BuiltinFunctionType) and obj in tables.MATHEMATICS
        if is_mathematics and any(is_number(value) or has_tensor(value) for value in values):
            return self._mathematics(frame, target, values)
        if not any(has_number(value) for value in values):
            return None
        if any(obj is each for each in OPERATORS) and not keywords and (obj is not pow or len(values) == 2):
            if any(has_tensor(value) for value in values):
                self.no_number(frame, "computes with a tensor and", *values)
            self._moves(frame, *values)
            return Tuple([Number(), Number()]) if obj is divmod else Number()
        if obj is sum:
            return self._sum(frame, arguments, keywords)
        if not self._carries(frame, target, arguments, keywords):
            self.no_number(frame, f"calls {target.path} with", *values)
            return Tensor()
        return None

    def _mathematics(self, frame, target, values):
        if not isinstance(target, Direct):
            frame.refuse(f"calls {target.path} with {self.number_words()}",
                         f"write math.{target.obj.__name__}", "value leaves")
        self._moves(frame, *values)
        return Number()

    def _sum(self, frame, arguments, keywords):
        """Python adds ints to floats without asking an int that is followed."""
        found = self._elements_of(frame, arguments[:1])
        if len(arguments) != 1 or keywords or not all(
                isinstance(option, Number) for value in found for option in options(value)):
            self.no_number(frame, "adds by sum() to other numbers", *arguments, *keywords.values())
        return Number()

    def _carries(self, frame, target, arguments, keywords):
        obj = target.obj
        if isinstance(obj, torch.nn.Module):
            return not any(vars(obj).get(table) for table in ("_forward_hooks", "_forward_pre_hooks"))
        if any(obj is each for each in CARRYING):
            if obj is enumerate:
                return not any(has_number(value) for value in [*arguments[1:], *keywords.values()])
            return obj is not getattr and obj is not next or not any(is_number(value) for value in arguments[1:])
        if isinstance(obj, types.FunctionType):
            return not tables.in_torch(obj.__code__) and (obj in tables.SAME_OBJECT or
                                                          not tables.in_standard_library(obj.__code__))
        if isinstance(obj, type):
            is_plain = not issubclass(obj, BaseException) and not tables.is_torch_class(obj) and type(obj) is type
            return is_plain and obj.__module__ not in ("builtins", "collections", "itertools", "functools", "types")
        return isinstance(obj, types.MethodType) and not tables.is_torch_callable(obj)

    def number_method(self, frame, owner, name, arguments, keywords):
        """Refuses methods that numbers are given to and that no observed call follows."""
        values = [*arguments, *keywords.values()]
        if not any(has_number(value) for value in values):
            return
        if isinstance(owner, Fresh) and owner.kind != "set" and name in tables.ADDING_METHODS:
            first = [arguments[0]] if arguments and name in ("insert", "setdefault") else []
            self.no_number(frame, f"calls .{name}() by", *first)
            return
        is_format = isinstance(owner, Known) and isinstance(owner.obj, str) and name == "format"
        is_module = isinstance(owner, Known) and isinstance(owner.obj, torch.nn.Module) and name in (
            "__call__", "forward")
        if not is_format and not is_module:
            self.no_number(frame, f"calls .{name}() with", *values)

    def read_of(self, frame, owner, name, arguments, keywords):
        """What .item() and the like give."""
        if arguments or keywords:
            self.no_number(frame, f"calls .{name}() with", *arguments, *keywords.values())
        return Number()

    def scaler_method(self, frame, owner, name, arguments, keywords, site):
        """Of a GradScaler; its own Python branches on a number, which observed calls follow."""
        self.no_number(frame, f"calls {owner.path}.{name}() with", *arguments, *keywords.values())
        if name == "update" and (arguments or keywords):
            frame.refuse(f"sets the scale of {owner.path}", "set it outside of the call", "scaler")
        self._functions_among(frame, arguments, keywords, site)
        if name == "step":
            optimizers = [option for option in options(arguments[0]) if isinstance(option, Known)] if arguments else []
            if len(optimizers) != 1 or len(arguments) != 1 or keywords or not isinstance(
                    optimizers[0].obj, torch.optim.Optimizer):
                frame.refuse(f"steps {owner.path} with what cannot be known", "write scaler.step(optimizer)", "scaler")
            elif getattr(optimizers[0].obj, "_step_supports_amp_scaling", False):
                frame.refuse(f"steps a fused optimizer by {owner.path}", "make the optimizer without fused=True",
                             "scaler")
            else:
                self.call(frame, self.attribute(frame, optimizers[0], "step"), [], {}, (*site, "step"))
        if name == "get_scale":
            return Number()
        return Tensor() if name == "scale" else Known(None, "constant") if name != "is_enabled" else Plain()

    def returned(self, frame, value, seen=()):
        """Refuses what is returned where numbers are in what is no plain container."""
        for option in options(value):
            if isinstance(option, Number) or option in seen or not has_number(option):
                continue
            inner = ()
            if isinstance(option, Tuple):
                inner = option.items
            elif isinstance(option, Fresh) and option.kind in RETURNED:
                inner = (option.elements, )
            elif isinstance(option, FreshObject) and issubclass(option.cls, tuple):
                inner = option.attributes.values()
            else:
                frame.refuse(f"returns {self.name(option)} with {self.number_words()}",
                             "return tensors, numbers and texts in tuples, lists and dicts", "value leaves")
            for each in inner:
                self.returned(frame, each, (*seen, option))
