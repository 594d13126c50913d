"""A program that warm_python.cpp hands over does what it does in a fresh interpreter: output, end and recording.

Environment: CRUCIBLE (the executable). Run by CTest; the interpreter that runs it has torch.
"""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import warm

CRUCIBLE = pathlib.Path(os.environ["CRUCIBLE"])
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "mlp_sgd.py"
WHERE = "import os, sys\nprint({n: w for n, w in os.environ.items() if n != '_'}, os.getcwd(), oct(os.umask(0)))\n"

# Whatever a program may ask its interpreter for, or end with.
PROGRAMS = {
    "arguments": "import sys; print(sys.argv, sys.path, sys.executable, __name__, globals().get('__file__'))",
    "surroundings": WHERE,
    "limits": "import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE))",
    "input": "import sys; print(sys.stdin.read()[::-1], sys.stdin.isatty(), sys.stdout.line_buffering)",
    "nothing of torch": "import sys; print([n for n in sys.modules if n.partition('.')[0] in ('torch', 'sympy')])",
    "torch first": "import torch, sys; print('torch.nn' in sys.modules, 'torch._dynamo' in sys.modules)",
    "a part first": "import torch.nn.functional as F; print(F.relu.__name__, F.__spec__.name, __import__('torch').nn.functional is F)",
    "the compiler": "import torch; torch._dynamo.config; import sympy; print(torch._dynamo.__spec__.origin, sympy.__file__)",
    "another torch": "import os, sys\nos.makedirs('other/torch', exist_ok=True)\n"
                     "open('other/torch/__init__.py', 'w').write('VALUE = 3')\nsys.path.insert(0, 'other')\n"
                     "import torch\nprint(torch.VALUE)",
    "found": "import importlib.util as u; print(u.find_spec('torch').origin, u.find_spec('torch._dynamo').name)",
    "numbers": "import torch; torch.manual_seed(1); print(torch.randn(3), torch.get_num_threads())",
    "backward": "import torch\nx = torch.ones(3, requires_grad=True)\nx.exp().sum().backward()\nprint(x.grad)",
    "exit code": "raise SystemExit(7)",
    "exit words": "raise SystemExit('no')",
    "exception": "def f():\n    raise ValueError(3)\nf()",
    "not a program": "this is no Python",
    "exit handlers": "import atexit, threading, time\natexit.register(print, 'at exit')\n"
                     "threading.Thread(target=lambda: (time.sleep(0.2), print('a thread'))).start()\nprint('main')",
    "last objects": "class A:\n    def __del__(self):\n        print('gone')\na = A()",
    "killed": "import os; os.kill(os.getpid(), 9)",
    "asked to end": "import os, signal, time; os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)",
    "children": "import os, sys, subprocess\nprint(subprocess.run([sys.executable, '-c', 'print(1)']).returncode, flush=True)\n"
                "pid = os.fork()\nif pid == 0: os._exit(3)\nprint(os.waitpid(pid, 0)[1])",
    "workers": "import multiprocessing\nprint(multiprocessing.get_context('fork').Pool(1).map(abs, [-3]))",
}


class Warm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.python = warm.python(CRUCIBLE.parent)
        folder = tempfile.TemporaryDirectory(prefix="crucible-warm-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def run_with(self, python, *arguments, **more):
        return subprocess.run([python, *map(str, arguments)], capture_output=True, text=True, timeout=120,
                              cwd=self.folder, input="abc", **more)

    def forked(self):
        """How many programs the server has run."""
        return pathlib.Path(self.python).with_name("log").read_text().count("s of a processor")

    def test_programs_do_what_they_do_in_a_fresh_interpreter(self):
        before, ran = self.forked(), 0
        environment = {**os.environ, "CRUCIBLE_A_WORD": "a b\nc", "PYTHONPATH": "/nowhere"}
        for name, text in PROGRAMS.items():
            script = self.folder / "program.py"
            script.write_text(text + "\n")
            for how in (["program.py", "x", ""], ["-c", text, "y"])[:1 if "torch" in text else 2]:
                with self.subTest(name, how=how[0]):
                    limits = lambda: (os.umask(0o27), resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 31)))
                    fresh, forked = (self.run_with(python, *how, env=environment, preexec_fn=limits)
                                     for python in (sys.executable, self.python))
                    self.assertEqual((forked.returncode, forked.stdout, forked.stderr),
                                     (fresh.returncode, fresh.stdout, fresh.stderr))
                    ran += 1
        self.assertEqual(self.forked() - before, ran, "not all ran in the server's processes")

    def test_numbers_that_nobody_seeded_are_others_each_time(self):
        look = "import random, torch; print(torch.initial_seed(), random.random())"
        for one, other in zip(*(self.run_with(self.python, "-c", look).stdout.split() for _ in range(2)), strict=True):
            self.assertNotEqual(one, other)

    def test_what_is_decided_by_the_start_is_started_afresh(self):
        before = self.forked()
        look = "import os, sys; print(os.environ.get('OMP_NUM_THREADS'), sys.flags.isolated)"
        done = self.run_with(self.python, "-c", look, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.stdout, "1 0\n", done.stderr)
        self.assertEqual(self.run_with(self.python, "-I", "-c", look).stdout[-2:], "1\n")
        self.assertEqual(self.run_with(self.python, "gone.py").returncode, 2)
        self.assertEqual(self.forked(), before)

    def test_signals_reach_it_and_nobody_outlives_who_waits(self):
        text = "import os, signal, sys, time\nsignal.signal(signal.SIGUSR1, lambda *_: sys.exit(5))\nprint(os.getpid(), flush=True)\ntime.sleep(60)"
        for number, code in ((signal.SIGUSR1, 5), (signal.SIGKILL, -9)):
            with self.subTest(number):
                running = subprocess.Popen([self.python, "-c", text], stdout=subprocess.PIPE, text=True)
                process = int(running.stdout.readline())
                running.send_signal(number)
                running.communicate(timeout=60)
                self.assertEqual(running.returncode, code)
                for _ in range(200):
                    if not pathlib.Path(f"/proc/{process}").exists():
                        break
                    time.sleep(0.05)
                self.assertFalse(pathlib.Path(f"/proc/{process}").exists())

    def test_recordings_have_the_same_content(self):
        """tests/loops has more of them: rows whose content is looked at."""
        hashes = set()
        for name, python in (("fresh", sys.executable), ("forked", self.python)):
            trace = self.folder / f"{name}.crtrace"
            done = self.run_with(CRUCIBLE, "record", "-o", trace, "--iterations", 2, "--", python, EXAMPLE, "--steps",
                                 5)
            self.assertEqual(done.returncode, 0, done.stderr)
            info = self.run_with(CRUCIBLE, "trace", "info", trace, "--json")
            hashes.add(json.loads(info.stdout)["content_hash"])
        self.assertEqual(len(hashes), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
