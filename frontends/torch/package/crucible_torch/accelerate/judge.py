"""Whether a compiled call gave what eager gives: the tolerances of `crucible replay --verify` (runtime/judge/noise.hpp),
for one call from one start."""

from __future__ import annotations

import dataclasses

import torch

# Of each tensor's largest magnitude; results that training moves by are judged at STATE, what is given back at RESULT.
STATE, RESULT = 1e-4, 1e-4
NARROW = {torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
ROUNDINGS = 8  # of a narrow type, which every layer hands on
NOISE = 1e-6  # a gradient below this share of the largest one is what rounding left of nothing


@dataclasses.dataclass
class Difference:
    """What was compared, how far apart it is, and what was allowed."""

    name: str
    largest: float
    allowed: float

    def __str__(self) -> str:
        return f"{self.name} differs by {self.largest:.3g} of its largest value, {self.allowed:.3g} is allowed"


def tolerance_of(tensor: torch.Tensor, wide: float) -> float:
    return max(wide, ROUNDINGS * NARROW.get(tensor.dtype, 0.0))


def difference(name: str, actual: torch.Tensor, expected: torch.Tensor, allowed: float,
               excused: torch.Tensor | None = None, room: float = 0.0) -> Difference | None:
    """None where they agree. Elements of `excused` may differ by `room`, in absolute terms. NaN is like NaN."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return Difference(f"{name} (shape or type)", float("inf"), allowed)
    if not expected.dtype.is_floating_point:
        return None if torch.equal(actual, expected) else Difference(name, float("inf"), 0.0)
    if torch.equal(actual, expected) or expected.numel() == 0:
        return None
    a, b = actual.detach().double(), expected.detach().double()
    same_kind = torch.equal(a.isnan(), b.isnan()) and torch.equal(a.isinf() * a.sign(), b.isinf() * b.sign())
    if not same_kind:
        return Difference(f"{name} (NaN or infinity)", float("inf"), allowed)
    finite = b.isfinite()
    gap = torch.where(finite, (a - b).abs(), torch.zeros_like(b))
    if excused is not None:
        gap = torch.where(excused & (gap <= room), torch.zeros_like(gap), gap)
    largest = torch.where(finite, b.abs(), torch.zeros_like(b)).max().item()
    share = gap.max().item() / max(largest, torch.finfo(torch.float32).tiny)
    return None if share <= allowed else Difference(name, share, allowed)


def noise_masks(optimizers) -> dict[int, tuple[torch.Tensor, float]]:
    """By the id of a parameter, and of its moments: elements whose gradient is rounding noise, which optimizers that
    divide by its size move in a direction that no arithmetic determines, and how far that may be."""
    masks: dict[int, tuple[torch.Tensor, float]] = {}
    for optimizer in optimizers:
        moments, buffers = [], []
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                state = optimizer.state.get(parameter, {})
                if isinstance(state.get("momentum_buffer"), torch.Tensor):
                    buffers.append(state["momentum_buffer"])
                for key in ("exp_avg_sq", "square_avg", "sum", "exp_inf"):
                    if isinstance(state.get(key), torch.Tensor):
                        size = state[key].abs().double()
                        moments.append((parameter, state, group, size if key == "exp_inf" else size.sqrt()))
        largest = max((float(buffer.abs().max()) for buffer in buffers if buffer.numel()), default=0.0)
        for buffer in buffers:
            mask = buffer.abs() <= NOISE * largest
            if mask.any():
                masks[id(buffer)] = (mask, NOISE * largest)
        largest = max((size.max().item() for _, _, _, size in moments if size.numel()), default=0.0)
        for parameter, state, group, size in moments:
            mask = size <= NOISE * largest
            if not mask.any():
                continue
            rate = float(group.get("lr", 0.0))
            masks[id(parameter)] = (mask, 4 * rate)
            for value in state.values():
                if isinstance(value, torch.Tensor) and value.shape == mask.shape:
                    masks[id(value)] = (mask, NOISE * max(largest, 1.0))
    return masks
