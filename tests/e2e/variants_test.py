"""Loops whose iterations differ: each kind of iteration is a variant, what happens in between is a seam, and all of it
is replayed and verified, on the reference interpreter, the CPU plugin and an OpenCL device, with equal strict bits.

Environment: as e2e_test.py, whose folder it uses.
"""

import json
import os
import re
import textwrap
import unittest
import xml.dom.minidom

import e2e_test
from e2e_test import crucible


class Variants(e2e_test.Folder):
    HEAD = """
        import torch
        from torch import nn
        torch.manual_seed(0)
        """
    ACCUMULATION = """
        model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for step in range(12):
            optimizer.zero_grad()
            for part in range(1 + step % 3):
                model(torch.randn(4, 6)).square().mean().backward()
            optimizer.step()
        """

    def recorded(self, body, iterations, *options):
        text = textwrap.dedent(self.HEAD) + textwrap.dedent(body)
        done, trace = self.record(text, "--iterations", iterations, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return trace

    def replayed(self, trace, *options):
        done = crucible("replay", trace, "--verify", "--json", *options,
                        env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def assert_verified(self, trace, variants, seams=0):
        """On all of them; returns how the iterations went by variant."""
        replay = self.replayed(trace)
        found = replay["variants"] or {"count": 1, "seams": 0}
        self.assertEqual((found["count"], found["seams"]), (variants, seams), found)
        self.replayed(trace, "--backend", "reference")
        strict = [self.replayed(trace, "--set", "numerics=strict", *backend)["result_sha256"]
                  for backend in ((), ("--backend", "opencl"), ("--backend", "reference"))]
        self.assertIsNotNone(strict[0])
        self.assertEqual(len(set(strict)), 1, strict)
        return [row.get("variant", 0) for row in replay["iterations"]]

    def test_sequences_padded_to_the_longest_of_a_batch(self):
        trace = self.recorded("""
            model = nn.Sequential(nn.Embedding(20, 8), nn.Flatten(0, 1), nn.LayerNorm(8), nn.Linear(8, 20))
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
            for length in [5, 7, 5, 3, 7, 5, 5, 3, 7, 5, 3, 3]:
                tokens = torch.randint(20, (4, length + 1))
                loss = nn.functional.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:].reshape(-1))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """, 8)
        self.assertEqual(len(set(self.assert_verified(trace, 3))), 3)

    def test_the_last_batch_of_an_epoch_is_smaller(self):
        trace = self.recorded("""
            data = torch.utils.data.TensorDataset(torch.randn(22, 6), torch.randn(22, 2))
            loader = torch.utils.data.DataLoader(data, batch_size=8)
            model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            for epoch in range(5):
                for x, y in loader:
                    optimizer.zero_grad()
                    nn.functional.mse_loss(model(x), y).backward()
                    optimizer.step()
            """, 9)
        self.assertEqual(sorted(set(self.assert_verified(trace, 2))), [0, 1])

    def test_an_optimizer_that_changes_its_steps(self):
        trace = self.recorded("""
            model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
            optimizer = torch.optim.RAdam(model.parameters(), lr=0.01)
            for step in range(14):
                optimizer.zero_grad()
                model(torch.randn(4, 6)).square().mean().backward()
                optimizer.step()
            """, 9)
        self.assert_verified(trace, 2)

    def test_a_loss_that_branches_on_a_value(self):
        trace = self.recorded("""
            model = nn.Linear(6, 6)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            for step in range(14):
                x = torch.randn(4, 6) * (1 + step % 3)
                error = (model(x) - x).square().mean()
                loss = error if error.item() < 2 else 2 + (model(x) - x).abs().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """, 9)
        self.assertEqual(len(set(self.assert_verified(trace, 2))), 2)

    def test_weights_that_something_else_changes_in_between(self):
        trace = self.recorded("""
            import crucible
            model = nn.Linear(6, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            for step in range(12):
                optimizer.zero_grad()
                model(torch.randn(4, 6)).square().mean().backward()
                optimizer.step()
                if step % 4 == 3:
                    with crucible.phase("evaluation"), torch.no_grad():
                        model.weight.mul_(0.5)
            """, 8)
        self.assert_verified(trace, 1, seams=2)

    def test_accumulation_of_gradients_over_a_changing_number_of_parts(self):
        self.assert_verified(self.recorded(self.ACCUMULATION, 8), 3)

    def test_a_report_is_of_the_variant_that_it_names(self):
        # Runs that explain the verdict leave the session at its first variant; the report went on with the last one's.
        trace = self.recorded(self.ACCUMULATION, 8)
        programs = json.loads(crucible("graph", trace, "--variants", "--json").stdout)["variants"]
        for options in (("--sensitivity", "0"), ("--sensitivity", "4"), ()):
            done = crucible("replay", trace, "--verify", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            variant = int(re.search(r"what follows is of variant (\d+)", done.stdout)[1])
            ops = int(re.search(r"(\d+) neutral ops", done.stdout)[1])
            self.assertEqual(ops, programs[variant]["ops"], (options, done.stdout))

    def test_a_hidden_state_that_is_carried_and_begun_anew(self):
        trace = self.recorded("""
            cell, head = nn.GRUCell(3, 8), nn.Linear(8, 1)
            optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
            for step in range(14):
                if step % 4 == 0:
                    hidden = torch.zeros(5, 8)
                hidden = cell(torch.randn(5, 3), hidden.detach())
                optimizer.zero_grad()
                head(hidden).square().mean().backward()
                optimizer.step()
            """, 9)
        self.assert_verified(trace, 2)

    def test_every_iteration_is_its_own(self):
        trace = self.recorded("""
            model = nn.Linear(6, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            for step in range(12):
                optimizer.zero_grad()
                model(torch.randn(2 + step, 6)).square().mean().backward()
                optimizer.step()
            """, 6)
        self.assert_verified(trace, 6)
        done = crucible("plan", trace)
        self.assert_refused(done, 2, "6 variants", "--variant N")
        self.assertEqual(crucible("plan", trace, "--variant", "5").returncode, 0)
        self.assert_refused(crucible("graph", trace, "--variant", "6"), 2, "0 to 5")
        listed = json.loads(crucible("graph", trace, "--variants", "--json").stdout)
        self.assertEqual([turn["variant"] for turn in listed["turns"]], list(range(6)))
        [branch] = listed["branches"]
        self.assertEqual(branch["guard"], "number")
        rows = [int(re.fullmatch(r"\[(\d+), 6\]", way["when"])[1]) for way in branch["ways"]]
        self.assertEqual(rows, list(range(rows[0], rows[0] + 6)))
        text = crucible("graph", trace, "--variants").stdout
        self.assertIn("the number that Python gives aten::randn as size", text)
        self.assertLess(max(map(len, text.splitlines())), 120)
        drawn = crucible("graph", trace, "--variants", "--format", "svg").stdout
        self.assertEqual(xml.dom.minidom.parseString(drawn).documentElement.tagName, "svg")
        self.assertEqual(drawn.count("<title>"), 7)
        self.assert_refused(crucible("graph", trace, "--variants", "--format", "dot"), 2, "choose one program with --variant")
        self.assertIn("6 variants", crucible("trace", "info", trace).stdout)
        self.assertEqual(json.loads(crucible("trace", "info", trace, "--json").stdout)["variants"], [1] * 6)
        text = crucible("replay", trace, env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")}).stdout
        self.assertIn("6 variants, each ran once", text)
        self.assertEqual(text.count("nothing: every iteration runs other ops or sizes"), 1, text)

    def test_of_many_variants_the_most_used_ones_are_shown(self):
        """70 iterations: one size in every second one, another in each of the others."""
        trace = self.recorded("""
            model = nn.Linear(6, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            for step in range(78):
                optimizer.zero_grad()
                model(torch.randn(2 + step if step % 2 else 200, 6)).square().mean().backward()
                optimizer.step()
            """, 70)
        text = crucible("graph", trace, "--variants").stdout
        self.assertIn("\nand 20 more, which ran 20 iterations (--json lists all)\n", text)
        self.assertLess(len(text.splitlines()), 42, text)
        self.assertEqual(len(json.loads(crucible("graph", trace, "--variants", "--json").stdout)["variants"]), 36)
        done = crucible("replay", trace, "--verify",
                        env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("  and 38 more (--json lists all)\n", done.stdout)
        self.assertRegex(done.stdout, r"variants  36 variants: \d+ ran 35 times, \d+ once, .* and 30 more")
        self.assertNotIn("nothing: every iteration", done.stdout)


if __name__ == "__main__":
    unittest.main()
