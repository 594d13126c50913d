"""The recorder from an installed prefix: a script is recorded and replayed, verified, and the prefix may be moved."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

CRUCIBLE = pathlib.Path(os.environ["CRUCIBLE"])
CMAKE = os.environ["CRUCIBLE_CMAKE"]
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/mlp_sgd.py"


class Recorder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="crucible-recorder-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_in_folder(self, *words, code=0):
        # Of the build tree's Python path nothing is left.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run([str(word) for word in words], cwd=self.folder, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}")
        return done.stdout

    def test_it_records_what_is_replayed(self):
        self.run_in_folder(CMAKE, "--install", CRUCIBLE.parent, "--prefix", self.folder / "first")
        prefix = (self.folder / "first").rename(self.folder / "prefix")
        libraries = list((prefix / "lib/crucible/python/crucible_torch").glob("_recorder*.so"))
        self.assertEqual(len(libraries), 1)
        facts = self.run_in_folder("readelf", "-d", libraries[0])
        self.assertNotRegex(facts, "RPATH|RUNPATH", "the machine's own paths stay in it")
        crucible = prefix / "bin/crucible"
        self.run_in_folder(crucible, "record", "-o", "step.crtrace", "--iterations", "1", "--", sys.executable, EXAMPLE)
        self.assertRegex(self.run_in_folder(crucible, "replay", "step.crtrace", "--verify"), r"verified +yes")
        shutil.rmtree(prefix / "lib/crucible/python")
        words = self.run_in_folder(crucible, "record", "-o", "step.crtrace", "--", sys.executable, EXAMPLE, code=4)
        self.assertIn(f"nor in {prefix}/lib/crucible/python, where an installation has it", words)


if __name__ == "__main__":
    unittest.main()
