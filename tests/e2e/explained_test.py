"""What is said of a recording of several variants before the verdict is "no", and memory budgets that hold for all of them.

Environment: as e2e_test.py, whose folder it uses.
"""

import json
import os
import pathlib
import re
import textwrap
import unittest

import e2e_test
from e2e_test import crucible

LOOPS = pathlib.Path(__file__).resolve().parents[1] / "loops" / "inputs"
# What is planted here is to be found later than by the trial of kernels.
UNTRIED = ("--set", "kernel_trial=false")
FOUND = "the first op that differs from the reference interpreter: "


class Explained(e2e_test.Folder):
    BRANCHES = """
        import torch
        from torch import nn
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for step in range(14):
            y = model(torch.randn(4, 6))
            loss = y.square().mean() if step % 3 else (1e-3 * torch.exp(y)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """

    def recorded(self, text, iterations=9):
        done, trace = self.record(textwrap.dedent(text), "--iterations", iterations)
        self.assertEqual(done.returncode, 0, done.stderr)
        return trace

    def replay(self, trace, *options):
        done = crucible("replay", trace, "--verify", "--json", *options,
                        env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def planted(self, function, factor):
        """A compiler of a wrong function."""
        program = self.folder / f"planting-{function}-{factor}"
        program.write_text('#!/bin/bash\nfor a; do case $a in *.c) '
                           f'sed -i "s/= crucible_{function}_f32(/= {factor} * crucible_{function}_f32(/" "$a" ;; '
                           'esac; done\nexec clang-19 "$@"\n')
        program.chmod(0o755)
        return ("--set", f"backend.cpu.compiler={program}", *UNTRIED)

    def turns(self, trace):
        return json.loads(crucible("graph", trace, "--variants", "--json").stdout)["turns"]

    def first_of(self, trace, variant):
        return next(turn["iteration"] for turn in self.turns(trace) if turn["variant"] == variant)

    def assert_found(self, trace, report, variant, op):
        where = f"iteration {self.first_of(trace, variant)} (variant {variant}), op "
        self.assertIn(FOUND + where, report["found"])
        self.assertRegex(report["found"], rf"op \d+ \({op}\), recorded as aten::\w+\S* at \S+\.py:\d+")
        self.assertTrue(report["verdict"].endswith(report["found"]), report["verdict"])

    def test_an_op_that_is_wrong_in_one_variant_is_named_with_its_variant_and_iteration(self):
        trace = self.recorded(self.BRANCHES)
        code, right = self.replay(trace, "--closely")
        self.assertEqual((code, right["verdict"], right["variants"]["count"]), (0, "yes", 2))
        self.assertRegex(str(right["explained"]), r"each of \d+ results of the device is what the reference")
        variant = next(v for v in range(2) if "exp" in crucible("graph", trace, "--variant", v).stdout)
        code, wrong = self.replay(trace, *self.planted("exp", "1.1f"))
        self.assertEqual(code, 1)
        self.assertRegex(wrong["verdict"], rf"^no: iteration {self.first_of(trace, variant)}: ")
        self.assert_found(trace, wrong, variant, "exp")
        self.assertIn("the reference interpreter does not end where the replay ends", str(wrong["explained"]))

    def test_what_is_a_little_wrong_is_found_by_a_closer_look(self):
        trace = self.recorded(self.BRANCHES)
        wrong = self.planted("exp", "1.001f")
        code, report = self.replay(trace, "--closely", *wrong)
        self.assertEqual(code, 1)
        variant = next(v for v in range(2) if "exp" in crucible("graph", trace, "--variant", v).stdout)
        self.assert_found(trace, report, variant, "exp")

    def test_an_optimizer_that_changes_its_steps(self):
        trace = self.recorded((LOOPS / "radam_switch.py").read_text(), 8)
        self.assertEqual(self.replay(trace)[1]["verdict"], "yes")
        code, report = self.replay(trace, *self.planted("sqrt", "1.05f"))
        self.assertEqual(code, 1)
        has_root = [v for v in range(report["variants"]["count"])
                    if re.search(r"= sqrt\(", crucible("graph", trace, "--variant", v).stdout)]
        self.assertLess(len(has_root), report["variants"]["count"], "some iterations have no root yet")
        first = min(has_root, key=lambda v: self.first_of(trace, v))
        self.assert_found(trace, report, first, "sqrt")

    def test_gradients_accumulated_over_padded_batches(self):
        trace = self.recorded((LOOPS / "accumulation_padded.py").read_text(), 8)
        code, report = self.replay(trace, "--closely")
        self.assertEqual((code, report["verdict"]), (0, "yes"))
        code, report = self.replay(trace, *self.planted("tanh", "1.05f"))
        self.assertEqual(code, 1)
        self.assert_found(trace, report, 0, "tanh")

    def test_across_a_seam(self):
        """The op is wrong in the iterations behind it alone."""
        trace = self.recorded("""
            import crucible
            import torch
            from torch import nn
            torch.manual_seed(0)
            model = nn.Linear(6, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            for step in range(12):
                optimizer.zero_grad()
                y = model(torch.randn(4, 6))
                (y.square().mean() if step < 8 else torch.exp(y).mean()).backward()
                optimizer.step()
                if step == 7:
                    with crucible.phase("evaluation"), torch.no_grad():
                        model.weight.mul_(0.5)
            """, 8)
        code, report = self.replay(trace, "--closely")
        self.assertEqual((code, report["verdict"], report["variants"]["seams"]), (0, "yes", 1))
        code, report = self.replay(trace, *self.planted("exp", "1.1f"))
        self.assertEqual(code, 1)
        self.assert_found(trace, report, 1, "exp")

    def test_a_budget_is_for_the_arena_of_all_variants(self):
        trace = self.recorded("""
            import torch
            from torch import nn
            torch.manual_seed(0)
            layers = [layer for _ in range(10) for layer in (nn.Linear(16, 16), nn.Tanh())]
            model = nn.Sequential(*layers)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            for step in range(12):
                optimizer.zero_grad()
                model(torch.randn((400, 1000, 100)[step % 3], 16)).square().mean().backward()
                optimizer.step()
            """)
        strict = ("--numerics", "strict", "--no-fuse")
        code, free = self.replay(trace, *strict)
        self.assertEqual((code, free["variants"]["count"]), (0, 3))
        peak = free["arena_bytes"]
        for share in (8, 6):
            code, tight = self.replay(trace, *strict, "--memory-budget", peak * share // 10)
            self.assertEqual((code, tight["verdict"]), (0, "yes"))
            self.assertLessEqual(tight["arena_bytes"], peak * share // 10)
            self.assertEqual(tight["result_sha256"], free["result_sha256"])
        code, words = self.replay(trace, *strict, "--memory-budget", "40KB")
        self.assertEqual(code, 3)
        self.assertIn("the memory budget of 40000 bytes cannot be met", words)
        named = re.search(r"memory plan: variant (\d): .* the smallest that works is (\d+) bytes, .* always there for all "
                          "variants", words)
        self.assertIsNotNone(named, words)
        peaks = [json.loads(crucible("plan", trace, "--variant", v, "--json").stdout)["peak_bytes"] for v in range(3)]
        self.assertEqual(int(named[1]), peaks.index(max(peaks)), "it needs most within a budget, too")
        code, least = self.replay(trace, *strict, "--memory-budget", named[2])
        self.assertEqual((code, least["arena_bytes"]), (0, int(named[2])))
        self.assertEqual(least["result_sha256"], free["result_sha256"])
        self.assertEqual(self.replay(trace, *strict, "--memory-budget", int(named[2]) - 1)[0], 3)
        code, smallest = self.replay(trace, *strict, "--objective", "least-memory")
        self.assertEqual((code, smallest["result_sha256"]), (0, free["result_sha256"]))
        self.assertLessEqual(smallest["arena_bytes"], int(named[2]))


if __name__ == "__main__":
    unittest.main()
