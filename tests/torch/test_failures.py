"""Every refusal of `crucible record`, with its text and exit code; nothing is left under the final name."""

import os
import shutil
import subprocess
import sys
import unittest

from support import BUILD, CRUCIBLE, LOOP, RecorderTest


class Refusals(RecorderTest):
    def check(self, done, code, *texts):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        self.assertFalse(os.path.exists(self.output))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("out.crtrace")], [])

    def test_no_command(self):
        done = self.run_command([CRUCIBLE, "record", "-o", self.output])
        self.check(done, 2, "no program given")

    def test_command_that_does_not_exist(self):
        done = self.run_command([CRUCIBLE, "record", "-o", self.output, "--", "no-such-python", "x.py"])
        self.check(done, 3, "cannot run 'no-such-python': No such file or directory")

    def test_a_script_without_its_interpreter(self):
        path = os.path.join(self.folder, "loop.py")
        with open(path, "w") as file:
            file.write(LOOP)
        done = self.run_command([CRUCIBLE, "record", "-o", self.output, path])
        self.check(done, 3, f"Permission denied; give the command as you would type it after --: python {path}")

    def test_zero_iterations(self):
        self.check(self.record(LOOP, options=("--iterations", "0")), 2, "--iterations")

    def test_zero_warmup(self):
        self.check(self.record(LOOP, options=("--warmup", "0")), 2, "--warmup")

    def test_without_torch(self):
        self.check(self.record("print('hello')\n"), 3,
                   "crucible: error: nothing was recorded: the program never imported torch")

    def test_without_torch_and_failing(self):
        self.check(self.record("import sys\nsys.exit(9)\n"), 9, "never imported torch", "own exit code is 9")

    def test_never_steps(self):
        self.check(self.record("import torch\ntorch.ones(2).sum()\n"), 3,
                   "no optimizer step was seen; call crucible.step()")

    def test_never_steps_and_fails(self):
        self.check(self.record("import torch\nraise SystemExit(8)\n"), 8, "no optimizer step was seen")

    def test_raises_before_its_first_step(self):
        self.check(self.record("import torch\nraise ValueError('no data')\n"), 1,
                   "nothing was recorded: the program ended with ValueError: no data at ", "before recording began")

    def test_too_few_steps(self):
        self.check(self.record(LOOP, options=("--warmup", "30")), 3, "made 10 steps and the warm-up takes 30")

    def test_ends_in_the_first_iteration(self):
        program = LOOP.replace("range(10):\n    optimizer", "range(3):\n    optimizer")
        program = program.replace("    loss.backward()", "    if step == 2: break\n    loss.backward()")
        self.check(self.record(program), 3, "no iteration was recorded whole: the program ended")

    def test_isolated_interpreter(self):
        path = self.script(LOOP)
        done = self.run_command([CRUCIBLE, "record", "-o", self.output, "--", sys.executable, "-I", path])
        self.check(done, 3, "no Python that reads PYTHONPATH was started")

    def test_missing_folder(self):
        self.output = os.path.join(self.folder, "missing", "out.crtrace")
        self.check(self.record(LOOP), 3, "cannot create the lock file", "create the folder first")

    def test_torch_of_another_version(self):
        os.mkdir(os.path.join(self.folder, "torch"))
        self.script("__version__ = '1.2.3'\n", "torch/__init__.py")
        done = self.record("import torch\nprint('not reached')\n")
        texts = ("the recorder was built for torch 2.", "the program runs torch 1.2.3",
                 f"cmake {BUILD} -DCRUCIBLE_PYTHON={sys.executable} && cmake --build {BUILD}")
        self.check(done, 3, *texts)
        self.assertNotIn("not reached", done.stdout)
        path = self.script("import crucible\nwith crucible.record('out.crtrace'):\n    print('not reached')\n")
        done = self.run_command([sys.executable, path], env={**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")})
        self.check(done, 1, "crucible.RecordError: ", *texts)
        self.assertNotIn("not reached", done.stdout)

    def test_python_of_another_version(self):
        # The check reads build_info.py: a copy of the package that claims another version stands in for another build.
        copy = os.path.join(self.folder, "build")
        os.mkdir(copy)
        shutil.copy(CRUCIBLE, copy)
        for library in os.listdir(BUILD):
            if library.startswith("lib") and library.endswith(".so"):
                os.symlink(os.path.join(BUILD, library), os.path.join(copy, library))
        shutil.copytree(os.path.join(BUILD, "python"), os.path.join(copy, "python"))
        info = os.path.join(copy, "python", "crucible_torch", "build_info.py")
        text = open(info).read().replace('PYTHON_VERSION = "3.', 'PYTHON_VERSION = "2.')
        open(info, "w").write(text)
        path = self.script("import torch\n")
        done = self.run_command(
            [os.path.join(copy, "crucible"), "record", "-o", self.output, "--", sys.executable, path])
        self.check(done, 3, "the recorder was built for Python 2.")

    def test_recorder_not_built(self):
        copy = os.path.join(self.folder, "build")
        os.mkdir(copy)
        shutil.copy(CRUCIBLE, copy)
        for library in os.listdir(BUILD):
            if library.startswith("lib") and library.endswith(".so"):
                os.symlink(os.path.join(BUILD, library), os.path.join(copy, library))
        done = self.run_command(
            [os.path.join(copy, "crucible"), "record", "-o", self.output, "--", sys.executable, "x.py"])
        self.check(done, 4, "the recorder is not there", "CRUCIBLE_PYTHON")


class UnwritableDisk(RecorderTest):
    def test_disk_full(self):
        # A limit on file sizes stands in for a full disk: writing beyond it fails in the same place.
        program = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n" + LOOP.replace(
            "for step in range(10):",
            "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))\nfor step in range(10):")
        program += "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\nprint('goes on')\n"
        with open(self.output, "w") as out:
            out.write("an older file")
        done = self.record(program)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stdout, "goes on\n")
        self.assertIn("nothing was recorded", done.stderr)
        with open(self.output) as kept:
            self.assertEqual(kept.read(), "an older file")
        self.assertEqual(sorted(name for name in os.listdir(self.folder) if name.startswith("out")), ["out.crtrace"])

    def test_full_device(self):
        full = "/dev/full"
        done = self.run_command([CRUCIBLE, "record", "-o", full, "--", sys.executable, self.script(LOOP)])
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("cannot write /dev/full: it is not a regular file; choose another path", done.stderr)
        self.assertFalse(os.path.exists(full + ".lock"))


