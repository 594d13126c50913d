"""Regions of real recordings: layers are one loop, and two recordings differ in what was changed between them.

Environment: as e2e_test.py, whose folder with a recording it uses.
"""

import json
import sys
import textwrap
import unittest

import e2e_test
import recordings
from e2e_test import CRUCIBLE, crucible


class Regions(e2e_test.Folder):
    """`crucible graph --regions`, `crucible diff` and `crucible show`."""

    SCRIPT = """
        import torch
        torch.manual_seed(0)
        class Block(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.norm, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, inner), torch.nn.Linear(inner, 16)
            def forward(self, x):
                return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x)))) * {scale}
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.stem, self.{name}, self.head = torch.nn.Linear(8, 16), torch.nn.ModuleList(
                    [Block({wide} if i == 3 else 32) for i in range({layers})]), torch.nn.Linear(16, 4)
            def forward(self, x):
                x = self.stem(x)
                for block in self.{name}:
                    x = block(x)
                return self.head(x)
        model = Model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for step in range(6):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).square().mean().backward()
            optimizer.step()
        """

    def recorded(self, **changes):
        values = {"name": "layers", "layers": 6, "wide": 32, "scale": 0.5, **changes}
        done, trace = self.record(textwrap.dedent(self.SCRIPT).format(**values), "--iterations", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        return trace.rename(trace.with_name("-".join(map(str, values.values())) + ".crtrace"))

    def diff(self, a, b):
        done = crucible("diff", a, b, "--json")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["equal"], done.returncode == 0)
        return document

    def test_layers_are_one_loop_and_changes_are_named(self):
        plain = self.recorded()
        document = json.loads(crucible("graph", plain, "--regions", "--json").stdout)
        turns = [len(region["children"]) for region in document["regions"] if region["kind"] == "loop"]
        self.assertEqual(turns.count(6), 3, crucible("graph", plain, "--regions").stdout)  # one in each phase

        renamed = self.diff(plain, self.recorded(name="stages"))
        self.assertTrue(renamed["equal"], renamed)
        self.assertEqual([change["kind"] for change in renamed["changes"]], ["name"])

        wider = self.diff(plain, self.recorded(wide=48))
        self.assertFalse(wider["equal"])
        modules = {change["module"] for change in wider["changes"]}
        self.assertTrue(all(module.startswith("layers.3") for module in modules), wider)
        self.assertTrue(any("layers.3.up.weight" in change["what"] for change in wider["changes"]), wider)

        scaled = self.diff(plain, self.recorded(scale=0.25))
        self.assertEqual({change["kind"] for change in scaled["changes"]}, {"number"}, scaled)
        self.assertEqual({change["what"].split(": ", 1)[1] for change in scaled["changes"]}, {"0.5, now 0.25"}, scaled)

        deeper = self.diff(plain, self.recorded(layers=7))
        self.assertIn("added", {change["kind"] for change in deeper["changes"]}, deeper)

    def test_the_example_has_one_block_four_times(self):
        trace = recordings.recorded(CRUCIBLE, "gpt_adamw", 4)
        text = crucible("graph", trace, "--regions").stdout
        self.assertEqual(text.count("4 x blocks."), 4, text)  # forward, backward, clipping, the optimizer
        document = json.loads(crucible("graph", trace, "--regions", "--json").stdout)
        loop = next(region for region in document["regions"] if region["kind"] == "loop" and region["carried"])
        shown = crucible("show", loop["content"][:16], trace)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("4 times: blocks.0, blocks.1, blocks.2, blocks.3", shown.stdout)
        self.assertIn(loop["content"], shown.stdout)
        picture = crucible("graph", trace, "--regions", "--format", "svg").stdout
        self.assertTrue(picture.startswith("<svg"))
        self.assertEqual(crucible("diff", trace, trace).returncode, 0)

    def test_mistakes_are_said(self):
        trace = recordings.recorded(CRUCIBLE, "gpt_adamw", 4)
        for arguments, words in ((("graph", trace, "--regions", "--stages"), "leave out --stage"),
                                 (("graph", trace, "--levels", "2"), "--levels goes with --regions"),
                                 (("graph", trace, "--regions", "--format", "dot"), "use text, json or svg"),
                                 (("show", "xyz", trace), "no region's hash begins with 'xyz'"),
                                 (("show", "", trace), "is the beginning of several hashes")):
            done = crucible(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)
        missing = crucible("diff", trace, self.folder / "none.crtrace")
        self.assertEqual(missing.returncode, 3, missing.stderr)


if __name__ == "__main__":
    unittest.main()
