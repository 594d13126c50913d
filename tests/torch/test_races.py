"""Eight threads recorded at once while iterations begin and end and are written. Built with the thread sanitizer, the
recorder runs under it here: what two threads touch without order is a failure."""

import json
import os
import sys
import unittest

from support import BUILD, ROOT, RecorderTest, real

PROGRAM = """
import ctypes, json, sys, threading
sys.path.insert(0, sys.argv[1])
import crucible
import torch

work = ctypes.CDLL(sys.argv[2]).crucible_work
work.argtypes = [ctypes.c_int64] * 2
output, kernels, snapshot, threads, parts, rounds = sys.argv[3], sys.argv[4], sys.argv[5], *map(int, sys.argv[6:])
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
work(0, 1)

def step():
    optimizer.zero_grad()
    model(torch.ones(5, 4)).square().mean().backward()
    optimizer.step()
    crucible.step()

joined, begun, counted = (threading.Barrier(threads + 1) for _ in range(3))
over = threading.Event()

def run(number):
    with crucible.record_thread():
        joined.wait()
        begun.wait()
        for part in range(parts):
            work((number * parts + part) * rounds, rounds)
        counted.wait()
        while not over.is_set():  # inside ops when the recording ends
            work(-1, 1)

def record(name, iterations, before_last):
    with crucible.record(output + name, iterations=iterations, warmup=1, end_of_iteration="step", kernels=kernels, snapshot=snapshot) as made:
        if not others[0].is_alive():
            for other in others:
                other.start()
            joined.wait()
        step()
        assert crucible.is_recording()
        if not begun.broken and before_last is not None:
            begun.wait()
        for iteration in range(iterations):
            if before_last is None:
                with crucible.phase("evaluation" if iteration % 2 else "forward"):
                    model(torch.ones(5, 4))
            elif iteration == iterations - 1:
                before_last()
            step()
    return made.summary

others = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
first = record("1", 12, counted.wait)
second = record("2", 4, None)
third = record("3", 4, None)
over.set()
for other in others:
    other.join()
assert not torch._C._dispatch_tls_is_dispatch_key_included("Fake")
print(json.dumps([first["ops"], second["ops"], third["ops"]]))
"""

THREADS, PARTS, ROUNDS = 8, 2, 50


class Threads(RecorderTest):
    def run_program(self, kernels, snapshot):
        """Records three times; returns the first trace, in which every round is counted."""
        library = os.path.join(BUILD, "tests", "torch", "libcrucible_thread_work.so")
        preload = os.environ.get("CRUCIBLE_PRELOAD", "")
        # torch locks some mutexes where the sanitizer does not look and unlocks them in functions of its headers, where
        # it does.
        options = f"report_mutex_bugs=0:suppressions={os.path.join(ROOT, 'tests', 'tsan.supp')}"
        environment = {**os.environ, "TSAN_OPTIONS": options}
        if preload:
            environment["LD_PRELOAD"] = preload
        done = self.run_command([
            sys.executable,
            self.script(PROGRAM),
            os.path.join(BUILD, "python"), library, self.output, kernels, snapshot,
            str(THREADS),
            str(PARTS),
            str(ROUNDS)
        ], env=environment)
        self.assertEqual(done.returncode, 0, done.stderr[-20000:])
        self.assertEqual(len(json.loads(done.stdout)), 3)
        for again in ("2", "3"):
            self.assertEqual(len(self.trace(self.output + again).iterations), 4)
        return self.trace(self.output + "1")

    def check(self, kernels, snapshot=""):
        trace = self.run_program(kernels, snapshot)
        self.assertEqual(len(trace.iterations), 12)
        rounds = {}  # by thread, in the file's order
        for op in trace.ops_named("aten::fill_.Scalar"):
            if op["thread"] != 0 and trace.tensor(op["args"][0])["sizes"] == [8] and isinstance(op["args"][1], dict):
                rounds.setdefault(op["thread"], []).append(int(real(op["args"][1])))
        rounds = {thread: [number for number in numbers if number >= 0] for thread, numbers in rounds.items()}
        each = PARTS * ROUNDS
        self.assertEqual(sorted(rounds.values()),
                         [list(range(first, first + each)) for first in range(0, THREADS * each, each)])
        own = [op["name"] for op in trace.ops if op["thread"] != 0]
        self.assertGreaterEqual(own.count("aten::sum"), THREADS * each)
        self.assertNotIn("aten::mm", own, "an op that threw leaves no record")
        return trace

    def test_typed_kernels(self):
        self.check("typed")

    def test_boxed_kernels_and_hashes(self):
        self.check("boxed", "ops")


if __name__ == "__main__":
    unittest.main(verbosity=2)
