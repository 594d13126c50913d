"""Memory that is written where no recorded op is seen: recorded one level higher, or named, and never verified."""

import json
import sys
import textwrap
import unittest

import support
from support import CRUCIBLE, RecorderTest

# What each of these programs leaves unseen stands behind it: the op before, the op after.
UNSEEN = {
    "numpy fills what empty returned": ("""
        memory = torch.empty(4)
        memory.numpy()[:] = step
        return memory.sin()
    """, "aten::empty.memory_format", "aten::sin", {}),
    "numpy fills a half of it": ("""
        memory = torch.empty(4)
        memory[:2] = x[0, :2]
        memory.numpy()[2:] = 3
        return memory.sin()
    """, "aten::copy_", "aten::sin", {"part": True}),
    "an op in place on it": ("""
        memory = torch.empty(4)
        memory.numpy()[:] = step
        return memory.mul_(2)
    """, "aten::empty.memory_format", "aten::mul_.Tensor", {}),
    "memmove into a result": ("""
        y = x.sin()
        ctypes.memmove(y.data_ptr(), other.data_ptr(), 16)
        return y.cos()
    """, "aten::sin", "aten::cos", {"changed": True}),
    "numpy works in the middle": ("""
        y = x.sin()
        numpy.multiply(y.numpy(), 3, out=y.numpy())
        return self.inner(y)
    """, "aten::sin", "aten::addmm", {"changed": True, "module": "inner"}),
    "numpy changes a parameter": ("""
        y = self.inner(x)
        weight = self.inner.weight.detach().numpy()
        weight *= 0.5
        return self.inner(y)
    """, "aten::addmm", "aten::addmm", {"changed": True, "module": "inner"}),
    "memory of somebody else": ("""
        y = foreign.sin()
        array[1] = step + 7
        return y + foreign.cos()
    """, "aten::sin", "aten::cos", {"changed": True}),
    "an operator of Python": ("return torch.ops.crucible_test.filled(x).sin()", "aten::empty_like", "aten::sin", {}),
    "an output alone": ("""
        memory = torch.empty(4)
        memory.numpy()[:] = step
        return memory
    """, "aten::empty.memory_format", "an output", {}),
    "what resize adds": ("""
        memory = x.clone().resize_(40)
        memory.numpy()[16:] = 2
        return memory.sin()
    """, "aten::resize_", "aten::sin", {"part": True}),
    "an op of two results, the second changed": ("""
        top, index = x.max(1)
        index.numpy()[:] = 0
        return top + index
    """, "aten::max.dim", "aten::add.Tensor", {"changed": True}),
    "a loss's gradient": ("""
        w = self.inner.weight.detach().requires_grad_()
        with torch.enable_grad():
            (x @ w.t()).sum().backward()
        w.grad.numpy()[:] = 1
        return w.grad.sin()
    """, None, "aten::sin", {"changed": True}),
}

# The normal life of memory: nothing of this may be told.
SEEN = {
    "slices": """
        memory = torch.empty(4, 4)
        memory[:, :1] = x[:, :1]
        memory[:, 1:] = x[:, 1:]
        return memory.sin()
    """, "out": """
        memory = torch.empty(4, 4)
        torch.add(x, x, out=memory)
        torch.sin(memory, out=memory)
        torch.mm(x, memory, out=other_memory)
        return memory + other_memory
    """, "draws": "return torch.empty(4, 4).normal_() + torch.empty(4).uniform_() + torch.empty_like(x).bernoulli_()",
    "form alone": "return torch.zeros_like(torch.empty(4, 4)) + torch.empty(3).new_ones(4) + torch.ones_like(torch.empty(4))",
    "factor of zero": "return torch.baddbmm(torch.empty(1, 4, 4), x[None], x[None], beta=0)", "by places": """
        memory = torch.empty(4, 4)
        memory[torch.arange(4)] = x
        other = torch.empty(4, 4)
        other.scatter_(1, torch.arange(4)[None].expand(4, 4).contiguous(), x)
        return memory + other
    """, "reversed": """
        memory = torch.empty(16)
        memory[1::2] = x.flatten()[:8]
        memory[::2] = x.flatten()[8:]
        return memory.view(4, 4).t().contiguous()
    """, "batch filled outside": "return batch.sin()",
    "new numpy input": "return torch.from_numpy(numpy.full((4, 4), step, dtype=numpy.float32)).sin()",
    "python numbers": "return torch.tensor([1.0, 2.0, step, 4]) + x * 2", "batch norm": """
        with torch.enable_grad():
            return self.norm(x) + self.norm(x)
    """, "recurrent": "return self.cell(x[None])[0]",
    "attention": "return torch.nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None])",
    "sorting": "return x.sort(1)[0] + x.topk(4)[0] + torch.cat([x, x]).unique(dim=0).sum()",
    "fourier": "return torch.fft.rfft(x).abs().sum() + torch.stft(x.flatten(), 8, window=torch.ones(8), return_complex=True).abs().sum()",
}

