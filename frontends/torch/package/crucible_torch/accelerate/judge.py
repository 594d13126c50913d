"""Whether a compiled call gave what eager gives: the tolerances of `crucible replay --verify` (runtime/judge/noise.hpp),
for one call from one start."""

from __future__ import annotations

import dataclasses
import math

import torch

# Of each tensor's largest magnitude; results that training moves by are judged at STATE, what is given back at RESULT.
STATE, RESULT = 1e-4, 1e-4
NARROW = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
COMPARED = (torch.float32, torch.float64, torch.float16, torch.bfloat16)  # without a copy
ROUNDINGS = 8  # of a narrow type, which every layer hands on
NOISE = 1e-6  # a gradient below this share of the largest one is what rounding left of nothing


@dataclasses.dataclass
class Difference:
    """What was compared, how far apart it is, and what was allowed. `lean`: how much larger or smaller all of it is, as
    far as that was asked for."""

    name: str
    largest: float
    allowed: float
    lean: float = 0.0
    allowed_lean: float = float("inf")

    def __str__(self) -> str:
        if self.largest <= self.allowed:
            return f"{self.name} is off by a factor of {1 + self.lean:.6g}, {self.allowed_lean:.3g} from 1 is allowed"
        return f"{self.name} differs by {self.largest:.3g} of its largest value, {self.allowed:.3g} is allowed"


def tolerance_of(tensor: torch.Tensor, wide: float) -> float:
    return max(wide, ROUNDINGS * NARROW.get(tensor.dtype, 0.0))


@dataclasses.dataclass
class Excused:
    """Elements that may differ by an absolute room: those whose size is at most `bound`."""

    sizes: torch.Tensor
    bound: float

    def kept(self) -> "Excused":
        """As it is now, whatever becomes of the tensor."""
        return Excused(self.sizes.detach().clone(), self.bound)


def largest_of(tensor: torch.Tensor) -> float:
    """The largest magnitude of a finite element."""
    return _gap(tensor, tensor)[2]


def _gap(actual: torch.Tensor, expected: torch.Tensor, excused: Excused | None = None,
         room: float = 0.0) -> tuple[bool, float, float]:
    from crucible_torch import _accelerate

    if expected.dtype not in COMPARED:
        actual, expected = actual.detach().double(), expected.detach().double()
    return _accelerate.gap(actual, expected, *((excused.sizes, excused.bound, room) if excused is not None else ()))


def lean(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """By which share `actual` is larger than `expected` as a whole: what roundings of its elements, whose directions
    differ, hardly change, and a wrong factor does."""
    with torch.no_grad():
        a, b = actual.detach().double(), expected.detach().double()
        finite = a.isfinite() & b.isfinite()
        a, b = torch.where(finite, a, 0.0), torch.where(finite, b, 0.0)
        size = float(b.abs().max())
        if size == 0.0:
            return 0.0
        b = b / size
        return float((a / size - b).mul_(b).sum() / b.square().sum())


def difference(name: str, actual: torch.Tensor, expected: torch.Tensor, allowed: float,
               excused: Excused | None = None, room: float = 0.0, leaning: bool = True) -> Difference | None:
    """None where they agree. Elements that are excused may differ by `room`, in absolute terms. NaN is like NaN.
    `leaning`: whether, of what differs, it is asked how much larger or smaller all of it is."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return Difference(f"{name} (shape or type)", float("inf"), allowed)
    if not expected.dtype.is_floating_point:
        return None if torch.equal(actual, expected) else Difference(name, float("inf"), 0.0)
    if expected.numel() == 0:
        return None
    same_kind, gap, largest = _gap(actual, expected, excused, room)
    if not same_kind:
        return Difference(f"{name} (NaN or infinity)", float("inf"), allowed)
    share = gap / max(largest, torch.finfo(torch.float32).tiny)
    return None if share <= allowed else Difference(name, share, allowed, lean(actual, expected) if leaning else 0.0)


def noise_masks(optimizers) -> dict[int, tuple[Excused, float]]:
    """By the id of a parameter, and of its moments: elements whose gradient is rounding noise, which optimizers that
    divide by its size move in a direction that no arithmetic determines, and how far that may be."""
    masks: dict[int, tuple[Excused, float]] = {}
    for optimizer in optimizers:
        moments, buffers = [], []
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                state = optimizer.state.get(parameter, {})
                if isinstance(state.get("momentum_buffer"), torch.Tensor):
                    buffers.append(state["momentum_buffer"])
                for key in ("exp_avg_sq", "square_avg", "sum", "exp_inf"):
                    if isinstance(state.get(key), torch.Tensor):
                        moments.append((parameter, state, group, state[key], key != "exp_inf"))
        largest = max((largest_of(buffer) for buffer in buffers if buffer.numel()), default=0.0)
        for buffer in buffers:
            masks[id(buffer)] = (Excused(buffer, NOISE * largest), NOISE * largest)
        largest = max((math.sqrt(largest_of(size)) if is_square else largest_of(size)
                       for _, _, _, size, is_square in moments if size.numel()), default=0.0)
        for parameter, state, group, size, is_square in moments:
            bound = NOISE * largest
            excused = Excused(size, bound * bound if is_square else bound)
            if size.shape == parameter.shape:
                masks[id(parameter)] = (excused, 4 * float(group.get("lr", 0.0)))
            for value in state.values():
                if isinstance(value, torch.Tensor) and value.shape == size.shape:
                    masks[id(value)] = (excused, NOISE * max(largest, 1.0))
    return masks
