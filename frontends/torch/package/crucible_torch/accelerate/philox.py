"""Random numbers of our own (docs/numerics.md, "Random numbers of our own"): inside of `Philox` the ops that draw are
answered by Philox 4x32-10 in whole numbers of 64 bits. Those are ordinary ops of a counter: they are recorded like any
others, so that a program draws by itself, the same bits on every device. distributions.py has what is made of words."""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from typing import Any, Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import crucible_torch
from crucible_torch.accelerate.distributions import ANSWERS

try:
    from crucible_torch import _accelerate as native
except ImportError:  # built without it
    native = None

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
WORD = 0xFFFFFFFF
_CALL, _STREAM = 2 * ROUNDS, 2 * ROUNDS + 1  # behind the rounds' keys
TABLE = 2 * ROUNDS + 2
MOST_STREAMS = 1 << 16
_MIX = 0x9E3779B97F4A7C15

_entered = threading.local()  # .depth: of Philox blocks that this thread is in
_streams = itertools.count()


def mixed(number: int) -> int:
    """63 bits that depend on all of the number's (the finalizer of splitmix64)."""
    number = (number + _MIX) & (1 << 64) - 1
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
    number = (number ^ number >> 27) * 0x94D049BB133111EB & (1 << 64) - 1
    return (number ^ number >> 31) >> 1


class Source:
    """Where the numbers of one function come from: a seed of 64 bits, the number of the stream (which function of the
    process it is, below 2^16) and of the call. `table` is what ops read: the key of each round, then counter words.

    Threads: one call at a time."""

    def __init__(self, seed: int, stream: int = 0):
        if not 0 <= stream < MOST_STREAMS:
            raise ValueError(f"a stream is a number below {MOST_STREAMS}, not {stream}")
        self.seed, self.stream = seed & (1 << 64) - 1, stream
        self.call = 0
        with torch.inference_mode(False):  # it is read in calls of every mode
            self.table = torch.zeros(TABLE, dtype=torch.int64, device="cpu")
        # Written without an op: nothing may be recorded of it but what is there when a call begins.
        self._numbers = (ctypes.c_int64 * TABLE).from_address(self.table.data_ptr())
        for r in range(ROUNDS):
            self._numbers[2 * r] = (self.seed + r * WEYL[0]) & WORD
            self._numbers[2 * r + 1] = ((self.seed >> 32) + r * WEYL[1]) & WORD
        self._numbers[_STREAM] = stream << 16

    def begin(self, call: int) -> None:
        """The numbers are those of this call from now on. Calls count modulo 2^32."""
        self.call = call
        self._numbers[_CALL] = call & WORD

    def words(self, count: int, op: int, device: torch.device, wanted: int) -> list[torch.Tensor]:
        """The first `wanted` words of `count` elements, each a tensor of i64 below 2^32. Where a recorder looks on they
        are ops; else, on the CPU, the same bits come from one loop."""
        if device.type == "cpu" and crucible_torch.current() is None and native is not None:
            out = torch.empty((wanted, count), dtype=torch.int64, device="cpu")
            native.philox_words(self.table, op & WORD, out)
            return list(out)
        table = self.table.to(device)
        index = torch.arange(count, device=device)
        high = table[_STREAM]
        if count > WORD:
            high, index = (index >> 32) ^ high, index & WORD
        return rounds((index, high, table[_CALL], op & WORD), table, wanted)


def rounds(counter: tuple[Any, Any, Any, Any], table: torch.Tensor, wanted: int = 4) -> list[torch.Tensor]:
    """Philox 4x32-10 of a counter of four words (numbers or tensors of i64); `table` has the keys of the rounds. The
    words at odd places get no mask before they are given: what is above 32 bits goes with the next one's."""
    c0, c1, c2, c3 = counter
    for r in range(ROUNDS):
        second = c2 * MULTIPLIERS[1]
        if r < ROUNDS - 1 or wanted > 2:
            first = c0 * MULTIPLIERS[0]
            c2 = _high(first, table[2 * r + 1] ^ c3)
            c3 = first
        c0 = _high(second, table[2 * r] ^ c1)
        c1 = second
    return [word if k % 2 == 0 else word & WORD for k, word in enumerate((c0, c1, c2, c3)[:wanted])]


