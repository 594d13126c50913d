"""What the files of cases are written with: operands that are made once, and the list of cases."""

import os
import re

import torch

aten = torch.ops.aten
F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16
CHOSEN = os.environ.get("CRUCIBLE_CASES", "")  # a regular expression on names of ops; while one works on some of them
DEVICE = os.environ.get("CRUCIBLE_CASES_DEVICE", "")  # where operands lie: "apart" is tests/torch/device
if DEVICE:
    __import__(DEVICE)
CASES = []  # (name of the op as the recording spells it, variant, function)


def placed(value):
    """What a case is given, on the device that is asked for."""
    if not DEVICE or not isinstance(value, (torch.Tensor, list, tuple)):
        return value
    return value.to(DEVICE) if isinstance(value, torch.Tensor) else type(value)(placed(item) for item in value)


def is_there(op):
    """Whether this torch has the operator. The version that ci/setup.sh installs has them all; older ones lack a
    few."""
    packet, _, overload = op.partition(".")
    if "::" in op:
        return True  # of a library that its file of cases has loaded
    found = hasattr(aten, packet) and (overload or "default") in getattr(aten, packet).overloads()
    if not found and torch.__version__.split("+")[0] == "2.11.0":
        raise AttributeError(f"there is no operator aten::{op}")
    return found


def case(op, variant=""):
    def add(function):
        if is_there(op) and re.search(CHOSEN, op):
            CASES.append((op if "::" in op else f"aten::{op}", variant, function))
        return function
    return add


class Data:
    """Operands of one case: made in its first run, the same objects in every later one."""

    def __init__(self, seed):
        self._generator = torch.Generator().manual_seed(seed)
        self._made = []
        self._next = 0
        self.step = 0

    def rewind(self, step):
        self._next, self.step = 0, step

    def keep(self, make):
        if self._next == len(self._made):
            self._made.append(placed(make()))
        self._next += 1
        return self._made[self._next - 1]

    def f(self, *sizes, dtype=torch.float32):
        return self.keep(lambda: torch.randn(sizes, generator=self._generator).to(dtype))

    def pos(self, *sizes):
        return self.keep(lambda: torch.rand(sizes, generator=self._generator) + 0.5)

    def small(self, *sizes):
        return self.keep(lambda: 0.4 * torch.randn(sizes, generator=self._generator))

    def d(self, *sizes):
        return self.f(*sizes, dtype=torch.float64)

    def h(self, *sizes):
        return self.f(*sizes, dtype=torch.float16)

    def bf(self, *sizes):
        return self.f(*sizes, dtype=torch.bfloat16)

    def i(self, *sizes, high=10, low=0):
        return self.keep(lambda: torch.randint(low, high, sizes, generator=self._generator))

    def b(self, *sizes):
        return self.keep(lambda: torch.rand(sizes, generator=self._generator) < 0.5)

    def special(self):
        return self.keep(lambda: torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.5, -2.5]))


def like(d, y, dtype=None):
    """A gradient of y's sizes, the same in every run."""
    return d.keep(lambda: torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(dtype or y.dtype))


def copied(value):
    return [t.clone() for t in value] if isinstance(value, list) else value.clone()


def simple(op, *makers, variant="", **kwargs):
    """A case that passes operands made by `makers` to the op; what it writes in place or in `out` is a copy of them."""
    if not is_there(op):
        return
    packet, _, overload = op.partition(".")
    function = getattr(getattr(aten, packet), overload or "default")
    in_place = packet.endswith("_")

    def run(d):
        operands = [make(d) if callable(make) else make for make in makers]
        if in_place:
            operands[0] = copied(operands[0])
        written = {name: copied(value(d)) for name, value in kwargs.items() if callable(value)}
        result = function(*operands, **{**kwargs, **written})
        return (written.get("out") or operands[0]) if result is None else result

    case(op, variant)(run)


def f(*sizes):
    return lambda d: d.f(*sizes)


def pos(*sizes):
    return lambda d: d.pos(*sizes)


def i(*sizes, **kwargs):
    return lambda d: d.i(*sizes, **kwargs)


def b(*sizes):
    return lambda d: d.b(*sizes)


def t(*sizes):
    return lambda d: d.f(*sizes).transpose(0, 1)


def special(d):
    return d.special()


def halves(*sizes):
    return [("f16", lambda d: d.h(*sizes)), ("bf16", lambda d: d.bf(*sizes))]


def flat(results):
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    return [r for r in results if r is not None]
