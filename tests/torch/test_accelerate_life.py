"""What is around compiled calls of crucible.accelerate in a program that goes on: what is kept,
states that are looked at, saved, loaded and averaged between calls, threads, reports, and 20,000 calls
(CRUCIBLE_TEST_CALLS: another number)."""

import gc
import io
import json
import os
import threading
import types
import unittest

from accelerated import SECONDS, AccelerateTest, Twins, batch, crucible, torch, train_step

CALLS = int(os.environ.get("CRUCIBLE_TEST_CALLS", "20000"))


@crucible.accelerate
def a_function(x):
    return x + 1


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def one_x():
    return (torch.randn(4, 8), )


class ManyCalls(AccelerateTest):
    def test_memory_is_flat_and_no_handle_is_leaked(self):
        twins = Twins(self).settle()
        data = [batch() for _ in range(8)]

        def calls(count):
            for k in range(count):
                twins.step(*data[k % 8])
            gc.collect()
            return resident_bytes(), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

        before = calls(CALLS // 4)
        objects = len(gc.get_objects())
        after = calls(CALLS)
        self.assertGreater(twins.step.report().compiled_calls, CALLS, str(twins.step.report()))
        self.assertLess(after[0] - before[0], max(64 * CALLS // 2, 1 << 20), "bytes more, resident")
        self.assertLessEqual(after[1], before[1], "handles")
        self.assertLessEqual(after[2], before[2], "threads")
        self.assertLess(len(gc.get_objects()) - objects, 200, "objects")

    def test_a_function_that_goes_takes_its_program_along(self):
        import weakref
        before = threading.active_count()
        for _ in range(3):
            twins = Twins(self).settle()
            gone = weakref.ref(twins.fast.net[0].weight)
            del twins
            gc.collect()
            self.assertIsNone(gone())
        self.assertLessEqual(threading.active_count(), before + 1)  # the one that compiles


class Gradients(AccelerateTest):
    def test_between_calls_they_are_eager_s(self):
        twins = Twins(self).settle()
        for _ in range(40):
            twins.call(*batch())
            self.assert_close([p.grad for p in twins.fast.net.parameters()],
                              [p.grad for p in twins.eager.net.parameters()])

    def test_those_that_somebody_kept_are_not_written_again(self):
        for keep in (lambda p: p.grad, lambda p: p.grad.detach(), lambda p: p.grad[0]):
            twins = Twins(self).settle()
            kept = []
            for _ in range(40):
                twins.step(*batch())
                kept += [(lambda grad: (grad, grad.clone()))(keep(p)) for p in twins.fast.net.parameters()]
            self.assertGreater(twins.step.report().compiled_calls, 30)
            for grad, value in kept:
                self.assertTrue(torch.equal(grad, value))

    def test_cleared_by_hand(self):
        """Between the calls: the function clears them anyway, so that calls stay compiled or are eager, and right."""
        twins = Twins(self).settle()
        for number in range(30):
            twins.call(*batch())
            if number % 3 == 0:
                twins.both(lambda one: one.net.zero_grad())

    def test_added_to_by_hand(self):
        twins = Twins(self).settle()

        def more(one):
            (one.net(torch.ones(2, 8)).mean()).backward()

        for _ in range(12):
            twins.both(more)
            twins.call(*batch())

    def test_a_graph_that_is_older_than_a_call_is_refused_as_in_eager(self):
        twins = Twins(self).settle()
        for one in (twins.eager, twins.fast):
            loss = one.net(torch.ones(2, 8)).square().mean()
            one.step(*batch())
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                loss.backward()

    def test_version_counters_rise_with_every_call(self):
        twins = Twins(self).settle()
        states = [*twins.fast.net.parameters(),
                  *(state["momentum_buffer"] for state in twins.fast.optimizer.state.values())]
        for _ in range(20):
            before = [tensor._version for tensor in states]
            twins.step(*batch())
            self.assertTrue(all(tensor._version > old for tensor, old in zip(states, before)))


class Between(AccelerateTest):
    def test_a_checkpoint_saved_and_loaded(self):
        twins = Twins(self).settle()

        def save(one):
            one.kept = io.BytesIO()
            torch.save({"net": one.net.state_dict(), "optimizer": one.optimizer.state_dict()}, one.kept)

        def load(one):
            one.kept.seek(0)
            kept = torch.load(one.kept)
            one.net.load_state_dict(kept["net"])
            one.optimizer.load_state_dict(kept["optimizer"])

        for number in range(48):
            if number == 8:
                twins.both(save)
            if number in (16, 32):
                twins.both(load)
            twins.call(*batch())
            twins.step.wait(SECONDS)
        self.assertTrue(twins.is_compiled(), str(twins.step.report()))

    def test_weights_loaded_stay_compiled(self):
        """Into the same memory: a compiled call reads what is there."""
        twins = Twins(self).settle()
        other = train_step().net.state_dict()
        twins.both(lambda one: one.net.load_state_dict(other))
        self.assertTrue(twins.is_compiled(), str(twins.step.report()))

    def test_averages_of_weights_by_hand(self):
        twins = Twins(self).settle()
        for one in (twins.eager, twins.fast):
            one.average = [p.detach().clone() for p in one.net.parameters()]

        def average(one):
            with torch.no_grad():
                for kept, p in zip(one.average, one.net.parameters()):
                    kept.lerp_(p, 0.1)

        def swap(one):
            with torch.no_grad():
                for kept, p in zip(one.average, one.net.parameters()):
                    before = p.clone()
                    p.copy_(kept)
                    kept.copy_(before)

        for number in range(40):
            twins.call(*batch())
            twins.both(average)
            self.assert_close(twins.fast.average, twins.eager.average)
            if number % 8 == 7:
                twins.both(swap)
        self.assertTrue(twins.is_compiled(), str(twins.step.report()))

    def test_evaluated_between_calls(self):
        twins = Twins(self).settle()

        def evaluate(one):
            one.net.eval()
            with torch.no_grad():
                loss = one.net(torch.ones(3, 8)).mean()
            one.net.train()
            return loss

        for _ in range(12):
            twins.call(*batch())
            got, expected = twins.both(evaluate)
            self.assert_close(got, expected)

    def test_dropout_draws_what_eager_draws(self):
        twins = Twins(self, lambda: train_step(dropout=0.3)).settle()
        self.assertTrue(twins.is_compiled(20), str(twins.step.report()))

    def test_two_functions_over_one_net(self):
        twins = Twins(self)
        for one in (twins.eager, twins.fast):
            one.net.eval()
        predict = crucible.accelerate(twins.fast.net)
        for _ in range(40):
            twins.call(*batch())
            x, _ = batch()
            with torch.no_grad():
                self.assert_close(predict(x), twins.eager.net(x))
            twins.step.wait(SECONDS)
            predict.wait(SECONDS)
        self.assertGreater(predict.report().compiled_calls, 20, str(predict.report()))
        self.assertGreater(twins.step.report().compiled_calls, 20, str(twins.step.report()))

    def test_a_tail_batch_is_a_variant(self):
        twins = Twins(self).settle()
        for epoch in range(14):
            for rows in (4, 4, 3):
                twins.call(*batch(rows))
                twins.step.wait(SECONDS)
        report = twins.step.report()
        self.assertEqual([variant.tier for variant in report.variants], ["compiled"] * 2, str(report))


class Parted(AccelerateTest):
    """Counts of steps that part while the first parameter of a group stands still: bias corrections are each one's own."""

    @staticmethod
    def make():
        body, head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)
        optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=0.05)

        def train(loss):
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()  # behind the step: each call begins without gradients
            return loss.detach()

        def step(x, y, whole=True):
            return train((head(body(x) if whole else x) - y).square().mean())

        return types.SimpleNamespace(net=torch.nn.ModuleList([body, head]), optimizer=optimizer, step=step,
                                     head=lambda x, y: train((head(x) - y).square().mean()))

    def test_by_another_variant(self):
        """Whose calls are observed, checked and compiled in turn."""
        twins = Twins(self, self.make, check_every=1 << 20).settle()
        for _ in range(24):
            twins.call(*batch(), False)
            twins.step.wait(SECONDS)
            twins.call(*batch())
        self.assertEqual(twins.step.report().mismatches, [], str(twins.step.report()))

    def test_by_the_program_itself(self):
        twins = Twins(self, self.make, check_every=1 << 20).settle()
        for _ in range(24):
            x, y = batch()
            twins.both(lambda one: one.head(x, y))
            twins.call(*batch())
        self.assertEqual(twins.step.report().mismatches, [], str(twins.step.report()))

    def test_by_another_function(self):
        twins = Twins(self, self.make, check_every=1 << 20).settle()
        twins.fast.head = crucible.accelerate(twins.fast.head, check_every=1 << 20)
        for _ in range(24):
            x, y = batch()
            twins.both(lambda one: one.head(x, y))
            twins.fast.head.wait(SECONDS)
            twins.call(*batch())
        self.assertEqual(twins.step.report().mismatches + twins.fast.head.report().mismatches, [])


class Threads(AccelerateTest):
    def test_four_threads_of_inference(self):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).eval()
        predict = crucible.accelerate(net)
        with torch.inference_mode():
            self.drive(predict, one_x)
        problems, start = [], threading.Barrier(4)

        def work(seed):
            try:
                generator = torch.Generator().manual_seed(seed)
                start.wait()
                with torch.inference_mode():
                    kept = []
                    for _ in range(400):
                        x = torch.randn(4, 8, generator=generator)
                        kept.append((predict(x), net(x)))
                    for got, expected in kept:
                        self.assert_close(got, expected)
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(seed, )) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        report = predict.report()
        self.assertEqual(report.mismatches, [])
        self.assertGreater(report.compiled_calls, 400)

    def test_a_call_while_another_thread_is_in_one(self):
        net = torch.nn.Linear(8, 8)
        call = crucible.accelerate(net)
        inside, go_on = threading.Event(), threading.Event()

        def hold():
            with call._accelerated._lock:
                inside.set()
                go_on.wait(SECONDS)

        thread = threading.Thread(target=hold)
        thread.start()
        inside.wait(SECONDS)
        x = torch.randn(4, 8)
        with torch.no_grad():
            self.assertTrue(torch.equal(call(x), net(x)))
            go_on.set()
            thread.join()
            self.assertEqual(call.report().eager_calls, {"another thread was in a call of it": 1})
            self.drive(call, one_x)

    def test_gradients_of_a_thread_whose_mode_is_another(self):
        """Grad mode is each thread's own: a compiled call of one is no answer in the other."""
        net = torch.nn.Linear(8, 8).eval()
        predict = crucible.accelerate(net)
        with torch.no_grad():
            self.drive(predict, one_x)
        found = []
        thread = threading.Thread(target=lambda: found.append(predict(torch.ones(2, 8)).requires_grad))
        thread.start()
        thread.join()
        self.assertEqual(found, [True])


