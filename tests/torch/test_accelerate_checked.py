"""Calls that are checked, watched or turned: what a wrong kernel, modes and hooks, changes between observed calls do to
compiled ones."""

import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["CRUCIBLE_BUILD"], "python"))

import torch
from torch import nn
from torch.nn import functional as F

import crucible

from test_accelerate_steps import data, net, plain


class WrongFromCallThree:
    """A compiled program whose kernels are right twice, and wrong from then on."""

    def __init__(self, program, parameter):
        self._program, self._parameter, self._runs = program, parameter, 0

    def __getattr__(self, name):
        return getattr(self._program, name)

    def wrong(self, result, parameter):
        self._runs += 1
        if self._runs >= 3:
            with torch.no_grad():
                parameter[0] += 0.01
        return result

    def run(self, tensors, numbers):
        return self.wrong(self._program.run(tensors, numbers), self._parameter)

    def run_beside(self, beside, tensors, numbers):
        """In a check: the parameter's stand-in is the only one of its size."""
        (copy, ) = [tensor for _, tensor in beside if tensor.shape == self._parameter.shape]
        return self.wrong(self._program.run_beside(beside, tensors, numbers), copy)


class Planted(unittest.TestCase):
    """A wrong kernel is found at the next check, told, and training goes on in eager."""

    def start(self, **options):
        torch.manual_seed(0)
        step, model, _ = plain_sgd()
        step = crucible.accelerate(step, **options)
        twin_step, twin, _ = (torch.manual_seed(0), plain_sgd())[1]
        for number in range(30):
            x, y = data(number)
            step(x, y)
            twin_step(x, y)
            step.wait(60)
            if step.report().compiled_calls == 1:
                break
        variant = step._every_variant()[0]
        variant._program = WrongFromCallThree(variant._program, model[0].bias)
        return step, model, twin_step, twin

    def test_it_is_found_and_told_and_eager_goes_on(self):
        step, model, twin_step, twin = self.start()
        for number in range(100, 140):
            x, y = data(number)
            loss, expected = step(x, y), twin_step(x, y)
            report = step.report()
            if not report.mismatches:  # what calls between the two checks have done is what this cannot undo
                with torch.no_grad():
                    for a, b in zip(model.state_dict().values(), twin.state_dict().values()):
                        a.copy_(b)
            else:
                torch.testing.assert_close(loss, expected)
                for a, b in zip(model.state_dict().values(), twin.state_dict().values()):
                    torch.testing.assert_close(a, b)
        self.assertEqual(report.tier, "eager", str(report))
        self.assertEqual(len(report.mismatches), 1, str(report))
        self.assertRegex(report.mismatches[0], r"compiled call 4 of variant 0: .*0\.bias differs by .* kept in /")
        kept = report.mismatches[0].rpartition("kept in ")[2]
        self.assertEqual(torch.load(kept, weights_only=False)["function"], "step")
        os.unlink(kept)

    def test_it_is_raised_where_that_is_asked_for(self):
        from crucible_torch.accelerate.policy import Mismatch

        step, _, _, _ = self.start(on_mismatch="raise")
        with self.assertRaisesRegex(Mismatch, "compiled call 4"):
            for number in range(100, 140):
                step(*data(number))
        step(*data(0))  # and goes on


