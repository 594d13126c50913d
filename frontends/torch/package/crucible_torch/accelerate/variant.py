"""One variant of an accelerated function: calls that have equal guards. It is observed, then compiled, then called."""

from __future__ import annotations

import functools
import time
from typing import Any, Callable

import torch

from crucible_torch.accelerate import answers, judge
from crucible_torch.accelerate.places import Binding
from crucible_torch.accelerate.checking import DECIDES, Check
from crucible_torch.accelerate.moving import GivenNumbers, Kind
from crucible_torch.accelerate.observe import PREFIX, ROLE_INPUT, ROLE_UNKNOWN, Observation, Unrecorded
from crucible_torch.accelerate.observed import (Differs, GradPattern, ObservedCall, are_open, role_of, storage_of,
                                                trained)
from crucible_torch.accelerate.philox import Drawing
from crucible_torch.accelerate.puts import Settings, puts_of
from crucible_torch.accelerate.reads import Reading
from crucible_torch.accelerate.schedules import Kept, Noted, make_steps
from crucible_torch.accelerate.stepped import Alone
from crucible_torch.accelerate.stored import STRIDES, Carried
from crucible_torch.accelerate.structure import Answer, Refusal, unflatten_call
from crucible_torch.accelerate.taken import Taken
from crucible_torch.accelerate.tape import Formulas, formulas_of

OBSERVED = 3  # calls that are recorded, after a first one in which optimizers make their state
MOST_RESTARTS = 4  # of an observation whose calls were not alike
MOST_FIRST_CALLS = 4  # whose ways are noted before the verdict: until one goes no new ones


