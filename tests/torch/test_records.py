"""What a record holds: the same through every path, with module, site and phase, for programs small enough to know."""

import unittest

from support import LOOP, RecorderTest, floats, real

# Every kind of argument that a schema can have; each appears below autograd.
KINDS = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(2)
        self.drop = torch.nn.Dropout(0.25)
        self.out = torch.nn.Linear(8, 3)

    def forward(self, x):
        x = self.drop(torch.relu(self.norm(self.conv(x))))
        x = torch.nn.functional.max_pool2d(x, 2)
        return self.out(x.flatten(1))

torch.manual_seed(0)
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
generator = torch.Generator().manual_seed(3)
for step in range(6):
    x = torch.randn(2, 1, 4, 4, generator=generator)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), torch.tensor([0, 2]))
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        a, b = torch.arange(9.0).view(3, 3), torch.ones(3)
        torch.add(a, b, alpha=2, out=torch.empty(3, 3))
        a[torch.tensor([0, 2]), :, None]
        a[:, torch.tensor([True, False, True])]
        torch.div(a, b, rounding_mode="floor")
        a.to(torch.float64, memory_format=torch.contiguous_format, copy=True)
        a.to(torch.complex64).mul(2j)
        torch.full((2,), 1 + 2j)
        torch.rand(3, generator=generator)
        torch.randperm(5)
        torch.empty(2, 3, dtype=torch.int16, device="cpu")
        torch.nn.functional.scaled_dot_product_attention(*torch.randn(3, 1, 2, 4, 8).unbind(0), is_causal=True)
        torch.stack([a, a]).split([1, 1])
        torch.cat([a, a], dim=1).std(dim=0)
        torch.nn.functional.interpolate(a[None, None], scale_factor=2.0)
        torch.bucketize(a, b)
        torch.linalg.svd(a)
        torch.searchsorted(b, a, side="right")
        torch.var_mean(a.clamp(min=1), dim=[0, 1], correction=0)
        torch.quantize_per_tensor(a, 0.1, 0, torch.qint8).dequantize()
        torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (3, 3)).to_dense()
        torch.nn.functional.embedding_bag(torch.tensor([[0, 1]]), a)
        torch.set_printoptions()
        float(a.sum())
"""


class Paths(RecorderTest):
    def content(self, text, kernels):
        return self.recorded(text, options=("--iterations", "2", "--kernels", kernels))

    def test_typed_boxed_and_per_op_are_equal(self):
        for text in (LOOP, KINDS):
            typed, boxed, per_op = (self.content(text, kernels) for kernels in ("typed", "boxed", "per_op"))
            self.assertIn("typed kernels", typed.metadata["frontend"])
            self.assertIn("boxed fallback", boxed.metadata["frontend"])
            self.assertIn("boxed kernel per operator", per_op.metadata["frontend"])
            for other in (boxed, per_op):
                self.assertEqual([op["name"] for op in typed.ops], [op["name"] for op in other.ops])
                for ours, theirs in zip(typed.ops, other.ops):
                    self.assertEqual(ours, theirs)
                self.assertEqual(typed.content(), other.content())

    def test_kinds_of_arguments(self):
        trace = self.content(KINDS, "typed")
        self.assertEqual(trace.one("aten::div.Tensor_mode")["args"][2], "floor")
        self.assertEqual(trace.one("aten::rand.generator")["args"][1], {"generator": "cpu"})
        self.assertEqual(trace.one("aten::full")["args"][1], {"complex": [1.0, 2.0]})
        self.assertEqual([["tensor" in item if item != "undefined" else None
                           for item in op["args"][1]]
                          for op in trace.ops_named("aten::index.Tensor", 0)], [[True], [None, True]],
                         "Tensor?[] with its gaps")
        empty = [op for op in trace.ops_named("aten::empty.memory_format", 0) if op["args"][0] == [2, 3]][0]
        self.assertEqual(empty["args"][1], {"dtype": "i16"})
        self.assertEqual(empty["args"][3], {"device": "cpu"})
        out = trace.one("aten::add.out")
        self.assertEqual(out["args"][3], out["outputs"][0], "out= comes back as the result")
        self.assertEqual(out["args"][2], 2, "a Python int stays an integer")
        backward = trace.one("aten::convolution_backward")
        self.assertEqual(backward["args"][-1], [False, True, True])
        self.assertEqual(backward["outputs"][0], "undefined", "a gradient that nobody asked for")
        self.assertEqual(len(trace.one("aten::split_with_sizes")["outputs"][0]), 2)
        norm = trace.ops_named("aten::native_batch_norm", 0)[0]
        self.assertEqual([real(norm["args"][6]), real(norm["args"][7])], [0.1, 1e-05], "doubles keep every bit")
        self.assertIsInstance(trace.one("aten::_foreach_addcdiv_.ScalarList")["args"][3], list)


class Places(RecorderTest):
    PROGRAM = """
import torch

class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x * self.scale

class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Inner(), Inner()])
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        x = torch.exp(x)
        x = torch.nn.functional.silu(x)
        y = torch.nn.functional.silu(x)  # called where the first was, as far as the framework's own frame tells
        return self.linear(x + y)

