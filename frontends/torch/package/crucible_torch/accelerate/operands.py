"""Which numbers among the arguments are nothing but operands of ops: a compiled call computes what it is given for them,
and they may move. Every other use decides more than that - a branch, an index, a size, text, what is returned - and so
does every use that is not known here: such a number is compared by value. Part of bytecode.py's checker.
"""

import types

import torch

from . import known as tables
from .values import (ANYTHING, Bound, Box, Fresh, FreshObject, Function, Iterator, Known, Method, Plain, Rest, Slice,
                     Super, Tuple, is_tensor, known, options)

ANY = "*"  # in place of a source: it may be any
# Instructions that hand a value on as it is. What calls do with it is note_call()'s to say.
_PASSING = {
    "STORE_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_MAYBE_NULL", "STORE_DEREF", "POP_TOP",
    "COPY", "SWAP", "DUP_TOP", "DUP_TOP_TWO", "ROT_TWO", "ROT_THREE", "ROT_FOUR", "ROT_N", "BUILD_TUPLE",
    "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE", "RETURN_VALUE", "CALL", "CALL_KW", "CALL_METHOD", "CALL_FUNCTION",
    "CALL_FUNCTION_KW", "CALL_FUNCTION_EX"
}
# Of Python's numbers and of tensors alike: results have no steps, and torch picks no other ops for other numbers.
_OPERATORS = {"+", "-", "*", "/", "ADD", "SUBTRACT", "MULTIPLY", "TRUE_DIVIDE"}
_OF_NUMBERS = {"**", "POWER"}
_OPS = ("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "lerp")
_FUNCTIONS = tuple(getattr(torch, name) for name in _OPS)
_METHODS = {*_OPS, *(name + "_" for name in _OPS)}


def sources(*values):
    """All arguments and hyperparameters that the values, or what is in them, were computed from."""
    found, seen, waiting = set(), set(), list(values)
    while waiting:
        for option in options(waiting.pop()):
            if isinstance(option, Plain):
                found |= option.sources
            elif option is ANYTHING:
                found.add(ANY)
            elif option is not None and id(option) not in seen:
                seen.add(id(option))
                waiting += _parts(option)
    return found


def _parts(value):
    if isinstance(value, Tuple):
        return value.items
    if isinstance(value, Fresh):
        return [value.elements] if value.elements is not None else []
    if isinstance(value, FreshObject):
        return list(value.attributes.values())
    if isinstance(value, (Rest, Iterator)):
        return [value.element] if value.element is not None else []
    if isinstance(value, Box):
        return [value.value] if value.value is not None else []
    if isinstance(value, Function):
        return [*value.boxes.values(), *value.defaults, *value.keyword_defaults.values()]
    if isinstance(value, Bound):
        return [value.function, value.owner]
    return [value.owner] if isinstance(value, (Method, Super)) else []


def _is_operand(value):
    """Whether it is a number or a tensor, whichever it is."""
    return all(is_tensor(option) or isinstance(option, Plain) and not isinstance(option, Slice)
               or isinstance(option, Known) and type(option.obj) in (int, float)
               or isinstance(option, Method) and is_tensor(option.owner) for option in options(value))


def _is_number(value):
    return _is_operand(value) and not any(is_tensor(option) or isinstance(option, Method) for option in options(value))


class Operands:
    """Mixed into bytecode.Checker."""

    def decide(self, *values):
        """These are used for more than operands."""
        self.reach.deciding |= sources(*values)

    def note_uses(self, frame, item, before, afters):
        """What an instruction has taken from the stack `before` it; `afters`: the stacks behind it."""
        kept = len(before) if afters else 0
        for after in afters:
            kept = min(kept, next((at for at, (a, b) in enumerate(zip(before, after)) if a is not b),
                                  min(len(before), len(after))))
        taken = before[kept:]
        name = item.opname
        if name in _PASSING or not sources(*taken):
            return
        if name == "RETURN_CONST" or name.endswith("_NONE") and name.startswith("POP_JUMP"):
            return  # a number is not None, and its type is compared
        if name == "IS_OP" and any(isinstance(value, Known) and value.obj is None for value in taken):
            return
        if name == "UNPACK_SEQUENCE" and all(isinstance(option, Tuple) and len(option.items) == item.arg
                                             for option in options(taken[-1])):
            return
        if self._is_arithmetic(item, taken):
            self.reach.operands |= sources(*taken)
        else:
            self.decide(*taken)

    @staticmethod
    def _is_arithmetic(item, taken):
        name = item.opname
        if name == "UNARY_NEGATIVE":
            return _is_operand(taken[-1])
        sign = item.argrepr.rstrip("=") if name == "BINARY_OP" else name.partition("_")[2]
        if not name.startswith(("BINARY_", "INPLACE_")) or len(taken) != 2:
            return False
        return sign in _OPERATORS and all(map(_is_operand, taken)) or sign in _OF_NUMBERS and all(
            map(_is_number, taken))

    def note_call(self, target, arguments, keywords):
        """What is handed over to a call: a function that is followed hands it on."""
        values = [*arguments, *keywords.values()]
        if not sources(*values):
            return
        for option in options(target):
            if self._takes_operands(option, arguments, keywords):
                self.reach.operands |= sources(*values)
            elif not self._is_followed(option):
                self.decide(*values)

    @staticmethod
    def _takes_operands(target, arguments, keywords):
        """Whether every number that it is given is an operand."""
        if isinstance(target, Known) and target.obj is float:
            return not keywords and len(arguments) == 1 and _is_number(arguments[0])
        if isinstance(target, Known) and target.obj is torch.nn.utils.clip_grad_norm_:
            given = dict(zip(("parameters", "max_norm", "norm_type"), arguments)) | keywords
            number = given.pop("max_norm", None)
            return number is not None and _is_number(number) and not sources(*given.values())
        is_op = isinstance(target, Method) and is_tensor(target.owner) and target.name in _METHODS or isinstance(
            target, Known) and any(target.obj is function for function in _FUNCTIONS)
        return is_op and all(_is_operand(value) for value in (*arguments, *keywords.values()) if sources(value))

    def _is_followed(self, target):
        """Whether it is the user's function, whose own instructions say what it does."""
        if isinstance(target, Function):
            return True
        if isinstance(target, Bound):
            return self._is_followed(target.function)
        if not isinstance(target, Known):
            return False
        obj = target.obj
        if isinstance(obj, types.MethodType):
            return self._is_followed(Known(obj.__func__, target.path))
        if isinstance(obj, torch.nn.Module):
            forward = vars(obj).get("forward", type(obj).forward)
            return self._is_followed(known(forward, target.path))
        if not isinstance(obj, types.FunctionType) or tables.in_standard_library(obj.__code__):
            return False
        if tables.in_torch(obj.__code__):
            return hasattr(obj, "__wrapped__") and self._is_followed(known(obj.__wrapped__, target.path))
        return (obj.__module__ or "").partition(".")[0] not in tables.REASONS
