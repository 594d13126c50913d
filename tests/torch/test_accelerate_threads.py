"""Calls of accelerated functions on several threads: pools that take turns, threads that live for one call, recordings that go from one
thread to another, and what other threads do while a call is observed or checked."""

import concurrent.futures
import threading
import time
import unittest

from accelerated import SECONDS, AccelerateTest, Twins, batch, crucible, torch, train_step

from crucible_torch.accelerate.turns import Turns


def on_a_thread(work):
    """Its result, from a thread of its own that lives no longer."""
    found = []

    def run():
        try:
            found.append((work(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    result, error = found[0]
    if error is not None:
        raise error
    return result


def is_key_on():
    """Whether the recorder has left this thread as only recorded ones are."""
    return torch._C._dispatch_tls_is_dispatch_key_included("Fake")


class Pools(AccelerateTest):
    """Observed calls come from whatever thread; the recording goes along."""

    def check(self, place):
        """`place(number, work)`: runs it somewhere."""
        twins = Twins(self)
        for number in range(12):
            place(number, lambda: twins.call(*batch()))
            self.assertTrue(twins.step.wait(SECONDS))
            self.assertFalse(place(number, is_key_on))
        report = twins.step.report()
        self.assertEqual((report.tier, report.compiled_calls), ("compiled", 8), str(report))
        self.assertEqual((report.mismatches, report.eager_calls), ([], {}))

    def test_a_thread_for_each_call(self):
        self.check(lambda number, work: on_a_thread(work))

    def test_two_that_take_turns(self):
        with concurrent.futures.ThreadPoolExecutor(1) as first, concurrent.futures.ThreadPoolExecutor(1) as second:
            self.check(lambda number, work: (first, second)[number % 2].submit(work).result())

    def test_from_one_to_the_main_thread_and_back(self):
        self.check(lambda number, work: on_a_thread(work) if number in (1, 3) else work())

    def test_one_that_was_observed_on_a_thread_that_has_ended_holds_nobody_up(self):
        from crucible_torch.accelerate.observe import MOST_WAITS
        left, other = Twins(self), Twins(self)
        for _ in range(2):
            on_a_thread(lambda: left.call(*batch()))
        for _ in range(MOST_WAITS + 8):
            other.call(*batch())
            other.step.wait(SECONDS)
        self.assertEqual(other.step.report().tier, "compiled", str(other.step.report()))
        left.settle()

    def test_a_function_that_goes_while_its_call_is_observed_elsewhere(self):
        """Only the recorded thread can end a recording: what is given up elsewhere waits for it."""
        inside, go_on = threading.Event(), threading.Event()
        net = torch.nn.Linear(8, 8)

        def step(x):
            return net(x).detach() + 1

        call = crucible.accelerate(step)
        call(torch.randn(4, 8))
        original = call._called

        def held(*args):
            inside.set()
            go_on.wait(SECONDS)
            return original(*args)

        call._called = held
        thread = threading.Thread(target=call, args=(torch.randn(4, 8), ))
        thread.start()
        self.assertTrue(inside.wait(SECONDS))
        from crucible_torch.accelerate.observe import Observation
        holder = Observation.holder
        holder.drop()
        self.assertIs(Observation.holder, holder, "it is not ended in the middle of another thread's op")
        go_on.set()
        thread.join()
        call._called = original
        self.drive(call, lambda: (torch.randn(4, 8), ))


class Meanwhile(AccelerateTest):
    """What another thread does while a call is observed or checked."""

    def hold(self, twins):
        """An observed call of `twins` that stays in the middle until go_on is set. (thread, go_on)."""
        inside, go_on = threading.Event(), threading.Event()
        original = twins.step._called

        def held(*args):
            result = original(*args)
            inside.set()
            go_on.wait(SECONDS)
            return result

        twins.step._called = held
        x, y = batch()
        twins.eager.step(x, y)
        thread = threading.Thread(target=lambda: twins.step(x, y))
        thread.start()
        self.assertTrue(inside.wait(SECONDS))

        def end():
            go_on.set()
            thread.join()
            twins.step._called = original
            twins.compare()

        return end

    def test_compiled_calls_are_eager_while_another_thread_is_observed(self):
        """They would find the recorder's functions in the place of torch's."""
        compiled, observed = Twins(self).settle(), Twins(self)
        observed.call(*batch())
        before = compiled.step.report()
        end = self.hold(observed)
        for _ in range(3):
            compiled.call(*batch())
        end()
        after = compiled.step.report()
        self.assertEqual(len(after.variants), len(before.variants))
        self.assertEqual(after.mismatches, [])
        self.assertEqual(after.eager_calls["a call of another thread is being observed"], 3)
        self.assertTrue(compiled.is_compiled(calls=1))
        observed.settle()

    def test_the_program_records_itself_while_another_thread_is_observed(self):
        """Its recording begins when that call is over."""
        twins = Twins(self)
        twins.call(*batch())
        end = self.hold(twins)
        ends = threading.Thread(target=lambda: (time.sleep(0.3), end()))
        ends.start()
        other = train_step()
        with crucible.record(self.output, iterations=1, warmup=0, end_of_iteration="step") as recording:
            other.step(*batch())
            crucible.step()
        ends.join()
        self.assertEqual(recording.summary["iterations"], 1)
        twins.settle()

    def test_random_numbers_of_another_thread_during_a_check(self):
        """A function that draws nothing is compared without them, and nobody's draws are made twice."""
        twins = Twins(self, check_every=1).settle()
        original, drawn = twins.step._called, []

        def with_another(*args):
            on_a_thread(lambda: drawn.append(torch.rand(1).item()))
            return original(*args)

        stays = threading.Event()
        other = threading.Thread(target=stays.wait)
        other.start()
        twins.step._called = with_another
        for _ in range(4):
            x, y = batch()
            self.assert_close(twins.step(x, y), twins.eager.step(x, y))
        stays.set()
        other.join()
        twins.step._called = original
        report = twins.step.report()
        self.assertEqual((report.mismatches, report.tier), ([], "compiled"), str(report))
        self.assertEqual(len(set(drawn)), len(drawn))
        self.assertGreater(len(drawn), 0)

    def test_random_numbers_of_another_thread_during_a_check_of_what_draws(self):
        """Nothing is known of such a check; after some of them the function is eager, and nothing is called wrong."""
        from crucible_torch.accelerate.checking import MOST_DISTURBED
        twins = Twins(self, make=lambda: train_step(dropout=0.5), check_every=1).settle()
        original = twins.step._called

        def with_another(*args):
            on_a_thread(lambda: torch.rand(7))
            return original(*args)

        stays = threading.Event()
        other = threading.Thread(target=stays.wait)
        other.start()
        twins.step._called = with_another
        for _ in range(MOST_DISTURBED + 2):
            twins.step(*batch())
        stays.set()
        other.join()
        report = twins.step.report()
        self.assertEqual((report.mismatches, report.tier), ([], "eager"), str(report))
        self.assertIn("another thread draws random numbers", str(report))


class WhoseTurn(unittest.TestCase):
    def test_one_is_alone(self):
        turns = Turns()
        self.assertTrue(turns.enter())
        self.assertTrue(turns.take(), "its own call is not in its way")
        self.assertTrue(turns.enter())
        self.assertFalse(on_a_thread(turns.enter))
        self.assertFalse(on_a_thread(turns.take))
        turns.leave()
        self.assertTrue(on_a_thread(lambda: (turns.enter(), turns.take(), turns.leave())[1]))

    def test_it_waits_for_those_that_are_inside(self):
        turns, inside, go_on = Turns(), threading.Event(), threading.Event()

        def call():
            turns.enter()
            inside.set()
            go_on.wait(SECONDS)
            turns.leave()

        thread = threading.Thread(target=call)
        thread.start()
        inside.wait(SECONDS)
        turns._patience = 0.01
        self.assertFalse(turns.take())
        self.assertTrue(on_a_thread(lambda: (turns.enter(), turns.leave())[0]), "who gave up holds nobody up")
        turns._patience = SECONDS
        threading.Timer(0.1, go_on.set).start()
        self.assertTrue(turns.take())
        turns.give()
        thread.join()

    def test_many_threads(self):
        """Never is one alone while another is inside."""
        turns, inside, wrong, start = Turns(), set(), [], threading.Barrier(6)

        def call(number):
            start.wait()
            for at in range(400):
                if not turns.enter():
                    continue
                inside.add(number)
                if at % 8 == number and turns.take():
                    time.sleep(0)
                    wrong.extend(inside - {number})
                inside.discard(number)
                turns.leave()

        threads = [threading.Thread(target=call, args=(number, )) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()
