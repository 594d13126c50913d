"""`crucible.accelerate`: what happens to a call. It is eager while its variant is observed and compiled, compiled
afterwards, and eager again with a reason wherever a compiled call would not do exactly what eager does."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from typing import Any, Callable

import torch

from crucible_torch.accelerate import bytecode, capsule, given, reporting, visible
from crucible_torch.accelerate.checking import OF_ANOTHER
from crucible_torch.accelerate.given import Opening
from crucible_torch.accelerate.moving import Kind, Kinds, is_counted, named_numbers
from crucible_torch.accelerate.observe import Busy, Observation, Unrecorded
from crucible_torch.accelerate.philox import Drawing
from crucible_torch.accelerate.progress import Progress
from crucible_torch.accelerate.stepped import note_eager
from crucible_torch.accelerate.structure import flatten_call, name_of_leaf, objects_among
from crucible_torch.accelerate.taken import Taken
from crucible_torch.accelerate.turns import turns
from crucible_torch.accelerate.variant import Variant
from crucible_torch.accelerate.worker import worker
from crucible_torch.versions import mismatch

MOST_VARIANTS = 16
CHECK_EVERY = 1024
WORTH = 1.03  # a compiled call that takes longer than this share of eager is not worth it
CALLS_TO_JUDGE = 32
FIRST_PAUSE, LONGEST_PAUSE = 32, 8192  # calls after which what could not be compiled is looked at once more
FIRST_LOOK = 4  # the same where the code alone refused, which costs little to find out
EAGER_TIMES = 256
MOST_WAITING = 4  # variants that were traced for one thing and never came again
TRACED_AGAIN = 1024  # a pause after which calls are traced once more for what was in the way before

_running = threading.local()  # .depth: calls of accelerated functions that this thread is in


class Mismatch(RuntimeError):
    """A compiled call gave something else than eager; raised with on_mismatch="raise". The call's effects are eager's."""


def _after_fork() -> None:
    worker.forget()
    turns.__init__()  # type: ignore[misc]  # of threads that are not here
    for accelerated in list(Accelerated.all):
        accelerated._leave("this process was forked from the one that compiled; it calls eagerly")


def _unusable() -> str:
    """Why nothing can be compiled in this process; "" where it can."""
    problem = mismatch(torch)
    if not problem:
        try:
            from crucible_torch import _accelerate  # noqa: F401
        except ImportError as error:
            problem = f"the native part of crucible.accelerate cannot be loaded: {error}"
    return problem


def _at_exit() -> None:
    for accelerated in list(Accelerated.all):
        if accelerated._lock.acquire(blocking=False):  # a daemon thread may be in a call of it
            accelerated._leave("the program ends")
            accelerated._lock.release()
    worker.close()


class Accelerated:
    """A function in the place of another one. Threads: any; one call at a time is compiled, others are eager.

    `rng`: who draws random numbers, eagerly and compiled alike. "torch": torch's own generator, as without this.
    "philox": philox.py, inside of the function alone; by torch's seed at the first call, which accelerated function of
    the process this is, and how many calls of it there were."""

    all: "weakref.WeakSet[Accelerated]"

    def __init__(self, function: Callable[..., Any], *, check_every: int = CHECK_EVERY, on_mismatch: str = "eager",
                 max_variants: int = MOST_VARIANTS, rng: str = "torch", progress: bool = False):
        if on_mismatch not in ("eager", "raise"):
            raise ValueError(f"on_mismatch is 'eager' or 'raise', not {on_mismatch!r}")
        if rng not in ("torch", "philox"):
            raise ValueError(f"rng is 'torch' or 'philox', not {rng!r}")
        if check_every < 1 or max_variants < 1:
            raise ValueError("check_every and max_variants are at least 1")
        self._function = function
        self._rng = rng
        self._drawing = Drawing(function) if rng == "philox" else None
        self._called = self._drawing or function  # an eager call
        self._progress = Progress(self) if progress else None
        self._check_every, self._on_mismatch, self._max_variants = check_every, on_mismatch, max_variants
        self._variants: dict[bytes, list[Variant]] = {}
        self._count = 0  # of variants, those among them that were refused
        self._refusals = 0
        self._reason = ""  # why nothing is compiled, whatever the variant
        self._retry_at: int | None = None  # the call in which that is looked at again; None: never
        self._pause, self._look_pause = FIRST_PAUSE, FIRST_LOOK
        self._reasons: dict[str, int] = {}  # why single calls were eager
        self._mismatches: list[str] = []
        self._calls = self._compiled_calls = 0
        self._stall_ms = 0.0
        self._lock = threading.RLock()  # tells who has it: an interrupt may come right after it was taken
        self._specs: dict[Any, int] = {}
        self._opening = Opening()
        self._kinds = Kinds()
        self._traced_for: list[bytecode.Refusal] = []  # what calls were traced for, for nothing
        self.__wrapped__ = function
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__module__ = getattr(function, "__module__", __name__)
        self.__doc__ = getattr(function, "__doc__", None)
        Accelerated.all.add(self)
        self._reason = _unusable()

    # What a program asks

    def report(self) -> reporting.Report:
        """What has happened so far, as data; printed, as a table."""
        return reporting.make(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for what is being compiled. False when that takes longer than `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        for variant in self._every_variant():
            job = variant.job
            if job is not None and not self._wait_for(job, end):
                return False
        return True

    def _wait_for(self, job: Any, end: float | None) -> bool:
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            step = left if self._progress is None else 0.1 if left is None else min(left, 0.1)
            if job.done.wait(step):
                return True
            if left is not None and left <= (step or 0.0):
                return False
            if self._progress is not None:
                self._progress.note()

    def __repr__(self) -> str:
        return f"<crucible.accelerate of {self._function!r}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Copied and pickled as functions are: itself, by its name."""
        return self.__qualname__

    def __deepcopy__(self, memo: Any) -> "Accelerated":
        return self

    def __copy__(self) -> "Accelerated":
        return self

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: bound like the function that it stands for, each object by itself."""
        if instance is None:
            return self
        bound = Accelerated(self._function.__get__(instance, owner), check_every=self._check_every,
                            on_mismatch=self._on_mismatch, max_variants=self._max_variants,
                            rng=self._rng, progress=self._progress is not None)
        name = next((key for kind in type(instance).__mro__ for key, value in vars(kind).items() if value is self),
                    None)
        if name is not None and hasattr(instance, "__dict__"):
            instance.__dict__[name] = bound
        return bound

    # A call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._count_call()
        if self._reason and (self._retry_at is None or self._calls < self._retry_at):
            note_eager()
            return self._called(*args, **kwargs)
        if getattr(_running, "depth", 0) > 0:
            return self._eager("it was called from inside an accelerated call", args, kwargs)
        try:
            if self._lock.acquire(blocking=False):
                _running.depth = 1
                if self._drawing is not None:
                    self._drawing.begin_shared()
                if not turns.enter():
                    return self._eager("a call of another thread is being observed", args, kwargs)
                return self._call(args, kwargs)
        finally:
            _running.depth = 0
            turns.leave()
            if self._lock._is_owned():
                self._lock.release()
            if self._progress is not None:
                self._progress.note()
        return self._eager("another thread was in a call of it", args, kwargs)

    def call_eagerly(self, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that is not to be compiled, for a reason of the caller's."""
        self._count_call()
        return self._eager(reason, args, kwargs)

    def _count_call(self) -> None:
        if self._drawing is not None:
            self._drawing.begin(self._calls)
        self._calls += 1
        if self._progress is not None:
            self._progress.note()

    def _eager(self, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        turns.leave()
        note_eager()
        self._note(reason)
        for variant in self._every_variant():
            variant.note_other()
        return self._called(*args, **kwargs)

    def _note(self, reason: str) -> None:
        if len(self._reasons) < 64 or reason in self._reasons:
            self._reasons[reason] = self._reasons.get(reason, 0) + 1

    def _next_pause(self) -> int:
        """The call in which something is looked at again; each time later."""
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return self._calls + pause

    def _leave(self, reason: str, comes_back: bool = False) -> None:
        """Every call is eager from now on, or for a while."""
        self._reason, self._retry_at = reason, None
        if comes_back:
            self._retry_at = self._calls + self._look_pause
            self._look_pause = min(2 * self._look_pause, LONGEST_PAUSE)
        for variant in self._every_variant():
            variant.drop()

    def _every_variant(self) -> list[Variant]:
        return [variant for same in list(self._variants.values()) for variant in same]

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from crucible_torch import _accelerate

        leaves, spec = flatten_call(*self._opened(args, kwargs))
        kind = self._kind_of(leaves, spec)
        key = _accelerate.signature(leaves, kind.free if kind is not None else {})
        if type(key) is tuple:
            index, what = key
            return self._eager(f"{name_of_leaf(*self._opened(args, kwargs), index)} {what}", args, kwargs)
        key += self._text_of(spec)
        refusal = self._watching()
        if refusal:
            return self._eager(refusal, args, kwargs)
        same = self._variants.get(key)
        missed = ""
        if same is not None:
            for variant in same:
                if variant.tier != "compiled":
                    continue
                changed = variant.other(leaves)
                if changed is None:
                    variant.used, missed_before = self._calls, missed
                    done, answer, missed = self._run(variant, args, kwargs, leaves, spec)
                    if done:
                        if missed_before:
                            self._move_up(same, variant)
                        return answer
                    if variant.wants_anew:
                        variant.wants_anew = False
                        variant.start_anew()
                        break
                    if missed not in OF_ANOTHER:
                        return self._eager(missed, args, kwargs)
                    continue  # of another variant
                missed = changed
            if kind is not None and any(each.fails_numbers() for each in same):
                kind.pin()  # it cannot be compiled for all numbers: for each by itself, then
                self._drop_key(key)
                return self._call(args, kwargs)
        return self._call_eagerly(key, kind, same or [], missed, args, kwargs, leaves, spec)

    def _opened(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with what is in objects that are new in each call in their places."""
        return self._opening.open(args, kwargs)[:2] if self._opening.keys else (args, kwargs)

    def _text_of(self, spec: Any) -> bytes:
        return b"" if isinstance(spec, int) else b"%d" % self._specs.setdefault(spec, len(self._specs))

    def _kind_of(self, leaves: tuple[Any, ...], spec: Any) -> Kind | None:
        """What is known of numbers in calls like this one; None where it has none."""
        from crucible_torch import _accelerate

        for leaf in leaves:
            if is_counted(leaf):
                break
        else:
            return None
        base = _accelerate.signature(leaves, None)
        if type(base) is tuple:
            return None
        kind = self._kinds.find(base + self._text_of(spec))
        kind.note(leaves)
        return kind

    def _drop_key(self, key: bytes) -> None:
        for variant in self._variants.pop(key, ()):
            variant.drop()

    @staticmethod
    def _move_up(same: list[Variant], variant: Variant) -> None:
        """What is called more often is asked first: a variant that a tensor's value decides has computed in vain by
        then."""
        at = same.index(variant)
        while at > 0 and same[at - 1].compiled_calls < variant.compiled_calls:
            same[at], same[at - 1], at = same[at - 1], variant, at - 1

    @staticmethod
    def _watching() -> str:
        """Something that watches or changes every op, under which an op that is left out would be missed."""
        if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
            return "it was called under a dispatch or function mode, which sees every op"
        if torch.is_anomaly_enabled():
            return "it was called under anomaly detection, which looks at every op"
        if torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
            return "it was called under saved_tensors_hooks, which are given every tensor that is saved"
        if torch._C._get_tracing_state() is not None or torch.compiler.is_compiling():
            return "it was called while torch traces or compiles what calls it"
        if torch._C._functorch.maybe_current_level() is not None:
            return "it was called under a transform of torch.func, which sees every op"
        return ""

    def _run(self, variant: Variant, args: tuple[Any, ...], kwargs: dict[str, Any],
             leaves: tuple[Any, ...], spec: Any) -> tuple[bool, Any, str]:
        """(whether the call was made, its answer, why not)."""
        variant.calls += 1
        if variant.compiled_calls + 1 >= variant.next_check:
            return self._check(variant, args, kwargs, leaves, spec)
        began = time.perf_counter()
        try:
            reason, answer = variant.run(leaves)
        except RuntimeError as error:
            variant.give_up(f"a compiled call failed: {error}")
            raise
        if reason is not None:
            return False, None, reason
        if len(variant.compiled_ms) < 4096:
            variant.compiled_ms.append((time.perf_counter() - began) * 1e3)
        answer = variant.finish_call(answer)
        variant.compiled_calls += 1
        self._compiled_calls += 1
        self._note_others(variant)
        return True, answer, ""

    def _note_others(self, variant: Variant) -> None:
        """A call of this variant ran: of the others' optimizers some parameters may have been stepped, and some not."""
        if self._count > 1:
            for other in self._every_variant():
                if other is not variant:
                    other.note_other()

    def _check(self, variant: Variant, args: tuple[Any, ...], kwargs: dict[str, Any],
               leaves: tuple[Any, ...], spec: Any) -> tuple[bool, Any, str]:
        from crucible_torch import _accelerate

        self._note_others(variant)
        note_eager()
        result, differences, reason = variant.check(self._called, args, kwargs, leaves, spec)
        if reason in OF_ANOTHER:
            return False, None, reason
        _accelerate.give_back_memory()  # of the copies
        if reason is not None:  # eager did it
            self._note(reason)
            if variant.wants_anew:
                variant.wants_anew = False
                variant.start_anew()
            return True, result, ""
        variant.compiled_calls += 1
        variant.next_check = variant.compiled_calls + min(variant.compiled_calls, self._check_every)
        changed = variant.changed_by_call()
        if differences or changed is not None:
            text = "; ".join(str(each) for each in differences[:3]) or f"the call changes {changed}"
            more = f" and {len(differences) - 3} more" if len(differences) > 3 else ""
            kept = capsule.write(self.__name__, args, kwargs, result, differences)
            text = f"compiled call {variant.compiled_calls} of variant {variant.number}: {text}{more}{kept}"
            self._mismatches.append(text)
            variant.give_up(f"it gave something else than eager; {text}")
            variant.is_final = True
            if self._on_mismatch == "raise":
                raise Mismatch(text)
            return True, result, ""
        self._compiled_calls += 1
        if variant.since is None:
            variant.since = self._calls
        self._judge_gain(variant)
        return True, result, ""

    @staticmethod
    def _judge_gain(variant: Variant) -> None:
        """Compiled and eager calls were timed in turns: where the compiled ones take longer, they end."""
        eager, compiled = reporting.usual_eager(variant), variant.compiled_ms[1:]
        if len(variant.eager_ms) < 4 or eager is None or len(compiled) < CALLS_TO_JUDGE:
            return
        middle = sorted(compiled)[len(compiled) // 2]
        if middle > WORTH * eager:
            variant.give_up(f"a compiled call takes {middle:.3f} ms and eager {eager:.3f} ms")

    def _call_eagerly(self, key: bytes, kind: Kind | None, same: list[Variant], missed: str, args: tuple[Any, ...],
                      kwargs: dict[str, Any], leaves: tuple[Any, ...], spec: Any) -> Any:
        fitting = [each for each in same if each.tier in ("observing", "compiling") and each.fits()]
        variant = next((each for each in fitting if each.is_known()), fitting[0] if fitting else None)
        if variant is None:
            eager = [each for each in same
                     if each.tier == "eager" and each.fits() and not each.is_refused_elsewhere()]
            for each in eager:
                if each.retry_at is None and not each.is_final:
                    each.retry_at = self._next_pause()
                if each.is_final or self._calls < each.retry_at:
                    return self._eager(each.reason, args, kwargs)
                same.remove(each)  # what was in the way then may be gone
            if missed:
                self._note(missed)
            moving = [each for each in same if each.tier == "observing" and not each.carried.fits()]
            if len(moving) >= MOST_WAITING:  # a cache that grows
                self._leave(f"{moving[0].carried.paths()} is of another kind in each call", comes_back=True)
                return self._called(*args, **kwargs)
            if self._opening.learn(leaves):
                for other in list(self._variants):
                    self._drop_key(other)
                return self._call(args, kwargs)
            variant = self._new_variant(key, kind, args, kwargs, leaves, spec)
            if variant is None:
                return self._called(*args, **kwargs)
        variant.used = self._calls
        if variant.tier == "compiling":
            if variant.job.done.is_set():
                variant.finish()
                if variant.tier == "observing":
                    return self._observe(variant, args, kwargs, leaves, spec)
            if variant.tier == "compiled" and variant.other(leaves) is None:
                done, answer, missed = self._run(variant, args, kwargs, leaves, spec)
                return answer if done else self._eager(missed, args, kwargs)
            variant.calls += 1
            if variant.tier == "compiling" and len(variant.eager_ms) < EAGER_TIMES:
                began = time.perf_counter()
                result = self._eager("it is being compiled", args, kwargs)
                variant.eager_ms.append((time.perf_counter() - began) * 1e3)
                return result
            reason = {"compiling": "it is being compiled", "eager": variant.reason}.get(variant.tier)
            return self._eager(reason or "what it depends on changed while it was compiled", args, kwargs)
        return self._observe(variant, args, kwargs, leaves, spec)

    def _new_variant(self, key: bytes, kind: Kind | None, args: tuple[Any, ...], kwargs: dict[str, Any],
                     leaves: tuple[Any, ...], spec: Any) -> Variant | None:
        serious, reach = self._follow(args, kwargs)
        is_same = bool(serious) and serious == self._traced_for and self._look_pause < TRACED_AGAIN  # and for nothing
        waiting = [each for each in self._every_variant() if serious and each.traced_for == serious and each.calls == 1]
        is_same = is_same or len(waiting) >= MOST_WAITING
        refusal = str(serious[0]) if serious and (is_same or sys.gettrace() is not None) else ""
        if refusal and all(each.tier == "eager" for each in self._every_variant()):
            self._leave(self._reason or refusal, comes_back=True)
            return None
        if kind is not None and not serious:
            names = named_numbers(*self._opened(args, kwargs), bytecode.argument_paths(self._function, args))
            if kind.set_free(names, reach):
                key = self._leave_out(kind, leaves, spec)
        if refusal:  # where what is refused changes from call to call, that makes no variants
            self._refusals += 1
            same = self._variants.get(key, [])
            same[:] = [each for each in same if not each.is_refused_elsewhere()]
        every = self._every_variant()
        if len(every) >= self._max_variants:
            if self._count - self._refusals >= 4 * self._max_variants:
                self._leave(f"its calls are of more than {self._count - self._refusals} variants: " +
                            self._what_varies(leaves, args, kwargs))
                return None
            oldest = min(every, key=lambda each: each.used)
            oldest.drop()
            self._variants[oldest.signature].remove(oldest)
        variant = Variant(self._count, key, self._drawing, kind, Taken() if serious and not refusal else None)
        variant.traced_for, variant.objects = serious, objects_among(leaves)
        self._reason = ""
        if refusal:
            variant.reach = reach
            variant.refuse(refusal, lambda: self._look(variant, args, kwargs))
        self._count += 1
        self._variants.setdefault(key, []).insert(0, variant)
        return variant

    def _what_varies(self, leaves: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """For people: why there were so many of them."""
        for at, leaf in enumerate(leaves):
            others = [obj for each in self._every_variant() for obj in each.objects if type(obj) is type(leaf)]
            if objects_among((leaf, )) and len({id(obj) for obj in others}) > self._max_variants // 2:
                return (f"{name_of_leaf(*self._opened(args, kwargs), at)} is another {type(leaf).__name__} in each call; pass its "
                        "tensors, or make its class known to torch.utils._pytree")
        return ("sizes, values or what it depends on change from call to call; pad batches to a few sizes, or pass "
                "numbers as tensors")

    def _follow(self, args: tuple[Any, ...], kwargs: dict[str, Any],
                taken: Taken | None = None) -> tuple[list[bytecode.Refusal], Any]:
        """(What keeps a call from being compiled, as the function is now; what its code reaches)."""
        objects = self._opening.open(args, kwargs)[2]
        refusals, reach = bytecode.follow(self._function, args, kwargs, taken, given.places(args, kwargs, objects))
        reach.is_decided_by_numbers = any(each.kind == "number decides" for each in refusals)
        serious = [each for each in refusals if each.kind not in ("number decides", "scheduler")]
        if any(each.kind == "scheduler" for each in refusals):
            serious += reach.rates
        return serious, reach

    def _judge(self, variant: Variant, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The verdict, right before the first observed call: on what is there now, and on the ways that the first calls
        went. Why the variant cannot be compiled; "" where nothing is in the way."""
        serious, reach = self._follow(args, kwargs, variant.taken)
        refusal = str(serious[0]) if serious else variant.follow(reach)
        if not refusal:
            return ""
        if serious and sys.gettrace() is None and variant.looks_once_more():
            return ""  # what a first call does once, such as making its tables
        self._traced_for = variant.traced_for
        if serious and all(each.tier == "eager" for each in self._every_variant() if each is not variant):
            self._variants[variant.signature].remove(variant)
            self._leave(refusal, comes_back=True)
        else:
            variant.reach = reach
            variant.refuse(refusal, lambda: self._look(variant, args, kwargs))
        return refusal

    def _leave_out(self, kind: Kind, leaves: tuple[Any, ...], spec: Any) -> bytes:
        """The signature without the numbers that move, from now on; variants with them are given up."""
        from crucible_torch import _accelerate

        for key in [key for key, same in self._variants.items() if any(each.kind is kind for each in same)]:
            self._drop_key(key)
        return _accelerate.signature(leaves, kind.free) + self._text_of(spec)

    def _look(self, variant: Variant, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return visible.look(self._function, variant.reach, *self._opened(args, kwargs))

    def _observe(self, variant: Variant, args: tuple[Any, ...], kwargs: dict[str, Any],
                 leaves: tuple[Any, ...], spec: Any) -> Any:
        self._note_others(variant)
        note_eager()
        variant.calls += 1
        began = time.perf_counter()
        try:
            if variant.is_beginning():
                Observation.check_room()  # before others are waited for
            if not turns.take():
                raise Busy("calls of other threads took too long to wait for")
            if variant.is_beginning():
                Observation.make_room()
                refusal = self._judge(variant, args, kwargs)
                if refusal:
                    return self._called(*args, **kwargs) if self._reason else self._eager(refusal, args, kwargs)
            look = lambda: self._look(variant, args, kwargs)  # noqa: E731
            variant.given_objects = self._opening.open(args, kwargs)[2]
            result = variant.observe(self._called, look, args, kwargs, leaves, spec)
        except Busy as busy:
            return self._eager(str(busy), args, kwargs)
        except Unrecorded as problem:
            variant.give_up(str(problem))
            return problem.result[0] if problem.result else self._called(*args, **kwargs)
        finally:
            turns.give()
            variant.given_objects = []
        if variant.is_observed():
            variant.compile(worker)
        usual = min(variant.eager_ms, default=0.0)
        self._stall_ms = max(self._stall_ms, (time.perf_counter() - began) * 1e3 - usual)
        return result


def _weak_set() -> Any:
    import weakref

    atexit.register(_at_exit)
    os.register_at_fork(after_in_child=_after_fork)
    return weakref.WeakSet()


Accelerated.all = _weak_set()
