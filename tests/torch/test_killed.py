"""A recording process that is killed at a random moment leaves every iteration that it had written: `crucible trace
recover`.

CRUCIBLE_KILLS says how often (20 by default); each process is a fork of this one that records a training loop.
"""

import json
import os
import random
import signal
import sys
import time
import unittest

from in_process import InProcessTest, crucible, model, torch
from support import CRUCIBLE

KILLS = int(os.environ.get("CRUCIBLE_KILLS", "20"))
MOST_BEHIND = 4  # TraceStream::kMostBehind


def on_one_core():
    """The background thread, at low priority, has to share a core with the program: it falls behind."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def record_for_ever(path, progress, slow_writer):
    """In the child: tells after each step how many iterations are complete."""
    torch.set_num_threads(1)
    if slow_writer:
        on_one_core()
    net = model(16)
    optimizer = torch.optim.AdamW(net.parameters(), foreach=True)
    with crucible.record(path, iterations=1000000, warmup=1):
        while True:
            net(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            os.write(progress, b".")


class Killed(InProcessTest):
    def kill_once(self, dice, slow_writer):
        """Returns how many steps were made and what recover said."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                record_for_ever(self.output, write, slow_writer)
            finally:
                os._exit(9)
        os.close(write)
        wanted, made = dice.randrange(0, 60), 0
        while made < wanted:
            data = os.read(read, 1)
            self.assertEqual(data, b".", "the child ended by itself")
            made += 1
        time.sleep(dice.random() * 0.005)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        made += len(os.read(read, 1 << 16))
        os.close(read)
        return made, self.run_command([CRUCIBLE, "trace", "recover", self.output, "--json"])

    def test_what_was_written_is_recovered(self):
        seed = random.randrange(1 << 32)
        dice = random.Random(seed)
        recovered = behind = 0
        for kill in range(KILLS):
            with self.subTest(seed=seed, kill=kill):
                made, done = self.kill_once(dice, kill % 2 == 1)
                if done.returncode == 3:
                    self.assertRegex(done.stderr, "no iteration|there is no ")
                    self.assertLessEqual(made - 1, MOST_BEHIND, done.stderr)
                    for left in os.listdir(self.folder):
                        os.remove(os.path.join(self.folder, left))
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)
                iterations = json.loads(done.stdout)["iterations"]
                self.assertLessEqual(iterations, made)  # the first step is the warm-up, the last may be on its way
                checked = self.run_command([CRUCIBLE, "trace", "check", self.output])
                self.assertEqual(checked.returncode, 0, checked.stderr)
                if kill < 5:
                    trace = self.trace()
                    self.assertEqual(len(trace.iterations), iterations)
                    self.assertEqual(len({iteration["op_count"] for iteration in trace.iterations}), 1)
                    self.assertIn("recovered", trace.metadata["incomplete_reason"])
                recovered += 1
                self.assertLessEqual(made - 1 - iterations, MOST_BEHIND,
                                     "more complete iterations were lost than may wait")
                behind = max(behind, made - 1 - iterations)
                self.assertEqual([name for name in os.listdir(self.folder) if "partial" in name or "journal" in name],
                                 [])
        self.assertGreater(recovered, KILLS // 3)
        print(f"{KILLS} kills, {recovered} files recovered, at most {behind} complete iterations behind",
              file=sys.stderr)


class Waiting(InProcessTest):
    """A program that is faster than the background thread waits for it, and nothing is lost."""

    def test_waits_are_counted_and_told(self):
        # Hashing, compressing and writing them takes several times as long as a step, which adds up a few of them.
        count, size = 40, 2 << 20
        bytes_ = bytearray(os.urandom(count * size))
        cores = os.sched_getaffinity(0)
        on_one_core()
        try:
            net = model()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            with self.block(iterations=count - 2, warmup=1) as recording:
                for step in range(count):
                    torch.frombuffer(bytes_, dtype=torch.uint8, offset=step * size, count=size)[:64].sum()
                    net(torch.randn(8, 4)).square().mean().backward()
                    optimizer.step()
                    optimizer.zero_grad()
        finally:
            os.sched_setaffinity(0, cores)
        measures = recording.summary["measures"]
        self.assertGreater(measures["waits"], 0)
        self.assertGreater(measures["wait_ns"], 0)
        told = [note for note in recording.summary["notes"] if "for iterations to be written" in note]
        self.assertEqual(len(told), measures["wait_ns"] > 100_000_000)
        self.assertEqual(len(self.trace().iterations), count - 2)

    def test_a_few_iterations_never_wait(self):
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with self.block(iterations=MOST_BEHIND) as recording:
            for _ in range(8):
                net(torch.randn(8, 4)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        self.assertEqual(recording.summary["measures"]["waits"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
