"""Programs with next to nothing in them, through every command: none may hang or end with an error of ours.

No ops, one op, no outputs, outputs that are inputs, empty tensors: recorded in this process, then replayed, planned for
every objective, compared, measured, listed and cut into capsules. CRUCIBLE is the command, CRUCIBLE_PACKAGE
BUILD/python.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CRUCIBLE, PACKAGE = os.environ["CRUCIBLE"], os.environ["CRUCIBLE_PACKAGE"]
sys.path.insert(0, PACKAGE)

import crucible  # noqa: E402
import torch  # noqa: E402

SECONDS = 60  # of a command that takes one
OURS = (5, 101, 134, 139)  # exit codes that say that we failed

COMMANDS = [["replay", "TRACE", "--verify"], ["replay", "TRACE", "--verify", "--no-fuse"],
            ["replay", "TRACE", "--verify", "--objective", "least-memory"],
            ["replay", "TRACE", "--verify", "--numerics", "strict"],
            ["replay", "TRACE", "--verify", "--backend", "reference"],
            *(["plan", "TRACE", "--objective", objective] for objective in ("fastest", "balanced", "least-memory")),
            ["plan", "TRACE", "--objective", "least-memory", "--no-fuse"], ["plan", "TRACE", "--memory-budget", "1KiB"],
            ["plan", "TRACE", "--device-profile", "l4", "--objective", "least-memory"],
            ["compare", "TRACE", "--backends", "reference,cpu"],
            ["bench", "TRACE", "--backends", "cpu", "reference", "--rounds", "1"], ["kernels", "TRACE"],
            ["kernels", "TRACE", "--json"], ["graph", "TRACE"], ["graph", "TRACE", "--stages"],
            ["graph", "TRACE", "--format", "svg"], ["graph", "TRACE", "--format", "binary", "-o", "OUT"],
            ["trace", "info", "TRACE"], ["trace", "info", "TRACE", "--json"],
            ["compare", "TRACE", "--backends", "reference,cpu", "--capsule", "OUT"],]


def identity(x, step):
    torch.nn.Identity()(x)


def one_op(x, step):
    x.add_(1)


def no_outputs(x, step):
    (x * 2).sum()


class Same(torch.nn.Module):
    def forward(self, x):
        return x, x


def outputs_are_inputs(x, step):
    Same()(x)


def empty(x, step):
    none = torch.zeros(0, 3)
    torch.cat([none, none * 2]).sum()
    x[:0].add_(1)


def empty_in_training(x, step):
    loss = (x[:0] @ WEIGHT).sum() + (WEIGHT * 0.5).sum()
    OPTIMIZER.zero_grad()
    loss.backward()
    OPTIMIZER.step()


def fill_alone(x, step):
    x.zero_()


def new_alone(x, step):
    torch.zeros(3)


WEIGHT = torch.nn.Parameter(torch.ones(3, 2))
OPTIMIZER = torch.optim.SGD([WEIGHT], lr=0.1)
PROGRAMS = [identity, one_op, no_outputs, outputs_are_inputs, empty, empty_in_training, fill_alone, new_alone]


class Degenerate(unittest.TestCase):
    def test_no_command_hangs_or_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            for program in PROGRAMS:
                trace = pathlib.Path(folder) / (program.__name__ + ".crtrace")
                x = torch.ones(4, 3)
                try:
                    with crucible.record(trace, iterations=2, warmup=1, end_of_iteration="step"):
                        for step in range(4):
                            program(x, step)
                            crucible.step()
                except crucible.RecordError as error:  # nothing at all was there to be recorded
                    self.assertTrue(str(error), program.__name__)
                    continue
                for command in COMMANDS:
                    self.run_command(
                        program.__name__,
                        [{"TRACE": str(trace), "OUT": str(trace) + ".out"}.get(part, part) for part in command])

    def run_command(self, name, command):
        with self.subTest(program=name, command=command[:1] + command[2:]):
            try:
                done = subprocess.run([CRUCIBLE, *command], capture_output=True, text=True, errors="replace",
                                      timeout=SECONDS * 5)
            except subprocess.TimeoutExpired:
                self.fail("does not end")
            self.assertNotIn(done.returncode, OURS, done.stderr[-1000:])
            self.assertGreaterEqual(done.returncode, 0, "ended by a signal: " + done.stderr[-1000:])
            if os.environ.get("CRUCIBLE_SHOW"):
                print(
                    f"{name:20} {done.returncode} {' '.join(command[:1] + command[2:]):60.60} {done.stderr.strip()[-150:]}",
                    flush=True)


if __name__ == "__main__":
    unittest.main()
