"""What goes wrong around calls of crucible.accelerate: the program does what it does in eager, and the report says why
nothing is compiled. Each program is compared with an eager twin from the same seed."""

import copy
import json
import os
import signal
import sys
import tempfile
import textwrap
import threading
import types
import unittest

from accelerated import SECONDS, AccelerateTest, Twins, batch, crucible, torch, train_step
from support import BUILD

# A whole program: 24 steps, eager and accelerated; prints the accelerated one's report. {before} comes before the first
# call, {between} between two calls of step `number`.
PROGRAM = """
import json, os, sys
import torch
import crucible

def make():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, {width}), torch.nn.Tanh(), torch.nn.Linear({width}, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1 / {width}, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()
    return net, step

eager_net, eager = make()
net, step = make()
step = crucible.accelerate(step)
{before}
for number in range(24):
    x, y = torch.randn({rows}, 8), torch.randn({rows}, 1)
    expected, got = eager(x, y), step(x, y)
    {between}
    assert torch.allclose(expected, got, rtol=1e-4), (number, expected, got)
    step.wait(100)
for mine, theirs in zip(net.parameters(), eager_net.parameters()):
    assert torch.allclose(mine, theirs, atol=1e-4), "weights"
sys.stdout.write(step.report().to_json())
"""


class Programs(AccelerateTest):
    """Programs of their own, as the trouble would be all of this process's."""

    def runs(self, before="pass", between="pass", shell="", environment=None, rows=4, width=16):
        path = self.script(PROGRAM.format(before=textwrap.dedent(before), between=between, rows=rows, width=width))
        settings = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python"),
                    "CRUCIBLE_STORE_DIR": os.path.join(self.folder, "store"), **(environment or {})}
        done = self.run_command(["sh", "-c", f"{shell} exec {sys.executable} {path}"], env=settings)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout), done.stderr

    def reason_of(self, report):
        self.assertEqual((report["tier"], report["compiled_calls"]), ("eager", 0), report)
        reason = report["reason"] or report["variants"][0]["reason"]
        return reason

    def test_nothing_in_the_way(self):
        report, _ = self.runs()
        self.assertEqual(report["tier"], "compiled")
        self.assertGreater(report["compiled_calls"], 16)

    def test_no_compiler(self):
        report, _ = self.runs(environment={"CRUCIBLE_CLANG": "/nowhere/clang"})
        self.assertIn("/nowhere/clang", self.reason_of(report))

    def test_a_compiler_that_is_killed(self):
        compiler = os.path.join(self.folder, "clang")
        with open(compiler, "w", encoding="utf-8") as out:
            out.write("#!/bin/sh\ncase \"$*\" in *--version*) exec clang --version;; esac\nkill -9 $$\n")
        os.chmod(compiler, 0o755)
        report, _ = self.runs(environment={"CRUCIBLE_CLANG": compiler})
        self.assertIn("clang", self.reason_of(report))

    def test_no_file_may_grow(self):
        """As on a full disk: neither recording nor kernels nor a capsule can be written."""
        report, _ = self.runs(shell="ulimit -f 4;")
        self.assertNotEqual(self.reason_of(report), "")

    def test_no_temporary_folder(self):
        report, _ = self.runs(before="import tempfile; tempfile.tempdir = '/nowhere'")
        self.assertIn("no temporary folder can be made", self.reason_of(report))

    def test_no_store(self):
        """The store's folder is a file: kernels are compiled for this process alone."""
        path = os.path.join(self.folder, "file")
        with open(path, "w", encoding="utf-8"):
            pass
        report, _ = self.runs(environment={"CRUCIBLE_STORE_DIR": path})
        self.assertEqual(report["tier"], "compiled")

    def test_memory_that_does_not_suffice(self):
        """For compiler or arena: as much as there was before is there again for eager."""
        report, _ = self.runs(rows=4096, width=4096, before="""
            import resource, threading
            from crucible_torch.accelerate.worker import worker
            event = threading.Event()
            worker.submit(lambda: event.wait(100))
            most = resource.getrlimit(resource.RLIMIT_AS)
        """, between="""
    if step.report().tier == "compiling" and not event.is_set():
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + (8 << 20), most[1]))
        event.set()
        step.wait(100)
        resource.setrlimit(resource.RLIMIT_AS, most)
    event.is_set() or number < 4 or sys.exit("it was never compiled")
""")
        self.assertIn("llocat", self.reason_of(report))

    def test_the_program_ends_while_it_compiles(self):
        """With its own exit code, and without a file left behind."""
        path = self.script("""
            import sys, torch, crucible
            net = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)])
            step = crucible.accelerate(lambda x: net(x).detach())
            for _ in range(5):
                step(torch.randn(4, 64))
            assert step.report().tier == "compiling", step.report()
            sys.exit(7)
        """)
        settings = {**os.environ, "PYTHONPATH": os.path.join(BUILD, "python"),
                    "CRUCIBLE_STORE_DIR": os.path.join(self.folder, "store"), "TMPDIR": self.folder}
        before = set(os.listdir(self.folder))
        done = self.run_command([sys.executable, path], env=settings)
        self.assertEqual((done.returncode, done.stderr), (7, ""))
        self.assertEqual(set(os.listdir(self.folder)) - before, {"store"}, "files are left")

    def test_a_recorded_program(self):
        """Under `crucible record` calls stay eager, so that what is recorded is the program."""
        done = self.record(PROGRAM.format(before="", between="pass", rows=4, width=16))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Workers(AccelerateTest):
    def test_loader_workers_on_both_processors(self):
        class Rows(torch.utils.data.Dataset):
            def __len__(self):
                return 160

            def __getitem__(self, index):
                generator = torch.Generator().manual_seed(index)
                sum(number * number for number in range(2000))  # busy
                return torch.randn(8, generator=generator), torch.randn(1, generator=generator)

        twins = Twins(self)
        for epoch in range(3):
            loader = torch.utils.data.DataLoader(Rows(), 4, num_workers=2, persistent_workers=False)
            for x, y in loader:
                twins.call(x, y)
            twins.step.wait(SECONDS)
        self.assertGreater(twins.step.report().compiled_calls, 70, str(twins.step.report()))

    def test_a_forked_child_calls_eagerly(self):
        twins = Twins(self).settle()
        x, y = batch()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                torch.set_num_threads(1)
                for _ in range(4):
                    twins.call(x, y)
                report = twins.step.report()
                os.write(writing, json.dumps([report.tier, report.reason, twins.step.wait(1.0)]).encode())
                status = 0
            except BaseException as error:
                os.write(writing, json.dumps([repr(error)]).encode())
            finally:
                os._exit(status)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = json.loads(pipe.read())
        self.assertEqual(os.waitpid(child, 0)[1], 0, said)
        self.assertEqual((said[0], said[2]), ("eager", True))
        self.assertIn("forked", said[1])
        self.assertTrue(twins.is_compiled(), "the parent goes on")

    def test_forked_while_it_is_compiled(self):
        """The child does not wait for a thread that did not come along."""
        from crucible_torch.accelerate.worker import worker
        event = threading.Event()
        worker.submit(lambda: event.wait(SECONDS))
        twins = Twins(self)
        for _ in range(6):
            twins.call(*batch())
        self.assertEqual(twins.step.report().tier, "compiling")
        child = os.fork()
        if child == 0:
            os._exit(0 if twins.step.wait(1.0) and twins.step.report().tier == "eager" else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        event.set()
        twins.settle()


def plant(variant, parameter, amount):
    """In checked calls an element of what the compiled call has made of a parameter is wrong."""
    right = variant.run_beside
    at = next(at for at, each in enumerate(variant._written) if each is parameter)

    def wrong(leaves, numbers, beside):
        reason, answer = right(leaves, numbers, beside)
        beside[at][1].view(-1)[0] += amount
        return reason, answer

    variant.run_beside = wrong


class Errors(AccelerateTest):
    @staticmethod
    def classifier():
        net = torch.nn.Sequential(torch.nn.Embedding(8, 4), torch.nn.Flatten(), torch.nn.Linear(8, 3))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return types.SimpleNamespace(net=net, optimizer=optimizer, step=step)

    def ids(self):
        return torch.randint(0, 8, (4, 2)), torch.randint(0, 3, (4, ))

    def fails_alike(self, twins, x, y):
        said = []
        for one in (twins.eager, twins.fast):
            with self.assertRaises((IndexError, RuntimeError, ValueError)) as caught:
                one.step(x, y)
            said.append((type(caught.exception), str(caught.exception)))
        self.assertEqual(*said)
        twins.compare()

    def test_eager_s_own_error_in_every_kind_of_call(self):
        """In the first, in observed ones, while it is compiled, in checked and unchecked compiled ones."""
        for bad_call in (0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 20):
            with self.subTest(call=bad_call):
                twins = Twins(self, self.classifier)
                for number in range(28):
                    x, y = self.ids()
                    if number == bad_call:
                        self.fails_alike(twins, x.index_fill(0, torch.tensor(1), 8), y)
                        self.fails_alike(twins, x, y.index_fill(0, torch.tensor(1), 3))
                        self.fails_alike(twins, x.float(), y)
                        self.fails_alike(twins, x, y[:2])
                    twins.call(x, y)
                    twins.step.wait(SECONDS)
                report = twins.step.report()
                self.assertEqual(report.tier, "compiled", str(report))
                self.assertEqual(report.mismatches, [])

    def test_arguments_that_no_compiled_call_has(self):
        net = torch.nn.Linear(8, 8)

        def forward(x, other):
            return net(x).detach()

        call = crucible.accelerate(forward)
        kinds = [1j, object(), open(os.devnull), (number for number in ()), torch.ones(2).to_sparse(),
                 torch.ones(2, dtype=torch.complex64), torch.ones(1, requires_grad=True), 1 << 70, {1, 2}]
        self.addCleanup(kinds[2].close)
        for other in kinds:
            for _ in range(6):
                x = torch.randn(4, 8)
                self.assert_close(call(x, other), net(x).detach())
        self.assertEqual(call.report().compiled_calls, 0)
        self.assertEqual(sum(call.report().eager_calls.values()), 6 * len(kinds), call.report().eager_calls)

    def test_a_capsule_of_what_cannot_be_written(self):
        from crucible_torch.accelerate import capsule
        with tempfile.TemporaryDirectory() as folder:
            os.environ["CRUCIBLE_CAPSULES"] = folder
            self.addCleanup(os.environ.pop, "CRUCIBLE_CAPSULES", None)
            self.assertIn("could not be kept", capsule.write("f", (lambda: 0, ), {}, None, []))
            self.assertEqual(os.listdir(folder), [], "what was begun is left")
            said = capsule.write("f", (torch.ones(2), ), {}, None, ["a difference"])
            (name, ) = os.listdir(folder)
            self.assertIn(name, said)
            kept = torch.load(os.path.join(folder, name))
            self.assertTrue(torch.equal(kept["args"][0], torch.ones(2)))
        self.assertIn("could not be kept", capsule.write("f", (), {}, None, []))  # the folder is gone

    def test_a_wrong_kernel(self):
        """What a compiled call wrote is planted: found at the next check, eager's result stays."""
        for mode in ("eager", "raise"):
            from crucible_torch.accelerate.policy import Mismatch
            twins = Twins(self, on_mismatch=mode).settle()
            variant = twins.step._every_variant()[0]
            plant(variant, twins.fast.net[0].weight, 1e-2)
            x, y = batch()
            variant.next_check = variant.compiled_calls + 1
            with tempfile.TemporaryDirectory() as folder:
                os.environ["CRUCIBLE_CAPSULES"] = folder
                self.addCleanup(os.environ.pop, "CRUCIBLE_CAPSULES", None)
                if mode == "raise":
                    twins.eager.step(x, y)
                    self.assertRaisesRegex(Mismatch, "differs by", twins.step, x, y)
                    twins.compare()
                else:
                    twins.call(x, y)
                self.assertEqual(len(os.listdir(folder)), 1)
            for _ in range(8):
                twins.call(*batch())
            report = twins.step.report()
            self.assertEqual((report.tier, len(report.mismatches)), ("eager", 1))
            self.assertIn("WRONG", str(report))

    def learnt(self):
        """Twins whose loss has become what rounding leaves of a difference, and a batch of theirs."""
        twins = Twins(self, lambda: train_step(lr=0.05, momentum=0.9)).settle(lambda: batch(2))
        x, y = batch(2)
        for _ in range(1500):
            loss = twins.step(x, y)
        self.assertLess(float(loss), 1e-7)
        return twins, (x, y)

    def test_what_is_left_of_a_difference(self):
        """Of a loss near zero no arithmetic determines the bits: a check asks how far eager moves by a rounding."""
        twins, args = self.learnt()
        variant = twins.step._every_variant()[0]
        for number in range(12):
            variant.next_check = variant.compiled_calls + 1
            with torch.no_grad():
                for parameter in twins.fast.net.parameters():
                    parameter.add_(1e-7 * number)
            before = {key: value.clone() for key, value in twins.fast.net.state_dict().items()}
            twins.step(*args)
            for key, value in twins.fast.net.state_dict().items():
                self.assertLess(float((value - before[key]).abs().max()), 1e-3)
        report = twins.step.report()
        self.assertEqual((report.tier, report.mismatches), ("compiled", []))

    def test_wrong_weights_are_found_where_the_loss_is_near_zero(self):
        twins, args = self.learnt()
        variant = twins.step._every_variant()[0]
        plant(variant, twins.fast.net[0].weight, 1e-3)
        variant.next_check = variant.compiled_calls + 1
        twins.eager.net.load_state_dict(twins.fast.net.state_dict())
        twins.eager.optimizer.load_state_dict(copy.deepcopy(twins.fast.optimizer.state_dict()))
        state = torch.get_rng_state()
        loss, expected = twins.step(*args), twins.eager.step(*args)
        self.assertTrue(torch.equal(loss, expected))
        for mine, theirs in zip(twins.fast.net.parameters(), twins.eager.net.parameters()):
            self.assertTrue(torch.equal(mine, theirs), "what stays is not eager's, to the bit")
            self.assertTrue(torch.equal(mine.grad, theirs.grad))
        self.assertTrue(torch.equal(state, torch.get_rng_state()))
        self.assertEqual(len(twins.step.report().mismatches), 1)

    def test_no_memory_for_a_check(self):
        twins = Twins(self).settle()
        variant = twins.step._every_variant()[0]

        class Unclonable:
            def detach(self):
                raise RuntimeError("not enough memory: you tried to allocate 1 byte")

        variant._written = [Unclonable()]
        variant.next_check = variant.compiled_calls + 1
        for _ in range(4):
            twins.call(*batch())
        self.assertIn("no memory to check it", twins.step.report().variants[0].reason)

    def test_no_memory_for_eager_beside_the_arena(self):
        """In a check: the arena goes, and the call is made again from the same start."""
        twins = Twins(self).settle()
        variant, function = twins.step._every_variant()[0], twins.step._called
        calls = []

        def fails(*args):
            result = function(*args)
            calls.append(len(calls))
            if len(calls) == 1:
                raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 byte")
            return result

        twins.step._called = fails
        variant.next_check = variant.compiled_calls + 1
        for _ in range(4):
            twins.call(*batch())
        self.assertEqual(len(calls), 5)
        self.assertIn("no memory beside its arena", twins.step.report().variants[0].reason)

    def test_a_run_that_fails_in_a_check(self):
        twins = Twins(self).settle()
        variant = twins.step._every_variant()[0]

        def fails(leaves, numbers, beside):
            with torch.no_grad():
                beside[0][1].zero_()
            raise RuntimeError("planted")

        variant.run_beside = fails
        variant.next_check = variant.compiled_calls + 1
        for _ in range(4):
            twins.call(*batch())
        self.assertIn("planted", twins.step.report().variants[0].reason)


class Interrupts(AccelerateTest):
    def setUp(self):
        super().setUp()
        before = signal.getsignal(signal.SIGALRM)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.interrupt)

    @staticmethod
    def interrupt(*_):
        raise KeyboardInterrupt

    def interrupted(self, call, args, after_s):
        """Whether an interrupt came during the call."""
        try:
            signal.setitimer(signal.ITIMER_REAL, after_s)
            try:
                call(*args)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            return True
        return False

    def test_a_compiled_call_is_made_or_not(self):
        """Weights, momentum and random numbers are those from before the call, or those from after it."""
        twins = Twins(self, lambda: train_step(width=512, dropout=0.2)).settle(lambda: batch(256))
        variant = twins.step._every_variant()[0]
        states = [*twins.fast.net.parameters(),
                  *(state["momentum_buffer"] for state in twins.fast.optimizer.state.values())]
        
        def now():
            return [tensor.detach().clone() for tensor in states] + [torch.get_rng_state()]

        interrupts = made = 0
        for number in range(400):
            variant.next_check = variant.compiled_calls + 100
            args = batch(256)
            before = now()
            if not self.interrupted(twins.step, args, 1e-4 + 2e-6 * number):
                continue
            interrupts += 1
            after = now()
            moved = [not torch.equal(a, b) for a, b in zip(after, before)]
            self.assertEqual(len(set(moved)), 1, f"call {number}: some of it was done: {moved}")
            made += moved[0]
        self.assertGreater(interrupts, 20)
        twins.eager.net.load_state_dict(twins.fast.net.state_dict())
        twins.eager.optimizer.load_state_dict(copy.deepcopy(twins.fast.optimizer.state_dict()))
        self.assertTrue(twins.is_compiled(4, lambda: batch(256)), str(twins.step.report()))

    def test_an_interrupt_of_a_check_behind_eager(self):
        """What eager did stays."""
        twins = Twins(self).settle()
        variant = twins.step._every_variant()[0]
        right, args = variant.run_beside, batch()

        def interrupted(*given):
            right(*given)
            raise KeyboardInterrupt

        variant.run_beside, variant.next_check = interrupted, variant.compiled_calls + 1
        with self.assertRaises(KeyboardInterrupt):
            twins.step(*args)
        twins.eager.step(*args)
        twins.compare()
        variant.run_beside = right
        self.assertTrue(twins.is_compiled(8), str(twins.step.report()))

    def test_an_interrupt_as_the_call_begins(self):
        """Right after the lock was taken: the next call is compiled again."""
        twins = Twins(self).settle()
        lock = twins.step._lock

        class Lock:
            armed = True

            def acquire(self, blocking):
                taken = lock.acquire(blocking)
                if self.armed:
                    self.armed = False
                    raise KeyboardInterrupt
                return taken

            def __getattr__(self, name):
                return getattr(lock, name)

        twins.step._lock = Lock()
        with self.assertRaises(KeyboardInterrupt):
            twins.step(*batch())
        self.assertTrue(twins.is_compiled(8), str(twins.step.report()))
        found = []
        thread = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False)))
        thread.start()
        thread.join()
        self.assertEqual(found, [True], "the lock is held still")

    def test_an_interrupt_of_an_observed_call(self):
        """As in eager, and nothing is recorded any more; later calls are observed again."""
        twins = Twins(self)
        net = twins.fast.net
        for number in range(3):
            twins.call(*batch())
            handle = net.register_forward_hook(lambda *_: self.interrupt())
            with self.assertRaises(KeyboardInterrupt):
                twins.step(*batch())
            handle.remove()
            twins.both(lambda one: one.optimizer.zero_grad())
        twins.settle()


