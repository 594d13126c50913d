"""Numbers that a call reads from tensors - `.item()`, float(), tolist(), a condition - and what Python makes of them: a
tape that a compiled call evaluates again from the tensors that it computed.

Observed calls are eager and compute with numbers that are floats and ints, and write on the tape what becomes of them.
bytecode.py has seen to it that they go nowhere where they would not (an index, an argument of torch).
"""

from __future__ import annotations

import dataclasses
import math
import operator
import os
import sys
from typing import Any, Callable, Iterator

from crucible_torch.accelerate.structure import Refusal, is_same_value

BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "pow": operator.pow, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor, "lshift": operator.lshift, "rshift": operator.rshift
}
UNARY = {"neg": operator.neg, "pos": operator.pos, "abs": operator.abs, "invert": operator.invert}
COMPARISONS = {"lt": operator.lt, "le": operator.le, "eq": operator.eq, "ne": operator.ne, "gt": operator.gt,
               "ge": operator.ge}
TEXTS = {"__str__": str, "__repr__": repr, "__hash__": hash}  # what cannot be followed, and what it gives
NUMBERS = (bool, int, float)
# Never raise, whatever the numbers are; a division does not where what divides is there before the call and not zero.
SAFE = {
    float, bool, min, max, math.isnan, math.isinf, math.isfinite, math.fabs, operator.add, operator.sub, operator.mul,
    *UNARY.values(), *COMPARISONS.values(), operator.and_, operator.or_, operator.xor
}
WHOLE = {int, round, math.floor, math.ceil, math.trunc}  # do not raise for what is no float
DIVIDES = {operator.truediv, operator.floordiv, operator.mod}
ERRORS = (ArithmeticError, ValueError, TypeError)  # of numbers
MOST_ENTRIES = 20000
OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))


class Tape:
    """What one observed call read, computed and asked, in order.

    Entries: ("read", number of the tensor, element), ("kept", number of what was kept), ("constant", value), (function,
    operands)."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self.kinds: dict[int, type] = {}  # of the numbers that entries are
        self.tensors: list[Any] = []  # copies of what was read
        self.kept: list[Any] = []  # numbers that lay where the function keeps them
        self.decisions: list[tuple[int, bool]] = []
        self.problem = ""  # what was done with a number that no compiled call could do
        self.leaves: list[int | None] = []  # of what the call returned: the entry, where it is one

    def note(self, problem: str) -> None:
        """What was done, with the program's line that did it."""
        if not self.problem:
            frame = sys._getframe(1)
            while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == OWN_FOLDER:
                frame = frame.f_back
            self.problem = f"{frame.f_code.co_filename}:{frame.f_lineno}: {problem}"

    def add(self, *entry: Any) -> int:
        if len(self.entries) >= MOST_ENTRIES:
            self.note(f"computes more than {MOST_ENTRIES} numbers of tensors' values")
            return 0
        self.entries.append(entry)
        return len(self.entries) - 1

    def of(self, value: Any) -> int:
        return value._at if isinstance(value, Traced) else self.add("constant", value)

    def number(self, value: Any, at: int) -> Any:
        """The number, so that it is followed."""
        kind = KINDS.get(type(value))
        if kind is None:
            self.note(f"computes a {type(value).__name__} from a tensor's value")
            return value
        self.kinds[at] = type(value)
        made = float.__new__(kind, value) if kind is TracedFloat else kind()
        made._tape, made._at, made._plain = self, at, value
        return made

    def kept_number(self, value: Any) -> Any:
        """A number that the function keeps from call to call (stored.py)."""
        self.kept.append(value)
        return self.number(value, self.add("kept", len(self.kept) - 1))

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """function(*operands), one of which is followed at least."""
        return self.compute(function, [plain(each) for each in operands], [self.of(each) for each in operands])

    def compute(self, function: Callable[..., Any], values: list[Any], operands: list[int]) -> Any:
        """function(*values), whose entries are `operands`. That it raises decides what runs too."""
        try:
            value = function(*values)
        except ERRORS as error:
            self.decide(self.add(Raises(function, repr(error)), tuple(operands)), True)
            raise
        return self.number(value, self.add(function, tuple(operands)))

    def decide(self, at: int, truth: bool) -> bool:
        self.decisions.append((at, truth))
        return truth


@dataclasses.dataclass(frozen=True)
class Raises:
    """Whether a function raises the error that it raised when it was observed."""

    function: Callable[..., Any]
    error: str

    def __call__(self, *operands: Any) -> bool:
        try:
            self.function(*operands)
        except ERRORS as error:
            return repr(error) == self.error
        return False


