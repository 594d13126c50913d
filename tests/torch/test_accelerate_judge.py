"""How a checked call of crucible.accelerate is compared with eager: the native pass against the same by torch's ops."""

import os
import threading
import unittest

from accelerated import SECONDS, AccelerateTest, torch

from crucible_torch.accelerate import judge

NAN, INFINITY = float("nan"), float("inf")


def by_ops(a, b, sizes=None, bound=0.0, room=0.0):
    """(whether NaN and infinities stand at the same places, the largest gap, the largest of `b`)."""
    a, b = a.detach().double(), b.detach().double()
    is_same = torch.equal(a.isnan(), b.isnan()) and torch.equal(a == INFINITY, b == INFINITY) and torch.equal(
        a == -INFINITY, b == -INFINITY)
    finite = b.isfinite()
    gap = torch.where(finite, (a - b).abs(), 0.0)
    if sizes is not None:
        gap = torch.where((sizes.double().abs() <= bound) & (gap <= room), 0.0, gap)
    return is_same, gap.max().item(), torch.where(finite, b.abs(), 0.0).max().item()


class Gap(AccelerateTest):
    def compare(self, a, b, excused=None, room=0.0):
        same, gap, largest = judge._gap(a, b, excused, room)
        expected = by_ops(a, b, *((excused.sizes, excused.bound, room) if excused else ()))
        self.assertEqual(same, expected[0])
        if same:
            self.assertAlmostEqual(gap, expected[1], delta=1e-6 * max(expected[1], 1e-30))
        self.assertAlmostEqual(largest, expected[2], delta=1e-6 * max(expected[2], 1e-30))

    def test_every_type_and_size(self):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            for size in (1, 15, 16, 17, 1000, 200_003):
                a, b = torch.randn(size).to(dtype), torch.randn(size).to(dtype)
                self.compare(a, b)
                self.compare(a, b, judge.Excused(torch.randn(size).to(dtype), 0.5), 0.3)
                self.assertEqual(judge._gap(a, a)[1], 0.0)

    def test_one_element_anywhere_is_seen(self):
        for size, place in ((1, 0), (40, 0), (40, 31), (40, 32), (40, 39), (300_000, 299_999), (300_000, 131_072)):
            a = torch.randn(size)
            for value in (5e3, -5e3, NAN, INFINITY, -INFINITY):
                b = a.clone()
                b[place] = value
                self.compare(a, b)
                self.compare(b, a)
                self.compare(b, b.clone())
                self.assertIsNone(judge.difference("b", b, b.clone(), 0.0))
                self.assertIsNotNone(judge.difference("b", a, b, 1e-4), (size, place, value))
                self.assertIsNotNone(judge.difference("b", b, a, 1e-4), (size, place, value))

    def test_infinities_of_two_signs_and_nan_are_three_things(self):
        kinds = (1.0, NAN, INFINITY, -INFINITY)
        for one in kinds:
            for other in kinds:
                same = judge._gap(torch.full((20, ), one), torch.full((20, ), other))[0]
                self.assertEqual(same, one is other, (one, other))

    def test_layouts(self):
        a, b = torch.randn(6, 8, 5, 4), torch.randn(6, 8, 5, 4)
        last = b.contiguous(memory_format=torch.channels_last)
        self.compare(a, last)
        self.compare(last, a)
        self.compare(a.transpose(0, 3), b.transpose(0, 3))
        self.compare(a[:, ::2], b[:, ::2])
        self.compare(a, last, judge.Excused(torch.randn(6, 8, 5, 4), 0.7), 1.0)
        self.compare(torch.tensor(2.0), torch.tensor(3.0))
        self.assertIsNotNone(judge.difference("b", a, torch.randn(6, 8, 5), 1.0))
        self.assertIsNone(judge.difference("b", torch.zeros(0), torch.zeros(0), 0.0))

    def test_what_is_excused_has_room_and_no_more(self):
        a, b = torch.ones(64), torch.ones(64)
        sizes = torch.ones(64)
        sizes[7], b[7] = 1e-9, 1.5
        excused = judge.Excused(sizes, 1e-6)
        self.assertIsNone(judge.difference("b", a, b, 1e-4, excused, 0.6))
        self.assertIsNotNone(judge.difference("b", a, b, 1e-4, excused, 0.4))
        b[8] = 1.1
        self.assertIsNotNone(judge.difference("b", a, b, 1e-4, excused, 0.6))

    def test_parameters_whose_gradient_is_noise(self):
        parameter = torch.nn.Parameter(torch.ones(4))
        optimizer = torch.optim.AdamW([parameter], lr=0.01)
        parameter.grad = torch.tensor([1.0, 1e-3, 1e-8, 0.0])
        optimizer.step()
        excused, room = judge.noise_masks([optimizer])[id(parameter)]
        self.assertEqual(room, 0.04)
        self.assertEqual((excused.sizes <= excused.bound).tolist(), [False, False, True, True])


class Priority(AccelerateTest):
    def test_of_the_thread_that_compiles(self):
        from crucible_torch.accelerate.worker import worker
        job = worker.submit(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        self.assertTrue(job.done.wait(SECONDS))
        self.assertEqual(job.program, 3)


if __name__ == "__main__":
    unittest.main()
