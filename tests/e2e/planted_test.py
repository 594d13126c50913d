"""A bug in what one vendor's printer writes, as a user meets it: `compare` names the op and keeps it, and the capsule
shows it on two backends.

Environment: as e2e_test.py, whose folder with a recording it uses. The bug is planted by a compiler that changes the
text that it is given (tests/emulators/planting); devices are those of the emulated drivers.
"""

import hashlib
import json
import os
import pathlib
import sys
import unittest

import e2e_test
from e2e_test import CRUCIBLE, ROOT, crucible

sys.path.insert(0, str(ROOT / "tests" / "models"))
from devices_here import devices, nvrtc_library  # noqa: E402

PLANTING = pathlib.Path(CRUCIBLE).resolve().parent / "emulators/planting/libplanting_compiler.so"
# The fused multiply-add of products: what the printer writes in a kernel, into a sum that the loop keeps, and two
# roundings instead of one.
PRODUCT = {
    vendor: (" = __builtin_fmaf(v1", " = [](float a, float b, float c) { return a * b + c; }(v1")
    for vendor in ("nvidia", "amd")
}
# Lanes that add up what they hold ask the lane below, which has been asked itself, and not the one above.
LANE = {
    "nvidia": ("crucible_lane_above, __shfl_down_sync", "crucible_lane_above, __shfl_up_sync"),
    "amd": ("(lane) + (distance))", "(lane) - (distance))")
}
FUNCTION = {  # of the prelude: the self-test of strict numerics looks at all of them
    "nvidia": ("#define __builtin_fmaf(a, b, c) fmaf(a, b, c)", "#define __builtin_fmaf(a, b, c) ((a) * (b) + (c))"),
    "amd": ("#pragma clang fp contract(off)", "#define __builtin_fmaf(a, b, c) ((a) * (b) + (c))\n#pragma clang fp contract(off)"),
}


class Planted(e2e_test.Folder):
    def setUp(self):
        emulators = PLANTING.parent.parent
        here = devices(CRUCIBLE)
        self.compilers = {}
        if "nvidia (emulated)" in here:
            self.compilers["nvidia"] = (here["nvidia (emulated)"], nvrtc_library())
        if "amd (emulated)" in here:
            self.compilers["amd"] = (here["amd (emulated)"], f"{emulators}/amd/libhiprtc.so.6")
        if not self.compilers:
            self.skipTest("this build has no emulated driver with a compiler")

    def run_on(self, vendor, bug, command, *arguments, tried=False):
        """`crucible COMMAND ARGUMENTS` where `vendor`'s texts have `bug`, a (piece, instead), or none. `tried`: the
        kernels are, and found there."""
        options, compiler = self.compilers[vendor]
        settings = [option for option in options[2:] if option != "--set" and "rtc=" not in option]
        name = {"nvidia": "nvrtc", "amd": "hiprtc"}[vendor]
        # A folder per bug: what was compiled is found by the text that the plugin wrote, which knows nothing of what is
        # planted.
        kept = str(self.folder / (hashlib.sha256(repr(bug).encode()).hexdigest()[:8] if bug else "plain"))
        environment = {
            **os.environ, "CRUCIBLE_STORE_DIR": kept,
            "CRUCIBLE_KERNEL_TRIAL": str(tried).lower()
        }
        if bug:
            environment |= {
                "CRUCIBLE_PLANT_COMPILER": compiler, "CRUCIBLE_PLANT_FROM": bug[0], "CRUCIBLE_PLANT_TO": bug[1]
            }
        settings.append(f"backend.{vendor}.{name}={PLANTING if bug else compiler}")
        return crucible(command, *arguments, *[word for setting in settings for word in ("--set", setting)],
                        env=environment)

    def test_a_wrong_rounding_in_products_is_found_named_and_kept(self):
        for vendor in self.compilers:
            with self.subTest(vendor):
                capsule = self.folder / f"{vendor}.crcapsule"
                compare = ["--backends", f"cpu,{vendor}", "--numerics", "strict", "--json"]
                done = self.run_on(vendor, None, "compare", self.trace, *compare)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                done = self.run_on(vendor, PRODUCT[vendor], "compare", self.trace, *compare, "--capsule", capsule)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                document = json.loads(done.stdout)
                self.assertEqual(document["first_difference"]["kind"], "matmul")
                self.assertIn("mlp_sgd.py", document["first_difference"]["site"])
                self.assertTrue(document["capsule"]["reproduced"], document["capsule"])
                done = self.run_on(vendor, PRODUCT[vendor], "compare", capsule, *compare)
                self.assertEqual((done.returncode, json.loads(done.stdout)["first_difference"]["kind"]), (1, "matmul"),
                                 done.stderr)
                done = self.run_on(vendor, None, "compare", capsule, *compare)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_word_of_the_wrong_lane_is_found_named_and_kept(self):
        for vendor in self.compilers:
            with self.subTest(vendor):
                capsule = self.folder / f"{vendor}-lane.crcapsule"
                compare = ["--backends", f"cpu,{vendor}", "--numerics", "strict", "--json"]
                done = self.run_on(vendor, LANE[vendor], "compare", self.trace, *compare, "--capsule", capsule)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                document = json.loads(done.stdout)
                self.assertIn("mlp_sgd.py", document["first_difference"]["site"])
                self.assertTrue(document["capsule"]["reproduced"], document["capsule"])
                done = self.run_on(vendor, LANE[vendor], "compare", capsule, *compare)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                done = self.run_on(vendor, None, "compare", capsule, *compare)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_trial_of_kernels_finds_both(self):
        """Where no self-test comes first: `replay` would not admit the device to strict numerics."""
        for vendor in self.compilers:
            for bug in (PRODUCT[vendor], LANE[vendor]):
                with self.subTest(vendor, bug=bug):
                    done = self.run_on(vendor, bug, "compare", self.trace, "--backends", f"cpu,{vendor}", "--numerics",
                                       "strict", tried=True)
                    self.assert_refused(done, 4, "was compiled wrongly: element ", "mlp_sgd.py",
                                        "with less optimisation too")
            done = self.run_on(vendor, None, "replay", self.trace, "--backend", vendor, "--numerics", "strict",
                               "--json", tried=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            trial = json.loads(done.stdout)["receipt"]["trial"]
            self.assertEqual((trial["wrong"], trial["untried"], trial["tried"]), ([], [], trial["kernels"]))

    def test_a_wrong_rounding_in_a_function_is_not_admitted_to_strict(self):
        for vendor in self.compilers:
            with self.subTest(vendor):
                done = self.run_on(vendor, FUNCTION[vendor], "replay", self.trace, "--backend", vendor, "--numerics",
                                   "strict")
                self.assert_refused(done, 4, "cannot be strict", "exp", "--self-test")


if __name__ == "__main__":
    unittest.main(verbosity=2)
