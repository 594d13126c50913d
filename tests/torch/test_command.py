"""`crucible record`: the program stays as it is, and the command says what was recorded."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from support import CRUCIBLE, LOOP, ROOT, RecorderTest


class Examples(RecorderTest):
    """tests/e2e does the same with fresh interpreters, and replays."""

    def check_example(self, name):
        path = os.path.join(ROOT, "examples", name)
        plain = self.run_command([self.python(), path, "--steps", "6"])
        recorded = self.run_command(
            [CRUCIBLE, "record", "-o", self.output, "--iterations", "2", "--", self.python(), path, "--steps", "6"])
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        self.assertEqual(recorded.stdout, plain.stdout, "losses under recording differ from the plain run's")
        self.assertIn("crucible: recorded 2 iterations, ", recorded.stderr)
        trace = self.trace()
        losses = [f"{iteration['losses'][0]['value']:.9g}" for iteration in trace.iterations]
        printed = [line.split()[-1] for line in plain.stdout.splitlines()]
        self.assertEqual(losses, printed[2:4])
        self.assertEqual(trace.iterations[0]["op_count"], trace.iterations[1]["op_count"])
        self.assertEqual(trace.not_recorded, [])

    def test_mlp(self):
        self.check_example("mlp_sgd.py")

    def test_gpt(self):
        self.check_example("gpt_adamw.py")

    @unittest.skipIf(importlib.util.find_spec("torchvision") is None, "torchvision is not installed")
    def test_resnet18(self):
        self.check_example("resnet18_sgd.py")


class ProgramStaysAsItIs(RecorderTest):
    fresh = True

    def test_arguments_output_and_exit_code(self):
        program = LOOP + "print(sys.argv[1:])\nprint('to stderr', file=sys.stderr)\nsys.exit(7)\n"
        arguments = ["--flag", "a b", "[1,2]", "", "--", "-o", "%%x"]
        done = self.record(program, *arguments)
        self.assertEqual(done.returncode, 7)
        self.assertEqual(done.stdout, f"{arguments}\n")
        self.assertIn("to stderr\n", done.stderr)
        self.assertEqual(len(self.trace().iterations), 4)

    def test_environment_and_import_path(self):
        program = """
            import json, os, sys
            before = list(sys.meta_path)
            print(json.dumps([os.environ.get("PYTHONPATH"), os.environ.get("CRUCIBLE_RECORDING"), sys.path,
                              "sitecustomize" in sys.modules and sys.modules["sitecustomize"].__file__]))
        """
        path = self.script(program)
        self.script("VALUE = 1\n", "sitecustomize.py")
        for python_path in (None, self.folder, ""):
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
            if python_path is not None:
                environment["PYTHONPATH"] = python_path
            plain = self.run_command([sys.executable, path], env=environment)
            recorded = self.run_command([CRUCIBLE, "record", "-o", self.output, "--", sys.executable, path],
                                        env=environment)
            before, after = json.loads(plain.stdout), json.loads(recorded.stdout)
            self.assertEqual(before[:3], after[:3])
            if python_path:
                self.assertEqual(after[3], os.path.join(self.folder, "sitecustomize.py"),
                                 "the user's own sitecustomize runs")

    def test_children_are_not_recorded(self):
        child = self.script(LOOP, "child.py")
        program = f"""
            import os, subprocess, sys
            import torch
            subprocess.run([sys.executable, {child!r}], check=True)
            assert "crucible" not in os.environ.get("PYTHONPATH", "")
        """
        done = self.record(program)
        self.assertEqual(done.returncode, 3)
        self.assertIn("no optimizer step was seen", done.stderr)
        self.assertFalse(os.path.exists(self.output))

    def test_forked_workers(self):
        program = LOOP.replace("data = [torch.randn(5, 4) for _ in range(10)]", """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 50
    def __getitem__(self, index): return torch.full((4,), float(index)) * 0.01
