"""What a function of crucible.accelerate reads besides tensors, in all the ways that Python has: it changes between calls, beside an
eager twin. Whether a call is compiled or not, what it gives is eager's."""

import collections
import enum
import math
import os
import types
import unittest

from accelerated import AccelerateTest
import crucible
import torch
from torch import nn

CALLS, CHANGE = 22, 12  # the call in which something is changed


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


class Base:
    factor = 1.0


class Derived(Base):
    pass


class Held:
    def __init__(self):
        self._values = [1.0]

    @property
    def value(self):
        return self._values[0]


class Fallback:
    factor = 1.0

    def __getattr__(self, name):
        return Fallback.factor


class ByMode(nn.Module):
    """An attribute that its own __getattr__ makes of another, which it reads in the dict."""

    def __init__(self):
        super().__init__()
        self.mode = "a"

    def __getattr__(self, name):
        if name == "factor":
            return 2.0 if self.__dict__["mode"] == "a" else 3.0
        return super().__getattr__(name)


def world():
    return types.SimpleNamespace(
        layer=nn.Linear(4, 4), held=Held(), derived=Derived(), mode=ByMode(), fallback=Fallback(), numbers={"w": 1.0},
        default=collections.defaultdict(float, w=1.0), elements={1.0}, nested=(1.0, [1.0]), kind=Kind.ONE,
        function=lambda value: value * 1, offset=torch.zeros(3, 4), cast=torch.autocast("cpu", dtype=torch.bfloat16))


def given(number, w):
    return torch.randn(3, 4)


def marked(number, w):
    x = torch.randn(3, 4)
    x.scale, x.is_odd, x.other = 2.0 if number < CHANGE else 5.0, number % 2 == 0, torch.full((), float(number))
    return x


def marked_later(number, w):
    x = torch.randn(3, 4)
    if number >= CHANGE:
        x.extra = 3.0
    return x


def of_larger(number, w):
    return torch.as_strided(torch.randn(100), (3, 4), (4, 1), number % 5 * 4)


def with_gaps(number, w):
    return torch.randn(6, 8)[::2, ::2] if number % 2 else torch.randn(3, 4)


def setter(change):
    """Arguments; in one call `change(world)` is made first."""
    def arguments(number, w):
        if number == CHANGE:
            change(w)
        return torch.randn(3, 4)
    return arguments


def several(*changes):
    def change(w):
        for path, value in changes:
            owner, _, name = path.rpartition(".")
            setattr(getattr(w, owner) if owner else w, name, value)
    return setter(change)


def cast(w, x):
    with w.cast:
        return w.layer(x).float()


def matched(w, x):
    match x.shape:
        case (3, columns):
            return x * columns
    return x


# What the function computes with its world and the argument; what it is given in each call.
CASES = {
    "a number on an argument": (lambda w, x: x * x.scale, marked),
    "a flag on an argument": (lambda w, x: x * 2 if x.is_odd else x, marked),
    "a tensor on an argument": (lambda w, x: x + x.other, marked),
    "getattr of an argument": (lambda w, x: x * getattr(x, "scale", 1.0), marked),
    "hasattr of an argument": (lambda w, x: x * (x.extra if hasattr(x, "extra") else 1.0), marked_later),
    "where an argument lies": (lambda w, x: x * (2 if x.storage_offset() > 4 else 1), of_larger),
    "how an argument lies": (lambda w, x: x * (2 if x.is_contiguous() else 1), with_gaps),
    "strides of an argument": (lambda w, x: x * x.stride(0), with_gaps),
    "a tensor that is marked later": (lambda w, x: x * getattr(w.offset, "extra", 1.0), several(("offset.extra", 3.0))),
    "bytes of a tensor": (lambda w, x: x + w.offset, lambda n, w: (w.offset.fill_(float(n)), torch.randn(3, 4))[1]),
    "threads": (lambda w, x: x * torch.get_num_threads(), setter(lambda w: torch.set_num_threads(3))),
    "the environment": (lambda w, x: x * float(os.environ.get("CRUCIBLE_SCALE", "3")),
                        setter(lambda w: os.environ.__setitem__("CRUCIBLE_SCALE", "4"))),
    "an attribute of a class, by __getattr__": (lambda w, x: x * w.fallback.anything,
                                                setter(lambda w: setattr(Fallback, "factor", Fallback.factor + 1))),
    "an attribute of a base class": (lambda w, x: x * w.derived.factor,
                                     setter(lambda w: setattr(Base, "factor", Base.factor + 1))),
    "an attribute in front of the class's": (lambda w, x: x * w.derived.factor, several(("derived.factor", 7.0))),
    "behind a property": (lambda w, x: x * w.held.value, setter(lambda w: w.held._values.__setitem__(0, 4.0))),
    "a module's dict": (lambda w, x: x * w.mode.factor, several(("mode.mode", "b"))),
    "a dict in a comprehension": (lambda w, x: sum(x * v for v in [w.numbers[k] for k in w.numbers]),
                                  setter(lambda w: w.numbers.update(w=4.0))),
    "get of a dict": (lambda w, x: x * w.numbers.get("w", 0), setter(lambda w: w.numbers.update(w=4.0))),
    "a dict that is spread": (lambda w, x: torch.add(x, x, alpha=dict(**w.numbers)["w"]),
                              setter(lambda w: w.numbers.update(w=4.0))),
    "a defaultdict": (lambda w, x: x * w.default["w"], setter(lambda w: w.default.update(w=4.0))),
    "a set": (lambda w, x: x * sum(w.elements), setter(lambda w: (w.elements.clear(), w.elements.add(3.0)))),
    "a list in a tuple": (lambda w, x: x * w.nested[1][0], setter(lambda w: w.nested[1].__setitem__(0, 3.0))),
    "an enumeration": (lambda w, x: x * w.kind.value, several(("kind", Kind.TWO))),
    "a function": (lambda w, x: w.function(x), several(("function", lambda value: value * 3))),
    "a function's code": (lambda w, x: w.function(x),
                          setter(lambda w: setattr(w.function, "__code__", (lambda value: value * 9).__code__))),
    "a module of Python": (lambda w, x: x * getattr(math, "own", 1.0), setter(lambda w: setattr(math, "own", 2.0))),
    "a context of torch": (cast, several(("cast._enabled", False))),
    "a shape that is matched": (matched, given),
}


class Seen(AccelerateTest):

    def setUp(self):
        super().setUp()
        self.threads = torch.get_num_threads()
        self.addCleanup(self.restore)

    def restore(self):
        torch.set_num_threads(self.threads)
        os.environ.pop("CRUCIBLE_SCALE", None)
        vars(math).pop("own", None)
        Base.factor = Fallback.factor = 1.0

    def test_what_changes_is_seen(self):
        for name, (compute, arguments) in CASES.items():
            with self.subTest(name):
                w = world()

                def eager(x):
                    return (w.layer(x) * 0.1 + compute(w, x)).detach()

                step = crucible.accelerate(eager)
                for number in range(CALLS):
                    x = arguments(number, w)
                    expected = eager(x)
                    torch.testing.assert_close(step(x), expected, rtol=1e-4, atol=1e-5, msg=f"call {number}")
                    step.wait(60)
                self.assertFalse(step.report().mismatches, str(step.report()))
            self.restore()


if __name__ == "__main__":
    unittest.main()
