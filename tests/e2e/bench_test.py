"""`crucible bench`: what is checked before it is timed, and what a backend that fails looks like.

Environment: as e2e_test.py, whose folder with a recording it uses.
"""

import csv
import json
import os
import unittest

import e2e_test
from e2e_test import crucible

# What is planted here is to be found later than by the trial of kernels.
UNTRIED = ("--set", "kernel_trial=false")


class Bench(e2e_test.Folder):
    def bench(self, *options):
        return crucible("bench", self.trace, *options, env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})

    def test_every_backend_has_its_turns(self):
        table = self.folder / "rounds.csv"
        done = self.bench("--backends", "cpu,reference", "--rounds", 3, "--json", "--csv", table)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        rows = document["files"][0]["rows"]
        self.assertEqual([row["backend"] for row in rows], ["cpu", "reference"])
        for row in rows:
            self.assertTrue(row["verified"])
            self.assertEqual(len(row["rounds_ns"]), 3)
            self.assertLessEqual(row["quartiles_ns"][0], row["median_ns"])
            self.assertLessEqual(row["median_ns"], row["quartiles_ns"][1])
        self.assertEqual(rows[0]["ratio"], 1)
        self.assertLess(rows[1]["ratio"], 1, "the interpreter is no faster than compiled kernels")
        with open(table, newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual([line["round"] for line in lines], ["0", "1", "2"] * 2)
        self.assertEqual([round(time) for time in rows[0]["rounds_ns"]],
                         [int(line["iteration_ns"]) for line in lines[:3]])

    def test_strict_backends_have_the_same_bits(self):
        done = self.bench("--backends", "cpu,reference", "--rounds", 1, "--numerics", "strict", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = json.loads(done.stdout)["files"][0]["rows"]
        self.assertEqual(rows[0]["result_sha256"], rows[1]["result_sha256"])
        self.assertEqual([row["same_bits"] for row in rows], [True, True])

    def test_a_backend_that_is_not_there_is_a_row_with_the_reason(self):
        done = self.bench("--backends", "cpu,nowhere", "--rounds", 1)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("nowhere was not found", done.stdout)
        self.assertIn("verified", done.stdout)

    def test_what_computes_something_else_is_not_timed(self):
        for judged in ((), ("--sensitivity", 2), ("--sensitivity", 2, "--sensitivity-backend",
                                                  "reference")):  # by which a wrong function is no chaos
            with self.subTest(judged):
                done = self.bench("--backends", "cpu", "--rounds", 2, "--json", "--set", self.planted(), *UNTRIED,
                                  *judged)
                self.assertEqual(done.returncode, 1, done.stderr)
                row = json.loads(done.stdout)["files"][0]["rows"][0]
                self.assertFalse(row["verified"])
                self.assertIn("not verified: iteration 0", row["reason"])
                self.assertEqual(row["rounds_ns"], [])
                self.assertIsNone(row["median_ns"])

    def planted(self, factor="1.1f"):
        """A compiler of wrong exponentials."""
        program = self.folder / f"bench-planting-clang-{factor}"
        program.write_text(
            f'#!/bin/bash\nfor a; do case $a in *.c) sed -i "s/= crucible_exp_f32(/= {factor} * crucible_exp_f32(/" "$a" ;; esac; done\n'
            'exec clang-19 "$@"\n')
        program.chmod(0o755)
        return f"backend.cpu.compiler={program}"

    def test_what_is_a_little_wrong_is_found_by_a_closer_look(self):
        """An exponential that is wrong by a thousandth, and of little weight."""
        done, trace = self.record("""
            import torch
            class Model(torch.nn.Module):
                def forward(self, x):
                    return x + 0.05 * torch.exp(-x)
            model = Model()
            with torch.inference_mode():
                for step in range(6):
                    model(torch.linspace(1, 3, 64))
            """, "--iterations", 2)
        self.assertEqual(done.returncode, 0, done.stderr)

        def replay(*options):
            done = crucible("replay", trace, "--verify", "--backend", "cpu", "--json", *options,
                            env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})
            return done.returncode, json.loads(done.stdout)
        wrong = ("--set", self.planted("1.001f"), *UNTRIED)
        self.assertEqual(replay("--sensitivity", 0, *wrong)[0], 0, "within every tolerance")
        for options in ((), ("--closely",)):
            code, verdict = replay(*options, *wrong)
            self.assertEqual(code, 1)
            self.assertIn("the first op that differs from the reference interpreter: iteration 0, op",
                          verdict["verdict"])
            self.assertIn("aten::exp", verdict["verdict"])
            self.assertEqual("further from the recording than roundings explain" in str(verdict), options == ())
        code, verdict = replay("--closely")
        self.assertEqual((code, verdict["verdict"]), (0, "yes"))
        self.assertRegex(
            str(verdict),
            r"each of \d+ results of the device is what the reference interpreter makes of the same operands")
        code, verdict = replay()
        self.assertEqual((code, verdict["verdict"]), (0, "yes"))
        self.assertNotIn("roundings explain", str(verdict))

    def test_of_more_ops_than_a_look_is_made_at_a_note_says_what_checks_them(self):
        done, trace = self.record("""
            import torch
            class Model(torch.nn.Module):
                def forward(self, x):
                    y = x + 0.05 * torch.exp(-x)
                    for _ in range(1600):
                        y = torch.maximum(y, -y)
                    return y
            model = Model()
            with torch.inference_mode():
                for step in range(6):
                    model(torch.linspace(1, 3, 64))
            """, "--iterations", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = crucible("replay", trace, "--verify", "--backend", "cpu", "--set", self.planted("1.001f"), *UNTRIED,
                        env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(
            done.stdout,
            r"further from the recording than roundings explain; --closely checks each of its 3\d\d\d ops\n")

    def test_what_is_wrong_and_of_no_weight_is_found_op_by_op(self):
        done, trace = self.record("""
            import torch
            class Model(torch.nn.Module):
                def forward(self, x):
                    return x + 1e-5 * torch.exp(-x)
            model = Model()
            with torch.inference_mode():
                for step in range(6):
                    model(torch.linspace(1, 3, 64))
            """, "--iterations", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        for options, code in (((), 0), (("--closely",), 1)):
            done = crucible("replay", trace, "--verify", "--backend", "cpu", *options, "--set", self.planted("1.001f"),
                            *UNTRIED, env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            self.assertEqual("aten::exp" in done.stdout, code == 1, done.stdout)

    def test_runs_one_rounding_apart_go_to_the_backend_that_is_named(self):
        def replay(*options):
            return crucible("replay", self.trace, "--verify", "--backend", "cpu", "--json", *options,
                            env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})

        right = json.loads(replay("--sensitivity", 2).stdout)
        self.assertEqual((right["verified"], right["state"]["spread"]),
                         (True, {"runs": 0, "most": 2, "undetermined": []}))
        for options, device in ((("--sensitivity-backend", "reference"), "reference"), ((), None)):
            with self.subTest(device=device):
                done = replay("--sensitivity", 2, "--set", self.planted(), *UNTRIED, *options)
                self.assertEqual(done.returncode, 1, done.stderr)
                report = json.loads(done.stdout)
                spread = report["state"]["spread"]
                self.assertIn("the first op that differs from the reference interpreter: iteration 0, op ",
                              report["found"])
                self.assertRegex(report["found"], r"\(exp\), recorded as aten::\w+ at \S+\.py:\d+")
                self.assertTrue(report["verdict"].startswith("no: iteration 0: "), report["verdict"])
                self.assertTrue(report["verdict"].endswith(report["found"]))
                self.assertEqual((spread["runs"], spread["most"], spread.get("device")), (2, 2, device))
        self.assert_refused(
            replay("--sensitivity", 2, "--sensitivity-backend", "nowhere", "--set", self.planted(), *UNTRIED), 4,
            "--sensitivity-backend nowhere: plugin nowhere was not found")
        self.assert_refused(replay("--sensitivity", 0, "--closely"), 2, "leave one of them out")
        self.assert_refused(crucible("replay", self.trace, "--closely"), 2, "add --verify")
        self.assert_refused(crucible("replay", self.trace, "--verify", "--closely", "--backend", "reference"), 2,
                            "--closely is about the kernels of a device")
        self.assert_refused(replay("--sensitivity", 0, "--sensitivity-backend", "cpu"), 2,
                            "with --sensitivity 0 there are none")
        self.assert_refused(self.bench("--backends", "cpu", "--sensitivity", 0, "--sensitivity-backend", "cpu"), 2,
                            "with --sensitivity 0 there are none")
        unexplained = json.loads(replay("--sensitivity", 0, "--set", self.planted(), *UNTRIED).stdout)
        self.assertFalse(unexplained["verified"])
        self.assertNotIn("found", unexplained)

    def test_wrong_use(self):
        self.assert_refused(crucible("bench", self.trace), 2, "--backends is required")
        self.assert_refused(crucible("bench", self.folder / "none.crtrace", "--backends", "cpu"), 3, "none.crtrace")
        self.assert_refused(self.bench("--backends", "cpu", "--rounds", 1, "--csv", "/nowhere/x.csv"), 3,
                            "/nowhere/x.csv")


if __name__ == "__main__":
    unittest.main(verbosity=2)
