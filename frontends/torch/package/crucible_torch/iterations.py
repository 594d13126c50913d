"""Where iterations end: what repeats, told from what the program does. Nothing here records or knows tensors.

The session tells what happens (an optimizer stepped, an outermost module was called, crucible.step() was called); the
answer is whether an iteration has just ended. docs/recording.md, "What an iteration is", has the rules in words.
"""

import gc
import weakref
from enum import Enum


class Verdict(Enum):
    NOTHING = 0
    END = 1  # an iteration ended here
    BROKEN = 2  # what was taken for iterations is not what repeats


class Pattern:
    """The order in which keys repeat. The longest run of repetitions up to now decides; the shortest pattern of
    equals."""

    REMEMBERED = 1024

    def __init__(self):
        self._keys = []
        self.length = 0  # of the pattern; 0: nothing repeats yet
        self.repeats = 0  # whole patterns that have passed
        self._position = 0  # keys since the last whole one
        self._confirmed = False

    @property
    def is_whole(self):
        return self.length > 0 and self._position == 0

    def add(self, key):
        keys = self._keys
        keys.append(key)
        if self._confirmed and keys[-1 - self.length] == key:
            if len(keys) > 2 * self.REMEMBERED:
                del keys[:self.REMEMBERED]
            self._position += 1
            if self._position == self.length:
                self._position = 0
                self.repeats += 1
                return Verdict.END
            return Verdict.NOTHING
        before = self.length
        self._learn()
        if before and self.length != before:
            return Verdict.BROKEN
        return Verdict.END if self.length and self._position == 0 else Verdict.NOTHING

    def _learn(self):
        """Finds the pattern anew from all that is remembered."""
        keys = self._keys
        del keys[:-self.REMEMBERED]
        best, matched = 0, 0
        for length in range(1, len(keys)):
            run = 0
            while run + length < len(keys) and keys[-1 - run] == keys[-1 - run - length]:
                run += 1
            if run > matched:
                best, matched = length, run
        if len(keys) == 1:
            best = 1  # one step: for all we know, steps repeat
        self._confirmed = matched > 0 and matched >= best
        known = best > 0 and (self._confirmed or len(keys) == 1)
        self.length = best if known else 0
        self.repeats, self._position = divmod(matched + best, best) if known else (0, 0)


def unstepped_optimizers(torch, stepped, modules):
    """Class names of optimizers that have not stepped, and hold parameters of `modules` that no stepped one holds."""
    base = torch.optim.Optimizer
    in_use = {id(p) for module in modules for p in module.parameters()}
    covered = {id(p) for optimizer in stepped for group in optimizer.param_groups for p in group["params"]}
    found = []
    for candidate in gc.get_objects():
        # The type is asked, not the object: an object's __class__ may run code of the program's.
        if not issubclass(type(candidate), base) or "param_groups" not in vars(candidate):
            continue
        if any(candidate is optimizer for optimizer in stepped):
            continue
        own = {id(p) for group in vars(candidate)["param_groups"] for p in group["params"]}
        if own & in_use - covered:
            found.append(type(candidate).__name__)
    return found