model = Outer()
criterion = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def train():
    for _ in range(5):
        x = torch.ones(2, 3)
        loss = criterion(model(x), x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

train()
"""

    def line(self, text):
        return f"program.py:{1 + self.PROGRAM.splitlines().index(text)}"

    def check(self, trace):
        first, second = trace.ops_named("aten::mul.Tensor", 0)[:2]
        self.assertEqual([first["module"], second["module"]], ["blocks.0", "blocks.1"])
        self.assertEqual(first["site"], self.line("        return x * self.scale"))
        self.assertEqual(first["function"], "Inner.forward")
        exponential = trace.one("aten::exp")
        self.assertEqual((exponential["module"], exponential["site"]), ("Outer", self.line("        x = torch.exp(x)")))
        linear = trace.one("aten::addmm")
        self.assertEqual((linear["module"], linear["site"]), ("linear", self.line("        return self.linear(x + y)")))
        here, there = trace.ops_named("aten::silu", 0)
        self.assertEqual((here["module"], here["site"]),
                         ("Outer", self.line("        x = torch.nn.functional.silu(x)")))
        self.assertEqual(int(there["site"].rpartition(":")[2]), 1 + int(here["site"].rpartition(":")[2]))
        loss = trace.one("aten::mse_loss")
        self.assertEqual((loss["module"], loss["site"]),
                         ("MSELoss", self.line("        loss = criterion(model(x), x)")))
        ones = trace.one("aten::ones")
        self.assertEqual((ones["module"], ones["site"], ones["function"]),
                         (None, self.line("        x = torch.ones(2, 3)"), "train"))
        backward = trace.one("aten::mse_loss_backward")
        self.assertEqual((backward["phase"], backward["site"], backward["module"]),
                         (1, self.line("        loss.backward()"), None))
        update = [op for op in trace.iteration_ops(0) if op["phase"] == 2]
        self.assertEqual({op["site"] for op in update}, {self.line("        optimizer.step()")})
        self.assertEqual([op["phase"] for op in trace.iteration_ops(0)],
                         sorted(op["phase"] for op in trace.iteration_ops(0)))
        self.assertEqual({op["thread"] for op in trace.ops}, {0})

    def test_module_site_and_phase(self):
        self.check(self.recorded(self.PROGRAM))

    def test_frames_through_the_public_api(self):
        # Interpreters whose frames we do not read in place use the public API; the records are the same.
        program = """
import sys
import crucible_torch.session as session
original = session.Session.__init__
def patched(self, config, *others):
    original(self, dict(config, read_frames=False), *others)
session.Session.__init__ = patched
"""
        in_place = self.recorded(self.PROGRAM)
        through_api = self.recorded(program + self.PROGRAM)
        strip = [{**op, "site": None} for op in through_api.ops]
        self.assertEqual([{**op, "site": None} for op in in_place.ops], strip)
        shift = len(program.splitlines())
        moved = [f"program.py:{int(op['site'].rpartition(':')[2]) + shift}" for op in in_place.ops]
        self.assertEqual(moved, [op["site"] for op in through_api.ops])


class Iterations(RecorderTest):
    def test_explicit_steps(self):
        program = LOOP.replace("import sys", "import sys\nimport crucible").replace("range(10):\n    optimizer",
                                                                                    "range(10):\n    optimizer")
        program = program.replace("    optimizer.step()",
                                  "    if step % 2:\n        optimizer.step()\n        crucible.step()")
        program = program.replace("    optimizer.zero_grad()", "    if step % 2 == 0:\n        optimizer.zero_grad()")
        trace = self.recorded(program)
        self.assertEqual(len(trace.iterations), 2)
        for iteration in range(2):
            self.assertEqual(len(trace.iterations[iteration]["losses"]), 2, "two backward calls, gradients accumulated")
            self.assertEqual(len(trace.ops_named("aten::tanh", iteration)), 2)

    def test_several_optimizers(self):
        program = LOOP.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", """
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
other = torch.optim.SGD(model[2].parameters(), lr=0.1)
""").replace("    optimizer.step()", "    optimizer.step()\n    other.step()")
        trace = self.recorded(program)
        self.assertEqual([len(trace.ops_named("aten::tanh", iteration)) for iteration in range(2)], [1, 1])

    def test_losses_and_names(self):
        trace = self.recorded(LOOP)
        for iteration in trace.iterations:
            loss = iteration["losses"][0]
            produced = trace.ops[iteration["first_op"]:iteration["first_op"] + iteration["op_count"]]
            mean = [op for op in produced if op["name"] == "aten::mean"][0]
            self.assertEqual(mean["outputs"][0]["tensor"], loss["tensor"])
        named = {external["name"]: external["role"] for external in trace.externals if external["name"]}
        self.assertEqual(named, {"0.weight": 1, "0.bias": 1, "2.weight": 1, "2.bias": 1})
        self.assertEqual({state["name"] for state in trace.final_states}, set(named))

    def test_final_state_and_inputs(self):
        trace = self.recorded(LOOP.replace("loss.backward()\n    optimizer.step()", """loss.backward()
    optimizer.step()
    if step == 3:
        print(model[2].weight.detach().flatten().tolist())
"""))
        final = [state for state in trace.final_states if state["name"] == "2.weight"][0]
        start = [external for external in trace.externals if external["name"] == "2.weight"][0]
        self.assertNotEqual(floats(final["blob"]), floats(start["blob"]))
        inputs = [external for external in trace.externals if external["role"] == 0 and external["blob"]["size"] == 80]
        self.assertEqual([external["iteration"] for external in inputs], [0, 1])
        self.assertNotEqual(inputs[0]["blob"]["hash"], inputs[1]["blob"]["hash"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
