"""Kinds of loops: inference, several models and steps in one iteration, matrices and their decompositions.

Environment: as e2e_test.py, whose folder with a recording it uses.
"""

import json
import os
import sys
import textwrap
import unittest

import e2e_test
from e2e_test import CRUCIBLE, ROOT, crucible


class Inference(e2e_test.Folder):
    """Loops without an optimizer: what the model gave back is what a replay is compared with."""

    LOOP = """
        import torch
        {head}
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)).to({dtype})
        with torch.{guard}():
            for step in range(6):
                logits = model(torch.randn(4, 16, dtype={dtype}))
                {tail}
        """

    def replayed(self, head="", tail="", dtype="torch.float32", guard="inference_mode"):
        text = textwrap.dedent(self.LOOP).format(head=head, tail=tail, dtype=dtype, guard=guard)
        done, trace = self.record(text, "--iterations", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = crucible("replay", trace, "--verify", "--json",
                        env=e2e_test.clean_environment(CRUCIBLE_STORE_DIR=str(self.folder / "store")))
        return done, json.loads(done.stdout) if done.stdout else None, trace

    def test_outputs_are_verified(self):
        done, document, _ = self.replayed()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIs(document["verified"], True)
        self.assertEqual(document["outputs"]["compared"], 3)
        self.assertEqual(document["outputs"]["left_out"], [])
        for difference in document["outputs"]["differences"]:
            self.assertLess(difference["max_rel_diff"], 1e-5, difference)

    def test_double_precision(self):
        done, document, _ = self.replayed(dtype="torch.float64", guard="no_grad")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(document["outputs"]["compared"], 3)

    def test_marked_steps_have_outputs_too(self):
        done, document, _ = self.replayed("import sys",
                                          "if 'crucible_torch' in sys.modules: __import__('crucible').step()")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(document["outputs"]["compared"], 3)

    def test_an_output_changed_before_the_step_ends_is_not_compared(self):
        done, _, trace = self.replayed(
            "import sys", "logits.mul_(2); 'crucible_torch' in sys.modules and __import__('crucible').step()")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("no loss, no output and no changed state", done.stdout)
        info = json.loads(crucible("trace", "info", trace, "--json").stdout)
        self.assertIn("outputs that were changed before the iteration ended",
                      [item["what"] for item in info["not_recorded"]])

    def test_an_output_that_no_op_made_is_noticed(self):
        """A planted fault: the model writes into its answer where no op is seen, so that the ops give something
        else."""
        done, trace = self.record("""
            import torch
            class Net(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = torch.nn.Linear(16, 8)
                    self.calls = 0
                def forward(self, x):
                    y = self.layer(x).tanh()
                    self.calls += 1
                    values = y.numpy()  # in every iteration: it is an op, the addition is none
                    if self.calls == 4:
                        values[2, 3] += 0.5
                    return {"logits": y}
            model = Net()
            with torch.no_grad():
                for step in range(6):
                    model(torch.randn(4, 16))
            """, "--iterations", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = crucible("replay", trace, "--verify")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("verified  no: iteration 1: output logits (f32) differs", done.stdout)


class Loops(e2e_test.Folder):
    """Loops in which more happens than one step after the other: replayed, or refused with what changed and what to
    do."""

    LOOP = """
        import torch
        torch.manual_seed(0)
        def perceptron(width, outputs):
            return torch.nn.Sequential(torch.nn.Linear(width, 8), torch.nn.Tanh(), torch.nn.Linear(8, outputs))
        model, other = perceptron(4, 1), perceptron(2, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        second = torch.optim.SGD(other.parameters(), lr=0.1)
        for step in range(12):
            optimizer.zero_grad()
        {body}
        """

    def recorded(self, body):
        text = textwrap.dedent(self.LOOP).format(body=textwrap.indent(textwrap.dedent(body).strip("\n"), "    "))
        done, trace = self.record(text, "--iterations", 6)
        self.assertEqual(done.returncode, 0, done.stderr)
        return trace

    def assert_verified(self, trace):
        done = crucible("replay", trace, "--verify", "--json",
                        env=e2e_test.clean_environment(CRUCIBLE_STORE_DIR=str(self.folder / "store")))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_gradient_accumulation(self):
        replay = self.assert_verified(self.recorded("""
            for part in range(3):
                (model(torch.randn(5, 4)).square().mean() / 3).backward()
            optimizer.step()
            """))
        self.assertEqual(len(replay["iterations"][0]["outputs"]), 3)

    def test_generator_and_discriminator(self):
        self.assert_verified(self.recorded("""
            z = torch.randn(5, 2)
            ((model(torch.randn(5, 4)) - 1).square().mean() + model(other(z).detach()).square().mean()).backward()
            optimizer.step()
            second.zero_grad()
            (model(other(z)) - 1).square().mean().backward()
            second.step()
            """))

    def test_an_evaluation_in_between(self):
        trace = self.recorded("""
            model(torch.randn(5, 4)).square().mean().backward()
            optimizer.step()
            if step % 4 == 3:
                with torch.no_grad():
                    model(torch.randn(5, 4))
            """)
        replay = self.assert_verified(trace)
        self.assertEqual(len(replay["iterations"]), 6)
        if replay["variants"] is not None:
            self.assertEqual(replay["variants"]["count"], 1)

    def test_another_op_in_one_iteration(self):
        trace = self.recorded("""
            model(torch.randn(5, 4)).square().mean().backward()
            if step == 5:
                model[0].weight.data = model[0].weight.data * 0.5
            optimizer.step()
            """)
        replay = self.assert_verified(trace)
        self.assertEqual(replay["variants"]["count"], 2)
        self.assertIn("differ at op", replay["variants"]["programs"][1]["difference"])


class Matrices(e2e_test.Folder):
    """Training in which matrices are factorized: recorded, replayed on the CPU plugin, verified."""

    def assert_verified(self, text):
        done, trace = self.record(text, "--iterations", 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = crucible("replay", trace, "--backend", "cpu", "--verify", "--json",
                        env=e2e_test.clean_environment(CRUCIBLE_STORE_DIR=str(self.folder / "store")))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        replay = json.loads(done.stdout)
        self.assertGreaterEqual(len(replay["iterations"]), 3)
        return replay

    def test_a_gaussian_process(self):
        self.assert_verified("""
            import torch
            torch.manual_seed(0)
            x = torch.linspace(0, 4, 60, dtype=torch.float64)
            y = torch.sin(3 * x) + 0.1 * torch.randn(60, dtype=torch.float64)
            width, noise = torch.zeros(2, dtype=torch.float64, requires_grad=True), torch.full((), -2.0, dtype=torch.float64, requires_grad=True)
            optimizer = torch.optim.Adam([width, noise], lr=0.05)
            for step in range(8):
                optimizer.zero_grad()
                covariance = torch.exp(width[0] - 0.5 * ((x[:, None] - x) / torch.exp(width[1])) ** 2) + torch.exp(noise) * torch.eye(60, dtype=torch.float64)
                factor = torch.linalg.cholesky(covariance)
                weights = torch.cholesky_solve(y[:, None], factor)
                loss = 0.5 * (y @ weights[:, 0]) + factor.diagonal().log().sum()
                loss.backward()
                optimizer.step()
            """)

    def test_a_normalizing_flow_with_whitening(self):
        self.assert_verified("""
            import torch
            torch.manual_seed(0)
            mix, shift = torch.nn.Parameter(torch.eye(6) + 0.1 * torch.randn(6, 6)), torch.nn.Parameter(torch.zeros(6))
            optimizer = torch.optim.SGD([mix, shift], lr=0.05, momentum=0.9)
            for step in range(8):
                x = torch.randn(40, 6) @ torch.randn(6, 6) * 0.5
                values, vectors = torch.linalg.eigh(x.T @ x / 40 + 0.1 * torch.eye(6))
                white = x @ (vectors * values.rsqrt()) @ vectors.T
                optimizer.zero_grad()
                z = torch.tanh(white @ mix.T + shift)
                loss = 0.5 * z.square().sum(1).mean() - torch.linalg.slogdet(mix)[1] + 0.01 * torch.linalg.matrix_norm(mix, "nuc")
                loss.backward()
                optimizer.step()
            """)

    def test_orthogonal_weights_and_a_solved_layer(self):
        self.assert_verified("""
            import torch
            torch.manual_seed(0)
            layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(12, 12), orthogonal_map="cayley")
            head = torch.nn.Linear(12, 3)
            optimizer = torch.optim.AdamW([*layer.parameters(), *head.parameters()], lr=0.01)
            x, y = torch.randn(30, 12), torch.randn(30, 3)
            for step in range(8):
                optimizer.zero_grad()
                hidden = torch.relu(layer(x))
                ridge = torch.linalg.solve(hidden.T @ hidden + torch.eye(12), hidden.T @ y)
                loss = (head(hidden) + hidden @ ridge - y).square().mean()
                loss.backward()
                optimizer.step()
            """)


if __name__ == "__main__":
    unittest.main()
