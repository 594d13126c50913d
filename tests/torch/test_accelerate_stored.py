"""crucible.accelerate on functions that store tensors in what lives longer than the call, each beside an eager twin. Programs
that do so are in accelerated_programs/storing.py; here is what others do with what was stored, and what goes wrong."""

import types
import unittest
from unittest import mock

from accelerated import AccelerateTest, SECONDS, Twins

import crucible
import torch
from torch import nn

from crucible_torch.accelerate import variant as variants


def made(**options):
    """A net whose state the step stores, and which gives its loss."""
    net = nn.GRUCell(8, 16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    found = types.SimpleNamespace(net=net, state=None, **options)

    def step(x):
        state = net(x, found.state)
        found.state = state.detach()
        optimizer.zero_grad()
        loss = state.square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    found.step = step
    return found


class Stored(AccelerateTest):

    def calls(self, twins, count, rows=3):
        """So many calls of both, whose results and states are alike."""
        for _ in range(count):
            x = torch.randn(rows, 8)
            expected, got = twins.eager.step(x), twins.step(x)
            self.assertTrue(twins.step.wait(SECONDS))
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(twins.fast.state, twins.eager.state, rtol=1e-4, atol=1e-6)

    def compiled(self, twins, count=12):
        self.calls(twins, count)
        self.assertGreater(twins.step.report().compiled_calls, count // 2, str(twins.step.report()))
        return twins

    def check_after(self, change):
        """`change(twin)` between two calls, whatever it does to what is stored."""
        twins = self.compiled(Twins(self, made))
        for _ in range(2):
            for each in (twins.eager, twins.fast):
                change(each)
            self.calls(twins, 3)
        self.assertFalse(twins.step.report().mismatches, str(twins.step.report()))
        return twins

    def test_the_state_is_removed(self):
        twins = self.check_after(lambda each: setattr(each, "state", None))
        self.assertIn("is of another kind", str(twins.step.report()))

    def test_the_state_is_another_tensor(self):
        self.check_after(lambda each: setattr(each, "state", torch.ones(3, 16)))

    def test_the_state_is_part_of_a_larger_tensor(self):
        twins = Twins(self, made)
        self.compiled(twins)
        for each in (twins.eager, twins.fast):
            each.state = torch.ones(3, 32)[:, ::2]
        before = twins.step.report().compiled_calls
        self.calls(twins, 4)
        self.assertGreaterEqual(twins.step.report().compiled_calls, before + 3, str(twins.step.report()))

    def test_the_state_is_written_where_it_lies(self):
        self.check_after(lambda each: each.state.mul_(0.5))

    def test_the_state_is_a_parameters_memory(self):
        self.check_after(lambda each: setattr(each, "state", each.net.weight_hh.data[:3]))

    def test_the_state_wants_a_gradient(self):
        self.check_after(lambda each: setattr(each, "state", torch.zeros(3, 16, requires_grad=True)))

    def test_the_state_is_another_type(self):
        twins = self.compiled(Twins(self, made))
        for each in (twins.eager, twins.fast):
            each.state = torch.zeros(3, 16, dtype=torch.double)
        x = torch.randn(3, 8)
        with self.assertRaises(RuntimeError) as expected:
            twins.eager.step(x)
        with self.assertRaises(RuntimeError) as got:
            twins.step(x)
        self.assertEqual(str(got.exception), str(expected.exception))

    def test_old_states_are_not_written_again(self):
        twins = self.compiled(Twins(self, made))
        states = [twins.fast.state]
        kept = [states[0].clone()]
        for _ in range(6):
            twins.step(torch.randn(3, 8))
            states.append(twins.fast.state)
            kept.append(states[-1].clone())
        for state, before in zip(states, kept):
            self.assertTrue(torch.equal(state, before))
        self.assertEqual(len({state.data_ptr() for state in states}), len(states))

    def test_every_call_is_checked(self):
        torch.manual_seed(1)
        eager = made()
        torch.manual_seed(1)
        fast = made()
        step = crucible.accelerate(fast.step, check_every=1)
        for _ in range(12):
            x = torch.randn(3, 8)
            expected, got = eager.step(x), step(x)
            self.assertTrue(step.wait(SECONDS))
            self.assertTrue(torch.equal(got, expected))  # a checked call gives what eager gives
            self.assertTrue(torch.equal(fast.state, eager.state))
        self.assertGreater(step.report().checks, 5)

    def test_a_wrong_state_is_found(self):
        original = variants.Variant.run_beside

        def wrong(self, *given):
            reason, answer = original(self, *given)
            if reason is None:
                answer[1][0].add_(1.0)
            return reason, answer

        with mock.patch.object(variants.Variant, "run_beside", wrong):
            twins = Twins(self, made)
            self.calls(twins, 8)  # and what it leaves behind is eager's
        report = twins.step.report()
        self.assertEqual(len(report.mismatches), 1, str(report))
        self.assertIn("found.state", report.mismatches[0])

    def test_what_is_returned_is_what_is_stored(self):

        def make():
            found = types.SimpleNamespace(net=nn.Linear(8, 8), out=None, both=None)

            def step(x):
                with torch.no_grad():
                    found.out = found.net(x)
                    found.both = (found.out, x)
                return found.out, x

            found.step = step
            return found

        twins = Twins(self, make)
        for call in range(10):
            x = torch.randn(3, 8)
            out, given = twins.step(x)
            twins.step.wait(SECONDS)
            self.assertIs(given, x)
            self.assertIs(out, twins.fast.out, f"call {call}")
            self.assertIs(twins.fast.both[0], out)
            self.assertIs(twins.fast.both[1], x)
            torch.testing.assert_close(out, twins.eager.step(x)[0])
        self.assertGreater(twins.step.report().compiled_calls, 4)

    def test_a_part_of_a_batch_is_stored(self):
        """Observed calls are given copies of it, and what they store is the caller's all the same."""

        def make():
            found = types.SimpleNamespace(net=nn.Linear(8, 8), before=torch.zeros(3, 8))

            def step(x):
                with torch.no_grad():
                    out = found.net(x - found.before)
                found.before = x
                return out

            found.step = step
            return found

        twins = Twins(self, make)
        rows = torch.randn(30, 8)
        for x in rows.split(3):
            torch.testing.assert_close(twins.step(x), twins.eager.step(x))
            twins.step.wait(SECONDS)
            self.assertIs(twins.fast.before, x)
        self.assertFalse(twins.step.report().mismatches)

    def test_a_call_that_fails_leaves_what_eager_leaves(self):

        def make():
            found = types.SimpleNamespace(net=nn.Embedding(4, 8), last=torch.zeros(3, 8))

            def step(rows, more):
                found.last = 0.5 * found.last + found.net(rows).detach()
                return found.net(more).detach() + found.last

            found.step = step
            return found

        twins = Twins(self, make)
        for call in range(16):
            rows, more = torch.randint(0, 4, (3,)), torch.randint(0, 4, (3,))
            if call % 8 == 7:
                for each in (twins.eager.step, twins.step):
                    with self.assertRaises(IndexError):
                        each(rows, more + 4)
            else:
                torch.testing.assert_close(twins.step(rows, more), twins.eager.step(rows, more))
                twins.step.wait(SECONDS)
            torch.testing.assert_close(twins.fast.last, twins.eager.last)
        self.assertGreater(twins.step.report().compiled_calls, 6, str(twins.step.report()))

    def test_a_global_that_another_module_reads(self):

        def make():
            module = types.ModuleType("storing")
            exec("import torch\nlast = None\ndef keep(x):\n    global last\n    last = x\n", vars(module))
            net = nn.Linear(8, 8)

            def step(x):
                with torch.no_grad():
                    before = module.last
                    out = net(x if before is None else x - before)
                    module.keep(out)
                return out + module.last

            return types.SimpleNamespace(net=net, step=step, module=module)

        twins = Twins(self, make)
        for call in range(24):
            x = torch.randn(3, 8)
            if call == 14:
                twins.eager.module.last = twins.fast.module.last = None
            torch.testing.assert_close(twins.step(x), twins.eager.step(x), rtol=1e-4, atol=1e-5)
            twins.step.wait(SECONDS)
            torch.testing.assert_close(twins.fast.module.last, twins.eager.module.last, rtol=1e-4, atol=1e-5)
        self.assertGreater(twins.step.report().compiled_calls, 12, str(twins.step.report()))


def counting():
    """A net whose step is another one in every third call, and which keeps a mean of its losses."""
    net = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    found = types.SimpleNamespace(net=net, count=0, mean=0.0)

    def step(x):
        found.count += 1
        loss = net(x).square().mean()
        if found.count % 3 == 0:
            loss = 0.5 * loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.mean = 0.9 * found.mean + 0.1 * loss.item()
        if x.shape[0] == 7:
            raise ValueError("seven rows")
        return loss.detach()

    found.step = step
    return found


class KeptNumbers(AccelerateTest):

    def calls(self, twins, count):
        for _ in range(count):
            x = torch.randn(3, 8)
            expected, got = twins.eager.step(x), twins.step(x)
            self.assertTrue(twins.step.wait(SECONDS))
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)
            self.compare(twins)

    def compare(self, twins):
        self.assertEqual(twins.fast.count, twins.eager.count)
        self.assertIs(type(twins.fast.count), type(twins.eager.count))
        self.assertIs(type(twins.fast.mean), float)
        self.assertAlmostEqual(twins.fast.mean, twins.eager.mean, delta=1e-5)

    def test_both_ways_are_compiled(self):
        twins = Twins(self, counting)
        self.calls(twins, 40)
        report = twins.step.report()
        self.assertGreater(report.compiled_calls, 25, str(report))
        self.assertEqual(sum(each.tier == "compiled" for each in report.variants), 2, str(report))
        self.assertFalse(report.mismatches, str(report))

    def test_somebody_else_sets_them(self):
        for count, mean in ((0, 0.0), (-2, 5.0), (10**30, float("inf")), (2.0, 1.0), (True, -0.0)):
            with self.subTest(count=count):
                twins = Twins(self, counting)
                self.calls(twins, 14)
                for each in (twins.eager, twins.fast):
                    each.count, each.mean = count, mean
                for _ in range(12):
                    x = torch.randn(3, 8)
                    torch.testing.assert_close(twins.step(x), twins.eager.step(x), rtol=1e-4, atol=1e-6)
                    self.assertTrue(twins.step.wait(SECONDS))
                    self.assertEqual(twins.fast.count, twins.eager.count)
                    self.assertIs(type(twins.fast.count), type(twins.eager.count))
                self.assertFalse(twins.step.report().mismatches)

    def test_several_ways_are_no_growing_state(self):

        def make():
            found = types.SimpleNamespace(net=nn.Linear(8, 8), count=-1)

            def step(x):
                found.count = (found.count + 1) % 6
                if found.count < 1:
                    x = x * 2
                elif found.count < 2:
                    x = x + 1
                elif found.count < 3:
                    x = x - 1
                elif found.count < 4:
                    x = x / 2
                elif found.count < 5:
                    x = x * x
                with torch.no_grad():
                    return found.net(x)

            found.step = step
            return found

        twins = Twins(self, make)
        for _ in range(150):
            x = torch.randn(3, 8)
            torch.testing.assert_close(twins.step(x), twins.eager.step(x), rtol=1e-4, atol=1e-5)
            twins.step.wait(SECONDS)
        report = twins.step.report()
        self.assertFalse(report.reason, str(report))
        self.assertGreater(report.compiled_calls, 40, str(report))

    def test_what_is_looked_at_alone_may_be_missing(self):

        def make():
            found = types.SimpleNamespace(net=nn.Linear(8, 8), last=None)

            def step(x):
                with torch.no_grad():
                    found.last = found.net(x)
                if x.shape[0] == 7:
                    raise ValueError("seven rows")
                return found.last.sum()

            found.step = step
            return found

        for check_every in (1, 1024):
            twins = Twins(self, make, check_every=check_every)
            for call in range(16):
                x = torch.randn(3, 8)
                if call > 8:
                    del twins.fast.last, twins.eager.last
                torch.testing.assert_close(twins.step(x), twins.eager.step(x))
                twins.step.wait(SECONDS)
                torch.testing.assert_close(twins.fast.last, twins.eager.last)

    def test_a_call_that_raises_leaves_numbers(self):
        """In an observed call as well: nothing that follows numbers is left behind."""
        twins = Twins(self, counting)
        for _ in range(8):
            x = torch.randn(7, 8)
            for step in (twins.eager.step, twins.step):
                with self.assertRaisesRegex(ValueError, "seven rows"):
                    step(x)
            self.compare(twins)
            self.calls(twins, 1)


if __name__ == "__main__":
    unittest.main()
