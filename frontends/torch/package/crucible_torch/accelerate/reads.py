"""Sees where an observed call reads numbers from tensors, and hands it numbers that are followed (tape.py)."""

from __future__ import annotations

import builtins
import math
import os
import sys
import threading
import types
from typing import Any, Callable

import torch
from torch.utils import _pytree as pytree

from crucible_torch.accelerate import conditions
from crucible_torch.accelerate.instructions import instructions_of
from crucible_torch.accelerate.known import MATHEMATICS, TORCH_FOLDER
from crucible_torch.accelerate.structure import opened
from crucible_torch.accelerate.tape import KINDS, NUMBERS, Tape, Traced, plain

HAS_CALLS = (3, 11) <= sys.version_info[:2] < (3, 14)  # LOAD_GLOBAL says whether what it loads is called
MOST_ELEMENTS = 1024
PLAIN = (torch.Tensor, torch.nn.Parameter)
ALIGNED = "_nested_tensor_from_mask_left_aligned"  # answers in Python what a mask's values are
OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# torch's own Python that branches on values as a program does; what the rest of it reads stays what it is.
FOLLOWED = tuple(TORCH_FOLDER + os.path.join(*parts)
                 for parts in (("amp", "grad_scaler.py"), ("nn", "utils", "clip_grad.py")))
MODULES = TORCH_FOLDER + "nn" + os.sep  # what its modules branch on by values is a program's branch too
_current: "Reading | None" = None  # of the one call that is observed


def _is_followed(depth: int) -> bool:
    name = sys._getframe(depth + 1).f_code.co_filename
    return not name.startswith((TORCH_FOLDER, OWN_FOLDER)) or name in FOLLOWED


def _now() -> "Reading | None":
    reading = _current
    return reading if reading is not None and reading.thread == threading.get_ident() else None


class Reading:
    """Between `with` and its end, what this thread's Python reads from tensors is written on `tape`. `functions`: those
    whose calls of float(), int() and the like are followed too."""

    def __init__(self, functions: list[types.FunctionType]):
        self.tape = Tape()
        self.thread = threading.get_ident()
        self.sets_random = False  # whether torch's random numbers begin again in the call
        self._functions = functions
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._codes: list[tuple[types.FunctionType, types.CodeType, types.CodeType]] = []

    def __enter__(self) -> "Reading":
        global _current
        _current = self
        for name, make in (("item", _item), ("tolist", _tolist), ("__bool__", _bool), ("is_nonzero", _is_nonzero),
                           ("__float__", _leaving), ("__int__", _leaving), ("__index__", _leaving),
                           ("__complex__", _leaving)):
            self._replace(torch.Tensor, name, make(getattr(torch.Tensor, name), name))
        self._replace(torch, "set_rng_state", self._sets_random(torch.set_rng_state))
        self._replace(torch, ALIGNED, _picks_by_mask(getattr(torch, ALIGNED)))
        for owner, name, ours in conditions.followed(_now):
            self._replace(owner, name, ours)
        for function, name in MATHEMATICS.items():
            self._replace(math, name, STAND_INS[function])
        for function in self._functions:
            other = with_stand_ins(function.__code__, function)
            if other is not function.__code__:
                self._codes.append((function, function.__code__, other))
                function.__code__ = other
        return self

    def __exit__(self, *_: Any) -> None:
        global _current
        for function, before, ours in self._codes:
            if function.__code__ is ours:
                function.__code__ = before
        for owner, name, before, ours in reversed(self._replaced):
            if vars(owner).get(name) is not ours:
                continue  # the program has put something else there
            if before is None:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        _current = None

    def _sets_random(self, original: Callable[..., Any]) -> Callable[..., Any]:

        def set_rng_state(*arguments: Any, **keywords: Any) -> Any:
            self.sets_random = True
            return original(*arguments, **keywords)

        return set_rng_state

    def _replace(self, owner: Any, name: str, ours: Any) -> None:
        self._replaced.append((owner, name, vars(owner).get(name), ours))
        setattr(owner, name, ours)

    def taken(self, result: Any) -> Any:
        """What the call returned, with numbers that are followed no more."""
        leaves, spec = pytree.tree_flatten(opened(result))
        self.tape.leaves = [leaf._at if isinstance(leaf, Traced) else None for leaf in leaves]
        if all(at is None for at in self.tape.leaves):
            return result
        return plain(result) if isinstance(result, Traced) else pytree.tree_unflatten([plain(leaf) for leaf in leaves],
                                                                                      spec)

    def read(self, tensor: torch.Tensor) -> int:
        """The number under which the tape has the tensor as it is now."""
        with torch.no_grad():
            self.tape.tensors.append(tensor.detach().clone())
        return len(self.tape.tensors) - 1

    def number(self, tensor: torch.Tensor, value: Any) -> Any:
        if type(value) not in KINDS or type(tensor) not in PLAIN:
            self.tape.note(f"reads a {type(value).__name__} of a {type(tensor).__name__}")
            return value
        return self.tape.number(value, self.tape.add("read", self.read(tensor), 0))


# In the place of a tensor's methods. They are called by C too, so the frame above is whoever reads.


def _item(original: Callable[..., Any], _name: str) -> Callable[..., Any]:

    def item(self: torch.Tensor) -> Any:
        value, reading = original(self), _now()
        return value if reading is None or not _is_followed(1) else reading.number(self, value)

    return item


