"""What is recorded of observed calls of crucible.accelerate: ops, and no bytes of what a compiled call finds where it
lies. So what changes between the calls is nobody's concern, and what counts on bytes is asked in each call."""

import os
import threading
import types
import unittest

from accelerated import SECONDS, AccelerateTest, Twins, batch, crucible, torch, train_step

SMALL_FILE = 256 << 10


class NoBytes(AccelerateTest):
    def recorded(self, make, *args):
        """The file of the observed calls, while it waits for the compiler."""
        from crucible_torch.accelerate.worker import worker
        event = threading.Event()
        worker.submit(lambda: event.wait(SECONDS))
        self.addCleanup(event.set)
        made = make()
        step = crucible.accelerate(made.step)
        for _ in range(4):
            step(*args)
        variant, = step._every_variant()
        self.assertEqual(variant.tier, "compiling", str(step.report()))
        return os.path.getsize(variant._observation.file)

    def test_of_states_gradients_results_and_draws(self):
        """Two million parameters, each with a gradient and two states of its optimizer; masks of dropout."""

        def make():
            net = torch.nn.Sequential(torch.nn.Linear(8, 1 << 16), torch.nn.Dropout(), torch.nn.Linear(1 << 16, 16))
            optimizer = torch.optim.AdamW(net.parameters())

            def step(x):
                optimizer.zero_grad()
                hidden = net[1](net[0](x))
                loss = net[2](hidden).square().mean()
                loss.backward()
                optimizer.step()
                return loss.detach(), hidden.detach()

            return types.SimpleNamespace(step=step)

        self.assertLess(self.recorded(make, torch.randn(4, 8)), SMALL_FILE)

    def test_of_arguments_and_of_what_is_only_read(self):

        def make():
            table = torch.randn(1 << 20)
            return types.SimpleNamespace(step=lambda x: x * 2 + table)

        self.assertLess(self.recorded(make, torch.randn(1 << 20)), SMALL_FILE)


class BetweenCalls(AccelerateTest):
    def test_states_that_are_loaded_between_observed_calls(self):
        twins = Twins(self)
        for number in range(8):
            twins.call(*batch())
            state = torch.randn(16, 8)

            def load(one):
                with torch.no_grad():
                    one.net[0].weight.copy_(state)
                    one.net[3].bias.fill_(number)

            twins.both(load)
            twins.compare()
            self.assertTrue(twins.step.wait(SECONDS))
        self.assertEqual(twins.step.report().tier, "compiled", str(twins.step.report()))
        self.assertTrue(twins.settle().is_compiled())

    def test_a_tensor_that_is_only_read_and_filled_between_calls(self):

        def make():
            made = train_step()
            table = torch.ones(1)
            inner = made.step
            made.step = lambda x, y: inner(x * table, y)
            made.fill = table.fill_
            return made

        twins = Twins(self, make)
        for number in range(32):
            twins.call(*batch())
            twins.both(lambda one: one.fill(1.0 + number % 3))
            self.assertTrue(twins.step.wait(SECONDS))
        report = twins.step.report()
        self.assertGreater(report.compiled_calls, 16, str(report))
        self.assertEqual(report.mismatches, [])

    def test_a_state_that_is_written_and_never_read(self):

        def make():
            made = train_step()
            last = torch.zeros(4, 8)
            inner = made.step

            def step(x, y):
                last.copy_(x)
                return inner(x, y)

            made.step, made.last = step, last
            return made

        twins = Twins(self, make).settle()
        for _ in range(4):
            twins.call(*batch())
            self.assertTrue(torch.equal(twins.fast.last, twins.eager.last))
        self.assertTrue(twins.is_compiled())


class Indices(AccelerateTest):
    """That were the same in all observed calls."""

    @staticmethod
    def make():
        net = torch.nn.Embedding(8, 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rows = torch.tensor([1, 2, 3])

        def step(x):
            optimizer.zero_grad()
            loss = (net(rows) * x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return types.SimpleNamespace(net=net, optimizer=optimizer, step=step, rows=rows)

    def test_one_that_is_outside_is_eager_s_error(self):
        twins = Twins(self, self.make).settle(lambda: (torch.randn(3, 4), ))
        variant, = twins.step._every_variant()
        for outside in (8, -1, 1 << 40):
            ran = variant.compiled_calls
            twins.both(lambda one: one.rows.__setitem__(1, outside))
            x, said = torch.randn(3, 4), []
            for one in (twins.eager, twins.fast):
                with self.assertRaises((IndexError, RuntimeError)) as caught:
                    one.step(x)
                said.append(str(caught.exception))
            self.assertEqual(*said)
            twins.compare()
            self.assertEqual(variant.compiled_calls, ran, "it was answered by what was compiled")
            twins.both(lambda one: one.rows.__setitem__(1, 5))
            for _ in range(2):  # the error has left no gradient: a call without one is another variant's
                twins.call(x)
            self.assertEqual(variant.compiled_calls, ran + 1, str(twins.step.report()))
        self.assertIn("an index is out of range, a mask picks more or fewer, or torch raises for a value",
                      twins.step.report().eager_calls)


    def test_an_argument_that_was_the_same_in_all_observed_calls(self):

        def make():
            net = torch.nn.Embedding(8, 4)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

            def step(rows):
                optimizer.zero_grad()
                loss = net(rows).square().mean()
                loss.backward()
                optimizer.step()
                return loss.detach()

            return types.SimpleNamespace(net=net, optimizer=optimizer, step=step)

        rows = torch.tensor([1, 2, 3])
        twins = Twins(self, make).settle(lambda: (rows.clone(), ))
        said = []
        for one in (twins.eager, twins.fast):
            with self.assertRaises(IndexError) as caught:
                one.step(torch.tensor([1, 8, 3]))
            said.append(str(caught.exception))
        self.assertEqual(*said)
        twins.compare()


if __name__ == "__main__":
    unittest.main()
