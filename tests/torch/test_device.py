"""Recording on a device whose memory the processor may not touch and whose work is done late: device/device.hpp."""

import json
import os
import sys
import unittest

from support import BUILD, CRUCIBLE, DEVICE_FOLDERS, RecorderTest

assert DEVICE_FOLDERS  # which puts the device where programs import it from

HEAD = """
import apart
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.LayerNorm(6),
                            torch.nn.Linear(6, 3)).to("apart")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
data = [torch.randn(5, 8) for _ in range(10)]
"""

STEP = """
for step in range(10):
    x = data[step].to("apart")
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
"""

CHANGED = "memory that something other than an op changed between "


class DeviceTest(RecorderTest):
    def info(self):
        done = self.run_command([CRUCIBLE, "trace", "info", self.output, "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def verify(self):
        done = self.run_command([CRUCIBLE, "replay", self.output, "--verify", "--json", "--backend", "cpu"])
        return json.loads(done.stdout)

    def changes(self):
        return [item["what"] for item in self.info()["not_recorded"] if item["what"].startswith(CHANGED)]


class Training(DeviceTest):
    def test_it_is_recorded_and_verified(self):
        trace = self.recorded(HEAD + STEP)
        self.assertEqual(trace.metadata["device"], "apart:0")
        self.assertEqual(self.info()["not_recorded"], [])
        self.assertTrue(self.verify()["verified"])

    def test_backward_has_the_line_that_called_it(self):
        """On a device it runs on a thread of the engine, which has no Python."""
        trace = self.recorded(HEAD + STEP)
        line = 1 + (HEAD + STEP).split("\n").index("    loss.backward()")
        sites = {op["site"] for op in trace.ops if op["phase"] == 1}
        self.assertEqual(sites, {f"program.py:{line}"})

    def test_optimizers_that_step_inside_backward(self):
        """Their hooks run on the engine's thread."""
        program = HEAD.replace("optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)", """
optimizers = {p: torch.optim.SGD([p], lr=0.1, foreach=False) for p in model.parameters()}
def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(update)
""") + STEP.replace("    optimizer.zero_grad()\n", "").replace("    optimizer.step()\n", "")
        trace = self.recorded(program)
        self.assertEqual({len(trace.ops_named("aten::relu", iteration)) for iteration in range(2)}, {1})
        self.assertTrue(self.verify()["verified"])

    def test_two_devices(self):
        program = HEAD + """
second = torch.nn.Linear(3, 3).to("apart:1")
optimizer.add_param_group({"params": list(second.parameters())})
""" + STEP.replace("model(x)", 'second(model(x).to("apart:1"))')
        trace = self.recorded(program)
        self.assertEqual({storage["device"] for storage in trace.storages} - {"cpu"}, {"apart:0", "apart:1"})
        self.assertTrue(self.verify()["verified"])


class Unseen(DeviceTest):
    """Kernels that are no ops change device memory."""

    def test_a_result_in_the_middle(self):
        self.recorded(HEAD + STEP.replace("model(x)", "run(x)").replace("for step", """
def run(x):
    hidden = model[0](x)
    torch.apart.poke(hidden.detach(), 0.5 + 0.1 * step)
    return model[1:](hidden)

for step"""))
        self.assertIn(CHANGED + "aten::addmm and aten::relu in ", self.changes()[0])
        document = self.verify()
        self.assertFalse(document["verified"])
        self.assertIn("no recorded origin", document["reason"])

    def test_a_parameter(self):
        self.recorded(HEAD + STEP.replace("    loss.backward()", """    torch.apart.poke(model[4].bias.detach(), 1.01)
    loss.backward()"""))
        self.assertIn(CHANGED + "aten::addmm", self.changes()[0])
        self.assertFalse(self.verify()["verified"])

    def test_a_view_taken_to_change_it(self):
        self.recorded(HEAD + STEP + "    torch.apart.poke(model[4].bias.detach(), 1.01)\n")
        self.assertEqual(self.changes()[0].partition(" in ")[0], CHANGED + "aten::detach and aten::addmm")
        self.assertFalse(self.verify()["verified"])

    def test_a_parameter_between_iterations(self):
        """As on the processor: what is found changed where an op uses it first is taken again."""
        trace = self.recorded(HEAD + "bias = model[4].bias.detach()\n" + STEP + "    torch.apart.poke(bias, 1.01)\n",
                              options=("--iterations", "3"))
        taken = [external["iteration"] for external in trace.externals if external["name"] == "4.bias"]
        self.assertEqual(taken, [0, 1, 2])

    def test_what_no_op_writes_is_looked_at_too(self):
        self.recorded(HEAD + 'shift = torch.ones(3, device="apart")\n' +
                      STEP.replace("model(x)", "(model(x) + shift)") +
                      "    if step == 4: torch.apart.poke(shift, 2.0)\n", options=("--iterations", "5"))
        self.assertEqual(self.changes(), [CHANGED + "the first use of an input and the end of the iteration"])
        self.assertFalse(self.verify()["verified"])

    def test_an_evaluation_that_changes_nothing(self):
        trace = self.recorded("import crucible\n" + HEAD + STEP + """
    with crucible.phase("evaluation"):
        model(x).sum()
""", options=("--iterations", "3"))
        self.assertEqual([e["iteration"] for e in trace.externals if e["name"] == "4.bias"], [0])
        self.assertTrue(self.verify()["verified"])

    def test_an_evaluation_that_changes_a_parameter(self):
        trace = self.recorded("import crucible\n" + HEAD + STEP + """
    with crucible.phase("evaluation"), torch.no_grad():
        model[4].bias.mul_(1.5)
""", options=("--iterations", "3"))
        self.assertEqual([e["iteration"] for e in trace.externals if e["name"] == "4.bias"], [0, 1, 2])


class Streams(DeviceTest):
    def test_a_prefetcher(self):
        """Batches are copied on a stream of their own, late, and the allocator is told."""
        self.recorded(HEAD + """
torch.apart.late(True)
side = torch.Stream("apart")
class Prefetcher:
    def __iter__(self):
        for batch in data:
            with side:
                batch = batch.to("apart", non_blocking=True)
            torch.accelerator.current_stream().wait_stream(side)
            batch.record_stream(torch.accelerator.current_stream())
            yield batch
for x in Prefetcher():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
""")
        self.assertTrue(self.verify()["verified"])

    def test_what_is_looked_at_before_its_stream_is_waited_for(self):
        """A view reads nothing, so a program may take one while another stream still writes: what enters is what will
        be there."""
        self.recorded(HEAD + """
torch.apart.late(True)
side = torch.Stream("apart")
weights = [torch.ones(3, device="apart") for _ in range(10)]
torch.accelerator.synchronize()
for step in range(10):
    x = data[step].to("apart")
    with side:
        torch.apart.poke(weights[step], 2.0 + step)
    weight = weights[step].detach()
    torch.accelerator.current_stream().wait_stream(side)
    optimizer.zero_grad()
    loss = (model(x) * weight).square().mean()
    loss.backward()
    optimizer.step()
""")
        self.assertTrue(self.verify()["verified"])

    def test_a_state_that_only_another_stream_writes(self):
        """Nobody waits for it, and at an iteration's end it may not be written yet. Ops before it use up the looks."""
        self.check_a_count("")

    def test_a_state_that_only_another_stream_writes_before_an_evaluation(self):
        self.check_a_count("""
    with crucible.phase("evaluation"):
        model(x).sum()
""")

    def check_a_count(self, behind):
        trace = self.recorded("import crucible\n" + HEAD + """
torch.apart.late(True)
side = torch.Stream("apart")
count = torch.zeros(3, device="apart")
torch.accelerator.synchronize()
for step in range(10):
    x = data[step].to("apart")
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    for _ in range(70):
        loss = loss * 1
    with side:
        count.add_(1)
""" + behind, options=("--iterations", "4"))
        self.assertEqual(self.info()["not_recorded"], [])
        self.assertEqual(self.changes(), [])
        count = trace.storage(trace.ops_named("aten::add_.Tensor", 0)[-1]["args"][0])
        self.assertEqual([external["iteration"] for external in trace.externals_of(count)], [0])
        self.assertTrue(self.verify()["verified"])

    def test_an_error_that_comes_late(self):
        done = self.record(HEAD + STEP.replace("    optimizer.step()", "    optimizer.step()\n"
                                               "    if step == 4: torch.apart.late(True), torch.apart.fail_later()"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("an illegal memory access was encountered", done.stderr)


class Captures(DeviceTest):
    def test_a_capture_is_refused_and_works(self):
        done = self.record(HEAD + """
still, graph = torch.zeros(3, device="apart"), torch.apart.Graph()
""" + STEP + """
    if step == 3:
        graph.capture_begin()
        still.add_(1)
        graph.capture_end()
    if step > 3: graph.replay()
print(still.tolist())
""")
        self.assertIn("[6.0, 6.0, 6.0]", done.stdout)
        self.assertIn("the program captures a graph of its device's work while it is recorded", done.stderr)

    def test_recording_does_not_begin_inside_a_capture(self):
        done = self.record(HEAD + "import crucible\n" + """
still, graph = torch.zeros(3, device="apart"), torch.apart.Graph()
for step in range(10):
    if step == 1: graph.capture_begin()
    still.add_(1)
    crucible.step()
    if step == 5: graph.capture_end()
print(still.tolist())
""", options=("--iterations", "2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("[5.0, 5.0, 5.0]", done.stdout)
        self.assertEqual(len(self.trace().iterations), 2)

    def test_replays_are_told(self):
        self.recorded(HEAD + """
still, graph = torch.zeros(3, device="apart"), torch.apart.Graph()
graph.capture_begin()
still.add_(1)
graph.capture_end()
""" + STEP.replace("model(x)", "(model(x) + still)") + "    graph.replay()\n")
        self.assertIn(CHANGED + "the replay of a captured graph and the op that comes next", self.changes())
        self.assertFalse(self.verify()["verified"])


class Waiting(DeviceTest):
    def test_draws_are_fetched_once_per_iteration(self):
        """What dropout draws is kept on the device until the iteration ends, and what it computes is not kept."""
        program = HEAD.replace("torch.nn.LayerNorm(6)", ", ".join(["torch.nn.Dropout(0.2)"] * 8))
        program += STEP.replace("    loss.backward()", "    seen.append(torch.apart.counts()['to_host'])\n    loss.backward()"
                                ).replace("    x = data", "    seen.append(torch.apart.counts()['to_host'])\n    x = data")
        program += "print(*[b - a for a, b in zip(seen[8::2], seen[9::2])])\n"
        self.script("import sys\n")
        done = self.record(program.replace("for step", "seen = []\nfor step"), options=("--iterations", "6"))
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = self.trace()
        self.assertEqual({draw["output"] for draw in trace.draws}, {1})
        self.assertEqual(len(trace.draws), 6 * 9)
        # From the fifth step on nothing enters: the processor is given nothing while the forward pass runs.
        self.assertEqual(done.stdout.split()[:3], ["0", "0", "0"])
        self.assertTrue(self.verify()["verified"])


ATTENTION = """
import apart
import torch

torch.manual_seed(0)
size = (2, 3, 21, 8)
inputs = [torch.nn.Parameter(torch.randn(*size, device="apart")) for _ in range(3)]
inputs[1] = torch.nn.Parameter(torch.randn(2, 3, 37, 8, device="apart"))
inputs[2] = torch.nn.Parameter(torch.randn(2, 3, 37, 8, device="apart"))
optimizer = torch.optim.SGD(inputs, lr=0.5)
aten = torch.ops.aten
def efficient(q, k, v, p): return aten._scaled_dot_product_efficient_attention(q, k, v, None, True, p)[0]
def causal(q, k, v, p): return aten._scaled_dot_product_efficient_attention(q, k, v, None, True, p, True)[0]
def flash(q, k, v, p): return aten._scaled_dot_product_flash_attention(q, k, v, p)[0]
def cudnn(q, k, v, p): return aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, p)[0]
def math(q, k, v, p): return torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=p)
for step in range(8):
    optimizer.zero_grad()
    loss = attention(*inputs, dropout).square().mean()
    loss.backward()
    optimizer.step()
"""


class Dropout(DeviceTest):
    """Fused kernels of attention draw their masks inside and give back where they began (device_attention.cpp)."""

    def attention(self, name, dropout=0.3, before=""):
        return self.recorded(before + ATTENTION.replace("attention(*inputs, dropout)", f"{name}(*inputs, {dropout})"),
                             options=("--iterations", "3"))

    def test_masks_are_drawn_again(self):
        for name, told in (("efficient", {2, 3}), ("causal", {2, 3}), ("flash", {6})):
            with self.subTest(name):
                trace = self.attention(name)
                self.assertEqual({draw["output"] for draw in trace.draws}, told)
                self.assertEqual(len(trace.draws), 3 * len(told))
                self.assertEqual(self.info()["not_recorded"], [])
                document = self.verify()
                self.assertTrue(document["verified"], document)

    def test_without_dropout_nothing_is_kept(self):
        for name in ("efficient", "flash"):
            with self.subTest(name):
                trace = self.attention(name, 0.0)
                self.assertEqual(trace.draws, [])
                self.assertTrue(self.verify()["verified"])

    def test_the_mask_of_another_iteration_is_another(self):
        trace = self.attention("efficient")
        self.assertEqual(len({draw["blob"]["hex"] for draw in trace.draws if draw["output"] == 3}), 3)

    def test_a_kernel_that_nobody_knows_is_refused_with_a_way_out(self):
        """And the way out works."""
        program = ATTENTION.replace("loss.backward()", "if loss.requires_grad: loss.backward()").replace(
            "attention(*inputs, dropout)", "cudnn(*[x.detach() for x in inputs], 0.3)")
        self.recorded(program)
        done = self.run_command([CRUCIBLE, "replay", self.output, "--verify", "--backend", "cpu", "--fallback",
                                 "forbid"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("aten::_scaled_dot_product_cudnn_attention", done.stderr)
        self.assertIn("how this one does is not public: record with torch.nn.attention.sdpa_kernel("
                      "torch.nn.attention.SDPBackend.MATH)", " ".join(done.stderr.split()))
        advised = "import torch\nadvice = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)\n"
        advised += "advice.__enter__()\n" + ATTENTION.replace("attention(*inputs, dropout)", "math(*inputs, 0.3)")
        self.recorded(advised)
        self.assertTrue(self.verify()["verified"])


class Facts(DeviceTest):
    def test_precision_switches(self):
        trace = self.recorded(HEAD + "torch.backends.cuda.matmul.allow_tf32 = True\n" + STEP)
        self.assertEqual(len(trace.iterations), 2)
        precision = trace.metadata["precision"]
        self.assertIn("cuda.matmul=tf32", precision)
        self.assertIn("cuda.conv=tf32", precision)
        self.assertIn("cudnn.benchmark=0", precision)
        self.assertIn("cuda.matmul=tf32", self.run_command([CRUCIBLE, "trace", "info", self.output]).stdout)


if __name__ == "__main__":
    unittest.main()
