"""Measured choices among the library and generated kernels, as a user meets them: `crucible replay --tune`.

Environment: as e2e_test.py, whose folder with a recording it uses.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import e2e_test
import kept_store
from e2e_test import CRUCIBLE, crucible


class Choices(e2e_test.Folder):
    """Each test has a store of its own."""

    def setUp(self):
        self.kept = pathlib.Path(tempfile.mkdtemp(dir=self.folder)) / "store"
        self.environment = {**os.environ, "CRUCIBLE_STORE_DIR": str(self.kept)}
        if self.receipt("--tune", "off")["library_steps"] == 0:
            self.skipTest("the CPU plugin has no library here")

    def receipt(self, *options):
        done = crucible("replay", self.trace, "--verify", "--json", *options, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertTrue(document["verified"])
        return document["receipt"]

    def choose(self, library_ns, generated_ns, cut=0):
        """Every product that was measured: the times, of all generated kernels but one a little more."""
        def change(evidence):
            names = sorted(set(evidence) - {"rounds", "library"})
            chosen = min(cut, len(names) - 1)
            times = {name: str(generated_ns + (i != chosen)) for i, name in enumerate(names)}
            return {**times, "rounds": evidence["rounds"], "library": str(library_ns)}
        for path in self.kept.glob("tuning.db*"):
            path.unlink()  # as on another machine, which has the entries alone
        kept_store.change_evidence(self.kept, "choice", change)

    def choices(self):
        return kept_store.entries(self.kept, "choice")

    def test_measured_once_and_used_from_then_on(self):
        before = self.receipt()["choices"]
        self.assertGreater(before["calls"], 0)
        self.assertEqual(before["measured"], 0)
        measured = self.receipt("--tune", "measure")["choices"]
        self.assertEqual(measured["measured_now"], measured["calls"])
        self.assertEqual(len(self.choices()), measured["calls"], self.choices())
        again = self.receipt("--tune", "measure")["choices"]
        self.assertEqual((again["measured"], again["measured_now"]), (measured["calls"], 0))
        self.assertEqual(self.receipt()["choices"]["generated"], measured["generated"])
        self.assertIsNone(self.receipt("--tune", "off")["choices"])
        self.assertEqual(self.receipt("--numerics", "strict")["choices"]["measured"], 0)  # it has choices of its own

    def test_what_is_chosen_runs_and_says_so(self):
        calls = self.receipt("--tune", "measure")["choices"]["calls"]
        self.choose(1000, 2000)
        by_library = self.receipt()
        self.assertEqual(by_library["choices"]["generated"], 0)
        self.assertGreater(by_library["library_steps"], 0)
        self.choose(2000, 1000)
        generated = self.receipt()
        self.assertEqual(generated["choices"]["generated"], calls)
        self.assertEqual(generated["library_steps"], 0)
        self.assertEqual(generated["fallbacks"], [])  # nobody declined
        kernels = json.loads(crucible("kernels", self.trace, "--json", env=self.environment).stdout)["kernels"]
        product = next(kernel for kernel in kernels if kernel["ops"] == ["matmul"])
        self.assertEqual(product["kind"], "launch")
        why = crucible("kernels", self.trace, "--why", product["index"], env=self.environment).stdout
        self.assertIn("runs as a generated kernel: the library took 2.00 us, the generated kernel 1.00 us", why)

    def test_another_cut_has_the_same_bits_in_strict_numerics(self):
        def run(*options):
            done = crucible("replay", self.trace, "--verify", "--json", "--numerics", "strict", *options,
                            env=self.environment)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return json.loads(done.stdout)
        untuned = run()
        measured = run("--tune", "measure")
        self.assertEqual(measured["receipt"]["choices"]["measured_now"], measured["receipt"]["choices"]["calls"])
        self.assertEqual(measured["receipt"]["choices"]["generated"], measured["receipt"]["choices"]["calls"])
        self.choose(0, 1000, cut=9)
        last = run()
        self.assertGreater(last["receipt"]["choices"]["recut"], 0)
        self.assertEqual({untuned["result_sha256"]}, {measured["result_sha256"], last["result_sha256"]})

    def test_another_number_of_threads_has_choices_of_its_own(self):
        self.receipt("--tune", "measure", "--threads", 1)
        self.choose(2000, 1000)
        other = self.receipt("--threads", 2)
        self.assertEqual(other["choices"]["measured"], 0)
        self.assertGreater(other["library_steps"], 0)

    def test_two_processes_measure_at_once_and_lose_nothing(self):
        command = [str(CRUCIBLE), "replay", str(self.trace), "--tune", "measure", "--json"]
        both = [
            subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for process in both:
            out, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, out + err)
        after = self.receipt()["choices"]
        self.assertEqual(after["measured"], after["calls"])
        self.assertEqual(len(self.choices()), after["calls"])

    def test_damaged_choices_count_as_none(self):
        self.receipt("--tune", "measure")
        for number, entry in enumerate(self.choices()):
            damaged = ["", "{\"payloadType\": \"app", "null", "{}"][number % 4]
            kept_store.file_of(self.kept, entry["key"]).write_text(damaged)
        self.assertEqual(self.receipt()["choices"]["measured"], 0)
        self.assertGreater(self.receipt("--tune", "measure")["choices"]["measured_now"], 0)

    def test_choices_that_cannot_be_kept(self):
        shutil.rmtree(self.kept)
        self.kept.write_text("no folder")
        done = crucible("replay", self.trace, "--tune", "measure", "--json", env=self.environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("warning: choices count for this run only", done.stderr)
        self.assertGreater(json.loads(done.stdout)["receipt"]["choices"]["measured_now"], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
