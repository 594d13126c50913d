"""crucible.record() and what else a program may say; the options of `crucible record` that need a running program."""

import json
import os
import subprocess
import sys
import threading
import unittest

from in_process import InProcessTest, crucible, model, torch
from support import BUILD, CRUCIBLE, LOOP


def train(net, optimizer, steps, rows=5, before=lambda step: None):
    losses = []
    for step in range(steps):
        before(step)
        loss = net(torch.randn(rows, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


class ModuleCall(InProcessTest):
    def test_who_replaces_and_restores_it_does_no_harm(self):
        # As torch.fx does while it traces: takes it from the class, puts its own there, puts back what it took.
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        plain = torch.nn.Module.__call__
        with self.block(iterations=2):
            self.assertEqual(torch.nn.Module.__call__.__name__, plain.__name__)
            self.assertIs(torch.nn.Module.__call__.__code__, plain.__code__)
            taken = torch.nn.Module.__call__
            torch.nn.Module.__call__ = lambda module, *args, **keywords: taken(module, *args, **keywords)
            train(net, optimizer, 1)
            torch.nn.Module.__call__ = taken
            train(net, optimizer, 4)
            traced = torch.fx.symbolic_trace(net)
            self.assertEqual(traced(torch.ones(2, 4)).shape, (2, 1))
        self.assertEqual(len(self.trace().iterations), 2)
        self.assertIs(torch.nn.Module.__call__, plain)
        del net, optimizer


class Record(InProcessTest):
    def setUp(self):
        super().setUp()
        self.net = model()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def tearDown(self):
        del self.net, self.optimizer  # an optimizer that lives on is waited for by the next test
        super().tearDown()

    def test_file_and_summary(self):
        states = []
        with self.block(iterations=2) as recording:
            self.assertIsNone(recording.path)
            train(self.net, self.optimizer, 6, before=lambda step: states.append(
                (crucible.is_recording(), recording.path)))
        self.assertEqual([recording for recording, _ in states], [False, False, True, True, False, False])
        self.assertEqual(states[4][1], self.output, "written as soon as the iterations are complete")
        self.assertEqual(recording.path, self.output)
        self.assertEqual((recording.summary["iterations"], recording.summary["incomplete"]), (2, []))
        self.assertEqual(recording.summary["bytes"], os.path.getsize(self.output))
        self.assertEqual(os.listdir(self.folder), ["out.crtrace"])

    def test_numbers_stay_what_they_are(self):
        def run(record):
            torch.manual_seed(1)
            net = model()
            optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
            if not record:
                return train(net, optimizer, 6)
            with self.block():
                return train(net, optimizer, 6)

        self.assertEqual(run(True), run(False))

    def test_without_a_warmup_the_block_begins_the_first_iteration(self):
        with self.block(iterations=2, warmup=0):
            losses = train(self.net, self.optimizer, 2)
        self.assertEqual(self.losses(self.trace()), [[loss] for loss in losses])

    def test_block_that_ends_early(self):
        with self.block(iterations=9) as recording:
            train(self.net, self.optimizer, 4)
        self.assertEqual(recording.summary["incomplete"], ["recorded 2 of 9 iterations: the block ended"])
        with self.assertRaisesRegex(ZeroDivisionError, "modulo by zero"):
            with self.block(iterations=9) as recording:
                train(self.net, self.optimizer, 4, before=lambda step: 1 // (3 - step))
        self.assertEqual(
            recording.summary["incomplete"],
            ["recorded 1 of 9 iterations: the block ended with ZeroDivisionError: integer division or modulo by zero"])

    def test_refusals(self):
        def refused(text, action=lambda: None, **options):
            with self.assertRaisesRegex(crucible.RecordError, text), self.block(**options):
                action()

        refused("nothing was recorded: no optimizer step was seen; call crucible.step")
        refused("the program made 1 steps and the warm-up takes 2; run at least 3 steps, or lower warmup",
                lambda: train(self.net, self.optimizer, 1))
        refused("no iteration was recorded whole: the block ended", lambda: train(self.net, self.optimizer, 2))
        with self.block(iterations=1):
            refused("this process is being recorded already")
            train(self.net, self.optimizer, 4)
        with open(self.output, "rb") as kept:
            before = kept.read()
        refused("no optimizer step was seen")
        with open(self.output, "rb") as kept:
            self.assertEqual(kept.read(), before, "an older file is kept")
        self.output = os.path.join(self.folder, "missing", "out.crtrace")
        refused("cannot create the lock file .*; create the folder first")
        for options in ({"iterations": 0}, {"warmup": -1}, {"kernels": "none"}, {"end_of_iteration": "never"}):
            with self.assertRaises(ValueError):
                crucible.record("x", **options)
        with self.assertRaises(ValueError):
            crucible.phase("lunch")

    def test_path_that_another_process_records_to(self):
        code = f"import fcntl, os, sys, time\nf = open({self.output + '.lock'!r}, 'w')\nfcntl.flock(f, fcntl.LOCK_EX)\nf.write(str(os.getpid())); f.flush()\nprint('held', flush=True)\nsys.stdin.read()\n"
        other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertEqual(other.stdout.readline(), "held\n")
        with self.assertRaisesRegex(crucible.RecordError,
                                    f"another recording \\(process {other.pid}\\) is writing to"), self.block():
            self.fail("not reached")
        other.communicate("")

    def test_nothing_happens_when_nothing_is_recorded(self):
        crucible.step()
        with crucible.phase("evaluation"), crucible.phase("backward"), crucible.record_thread():
            self.assertFalse(crucible.is_recording())

    def test_phases(self):
        with self.block(iterations=1):
            for _ in range(3):
                with crucible.phase("backward"):
                    torch.ones(2).tan()
                    with crucible.phase("optimizer"):
                        torch.ones(2).sin()
                    torch.ones(2).cos()
                train(self.net, self.optimizer, 1)
        trace = self.trace()
        self.assertEqual([trace.one(f"aten::{name}")["phase"] for name in ("tan", "sin", "cos")], [1, 2, 1])

    def test_threads(self):
        ready, go_on, done = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)

        def work():
            with crucible.record_thread():
                ready.set()
                for _ in range(6):
                    go_on.acquire()
                    torch.ones(3).tan()
                    done.release()

        def one_step(step):
            go_on.release()
            done.acquire()

        with self.block(iterations=2):
            thread = threading.Thread(target=work)  # enters before recording begins, leaves after it ends
            thread.start()
            ready.wait()
            train(self.net, self.optimizer, 6, before=one_step)
            thread.join()
        trace = self.trace()
        self.assertEqual([len(trace.ops_named("aten::tan", i)) for i in range(2)], [1, 1])
        self.assertEqual({op["thread"] for op in trace.ops_named("aten::tan")}, {1})
        self.assertEqual({op["thread"] for op in trace.ops_named("aten::tanh")}, {0})
        self.assertEqual(trace.externals_of(trace.storage(trace.one("aten::tan")["args"][0])), [],
                         "made by a recorded op")

    def test_forked_child_records_nothing(self):
        with self.block(iterations=2):
            train(self.net, self.optimizer, 3)
            child = os.fork()
            if child == 0:
                try:
                    is_quiet = not crucible.is_recording() and not torch._C._dispatch_tls_is_dispatch_key_included(
                        "Fake")
                    train(self.net, self.optimizer, 4)
                finally:
                    os._exit(0 if is_quiet and not os.path.exists(self.output) else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            train(self.net, self.optimizer, 1)
        self.assertEqual(len(self.trace().iterations), 2)

    def test_excluded_module(self):
        frozen = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))

        class Both(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.frozen, self.net = frozen, model()

            def forward(self, x):
                with torch.no_grad():
                    x = self.frozen(x)
                return self.net(x)

        net = Both()
        optimizer = torch.optim.SGD(net.net.parameters(), lr=0.1)
        with self.block(exclude_modules=["frozen", "nothing.*"]) as recording:
            losses = train(net, optimizer, 6)
        trace = self.trace()
        self.assertEqual(self.losses(trace), [[loss] for loss in losses[2:5]])
        self.assertEqual([op["name"] for op in trace.ops if "batch_norm" in op["name"]], [])
        first = [op for op in trace.iteration_ops(1) if op["name"] == "aten::addmm"][0]
        entered = [external["iteration"] for external in trace.externals_of(trace.storage(first["args"][1]))]
        self.assertEqual(entered, [1], "the excluded module's output is an external input")
        self.assertEqual(recording.summary["notes"], ["no module matched --exclude-module nothing.*"])

    def test_excluded_module_with_gradients_is_refused(self):
        with self.assertRaisesRegex(crucible.RecordError,
                                    "the module 1 matches --exclude-module and runs with gradients"):
            with self.block(exclude_modules=["1"]):
                train(self.net, self.optimizer, 6)

    def test_size_limit(self):
        with self.block(iterations=50, max_bytes=1) as recording:
            losses = train(self.net, self.optimizer, 12)
        self.assertEqual(recording.summary["incomplete"],
                         ["recorded 1 of 50 iterations: the recording has reached --max-bytes 1"])
        self.assertEqual(len(losses), 12, "the program goes on")


class Calls(InProcessTest):
    """Blocks around calls of one module, without a warm-up."""

    def test_each_call_without_gradients_is_an_iteration(self):
        net = model().eval()
        for warmup, kind in ((0, "auto"), (1, "auto"), (0, "module"), (1, "module")):
            with self.subTest(warmup=warmup, kind=kind), torch.no_grad():
                with self.block(iterations=2, warmup=warmup, end_of_iteration=kind) as recording:
                    for step in range(5):
                        net(torch.ones(5, 4) * step)
                self.assertEqual(recording.summary["iterations"], 2)
                info = json.loads(
                    subprocess.run([CRUCIBLE, "trace", "info", recording.path, "--json"], capture_output=True,
                                   text=True, check=True).stdout)
                self.assertEqual(info["outputs"], 2)
                done = subprocess.run(
                    [CRUCIBLE, "replay", recording.path, "--backend", "reference", "--verify", "--json"],
                    capture_output=True, text=True)
                document = json.loads(done.stdout)
                self.assertEqual((document["verified"], document["outputs"]["compared"]), (True, 2))
                os.unlink(recording.path)

    def test_an_evaluation_before_training_is_none(self):
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with self.block(iterations=2, warmup=0) as recording:
            with torch.no_grad():
                net(torch.ones(5, 4))
            train(net, optimizer, 4)
        self.assertEqual(recording.summary["end_of_iteration"], "optimizer")

    def test_where_nothing_ends_an_iteration_the_message_says_what_would(self):
        net = model()
        for kind, words in (("auto", "end_of_iteration='module'"),
                            ("step", "call crucible.step() at the end of each iteration")):
            with self.assertRaises(crucible.RecordError) as caught:
                with self.block(iterations=2, warmup=0, end_of_iteration=kind):
                    net(torch.ones(5, 4))
            self.assertIn(words, str(caught.exception))


class Options(InProcessTest):
    LONG = LOOP.replace("range(10)", "range(30)")

    def test_start_step(self):
        done = self.record(self.LONG, options=("--iterations", "2", "--start-step", "12"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.trace().metadata["warmup"], 11)
        done = self.record(self.LONG, options=("--start-step", "50"))
        self.assertEqual(done.returncode, 3)
        self.assertIn("the program made 30 steps and --start-step is 50", done.stderr)
        self.assertEqual(self.record(LOOP, options=("--start-step", "5", "--warmup", "2")).returncode, 2)

    def test_on_signal(self):
        program = """
import os, signal
heard = []
signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
""" + self.LONG + "    if step == 9: os.kill(os.getpid(), signal.SIGUSR1)\nprint(heard)\n"
        done = self.record(program, options=("--iterations", "2", "--on-signal", "sigusr1"))
        self.assertEqual(done.returncode, 0, done.stderr)
        # The program's own handler was set before torch came, is called, and is what it was.
        self.assertEqual(done.stdout, "[10]\n")
        self.assertEqual(self.trace().metadata["warmup"], 11, "from the first end of an iteration after the signal")
        done = self.record(self.LONG, options=("--on-signal", "SIGUSR1"))
        self.assertEqual(done.returncode, 3)
        self.assertIn("the signal of --on-signal did not arrive", done.stderr)

    def test_interrupt(self):
        program = self.LONG.replace("    optimizer.zero_grad()\n", """    optimizer.zero_grad()
    if step == 5:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            import time; time.sleep(10)
        except KeyboardInterrupt:
            print("interrupted", signal.getsignal(signal.SIGINT) is signal.default_int_handler)
            if sys.argv[1] == "end": raise
""")
        done = self.record("import os, signal\n" + program + "print(step)\n", "go on", options=("--iterations", "20"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "interrupted True\n29\n")
        self.assertIn("recorded 4 of 20 iterations: the program was interrupted (SIGINT) and went on", done.stderr)
        self.assertEqual(len(self.trace().iterations), 4)
        done = self.record("import os, signal\n" + program, "end", options=("--iterations", "20"))
        self.assertEqual(done.returncode, 130)
        self.assertIn("recorded 3 of 20 iterations: the program ended with KeyboardInterrupt at program.py:",
                      done.stderr)

    def test_json_has_files_and_notes(self):
        done = self.record(LOOP, options=("--json", "--end-of-iteration", "optimizer", "--exclude-module", "x.*"))
        document = json.loads(done.stdout)
        self.assertEqual((document["end_of_iteration"], document["notes"]),
                         ("optimizer", ["no module matched --exclude-module x.*"]))
        self.assertEqual([(file["path"], file["rank"], file["iterations"]) for file in document["files"]],
                         [(self.output, None, 4)])

    def test_refused_values(self):
        for options in (("--on-signal", "SIGKILL"), ("--max-bytes", "much"), ("--end-of-iteration", "never"),
                        ("--snapshot", "all")):
            done = self.run_command([CRUCIBLE, "record", *options, "--", "true"])
            self.assertEqual((done.returncode, options[0] in done.stderr), (2, True), done.stderr)


class Typed(unittest.TestCase):
    def test_marked_as_typed(self):
        self.assertTrue(os.path.exists(os.path.join(BUILD, "python", "crucible", "py.typed")))
        for name in crucible.__all__:
            self.assertTrue(getattr(crucible, name).__doc__, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
