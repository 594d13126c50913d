"""What `crucible plugin new` writes, in each memory model: built from an installed prefix it passes the kit's quick
tier and replays an example, verified. One class per model, so that each is a test of its own."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import recordings

CRUCIBLE = os.environ["CRUCIBLE"]
CMAKE = os.environ["CRUCIBLE_CMAKE"]
BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench/backends_bench.py"
MOST_LINES = 300


class Scaffold:
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="crucible-scaffold-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.project = self.folder / "acme"
        self.run_in(self.folder, CMAKE, "--install", pathlib.Path(CRUCIBLE).parent, "--prefix", self.folder / "prefix")
        self.environment = {
            **os.environ, "PATH": f"{self.folder}/prefix/bin:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(self.folder / "cache"), "XDG_CONFIG_HOME": str(self.folder / "config"), "CRUCIBLE_PLUGIN_PATH": str(self.project / "build/release")
        }
        # The installed command knows the recordings of this user: its state is left as it is.

    def run_in(self, folder, *words, environment=None, code=0):
        done = subprocess.run([str(word) for word in words], cwd=folder, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}")
        return done.stdout

    def crucible(self, *words, code=0, **more):
        return self.run_in(self.project, "crucible", *words, environment={**self.environment, **more}, code=code)

    def test_it_is_built_conforms_and_replays_an_example(self):
        self.run_in(self.folder, "crucible", "plugin", "new", "acme", "--memory", self.memory, "--dialect",
                    self.dialect, environment=self.environment)
        self.assertIn(self.words, (self.project / "src/memory.cpp").read_text())
        lines = sum(len(file.read_text().splitlines()) for file in self.project.rglob("*") if file.is_file())
        self.assertLessEqual(lines, MOST_LINES)
        self.run_in(self.project, CMAKE, "--preset", "release", "-DCMAKE_CXX_FLAGS=-Werror -O0",
                    environment=self.environment)
        self.run_in(self.project, CMAKE, "--build", "--preset", "release", environment=self.environment)
        plugin = self.project / "build/release/libcrucible_acme.so"
        self.assertRegex(self.crucible("plugin", "check", "--quick", plugin),
                         r"PASSED: \d+ cases, \d+ passed, 0 failed")
        trace = recordings.recorded(CRUCIBLE, "mlp_sgd", 3)
        replay = ["replay", trace, "--backend", "acme", "--verify"]
        self.assertRegex(self.crucible(*replay), r"verified +yes")
        # What was compiled is kept: the next run has no compiler and needs none.
        again = self.crucible(*replay)
        self.assertIn("cache", re.search(r"compile +(.*)", again).group(1))
        # What was tried of its kernels is known by their machine code.
        self.assertRegex(again, r"kernels .*\b0 of them now")
        # A missing compiler is an error of the plugin's that says what to do, with the exit code of what is not there.
        words = self.crucible(*replay, "--set", "backend.acme.compiler=/no/such/cc", code=4)
        self.assertIn(
            "the compiler /no/such/cc, which the option compiler names, is not a program: "
            "give a path or a name in PATH",
            words)
        # ci/bench backends shows it beside the plugins of this project.
        columns = self.run_in(self.project, sys.executable, BENCH, "--crucible", self.folder / "prefix/bin/crucible",
                              "--list", environment=self.environment)
        self.assertIn("acme:0 (emulated)", columns.splitlines())
        self.assertIn("backend.acme.compiler: a path or a program\n    C compiler of the kernels",
                      self.crucible("plugin", "options", "acme"))


class Host(Scaffold, unittest.TestCase):
    words = "the host's own"
    memory, dialect = "host", "c"


class Pointers(Scaffold, unittest.TestCase):
    words = "whose addresses kernels take"
    memory, dialect = "pointers", "own"


class Handles(Scaffold, unittest.TestCase):
    words = "named by handles"
    memory, dialect = "handles", "opencl"


if __name__ == "__main__":
    unittest.main()
