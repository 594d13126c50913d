"""Operators, comparisons and questions about values.py's values: what is true, equal, within. Part of bytecode.py's
checker.
"""

import operator
import types

import torch

from . import known as tables
from .classes import CONTAINERS, is_user_class, own_special, own_special_of, own_special_class
from .values import (Bound, Box, Fresh, FreshObject, Function, Iterator, Known, Method, Null, Outside, Plain, Tensor,
                     Tuple, constant, has_tensor, is_simple, options, source)

_COMPARISONS = {
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, ">=": operator.ge
}


class Questions:
    """Mixed into objects.Objects."""

    def _operators(self, frame, values):
        """Refuses operators that are the user's own code."""
        for value in values:
            for option in options(value):
                cls = option.cls if isinstance(option,
                                               FreshObject) else type(option.obj) if isinstance(option, Known) else None
                if cls is None or not is_user_class(cls) or issubclass(cls, (torch.Tensor, torch.nn.Module)) or hasattr(
                        cls, "__members__"):
                    continue
                if not issubclass(cls, (int, float, str, tuple)) and not isinstance(
                        option, FreshObject) or own_special_class(cls):
                    frame.refuse(f"uses an operator on {self.name(option)}", "write the operation out as a function")

    def operate(self, frame, sign, left, right, offset):
        if sign.endswith("="):
            for option in options(left):
                if isinstance(option, Known) and isinstance(option.obj, (list, dict, set)):
                    frame.refuse(
                        f"changes {option.path}, which lives longer than the call",
                        "make the container inside of the call, or return the value and store it behind the call")
                elif isinstance(option, Fresh) and (more := self.element(frame, right)) is not None:
                    self.grow(option, more)
        for value in (left, right):
            for option in options(value):
                if isinstance(option, Outside):
                    frame.refuse(f"uses an operator on {option.what}, which cannot be known", "pass it as an argument")
        self._operators(frame, (left, right))
        if has_tensor(left) or has_tensor(right):
            if sign.startswith("%") and any(
                    isinstance(option, Known) and isinstance(option.obj, str) for option in options(left)):
                frame.refuse("makes text of a tensor", "make it behind the call", "value leaves")
                return Plain()
            return Tensor()
        containers = [
            option for value in (left, right) for option in options(value)
            if isinstance(option, (Fresh, Tuple)) or isinstance(option, Known) and isinstance(option.obj, CONTAINERS)
        ]
        if containers:
            kind = next((option.kind for option in containers if isinstance(option, Fresh)), "list")
            made = self.fresh(kind, (frame.site, offset))
            for option in containers:
                element = self.dict_values(option) if kind == "dict" else self._element(frame, option)
                if element is not None:
                    self.grow(made, element)
            return made
        return Plain(source(left, right))

    def keyed(self, frame, *keys):
        """Refuses keys whose hash or index is the user's own code."""
        self._own_answers(frame, keys, ("__hash__", "__index__"), "uses {} as a key, and its class says how")

    def shown(self, frame, value):
        """Refuses text that the user's own code makes."""
        self._own_answers(frame, (value, ), ("__str__", "__repr__", "__format__"),
                          "makes text of {}, and its class says how")

    def _own_answers(self, frame, values, names, words):
        for value in values:
            for option in options(value):
                cls = self.class_of(option)
                if cls is None or not is_user_class(cls) or issubclass(cls, (torch.Tensor, torch.nn.Module)):
                    continue
                if any(own_special_of(cls, name) is not None for name in names):
                    frame.refuse(words.format(self.name(option)), "do it outside of the call")

    @staticmethod
    def class_of(option):
        """The class of an object that is known, or None."""
        return option.cls if isinstance(option,
                                        FreshObject) else type(option.obj) if isinstance(option, Known) else None

    def compare(self, frame, sign, left, right):
        self._operators(frame, (left, right))
        if has_tensor(left) or has_tensor(right):
            return Tensor()
        left_constant, first = constant(left)
        right_constant, second = constant(right)
        if left_constant and right_constant and sign in _COMPARISONS:
            try:
                return Known(bool(_COMPARISONS[sign](first, second)), "constant")
            except TypeError:
                return Plain()
        return Plain(source(left, right))

    def ask(self, frame, value):
        """Refuses a truth that is the answer of the user's own code."""
        for option in options(value):
            cls = option.cls if isinstance(option,
                                           FreshObject) else type(option.obj) if isinstance(option, Known) else None
            if cls is not None and (own_special_of(cls, "__bool__") or own_special_of(cls, "__len__")):
                frame.refuse(f"asks whether {self.name(option)} is true, which its class answers",
                             "ask for what is meant")

    def truth(self, value):
        answers = set()
        for option in options(value):
            if isinstance(option, (Function, Bound, FreshObject)):
                answers.add(True)
            elif isinstance(option, Tuple):
                answers.add(bool(option.items))
            elif isinstance(option, Known) and (is_simple(option.obj) or isinstance(option.obj, CONTAINERS)):
                answers.add(bool(option.obj))
            elif isinstance(option, Known) and isinstance(
                    option.obj, (types.FunctionType, types.MethodType, types.ModuleType, type)):
                answers.add(True)
            else:
                return None
        return answers.pop() if len(answers) == 1 else None

    def is_none(self, value):
        answers = set()
        for option in options(value):
            if isinstance(option, Known):
                answers.add(option.obj is None)
            elif isinstance(option, (Fresh, FreshObject, Tuple, Function, Bound, Iterator)):
                answers.add(False)
            else:
                return None
        return answers.pop() if len(answers) == 1 else None

    def is_same(self, left, right):
        if isinstance(right, Known) and right.obj is None:
            return self.is_none(left)
        if isinstance(left, Known) and isinstance(right, Known) and not left.moves and not right.moves:
            return left.obj is right.obj
        return None

    def contains(self, frame, owner, key):
        if has_tensor(owner) or has_tensor(key) and not (isinstance(owner, Known) and isinstance(owner.obj, dict)):
            frame.refuse("looks for a tensor's value", "compare with torch, or outside of the call", "value leaves")
            return None
        is_constant, found = constant(key)
        if isinstance(owner, Known) and is_constant and isinstance(
                owner.obj, (str, range, *CONTAINERS)) and not is_user_class(type(owner.obj)):
            try:
                return found in owner.obj
            except TypeError:
                return None
        if isinstance(owner, Known) and own_special(owner.obj, "__contains__") is not None:
            frame.refuse(f"asks {owner.path} for an element", "ask outside of the call and pass the answer as a bool")
        return None

    def enter(self, frame, manager):
        for option in options(manager):
            if isinstance(option, (Tensor, Null)):
                continue
            if isinstance(option, Known) and (isinstance(option.obj, tables.CONTEXTS) or
                                              tables.is_torch_class(type(option.obj))):
                continue
            if isinstance(option, Fresh) and option.kind == "context":
                continue
            frame.refuse(f"enters {self.name(option)}, which cannot be known", "enter it outside of the call")

    def name(self, value):
        """A value in words."""
        if isinstance(value, Known):
            return value.path
        if isinstance(value, Outside):
            return value.what
        if isinstance(value, Method):
            return f"{self.name(value.owner)}.{value.name}"
        if isinstance(value, FreshObject):
            return f"a {value.cls.__qualname__}"
        if isinstance(value, (Bound, Box)):
            return self.name(value.function) if isinstance(value, Bound) else value.name
        if isinstance(value, Fresh):
            return f"a {value.kind}"
        return {"Tensor": "a tensor", "Plain": "a value", "Iterator": "an iterator",
                "Tuple": "a tuple"}.get(type(value).__name__, "something")
