"""One variant of an accelerated function: calls that have equal guards. It is observed, then compiled, then called."""

from __future__ import annotations

import time
from typing import Any, Callable

import torch

from crucible_torch.accelerate import draws, judge, rules
from crucible_torch.accelerate.checking import Check
from crucible_torch.accelerate.graphs import BackwardRoots
from crucible_torch.accelerate.observe import (ROLE_BUFFER, ROLE_INPUT, ROLE_OPTIMIZER_STATE, ROLE_PARAMETER,
                                               ROLE_UNKNOWN, PREFIX, Observation, Unrecorded)
from crucible_torch.accelerate.philox import Drawing
from crucible_torch.accelerate.schedules import PutOff, make_steps
from crucible_torch.accelerate.structure import SIMPLE, Answer, Refusal, is_same_value, unflatten_call, whole

OBSERVED = 3  # calls that are recorded, after a first one in which optimizers make their state
MOST_RESTARTS = 4  # of an observation whose calls were not alike

def role_of(path: str, tensor: torch.Tensor) -> int:
    if isinstance(tensor, torch.nn.Parameter):
        return ROLE_PARAMETER
    return ROLE_OPTIMIZER_STATE if path.startswith("optimizer[") else ROLE_BUFFER


def optimizers_of(seen: Any) -> list[Any]:
    return [optimizer for _, optimizer in seen.optimizers]


def trained(seen: Any) -> list[torch.Tensor]:
    """Tensors whose gradients a call may make or clear: frozen parameters among them, for zero_grad() clears theirs."""
    return [tensor for _, tensor in seen.tensors
            if tensor.is_leaf and (tensor.requires_grad or isinstance(tensor, torch.nn.Parameter))]


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class GradPattern:
    """Which parameters have a gradient when a call begins, and what has become of them when it ends."""

    def __init__(self, parameters: list[torch.Tensor]):
        self.parameters = parameters
        self.before = [parameter.grad for parameter in parameters]
        self.versions = [None if grad is None else grad._version for grad in self.before]

    def after(self) -> list[str]:
        """For each parameter "kept" (untouched, or none before and after), "cleared", "new" or "written"."""
        kinds = []
        for parameter, before, version in zip(self.parameters, self.before, self.versions):
            grad = parameter.grad
            if grad is before:
                kinds.append("kept" if grad is None or grad._version == version else "written")
            else:
                kinds.append("cleared" if grad is None else "new")
        return kinds


