"""Counting PyTorch's memory: what was asked for, when it is given back, and what a step leaves untouched."""

import gc
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import measure_peak  # noqa: E402
import torch  # noqa: E402

COUNTER = measure_peak.Counter(
    os.environ.get("CRUCIBLE_PEAK_ALLOCATOR") or sys.exit("set CRUCIBLE_PEAK_ALLOCATOR to the built library"))


class Blocks(unittest.TestCase):
    def setUp(self):
        gc.collect()
        self.before = COUNTER.alive()
        COUNTER.restart()

    def test_counts_the_bytes_that_were_asked_for(self):
        tensor = torch.empty(1001)
        self.assertEqual(COUNTER.alive() - self.before, 4004)
        self.assertEqual(COUNTER.size(tensor.data_ptr()), 4004)
        view = tensor[3:]
        self.assertEqual(COUNTER.alive() - self.before, 4004)
        del tensor
        self.assertEqual(COUNTER.alive() - self.before, 4004)
        del view
        self.assertEqual(COUNTER.alive(), self.before)

    def test_the_peak_is_the_most_that_was_alive_at_once(self):
        for _ in range(3):
            torch.empty(500)
        kept = torch.empty(100)
        self.assertEqual(COUNTER.peak() - self.before, 2000)
        COUNTER.restart()
        self.assertEqual(COUNTER.peak() - self.before, 400)
        kept.resize_(1000)
        self.assertEqual(COUNTER.alive() - self.before, 4000)
        self.assertEqual(COUNTER.peak() - self.before, 4400)  # while the old content is copied

    def test_a_backward_is_counted(self):
        x = torch.ones(1000, requires_grad=True)
        y = x.exp()
        del y
        COUNTER.restart()
        x.exp().sum().backward()
        # x, its exponential, the sum, its gradient of one, and the gradient of x at the least
        self.assertGreaterEqual(COUNTER.peak() - self.before, 3 * 4000)
        self.assertEqual(COUNTER.alive() - self.before, 2 * 4000)


class Steps(unittest.TestCase):
    def measure(self, build, **options):
        sys.path.insert(0, HERE)
        import zoo
        zoo.MODELS["toy"] = zoo.common.Entry("toy", build, False, ())
        try:
            return measure_peak.measure(COUNTER, "toy", options.get("steps", 5), options.get("skip", 2))
        finally:
            del zoo.MODELS["toy"]

    def test_a_training_step(self):
        def build():
            weight = torch.zeros(256, requires_grad=True)
            optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
            batches, turn = [torch.ones(256) for _ in range(6)], [0]

            def step():
                turn[0] += 1
                optimizer.zero_grad()
                loss = (weight * batches[turn[0] % 6]).sum()
                loss.backward()
                optimizer.step()
                return loss
            return weight, step

        found = self.measure(build)
        self.assertEqual(found["untouched_bytes"], 5 * 1024)  # the batches of other steps
        # weight, momentum, six batches, gradient, and something on the way
        self.assertGreaterEqual(found["peak_bytes"], 9 * 1024)
        self.assertLess(found["peak_bytes"], 12 * 1024)

    def test_the_first_steps_are_not_measured(self):
        def build():
            kept = []

            def step():
                kept.append(1)
                torch.empty(100_000 if len(kept) <= 2 else 100)
                return torch.zeros(())
            return None, step

        self.assertLess(self.measure(build)["peak_bytes"], 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
