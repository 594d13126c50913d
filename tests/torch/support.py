"""What the recorder's tests share: writing a small program, recording it, reading the file back."""

import functools
import json
import os
import struct
import subprocess
import sys
import tempfile
import textwrap
import unittest

BUILD = os.environ.get("CRUCIBLE_BUILD") or sys.exit("set CRUCIBLE_BUILD to the build folder")
CRUCIBLE = os.path.join(BUILD, "crucible")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "warm"))
import warm  # noqa: E402

# "apart": what programs make lies on the test device (device/device.hpp) unless they say otherwise.
DEVICE = os.environ.get("CRUCIBLE_TEST_DEVICE", "")
DEVICE_FOLDERS = [os.path.join(BUILD, "tests", "torch", "device"), os.path.join(ROOT, "tests", "torch", "device")]
sys.path[:0] = DEVICE_FOLDERS
os.environ["PYTHONPATH"] = os.pathsep.join([*DEVICE_FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])])


def why_not_on_device(test_class, name=""):
    """Why a test, or all of a class, is not for programs on a device; None where it is."""
    from elsewhere import ELSEWHERE
    return (ELSEWHERE.get(test_class.__name__) or ELSEWHERE.get(f"{test_class.__name__}.{name}")) if DEVICE else None

# A model, an optimizer and a loop; tests put code into it.
LOOP = """
import sys
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [torch.randn(5, 4) for _ in range(10)]
for step in range(10):
    optimizer.zero_grad()
    loss = model(data[step]).square().mean()
    loss.backward()
    optimizer.step()
"""


def on_device(text):
    """A program, on the test device if there is one; its lines keep their numbers."""
    if not DEVICE or "import torch" not in text:
        return text
    text = text.replace(".numpy()", ".cpu().numpy()")
    return f"import {DEVICE}_default{'' if text.startswith(chr(10)) else '; '}{text}"


@functools.cache
def warm_python():
    return warm.python(BUILD)


class RecorderTest(unittest.TestCase):
    """Each test has its own folder, removed at its end."""

    fresh = False  # whether programs get an interpreter of their own: where its start is what is tested


    def setUp(self):
        if reason := why_not_on_device(type(self), self._testMethodName):
            self.skipTest(reason)
        folder = tempfile.TemporaryDirectory(prefix="crucible-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.output = os.path.join(self.folder, "out.crtrace")

    def script(self, text, name="program.py"):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(on_device(textwrap.dedent(text)))
        return path

    def run_command(self, command, **keywords):
        keywords.setdefault("cwd", self.folder)
        return subprocess.run(command, capture_output=True, text=True, timeout=300, **keywords)

    def record(self, text, *arguments, options=(), **keywords):
        """Runs `crucible record` on a program; returns the finished process."""
        path = self.script(text)
        return self.run_command(
            [CRUCIBLE, "record", "-o", self.output, *options, "--", self.python(), path, *arguments], **keywords)

    def python(self):
        return sys.executable if self.fresh else warm_python()

    def recorded(self, text, *arguments, options=("--iterations", "2")):
        """Records, insists that it worked, returns the trace."""
        done = self.record(text, *arguments, options=options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.trace()

    def trace(self, path=None):
        done = self.run_command([os.path.join(BUILD, "dump_trace"), path or self.output])
        self.assertEqual(done.returncode, 0, done.stderr)
        return Trace(json.loads(done.stdout))


class Trace:
    """A dumped trace with the questions that tests ask."""

    def __init__(self, document):
        self.document = document
        for key, value in document.items():
            setattr(self, key, value)

    def ops_named(self, name, iteration=None):
        return [op for op in self.iteration_ops(iteration) if op["name"] == name]

    def one(self, name, iteration=0):
        found = self.ops_named(name, iteration)
        assert len(found) == 1, (name, [op["name"] for op in self.iteration_ops(iteration)])
        return found[0]

    def iteration_ops(self, iteration=None):
        if iteration is None:
            return self.ops
        bounds = self.iterations[iteration]
        return self.ops[bounds["first_op"]:bounds["first_op"] + bounds["op_count"]]

    def tensor(self, argument):
        return self.tensors[argument["tensor"]]

    def storage(self, argument):
        return self.tensor(argument)["storage"]

    def externals_of(self, storage):
        return [external for external in self.externals if external["storage"] == storage]

    def index_of(self, op):
        return next(index for index, other in enumerate(self.ops) if other is op)

    def content(self):
        """Everything but what may differ between two recordings of the same program."""
        return {key: value for key, value in self.document.items() if key != "metadata"}


def floats(blob):
    """The bytes of a blob as 32-bit floats."""
    data = bytes.fromhex(blob["hex"])
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def real(argument):
    return float.fromhex(argument["double"])
