"""Whole programs as people write them (accelerated_programs), each beside an eager twin from one seed: results and random
numbers of every call, states now and then. What can be compiled must be, and what stays eager must say why."""

import importlib
import os
import types
import unittest

from accelerated import AccelerateTest
import crucible
import torch
from torch.utils import _pytree as pytree

from accelerated_programs.register import EAGER, PROGRAMS
from crucible_torch.accelerate.puts import GradientFlag, Put
from crucible_torch.accelerate.schedules import Kept

CALLS = 24
CLOSE = 3e-4
for part in ("counting", "deciding", "given", "keeping", "losses", "models", "sizes", "storing", "switching",
             "training", "writing"):
    importlib.import_module(f"accelerated_programs.{part}")


def flat(result):
    """Tensors and values of a result, those in dataclasses and namespaces too."""
    found = []
    for leaf in pytree.tree_leaves(result):
        is_object = hasattr(leaf, "__dataclass_fields__") or isinstance(leaf, types.SimpleNamespace)
        found += flat(list(vars(leaf).values())) if is_object else [leaf]
    return found


def outcome(call, program):
    """What a call gives, or the error that it raises."""
    try:
        return call(*program.batch())
    except Exception as error:
        return [type(error).__name__, str(error)]


class Programs(AccelerateTest):

    def compare(self, got, expected, close, what):
        self.assertEqual(len(got), len(expected), what)
        for mine, theirs in zip(got, expected):
            self.assertIs(type(mine), type(theirs), what)
            if isinstance(theirs, torch.Tensor) and torch.ops.aten.is_non_overlapping_and_dense(theirs):
                self.assertEqual(mine.stride(), theirs.stride(), what)
            if isinstance(theirs, torch.Tensor):
                size = float(theirs.detach().nan_to_num().abs().max()) if theirs.numel() else 0.0
                torch.testing.assert_close(mine, theirs, rtol=0, atol=close * max(size, 1e-2), equal_nan=True,
                                           msg=lambda text: f"{what}: {text}")
            elif isinstance(theirs, float):
                self.assertAlmostEqual(mine, theirs, delta=close * max(abs(theirs), 1e-2), msg=what)
            else:
                self.assertEqual(mine, theirs, what)

    def check(self, name):
        torch.manual_seed(1)
        eager = PROGRAMS[name]()
        torch.manual_seed(1)
        fast = PROGRAMS[name]()
        fast.step = crucible.accelerate(fast.step)
        torch.manual_seed(2)
        around = getattr(eager, "around", lambda step: step), getattr(fast, "around", lambda step: step)
        calls_of = [wrap(each.step) for wrap, each in zip(around, (eager, fast))]
        close = getattr(eager, "tol", CLOSE)
        calls = getattr(eager, "calls", CALLS)
        for number in range(calls):
            state = torch.get_rng_state()
            expected = outcome(calls_of[0], eager)
            after = torch.get_rng_state()
            torch.set_rng_state(state)
            got = outcome(calls_of[1], fast)
            self.assertTrue(torch.equal(after, torch.get_rng_state()), f"call {number}: other random numbers")
            fast.step.wait(120)
            for each, result in ((eager, expected), (fast, got)):
                getattr(each, "after", lambda _: None)(result)
            self.compare(flat(got), flat(expected), close, f"call {number}\n{fast.step.report()}")
            if number % 8 == 0 or number == calls - 1:
                mine, theirs = (list(each.net.state_dict().values()) for each in (fast, eager))
                self.compare(mine, theirs, 10 * close, f"the state after call {number}\n{fast.step.report()}")
        report = fast.step.report()
        if "CRUCIBLE_SHOW" in os.environ:
            print(f"{name}: {report}", flush=True)
        self.assertFalse(report.mismatches, str(report))
        if name in EAGER:
            self.assertEqual(report.compiled_calls, 0, str(report))
            self.assertIn(EAGER[name], str(report))
        else:
            self.assertGreaterEqual(report.compiled_calls, calls // 2, str(report))


for each in PROGRAMS:
    setattr(Programs, f"test_{each}", lambda self, name=each: self.check(name))

class Settings(unittest.TestCase):

    def test_a_call_that_is_made_once_more_begins_where_it_did(self):
        net, flags = torch.nn.Linear(2, 2), {"mode": "a"}
        puts = [Put(vars(net), "training", "net.training"), Put(flags, "mode", "flags['mode']"),
                GradientFlag(net.weight, "net.weight")]
        kept = Kept([], [], [], puts)
        net.eval().requires_grad_(False)
        flags["mode"] = "b"
        kept.put_back()
        self.assertEqual((net.training, net.weight.requires_grad, flags), (True, True, {"mode": "a"}))


if __name__ == "__main__":
    unittest.main()
