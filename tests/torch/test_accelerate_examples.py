"""The examples of crucible.accelerate, as a person runs them, with fewer steps."""

import os
import sys
import unittest

from accelerated import AccelerateTest
from support import BUILD, ROOT


class Examples(AccelerateTest):
    def run_example(self, name, *options):
        settings = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python")}
        done = self.run_command([sys.executable, os.path.join(ROOT, "examples", name), *options], env=settings)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_each_is_compiled_and_near_eager(self):
        for name in ("accelerate_gpt.py", "accelerate_rl.py", "accelerate_inference.py"):
            with self.subTest(example=name):
                said = self.run_example(name, "--steps", "60")
                lines = said.splitlines()
                head = next(k for k, line in enumerate(lines) if "largest difference" in line)
                steps, difference = lines[head + 1].split()[:2]
                self.assertEqual(steps, "60")
                self.assertLess(float(difference), 1e-3, said)
                self.assertIn(": compiled, ", said)
                self.assertNotIn("WRONG", said)

    def test_eager_leaves_crucible_out(self):
        said = self.run_example("accelerate_gpt.py", "--eager", "--steps", "5")
        self.assertNotIn("compiled", said)
        self.assertIn("after 5 steps", said)


if __name__ == "__main__":
    unittest.main()
