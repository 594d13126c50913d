"""How far eager itself moves when what a call starts from, and what each of its ops gives, moves by a rounding: what a
compiled call may differ by where a tensor is what is left of a difference of larger ones - the loss of a net that has
learnt its batch, and all that comes of it -, where a rounding decides which of two elements is the larger one, and
where a program computes in a narrow type, whose roundings a compiled call makes at other places. `crucible replay
--verify` asks the same (runtime/judge/sensitivity.cpp, and the rough arithmetic of its interpreter)."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from typing import Any, Callable, Iterator

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from crucible_torch.accelerate import judge

RUNS, LEAST_RUNS, SECONDS = 24, 6, 30.0  # at most; whatever the time; of the processor, in which others are begun
# How many roundings a result is moved by. Sums of another order are some roundings apart, and what flips - the larger
# one of two, the sign before a ReLU - has to flip in a run. In a narrow type eager is within half a rounding of each.
STEP, NARROW_STEP = {torch.float32: 4.0, torch.float64: 4.0}, 1.0
ROOM = 2.0  # of what the runs moved: the furthest of a few is not the furthest that there is
LEAN_ROOM = 4.0  # the same of what all of a tensor was larger or smaller by: one number, and of any size in a few runs
# What all of a tensor may be larger or smaller by where the narrowest type that a program computes in is this one: its
# sums lose what is below their last place, in one direction. Those of `crucible replay --verify` (runtime/judge).
LEAN = {torch.float16: 2e-3, torch.bfloat16: 2e-2}
LEAN_ELSE = 1e-4

SQUARES = ("['exp_avg_sq']", "['max_exp_avg_sq']", "['square_avg']", "['sum']")  # states that hold gradients' squares

# Ops that hand elements on, as they are or rounded to another type; and what is drawn, which is the same in both.
HANDED_ON = frozenset("""
    _to_copy clone copy_ copy _copy_from cat stack index index_select index_put index_put_ _index_put_impl_ gather
    scatter scatter_ select_scatter slice_scatter embedding flip roll repeat constant_pad_nd where masked_fill
    masked_fill_ masked_select fill fill_ zero_ zeros ones full zeros_like ones_like full_like new_zeros new_ones
    new_full empty empty_like new_empty empty_strided new_empty_strided scalar_tensor arange neg neg_ abs abs_ sign
    relu relu_ threshold_backward max min amax amin maximum minimum clamp clamp_ clamp_min clamp_min_ clamp_max sort
    topk kthvalue median max_pool2d_with_indices _foreach_copy_ _foreach_zero_ _foreach_neg_ _foreach_neg
    _foreach_abs _foreach_maximum_ _foreach_clamp_min_ lift_fresh unfold_copy tril triu tril_ triu_ diagonal_copy
    select_backward slice_backward set_ resize_ _local_scalar_dense floor ceil round trunc floor_ ceil_ round_
    trunc_ rand randn rand_like randn_like random_ uniform uniform_ normal normal_ bernoulli bernoulli_ exponential_
    geometric_ cauchy_ log_normal_ poisson multinomial
""".split())

# Eager's sums for these are kept in few places of f32, and end too low: of eight million elements by 2e-4, which
# clipping hands on to every gradient.
NORMS = frozenset(("linalg_vector_norm", "_foreach_norm"))

# A logarithm's argument has been rounded, and log(s (1 + e)) is log(s) + e, whatever its size.
LOGARITHMS = frozenset("""
    log log_ log2 log2_ log10 log10_ logsumexp _log_softmax log_sigmoid_forward binary_cross_entropy_with_logits
    binary_cross_entropy softplus _foreach_log _foreach_log_
""".split())


def room_for(name: str, share: float, times: float = ROOM) -> float:
    """How far a compiled call may be from eager, where eager itself moves by `share`. A gradient that is further away
    by so many times has a square that is by more: of 1 + d it is 2 d + d * d away, of 1 + times * d what is given
    here."""
    if not name.endswith(SQUARES):
        return times * share
    d = math.sqrt(1.0 + share) - 1.0
    return 2.0 * times * d + (times * d)**2


class Roundings:
    """Moves tensors by roundings of their types, each time by others."""

    def __init__(self, seed: int):
        self._seed = seed << 16

    def move(self, tensor: torch.Tensor) -> None:
        """Where it lies. Zeros and whole numbers, as counters and masks are, stay, unless they are so large that the type
        has none but whole ones."""
        from crucible_torch import _accelerate

        if tensor.dtype not in judge.COMPARED or tensor.device.type != "cpu" or tensor.layout != torch.strided:
            return
        self._seed += 1
        _accelerate.move_by_roundings(tensor, self._seed * 2654435761 % (1 << 32), STEP.get(tensor.dtype, NARROW_STEP))

    def moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same in memory of its own, of the same strides."""
        if not tensor.dtype.is_floating_point:
            return tensor
        other = torch.empty_like(tensor).copy_(tensor.detach())
        self.move(other)
        return other