class Nested(AccelerateTest):
    def test_a_function_that_calls_itself(self):
        net = torch.nn.Linear(8, 8)

        def forward(x, depth):
            return net(x) if depth == 0 else call(net(x), depth - 1)

        def plain(x, depth):
            return net(x) if depth == 0 else plain(net(x), depth - 1)

        call = crucible.accelerate(forward)
        with torch.no_grad():
            for _ in range(12):
                x = torch.randn(4, 8)
                self.assert_close(call(x, 2), plain(x, 2))
                self.assert_close(call(x, 0), plain(x, 0))
                call.wait(SECONDS)

    def test_a_function_that_calls_another_accelerated_one(self):
        net, head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)
        inner = crucible.accelerate(net)

        def forward(x):
            return head(inner(x))

        outer = crucible.accelerate(forward)
        with torch.no_grad():
            self.drive(inner, one_x)
            for _ in range(16):
                x = torch.randn(4, 8)
                self.assert_close(outer(x), head(net(x)))
                outer.wait(SECONDS)
        self.assertEqual(outer.report().mismatches, [])


class Reports(AccelerateTest):
    def blocked(self):
        """Nothing is compiled until the event is set."""
        from crucible_torch.accelerate.worker import worker
        event = threading.Event()
        self.addCleanup(event.set)
        worker.submit(lambda: event.wait(SECONDS))
        return event

    def test_every_tier_as_data_json_and_words(self):
        event = self.blocked()
        twins = Twins(self)
        seen = {}
        for number in range(24):
            twins.call(*batch())
            report = twins.step.report()
            seen.setdefault(report.tier, report)
            if report.tier == "compiling" and number > 6:
                self.assertFalse(twins.step.wait(0.0))
                event.set()
                self.assertTrue(twins.step.wait(SECONDS))
        self.assertEqual(list(seen), ["observing", "compiling", "compiled"])
        eager = crucible.accelerate(lambda: None)
        eager._leave("a reason")
        eager()
        seen["eager"] = eager.report()
        for tier, report in seen.items():
            self.assertEqual(json.loads(report.to_json())["tier"], tier)
            self.assertIn(f": {tier}, ", str(report).splitlines()[0])
        self.assertIn("every call is eager: a reason", str(seen["eager"]))
        self.assertIn("it is being compiled", seen["compiled"].eager_calls)

    def test_what_is_counted(self):
        twins = Twins(self)
        for _ in range(40):
            twins.call(*batch())
            twins.step.wait(SECONDS)
        report = twins.step.report()
        self.assertEqual((report.calls, report.tier, report.mismatches), (40, "compiled", []))
        self.assertEqual(report.calls, report.variants[0].calls)
        self.assertEqual(report.compiled_calls, report.variants[0].compiled_calls)
        self.assertEqual(report.checks, 6)  # 1, 2, 4, 8, 16, 32
        self.assertLess(report.variants[0].since, 10)
        self.assertGreater(report.gain, 0)
        self.assertGreater(report.variants[0].compile_s, 0)

    def test_no_call_yet(self):
        call = crucible.accelerate(train_step().step)
        self.assertEqual((call.report().tier, call.report().calls, call.report().gain), ("observing", 0, None))
        self.assertTrue(call.wait(0.0))
        json.loads(call.report().to_json())

    def test_as_a_decorator(self):
        net = torch.nn.Linear(8, 8)

        @crucible.accelerate
        def plain(x):
            """What it does."""
            return net(x).detach()

        @crucible.accelerate(check_every=7, max_variants=2)
        def with_options(x):
            return net(x).detach()

        for call in (plain, with_options):
            self.drive(call, one_x)
            x = torch.randn(4, 8)
            self.assert_close(call(x), net(x).detach())
        self.assertEqual((plain.__name__, plain.__doc__), ("plain", "What it does."))

    def test_copied_and_pickled_it_is_itself(self):
        import copy
        import pickle
        for other in (copy.copy(a_function), copy.deepcopy(a_function), pickle.loads(pickle.dumps(a_function))):
            self.assertIs(other, a_function)

    def test_options_that_cannot_be(self):
        for options in ({"check_every": 0}, {"max_variants": 0}, {"on_mismatch": "ignore"}, {"rng": "dice"}):
            with self.assertRaisesRegex(ValueError, next(iter(options))):
                crucible.accelerate(lambda: None, **options)
        with self.assertRaisesRegex(TypeError, "a function or a module, not a int"):
            crucible.accelerate(3)

    def test_a_method(self):
        class Trainer:
            def __init__(self):
                self.net = torch.nn.Linear(8, 8)
                self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

            @crucible.accelerate
            def step(self, x):
                self.optimizer.zero_grad()
                loss = self.net(x).square().mean()
                loss.backward()
                self.optimizer.step()
                return loss.detach()

        one, other = Trainer(), Trainer()
        for trainer in (one, other, one):
            weights = {key: value.clone() for key, value in trainer.net.state_dict().items()}
            losses = []
            for _ in range(16):
                losses.append(trainer.step(torch.ones(2, 8)))
                trainer.step.wait(SECONDS)
            twin = Trainer()
            twin.net.load_state_dict(weights)
            self.assert_close(losses, [Trainer.step._function(twin, torch.ones(2, 8)) for _ in range(16)])
        self.assertEqual(one.step.report().calls, 32)
        self.assertEqual(other.step.report().calls, 16)