def _high(product: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The product's upper word, xor `other`. The shift keeps the sign, so that the mask comes after it."""
    high = product >> 32
    high = high ^ other if high.dim() < other.dim() else high.bitwise_xor_(other)
    return high.bitwise_and_(WORD)


class Philox(TorchDispatchMode):
    """Ops that draw from torch's own generator draw from `source` instead while it is entered; what they draw depends
    on the source's seed, stream and call, on how many ops of the call drew before, and on the element's number. Ops
    that are given a generator draw from that one. Ops that have no answer (distributions.ANSWERS) draw torch's numbers,
    from a seed that depends on the same things.

    How many ops drew is kept as the seed of torch's generator: so a checkpoint that is computed again, fork_rng() and
    set_rng_state() draw the same numbers again. Afterwards torch's generator is as it was before, but where the block
    seeded it, from where on torch draws by itself, as without this.

    Threads: the one that enters it."""

    def __init__(self, source: Source):
        super().__init__()
        self.source = source
        self._before: torch.Tensor | None = None
        self._ops: dict[int, int] = {}  # seed of torch's generator: how many ops have drawn

    def _seed(self, op: int) -> int:
        source = self.source
        seed = mixed(mixed(mixed(source.seed) ^ source.stream) ^ source.call << 32 ^ op)
        self._ops[seed] = op
        return seed

    def __enter__(self) -> Philox:
        self._before = torch.default_generator.get_state()
        self._ops = {}
        torch.default_generator.manual_seed(self._seed(0))
        _entered.depth = getattr(_entered, "depth", 0) + 1
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        _entered.depth -= 1
        if torch.default_generator.initial_seed() in self._ops:
            torch.default_generator.set_state(self._before)
        self._before = None

    def words(self, count: int, device: torch.device, wanted: int = 1) -> list[torch.Tensor]:
        """Words for the op that draws next. Those of one op are asked for once."""
        return self.source.words(count, self._next(), device, wanted)

    def _next(self) -> int:
        op = self._ops[torch.default_generator.initial_seed()]
        torch.default_generator.manual_seed(self._seed(op + 1))
        return op

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not _draws(func):
            return func(*args, **kwargs)
        if kwargs.get("generator") is not None or torch.default_generator.initial_seed() not in self._ops:
            return func(*args, **kwargs)
        answer = ANSWERS.get(func)
        result = NotImplemented if answer is None else answer(self, *args, **kwargs)
        if result is not NotImplemented:
            return result
        result = func(*args, **kwargs)
        self._next()
        return result


@functools.cache
def _draws(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


class Drawing:
    """A function whose draws are Philox's, by the number of the call. Its seed is torch's at its first call, its stream
    how many such functions were called before it; inside of a Philox block it draws as that does.

    Threads: any. One at a time has `source` (begin_shared()); the calls of others have one of their own."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        self.source: Source | None = None
        self._lock = threading.Lock()
        self._calls = threading.local()

    def _first(self) -> Source:
        with self._lock:
            if self.source is None:
                self.source = Source(torch.initial_seed(), next(_streams) % MOST_STREAMS)
            return self.source

    def begin(self, call: int) -> None:
        """The thread's next call is this one."""
        self._calls.number = None if getattr(_entered, "depth", 0) else call
        self._calls.source = None

    def begin_shared(self) -> None:
        """The call has `source`: no other thread does until the thread begins another call."""
        if self._calls.number is None:
            return
        source = self.source or self._first()
        source.begin(self._calls.number)
        self._calls.source = source

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._calls.number is None:
            return self.function(*args, **kwargs)
        source = self._calls.source
        if source is None:
            shared = self.source or self._first()
            source = Source(shared.seed, shared.stream)
            source.begin(self._calls.number)
        with Philox(source):
            return self.function(*args, **kwargs)