def _made(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Iterator[torch.Tensor]:
    """The tensors that an op has computed: its results but for views, and what it has written."""
    schema = func._schema
    results = result if len(schema.returns) > 1 else (result, )
    for answer, value in zip(schema.returns, results):
        if answer.alias_info is None:
            yield from (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))
    for k, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[k] if k < len(args) else kwargs.get(argument.name)
            yield from (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def _is_narrower(made: torch.Tensor, given: list[Any]) -> bool:
    """Whether what was handed on has been rounded: of all that was given, something is of a finer type."""
    eps = torch.finfo(made.dtype).eps
    return any(isinstance(each, torch.Tensor) and each.dtype.is_floating_point and torch.finfo(each.dtype).eps < eps
               for each in given)


def _exact_norms(args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Puts the norms in double precision where the result has them, without a copy of a large tensor."""
    order = args[1] if len(args) > 1 else kwargs.get("ord", 2)
    is_list = isinstance(args[0], (list, tuple))
    for given, norm in zip(args[0] if is_list else args[:1], result if is_list else (result, )):
        if order == 2 and norm.numel() == 1 and norm.dtype.is_floating_point:
            parts = given.detach().reshape(-1).split(1 << 20)
            norm.fill_(math.sqrt(sum(float(part.double().square().sum()) for part in parts)))


class Rough(TorchDispatchMode):
    """Each op's result is a rounding of its own type away."""

    def __init__(self, roundings: Roundings):
        super().__init__()
        self._roundings = roundings
        self.types: set[torch.dtype] = set()  # in which something was computed

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        hands_on = name in HANDED_ON
        given = pytree.tree_leaves((args, kwargs)) if hands_on else []
        with torch.no_grad():
            if name in NORMS:
                _exact_norms(args, kwargs, result)
            for tensor in _made(func, args, kwargs, result):
                if name in LOGARITHMS and tensor.dtype.is_floating_point:
                    tensor.add_(self._roundings.moved(torch.full_like(tensor, 0.75)).sub_(0.75))
                if tensor.dtype.is_floating_point and (not hands_on or _is_narrower(tensor, given)):
                    self.types.add(tensor.dtype)
                    self._roundings.move(tensor)
        return result


class Moves:
    """By name the largest share by which anything moved in calls of eager. `start()` puts back what the call starts from;
    `call(move)` calls eager with its arguments moved; `compare(result)` gives all that differs, however little.
    Threads and effects: those of the call."""

    def __init__(self, start: Callable[[], None], states: list[torch.Tensor],
                 call: Callable[[Callable[[Any], Any]], Any], compare: Callable[[Any], list[judge.Difference]]):
        self.found: dict[str, float] = {}
        self.leans: dict[str, float] = {}
        self.runs = 0
        self._start, self._states, self._call, self._compare = start, states, call, compare
        self._roundings = Roundings(0)
        self._around: Any = Rough(self._roundings)
        self._types = self._around.types
        self._began = time.thread_time()

    def may_run(self) -> bool:
        """Whether another run is worth its time."""
        return self.runs < LEAST_RUNS or self.runs < RUNS and time.thread_time() - self._began < SECONDS

    def run(self) -> None:
        """Errors: the call's."""
        self.runs += 1
        try:
            result = self._moved(self._around)
        except Exception:
            if self.runs > 1:
                raise
            self._around = contextlib.nullcontext()  # what cannot run under a mode may run without one
            result = self._moved(self._around)
        for each in self._compare(result):
            if math.isfinite(each.largest):  # what is another thing altogether says nothing of how far
                self.found[each.name] = max(self.found.get(each.name, 0.0), each.largest)
                self.leans[each.name] = max(self.leans.get(each.name, 0.0), abs(each.lean))

    def _moved(self, around: Any) -> Any:
        self._start()
        with torch.no_grad():
            for tensor in self._states:
                self._roundings.move(tensor)
        with around:
            return self._call(lambda leaf: self._roundings.moved(leaf) if isinstance(leaf, torch.Tensor) else leaf)

    def beyond(self, found: list[judge.Difference]) -> list[judge.Difference]:
        """Of what differs, what eager itself does not move by."""
        usual = max((LEAN.get(each, LEAN_ELSE) for each in self._types), default=LEAN_ELSE)
        left = []
        for each in found:
            allowed = max(each.allowed, room_for(each.name, self.found.get(each.name, 0.0)))
            lean = max(usual, room_for(each.name, self.leans.get(each.name, 0.0), LEAN_ROOM))
            if each.largest > allowed or abs(each.lean) > lean:
                left.append(dataclasses.replace(each, allowed=allowed, allowed_lean=lean))
        return left