class Traced:
    """A number that was read."""

    _tape: Tape
    _at: int
    _plain: Any

    def __bool__(self) -> bool:
        return self._tape.decide(self._at, bool(self._plain))

    def __round__(self, *digits: Any) -> Any:
        return self._tape.apply(round, self, *digits)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __format__(self, spec: str) -> str:
        self._tape.note("makes text of a tensor's value or of a number that it keeps; make it behind the call")
        return format(self._plain, spec)

    def __float__(self) -> float:
        return self._leaves(float)

    def __int__(self) -> int:
        return self._leaves(int)

    def __index__(self) -> int:
        return self._leaves(operator.index)

    def __trunc__(self) -> int:
        return self._leaves(math.trunc)

    def __floor__(self) -> int:
        return self._leaves(math.floor)

    def __ceil__(self) -> int:
        return self._leaves(math.ceil)

    def __reduce_ex__(self, protocol: Any) -> Any:
        self._tape.note("copies or pickles a tensor's value")
        return self._plain.__reduce_ex__(protocol)

    def _leaves(self, function: Callable[[Any], Any]) -> Any:
        self._tape.note(f"uses a tensor's value by {function.__name__}() in a way that cannot be followed; use .item()")
        return function(self._plain)


def _binary(name: str, function: Callable[[Any, Any], Any], is_reflected: bool) -> Callable[..., Any]:

    def method(self: Any, other: Any, *more: Any) -> Any:
        if more or not isinstance(other, NUMBERS):
            if name not in ("__eq__", "__ne__"):
                self._tape.note(f"computes with a tensor's value and a {type(other).__name__}")
            return getattr(type(self._plain), name)(self._plain, other, *more)
        return self._tape.apply(function, other, self) if is_reflected else self._tape.apply(function, self, other)

    return method


def _unary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda self: self._tape.apply(function, self)


def _text(function: Callable[[Any], Any]) -> Callable[[Any], Any]:

    def method(self: Any) -> Any:
        what = "uses a tensor's value as a key" if function is hash else "makes text of a tensor's value or of a number that it keeps"
        self._tape.note(f"{what}; do it behind the call")
        return function(self._plain)

    return method


for _name, _function in BINARY.items():
    setattr(Traced, f"__{_name}__", _binary(f"__{_name}__", _function, False))
    setattr(Traced, f"__r{_name}__", _binary(f"__r{_name}__", _function, True))
for _name, _function in COMPARISONS.items():
    setattr(Traced, f"__{_name}__", _binary(f"__{_name}__", _function, False))
for _name, _function in UNARY.items():
    setattr(Traced, f"__{_name}__", _unary(_function))
for _name, _function in TEXTS.items():
    setattr(Traced, _name, _text(_function))


class TracedFloat(Traced, float):
    """A float that is followed."""


class TracedInt(Traced):
    """An int that is followed. It is none: a float in front of an int would compute with it and not ask."""

    __class__ = property(lambda self: int)  # type: ignore[assignment]


class TracedBool(Traced):
    """A bool that is followed; bool itself has no subclasses."""

    __class__ = property(lambda self: bool)  # type: ignore[assignment]


KINDS: dict[type, Any] = {float: TracedFloat, int: TracedInt, bool: TracedBool}


def plain(value: Any) -> Any:
    return value._plain if isinstance(value, Traced) else value