PROGRAM = """
import ctypes
import sys
import numpy
import torch

torch.manual_seed(0)
array = (ctypes.c_float * 4)()
foreign = torch.frombuffer(array, dtype=torch.float32)
other = torch.full((4,), 5.0)
other_memory = torch.empty(4, 4)
batch = torch.empty(4, 4)
library = torch.library.Library("crucible_test", "DEF")
library.define("filled(Tensor x) -> Tensor")

def filled(x):
    y = torch.empty_like(x)
    numpy.add(x.numpy(), 1, out=y.numpy())
    return y

library.impl("filled", filled, "CompositeImplicitAutograd")

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.norm, self.cell = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.LSTM(4, 4)

    def forward(self, x, step):
BODY

net = Net()
with torch.no_grad():
    for step in range(6):
        batch.numpy()[:] = step
        net(torch.randn(4, 4), step)
"""

POOLS = """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
cases = []
for shape in ((2, 3, 13), (3, 13)):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for arguments in ((2,), (3, 2), (3, 2, 1), (3, 1, 1, 2), (4, 3, 2, 1, True), (3, 2, 0, 3, True)):
            cases.append(((torch.randn(shape) * 10).to(dtype), arguments))
cases[0][0][0, 0, 3] = float("nan")

@torch.jit.script
def scripted(x):
    return torch.nn.functional.max_pool1d(x, 3, 1, 1)

class Net(torch.nn.Module):
    def forward(self, x):
        results = []
        for x, arguments in cases:
            results.append(F.max_pool1d(x, *arguments))
        plain = torch.arange(20, dtype=torch.float32).reshape(1, 2, 10)
        results += [scripted(plain), torch.nn.MaxPool1d(2)(plain), torch.max_pool1d(plain, 2), F.max_pool1d(plain.transpose(1, 2), 1)]
        results.append(F.max_pool1d(plain, 2, return_indices=True)[0])
        return results

net = Net()
with MODE:
    for step in range(5):
        results = net(torch.zeros(1))
print([result.double().nan_to_num(99).sum().item() for result in results], [tuple(result.stride()) for result in results])
"""


