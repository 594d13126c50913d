"""Numbers among the arguments that move from call to call and are nothing but operands of ops: they are left out of
what calls of one variant have in common, and computed for each call like an optimizer's numbers (rules.py)."""

from __future__ import annotations

import math
from typing import Any, Callable

from torch.utils import _pytree as pytree

MOST_KINDS = 1024


def is_same_number(a: Any, b: Any) -> bool:
    """Whether nobody tells the two apart: -0.0 is not 0.0, and 1 is not 1.0."""
    if type(a) is not type(b) or a != b:
        return type(a) is type(b) and a != a and b != b
    return type(a) is not float or math.copysign(1.0, a) == math.copysign(1.0, b)


def is_counted(leaf: Any) -> bool:
    return type(leaf) is float or type(leaf) is int


def named_numbers(args: tuple[Any, ...], kwargs: dict[str, Any], paths: list[str]) -> dict[int, str]:
    """By the leaf's place the path of each number that is an argument by itself, as bytecode.py has it."""
    found = {}
    for place, (path, leaf) in enumerate(pytree.tree_flatten_with_path((args, kwargs))[0]):
        if len(path) == 2 and is_counted(leaf):
            first = path[1]
            found[place] = paths[first.idx] if path[0].idx == 0 else f"argument {first.key}"
    return found


class Kind:
    """Calls whose arguments are alike but for their numbers."""

    def __init__(self) -> None:
        self.free: dict[int, str] = {}  # leaves that variants leave out, with their paths
        self._moved: set[int] = set()
        self._last: tuple[Any, ...] = ()
        self._is_pinned = False

    def note(self, leaves: tuple[Any, ...]) -> None:
        """What has moved since the call before."""
        numbers = tuple((place, leaf) for place, leaf in enumerate(leaves) if is_counted(leaf))
        self._moved.update(place for (place, old), (_, new) in zip(self._last, numbers) if not is_same_number(old, new))
        self._last = numbers

    def set_free(self, names: dict[int, str], reach: Any) -> bool:
        """Leaves out what has moved and decides nothing. Whether that is more than before."""
        if self._is_pinned or reach.deciding & {"*"}:
            return False
        free = {place: names[place] for place in sorted(self._moved)
                if place in names and names[place] not in reach.deciding}
        is_more = bool(free.keys() - self.free.keys())
        if is_more:
            self.free = free
        return is_more

    def pin(self) -> None:
        """They are compared by value for good."""
        self.free, self._is_pinned = {}, True


class Kinds:
    """By the signature without numbers."""

    def __init__(self) -> None:
        self._kinds: dict[bytes, Kind] = {}

    def find(self, base: bytes) -> Kind:
        if base not in self._kinds:
            if len(self._kinds) >= MOST_KINDS:
                self._kinds.clear()
            self._kinds[base] = Kind()
        return self._kinds[base]


class GivenNumbers:
    """Of one variant: the numbers that are left out of its signature. `standing` are those that were the same in all
    observed calls and are constants of its program: another value is another variant."""

    def __init__(self, free: dict[int, str]):
        self._places = {path.removeprefix("argument "): place for place, path in free.items()}
        self._standing: list[tuple[str, int, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._places)

    def of(self, leaves: tuple[Any, ...]) -> dict[str, Any]:
        """As rules.Snapshot.take() wants them."""
        return {name: leaves[place] for name, place in self._places.items()} if self._places else {}

    def decides(self, deciding: set[str]) -> str:
        """Which of them is more than an operand now, in words; "" where none is."""
        found = deciding & {"*", *(f"argument {name}" for name in self._places)} if self._places else ()
        return f"{sorted(found)[0]} decides more than ops' operands" if found else ""

    def settle(self, snapshots: list[Any], followed: Callable[[str], bool], operands: set[str]) -> str:
        """After the rules were found: why there can be no program for other numbers; "" where there can."""
        self._standing = []
        for name, place in self._places.items():
            values = [snapshot.arguments[(name,)] for snapshot in snapshots]
            if all(is_same_number(value, values[0]) for value in values):
                self._standing.append((name, place, values[0]))
            elif not followed(name) and f"argument {name}" in operands:
                return f"argument {name} moves, and no number of the program follows it"
        return ""

    def other(self, leaves: tuple[Any, ...]) -> str:
        """Why these arguments are of another variant; "" where they are not."""
        for name, place, value in self._standing:
            if not is_same_number(leaves[place], value):
                return f"argument {name} is {leaves[place]!r}, and was {value!r} when the call was compiled"
        return ""