class Formulas:
    """What a call's numbers are computed by: a tape without what nothing needs."""

    def __init__(self, tape: Tape):
        needed = {at for at in tape.leaves if at is not None} | {at for at, _ in tape.decisions}
        risky = [at for at in range(len(tape.entries)) if _may_raise(tape, at)]
        needed |= set(risky)
        for at in reversed(range(len(tape.entries))):
            if at in needed and callable(tape.entries[at][0]):
                needed.update(tape.entries[at][1])
        moved = {at: number for number, at in enumerate(sorted(needed))}
        used = sorted({tape.entries[at][1] for at in needed if tape.entries[at][0] == "read"})
        self.reads = used  # numbers of the tape's tensors
        self.entries: list[tuple[Any, ...]] = []
        for at in sorted(needed):
            entry = tape.entries[at]
            if callable(entry[0]):
                entry = entry[0], tuple([moved[operand] for operand in entry[1]])
            elif entry[0] == "read":
                entry = "read", used.index(entry[1]), entry[2]
            self.entries.append(entry)
        self.leaves = [None if at is None else moved[at] for at in tape.leaves]
        self.decisions = [(moved[at], truth) for at, truth in tape.decisions]
        self.deciding = self._first_part([moved[at] for at in risky])
        self.deciding_reads = sorted({entry[1] for entry in map(self.entries.__getitem__, self.deciding)
                                      if entry[0] == "read"})
        self.kept = list(tape.kept)  # set by who has the numbers of another call
        self.shapes = [(tuple(tape.tensors[k].shape), tape.tensors[k].dtype) for k in used]

    def _first_part(self, risky: list[int]) -> list[int]:
        """The entries that have to be known before the call writes what it cannot take back."""
        needed = {at for at, _ in self.decisions} | set(risky)
        for at in reversed(range(len(self.entries))):
            if at in needed and callable(self.entries[at][0]):
                needed.update(self.entries[at][1])
        return sorted(needed)

    def is_as(self, other: "Formulas") -> bool:
        return (self.leaves, self.shapes, len(self.entries)) == (other.leaves, other.shapes, len(other.entries)) and \
            all(_is_same(a, b) for a, b in zip(self.entries, other.entries))

    def values(self, tensors: list[Any], entries: list[int] | None = None) -> list[Any]:
        """The numbers, or some of them, from the tensors that were read. Errors: those of Python's operators."""
        read: dict[int, Any] = {}
        found: list[Any] = [None] * len(self.entries)
        for at in range(len(self.entries)) if entries is None else entries:
            what, *rest = self.entries[at]
            if what == "read":
                number, element = rest
                if number not in read:
                    read[number] = elements(tensors[number])
                found[at] = read[number][element]
            elif what == "kept":
                found[at] = self.kept[rest[0]]
            elif what == "constant":
                found[at] = rest[0]
            else:
                found[at] = what(*[found[operand] for operand in rest[0]])
        return found

    def decide(self, tensors: list[Any]) -> bool:
        """Whether all conditions are what they were, by the deciding reads. False too where Python would raise: that is
        eager's to do."""
        read: list[Any] = [None] * len(self.shapes)
        for k, tensor in zip(self.deciding_reads, tensors):
            read[k] = tensor
        try:
            found = self.values(read, self.deciding)
        except ERRORS:
            return False
        return all(bool(found[at]) == truth for at, truth in self.decisions)

    def room(self, tensors: list[Any], shares: list[float]) -> list[float]:
        """How far each number moves when what was read moves by so large a share of itself."""
        own = self.values(tensors)
        room = [0.0] * len(own)
        for moved in _moved(tensors, shares):
            try:
                other = self.values(moved)
            except ERRORS:
                continue
            for at, (a, b) in enumerate(zip(own, other)):
                if math.isfinite(a) and math.isfinite(b):
                    room[at] = max(room[at], abs(a - b))
        return room

    def is_close(self, tensors: list[Any], shares: list[float]) -> bool:
        """Whether a condition is another one when what was read moves by so large a share of itself."""
        return any(not self.decide([moved[k] for k in self.deciding_reads]) for moved in _moved(tensors, shares))


def _moved(tensors: list[Any], shares: list[float]) -> Iterator[list[Any]]:
    """The tensors with one of them a little larger or smaller."""
    for k, share in enumerate(shares):
        for factor in (1 + share, 1 - share):
            if tensors[k].dtype.is_floating_point:
                yield [*tensors[:k], tensors[k].double() * factor, *tensors[k + 1:]]


def elements(tensor: Any) -> list[Any]:
    return [tensor.item()] if tensor.dim() == 0 else tensor.flatten().tolist()


def _is_same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return a[0] is b[0] and is_same_value(a[1], b[1]) if a[0] == "constant" and b[0] == "constant" else a == b


def _is_whole(tape: Tape, at: int) -> bool:
    kind, *rest = tape.entries[at]
    if kind == "read":
        return not tape.tensors[rest[0]].dtype.is_floating_point
    if kind == "kept":
        return isinstance(tape.kept[rest[0]], int)
    return isinstance(rest[0], int) if kind == "constant" else tape.kinds.get(at) in (int, bool)


def _may_raise(tape: Tape, at: int) -> bool:
    function, *rest = tape.entries[at]
    if not callable(function) or function in SAFE or isinstance(function, Raises):
        return False
    if function in WHOLE and all(_is_whole(tape, each) for each in rest[0]):
        return False
    operands = [tape.entries[each] for each in rest[0]]
    if function in DIVIDES:
        return operands[1][0] != "constant" or not operands[1][1]
    return not (function is round and len(operands) == 2 and operands[1][0] == "constant" and operands[1][1] >= 0)


def formulas_of(tape: Tape, leaves: list[Any]) -> Formulas:
    """Errors: Refusal where they do not give what the call returned."""
    if tape.problem:
        raise Refusal(tape.problem)
    found = Formulas(tape)
    values = found.values([tape.tensors[k] for k in found.reads])
    for at, leaf in zip(found.leaves, leaves):
        if at is not None and not is_same_value(values[at], leaf):
            raise Refusal(f"the function returns {leaf!r}, and from the tensors that it read came {values[at]!r}")
    return found

