"""Values that leave a recorded program by ways that are no operators, and what is told of those that come back."""

import json
import os
import subprocess
import sys
import unittest

from snippets import WRAPPED, SnippetTest
from support import CRUCIBLE, LOOP, RecorderTest, real

WAYS = {
    "by_numpy": "made(step).numpy()",
    "by_numpy_of_parameter": "torch.nn.Parameter(made(step)).detach().numpy()",
    "by_numpy_of_subclass": "made(step).as_subclass(Plain).numpy()",
    "by_array": "numpy.asarray(made(step))",
    "by_array_of_type": "numpy.array(made(step), dtype=numpy.float64)",
    "by_memory": "memoryview(made(step).numpy())",
    "by_as_list": "made(step).tolist()",
    "by_dlpack": "numpy.from_dlpack(made(step))",
    "by_dlpack_capsule": "torch.from_dlpack(torch.utils.dlpack.to_dlpack(made(step)))",
    "by_pointer": "ctypes.c_float.from_address(made(step).data_ptr()).value",
    "by_pointer_of_storage": "ctypes.c_float.from_address(made(step).untyped_storage().data_ptr()).value",
    "by_printed": "str(made(step))",
    "by_formatted": "f'{made(step)}'",
    "by_pickled": "pickle.dumps(made(step))",
    "by_saved": "torch.save({'a': made(step)}, io.BytesIO())",
    "by_bytes_of_storage": "made(step).untyped_storage().tolist()",
    "by_byte_of_storage": "made(step).untyped_storage()[3]",
    "by_shared": "made(step).share_memory_()",
    "by_tensors_in_a_list": "torch.tensor([made(step)[0], made(step)[1]])",
    "by_iterated": "[float(element) for element in made(step)]",
}
RECORD = {
    "by_numpy_of_parameter": "numpy", "by_numpy_of_subclass": "numpy", "by_array": "numpy", "by_array_of_type": "numpy",
    "by_memory": "numpy", "by_as_list": "tolist", "by_dlpack_capsule": "dlpack", "by_pointer": "data_ptr",
    "by_pointer_of_storage": "data_ptr", "by_printed": "print", "by_formatted": "print", "by_pickled": "pickle",
    "by_saved": "pickle", "by_bytes_of_storage": "storage", "by_byte_of_storage": "storage",
    "by_shared": "share_memory", "by_numpy": "numpy", "by_array_of_list": "numpy", "by_dlpack": "dlpack"
}


class Ways(SnippetTest):
    BEFORE = """
        import ctypes, io, numpy, pickle
        class Plain(torch.Tensor):
            pass
        def made(step):
            return torch.full((3,), 2.5) + step
        never_used = torch.ones(5)
    """ + WRAPPED.replace("\n", "\n        ")
    SNIPPETS = {
        **WAYS, "not_of_the_program": "never_used.numpy()", "wrapped": "str(Wrapped(torch.ones(2)).inner.tolist())"
    }

    def leaving(self, snippet, iteration=0):
        return [op for op in self.ops(snippet, iteration) if op["name"].startswith("python::")]

    def test_each_leaves_one_record_with_its_values(self):
        for snippet in WAYS:
            if snippet in ("by_iterated", "by_tensors_in_a_list"):
                continue
            with self.subTest(snippet):
                found = self.leaving(snippet)
                self.assertEqual([op["name"] for op in found], ["python::" + RECORD[snippet]])
                values, total = found[0]["outputs"]
                self.assertIsInstance(total, int)
                if "storage" not in snippet and snippet != "by_shared":
                    self.assertEqual([real(value) for value in values], [4.5, 4.5, 4.5])
                self.assertNotEqual(total, self.leaving(snippet, 1)[0]["outputs"][1])
                self.assertIn("program.py:", found[0]["site"])

    def test_of_a_list_of_tensors_each_leaves(self):
        self.assertEqual([(op["name"], real(op["outputs"][0][0])) for op in self.leaving("by_tensors_in_a_list")],
                         [("python::item", 4.5)] * 2)

    def test_what_operators_tell_is_not_told_again(self):
        self.assertEqual(self.leaving("by_iterated"), [])
        self.assertEqual(self.names("by_iterated").count("aten::_local_scalar_dense"), 3)

    def test_tensors_that_no_op_has_met_are_nobodys(self):
        self.assertEqual(self.leaving("not_of_the_program"), [])

    def test_printing_is_no_work_of_the_program(self):
        self.assertEqual(self.names("by_printed"), ["python::print"])

    def test_all_is_put_back(self):
        program = f"import torch\nbefore = {{n: torch.Tensor.__dict__.get(n) for n in {NAMES!r}}}, torch._C._to_dlpack, torch.to_dlpack\n" + LOOP
        done = self.record(
            program +
            f"print(before == ({{n: torch.Tensor.__dict__.get(n) for n in {NAMES!r}}}, torch._C._to_dlpack, torch.to_dlpack))\n"
        )
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"), done.stderr)


