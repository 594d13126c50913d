"""Operators, comparisons and questions about values.py's values: what is true, equal, within. Part of bytecode.py's
checker.
"""

import operator
import types

import torch

from . import known as tables
from .counters import Count, counted, in_place
from .classes import CONTAINERS, is_user_class, own_special_class, own_special_of
from .operands import sources
from .values import (Bound, Box, Fresh, FreshObject, Function, Iterator, Known, Method, Null, Number, Outside, Plain,
                     Tensor, Tuple, constant, constants, fixed, has_number, has_tensor, is_number, is_simple, join,
                     known, options, source)

LEAVES = "use the tensor without leaving torch, or read it behind the call"

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
        if (counter := counted(left, right, sign)) is not None:
            return Count(counter)
        if sign.startswith("%") and any(
                isinstance(option, Known) and isinstance(option.obj, str) for option in options(left)):
            self.no_number(frame, "makes text of", right)
        if is_number(left) or is_number(right):
            return self._operate_numbers(frame, sign, left, right, offset)
        if (folded := self.fold_operator(sign, left, right)) is not None:
            return folded
        if has_tensor(left) or has_tensor(right):
            self.refuse_counters(frame, (left, right), "computes with it")
            sites = fixed(left, right)
            if sign.endswith("=") and sites is None:
                self.wrote(left)  # where it lies
            if (same := in_place(left, sign)) is not None:
                return same
            if sign.startswith("%") and any(
                    isinstance(option, Known) and isinstance(option.obj, str) for option in options(left)):
                frame.refuse("makes text of a tensor", "make it behind the call", "value leaves")
                return Plain()
            return Tensor(fixed=sites)
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
        return Plain(source(left, right), sources(left, right))

    def no_number(self, frame, what, *values):
        """Refuses a number that was read from a tensor where it would decide what no condition tells."""
        if any(has_number(value) for value in values if value is not None):
            frame.refuse(f"{what} {self.number_words()}", LEAVES, "value leaves")

    def _operate_numbers(self, frame, sign, left, right, offset):
        """Numbers that were read: Python's own operators with other numbers."""
        if has_tensor(left) or has_tensor(right):
            self.no_number(frame, "computes with a tensor and", left, right)
            return Tensor()
        self._moves(frame, left, right)
        for option in [*options(left), *options(right)]:
            if isinstance(option, Known) and not isinstance(option.obj, (bool, int, float, list, tuple)):
                self.no_number(frame, f"computes with {option.path} and", left, right)
        if any(isinstance(option, (Fresh, Tuple)) for value in (left, right) for option in options(value)):
            made = self.fresh("list", (frame.site, offset))
            for value in (left, right):
                self.grow(made, self.element(frame, value) or Plain())
            return made
        return Number()

    def _moves(self, frame, *values):
        if moving := source(*values):
            frame.refuse(f"computes with {moving} and {self.number_words()}",
                         "compute it behind the call", "number decides")

    def keyed(self, frame, *keys):
        """Refuses keys whose hash or index is the user's own code, or that move."""
        if moving := source(*keys):
            frame.refuse(f"uses {moving} as a key", "pass a string", "number decides")
        self.no_number(frame, "picks an element by", *keys)
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
        if has_number(left) or has_number(right):
            return self._compare_numbers(frame, left, right)
        if has_tensor(left) or has_tensor(right):
            return Tensor(fixed=fixed(left, right))
        left_constant, first = constant(left)
        right_constant, second = constant(right)
        if left_constant and right_constant and sign in _COMPARISONS:
            try:
                return Known(bool(_COMPARISONS[sign](first, second)), "constant")
            except TypeError:
                return Plain()
        return Plain(source(left, right))

    def _compare_numbers(self, frame, left, right):
        if not all(is_number(value) or not has_number(value) for value in (left, right)):
            self.no_number(frame, "compares", left, right)
        if has_tensor(left) or has_tensor(right):
            self.no_number(frame, "compares a tensor with", left, right)
            return Tensor()
        self._moves(frame, left, right)
        return Number()

    def ask(self, frame, value):
        """Follows the user's own code that answers whether something is true; what it answers must be the same in the next
        call."""
        for option in options(value):
            cls = self.class_of(option)
            name = next((name for name in ("__bool__", "__len__") if cls and own_special_of(cls, name)), None)
            if name is None:
                continue
            answer = self.call(frame, self.attribute(frame, option, name), [], {}, (*frame.site, frame.line, "truth"))
            if has_tensor(answer) or has_number(answer) or source(answer):
                frame.refuse(f"asks whether {self.name(option)} is true, which its class answers by a value that changes",
                             "ask for what is meant")

    def truth(self, value):
        answers = set()
        for option in options(value):
            if isinstance(option, FreshObject) and option.mapping is not None:
                return None
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
            elif isinstance(option, (Fresh, FreshObject, Tuple, Function, Bound, Iterator, Number)):
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
        self.no_number(frame, "looks for", owner, key)
        answers = {self._contains(frame, option, key) for option in options(owner)}
        return answers.pop() if len(answers) == 1 else None

    def _contains(self, frame, owner, key):
        if has_tensor(owner) or has_tensor(key) and not (isinstance(owner, Known) and isinstance(owner.obj, dict)):
            frame.refuse("looks for a tensor's value", "compare with torch, or outside of the call", "value leaves")
            return None
        cls = self.class_of(owner)
        if cls is not None and own_special_of(cls, "__contains__") is not None:
            self.call(frame, self.attribute(frame, owner, "__contains__"), [key], {}, (*frame.site, frame.line, "in"))
            return None
        keys = constants(key)
        if keys is None:
            return None
        if isinstance(owner, FreshObject) and owner.mapping is not None:
            owner = owner.mapping
        if isinstance(owner, Fresh) and owner.kind == "dict":
            answers = {None if each in owner.maybe else True if each in owner.keys else None if owner.others is not None
                       else False for each in keys}
        elif isinstance(owner, Tuple):
            items = [constant(item) for item in owner.items]
            if not all(is_constant for is_constant, _ in items):
                return None
            answers = {each in [item for _, item in items] for each in keys}
        elif isinstance(owner, Known) and isinstance(owner.obj, (str, range, *CONTAINERS)):
            kind = next(kind for kind in (str, range, *CONTAINERS) if isinstance(owner.obj, kind))
            try:
                answers = {kind.__contains__(owner.obj, each) for each in keys}
            except TypeError:
                return None
        else:
            return None
        return answers.pop() if len(answers) == 1 else None

    def enter(self, frame, manager):
        """What `with manager as value` gives."""
        result = None
        for option in options(manager):
            given = Tensor()
            if isinstance(option, (Tensor, Null)):
                result = join(result, given)
                continue
            if isinstance(option, Known) and (isinstance(option.obj, tables.CONTEXTS) or
                                              tables.is_torch_class(type(option.obj))):
                self.reach.whole[id(option.obj)] = option.obj  # what entering it does is in its attributes
                if isinstance(option.obj, tables.CONTEXTS):
                    given = known(option.obj.enter_result, f"{option.path}.enter_result")
                result = join(result, given)
                continue
            if isinstance(option, Fresh) and option.kind == "context":
                result = join(result, option.elements or Known(None, "constant"))
                continue
            cls = self.class_of(option)
            if cls is not None and own_special_of(cls, "__enter__") and own_special_of(cls, "__exit__"):
                given = self.call(frame, self.attribute(frame, option, "__enter__"), [], {},
                                  (*frame.site, frame.line, "enter"))
                result = join(result, given)
                self.call(frame, self.attribute(frame, option, "__exit__"), [Plain(), Plain(), Plain()], {},
                          (*frame.site, frame.line, "exit"))
                continue
            frame.refuse(f"enters {self.name(option)}, which cannot be known", "enter it outside of the call")
        return result if result is not None else Outside("what a with statement gives")

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
        return {"Tensor": "a tensor", "Plain": "a value", "Number": "a number", "Iterator": "an iterator",
                "Tuple": "a tuple"}.get(type(value).__name__, "something")
