"""`crucible bench --peers`: the recorded program by PyTorch itself, checked, then timed in turns; and what a peer that
cannot run looks like.

Environment: as e2e_test.py, whose folder with a recording it uses.
"""

import json
import os
import shlex
import shutil
import sys
import unittest

import e2e_test
from e2e_test import CRUCIBLE, ROOT, crucible, warm

MODEL = """
    import sys, torch, torch.nn as nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(32, 8)
    def train():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
"""


class Peers(e2e_test.Folder):
    def bench(self, trace, *options, **environment):
        return crucible("bench", trace, "--backends", "cpu", "--rounds", 2, *options,
                        env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store"), **environment})

    def rows(self, done, code):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)["files"][0]["rows"]

    def command(self, text):
        return shlex.join([warm.python(CRUCIBLE.parent), str(self.script(text))])

    def reason(self, trace, script, *options, peer="eager"):
        """Why the peer was not timed; the backend beside it was."""
        rows = self.rows(self.bench(trace, "--peers", peer, "--script", script, "--json", *options), 1)
        self.assertEqual(len(rows[0]["rounds_ns"]), 2)
        self.assertEqual(rows[1]["rounds_ns"], [])
        return rows[1]["reason"]

    def test_eager_is_checked_and_takes_its_turns(self):
        """The recorded command has six steps, so that it is started again for each round."""
        page = self.folder / "bench.html"
        done = self.bench(self.trace, "--peers", "eager", "--script", "recorded", "--json", "--html", page)
        cpu, eager = self.rows(done, 0)
        self.assertEqual((eager["backend"], eager["peer"], eager["verified"], eager["note"]),
                         ("eager", True, True, "losses as recorded"))
        self.assertEqual(len(eager["rounds_ns"]), 2)
        self.assertEqual(eager["threads"], cpu["threads"])
        self.assertIn("cpu, torch", eager["device"])
        self.assertGreater(eager["compile_ns"], 0)
        self.assertIn(">eager</text>", page.read_text())

    def test_a_program_that_goes_on_is_not_started_again(self):
        started = self.folder / "started"
        text = MODEL + f"""
    open({str(started)!r}, "a").write("x")
    for _ in range(200): train()
"""
        done, trace = self.record(text, "--iterations", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        started.unlink()
        rows = self.rows(self.bench(trace, "--peers", "eager", "--script", "recorded", "--json"), 0)
        self.assertEqual(len(rows[1]["rounds_ns"]), 2)
        self.assertEqual(started.read_text(), "x")

    def test_another_program_is_not_timed(self):
        script = shlex.join([sys.executable, str(ROOT / "examples/mlp_sgd.py"), "--seed", "1"])
        self.assertIn("it is not what was recorded: the loss of iteration 0 is", self.reason(self.trace, script))

    def test_a_script_that_is_gone(self):
        why = self.reason(self.trace, shlex.join([sys.executable, str(self.folder / "gone.py")]))
        self.assertIn("gone.py", why)
        self.assertIn("No such file", why)
        self.assertIn("give --script with the command that runs it here", why)

    def test_a_program_that_cannot_be_run(self):
        self.assertIn("cannot run '/nowhere/python'", self.reason(self.trace, "/nowhere/python x.py"))

    def test_a_program_without_torch(self):
        self.assertIn("ended without importing torch",
                      self.reason(self.trace, shlex.join([sys.executable, "-c", "print('a b')"])))

    def test_a_program_that_raises(self):
        why = self.reason(self.trace, self.command(MODEL + "    train(); raise ValueError('no \\'data\\'')\n"))
        self.assertIn("ended with ValueError: no 'data'", why)

    def test_a_program_that_is_too_short(self):
        why = self.reason(self.trace, shlex.join([sys.executable, str(ROOT / "examples/mlp_sgd.py"), "--steps", "4"]))
        self.assertIn("ended after 4 iterations, and 2 of warm-up and 3 more are needed", why)

    def test_a_program_without_iterations(self):
        self.assertIn("no end of an iteration was seen",
                      self.reason(self.trace, self.command("import torch\ntorch.ones(3).sum()\n")))

    def test_a_program_that_says_nothing(self):
        why = self.reason(self.trace, self.command("import torch, time\ntime.sleep(600)\n"), "--peer-timeout", 5)
        self.assertIn("has said nothing for 5 s", why)

    def test_a_process_that_dies_on_the_way_keeps_its_rounds(self):
        text = MODEL + """
    import os
    for i in range(200):
        if i == 9 and len(sys.argv) > 1: os._exit(7)
        train()
"""
        done, trace = self.record(text, "--iterations", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = self.rows(self.bench(trace, "--peers", "eager", "--script", f"{self.command(text)} dies", "--json"), 1)
        self.assertEqual(len(rows[1]["rounds_ns"]), 1)
        self.assertRegex(rows[1]["reason"], "failed in round 2: .* ended with exit code 7")
        self.assertEqual(len(rows[0]["rounds_ns"]), 2)

    def test_programs_that_fork_workers(self):
        text = """
            import torch, torch.nn as nn
            torch.manual_seed(0)
            data = torch.utils.data.TensorDataset(torch.randn(800, 8))
            model = nn.Linear(8, 4)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            workers = iter(torch.utils.data.DataLoader(data, batch_size=16, num_workers=2))
            (x,) = next(workers)  # they stay until the program ends
            for _ in range(40):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        """
        done, trace = self.record(text, "--iterations", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = self.rows(self.bench(trace, "--peers", "eager", "--script", "recorded", "--json"), 0)
        self.assertEqual(len(rows[1]["rounds_ns"]), 2)

    def test_marked_iterations(self):
        text = MODEL + """
    import crucible
    for _ in range(40):
        train(); train()
        crucible.step()
"""
        done, trace = self.record(text, "--iterations", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.rows(self.bench(trace, "--peers", "eager", "--script", "recorded", "--json"), 0)

    INFERENCE = """
        import sys, torch, torch.nn as nn
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
        with torch.no_grad():
            if len(sys.argv) > 1: model[2].bias += 0.01
            for _ in range(40): model(torch.randn(3, 8))
    """

    def test_what_inference_gives_back_is_compared(self):
        done, trace = self.record(self.INFERENCE, "--iterations", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = self.rows(self.bench(trace, "--peers", "eager", "--script", "recorded", "--json"), 0)
        self.assertEqual(rows[1]["note"], "outputs as recorded")
        why = self.reason(trace, f"{self.command(self.INFERENCE)} changed")
        self.assertIn("it is not what was recorded: iteration 0: output 0 differs by", why)

    def test_compiled_with_its_own_random_numbers(self):
        """Dropout under torch.compile draws other numbers than eager: the losses are compared with eager's, the time is
        its own."""
        if shutil.which("g++") is None:
            self.skipTest("torch.compile needs g++")
        text = MODEL.replace("nn.ReLU()", "nn.Dropout(0.5)") + "    for _ in range(400): train()\n"
        done, trace = self.record(text, "--iterations", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = self.rows(self.bench(trace, "--peers", "compile", "--script", "recorded", "--json"), 0)
        self.assertEqual(rows[1]["note"], "losses as recorded with eager's random numbers; timed with its own")
        self.assertEqual(len(rows[1]["rounds_ns"]), 2)

    def test_cuda_graphs_need_a_device(self):
        self.assertIn("CUDA graphs need a CUDA device, and the program computes on cpu",
                      self.reason(self.trace, "recorded", peer="cudagraphs"))

    def test_energy_where_it_is_counted(self):
        zone = self.folder / "powercap/intel-rapl:0"
        zone.mkdir(parents=True, exist_ok=True)
        for name, text in (("name", "package-0"), ("energy_uj", "12345"), ("max_energy_range_uj", "262143328850")):
            (zone / name).write_text(text + "\n")
        done = self.bench(self.trace, "--peers", "eager", "--script", "recorded", "--json",
                          CRUCIBLE_POWERCAP=str(zone.parent))
        self.assertEqual([row["joules"] for row in self.rows(done, 0)], [0, 0], "the counter stands still")
        self.assertEqual(json.loads(done.stdout)["energy_missing"], "")
        done = self.bench(self.trace, CRUCIBLE_POWERCAP=str(self.folder / "none"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("energy of the processors: no processor counts its energy in"), 1)

    def test_wrong_use(self):
        done = self.bench(self.trace, "--peers", "eager")
        self.assert_refused(done, 2, "examples/mlp_sgd.py --steps 6`", "--script recorded runs that, if you trust")
        self.assert_refused(self.bench(self.trace, "--peers", "jax", "--script", "recorded"), 2,
                            "no peer is called 'jax'", "cudagraphs")
        self.assert_refused(self.bench(self.trace, "--peers", "compile:fast", "--script", "recorded"), 2,
                            "max-autotune")
        self.assert_refused(self.bench(self.trace, "--script", "python x.py"), 2, "--script is for --peers")
        self.assert_refused(self.bench(self.trace, self.trace, "--peers", "eager", "--script", "python x.py"), 2,
                            "--script is the command of one recording")
        self.assert_refused(self.bench(self.trace, "--peers", "eager", "--script", "python 'x"), 2,
                            "a quote ' is not closed")
        self.assert_refused(self.bench(self.trace, "--html", "/nowhere/x.html"), 3, "/nowhere/x.html")


if __name__ == "__main__":
    unittest.main(verbosity=2)
