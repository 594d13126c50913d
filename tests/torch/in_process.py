"""Recording inside the test's own process, through crucible.record(): one import of torch for many recordings."""

import gc
import os
import sys

from support import BUILD, CRUCIBLE, DEVICE, RecorderTest

sys.path.insert(0, os.path.join(BUILD, "python"))

import crucible
import torch
import torch._dynamo  # as the first optimizer does

if DEVICE:
    import apart_default  # noqa: F401

gc.freeze()  # each recording and each test collects what is left of the last one: not of torch, too


class InProcessTest(RecorderTest):
    """`self.block(...)` is crucible.record() on this test's file; `self.trace()` reads it back."""

    def setUp(self):
        super().setUp()
        gc.collect()  # optimizers of an earlier test are not this program's
        torch.manual_seed(0)

    def tearDown(self):
        self.assertFalse(crucible.is_recording())
        self.assertFalse(torch._C._dispatch_tls_is_dispatch_key_included("Fake"))
        self.assertEqual(torch.nn.Module.__call__.__name__, "_wrapped_call_impl")
        self.assertEqual((torch.autograd.backward.__module__, torch.autograd.grad.__module__), ("torch.autograd",) * 2)

    def block(self, **options):
        options.setdefault("iterations", 3)
        return crucible.record(self.output, **options)

    def losses(self, trace):
        return [[loss["value"] for loss in iteration["losses"]] for iteration in trace.iterations]

    def op_counts(self, trace):
        return [iteration["op_count"] for iteration in trace.iterations]

    def names(self, trace, iteration):
        return [op["name"] for op in trace.iteration_ops(iteration)]


def model(width=4):
    return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 1))
