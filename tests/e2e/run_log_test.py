"""Run logs as a user meets them: two strict runs on two vendors' devices end in the same state and the log says so, and
a run that is stopped or killed leaves a log that says so.

Environment: as e2e_test.py, whose folder with a recording it uses.
"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

import e2e_test
from e2e_test import CRUCIBLE, ROOT, crucible, opencl_drivers

sys.path.insert(0, str(ROOT / "tests" / "models"))
from devices_here import devices  # noqa: E402


class RunLog(e2e_test.Folder):
    def setUp(self):
        self.environment = {
            **os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")
        }
        self.file = self.folder / f"{self._testMethodName}.crlog"

    def replay(self, *options, trace=None, numerics="strict"):
        done = crucible("replay", trace or self.trace, "--numerics", numerics, "--log", self.file, *options,
                        env=self.environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def log(self, *options, code=0):
        done = crucible("log", self.file, *options, "--json", env=self.environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_strict_runs_on_two_devices_end_in_the_same_state(self):
        secret, public = self.folder / "ours.pem", self.folder / "ours.pem.pub"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", secret], check=True)
        secret.chmod(0o600)
        subprocess.run(["openssl", "pkey", "-in", secret, "-pubout", "-out", public], check=True)
        others = {name: options for name, options in devices(CRUCIBLE).items() if name.endswith("(emulated)")}
        others |= {driver: ["--backend", "opencl", *options] for driver, options in opencl_drivers().items()}
        if not others:
            self.skipTest("there is no device beside the processor: install ocl-icd-libopencl1 and pocl-opencl-icd")
        self.replay("--verify", "--log-key", secret)
        for options in others.values():
            self.replay(*options, "--log-key", secret)
        runs = self.log()["runs"]
        self.assertEqual(len(runs), 1 + len(others))
        self.assertEqual(len({run["state_after"] for run in runs}), 1, runs)
        self.assertGreater(len({run["device"] for run in runs}), 1, runs)
        self.assertEqual([run["ended"] for run in runs], ["done"] * len(runs))
        compared = self.log("--compare")
        self.assertTrue(compared["equal"])
        self.assertTrue(all(pair["both_strict"] for pair in compared["pairs"]))
        words = crucible("log", self.file, "--compare").stdout
        self.assertEqual(words.count(f"the state after 3 iterations is equal: {runs[0]['state_after']}"), len(others))
        verified = self.log("--verify", "--key", public, "--recording", self.trace, "--again", "--backend", "cpu")
        self.assertTrue(verified["verified"])
        self.assertTrue(verified["again"]["equal"])
        self.assertTrue(verified["again"]["promised"])
        self.assertNotEqual(runs[-1]["device"], "cpu:0")
        self.assertEqual(verified["again"]["device"], "cpu:0")

    def test_a_device_that_computes_otherwise_is_seen(self):
        """A compiler that makes each exponential a little larger."""
        planted = self.folder / "planting-clang"
        planted.write_text(
            '#!/bin/bash\nfor a; do case $a in *.c) sed -i "s/= crucible_exp_f32(/= 1.0001f * crucible_exp_f32(/" "$a" ;; esac; done\n'
            'exec clang-19 "$@"\n')
        planted.chmod(0o755)
        self.replay(numerics="fast")  # strict numerics do not admit it
        self.replay("--set", f"backend.cpu.compiler={planted}", "--set", "kernel_trial=false", numerics="fast")
        pair = self.log("--compare", code=1)["pairs"][0]
        self.assertTrue(pair["same_program"] and pair["same_start"])
        self.assertEqual(pair["first_difference"]["iteration"], 0)
        self.assertIn(pair["first_difference"]["what"], ("outputs", "state"))
        self.assertTrue(any("weight" in state for state in pair["states_that_differ"]), pair)
        last = self.log()["runs"][1]["run"]
        verified = self.log("--verify", "--recording", self.trace, "--again", "--run", last[:10], code=1)
        self.assertIn("in iteration 0, the first that differs (fast numerics promise", verified["bad"][0])

    def slow_trace(self):
        """Some 40 iterations that the interpreter of kernels takes a while for."""
        done, trace = self.record(
            """
            import torch
            torch.manual_seed(0)
            model = torch.nn.Linear(256, 256)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for step in range(45):
                optimizer.zero_grad()
                model(torch.randn(256, 256)).square().mean().backward()
                optimizer.step()
            """, "--iterations", 40)
        self.assertEqual(done.returncode, 0, done.stderr)
        return trace

    def stopped(self, how):
        """A run that gets a signal once its first iterations are in the log."""
        trace = self.slow_trace()
        run = subprocess.Popen([
            str(CRUCIBLE), "replay", str(trace), "--backend", "reference", "--numerics", "strict", "--no-sandbox", "--log",
            str(self.file)
        ], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.environment)
        while run.poll() is None and (not self.file.exists() or self.file.read_bytes().count(b"\n") < 3):
            time.sleep(0.01)
        run.send_signal(how)
        _, err = run.communicate(timeout=200)
        self.assertEqual(run.returncode, -how, err)
        return trace

    def test_a_run_that_is_interrupted_says_so(self):
        trace = self.stopped(signal.SIGINT)
        run = self.log()["runs"][0]
        self.assertEqual(run["ended"], "interrupted")
        self.assertGreaterEqual(run["iterations_logged"], 2)
        self.assertLess(run["iterations_logged"], 40)
        self.assertTrue(self.log("--verify")["verified"])
        self.assertIn("interrupted by SIGINT", crucible("log", self.file).stdout)
        verified = self.log("--verify", "--recording", trace, "--again", "--backend", "cpu")
        self.assertTrue(verified["again"]["equal"], verified)

    def test_a_run_that_is_killed_has_no_end(self):
        trace = self.stopped(signal.SIGKILL)
        text = self.file.read_bytes()
        if not text.endswith(b"\n"):  # it was killed in the middle of a line
            self.file.write_bytes(text[:text.rindex(b"\n") + 1])
        self.assertIsNone(self.log()["runs"][0]["ended"])
        self.assertIn("has no end", self.log("--verify", code=1)["bad"][0])
        self.replay(trace=trace)  # the chain goes on, and what is before it is known to be all there was
        verified = self.log("--verify")
        self.assertTrue(verified["verified"])
        self.assertIn("another one began after it", verified["notes"][0])


if __name__ == "__main__":
    unittest.main()
