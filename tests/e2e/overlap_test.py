"""What runs at the same time: two devices in one comparison, an iteration and the next inputs. All of it is told by the
the order of measured events, none by how long they take.

Environment: CRUCIBLE (the executable). Run by CTest; the interpreter that runs it has torch, for the recording alone.
"""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from e2e_test import Folder, crucible, opencl_drivers  # noqa: E402

ITERATIONS = 3


class Overlap(Folder):

    def timeline(self, *arguments, env=None):
        """Runs a command that writes a timeline; returns its events: category, device, iteration, begin, end."""
        file = self.folder / f"{self._testMethodName}.json"
        done = crucible(*arguments, "--timeline", file, "--json", env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        events = []
        for event in json.loads(file.read_text())["traceEvents"]:
            if event["ph"] != "X":
                continue
            self.assertIn(event["args"]["measured_by"], ("events of the device", "the host's clock"))
            events.append((event["cat"], event["args"]["device"], event["args"]["iteration"], event["ts"],
                           event["ts"] + event["dur"]))
        return events

    def assert_inputs_are_ahead(self, events, device):
        """While iteration n was in flight the inputs of n + 1 were written: before anybody had read n's results, and
        before n + 1 began; those of the first iteration before it began."""
        def only(category, iteration):
            found = [event for event in events if event[:3] == (category, device, iteration)]
            self.assertEqual(len(found), 1, (category, iteration, events))
            return found[0]

        for iteration in range(ITERATIONS):
            _, _, _, written_from, written = only("inputs", iteration)
            _, _, _, began, ended = only("run", iteration)
            _, _, _, reading, _ = only("results", iteration)
            self.assertLessEqual(written, began)
            self.assertLessEqual(ended, reading)
            if iteration > 0:
                self.assertLessEqual(written, only("results", iteration - 1)[3])
                self.assertLessEqual(only("results", iteration - 2)[4] if iteration > 1 else 0, written_from)
                self.assertLessEqual(only("run", iteration - 1)[4], began)

    def test_inputs_are_written_while_an_iteration_runs(self):
        events = self.timeline("replay", self.trace, "--backend", "cpu")
        self.assertEqual({event[1] for event in events}, {"cpu:0"})
        self.assert_inputs_are_ahead(events, "cpu:0")

    def test_with_verification_the_results_are_the_same(self):
        file = self.folder / "verified.json"
        plain = json.loads(crucible("replay", self.trace, "--backend", "cpu", "--verify", "--json").stdout)
        done = crucible("replay", self.trace, "--backend", "cpu", "--verify", "--json", "--timeline", file)
        self.assertEqual(json.loads(done.stdout)["result_sha256"], plain["result_sha256"])

    def test_a_budget_keeps_inputs_in_one_place(self):
        wide = json.loads(crucible("replay", self.trace, "--backend", "cpu", "--json").stdout)
        narrow = crucible("replay", self.trace, "--backend", "cpu", "--verify", "--json", "--objective", "least-memory")
        self.assertEqual(narrow.returncode, 0, narrow.stdout + narrow.stderr)
        self.assertLess(json.loads(narrow.stdout)["planned_peak_bytes"], wide["planned_peak_bytes"])

    def test_two_opencl_drivers_run_at_the_same_time(self):
        if len(opencl_drivers()) < 2:
            self.skipTest("one OpenCL driver at most: CRUCIBLE_INTEL_OPENCL names no second one; ci/test installs one")
        vendors = self.folder / "vendors"
        vendors.mkdir()
        (vendors / "intel.icd").write_text(os.environ["CRUCIBLE_INTEL_OPENCL"] + "\n")
        for found in pathlib.Path(os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")).glob("*.icd"):
            (vendors / found.name).write_text(found.read_text())
        environment = {**os.environ, "OCL_ICD_VENDORS": str(vendors), "CRUCIBLE_STORE_DIR": str(self.folder / "store")}
        for _ in range(5):  # a busy machine may give the second driver no processor while the first one runs
            events = self.timeline("compare", self.trace, "--backends", "opencl:0,opencl:1", "--tolerance", "1e-2",
                                   env=environment)
            for device in ("opencl:0", "opencl:1"):
                self.assert_inputs_are_ahead(events, device)
            runs = {(device, iteration): (begin, end)
                    for category, device, iteration, begin, end in events if category == "run"}
            self.assertEqual(len(runs), 2 * ITERATIONS)
            pairs = [(runs["opencl:0", iteration], runs["opencl:1", iteration]) for iteration in range(ITERATIONS)]
            if any(first[0] < second[1] and second[0] < first[1] for first, second in pairs):
                return
        self.fail(f"the two drivers never ran at the same time: {pairs}")


if __name__ == "__main__":
    unittest.main()
