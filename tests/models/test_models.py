"""The independent reader and the re-execution, on models that need nothing but torch: every op of a recording can be
executed again from the file alone, on every path of the recorder, and what is missing or damaged is noticed and
named."""

import argparse
import copy
import dataclasses
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import torch  # noqa: E402

import crtrace  # noqa: E402
import reexecute  # noqa: E402
import record_models  # noqa: E402
import run_model  # noqa: E402
import modes_models  # noqa: E402

BUILD = os.environ.get("CRUCIBLE_BUILD") or sys.exit("set CRUCIBLE_BUILD to the build folder")
CRUCIBLE = os.path.join(BUILD, "crucible")
MODELS = ("vae", "dqn", "lstm")

UNFILLED = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(4, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    filled = torch.empty(3)
    filled.numpy()[:] = step + 1
    loss = filled.sum()
    filled.numpy()[:] = step + 11
    plain = torch.empty(3)
    plain[1:] = 4
    plain[:1].fill_(5)
    x = model(torch.ones(6, 2, 4)).log_softmax(2)
    loss = loss + torch.nn.functional.ctc_loss(x, torch.ones(2, 2, dtype=torch.long), [6, 6], [2, 2]) + (filled * plain).sum()
    loss.backward()
    optimizer.step()
"""


class Recorded(unittest.TestCase):
    """Three models, recorded once."""

    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        folder = tempfile.TemporaryDirectory(prefix="crucible-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.recorded = {name: record_models.record(CRUCIBLE, cls.folder, name) for name in MODELS}

    def path(self, name):
        return os.path.join(self.folder, f"{name}.crtrace")

    def run_of(self, trace):
        """Executes the first iteration of a trace; the difference, or ""."""
        try:
            reexecute.Iteration(trace, 0).run()
        except reexecute.Differs as difference:
            return str(difference)
        return ""

    def test_losses_are_bit_identical(self):
        for name, (notes, _, reason) in self.recorded.items():
            with self.subTest(name):
                self.assertEqual(reason, "")
                self.assertEqual(notes, run_model.run(name, record_models.STEPS))
                self.assertEqual(len(set(notes)), record_models.STEPS)  # the model learns: each loss is another one

    def test_executed_again_equal(self):
        for name in MODELS:
            with self.subTest(name):
                result = reexecute.reexecute(self.path(name))
                self.assertEqual(result["difference"], "")
                self.assertTrue(result["equal"])
                self.assertGreater(result["hashed"], result["ops"] * 0.8)

    def test_nothing_is_counted_as_missed(self):
        for name, (_, info, _) in self.recorded.items():
            self.assertEqual(info["not_recorded"], [], name)

    def test_the_two_readers_agree(self):
        """What `crucible trace info` says is what the page's reader finds."""
        for name, (_, info, _) in self.recorded.items():
            trace = crtrace.read(self.path(name))
            self.assertEqual([count for _, count, _, _ in trace.iterations], info["ops_per_iteration"])
            self.assertEqual(
                (len(trace.tensors), len(trace.storages), len(trace.draws), len(trace.final_states), len(trace.blobs)),
                (info["tensors"], info["storages"], info["draws"], info["final_states"], info["blobs"]))
            self.assertEqual(sum(size for _, size in trace.blobs), info["blob_bytes"])

    def test_boxed_kernels_write_the_same_results(self):
        """Typed and boxed kernels hash the same tensors in the same order."""
        boxed = os.path.join(self.folder, "boxed.crtrace")
        subprocess.run([
            CRUCIBLE, "record", "-o", boxed, "--kernels", "boxed", "--iterations", "3", "--warmup", "2", "--snapshot",
            "ops", "--", sys.executable,
            os.path.join(HERE, "run_model.py"), "vae", "--output", os.devnull
        ], check=True, capture_output=True)
        one, other = crtrace.read(self.path("vae")), crtrace.read(boxed)
        self.assertEqual(one.ops, other.ops)
        self.assertEqual(one.op_hashes, other.op_hashes)
        self.assertTrue(any(
            len(hashes) > 4 for hashes in one.op_hashes))  # lists that are written in place: foreach ops

    # What must be noticed

    def test_a_changed_argument_is_named(self):
        trace = crtrace.read(self.path("vae"))
        index = next(i for i, op in enumerate(trace.ops) if trace.op_name(op) == "aten::mul.Tensor" and
                     trace.tensors[op.args[1].value].is_wrapped_number)
        number = trace.tensors[trace.ops[index].args[1].value].storage
        entry = next(i for i, external in enumerate(trace.externals) if external[0] == number)
        storage, iteration, op, role, name, blob = trace.externals[entry]
        load = trace._load
        trace.blobs = list(trace.blobs) + [trace.blobs[blob]]
        changed = bytearray(load(blob))
        changed[-2] ^= 0x10
        trace.blob = lambda which: bytes(changed) if which == len(trace.blobs) - 1 else load(which)
        trace.externals[entry] = (storage, iteration, op, role, name, len(trace.blobs) - 1)
        self.assertIn(f"op {index} aten::mul.Tensor", self.run_of(trace))

    def test_a_changed_number_is_named(self):
        trace = crtrace.read(self.path("vae"))
        index, place = next((i, p) for i, op in enumerate(trace.ops) for p, arg in enumerate(op.args)
                            if arg.kind == "double" and trace.op_name(op).startswith("aten::_foreach"))
        trace.ops[index] = copy.deepcopy(trace.ops[index])
        trace.ops[index].args[place] = crtrace.Arg("double", trace.ops[index].args[place].value * (1 + 1e-6))
        self.assertIn(f"op {index} {trace.op_name(trace.ops[index])}", self.run_of(trace))

    def test_a_lost_draw_is_named(self):
        trace = crtrace.read(self.path("vae"))
        index = trace.draws[0][0]
        del trace.draws[0]
        self.assertIn(f"op {index} aten::randn_like", self.run_of(trace))

    def test_lost_bytes_are_named(self):
        trace = crtrace.read(self.path("vae"))
        storage, _, index, *_ = trace.externals[0]
        del trace.externals[0]
        self.assertIn(f"op {index} ", self.run_of(trace))
        self.assertIn(f"storage {storage} is read and nothing has filled it", self.run_of(trace))

    def test_a_wrong_storage_is_named(self):
        """A view that the file calls a storage of its own, and a fresh result that it calls a view."""
        trace = crtrace.read(self.path("vae"))
        index = next(i for i, op in enumerate(trace.ops) if trace.op_name(op) == "aten::t")
        view = trace.ops[index].outputs[0].value
        trace.tensors[view] = dataclasses.replace(trace.tensors[view], storage=len(trace.storages) - 1)
        self.assertIn(f"op {index} aten::t", self.run_of(trace))

    def test_a_wrong_hash_is_named(self):
        trace = crtrace.read(self.path("dqn"))
        index = len(trace.op_hashes) // 6
        while not any(trace.op_hashes[index]):
            index += 1
        trace.op_hashes[index] = [number ^ 1 for number in trace.op_hashes[index]]
        self.assertIn(f"op {index} {trace.op_name(trace.ops[index])}", self.run_of(trace))

    def test_without_hashes_it_is_not_called_equal(self):
        path = os.path.join(self.folder, "plain.crtrace")
        program = os.path.join(self.folder, "plain.py")
        with open(program, "w", encoding="utf-8") as out:
            out.write("import torch\np = torch.nn.Parameter(torch.ones(3))\no = torch.optim.SGD([p], lr=0.1)\n"
                      "for _ in range(4):\n    p.square().sum().backward()\n    o.step()\n")
        subprocess.run(
            [CRUCIBLE, "record", "-o", path, "--iterations", "1", "--warmup", "1", "--", sys.executable, program],
            check=True, capture_output=True)
        result = reexecute.reexecute(path)
        self.assertFalse(result["equal"])
        self.assertIn("no hashes", result["difference"])

    def test_memory_that_no_op_filled(self):
        """Content that comes into a storage after `empty` without an op: from numpy. What C++ fills inside ctc_loss is
        made of ops instead."""
        path = os.path.join(self.folder, "unfilled.crtrace")
        program = os.path.join(self.folder, "unfilled.py")
        with open(program, "w", encoding="utf-8") as out:
            out.write(UNFILLED)
        subprocess.run([
            CRUCIBLE, "record", "-o", path, "--iterations", "2", "--warmup", "1", "--snapshot", "ops", "--",
            sys.executable, program
        ], check=True, capture_output=True)
        result = reexecute.reexecute(path)
        self.assertEqual(result["difference"], "")
        trace = crtrace.read(path)
        born = {
            trace.tensors[op.outputs[0].value].storage
            for op in trace.ops
            if trace.op_name(op).startswith("aten::empty.")
        }
        entered = {
            (iteration, trace.blob(blob)) for storage, iteration, _, _, _, blob in trace.externals if storage in born
        }
        self.assertEqual(len(born), 4)  # per iteration `filled` and `plain`
        for iteration in (0, 1):
            for numbers in ([iteration + 2.0] * 3, [iteration + 12.0] * 3):
                self.assertIn((iteration, struct.pack(f"<{len(numbers)}f", *numbers)), entered)
        self.assertEqual(len(entered), 4)  # `plain` is filled by an op: its memory never enters

    def test_damage_is_refused(self):
        """Any flipped byte that `trace check` refuses, the page's reader refuses too."""
        with open(self.path("dqn"), "rb") as file:
            whole = file.read()
        chance = random.Random(5)
        places = [0, 9, 13, 20, 30, 41, 60, 64, 70, 90, len(whole) - 1
                 ] + [chance.randrange(len(whole)) for _ in range(120)]
        damaged = os.path.join(self.folder, "damaged.crtrace")

        def refuses(place):
            with open(damaged, "wb") as file:
                file.write(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1:])
            try:
                trace = crtrace.read(damaged)
                for number in range(len(trace.blobs)):
                    trace.blob(number)
            except crtrace.BadFile:
                return True
            return False

        # The gaps between blobs are the one place that this reader does not look at.
        passed = [place for place in places if not refuses(place) and whole[place] != 0]
        self.assertEqual(passed, [])
        for size in (0, 63, 64, 200, len(whole) // 2, len(whole) - 1):
            with open(damaged, "wb") as file:
                file.write(whole[:size])
            self.assertRaises(crtrace.BadFile, crtrace.read, damaged)

    def test_both_modes_are_verified_on_every_backend_and_strict_bits_are_the_same(self):
        told = subprocess.run([CRUCIBLE, "devices", "--json"], capture_output=True, text=True).stdout
        backends = "cpu,opencl" if "opencl:0" in told else "cpu"
        arguments = argparse.Namespace(crucible=CRUCIBLE, recordings=self.folder, keep=None, backends=backends,
                                       rounds=1, tune=[])
        with tempfile.TemporaryDirectory(prefix="crucible-test-") as folder:
            row = modes_models.row_of(arguments, folder, "dqn")  # whose iterations differ
        self.assertEqual(modes_models.verdict(row), "same bits", row)
        self.assertGreater(row["eager_over_replay"], 0)
        ran = {"sha256": "a", "verified": True, "time_ns": 1, "why": ""}
        for other, verdict in ((ran | {"sha256": "b"}, "BITS DIFFER"), (ran | {"verified": False}, "not verified"),
                               (ran | {"sha256": "", "verified": False}, "one refused"), (ran, "same bits")):
            self.assertEqual(
                modes_models.verdict({"failed": "", "fast": {"cpu": ran}, "strict": {"cpu": ran, "opencl": other}}),
                verdict)


if __name__ == "__main__":
    unittest.main(verbosity=2)