class Frozen(unittest.TestCase):

    def test_a_gradient_that_is_left_is_cleared(self):
        """A parameter is frozen and thawed between calls: what it had is gone after the next one, as in eager."""
        twins = []
        for accelerates in (False, True):
            torch.manual_seed(0)
            step, model, _ = plain_sgd()
            twins.append((crucible.accelerate(step) if accelerates else step, model))
        for number in range(48):
            for _, model in twins:
                model[2].weight.requires_grad_(number // 8 % 2 == 0)
            for step, _ in twins:
                step(*data(number))
            twins[1][0].wait(60)
            for ours, theirs in zip(twins[1][1].parameters(), twins[0][1].parameters()):
                self.assertEqual(ours.grad is None, theirs.grad is None, number)
                torch.testing.assert_close(ours, theirs)
        self.assertGreater(twins[1][0].report().compiled_calls, 16, str(twins[1][0].report()))


class Between(unittest.TestCase):

    def test_states_that_are_changed_between_observed_calls(self):
        """What somebody adds to a parameter is read from where the step's own result goes."""

        def step_of(model, optimizer):

            def step(x, y):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                return loss

            return step

        torch.manual_seed(0)
        model = net()
        twin = copy.deepcopy(model)
        step = crucible.accelerate(step_of(model, torch.optim.SGD(model.parameters(), lr=0.05)))
        expected = step_of(twin, torch.optim.SGD(twin.parameters(), lr=0.05))
        for number in range(24):
            with torch.no_grad():
                for each in (model, twin):
                    each[2].bias.add_(0.01)
            torch.testing.assert_close(step(*data(number)), expected(*data(number)))
            torch.testing.assert_close(model.state_dict(), twin.state_dict())
            step.wait(60)
        self.assertGreater(step.report().compiled_calls, 12, str(step.report()))


class Waiting(unittest.TestCase):

    def test_what_changes_while_another_is_observed(self):
        """The verdict is on what there is when the recording begins, not when it was first tried."""
        shown = []
        models = [net(), net()]
        steps = [crucible.accelerate(plain(model, torch.optim.SGD(model.parameters(), lr=0.01))[0]) for model in models]
        first, second = steps
        for number in range(2):
            first(*data(number))  # one is recorded
        for number in range(3):
            second(*data(number))  # it waits
        models[1][0].register_forward_hook(lambda module, given, result: shown.append(number))
        for number in range(2, 6):
            first(*data(number))
            first.wait(60)
        for number in range(20):
            second(*data(number))
            second.wait(60)
        self.assertEqual(shown, list(range(20)), str(second.report()))


class Watched(unittest.TestCase):
    """Calls under something that sees every op, or every tensor that is saved, are eager, however many there are."""

    def calls(self, step, count):
        for number in range(count):
            step(*data(number))
            step.wait(60)

    def check(self, around, said):
        torch.manual_seed(0)
        step, _, _ = plain_sgd()
        step = crucible.accelerate(step)
        with around:
            self.calls(step, 12)
        self.assertEqual(step.report().compiled_calls, 0, str(step.report()))
        self.calls(step, 12)
        before = step.report().compiled_calls
        self.assertGreater(before, 4, str(step.report()))
        with around:
            self.calls(step, 4)
        report = step.report()
        self.assertEqual(report.compiled_calls, before, str(report))
        self.assertTrue(any(said in reason for reason in report.eager_calls), str(report))

    def test_anomaly_detection(self):
        self.check(torch.autograd.detect_anomaly(), "anomaly detection")

    def test_saved_tensors_hooks(self):
        packed = []

        def pack(tensor):
            packed.append(tensor.shape)
            return tensor

        self.check(torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), "saved_tensors_hooks")
        self.assertEqual(len(packed) % 16, 0)  # twelve calls and four, all of them
        self.assertGreater(len(packed), 0)

    def test_a_mode(self):
        from torch.utils._python_dispatch import TorchDispatchMode

        class Seen(TorchDispatchMode):
            ops = 0

            def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
                self.ops += 1
                return operator(*args, **(kwargs or {}))

        mode = Seen()
        self.check(mode, "dispatch or function mode")
        self.assertEqual(mode.ops % 16, 0)

    def test_a_transform(self):
        net_ = net()
        step = crucible.accelerate(lambda x: net_(x).square().sum())
        expected = torch.func.grad(lambda x: net_(x).square().sum())(data(0)[0])
        for number in range(12):
            got = torch.func.grad(step)(data(0)[0])
            torch.testing.assert_close(got, expected)
            step.wait(60)
        self.assertEqual(step.report().compiled_calls, 0, str(step.report()))


class Turned(unittest.TestCase):

    def test_a_fused_step_pairs_elements_by_their_places(self):
        for kind in (torch.optim.AdamW, torch.optim.SGD):
            worlds = []
            for _ in range(2):
                torch.manual_seed(0)
                model = net()
                step, _, _ = plain(model, kind(model.parameters(), lr=0.05, fused=True,
                                               **({"momentum": 0.9} if kind is torch.optim.SGD else {})))
                worlds.append((model, step))
            fast = crucible.accelerate(worlds[1][1])
            for number in range(16):
                losses = [step(*data(number)) for step in (worlds[0][1], fast)]
                torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
                fast.wait(60)
                if number == 1:  # its moments are there, and stay as they are
                    for model, _ in worlds:
                        model[0].weight.data = model[0].weight.data.t().contiguous().t()
            self.assertFalse(fast.report().mismatches, str(fast.report()))


def plain_sgd():
    model = net()
    return plain(model, torch.optim.SGD(model.parameters(), lr=0.05))


if __name__ == "__main__":
    unittest.main()