class Variant:
    """`visible` is what the function sees, looked at before each observed call (visible.py); `drawing` is what draws in
    torch's place, if anything does."""

    def __init__(self, number: int, signature: bytes, read: set[str], drawing: Drawing | None = None):
        self.number = number
        self._read = read  # names of attributes that the function's own code reads
        self._optimizers: list[Any] = []
        self.wants_anew = False  # its calls are to be observed once more
        self.retry_at: int | None = None  # of one that is eager: the call in which it is looked at again
        self.is_final = False  # it gave something else than eager: it is never compiled again
        self.signature = signature
        self.drawing = drawing
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
        self.eager_ms: list[float] = []
        self.compiled_ms: list[float] = []
        self.info: dict[str, Any] = {}
        self._warm = False
        self._restarts = 0
        self._observation: Observation | None = None
        self._snapshots: list[Any] = []
        self._between: Any = None  # guards that hold from one observed call to the next
        self._entry: list[bool] | None = None
        self._kinds: list[str] | None = None
        self._answer: Answer | None = None
        self._program: Any = None
        self._rules: Any = None
        self._draws: list[tuple[Callable[[], torch.Tensor], int, bool]] = []
        self._input_leaves: list[int] = []
        self._steps: list[int] | None = None  # of schedulers that a call makes, by their numbers in `visible`
        self._schedulers: list[Any] = []
        self._written: list[torch.Tensor] = []
        self._written_grads: list[torch.Tensor] = []  # parameters whose gradient is written where it lies
        self._schedulers: list[Any] = []

    # Observing

    def give_up(self, reason: str) -> None:
        """Calls of this variant stay eager from now on."""
        self.tier, self.reason = "eager", reason
        self.drop()

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
        self._written, self._draws, self._snapshots = [], [], []

    def is_known(self) -> bool:
        """Whether a call was observed, so that it is known which gradients are there when one begins."""
        return self._entry is not None and self.visible is not None

    def fits_gradients(self) -> bool:
        """Whether gradients are there now as they were when the observed calls began."""
        if not self.is_known():
            return True
        return [parameter.grad is not None for parameter in trained(self.visible)] == self._entry

    def start_anew(self) -> None:
        """What was observed so far does not hold any more."""
        self.drop()
        self.tier, self._warm, self._entry, self._kinds, self._answer = "observing", False, None, None, None
        self._steps = None
        self.visible = None

    def observe(self, function: Callable[..., Any], look: Callable[[], Any], args: tuple[Any, ...],
                kwargs: dict[str, Any], leaves: tuple[Any, ...], spec: Any) -> Any:
        """One call in eager. Errors: the call's own. A Refusal of ours ends in give_up(), with the call's result."""
        if not self._warm:
            self._warm = True
            began = time.perf_counter()
            result = function(*args, **kwargs)
            self.eager_ms.append((time.perf_counter() - began) * 1e3)
            return result
        if self._observation is not None and self._observation.was_dropped:
            self.start_anew()
            return self.observe(function, look, args, kwargs, leaves, spec)
        if self._observation is None:
            Observation.make_room()
            refusals = look().refusals
            if refusals:
                self.give_up(str(refusals[0]))
                return function(*args, **kwargs)
            self._observation = Observation(OBSERVED, self)
        call = _ObservedCall(look)
        given = tuple(whole(leaf) for leaf in leaves)
        own_args, own_kwargs = unflatten_call(given, spec)
        schedules = PutOff([])
        if "step" in self._read:
            schedules = PutOff([scheduler for _, scheduler in look().schedulers])
        try:
            result = self._observation.call(lambda *a, **k: self._put_off(schedules, function, a, k), own_args,
                                            own_kwargs, call.roots,
                                            lambda name: self._before(call, given, name),
                                            lambda result, output: self._after(call, result, given, output))
        except Unrecorded:
            raise
        except _Differs:  # before the call was made
            self._start_again()
            return function(*args, **kwargs)
        except BaseException:
            self.start_anew()
            raise
        steps = list(schedules.steps)
        schedules.make()
        call.problem = call.problem or schedules.problem
        if self._steps is not None and self._steps != steps and call.problem is None:
            call.problem = Refusal("a scheduler is stepped in one call and not in another; step it outside")
        self._steps = steps
        if isinstance(call.problem, _Differs) and self._restarts < MOST_RESTARTS:
            self._start_again()
        elif call.problem is not None:
            self.give_up(str(call.problem))
        else:
            self._snapshots.append(call.snapshot)
            self.visible = call.seen
            if self._observation.is_complete:  # without what the recorder puts in the place of torch's functions
                self.guards = call.seen.guards(frozenset(call.snapshot.numbers))
        return self._with_own_arguments(result, given, leaves)

    @staticmethod
    def _put_off(schedules: PutOff, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with schedules:
            try:
                return function(*args, **kwargs)
            except BaseException:
                schedules.make()  # the function had got so far
                raise

    @staticmethod
    def _with_own_arguments(result: Any, given: tuple[Any, ...], leaves: tuple[Any, ...]) -> Any:
        """The result with the caller's own tensors in the place of copies that were given to the function."""
        copies = {id(copy): leaf for copy, leaf in zip(given, leaves) if copy is not leaf}
        if not copies:
            return result
        answer = Answer(result)
        if not any(id(leaf) in copies for leaf in answer.leaves):
            return result
        answer.origins = [("same", copies.get(id(leaf), leaf)) for leaf in answer.leaves]
        return answer.build([], ())

    def _start_again(self) -> None:
        self._restarts += 1
        self.start_anew()
        if self._restarts > MOST_RESTARTS:
            self.give_up("what the function sees is not the same in one call and the next")
            self._restarts = 0

    def _before(self, call: "_ObservedCall", leaves: tuple[Any, ...], name: Callable[..., None]) -> None:
        """Right before an observed call, with the recorder on. Errors: _Differs where it is of another variant than the
        calls that were observed already."""
        call.look()
        if self._between is not None and self._between.check() is not None:
            raise _Differs("something was changed between two calls")
        self._between = call.seen.guards(frozenset(call.snapshot.numbers))
        self._name_inputs(call.seen, call.grads, leaves, name)

    def _after(self, call: "_ObservedCall", result: Any, leaves: tuple[Any, ...], output: Callable[..., None]) -> None:
        try:
            self._take_call(call.seen, call.guards, call.grads, call.roots, result, leaves, output)
        except Refusal as refusal:
            call.problem = refusal

    def _take_call(self, seen: Any, guards: Any, grads: GradPattern, roots: BackwardRoots, result: Any,
                   leaves: tuple[Any, ...], output: Callable[..., None]) -> None:
        """What one observed call has left behind, compared with the call before it. Errors: Refusal."""
        changed = guards.check()
        if changed is not None and self._answer is None and self._restarts < MOST_RESTARTS:
            raise _Differs(changed)  # an optimizer that makes its state in its first step
        if changed is not None:
            raise Refusal(f"the call changes what a compiled call would not: {changed}; return it, or change it "
                          "outside")
        by_storage = {storage_of(tensor): path for path, tensor in seen.tensors}
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and storage_of(leaf) in by_storage:
                raise Refusal(f"argument {k} shares memory with {by_storage[storage_of(leaf)]}, which the function "
                              "reaches by itself; pass a copy")
        entry, kinds = [grad is not None for grad in grads.before], grads.after()
        for k, (parameter, kind) in enumerate(zip(grads.parameters, kinds)):
            if kind == "new":
                output(parameter.grad, f"grad{k}")
        answer = self._read_answer(result, leaves, seen, roots)
        for (kind, what), leaf in zip(answer.origins, answer.leaves):
            if kind == "output":
                output(leaf, f"out{what}")
        if self._answer is not None:
            self._compare_answers(answer)
            if entry != self._entry or kinds != self._kinds:
                raise _Differs("gradients are there in one call and not in another when it begins")
        self._answer, self._entry, self._kinds = answer, entry, kinds

    def _name_inputs(self, seen: Any, grads: GradPattern, leaves: tuple[Any, ...], name: Callable[..., None]) -> None:
        """Everything that enters, by the numbers by which _bind() finds it again."""
        for k, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                name(leaf, f"arg{k}", ROLE_INPUT)
        for k, (path, tensor) in enumerate(seen.tensors):
            name(tensor, f"s{k}", role_of(path, tensor))
        for k, grad in enumerate(grads.before):
            if grad is not None:
                name(grad, f"g{k}", ROLE_UNKNOWN)
        if self.drawing is not None:
            name(self.drawing.source.table, "philox", ROLE_INPUT)

    def _read_answer(self, result: Any, leaves: tuple[Any, ...], seen: Any, roots: BackwardRoots) -> Answer:
        answer = Answer(result)
        by_identity = {id(tensor): tensor for _, tensor in seen.tensors}
        memories = {storage_of(tensor) for _, tensor in seen.tensors}
        memories |= {storage_of(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)}
        outputs = 0
        for leaf in answer.leaves:
            if not isinstance(leaf, torch.Tensor):
                if not isinstance(leaf, SIMPLE):
                    raise Refusal(f"the function returns a {type(leaf).__name__}; return tensors, numbers and texts in "
                                  "tuples, lists and dicts")
                answer.origins.append(("same", leaf))
            elif any(leaf is argument for argument in leaves):
                answer.origins.append(("argument", next(k for k, each in enumerate(leaves) if each is leaf)))
            elif id(leaf) in by_identity:
                answer.origins.append(("same", leaf))
            else:
                if type(leaf) is not torch.Tensor or not leaf.device.type == "cpu" or leaf.layout != torch.strided:
                    raise Refusal("the function returns a tensor that is no plain one of the processor's memory")
                if storage_of(leaf) in memories and leaf.numel():
                    raise Refusal("the function returns a view of an argument, of a parameter or of another result; "
                                  "return a copy")
                if leaf.requires_grad and not roots.are_used_up(leaf):
                    raise Refusal("the function returns a tensor whose graph may still be used; return it detached, or "
                                  "run backward inside the function")
                memories.add(storage_of(leaf))
                answer.origins.append(("output", outputs))
                outputs += 1
        return answer

    def _compare_answers(self, answer: Answer) -> None:
        before = self._answer
        if before.spec != answer.spec or [kind for kind, _ in before.origins] != [kind for kind, _ in answer.origins]:
            raise _Differs("it returns something else in one call than in another")
        for (kind, old), (_, new) in zip(before.origins, answer.origins):
            if kind == "same" and old is not new and not (isinstance(old, SIMPLE) and is_same_value(old, new)):
                raise Refusal(f"the function returns a number or text that changes from call to call ({old!r}, then "
                              f"{new!r}); return the tensor, and call .item() on it outside")

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
        except _Differs:
            return self._start_again()
        except Refusal as refusal:
            return self.give_up(str(refusal))
        except (RuntimeError, ValueError) as error:
            return self.give_up(f"cannot be bound: {error}")
        self._snapshots = []
        self.tier = "compiled"
        self.info["compile_s"] = job.seconds

    def _bind(self, program: Any) -> None:
        changed = self.guards.check()
        if changed is not None:
            raise _Differs(f"it changed while the calls were compiled: {changed}")
        info = program.info()
        self.info = {key: info[key] for key in ("arena_bytes", "steps", "compiled", "from_store")}
        for text in info["left_out"]:
            if text.startswith(PREFIX):
                raise Refusal(f"a result cannot be computed: {text.removeprefix(PREFIX)}")
        seen = self.visible
        parameters = trained(seen)
        inputs: list[tuple[int, int]] = []
        results: dict[int, int] = {}
        gradients: dict[int, int] = {}
        present: dict[int, int] = {}  # that are there when a call begins, and used
        self._written, self._written_grads = [], []
        for place, (kind, name, _, _, is_written, is_draw) in enumerate(info["places"]):
            label = name.removeprefix(PREFIX)
            if is_draw or not name.startswith(PREFIX):
                continue
            if label == "philox":
                program.bind(place, self.drawing.source.table)
            elif label.startswith("arg"):
                if is_written:
                    raise Refusal(f"the function writes into argument {label[3:]}; write into a copy")
                inputs.append((int(label[3:]), place))
            elif label.startswith("out"):
                results[int(label[3:])] = place
            elif label.startswith("grad"):
                gradients[int(label[4:])] = place
            elif label.startswith("g"):
                present[int(label[1:])] = place
            else:
                tensor = seen.tensors[int(label[1:])][1]
                program.bind(place, tensor)
                if is_written:
                    self._written.append(tensor)
        program.set_inputs([place for _, place in inputs])
        self._input_leaves = [leaf for leaf, _ in inputs]
        number = 0
        for (kind, what), leaf in zip(self._answer.origins, self._answer.leaves):
            if kind != "output":
                continue
            if what not in results:
                raise Refusal("a result of the function is not computed by recorded ops")
            strides = torch.empty_like(leaf, device="meta").stride()
            if not leaf.is_contiguous():
                strides = torch.empty(leaf.shape, device="meta").stride()
            program.add_output(results[what], list(leaf.shape), list(strides), leaf.dtype, None)
            number += 1
        for k, (parameter, kind) in enumerate(zip(parameters, self._kinds)):
            if kind == "new":
                if k not in gradients:
                    raise Refusal("a gradient of the function is not computed by recorded ops")
                strides = torch.empty(parameter.shape, device="meta").stride()
                program.add_output(gradients[k], list(parameter.shape), list(strides), parameter.dtype, parameter)
            if kind == "written" and k not in present:
                raise Refusal("a gradient is written in a way that was not recorded")
            if kind == "written":
                self._written_grads.append(parameter)
            if kind != "kept" or not self._entry[k] or k in present:
                program.add_grad(parameter, self._entry[k], kind == "cleared", present.get(k, -1))
        self._bind_draws(program, info)
        try:
            self._rules = rules.find(info["slots"], self._snapshots, frees=True)
        except rules.NoRule as none:
            raise Refusal("a number changes from call to call and what it is computed from is not known: "
                          f"{none}") from None
        self._program = program
        moving = self._rules.sources | self._rules.idle
        if "param_groups" not in self._read:
            moving |= self._rules.free
        if "number decides" in self._read:
            moving = frozenset()
        self._optimizers = optimizers_of(seen)
        self._schedulers = [scheduler for _, scheduler in seen.schedulers]
        before, now = self._snapshots[-1].numbers, rules.Snapshot.take(self._optimizers, {}).numbers
        for path, number in before.items():
            if ".param_groups[" in path and path not in moving and not is_same_value(now.get(path), number):
                raise _Differs(f"{path} changed while the calls were compiled")
        self.guards = seen.guards(frozenset(moving))
        self._answer.leaves = []

    def _bind_draws(self, program: Any, info: dict[str, Any]) -> None:
        self._draws = []
        for name, arguments, output, place, shape in info["draws"]:
            if self.drawing is not None:
                raise Refusal(f"{name} draws by itself: with rng='philox' there is no answer for it, or it was given a "
                              "generator, or the function seeds torch's; draw otherwise, or use rng='torch'")
            draw, is_same = draws.make_draw(name, arguments, output, shape)
            self._draws.append((draw, place, is_same))
        if self._draws:
            state = torch.get_rng_state()
            for draw, place, is_same in self._draws:
                if place >= 0 and is_same:
                    program.bind(place, draw())
            torch.set_rng_state(state)

    # Calling

    def run(self, leaves: tuple[Any, ...]) -> tuple[str | None, Any]:
        """(None, what eager would have returned), or (why eager has to do it, None) with nothing changed."""
        program = self._program
        numbers = self._rules.values(self._optimizers, {})
        if numbers is None:
            self.wants_anew = True
            return self._rules.why_not(self._optimizers, {}) or "a number is not known before the call", None
        inputs = tuple([leaves[k] for k in self._input_leaves])
        if self._draws:
            state = torch.get_rng_state()
            try:
                for draw, place, is_same in self._draws:
                    tensor = draw()
                    if place >= 0 and not is_same:
                        program.bind(place, tensor)
            except BaseException:  # an interrupt: what was drawn was for nothing
                torch.set_rng_state(state)
                raise
        outputs = program.run(inputs, numbers)
        if type(outputs) is str:
            if self._draws:
                torch.set_rng_state(state)
            return outputs, None
        return None, self._answer.build(outputs, leaves)

    def step_schedulers(self) -> None:
        """What the function would have stepped, after a run whose result stays."""
        if self._steps:
            make_steps(self._schedulers, self._steps)

    def check(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
              leaves: tuple[Any, ...]) -> tuple[Any, list[judge.Difference], str | None]:
        """The call compiled, then from the same start in eager, whose result is what stays. (Eager's result, where the
        two differ, why the compiled one had to be left to eager)."""
        return Check(self, trained(self.visible), function, args, kwargs).make(leaves)


class _ObservedCall:
    """What is there when an observed call begins."""

    def __init__(self, look: Callable[[], Any]):
        self._look = look
        self.roots = BackwardRoots()
        self.problem: Refusal | None = None

    def look(self) -> None:
        self.seen = self._look()
        self.snapshot = rules.Snapshot.take(optimizers_of(self.seen), {})
        self.guards = self.seen.guards(frozenset())
        self.grads = GradPattern(trained(self.seen))


class _Differs(Refusal):
    """Two observed calls are of two variants."""


