"""Random index programs of PyTorch, recorded here and replayed in every way: index_test.py

CRUCIBLE (the command), CRUCIBLE_REPLAY_INDEX (replay_index) and CRUCIBLE_PACKAGE (BUILD/python) say what is tested;
CRUCIBLE_INDEX_PROGRAMS is how many programs, CRUCIBLE_INDEX_FIRST the first seed. Failures name the seed: `programs.py
PACKAGE FOLDER SEED 1 --print` prints its program.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CRUCIBLE, REPLAY_INDEX, PACKAGE = (
    os.environ[name] for name in ("CRUCIBLE", "CRUCIBLE_REPLAY_INDEX", "CRUCIBLE_PACKAGE"))
FIRST, COUNT = int(os.environ.get("CRUCIBLE_INDEX_FIRST", 0)), int(os.environ.get("CRUCIBLE_INDEX_PROGRAMS", 400))
WORKERS, BATCH = 2, 1000
COMMANDS = (["plan", "--objective", "least-memory"], ["plan", "--no-fuse"], ["kernels"], ["replay", "--verify"])


def record(folder, first, count):
    programs = pathlib.Path(__file__).parent / "programs.py"
    share = -(-count // WORKERS)
    running = [
        subprocess.Popen(
            [sys.executable, programs, PACKAGE, folder,
             str(first + i * share),
             str(min(share, count - i * share))], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for i in range(WORKERS)
        if i * share < count
    ]
    return [(process.communicate()[0], process.returncode) for process in running]


class IndexPrograms(unittest.TestCase):
    def test_replay_in_every_way_as_eager_ran_them(self):
        replayed = 0
        for first in range(FIRST, FIRST + COUNT, BATCH):
            with tempfile.TemporaryDirectory() as folder:
                count = min(BATCH, FIRST + COUNT - first)
                for text, code in record(folder, first, count):
                    self.assertEqual(code, 0, text[-4000:])
                done = subprocess.run([REPLAY_INDEX, folder, str(first), str(count)], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout[-4000:])
                replayed += int(done.stdout.split()[0])
                if first == FIRST:
                    self.commands(folder)
        print(f"{replayed} programs", flush=True)
        self.assertGreaterEqual(replayed, COUNT * 98 // 100, "most seeds give a program")

    def commands(self, folder):
        """Some of them through the command, on the processor."""
        for path in sorted(pathlib.Path(folder).glob("*.crtrace"))[:4]:
            for command in COMMANDS:
                done = subprocess.run([CRUCIBLE, command[0], path, *command[1:]], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0,
                                 f"{command} of {path.stem}: {done.stdout[-1000:]}{done.stderr[-2000:]}")


if __name__ == "__main__":
    unittest.main()