class Variant(Binding):
    """`visible` is what the function sees, looked at before each observed call (visible.py); `drawing` is what draws in
    torch's place, if anything does; `reach` is what the function's code reaches (bytecode.Reach), `kind` has calls like
    this variant's but for numbers, if those have any."""

    def __init__(self, number: int, signature: bytes, drawing: Drawing | None, kind: Kind | None, taken: Taken | None):
        self.number = number
        self.kind = kind
        self.given = GivenNumbers(kind.free if kind is not None else {})
        self.taken = taken  # the ways that its calls go, where the verdict holds for those alone
        self.traced_for: list[Any] = []  # the refusals of a verdict that knows no ways
        self._first_calls = 0  # before the verdict
        self._has_looked_again = False
        self._optimizers: list[Any] = []
        self.wants_anew = False  # its calls are to be observed once more
        self.retry_at: int | None = None  # of one that is eager: the call in which it is looked at again
        self.is_final = False  # it gave something else than eager: it is never compiled again
        self.signature = signature
        self.drawing = drawing
        self.functions: list[Any] = []  # of the user's, which the function may call
        self.numbers: Formulas | None = None  # what is read from tensors
        self.carried = Carried([], set())  # what a call stores, and the next one reads
        self.tier = "observing"  # compiling, compiled, eager
        self.reason = ""
        self.calls = 0
        self.compiled_calls = 0
        self.checks = 0
        self.next_check = 1
        self.used = 0
        self.since: int | None = None
        self.job: Any = None
        self.guards: Any = None
        self.visible: Any = None
        self.reach: Any = None  # what following the function's code with such arguments found
        self.given_objects: list[Any] = []  # of the call that is observed: that are new in each one
        self.objects: tuple[Any, ...] = ()  # among the arguments: kept, as the signature tells them by their addresses
        self.eager_ms: list[float] = []
        self.compiled_ms: list[float] = []
        self.info: dict[str, Any] = {}
        self._warm = False
        self._restarts = 0
        self._observation: Observation | None = None
        self._snapshots: list[Any] = []
        self._refused: Any = None  # guards: what there was when its code could not be compiled
        self._between: Any = None  # guards that hold from one observed call to the next
        self._entry: list[bool] | None = None
        self._kinds: list[str] | None = None
        self._layouts: list[Any] = []  # of gradients: strides when a call begins, and when it ends
        self._answer: Answer | None = None
        self._program: Any = None
        self._rules: Any = None
        self._draws: list[tuple[Callable[[], torch.Tensor], int, bool]] = []
        self._input_leaves: list[int] = []
        self._scalers: list[Any] = []
        self._made: set[int] = set()  # memory of the results of the last observed call
        self._arguments = 0  # leaves, in front of what was stored
        self.turned: set[int] = set()  # arguments whose copies lie in another order in memory
        self._returned = 0  # results of a run, in front of what is read from tensors
        self.read: list[torch.Tensor] = []  # by the last run
        self.close_calls = self.disturbed = 0
        self._steps_alone = Alone()
        self._steps: list[int] | None = None  # of schedulers that a call makes, by their numbers in `visible`
        self._schedulers: list[Any] = []
        self._counting: list[tuple[Any, int]] = []
        self._sets_random = False  # whether a call sets the state of torch's random numbers
        self._begin: Settings | None = None  # what it sets: when a call begins, when it ends, and what differs
        self._end: Settings | None = None
        self._finals: list[tuple[Any, Any]] = []
        self._amounts: list[int] | None = None  # by which a call counts up what it counts (counters.py)
        self._written: list[torch.Tensor] = []  # states, and the places where they lie
        self._written_places: list[int] = []
        self._written_grads: list[torch.Tensor] = []  # parameters whose gradient is written where it lies

    # The verdict

    def follow(self, reach: Any) -> str:
        """Nothing that its calls do is in the way. Why it cannot be compiled all the same; "" where it can."""
        self.reach, self.functions = reach, [function for function, _ in reach.functions.values()]
        self.carried = Carried(list(reach.stored.values()), reach.names)
        return self.given.decides(reach.deciding)

    def is_beginning(self) -> bool:
        """Whether the next call is the first of those that are recorded: right before it the verdict is made."""
        return self.tier == "observing" and self._warm and self._observation is None

    def looks_once_more(self) -> bool:
        """Takes the next eager call for a first one, with the ways of that alone; False when that was done already."""
        if self._has_looked_again:
            return False
        self.taken, self._warm, self._has_looked_again = Taken(), False, True
        self._first_calls = MOST_FIRST_CALLS - 1
        return True

    # Observing

    def give_up(self, reason: str) -> None:
        """Calls of this variant stay eager from now on."""
        self.tier, self.reason = "eager", reason
        self.drop()

    def refuse(self, reason: str, look: Callable[[], Any]) -> None:
        """The same of what its code does now: where that is changed, calls are none of this variant's."""
        self.give_up(reason)
        try:
            self._refused = look().guards()
        except (RuntimeError, TypeError, ValueError):  # what was found of the code was not all
            self._refused = None

    def is_refused_elsewhere(self) -> bool:
        return self._refused is not None and self._refused.check() is not None

    def note_other(self) -> None:
        """Something else than a compiled call of this variant ran."""
        if self._rules is not None:
            self._rules.recheck()

    def drop(self) -> None:
        """Lets go what was observed and compiled."""
        if self._observation is not None:
            self._observation.drop()
            self._observation = None
        if self.job is not None:
            self.job.cancel()
            self.job = None
        self._program = self._rules = self.guards = self._between = None
        self._written, self._written_places, self._draws, self._snapshots = [], [], [], []

    def fails_numbers(self) -> bool:
        """Whether there is no program for whatever its numbers are: there may be one for each."""
        return self.tier == "eager" and bool(self.given) and not self.compiled_calls and not self.is_final

    def is_known(self) -> bool:
        """Whether a call was observed, so that it is known which gradients are there when one begins."""
        return self._entry is not None and self.visible is not None

    def fits(self) -> bool:
        """Whether gradients, and what calls have stored, are there now as they were when the observed calls began."""
        if not self.is_known():
            return True
        if not self.carried.fits() or self.numbers is not None and not self._goes_the_same_way():
            return False
        return [parameter.grad is not None for parameter in trained(self.visible)] == self._entry

    def _goes_the_same_way(self) -> bool:
        """Whether numbers that the function keeps decide as they did, as far as that is known before a call."""
        if self.carried:
            self.numbers.kept = self.carried.numbers()
        return not self.numbers.deciding or bool(self.numbers.deciding_reads) or self.numbers.decide([])

    def start_anew(self) -> None:
        """What was observed so far does not hold any more."""
        self.drop()
        self.tier, self._warm, self._entry, self._kinds, self._answer = "observing", False, None, None, None
        self._steps = self._amounts = self.numbers = self._begin = self._end = None
        self._finals = []
        self.visible = None
        self.reach = None
        self.carried = Carried([], set())

    def observe(self, function: Callable[..., Any], look: Callable[[], Any], args: tuple[Any, ...],
                kwargs: dict[str, Any], leaves: tuple[Any, ...], spec: Any) -> Any:
        """One call in eager. Errors: the call's own. A Refusal of ours ends in give_up(), with the call's result."""
        from crucible_torch import _accelerate

        if not self._warm:
            self._first_calls += 1
            began = time.perf_counter()
            result = self._traced(function, args, kwargs)
            if self.taken is None:
                self.eager_ms.append((time.perf_counter() - began) * 1e3)
            # A verdict on ways that the next call leaves would be for nothing: first calls make tables, and optimizers
            # their states.
            self._warm = self.taken is None or not self.taken.has_grown or self._first_calls >= MOST_FIRST_CALLS
            return result
        if self._observation is not None and self._observation.was_dropped:
            self.start_anew()
            return self.observe(function, look, args, kwargs, leaves, spec)
        # Of the call before: `_before` makes sure that nothing has changed.
        seen = self.visible if self._observation is not None and self.visible is not None else look()
        if self._observation is None:
            if seen.refusals:
                self.refuse(str(seen.refusals[0]), lambda: seen)
                return function(*args, **kwargs)
            self._observation = Observation(OBSERVED, self)
        schedules = Noted([scheduler for _, scheduler in seen.schedulers] if "step" in self.reach.names else [])
        call = ObservedCall(look, self.given.of(leaves), schedules.is_any(), Reading(self.functions))
        carried = self.carried
        found, lies = carried.entering(is_observed=True)
        originals = leaves + found
        given = answers.lent(originals, self._made)
        self.turned = {k for k, (leaf, copy) in enumerate(zip(originals, given))
                       if isinstance(leaf, torch.Tensor) and leaf.stride() != copy.stride()}
        if self.reach.names & STRIDES and self.turned:
            self.give_up("the function asks how a tensor lies in memory, and one that it is given is part of a larger one; "
                         "pass a copy")
            return function(*args, **kwargs)
        self._arguments = len(leaves)
        try:
            is_alike = carried.note(leaves, found, given[len(leaves):], lies, self._free)
            answers.look_for_shared(seen, originals, self.given_as)
        except Refusal as refusal:
            self.give_up(str(refusal))
            return function(*args, **kwargs)
        if not is_alike:
            self._start_again()
            return function(*args, **kwargs)
        own_args, own_kwargs = args, kwargs
        if any(copy is not leaf for copy, leaf in zip(given, leaves)):
            try:
                own_args, own_kwargs = unflatten_call(given[:len(leaves)], spec)
            except Exception as error:  # of a class that makes its objects in another way
                self.give_up(f"an object that it is given cannot be made with copies of its tensors: {error!r}")
                return function(*args, **kwargs)
        counts = [counter.read() for counter in self._counters()]

        def made(*a: Any, **k: Any) -> Any:
            stored = carried.before()
            result = self._noting(schedules, function, a, k)
            return call.reading.taken((result, carried.note_stores(stored)) if carried else result)

        try:
            carried.lend(given[len(leaves):], lies, call.reading.tape)
            result = self._observation.call(made, own_args, own_kwargs, call,
                                            lambda name: self._before(call, given, name),
                                            lambda result, output: self._after(call, result, given, output))
        except Unrecorded as problem:
            problem.result = tuple(result[0] for result in problem.result) if carried else problem.result
            raise
        except Differs:  # before the call was made
            carried.take_back({})
            self._start_again()
            return function(*args, **kwargs)
        except BaseException:
            self.start_anew()
            raise
        finally:
            carried.take_back({id(copy): leaf for copy, leaf in zip(given, originals) if copy is not leaf})
        result = result[0] if carried else result
        call.problem = call.problem or carried.problem
        if self.taken is not None and (self.taken.has_grown or not self.taken.wanted):
            call.problem = Differs("it went another way than the calls before it")
            self.reach = None  # the verdict was on other ways
        call.problem = call.problem or schedules.problem
        if self._steps is not None and self._steps != schedules.steps and call.problem is None:
            call.problem = Refusal("a scheduler is stepped in one call and not in another; step it outside")
        self._steps = schedules.steps
        if call.problem is None:
            call.problem = self._take_amounts(counts)
        if isinstance(call.problem, Differs) and self._restarts < MOST_RESTARTS:
            self._start_again()
        elif call.problem is not None:
            self.give_up(str(call.problem))
        else:
            self._snapshots.append(call.snapshot)
            self.visible = call.seen
            if self._observation.is_complete:  # without what the recorder puts in the place of torch's functions
                with call.begin.as_they_were():
                    self.guards = call.seen.guards(frozenset(call.snapshot.numbers))
        _accelerate.give_back_memory()  # what recording took beside the call's own keeps that from going back by itself
        return answers.with_own_arguments(result, given, originals)

    @property
    def _free(self) -> dict[int, str]:
        """Leaves that the signature leaves out."""
        return self.kind.free if self.kind is not None else {}

    def given_as(self, number: int) -> str:
        """What enters a call, in words."""
        return self.carried.path_of(number - self._arguments) if number >= self._arguments else f"argument {number}"

    def _counters(self) -> list[Any]:
        return list(self.reach.counters.values()) if self.reach is not None else []

    def _take_amounts(self, before: list[Any]) -> Refusal | None:
        """By how much the call that was just observed has counted. What is wrong with it, if anything."""
        after = [counter.read() for counter in self._counters()]
        for counter, old, new in zip(self._counters(), before, after):
            if type(old) is not int or type(new) is not int:
                return Refusal(f"{counter.path} is no whole number any more; count outside")
        amounts = [new - old for old, new in zip(before, after)]
        if self._amounts is not None and self._amounts != amounts:
            path = next(each.path for each, a, b in zip(self._counters(), amounts, self._amounts) if a != b)
            return Refusal(f"{path} is counted up by different numbers from call to call; count outside")
        self._amounts = amounts
        return None

    def _traced(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call, with the ways that it goes noted where the verdict depends on them."""
        if self.taken is None:
            return function(*args, **kwargs)
        with self.taken:
            return function(*args, **kwargs)

    def _noting(self, schedules: Noted, function: Callable[..., Any], args: tuple[Any, ...],
                kwargs: dict[str, Any]) -> Any:
        with schedules:
            return self._traced(function, args, kwargs)

    def _start_again(self) -> None:
        self._restarts += 1
        self.start_anew()
        if self._restarts > MOST_RESTARTS:
            self.give_up("what the function sees is not the same in one call and the next")
            self._restarts = 0

    def _before(self, call: "ObservedCall", leaves: tuple[Any, ...], name: Callable[..., None]) -> None:
        """Right before an observed call, with the recorder on. Errors: Differs where it is of another variant than the
        calls that were observed already."""
        call.look()
        call.begin = Settings(puts_of(self.reach, call.seen.tensors))
        if self._between is not None and self._between.check() is not None:
            raise Differs("something was changed between two calls")
        self._between = call.seen.guards(frozenset(call.snapshot.numbers))
        self._name_inputs(call.seen, call.grads, leaves, name)

    def _after(self, call: "ObservedCall", result: Any, leaves: tuple[Any, ...], output: Callable[..., None]) -> None:
        try:
            self._take_numbers(call, result, output)
            self._take_call(call, result, leaves, output)
        except Refusal as refusal:
            call.problem = refusal

    def _take_numbers(self, call: "ObservedCall", result: Any, output: Callable[..., None]) -> None:
        """What the call's Python has read from tensors, and what it made of it. Errors: Refusal."""
        self._sets_random |= call.reading.sets_random
        before, numbers = self.numbers, formulas_of(call.reading.tape, Answer(result).leaves)
        if before is not None and before.decisions != numbers.decisions:
            raise Differs("it branches another way, by a tensor's value, in one call than in another")
        if before is not None and not before.is_as(numbers):
            raise Refusal("what the function computes from numbers that it reads from tensors is not the same in each "
                          "call; compute it behind the call")
        for number, k in enumerate(numbers.reads):
            output(call.reading.tape.tensors[k], f"read{number}")
        self.numbers = numbers

    def _take_call(self, call: "ObservedCall", result: Any, leaves: tuple[Any, ...],
                   output: Callable[..., None]) -> None:
        """What one observed call has left behind, compared with the call before it. Errors: Refusal."""
        seen, grads = call.seen, call.grads
        end = Settings(call.begin.puts)
        with call.begin.as_they_were():
            changed = call.guards.check()
        if changed is not None and self._answer is None and self._restarts < MOST_RESTARTS:
            raise Differs(changed)  # an optimizer that makes its state in its first step
        if changed is not None:
            raise Refusal(f"the call changes what a compiled call would not: {changed}; return it, or change it "
                          "outside")
        if differs := end.differs_from(self._end or end):
            raise Refusal(f"{differs}; set it outside")
        if any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves[:self._arguments]):
            raise Refusal("the function makes an argument require a gradient; detach it first")
        if call.are_scalers_open or are_open([scaler for _, scaler in seen.scalers]):
            raise Refusal("a GradScaler unscales or steps in a call and is not updated in it; call scaler.update() in "
                          "the function too")
        entry, kinds, layouts = [grad is not None for grad in grads.before], grads.after(), grads.layouts()
        for k, (parameter, kind) in enumerate(zip(grads.parameters, kinds)):
            if kind == "new":
                output(parameter.grad, f"grad{k}")
        answer = answers.read(result, self._answer, call, self, leaves)
        outputs = {what: leaf for (kind, what), leaf in zip(answer.origins, answer.leaves) if kind == "output"}
        for what, leaf in outputs.items():
            output(leaf, f"out{what}")
        self._made = {storage_of(leaf) for leaf in outputs.values()}
        if self._answer is not None:
            if differs := answers.difference(self._answer, answer):
                raise Differs(differs)
            if entry != self._entry or kinds != self._kinds:
                raise Differs("gradients are there in one call and not in another when it begins")
            if layouts != self._layouts:
                raise Differs("gradients lie in memory in another order in one call than in another")
        self._answer, self._entry, self._kinds, self._layouts = answer, entry, kinds, layouts
        self._begin, self._end = call.begin, end
        self._finals = end.against(call.begin)

    def _name_inputs(self, seen: Any, grads: GradPattern, leaves: tuple[Any, ...], name: Callable[..., None]) -> None:
        """Everything that enters, by the numbers by which _bind() finds it again."""
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                name(leaf, f"arg{k}", ROLE_INPUT)
        for k, (path, tensor) in enumerate(seen.tensors):
            name(tensor, f"s{k}", role_of(path, tensor))
        for k, grad in enumerate(parameter.grad for parameter in grads.parameters):
            if grad is not None:
                name(grad, f"g{k}", ROLE_UNKNOWN)
        if self.drawing is not None:
            name(self.drawing.source.table, "philox", ROLE_INPUT)

    # Compiling

    def is_observed(self) -> bool:
        return self._observation is not None and self._observation.is_complete

    def compile(self, worker: Any) -> None:
        from crucible_torch import _accelerate

        file = self._observation.file
        self.job = worker.submit(lambda: _accelerate.compile(file, PREFIX))
        self.tier = "compiling"

    def finish(self) -> None:
        """The compiler is done: binds what it made, or says why there is nothing. Called between two calls."""
        job, self.job = self.job, None
        observation, self._observation = self._observation, None
        observation.drop()
        if job.problem is not None:
            return self.give_up(job.problem)
        try:
            self._bind(job.program)
        except Differs:
            return self._start_again()
        except Refusal as refusal:
            return self.give_up(str(refusal))
        except (RuntimeError, ValueError) as error:
            return self.give_up(f"cannot be bound: {error}")
        self._snapshots = []
        self.tier = "compiled"
        self.info["compile_s"] = job.seconds

    # Calling

    def other(self, leaves: tuple[Any, ...]) -> str | None:
        """Why a call with these arguments, now, is none of this variant's; None where it is."""
        changed = self.given.other(leaves) or self.guards.check()
        return changed or self.carried.other(leaves, self._free) if self.carried else changed

    def run(self, leaves: tuple[Any, ...]) -> tuple[str | None, Any]:
        """(None, what eager would have returned, with what it would have stored where it stores), or (why eager has to do it,
        None) with nothing changed."""
        reason, numbers = self.numbers_now(leaves)
        if reason is not None:
            return reason, None
        return self._run(self.with_stored(leaves), numbers, self._program.run, self.numbers.decide)

    def with_stored(self, leaves: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, and what lies now where calls store."""
        return leaves + self.carried.entering()[0] if self.carried else leaves

    def numbers_now(self, leaves: tuple[Any, ...]) -> tuple[str | None, Any]:
        """(None, the numbers of a call that begins now), or (why eager has to do it, None)."""
        for counter, _ in self._counting:
            if type(counter.read()) is not int:
                return f"{counter.path} is no whole number any more", None
        if self._scalers and are_open(self._scalers):
            return "a GradScaler has stepped and was not updated", None
        if not self._steps_alone.go_on(self._optimizers):
            self._rules.recheck()
        arguments = self.given.of(leaves)
        numbers = self._rules.values(self._optimizers, arguments)
        if numbers is None:
            self.wants_anew = True
            return self._rules.why_not(self._optimizers, arguments) or "a number is not known before the call", None
        if self.carried and not self._goes_the_same_way():
            self.note_other()
            return DECIDES, None
        return None, numbers

    def why_not(self, leaves: tuple[Any, ...], numbers: Any) -> str | None:
        """Why eager has to do the call with these arguments and what is stored, as far as that is known before anything is
        written; None where it need not. Tensors that decide are computed for it, and nothing else is changed."""
        reason = self._program.why_not(tuple([leaves[k] for k in self._input_leaves]))
        if reason is not None or not self.numbers.deciding_reads:
            return reason
        counts = False

        def decide(tensors: list[Any]) -> bool:
            nonlocal counts
            counts = self.numbers.decide(tensors)
            return False

        reason, _ = self._run(leaves, numbers, self._program.run, decide)
        return None if counts and reason == DECIDES else reason

    def run_beside(self, leaves: tuple[Any, ...], numbers: Any,
                   beside: list[tuple[int, torch.Tensor]]) -> tuple[str | None, Any]:
        """As run(), with other tensors in the place of states: (place, tensor)."""
        return self._run(leaves, numbers, functools.partial(self._program.run_beside, beside), self.numbers.decide)

    def _run(self, leaves: tuple[Any, ...], numbers: Any, run: Callable[..., Any],
             decide: Callable[[list[Any]], bool]) -> tuple[str | None, Any]:
        inputs = tuple([leaves[k] for k in self._input_leaves])
        if self._draws:
            state = torch.get_rng_state()
            try:
                for draw, place, is_same in self._draws:
                    tensor = draw()
                    if place >= 0 and not is_same:
                        self._program.bind(place, tensor)
            except BaseException:  # an interrupt: what was drawn was for nothing
                torch.set_rng_state(state)
                raise
        if not self.numbers.deciding_reads:
            outputs = run(inputs, numbers)
        else:
            made = self._program.runs()
            try:
                outputs = run(inputs, numbers, decide)
            finally:  # of an interrupt too: a run that is not made has put everything else back
                if self._draws and self._program.runs() == made:
                    torch.set_rng_state(state)
        if outputs is None or type(outputs) is str:
            if self._draws:
                torch.set_rng_state(state)
            self.note_other()
            return outputs or DECIDES, None
        if not self.numbers.entries:
            return None, self._answer.build(outputs, leaves)
        self.read = outputs[self._returned:]
        return None, self._answer.build(outputs, leaves, self.numbers.values(self.read))

    def number_rooms(self) -> tuple[dict[str, float], bool]:
        """Of numbers of the last run that came from tensors: by name how far they may be from eager's, and whether a
        rounding may have decided which way the function goes."""
        if not self.numbers.shapes:
            return {}, False
        shares = [judge.tolerance_of(tensor, judge.RESULT) for tensor in self.read]
        rooms = self.numbers.room(self.read, shares)
        return ({f"result {k}": rooms[at] for k, at in enumerate(self.numbers.leaves) if at is not None},
                bool(self.numbers.decisions) and self.numbers.is_close(self.read, shares))

    @property
    def draws(self) -> bool:
        """Whether a run takes random numbers from torch's generator."""
        return bool(self._draws)

    def python_state(self) -> Kept:
        """What a call in eager sets that no tensor holds."""
        return Kept(self._schedulers if self._steps else [], [counter for counter, _ in self._counting],
                    self.carried.stored_places(),
                    self._begin.puts if self._begin is not None else [])

    def changed_by_call(self) -> str | None:
        """What a call in eager, which has just ended, has changed that a compiled one would not."""
        if self._begin is None or self._end is None or not self._begin.puts:
            return self.guards.check()
        with self._begin.as_they_were():
            changed = self.guards.check()
        return changed or Settings(self._begin.puts).differs_from(self._end) or None

    def finish_call(self, answer: Any) -> Any:
        """What the function would have stored, counted and stepped, after a run whose result stays, which comes back."""
        if self.carried:
            answer, values = answer
            self.carried.store(values)
        for counter, amount in self._counting:
            counter.add(amount)
        for put, value in self._finals:
            put.set(value)
        if self._steps:
            make_steps(self._schedulers, self._steps)
        return answer

    def check(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
              leaves: tuple[Any, ...], spec: Any) -> tuple[Any, list[judge.Difference], str | None]:
        """The call compiled, then from the same start in eager, whose result is what stays. (Eager's result, where the
        two differ, why the compiled one had to be left to eager)."""
        if not self.carried:
            return Check(self, trained(self.visible), function, args, kwargs, spec).make(leaves)
        carried = self.carried
        both, differences, reason = Check(self, trained(self.visible),
                                          lambda *a, **k: (function(*a, **k), carried.stored_values()), args,
                                          kwargs, spec).make(leaves)
        if both is None:
            return None, differences, reason
        places = enumerate(carried.by_leaves(len(Answer(both).leaves)))
        names = {f"result {k}": place.path for k, place in places if place is not None}
        for each in differences:
            each.name = names.get(each.name, each.name)
        return both[0], differences, reason