NAMES = [
    "numpy", "tolist", "data_ptr", "__repr__", "__format__", "__reduce_ex__", "item", "__bool__", "__int__",
    "__float__", "__index__", "__complex__"
]

DECODE = """
import numpy
import sys
import torch

torch.manual_seed(0)
table, mix, head = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 50)


class Step(torch.nn.Module):
    def forward(self, ids):
        h = table(ids)
        for _ in range(2):
            h = torch.tanh(mix(h))
            token = head(h[-1]).topk(3).indices
            h = h + table({again}).mean(0)
        return h


model = Step()
with torch.no_grad():
    for step in range(7):
        model(torch.tensor([1, 2, 3]) + step)
"""

AGAIN = {
    "tolist": "torch.tensor(token.tolist())",
    "numpy": "torch.from_numpy(token.numpy().copy())",
    "item": "torch.tensor([t.item() for t in token])",
    "list_of_tensors": "torch.tensor([t for t in token])",
    "sorted": "torch.as_tensor(numpy.sort(numpy.asarray(token)))",
    "dlpack": "torch.from_dlpack(numpy.from_dlpack(token).copy())",
}


class ComingBack(RecorderTest):
    def told(self, text):
        """What `record`, `trace info` and the verdict say."""
        done = self.record(text, options=("--json",))
        self.assertEqual(done.returncode, 0, done.stderr)
        notes = json.loads(done.stdout)["notes"]
        info = json.loads(self.run_command([CRUCIBLE, "trace", "info", self.output,
                                            "--json"]).stdout)["values_returned"]
        replay = self.run_command([CRUCIBLE, "replay", self.output, "--backend", "reference", "--verify", "--json"])
        self.assertEqual(replay.returncode, 0, replay.stdout + replay.stderr)
        document = json.loads(replay.stdout)
        self.assertTrue(document["verified"])
        text = self.run_command([CRUCIBLE, "replay", self.output, "--backend", "reference", "--verify"]).stdout
        return notes, info, document["but"], next(line for line in text.splitlines() if line.startswith("verified"))

    def test_values_that_come_back_within_an_iteration(self):
        for name, again in AGAIN.items():
            with self.subTest(name):
                notes, info, but, verdict = self.told(DECODE.format(again=again))
                self.assertEqual((info["values"], info["tensors"], info["changed"], info["across_iterations"]),
                                 (6, 2, True, False))
                self.assertTrue(info["left_at"][0].startswith("program.py:"))
                self.assertEqual(notes, [info["text"]])
                self.assertEqual(but, [info["text"]])
                self.assertEqual(verdict, "verified  yes, but " + info["text"])

    def test_what_stays_tensors_does_not_leave(self):
        self.assertEqual(self.told(DECODE.format(again="token.clone()")), ([], None, [], "verified  yes"))

    def test_tokens_that_are_the_next_iterations_input(self):
        text = DECODE.format(again="token") + """
    ids = [1, 2, 3]
    for step in range(8):
        ids = (ids + [model(torch.tensor(ids)).sum(0).argmax().item()])[-3:]
"""
        _, info, but, _ = self.told(text.replace("for step in range(7)", "for step in range(0)"))
        self.assertTrue(info["across_iterations"])
        self.assertEqual(len(but), 1)

    def test_ordinary_training_is_not_bothered(self):
        text = LOOP.replace("    loss.backward()\n", "    total = loss.item()\n    loss.backward()\n").replace(
            "SGD(model.parameters(), lr=0.1)", "Adam(model.parameters())")
        text = text.replace("model(data[step]).square()",
                            "(out := model(torch.tensor([[float(step), 1., 2., 3.]] * 5))).square()")
        text += """
    accuracy = (out > 0).float().mean().item()
    print(loss, float(loss), loss.detach().numpy(), f"{loss:.3f}", out.tolist()[0], sum(p.grad.norm().item() for p in model.parameters()))
    torch.save(model.state_dict(), "checkpoint")
"""
        notes, info, but, verdict = self.told(text)
        self.assertEqual((info, but, verdict), (None, [], "verified  yes"))

    def test_a_number_that_comes_back(self):
        text = LOOP.replace(
            "    loss.backward()\n",
            "    size = model[0](data[step]).norm().item()\n    loss = loss * (1 / size)\n    loss.backward()\n")
        _, info, but, _ = self.told(text)
        self.assertEqual((info["values"], info["tensors"], info["numbers"]), (1, 0, 1))
        self.assertEqual(len(but), 1)


