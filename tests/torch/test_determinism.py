"""Two recordings of the same seeded program have the same content: in two processes, wherever the loader puts
memory."""

import json
import os
import subprocess
import sys
import unittest

from support import BUILD, CRUCIBLE, LOOP, ROOT, RecorderTest

sys.path.insert(0, os.path.join(ROOT, "tests", "models"))
import crtrace  # noqa: E402

# Convolution, batch norm, dropout, attention, sorting and index ops, backward on them, an optimizer with a schedule.
PROGRAM = """
import sys
import torch

torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(3)
body = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(2))
mixer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
head = torch.nn.Linear(8, 5)
model = torch.nn.ModuleList([body, mixer, head])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
for step in range(4):
    x, y = torch.randn(4, 3, 6, 6), torch.randint(0, 5, (4,))
    optimizer.zero_grad()
    out = mixer(body(x).transpose(1, 2))
    best = out.mean(1).sort(dim=1).values + torch.empty(4, 8).uniform_()
    loss = torch.nn.functional.cross_entropy(head(best), y) + out.flatten()[torch.randperm(out.numel())[:7]].sum() * 0.01
    loss.backward()
    optimizer.step()
    schedule.step()
print(loss.item().hex())
"""


def content(path):
    """All that the program did: everything in the file but what tells when and how it was recorded."""
    trace = crtrace.read(path)
    device = trace.metadata["device"]
    return {**trace.tables, "blobs": trace.blobs, "device": device}


def first_difference(one, other):
    for name in one:
        if one[name] != other[name]:
            for index, (a, b) in enumerate(zip(one[name], other[name])):
                if a != b:
                    return f"{name}[{index}]: {a} and {b}"
            return f"{name}: {len(one[name])} and {len(other[name])} records"
    return ""


class Determinism(RecorderTest):
    fresh = True

    def recording(self, key, threads, prefix=(), seed="0"):
        """A recording of PROGRAM under a key; returns its path."""
        path = os.path.join(self.folder, f"{key}.crtrace")
        program = self.script(PROGRAM)
        done = self.run_command([
            *prefix, CRUCIBLE, "record", "-o", path, "--iterations", "2", "--warmup", "1", "--snapshot", "ops", "--",
            sys.executable, program,
            str(threads)
        ], env={**os.environ, "PYTHONHASHSEED": seed})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return path, done.stdout.strip()

    def content_hash(self, path, which="content_hash"):
        done = subprocess.run([CRUCIBLE, "trace", "info", path, "--json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)[which]

    def test_same_content_in_every_process(self):
        """Other addresses (randomised, and laid out the other way by setarch), other hash seeds of Python."""
        first, printed = self.recording("first", 1)
        reference = content(first)
        self.assertGreater(len(reference["ops"]), 200)
        self.assertGreater(len(reference["draws"]), 4)
        self.assertEqual(len(reference["op_hashes"]), len(reference["ops"]))
        others = {"again": self.recording("again", 1, seed="1")}
        if subprocess.run(["setarch", "-L", "true"], capture_output=True).returncode == 0:
            others["legacy layout"] = self.recording("legacy", 1, ("setarch", "-L"))
        for name, (path, told) in others.items():
            with self.subTest(name):
                self.assertEqual(told, printed)
                self.assertEqual(first_difference(reference, content(path)), "")
                self.assertEqual(self.content_hash(path), self.content_hash(first))

    def test_two_threads(self):
        """PyTorch's own sums depend on the number of its threads, so the bytes may differ; what was executed does not.
        With steps whose sums are short, the bytes do not differ either."""
        one, _ = self.recording("one", 1)
        two, _ = self.recording("two", 2)
        self.assertEqual(self.content_hash(one, "program_hash"), self.content_hash(two, "program_hash"))
        short = LOOP.replace("torch.manual_seed(0)", "torch.manual_seed(0)\ntorch.set_num_threads(int(sys.argv[1]))")
        hashes = set()
        for threads in ("1", "2"):
            done = self.record(short, threads, options=("--iterations", "3", "--snapshot", "ops"))
            self.assertEqual(done.returncode, 0, done.stderr)
            hashes.add(self.content_hash(self.output))
        self.assertEqual(len(hashes), 1)

    def test_another_program_has_other_content(self):
        path = os.path.join(self.folder, "out.crtrace")
        contents = []
        for seed in (3, 4):
            program = self.script(PROGRAM.replace("manual_seed(3)", f"manual_seed({seed})"))
            done = self.run_command([
                CRUCIBLE, "record", "-o", path, "--iterations", "1", "--warmup", "1", "--", sys.executable, program, "1"
            ])
            self.assertEqual(done.returncode, 0, done.stderr)
            contents.append(content(path))
        self.assertNotEqual(first_difference(*contents), "")


if __name__ == "__main__":
    print(f"recorder of {BUILD}", file=sys.stderr)
    unittest.main(verbosity=2)
