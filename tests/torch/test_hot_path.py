"""What recording costs an op, counted: in steady state the recorder allocates nothing on the program's thread."""

import json
import os
import sys
import unittest

from support import BUILD, RecorderTest

PROGRAM = """
import ctypes, json, os, sys
sys.path.insert(0, sys.argv[1])
import torch
from crucible_torch import _recorder
from crucible_torch.naming import Names

kernels, layers, planted = sys.argv[2], int(sys.argv[3]), sys.argv[4] == "planted"
ITERATIONS = 10
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()) for _ in range(layers)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
batch = torch.randn(8, 32)
allocations = ctypes.CDLL(None)
allocations.crucible_counted_allocations.restype = ctypes.c_uint64

def step():
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()

def code_of_the_library():
    name = os.path.basename(_recorder.__file__)
    found = [line.split()[0].split("-") for line in open("/proc/self/maps") if line.rstrip().endswith(name)]
    return int(found[0][0], 16), int(found[-1][1], 16)

step()
_recorder.install(kernels)
folders = [os.path.dirname(torch.__file__) + os.sep]
_recorder.start(torch.nn.Module.__call__, folders, Names(_recorder, torch).add_root, 1)
for _ in range(20):  # tables grow to their size, lines are met
    step()
    _recorder.end_iteration()
begin, end = code_of_the_library()
ops = _recorder.measures()["ops"]
counted = 0
for _ in range(ITERATIONS):
    allocations.crucible_count_allocations(ctypes.c_uint64(begin), ctypes.c_uint64(end))
    step()
    if planted:
        for _ in range(layers):
            torch.quantize_per_tensor(torch.eye(1), 0.1, 0, torch.quint8).dequantize()
    counted += allocations.crucible_counted_allocations()
    _recorder.end_iteration()  # a boundary may allocate: once per iteration
ops = _recorder.measures()["ops"] - ops
_recorder.stop()
_recorder.uninstall()
_recorder.clear()
print(json.dumps({"ops": ops, "allocations": counted}))
"""


class Allocations(RecorderTest):
    def counted(self, kernels, layers, planted="plain"):
        library = os.path.join(BUILD, "tests", "torch", "libcrucible_count_allocations.so")
        done = self.run_command(
            [sys.executable,
             self.script(PROGRAM),
             os.path.join(BUILD, "python"), kernels,
             str(layers), planted], env={**os.environ, "LD_PRELOAD": library})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_ops_allocate_nothing(self):
        # What enters in an iteration costs some; ten times the ops cost no more.
        few, many = self.counted("typed", 10), self.counted("typed", 100)
        self.assertGreater(many["ops"], few["ops"] + 10000)
        self.assertLess(few["allocations"], 100, few)
        self.assertLessEqual(many["allocations"], few["allocations"] + 20, (few, many))
        print(f"{few} and {many}", file=sys.stderr)

    def test_what_allocates_is_counted(self):
        plain, planted = self.counted("typed", 10), self.counted("typed", 10, "planted")
        self.assertGreater(planted["allocations"], plain["allocations"] + 100)


if __name__ == "__main__":
    unittest.main(verbosity=2)
