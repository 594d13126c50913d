"""Data that the program's own process makes (docs/recording.md, "Data is input"): what a recording has of it, and that
the program notices nothing. Whole programs with DataLoaders are in tests/loops."""

import os
import sys
import unittest

from support import BUILD, CRUCIBLE, RecorderTest

# A net, an optimizer and a data set; tests put code before the loop.
PROGRAM = """
import os, sys, torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
import torch.utils.data.dataloader as loaders

torch.manual_seed(0)
net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = TensorDataset(torch.randn(64, 4), torch.randint(0, 3, (64,)))
{setup}
def train(x, y):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
{loop}
"""
LOOP = """
for x, y in DataLoader(data, 8, shuffle=True):
    train(x, y)
"""


class Input(RecorderTest):
    def program(self, setup="", loop=LOOP):
        return PROGRAM.format(setup=setup, loop=loop)

    def names(self, trace):
        return {op["name"] for op in trace.ops}

    def test_an_iteration_has_the_program_s_ops_alone(self):
        trace = self.recorded(self.program())
        self.assertEqual(self.names(trace) & {"aten::stack", "aten::randperm", "aten::select", "aten::random_"}, set())
        inputs = [external for external in trace.externals if external["iteration"] == 1]
        self.assertEqual(len(inputs), 2)  # the batch; everything else is carried

    def test_memory_that_the_loader_writes_too(self):
        """The program's own, which changes in every iteration: where the loader writes it, its bytes are taken again."""
        trace = self.recorded(
            self.program(
                "memory, batches = torch.ones(4), []\n"
                "def collate(batch):\n"
                "    batches.append(1)\n"
                "    if len(batches) == 6: memory.add_(1)\n"
                "    return torch.stack([x for x, _ in batch]), torch.stack([y for _, y in batch])\n",
                "for x, y in DataLoader(data, 8, collate_fn=collate):\n"
                "    memory.mul_(0.5)\n"
                "    train(x + memory, y)\n"), options=("--iterations", "4"))
        memory = trace.storage(trace.one("aten::mul_.Tensor")["args"][0])
        self.assertEqual([external["iteration"] for external in trace.externals_of(memory)], [0, 3])

    def test_what_it_reads_of_the_program_is_told(self):
        trace = self.recorded(
            self.program(
                "hardest = [torch.zeros(())]\n"
                "def collate(batch):\n"
                "    x = torch.stack([x for x, _ in batch])\n"
                "    return x + float(hardest[0]), torch.stack([y for _, y in batch])\n",
                "for x, y in DataLoader(data, 8, collate_fn=collate):\n"
                "    train(x, y)\n"
                "    hardest[0] = net.weight.detach().norm()\n"))
        told = [item for item in trace.not_recorded if item["what"].startswith("ops that make data")]
        self.assertEqual([item["count"] for item in told], [2])

    def test_a_loader_of_the_program_s_own(self):
        """A program that replaces the methods in front of ours or behind them keeps what it put there."""
        done = self.record(
            self.program(
                "first, seen = loaders._BaseDataLoaderIter.__next__, []\n"
                "def counted(self):\n"
                "    seen.append(1)\n"
                "    return first(self)\n"
                "loaders._BaseDataLoaderIter.__next__ = counted\n",
                LOOP + "assert len(seen) == 9 and loaders._BaseDataLoaderIter.__next__ is counted\n"
                "print(DataLoader.__iter__.__qualname__, type(DataLoader.__iter__).__name__)\n"),
            options=("--iterations", "2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split("\n")[0], "DataLoader.__iter__ function")

    def test_an_error_of_the_data_set(self):
        done = self.record(
            self.program(
                "class Broken(Dataset):\n"
                "    def __len__(self): return 64\n"
                "    def __getitem__(self, i):\n"
                "        if i == 50: raise ValueError('no such picture')\n"
                "        return data[i]\n",
                "try:\n"
                "    for x, y in DataLoader(Broken(), 8):\n"
                "        train(x, y)\n"
                "except ValueError as error:\n"
                "    print(error)\n"
                "for x, y in DataLoader(data, 8):\n"
                "    train(x, y)\n"), options=("--iterations", "8"))
        self.assertEqual((done.returncode, done.stdout.split("\n")[0]), (0, "no such picture"), done.stderr)
        trace = self.trace()
        self.assertEqual(len({iteration["op_count"] for iteration in trace.iterations}), 1)
        self.assertEqual(len(trace.iterations), 8)

    def test_a_child_that_is_forked_inside(self):
        done = self.record(
            self.program(
                "class Forks(Dataset):\n"
                "    def __len__(self): return 64\n"
                "    def __getitem__(self, i):\n"
                "        if i % 8 == 0 and os.fork() == 0:\n"
                "            os._exit(0 if float(torch.ones(2).sum()) == 2 else 1)\n"
                "        if i % 8 == 0: assert os.wait()[1] == 0\n"
                "        return data[i]\n",
                "for x, y in DataLoader(Forks(), 8):\n"
                "    train(x, y)\n"), options=("--iterations", "4"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.trace().iterations), 4)

    def said(self, loop):
        """The recording of a program that imports crucible."""
        path = self.script(self.program("import crucible\n", loop))
        done = self.run_command([CRUCIBLE, "record", "-o", self.output, "--", sys.executable, path],
                                env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")})
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.trace()

    def test_said_by_the_program(self):
        trace = self.said("for step in range(8):\n"
                          "    with crucible.phase('input'):\n"
                          "        with crucible.phase('input'):\n"
                          "            x = torch.randn(8, 4)\n"
                          "        y = torch.randint(0, 3, (8,))\n"
                          "    train(x, y)\n")
        self.assertEqual(self.names(trace) & {"aten::randn", "aten::randint.low"}, set())

    def test_two_pauses_one_after_the_other(self):
        """What changed in the first is noticed, although nothing used it before the second."""
        trace = self.said("for step in range(8):\n"
                          "    with crucible.phase('evaluation'):\n"
                          "        if step == 4: net.weight.data.mul_(0.5)\n"
                          "    with crucible.phase('evaluation'):\n"
                          "        pass\n"
                          "    train(*data[:8])\n")
        taken = [external["iteration"] for external in trace.externals if external["name"] == "weight"]
        self.assertEqual(taken, [0, 2])


if __name__ == "__main__":
    unittest.main()