class TwoAtOnce(AccelerateTest):
    def test_functions_that_begin_together(self):
        """One is observed at a time; the others' calls are eager meanwhile."""
        all_twins = [Twins(self) for _ in range(3)]
        for _ in range(40):
            for twins in all_twins:
                twins.call(*batch())
                twins.step.wait(SECONDS)
        for twins in all_twins:
            self.assertEqual(twins.step.report().tier, "compiled", str(twins.step.report()))

    def test_one_that_is_called_seldom_holds_nobody_up(self):
        from crucible_torch.accelerate.observe import MOST_WAITS
        seldom, often = Twins(self), Twins(self)
        for _ in range(2):
            seldom.call(*batch())  # the first, and one that is observed
        for _ in range(MOST_WAITS + 16):
            often.call(*batch())
            often.step.wait(SECONDS)
        self.assertEqual(often.step.report().tier, "compiled", str(often.step.report()))
        seldom.settle()

    def test_the_program_records_itself_while_a_call_is_observed(self):
        """Its recording goes first."""
        twins = Twins(self)
        for _ in range(3):
            twins.call(*batch())
        with crucible.record(self.output, iterations=2, warmup=0, end_of_iteration="step") as recording:
            for _ in range(2):
                twins.call(*batch())
                crucible.step()
        self.assertEqual(recording.summary["iterations"], 2)
        twins.settle()

    def test_while_the_program_records_itself(self):
        twins = Twins(self)
        with crucible.record(self.output, iterations=2, warmup=0, end_of_iteration="step"):
            for _ in range(4):
                twins.call(*batch())
                crucible.step()
        self.assertEqual(twins.step.report().compiled_calls, 0)
        twins.settle()


if __name__ == "__main__":
    unittest.main()