class Modules(AccelerateTest):
    def test_attributes_are_the_module_s(self):
        net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))
        fast = crucible.accelerate(net)
        self.assertIs(fast[0], net[0])
        self.assertEqual((len(fast), list(fast), net[1] in fast, bool(fast)), (2, list(net), True, True))
        self.assertIn("report", dir(fast))
        self.assertEqual(list(fast.state_dict()), list(net.state_dict()))
        self.assertEqual(len(list(fast.parameters())), 2)
        fast.eval()
        self.assertFalse(net.training)
        fast.note = "kept"
        self.assertEqual(net.note, "kept")
        del fast.note
        self.assertFalse(hasattr(net, "note"))
        with self.assertRaisesRegex(AttributeError, "nowhere"):
            fast.nowhere

    def test_copied_and_pickled_it_is_the_module(self):
        import copy
        import pickle
        net = torch.nn.Linear(8, 8)
        fast = crucible.accelerate(net)
        for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
            self.assertIs(type(other), torch.nn.Linear)
            self.assertTrue(torch.equal(other.weight, net.weight))
            self.assertIsNot(other.weight, net.weight)

    def test_calls_with_gradients_are_eager(self):
        net = torch.nn.Linear(8, 8)
        fast = crucible.accelerate(net)
        for _ in range(8):
            fast(torch.ones(2, 8)).sum().backward()
        self.assertIsNotNone(net.weight.grad)
        self.assertEqual(fast.report().compiled_calls, 0)
        self.assertIn("gradients were wanted", next(iter(fast.report().eager_calls)))

    def test_several_sizes(self):
        net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).eval()
        fast = crucible.accelerate(net)
        with torch.inference_mode():
            for _ in range(20):
                for rows in (1, 4, 7):
                    x = torch.randn(rows, 8)
                    self.assert_close(fast(x), net(x))
                    fast.wait(SECONDS)
        self.assertEqual([each.tier for each in fast.report().variants], ["compiled"] * 3, str(fast.report()))


if __name__ == "__main__":
    unittest.main()