class Unseen(RecorderTest):
    def info(self):
        done = self.run_command([CRUCIBLE, "trace", "info", self.output, "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def record_body(self, body):
        done = self.record(PROGRAM.replace("BODY", textwrap.indent(textwrap.dedent(body).strip(), "        ")),
                           options=("--iterations", "2", "--end-of-iteration", "module"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def verify(self):
        done = self.run_command(
            [CRUCIBLE, "replay", self.output, "--verify", "--json", "--backend", "reference", "--opaque", "missing"])
        return done, json.loads(done.stdout) if done.stdout.startswith("{") else None

    def test_what_is_written_unseen_is_named(self):
        for name, (body, before, after, more) in UNSEEN.items():
            with self.subTest(name):
                done = self.record_body(body)
                writes = self.info()["unrecorded_writes"]
                if more.get("part"):  # what the ops had written of it is compared too
                    writes = [write for write in writes if write["part"]]
                self.assertEqual(len(writes), 1, writes)
                self.assertEqual(writes[0]["after"], after)
                # Changes are looked for in samples of all iterations but the first.
                self.assertIn(writes[0]["count"], (1, 2) if more.get("changed") else (2,))
                if before:
                    self.assertEqual(writes[0]["before"], before)
                for key, value in {"part": False, "changed": False, **more}.items():
                    self.assertEqual(writes[0][key], value, key)
                if after != "an output":
                    self.assertTrue(writes[0]["site"].startswith("program.py:"), writes)
                if more.get("part"):
                    continue
                text = self.run_command([CRUCIBLE, "trace", "info", self.output]).stdout
                self.assertRegex(text, "where (2 values come|1 value comes) from")
                self.assertNotRegex(text, r"not recorded +nothing")
                if after not in ("an output", "aten::mul_.Tensor"):
                    self.assertIn("not recorded: memory", done.stderr)
                verdict, document = self.verify()
                self.assertNotEqual(verdict.returncode, 0)
                if document is not None:
                    self.assertEqual(verdict.returncode, 1)
                    self.assertFalse(document["verified"])
                    self.assertRegex(document["reason"], "(2 values have|1 value has) no recorded origin: ")
                    self.assertEqual(document["unrecorded_writes"], writes)

    def test_the_normal_life_of_memory(self):
        bodies = [textwrap.dedent(body).strip() for body in SEEN.values()]
        parts = "\n".join(f"def part_{i}():\n{textwrap.indent(body, '    ')}\nresults.append(part_{i}())"
                          for i, body in enumerate(bodies))
        self.record_body("results = []\n" + parts + "\nreturn results")
        info = self.info()
        self.assertEqual(info["unrecorded_writes"], [])
        filled = "changes of a storage by something that is not an op (its bytes were taken again)"  # the batch
        self.assertEqual([item["what"] for item in info["not_recorded"] if item["what"] != filled], [])

    def test_pools_of_lines_are_recorded_whole(self):
        for mode in ("torch.no_grad()", "torch.inference_mode()", "torch.enable_grad()"):
            program = POOLS.replace("MODE", mode)
            plain = self.run_command([sys.executable, self.script(program)])
            for kernels in ("typed", "boxed", "per_op") if mode == "torch.no_grad()" else ("typed",):
                with self.subTest(mode=mode, kernels=kernels):
                    done = self.record(
                        program, options=("--iterations", "2", "--kernels", kernels, "--end-of-iteration", "module"))
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(done.stdout, plain.stdout)  # values and strides are the framework's own
                    trace = self.trace()
                    self.assertEqual(len(trace.ops_named("aten::max_pool1d", 0)), 40)
                    self.assertEqual(len(trace.ops_named("aten::max_pool2d_with_indices", 0)), 1)
                    self.assertEqual([op for op in trace.ops if op["name"] == "aten::empty"], [])
                    info = self.info()
                    self.assertEqual((info["unrecorded_writes"], info["not_recorded"]), ([], []))
                    if kernels == "typed":
                        verdict, document = self.verify()
                        self.assertEqual(verdict.returncode, 0, verdict.stdout + verdict.stderr)
                        self.assertEqual(document["outputs"]["bit_equal"], document["outputs"]["compared"])

    def test_observers_name_what_they_do_not_see(self):
        done = self.record(POOLS.replace("MODE", "torch.no_grad()"),
                           options=("--iterations", "2", "--kernels", "record_function"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({write["before"] for write in self.info()["unrecorded_writes"]}, {"aten::empty.memory_format"})

    def test_pools_with_gradients_are_as_before(self):
        program = support.LOOP.replace(
            "torch.nn.Linear(4, 3)", "torch.nn.Unflatten(1, (1, 4)), torch.nn.Conv1d(1, 2, 1), "
            "torch.nn.MaxPool1d(2), torch.nn.Flatten(), torch.nn.Linear(4, 3)")
        trace = self.recorded(program)
        self.assertEqual(trace.ops_named("aten::max_pool1d"), [])
        self.assertEqual(len(trace.ops_named("aten::max_pool2d_with_indices")), 2)
        self.assertEqual(len(trace.ops_named("aten::max_pool2d_with_indices_backward")), 2)


if __name__ == "__main__":
    unittest.main()