class TwoAtOnce(RecorderTest):
    def test_second_recording_is_refused(self):
        waiting = LOOP.replace("for step in range(10):",
                               "print('ready', flush=True)\nsys.stdin.readline()\nfor step in range(10):")
        first = subprocess.Popen([CRUCIBLE, "record", "-o", self.output, "--", sys.executable, self.script(waiting)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(first.stdout.readline(), "ready\n")
        second = self.run_command(
            [CRUCIBLE, "record", "-o", self.output, "--", sys.executable, "-c", "print('not reached')"])
        self.assertEqual(second.returncode, 3)
        self.assertIn("another recording", second.stderr)
        self.assertEqual(second.stdout, "")
        _, error = first.communicate("\n", timeout=120)
        self.assertEqual(first.returncode, 0, error)
        self.assertEqual(len(self.trace().iterations), 4)


class RaisingProgram(RecorderTest):
    PROGRAM = LOOP.replace("    optimizer.step()", """    if step == 5:
        with torch.no_grad():
            model[0].weight.mul_(100)  # its bytes are those of no complete iteration: no final state
        raise ValueError('planted')
    optimizer.step()
    if step == 4:
        print(model[2].weight.detach().numpy().tobytes().hex())""")

    def check_trace(self, done):
        trace = self.trace()
        self.assertEqual(len(trace.iterations), 3)
        self.assertTrue(all(iteration["complete"] for iteration in trace.iterations))
        self.assertEqual(sum(iteration["op_count"] for iteration in trace.iterations), len(trace.ops))
        weights = {state["name"]: state["blob"]["hex"] for state in trace.final_states}
        self.assertNotIn("0.weight", weights)
        self.assertEqual(weights["2.weight"], done.stdout.strip())
        lost = [
            item for item in trace.not_recorded if item["what"].startswith("final bytes of a state that was changed where")
        ]
        self.assertEqual([item["count"] for item in lost], [1])
        return trace

    def test_complete_iterations_are_kept(self):
        done = self.record(self.PROGRAM, options=("--iterations", "8"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("ValueError: planted", done.stderr)
        self.assertIn("crucible: recorded 3 iterations", done.stderr)
        self.assertIn("crucible: incomplete: recorded 3 of 8 iterations: the program ended with ValueError: planted",
                      done.stderr)
        trace = self.check_trace(done)
        self.assertIn("recorded 3 of 8 iterations", trace.metadata["incomplete_reason"])

    def test_model_freed_on_the_way_out(self):
        inside = "def main():\n" + "".join(f"    {line}\n" for line in self.PROGRAM.splitlines())
        done = self.record(
            inside.replace("raise ValueError('planted')", "sys.exit(12)") + "main()\n", options=("--iterations", "8"))
        self.assertEqual(done.returncode, 12, done.stderr)
        self.check_trace(done)


if __name__ == "__main__":
    unittest.main(verbosity=2)