data = torch.utils.data.DataLoader(Data(), batch_size=5, num_workers=1, multiprocessing_context="fork")
data = iter(data)
""").replace("data[step]", "next(data)")
        done = self.record(program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.trace().iterations), 4)

    def test_traceback_shows_only_the_program(self):
        program = LOOP.replace("    loss.backward()", "    if step == 4: loss = loss.detach()\n    loss.backward()")
        path = self.script(program)
        plain = self.run_command([sys.executable, path])
        recorded = self.run_command([CRUCIBLE, "record", "-o", self.output, "--", sys.executable, path])
        self.assertTrue(recorded.stderr.startswith(plain.stderr), recorded.stderr)
        self.assertEqual(recorded.returncode, 1)

    def test_signal_ends_the_program(self):
        done = self.record("import os, signal, torch\nos.kill(os.getpid(), signal.SIGKILL)\n")
        self.assertEqual(done.returncode, 128 + 9)
        self.assertIn("without running its exit handlers", done.stderr)
        self.assertFalse(os.path.exists(self.output))

    def test_signal_is_passed_on(self):
        program = """
            import signal, sys, time
            def stop(number, frame):
                print("asked to stop", flush=True)
                sys.exit(5)
            signal.signal(signal.SIGTERM, stop)
            print("ready", flush=True)
            time.sleep(60)
        """
        path = self.script(program)
        process = subprocess.Popen([CRUCIBLE, "record", "-o", self.output, "--", sys.executable, path],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=60)
        self.assertEqual(out, "asked to stop\n")
        self.assertEqual(process.returncode, 5, error)

    def test_interrupt_from_the_terminal_arrives_once(self):
        program = """
            import signal, sys, time
            count = 0
            def note(number, frame):
                global count
                count += 1
            signal.signal(signal.SIGINT, note)
            print("ready", flush=True)
            time.sleep(1.5)
            print(count)
        """
        path = self.script(program)
        process = subprocess.Popen([CRUCIBLE, "record", "-o", self.output, "--", sys.executable, path],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(out, "1\n")


class WhatTheCommandSays(RecorderTest):
    def test_json(self):
        done = self.record(LOOP + "print('the program speaks')\n",
                           options=("--json", "--iterations", "3", "--warmup", "1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertIn("the program speaks", done.stderr)
        self.assertEqual(document["iterations"], 3)
        self.assertEqual(document["ops"], sum(document["ops_per_iteration"]))
        self.assertEqual(document["bytes"], os.path.getsize(self.output))
        self.assertEqual(document["incomplete"], [])
        self.assertGreater(document["overhead_ns_per_op"], 0)
        self.assertEqual(document["path"], self.output)
        self.assertEqual(document["exit_code"], 0)

    def test_json_without_a_recording(self):
        done = self.record("import sys\nsys.exit(4)\n", options=("--json",))
        self.assertEqual(done.returncode, 4)
        document = json.loads(done.stdout)
        self.assertEqual((document["iterations"], document["path"], document["exit_code"]), (0, None, 4))
        self.assertEqual(document["incomplete"], ["the program never imported torch"])

    def test_defaults(self):
        path = self.script(LOOP)
        done = self.run_command([CRUCIBLE, "record", "--", sys.executable, path])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(os.listdir(self.folder).count("trace.crtrace"), 1)
        trace = self.trace(os.path.join(self.folder, "trace.crtrace"))
        self.assertEqual((len(trace.iterations), trace.metadata["warmup"]), (4, 2))
        self.assertTrue(trace.metadata["framework"].startswith("torch "))
        self.assertIn("typed kernels on the Fake key", trace.metadata["frontend"])
        self.assertEqual(trace.metadata["command"], f"{sys.executable} {path}")
        self.assertEqual([name for name in os.listdir(self.folder) if "lock" in name or "tmp" in name], [])

    def test_recording_ends_and_leaves_nothing_behind(self):
        program = LOOP + """
from torch.nn.modules import module
from torch.optim import optimizer as optim
print(len(module._global_forward_hooks), len(module._global_forward_pre_hooks), len(optim._global_optimizer_pre_hooks),
      len(optim._global_optimizer_post_hooks), torch.autograd.backward.__module__,
      torch._C._dispatch_tls_is_dispatch_key_included("Fake"))
"""
        done = self.record(program, options=("--iterations", "2"))
        self.assertEqual(done.stdout, "0 0 0 0 torch.autograd False\n")

    def test_shell_around_the_program(self):
        path = self.script(LOOP)
        line = f"{sys.executable} -c 'print(1)'; {sys.executable} {path}; exit 6"
        done = self.run_command([CRUCIBLE, "record", "-o", self.output, "--", "sh", "-c", line])
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertEqual(len(self.trace().iterations), 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