def _tolist(original: Callable[..., Any], _name: str) -> Callable[..., Any]:

    def tolist(self: torch.Tensor) -> Any:
        value, reading = original(self), _now()
        if reading is None or not _is_followed(1):
            return value
        if self.numel() > MOST_ELEMENTS or self.is_complex() or type(self) not in PLAIN:
            reading.tape.note(f"reads a list of {self.numel()} numbers of a tensor; return the tensor")
            return value
        number, tape, at = reading.read(self), reading.tape, iter(range(self.numel()))

        def followed(part: Any) -> Any:
            if isinstance(part, list):
                return [followed(each) for each in part]
            return tape.number(part, tape.add("read", number, next(at)))

        return followed(value)

    return tolist


def _bool(original: Callable[..., Any], _name: str) -> Callable[..., Any]:

    def truth(self: torch.Tensor) -> bool:
        value, reading = original(self), _now()
        is_branch = reading is not None and (_is_followed(1) or sys._getframe(1).f_code.co_filename.startswith(MODULES))
        return bool(reading.number(self, value)) if is_branch else value

    return truth


def _picks_by_mask(original: Callable[..., Any]) -> Callable[..., Any]:

    def left_aligned(*arguments: Any, **keywords: Any) -> Any:
        if (reading := _now()) is not None:
            reading.tape.note("torch's TransformerEncoder looks at the mask's values for what it runs; make it with "
                              "enable_nested_tensor=False")
        return original(*arguments, **keywords)

    return left_aligned


def _is_nonzero(original: Callable[..., Any], _name: str) -> Callable[..., Any]:

    def is_nonzero(self: torch.Tensor) -> bool:
        value, reading = original(self), _now()
        if reading is None or not _is_followed(1):
            return value
        return reading.tape.apply(bool, reading.number(self, value))

    return is_nonzero


def _leaving(original: Callable[..., Any], name: str) -> Callable[..., Any]:

    def method(self: torch.Tensor) -> Any:
        reading = _now()
        if reading is not None and _is_followed(1):
            reading.tape.note(f"reads a tensor's value by {name}() in a way that cannot be followed; use .item()")
        return original(self)

    return method


# In the place of functions that take numbers and give numbers.


def _stand_in(function: Callable[..., Any], takes_tensors: bool) -> Callable[..., Any]:

    def can(value: Any) -> bool:
        return takes_tensors and type(value) in PLAIN and value.numel() == 1 and not value.is_complex()

    def stand_in(*arguments: Any, **keywords: Any) -> Any:
        reading = _now()
        if function in (min, max) and len(arguments) == 1 and type(arguments[0]) in (list, tuple) and arguments[0]:
            arguments = tuple(arguments[0])
        if reading is None or keywords or not any(isinstance(each, Traced) or can(each) for each in arguments) or \
                not all(isinstance(each, NUMBERS) or can(each) for each in arguments):
            return function(*arguments, **keywords)  # what is followed says so where it is used otherwise
        tape = reading.tape
        operands = [tape.add("read", reading.read(each), 0) if can(each) else tape.of(each) for each in arguments]
        return tape.compute(function, [plain(each) for each in arguments], operands)

    stand_in.__name__ = stand_in.__qualname__ = function.__name__
    return stand_in


CALLED = (float, int, bool, min, max)  # as builtins, where they are called by their names
STAND_INS = {function: _stand_in(function, function in (float, int, bool)) for function in CALLED}
STAND_INS |= {function: _stand_in(function, name not in ("floor", "ceil", "trunc"))
              for function, name in MATHEMATICS.items()}
_NAMES = {function: f"crucible {function.__name__}" for function in STAND_INS}
MOST_NAMES = 127 - len(_NAMES)  # more take an instruction of more than one piece


def can_stand_in(code: types.CodeType) -> bool:
    """Whether with_stand_ins() finds every function that the code itself loads by its name."""
    return HAS_CALLS and len(code.co_names) <= MOST_NAMES


def with_stand_ins(code: types.CodeType, function: types.FunctionType) -> types.CodeType:
    """The code of a function with stand-ins in the place of float(), int(), math's functions and the like that it loads
    by their names; the same code where there are none."""
    if function.__builtins__ is not vars(builtins):
        return code
    names, text = list(code.co_names), bytearray(code.co_code)
    constants = tuple([with_stand_ins(inner, function) if isinstance(inner, types.CodeType) else inner
                       for inner in code.co_consts])
    for item in instructions_of(code)[0] if can_stand_in(code) else ():
        if item.opname != "LOAD_GLOBAL":
            continue
        found = function.__globals__.get(item.argval, getattr(builtins, item.argval, None))
        is_called = any(found is each for each in CALLED)
        if is_called and item.arg & 1 or not is_called and isinstance(found, types.BuiltinFunctionType) and \
                found in MATHEMATICS:
            if _NAMES[found] not in names:
                names.append(_NAMES[found])
                setattr(builtins, _NAMES[found], STAND_INS[found])
            text[item.offset + 1] = 2 * names.index(_NAMES[found]) | item.arg & 1
    if len(names) == len(code.co_names) and all(a is b for a, b in zip(constants, code.co_consts)):
        return code
    return code.replace(co_code=bytes(text), co_names=tuple(names), co_consts=constants)
