"""What has become of an accelerated function, as data and in words."""

from __future__ import annotations

import dataclasses
import json
from typing import Any


@dataclasses.dataclass
class VariantReport:
    """One variant. `tier`: observing, compiling, compiled or eager; `reason`: why not compiled, or "". Times in
    milliseconds per call, the middle one; None before there are some."""

    tier: str
    calls: int
    compiled_calls: int
    checks: int
    guard: str
    reason: str
    since: int | None
    eager_ms: float | None
    compiled_ms: float | None
    compile_s: float | None
    arena_bytes: int | None


@dataclasses.dataclass
class Report:
    """`tier` is compiled when a variant is, else the furthest that one has come; `gain`: eager's time per call over a
    compiled one's, None before both are known; `stall_ms`: the longest time that observing has added to one call."""

    function: str
    tier: str
    calls: int
    compiled_calls: int
    checks: int
    stall_ms: float
    gain: float | None
    reason: str
    variants: list[VariantReport]
    eager_calls: dict[str, int]
    mismatches: list[str]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1)

    def __str__(self) -> str:
        gain = "" if self.gain is None else f", {self.gain:.2f} times as fast as eager"
        lines = [
            f"{self.function}: {self.tier}, {self.compiled_calls} of {self.calls} calls compiled, {self.checks} checked"
            f"{gain}"
        ]
        if self.reason:
            lines.append(f"  every call is eager: {self.reason}")
        if self.variants:
            lines.append("  variant  tier       calls  compiled  checks  eager ms  compiled ms  arena")
        for number, variant in enumerate(self.variants):
            eager = "" if variant.eager_ms is None else f"{variant.eager_ms:.3f}"
            compiled = "" if variant.compiled_ms is None else f"{variant.compiled_ms:.3f}"
            arena = "" if variant.arena_bytes is None else f"{variant.arena_bytes / 2**20:.1f} MiB"
            lines.append(f"  {number:7}  {variant.tier:9}  {variant.calls:5}  {variant.compiled_calls:8}  "
                         f"{variant.checks:6}  {eager:>8}  {compiled:>11}  {arena}".rstrip())
            if variant.reason:
                lines.append(f"           {variant.reason}")
        for reason, count in sorted(self.eager_calls.items(), key=lambda item: -item[1])[:8]:
            lines.append(f"  {count} call{'s' if count > 1 else ''} eager: {reason}")
        lines += [f"  WRONG: {text}" for text in self.mismatches]
        return "\n".join(lines)


def _middle(values: list[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def usual_eager(variant: Any) -> float | None:
    """What eager takes when nothing disturbs it: the first call makes states, a checked one finds cold caches, and
    others run beside the compiler. Of all those times the first quarter's last."""
    times = sorted(variant.eager_ms[1:] or variant.eager_ms)
    return times[len(times) // 4] if times else None


def gain_of(variant: Any) -> float | None:
    """Eager's time over a compiled call's."""
    eager, compiled = usual_eager(variant), _middle(variant.compiled_ms[1:] or variant.compiled_ms)
    return eager / compiled if eager and compiled else None


def make(accelerated: Any) -> Report:
    variants = []
    for variant in sorted(accelerated._every_variant(), key=lambda each: each.number):
        variants.append(
            VariantReport(
                tier=variant.tier, calls=variant.calls, compiled_calls=variant.compiled_calls, checks=variant.checks,
                guard=f"variant {variant.number}", reason=variant.reason, since=variant.since,
                eager_ms=usual_eager(variant),
                compiled_ms=_middle(variant.compiled_ms[1:] or variant.compiled_ms),
                compile_s=variant.info.get("compile_s"), arena_bytes=variant.info.get("arena_bytes")))
    order = ["compiled", "compiling", "observing", "eager"]
    tier = min((each.tier for each in variants), key=order.index, default="eager" if accelerated._reason else "observing")
    if accelerated._reason:
        tier = "eager"
    best = [each for each in variants if each.tier == "compiled" and each.eager_ms and each.compiled_ms]
    weight = sum(each.compiled_calls for each in best)
    gain = None
    if weight:
        eager = sum(each.eager_ms * each.compiled_calls for each in best)
        gain = eager / sum(each.compiled_ms * each.compiled_calls for each in best)
    return Report(
        function=accelerated.__name__, tier=tier, calls=accelerated._calls, compiled_calls=accelerated._compiled_calls,
        checks=sum(each.checks for each in variants), stall_ms=accelerated._stall_ms, gain=gain,
        reason=accelerated._reason, variants=variants, eager_calls=dict(accelerated._reasons),
        mismatches=list(accelerated._mismatches))