class Boundaries:
    """Iteration ends of one program. `choice`: auto, optimizer, step, module or period."""

    PATIENCE = 16  # steps for which an optimizer that exists and has not stepped is waited for

    MOST_MODULES = 64  # that are remembered

    def __init__(self, torch, choice, in_block=False, may_be_inference=True):
        self._torch = torch
        self._in_block = in_block  # of crucible.record(): the program says itself what is worth recording
        self._may_be_inference = may_be_inference
        self.choice = choice
        self.kind = None if choice == "auto" else choice
        self.passed = 0  # whole iterations so far
        self.waits_for = []  # class names of optimizers that have not stepped
        self._pattern = Pattern()
        self._called = {}  # by id: weak references to outermost modules
        self._stepped = []  # weak references to optimizers
        self._events = 0
        self._settled_until = 0  # number of events up to which the answer of `settled` holds
        self.counts_each = False  # steps, or calls, repeat in no order: each is an iteration
        self._was_each = False  # before the last one came, each step alone was an iteration
        self._in_backward = []  # keys of optimizers that stepped inside the running backward pass
        self.backward_seen = False

    @property
    def length(self):
        """How many steps or calls make one iteration; 0 while that is not known."""
        return 1 if self.kind in ("step", "period") else self._pattern.length

    @property
    def at_end(self):
        """Whether an iteration has ended with what happened last."""
        return self.kind == "step" or self.kind == "optimizer" and self._pattern.is_whole

    @property
    def events(self):
        """Steps or calls that have counted."""
        return self.passed if self.kind in ("step", "period") else self._events

    @property
    def settled(self):
        """Whether the pattern may be trusted: every optimizer whose parameters are in use has stepped, or had its time
        to."""
        if self.kind != "optimizer" or self._events >= self.PATIENCE * max(self._pattern.length, 1):
            return True
        if self._events >= self._settled_until or not self.waits_for:
            stepped = [optimizer for optimizer in (reference() for reference in self._stepped) if optimizer is not None]
            modules = [module for module in (reference() for reference in self._called.values()) if module is not None]
            self.waits_for = unstepped_optimizers(self._torch, stepped, modules)
            self._settled_until = 2 * self._events  # the search costs milliseconds
        return not self.waits_for

    def _become(self, kind):
        """From now on `kind` decides; what others have counted does not hold. True when that is a change."""
        if self.kind == kind:
            return False
        had_begun = self.kind is not None or self.passed > 0
        self.kind, self.passed, self._pattern, self._events = kind, 0, Pattern(), 0
        return had_begun

    def count_each(self):
        """From now on each step, or call, is an iteration. False where that is no way out."""
        if self.counts_each or self.kind not in ("optimizer", "module"):
            return False
        self.counts_each, self.passed, self._pattern, self._events = True, 0, Pattern(), 0
        return True

    def go_on_by_steps(self):
        """After BROKEN: where each step was an iteration, the next ones are too, whichever optimizer makes them: one that
        the program made anew to train more layers, or for the next fold. False where that is no way out."""
        if self.kind != "optimizer" or not self._was_each or not self.count_each():
            return False
        self._add(None)
        return True

    def _add(self, key):
        self._was_each = self._pattern.length == 1
        self._events += 1
        verdict = self._pattern.add(None if self.counts_each else key)
        self.passed = self._pattern.repeats
        return verdict

    def explicit_step(self):
        changed = self._become("step")
        self.passed += 1
        return Verdict.BROKEN if changed else Verdict.END

    def may_have_no_marks(self, backwards):
        """Whether a program after so many backward passes looks as if nothing in it will say where iterations end."""
        if self.choice != "auto" or self.kind is not None:
            return False
        # In a block optimizers of earlier code may exist: what counts is that none has stepped so far.
        return backwards >= 3 if self._in_block else not has_optimizers(self._torch)

    def optimizer_stepped(self, optimizer, in_backward):
        if self.kind == "step" or self.choice not in ("auto", "optimizer"):
            return Verdict.NOTHING
        changed = self._become("optimizer")
        if not any(reference() is optimizer for reference in self._stepped):
            self._stepped.append(weakref.ref(optimizer))
        if in_backward:
            # One optimizer per parameter, stepping as gradients come: together they are one step, at the backward's
            # end.
            self._in_backward.append(id(optimizer))
            return Verdict.BROKEN if changed else Verdict.NOTHING
        verdict = self._add(id(optimizer))
        return Verdict.BROKEN if changed else verdict

    def backward_ended(self):
        self.backward_seen = True
        if self.kind == "optimizer" and self._in_backward:
            key = frozenset(self._in_backward)
            self._in_backward.clear()
            return self._add(key)
        if self.kind == "module" and self.choice == "auto":
            self.kind = None  # a module that is trained: something else must say where its iterations end
            self.passed, self._pattern, self._events = 0, Pattern(), 0
            return Verdict.BROKEN
        return Verdict.NOTHING

    def period_ended(self, passed):
        """The ops have repeated, and the next one begins an iteration; `passed` went by before the first such."""
        if self.kind != "period":
            if self.kind is not None:
                return Verdict.NOTHING
            self.kind = "period"
        self.passed = max(self.passed + 1, passed)
        return Verdict.END

    def module_counts(self, module, gradients_on):
        """An outermost module call is about to be judged: whether such calls are iterations. In a block without a
        warm-up that has to be known at the first one, whose outputs are kept then: without gradients, and of no module
        that is to be trained."""
        is_open = self.choice == "auto" and self.kind is None
        if is_open and self._in_block and not self._may_be_inference and not gradients_on:
            if not self.backward_seen and not unstepped_optimizers(self._torch, [], [module]):
                self._may_be_inference = True
                self.kind = "module"
        return self.kind == "module"

    def module_called(self, module):
        """An outermost module call has returned."""
        if id(module) not in self._called and len(self._called) < self.MOST_MODULES:
            self._called[id(module)] = weakref.ref(module)
        if self.choice == "auto" and type(module).__module__.startswith("torch.nn.utils."):
            return Verdict.NOTHING  # a parametrization: each look at the weight calls it, also while its model is built
        if self.choice == "auto" and self.kind is None and self._may_be_inference:
            if self.backward_seen or not self._in_block and has_optimizers(self._torch):
                return Verdict.NOTHING
            self.kind = "module"
        return self._add(id(module)) if self.kind == "module" else Verdict.NOTHING


def has_optimizers(torch):
    """Whether an optimizer was ever made: its class is marked then."""
    pending = [torch.optim.Optimizer]
    while pending:
        kind = pending.pop()
        if getattr(kind.step, "hooked", False):
            return True
        pending.extend(kind.__subclasses__())
    return False
