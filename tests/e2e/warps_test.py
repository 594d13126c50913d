"""The warps of a recording's kernels, counted on the emulated NVIDIA driver: nothing that is computed changes by it,
the table says what was counted, and where the counted blocks alone run, what was not computed is not verified.

Environment: as e2e_test.py, whose folder with a recording it uses.
"""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import e2e_test
from e2e_test import CRUCIBLE, ROOT, crucible, recordings

sys.path.insert(0, str(ROOT / "tests" / "models"))
from devices_here import devices, nvrtc_library  # noqa: E402

# What the kernels of an example come to in the model of an H100 (tests/emulators/README.md), with a twentieth to spare.
LIMITS = {
    "gpt_adamw": "--at-most generated_launches=109 --at-most modelled_us=360 --at-most worst_factor=12.5 "
                 "--at-most above_twice=4 --at-most worst_sectors=1.7 --at-least big_bytes_per_lane=8.5",
    "resnet18_sgd": "--at-most generated_launches=67 --at-most modelled_us=342 --at-most worst_factor=6.4 "
                    "--at-most above_twice=27 --at-most worst_sectors=1.9 --at-least big_bytes_per_lane=10.5"
}


class Warps(e2e_test.Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.options = devices(CRUCIBLE).get("nvidia (emulated)")

    def setUp(self):
        if self.options is None:
            self.skipTest("this build has no emulated NVIDIA driver, or there is no NVRTC")
        self.environment = {
            **os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")
        }

    def replay(self, *more, **environment):
        return crucible("replay", self.trace, *self.options, "--json", *more, env={**self.environment, **environment})

    def counted(self, name, *more, **environment):
        """A replay whose warps are counted, and what was written of them: by kernel and grid."""
        file = self.folder / name
        done = self.replay(*more, CRUCIBLE_EMU_TIMING="warps", CRUCIBLE_EMU_WARPS=str(file), **environment)
        report = json.loads(file.read_text())
        return done, {(row["kernel"], tuple(row["grid"])): row for row in report["kernels"]}, report

    def test_results_stay_as_they_are(self):
        plain = self.replay("--hash")
        done, rows, report = self.counted("counted.json", "--hash")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["result_sha256"], json.loads(plain.stdout)["result_sha256"])
        self.assertTrue(report["computed"])
        self.assertGreater(len(rows), 10)
        for row in rows.values():
            counts = row["counts"]
            self.assertTrue(counts["complete"], row)
            self.assertGreater(counts["load_requests"], 0, row)
            self.assertEqual(counts["warps"], -(-row["block"][0] // 32) * row["grid"][0], row)
            # At most a sector for each byte, and not less than the bytes themselves where lanes do not share them.
            self.assertLessEqual(counts["load_sectors"], counts["load_bytes"], row)

    def test_counted_blocks_alone_count_the_same_and_compute_little(self):
        _, rows, _ = self.counted("whole.json", CRUCIBLE_KERNEL_TRIAL="false")
        alone = {"CRUCIBLE_EMU_EMPTY": "1", "CRUCIBLE_KERNEL_TRIAL": "false"}
        done, few, report = self.counted("few.json", **alone)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(report["computed"])
        done, _, _ = self.counted("judged.json", "--verify", **alone)
        self.assertNotEqual(done.returncode, 0, "little was computed, and it was verified")
        document = json.loads(done.stdout)
        self.assertFalse(document["verified"])
        self.assertIn("not all is computed", document["device"])
        self.assertEqual(few.keys(), rows.keys())
        for key, row in rows.items():
            self.assertEqual(few[key]["counts"]["instructions"], row["counts"]["instructions"], key)
            self.assertEqual(few[key]["counts"]["load_sectors"], row["counts"]["load_sectors"], key)

    def test_the_file_has_to_be_named(self):
        done = self.replay(CRUCIBLE_EMU_TIMING="warps")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("CRUCIBLE_EMU_WARPS", done.stderr)

    def table(self, *more, code=0, trace=None):
        done = subprocess.run(
            [sys.executable, ROOT / "tests/emulators/warps.py", trace or self.trace, "--crucible", CRUCIBLE, *more],
            capture_output=True, text=True, check=False, env=self.environment)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def test_limits_are_kept_or_told(self):
        self.table("--sampled", "--at-most", "generated_launches=1000", "--at-least", "big_bytes_per_lane=0.5")
        told = self.table("--sampled", "--at-most", "generated_launches=3", "--at-least", "big_bytes_per_lane=17",
                          code=1)
        self.assertIn("generated_launches is ", told)
        self.assertIn("at most 3 is asked for", told)
        self.assertIn("at least 17 is asked for", told)
        self.assertIn("is none of generated_launches,", self.table("--at-most", "speed=1", code=2))

    def test_kernels_stay_as_near_to_their_bounds_as_they_are(self):
        """Counts, which no machine's load changes. Where they become better, the limits here may, too."""
        for example, limits in LIMITS.items():
            with self.subTest(example):
                trace = recordings.recorded(CRUCIBLE, example, 2)
                self.table("--sampled", "--libraries", "--level", "l2", *limits.split(), trace=trace)

    def test_the_table_is_of_one_iteration(self):
        listed = json.loads(crucible("kernels", self.trace, *self.options, "--json", env=self.environment).stdout)
        launches = [step for step in listed["kernels"] if step["kind"] == "launch"]
        document = json.loads(self.table("--json", "--level", "l2"))
        totals, rows = document["totals"], document["kernels"]
        self.assertEqual(totals["generated_launches"], len(launches))
        self.assertEqual({row["kernel"] for row in rows}, {step["name"] for step in launches})
        self.assertEqual(totals["library_launches"], 0)
        self.assertEqual(totals["not_counted"], [])
        self.assertAlmostEqual(totals["modelled_us"],
                               sum(row["launches"] * (row["body_us"] + 2) for row in rows))
        self.assertTrue(all(row["ops"] for row in rows), "ops come from the schedule")
        if list(pathlib.Path(nvrtc_library()).parent.glob("libnvJitLink.so.*")):
            self.assertEqual({row["registers_from"] for row in rows}, {"ptxas"})
        products = [row for row in rows if "matmul" in row["ops"]]
        self.assertTrue(products and all(row["moved_bytes"] > row["bytes"] for row in products), "operands are read again")
        farther = json.loads(self.table("--json", "--level", "dram"))
        self.assertGreater(farther["totals"]["modelled_us"], totals["modelled_us"])

    def test_the_table_for_people(self):
        lines = self.table("--top", "3", "--sampled").splitlines()
        self.assertIn("modelled, not measured", lines[0])
        head = next(i for i, line in enumerate(lines) if line.startswith("kernel  "))
        self.assertEqual(len(lines) - head - 1, 3)
        self.assertLessEqual(max(map(len, lines)), 110)


if __name__ == "__main__":
    unittest.main(verbosity=2)