class Threads(RecorderTest):
    def program(self, call):
        return LOOP.replace("loss = model(data[step])",
                            "x = data[step] * 1\n    out = {}\n    " + call + "\n    loss = out['y']")

    def told(self, text):
        done = self.record(text)
        self.assertEqual(done.returncode, 0, done.stderr)
        replay = self.run_command([CRUCIBLE, "replay", self.output, "--backend", "reference", "--verify", "--json"])
        return done.stderr, json.loads(replay.stdout)["but"] if replay.stdout else replay.stderr

    def test_work_on_a_thread_of_the_program_is_told(self):
        import_first = "import threading, concurrent.futures\npool = concurrent.futures.ThreadPoolExecutor(1)\n"
        for call in ("t = threading.Thread(target=lambda: out.update(y=model(x))); t.start(); t.join()",
                     "out['y'] = pool.submit(model, x).result()"):
            with self.subTest(call):
                summary, but = self.told(import_first + self.program(call))
                self.assertIn(
                    "not recorded: ops on threads that are not recorded, with tensors of the recorded program", summary)
                self.assertIn("crucible.record_thread()", str(but))

    def test_with_the_option_it_is_recorded(self):
        call = "t = threading.Thread(target=work, args=(x, out)); t.start(); t.join()"
        before = "import threading, crucible\ndef work(x, out):\n    with crucible.record_thread():\n        out['y'] = model(x)\n"
        summary, but = self.told(before + self.program(call))
        self.assertNotIn("not recorded", summary)
        self.assertEqual(but, [])

    def test_threads_that_only_bring_data_are_not_told(self):
        call = "t = threading.Thread(target=lambda: out.update(x=torch.ones(5, 4).mul(step))); t.start(); t.join(); out['y'] = model(out['x'])"
        summary, but = self.told("import threading\n" + self.program(call))
        self.assertNotIn("not recorded", summary)
        self.assertEqual(but, [])


class Settings(RecorderTest):
    def test_what_changes_numbers_is_told(self):
        for before, words in (("torch.set_flush_denormal(True)\n",
                               "torch.set_flush_denormal(True): the replay keeps denormal numbers"),
                              ("torch.set_float32_matmul_precision('medium')\n",
                               'torch.set_float32_matmul_precision("medium"): ')):
            done = self.record(LOOP.replace("torch.manual_seed(0)\n", "torch.manual_seed(0)\n" + before))
            self.assertIn("not recorded: the setting " + words, done.stderr)
            self.assertIn(words, self.run_command([CRUCIBLE, "trace", "info", self.output]).stdout)
            self.assertIn("note      recorded with " + words,
                          self.run_command([CRUCIBLE, "replay", self.output, "--backend", "reference"]).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
