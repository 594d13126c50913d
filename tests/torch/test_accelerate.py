"""crucible.accelerate against eager twins: whatever is changed between two calls, the next ones do what eager does.

CRUCIBLE_INJECTIONS=10000 makes the full count of changes; the suite makes fewer."""

import gc
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["CRUCIBLE_BUILD"], "python"))

import torch

import crucible
from injected_changes import CALLS, CHANGES, Call, World

INJECTIONS = int(os.environ.get("CRUCIBLE_INJECTIONS", "300"))


def is_near(a, b, share=1e-3):
    if a is None or b is None:
        return a is None and b is None
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = a.detach(), b.detach()
    if torch.equal(a, b):
        return True
    a, b = a.double(), b.double()
    finite = b.isfinite()
    if not torch.equal(a.isfinite(), finite):
        return False
    gap = torch.where(finite, (a - b).abs(), 0.0)
    return bool((gap <= share * torch.where(finite, b.abs(), 0.0).max().clamp_min(1e-3)).all()) if b.numel() else True


class Injected(unittest.TestCase):

    def sure(self, is_right, say):
        """`say()` tells what is wrong: text of tensors takes longer than all else of a call."""
        if not is_right:
            self.fail(say())

    def make_call(self, world, call):
        """(what it returned or the type of its error, torch's random state afterwards)."""
        arguments = call.arguments(world)
        torch.default_generator.manual_seed(call.seed + 1)
        with call.around():
            try:
                result = world.step(*arguments)
            except Exception as error:
                return type(error), torch.get_rng_state()
        return result, torch.get_rng_state()

    def compare(self, eager, ours, call, what):
        ours.step.wait(60)
        share = 0.05 if "autocast" in what else 1e-3  # computed in bf16: roundings of eight bits, handed on

        def near(a, b):
            return is_near(a, b, share)

        theirs, their_state = self.make_call(eager, call)
        mine, my_state = self.make_call(ours, call)
        if isinstance(theirs, type):
            self.assertEqual(mine, theirs, what)
        else:
            self.assertNotIsInstance(mine, type, f"{what}: raised {mine}")
            for a, b in zip(mine, theirs):
                self.sure(near(a, b), lambda: f"{what}: {a} is returned, eager returns {b}")
                self.assertEqual(a.requires_grad and a.grad_fn is None, b.requires_grad and b.grad_fn is None, what)
        self.assertTrue(torch.equal(my_state, their_state), f"{what}: other random numbers were drawn")
        mine, theirs = ours.tensors(), eager.tensors()
        self.assertEqual(mine.keys(), theirs.keys(), what)
        noisy = isinstance(eager.optimizer, (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop))
        for name, value in theirs.items():
            is_close = near(mine[name], value)
            if not is_close and noisy and name in dict(eager.net.named_parameters()):
                # A gradient that is rounding noise moves by the rate in either direction; it is judged itself.
                is_close = bool(((mine[name] - value).abs() <= 0.05).all())
            self.sure(is_close, lambda: f"{what}: {name} is {mine[name]}, eager's is {value}")
        mine, theirs = ours.gradients(), eager.gradients()
        finite = [g for g in theirs.values() if g is not None and g.isfinite().all()]
        largest = max((float(g.abs().max()) for g in finite), default=0)
        for name, value in theirs.items():
            is_close = near(mine[name], value)
            if not is_close and value is not None and mine[name] is not None:
                is_close = bool(((mine[name] - value).abs() <= 1e-5 * largest).all())
            self.sure(is_close, lambda: f"{what}: the gradient of {name} is {mine[name]}, eager's is {value}")
        self.sure(not ours.step._mismatches, lambda: f"{what}\n{ours.step.report()}")
        with torch.no_grad():  # from the same start again
            mine = ours.tensors()
            for name, value in eager.tensors().items():
                mine[name].copy_(value)

    def run_world(self, number, injections, source):
        eager, ours = World(number, False), World(number, True)
        for _ in range(8):
            self.compare(eager, ours, Call(source), "at first")
        # A few of the changes, again and again in any order: their variants come back, compiled.
        changes, calls = source.sample(sorted(CHANGES), 6), source.sample(sorted(CALLS), 4)
        for count in range(injections):
            call, undos, what = Call(source), [], ""
            kind = source.random()
            if kind < 0.6:
                name = source.choice(changes)
                what = f"world {number}, injection {count}, {name}"
                for world in (eager, ours):
                    undo = CHANGES[name](world)
                    if undo is not None:
                        undos.append(undo)
            elif kind < 0.9:
                name = source.choice(calls)
                what = f"world {number}, injection {count}, {name}"
                CALLS[name](call)
            else:
                what = f"world {number}, injection {count}, nothing"
            for repeat in range(source.choice((1, 1, 2, 6))):
                call.seed += 2
                self.compare(eager, ours, call, f"{what}, call {repeat}")
            for undo in reversed(undos):
                undo()
            self.compare(eager, ours, Call(source), f"{what}, undone")
        return ours.step.report()

    def test_whatever_changes(self):
        source = random.Random(int(os.environ.get("CRUCIBLE_SEED", "1")))
        torch.set_num_threads(1)
        left, number, compiled, calls = INJECTIONS, 0, 0, 0
        while left > 0:
            report = self.run_world(number, min(left, 100), source)
            compiled, calls = compiled + report.compiled_calls, calls + report.calls
            left, number = left - 100, number + 1
            if "CRUCIBLE_SHOW" in os.environ:
                print(report, flush=True)
            gc.collect()
        print(f"{INJECTIONS} changes, {compiled} of {calls} calls compiled", file=sys.stderr)
        self.assertGreater(compiled, calls // 5)


class Judged(unittest.TestCase):

    def test_what_is_nothing_but_rounding_is_no_mistake(self):
        """All rows are alike, and a batch norm divides what is left of their difference by nearly nothing: the exact
        gradients are zero, and eager is as far from them as a compiled call."""
        torch.set_num_threads(1)
        for number in (1, 2, 3, 4):
            world, source = World(number, True, check_every=1), random.Random(number)
            for block in world.net.blocks:
                block.drop.p = 0.0
            for _ in range(50):
                call = Call(source)
                call.arrange = lambda x, y: (x[:1].expand(x.shape[0], -1), y)
                x, y = call.arguments(world)
                world.step(x, y)
                world.step.wait(60)
            report = world.step.report()
            self.assertFalse(report.mismatches, f"world {number}\n{report}")
            self.assertGreater(report.checks, 30, str(report))


class Meanwhile(unittest.TestCase):
    """What the code does is looked at when calls are recorded, not only when their variant comes up."""

    def start(self):
        torch.manual_seed(0)
        model, seen = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh()), []
        step = crucible.accelerate(lambda x: model(x).detach() * 2)

        def count(*_):
            seen.append(1)

        def call(times):
            for _ in range(times):
                step(torch.randn(3, 4))
                step.wait(60)

        return model, step, call, lambda: model[1].register_forward_hook(count), seen

    def test_a_hook_that_comes_before_the_recording(self):
        model, step, call, add, seen = self.start()
        call(1)
        add()
        call(20)
        self.assertEqual(len(seen), 20, str(step.report()))
        self.assertEqual(step.report().compiled_calls, 0)

    def test_a_hook_that_comes_between_recorded_calls(self):
        for before in (2, 3):
            model, step, call, add, seen = self.start()
            call(before)
            add()
            call(20)
            self.assertEqual(len(seen), 20, str(step.report()))

    def test_other_variants_stay(self):
        model, step, call, add, seen = self.start()
        call(8)
        self.assertEqual(step.report().tier, "compiled")
        compiled = step.report().compiled_calls
        handle = add()
        call(5)
        self.assertEqual(len(seen), 5)
        handle.remove()
        call(5)
        self.assertEqual(step.report().compiled_calls, compiled + 5, str(step.report()))
        add()
        call(60)
        self.assertEqual(len(seen), 65)


if __name__ == "__main__":
    unittest.main()
