"""What the tests of crucible.accelerate share: a program twice from one seed, once eager and once accelerated, whose
results and states are compared after every call."""

import gc
import os
import sys
import types

from support import BUILD, RecorderTest

sys.path.insert(0, os.path.join(BUILD, "python"))

import crucible
import torch
import torch._dynamo  # as the first optimizer does

CLOSE = 1e-4  # of a tensor's largest magnitude: verification's own tolerance
SMALL = 1e-6  # of what is nothing but rounding
SECONDS = 120  # for which a compiler may be waited

gc.freeze()


def train_step(width=16, optimizer=torch.optim.SGD, dropout=0.0, **options):
    """A small net, its optimizer, and a step that closes over both. The step's result is its loss."""
    net = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.Tanh(), torch.nn.Dropout(dropout),
                              torch.nn.Linear(width, 1))
    optimizer = optimizer(net.parameters(), **(options or {"lr": 0.01, "momentum": 0.9}))

    def step(x, y):
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return types.SimpleNamespace(net=net, optimizer=optimizer, step=step)


def batch(rows=4):
    return torch.randn(rows, 8), torch.randn(rows, 1)


class Twins:
    """`make()` gives a namespace with `step`, and `net` where there is one. `eager` and `fast` are two of them."""

    def __init__(self, case, make=train_step, **options):
        self.case = case
        torch.manual_seed(1)
        self.eager = make()
        torch.manual_seed(1)
        self.fast = make()
        self.step = self.fast.step = crucible.accelerate(self.fast.step, **options)
        torch.manual_seed(2)

    def both(self, change):
        """The same to both, from the same random numbers."""
        state = torch.get_rng_state()
        expected = change(self.eager)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        got = change(self.fast)
        self.case.assertTrue(torch.equal(after, torch.get_rng_state()), "other random numbers were drawn")
        return got, expected

    def call(self, *args, **kwargs):
        got, expected = self.both(lambda one: one.step(*args, **kwargs))
        self.case.assert_close(got, expected)
        self.compare()
        return got

    def compare(self):
        if hasattr(self.eager, "net"):
            self.case.assert_close(self.fast.net.state_dict(), self.eager.net.state_dict())
        if hasattr(self.eager, "optimizer"):
            mine, theirs = (one.optimizer.state_dict()["state"] for one in (self.fast, self.eager))
            self.case.assert_close(mine, theirs)

    def settle(self, make_batch=batch):
        """Calls until a call is compiled; one more, that is not checked."""
        for _ in range(24):
            self.call(*make_batch())
            self.case.assertTrue(self.step.wait(SECONDS))
            report = self.step.report()
            if report.compiled_calls > 4:
                return self
        self.case.fail(f"no call was compiled:\n{report}")

    def is_compiled(self, calls=4, make_batch=batch):
        """Whether the next calls are compiled, and right."""
        before = self.step.report().compiled_calls
        for _ in range(calls):
            self.call(*make_batch())
        return self.step.report().compiled_calls == before + calls


class AccelerateTest(RecorderTest):

    def setUp(self):
        super().setUp()
        gc.collect()
        torch.manual_seed(0)
        self.end_observations()
        os.environ["CRUCIBLE_CAPSULES"] = self.folder
        self.addCleanup(os.environ.pop, "CRUCIBLE_CAPSULES", None)

    def tearDown(self):
        self.assertFalse(crucible.is_recording())
        self.assertFalse(torch._C._dispatch_tls_is_dispatch_key_included("Fake"))

    @staticmethod
    def end_observations():
        """Of earlier tests, which would hold up this one's."""
        from crucible_torch.accelerate.observe import Observation
        if Observation.holder is not None:
            Observation.holder.drop()

    def assert_close(self, got, expected):
        """The same structure, and tensors within verification's tolerance."""
        mine, spec = torch.utils._pytree.tree_flatten(got)
        theirs, other = torch.utils._pytree.tree_flatten(expected)
        self.assertEqual(spec, other)
        for a, b in zip(mine, theirs):
            if isinstance(b, torch.Tensor):
                self.assertEqual((a.shape, a.dtype, a.stride()), (b.shape, b.dtype, b.stride()))
                has_rounding = b.numel() > 0 and b.dtype.is_floating_point
                allowed = max(CLOSE * float(b.detach().abs().max()), SMALL) if has_rounding else 0.0
                torch.testing.assert_close(a, b, rtol=0, atol=allowed, equal_nan=True)
            else:
                self.assertEqual(a, b)

    def drive(self, call, make_args, seconds=SECONDS):
        """Calls until a call is compiled."""
        for _ in range(24):
            call(*make_args())
            self.assertTrue(call.wait(seconds))
            if call.report().compiled_calls > 4:
                return
        self.fail(f"no call was compiled:\n{call.report()}")
