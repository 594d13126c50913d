"""crucible.accelerate on functions whose Python reads tensors' values: numbers that are returned, and numbers that
decide what runs. Each beside an eager twin, whose results, states, gradients and random numbers are the same."""

import math
import types
import unittest

from accelerated import AccelerateTest, SECONDS

import crucible
import torch
from torch import nn
from torch.nn import functional as F

CALLS = 64


def net(*middle):
    return nn.Sequential(nn.Linear(8, 16), *(middle or (nn.ReLU(), )), nn.Linear(16, 4))


def batch(call, scale=1.0):
    """By the number of the call. `scale`: what x is multiplied by; NaN for a batch that is broken."""
    generator = torch.Generator().manual_seed(call)
    return torch.randn(6, 8, generator=generator) * scale, torch.randint(0, 4, (6, ), generator=generator)


def world(body, *middle, optimizer=torch.optim.SGD, scaler=None, **options):
    """A net, its optimizer and a step that is made by `body` of both."""
    made = types.SimpleNamespace(net=net(*middle))
    made.optimizer = optimizer(made.net.parameters(), **(options or {"lr": 0.05}))
    made.scaler = torch.amp.GradScaler("cpu", **scaler) if scaler is not None else None
    made.step = body(made.net, made.optimizer, made.scaler) if scaler is not None else body(made.net, made.optimizer)
    return made


def returning(answer):
    """A whole step that returns `answer(output, loss, y)`."""

    def body(model, optimizer):

        def step(x, y):
            optimizer.zero_grad()
            output = model(x)
            loss = F.cross_entropy(output, y)
            loss.backward()
            optimizer.step()
            return answer(output.detach(), loss.detach(), y)

        return step

    return body


def hits(output, y):
    return (output.argmax(1) == y).sum()


class ValuesTest(AccelerateTest):

    def twins(self, make, **options):
        torch.manual_seed(1)
        eager = make()
        torch.manual_seed(1)
        fast = make()
        fast.step = crucible.accelerate(fast.step, **options)
        torch.manual_seed(2)
        return eager, fast

    def call(self, one, *args):
        try:
            return one.step(*args)
        except Exception as error:
            return type(error), str(error)

    def compare(self, eager, fast, *args):
        state = torch.get_rng_state()
        expected = self.call(eager, *args)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        got = self.call(fast, *args)
        self.assertTrue(torch.equal(after, torch.get_rng_state()), "other random numbers were drawn")
        self.assert_same(got, expected)
        self.assert_same(fast.net.state_dict(), eager.net.state_dict())
        self.assert_same(fast.optimizer.state_dict()["state"], eager.optimizer.state_dict()["state"])
        self.assert_same([p.grad for p in fast.net.parameters()], [p.grad for p in eager.net.parameters()])
        if eager.scaler is not None:
            self.assertEqual(fast.scaler.state_dict(), eager.scaler.state_dict())
        return got

    def assert_same(self, got, expected):
        mine, spec = torch.utils._pytree.tree_flatten(got)
        theirs, other = torch.utils._pytree.tree_flatten(expected)
        self.assertEqual(spec, other)
        for a, b in zip(mine, theirs):
            self.assertIs(type(a), type(b))
            if isinstance(b, float):
                a, b = torch.tensor(a), torch.tensor(b)
            if isinstance(b, torch.Tensor):
                self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
                finite = b.detach().double()[b.isfinite()]
                allowed = 2e-4 * float(finite.abs().max()) + 1e-6 if finite.numel() else 0.0
                torch.testing.assert_close(a, b, rtol=0, atol=allowed if b.dtype.is_floating_point else 0,
                                           equal_nan=True)
            else:
                self.assertEqual(a, b)

    def drive(self, make, compiled, batches=batch, calls=CALLS, **options):
        """All calls beside their twins; at least `compiled` of them are compiled."""
        eager, fast = self.twins(make, **options)
        results = []
        for call in range(calls):
            results.append(self.compare(eager, fast, *batches(call)))
            self.assertTrue(fast.step.wait(SECONDS))
        report = fast.step.report()
        self.assertEqual(report.mismatches, [])
        self.assertGreaterEqual(report.compiled_calls, compiled, f"{report}")
        return fast.step, results


class Returned(ValuesTest):
    """Numbers that are only returned."""

    def test_the_forms(self):
        forms = {
            "item": lambda o, l, y: l.item(),
            "int": lambda o, l, y: int(hits(o, y)),
            "reads": lambda o, l, y: {
                "loss": l.item(), "acc": (o.argmax(1) == y).float().mean().item(), "float": float(l),
                "bool": bool(torch.isfinite(l)), "lists": (o.norm(dim=1).tolist(), o[:2].tolist(), l.tolist()),
                "truths": (l.is_nonzero(), o.argmax(1).tolist(), (o > 0).all().item()),
                "narrow": (l.bfloat16().item(), l.double().item(), "text", None, 3), "tensors": [l, (o.mean(), )]},
            "numbers": lambda o, l, y: (
                l.item() * y.size(0) + 3 - 1 / y.numel(), round(l.item(), 4), round(float(l), 2), -abs(l.item()),
                int(hits(o, y)) % 2, int(hits(o, y)) / y.numel() * 100.0, max(o.tolist()[0]), min(0.5, l.item()),
                max(l.item(), 0.1), l.item() > 0.5, l.item() == 0.0, hits(o, y).item() >= 2,
                sum(o[0].tolist()) / len(o[0].tolist()),
                (lambda first, *rest: {"first": first, "rest": rest})(*o[0].tolist())),
            "numbers that may raise": lambda o, l, y: {
                "perplexity": math.exp(l.item()), "log": math.log1p(l), "square": l.item() ** 2, "whole": int(l)},
        }
        for name, answer in forms.items():
            with self.subTest(name):
                self.drive(lambda: world(returning(answer)), CALLS - 6)

    def test_micro_batches(self):

        def body(model, optimizer):

            def step(x, y):
                optimizer.zero_grad()
                total, correct = 0.0, 0
                for half in (slice(0, 2), slice(2, 4), slice(4, 6)):
                    output = model(x[half])
                    loss = F.cross_entropy(output, y[half]) / 3
                    loss.backward()
                    total += loss.item() * 2
                    correct += int((output.argmax(1) == y[half]).sum())
                optimizer.step()
                return {"loss": total, "accuracy": correct / y.numel()}

            return step

        self.drive(lambda: world(body), CALLS - 6)

    def test_the_answer_is_the_callers(self):
        """No number that is followed comes out, neither of observed calls nor of others."""
        _, results = self.drive(lambda: world(returning(lambda o, l, y: {"a": [l.item()], "b": (hits(o, y).item(), )})),
                                CALLS - 6)
        for result in results:
            self.assertEqual([type(result["a"][0]), type(result["b"][0])], [float, int])

    def test_functions_are_what_they_were(self):
        """Observed calls put others in their places for a while."""
        before = (torch.Tensor.item, math.isnan, helper.__code__, torch.Tensor.__bool__, torch.Tensor.__float__)
        self.drive(lambda: world(returning(lambda o, l, y: helper(l))), CALLS - 6)
        self.assertEqual(before, (torch.Tensor.item, math.isnan, helper.__code__, torch.Tensor.__bool__,
                                  torch.Tensor.__float__))
        self.assertIs(helper.__code__, before[2])

    def test_what_cannot_be_followed(self):
        refused = {
            "text": (lambda o, l, y: f"{l.item():.3f}", "makes text of a tensor's value"),
            "float without its name": (lambda o, l, y: list(map(float, o[0])), "use .item()"),
            "a long list": (lambda o, l, y: o.repeat(64, 1).tolist(), "return the tensor"),
            "another kind of number": (lambda o, l, y: abs(1j * l.item()), "computes with"),
            "an index": (lambda o, l, y: [1, 2, 3, 4][int(hits(o, y)) % 4], "picks an element by a number"),
        }
        for name, (answer, says) in refused.items():
            with self.subTest(name):
                self.end_observations()
                step, _ = self.drive(lambda: world(returning(answer)), 0, calls=12)
                report = str(step.report())
                self.assertEqual(step.report().compiled_calls, 0)
                self.assertIn(says, report)
                self.assertIn("test_accelerate_values.py:", report)

    def test_a_number_that_is_wrong_is_found(self):
        """A checked call compares numbers too."""
        eager, fast = self.twins(lambda: world(returning(lambda o, l, y: l.item())))
        for call in range(CALLS):
            self.compare(eager, fast, *batch(call))
            fast.step.wait(SECONDS)
        variant = fast.step._every_variant()[0]
        variant.numbers.entries[0] = ("constant", 0.25)
        variant.next_check = 0
        self.compare(eager, fast, *batch(CALLS))
        self.assertIn("result 0 differs", str(fast.step.report().mismatches))


def helper(loss):
    return {"nan": math.isnan(loss), "value": float(loss)}


def skipping(condition, before_backward=True):
    """A step that returns None without training where `condition(loss)` holds."""

    def body(model, optimizer):

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            if before_backward and condition(loss):
                return None
            loss.backward()
            if not before_backward and condition(loss):
                return None
            optimizer.step()
            return loss.detach()

        return step

    return body


def now_and_then(call):
    return batch(call, math.nan if call % 7 == 6 else 1.0)


class Deciding(ValuesTest):
    """Numbers that decide what runs."""

    def test_steps_that_are_skipped(self):
        conditions = {
            "isnan": lambda loss: torch.isnan(loss),
            "math.isnan": lambda loss: math.isnan(loss.item()),
            "not isfinite": lambda loss: not math.isfinite(loss),
            "not torch.isfinite": lambda loss: not torch.isfinite(loss).all(),
            "itself": lambda loss: loss.item() != loss.item(),
        }
        for at, (name, condition) in enumerate(conditions.items()):
            with self.subTest(name):
                step, _ = self.drive(lambda: world(skipping(condition, at % 2 == 0)), 40, now_and_then)
                self.assertGreater(len([v for v in step.report().variants if v.compiled_calls]), 1)

    def test_states_that_are_written_before_the_decision(self):
        """Statistics of batches, random numbers and momentum are eager's when a call turns out to be another one."""

        def body(model, optimizer):

            def step(x, y):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                if loss + x.mean() > 5:  # known when everything else is done
                    return None
                optimizer.step()
                return loss.detach()

            return step

        step, _ = self.drive(lambda: world(body, nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), lr=0.01, momentum=0.9),
                             40, lambda call: (batch(call)[0] + 9.0 * (call % 7 == 6), batch(call)[1]))
        self.assertGreater(len([v for v in step.report().variants if v.compiled_calls]), 1, f"{step.report()}")

    def test_gradients_that_a_call_begins_with(self):

        def body(model, optimizer):

            def step(x, y):
                loss = F.cross_entropy(model(x), y)
                if loss.item() > 1.6:
                    return loss.item()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                return loss.item()

            return step

        self.drive(lambda: world(body, lr=0.01), 20, lambda call: batch(call, 4.0 if call % 5 == 4 else 1.0))

    def test_gradients_that_are_written_in_vain(self):
        """What is decided at first is looked at with what is decided last: gradients are there by then."""

        def body(model, optimizer):

            def step(x, y):
                if x.mean() > 2:
                    return None
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                if not torch.isfinite(nn.utils.clip_grad_norm_(model.parameters(), 1.0)):
                    return None
                optimizer.step()
                return loss.item()

            return step

        eager, fast = self.twins(lambda: world(body))
        for call in range(CALLS):
            is_vain = call % 7 == 6 and call > 9
            x, y = batch(call)
            for one in (eager, fast):
                one.step(x + 4.0 * is_vain, y)
            self.assertTrue(fast.step.wait(SECONDS))
            if is_vain:  # nobody has looked at the gradients before, so that they are written where they lie
                self.assert_same([p.grad for p in fast.net.parameters()], [p.grad for p in eager.net.parameters()])
        self.assertGreater(fast.step.report().compiled_calls, 40, f"{fast.step.report()}")

    def test_a_loop(self):

        def body(model, optimizer):

            def step(x, y):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                scale, steps = x.abs().max(), 0
                while scale > 1.0:
                    scale, steps = scale / 2, steps + 1
                return scale.item(), steps

            return step

        self.drive(lambda: world(body), 20, lambda call: batch(call, 9.0 if call % 9 == 8 else 1.0))

    def test_a_condition_that_a_rounding_decides(self):
        """A check in which eager goes the other way by a rounding says nothing against the compiled call."""
        from crucible_torch.accelerate.tape import Formulas, Tape

        def formulas(number):
            tape = Tape()
            value = tape.number(number, tape.add("read", 0, 0))
            tape.tensors.append(torch.tensor(number))
            bool(value * 2 > 3.0)
            return Formulas(tape)

        for number, close in ((1.50001, True), (1.49999, True), (1.6, False), (1.4, False), (math.nan, False)):
            tensor = torch.tensor(number)
            self.assertTrue(formulas(number).decide([tensor]))
            self.assertEqual(formulas(number).is_close([tensor], [1e-4]), close, number)
        self.assertFalse(formulas(1.6).decide([torch.tensor(1.4)]))

    def test_two_conditions(self):

        def body(model, optimizer):

            def step(x, y):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                norm = nn.utils.clip_grad_norm_(model.parameters(), 1e9)
                if norm.item() > 5.0 and loss.item() > 0.1:
                    optimizer.zero_grad()
                    return {"norm": norm.item(), "skipped": True}
                optimizer.step()
                return {"norm": norm.item()}

            return step

        self.drive(lambda: world(body), 30, lambda call: batch(call, 6.0 if call % 6 == 5 else 1.0))

    def test_errors(self):
        """Eager raises them, with what it has done until then."""

        def asserting(model, optimizer):

            def step(x, y):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                assert torch.isfinite(loss), f"loss is {loss.item()}"
                loss.backward()
                optimizer.step()
                return loss.item()

            return step

        def clipping(model, optimizer):

            def step(x, y):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
                optimizer.step()
                return loss.item()

            return step

        def dividing(model, optimizer):

            def step(x, y):
                optimizer.zero_grad()
                output = model(x)
                F.cross_entropy(output, y).backward()
                optimizer.step()
                return 1 / int((output.argmax(1) == y).sum() * (x.mean() < 0.5))

            return step

        for body in (asserting, clipping):
            with self.subTest(body.__name__):
                self.drive(lambda: world(body), 40, now_and_then)
        with self.subTest("dividing"):
            self.drive(lambda: world(dividing), 10, lambda call: (batch(call)[0] + (call % 5 == 4), batch(call)[1]))

    def test_errors_that_are_caught(self):
        """That Python raises decides too."""

        def body(model, optimizer):

            def step(x, y):
                optimizer.zero_grad()
                output = model(x)
                loss = F.cross_entropy(output, y)
                loss.backward()
                optimizer.step()
                found = (x[0, 0] > 5).sum()
                try:
                    share = 1 / int(found)
                except ZeroDivisionError:
                    share = -1.0
                try:
                    whole = int(x.sum())
                except ValueError:
                    whole = None
                return share, whole

            return step

        def some(call):
            x, y = batch(call)
            x[0, 0] = 9.0 if call % 7 == 6 else math.nan if call % 9 == 8 else 0.0
            return x, y

        self.drive(lambda: world(body), 30, some)

    def test_an_interrupt(self):
        """What a call that is interrupted has written before it was decided is put back, or the call is made."""

        def body(model, optimizer):

            def step(x, y):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                if not math.isfinite(loss.item()):
                    return None
                optimizer.step()
                return loss.item()

            return step

        made = world(body, nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), lr=0.01)
        made.step = crucible.accelerate(made.step)
        self.drive_one(made.step)
        variant = made.step._every_variant()[0]
        decide, variant.next_check = variant.numbers.decide, variant.compiled_calls + 1000
        states = [*made.net.state_dict().values()]
        for way in ("before", "after"):
            before = [*map(torch.clone, states), torch.get_rng_state()]

            def interrupted(tensors, way=way):
                if way == "after":
                    decide(tensors)
                raise KeyboardInterrupt

            variant.numbers.decide = interrupted
            with self.assertRaises(KeyboardInterrupt):
                made.step(*batch(0))
            for a, b in zip([*states, torch.get_rng_state()], before):
                self.assertTrue(torch.equal(a, b))
        variant.numbers.decide = decide
        compiled = variant.compiled_calls
        made.step(*batch(0))
        self.assertEqual(variant.compiled_calls, compiled + 1)

    def drive_one(self, step):
        for call in range(16):
            step(*batch(call))
            self.assertTrue(step.wait(SECONDS))
        self.assertGreater(step.report().compiled_calls, 4, f"{step.report()}")

    def test_another_way_each_time(self):
        """More ways than variants: eager in the end, and right."""

        def body(model, optimizer):

            def step(x, y):
                total = 0
                for value in x[0].tolist():
                    if value > 0:
                        total += 1
                return total, x.sum()

            return step

        step, _ = self.drive(lambda: world(body), 0, max_variants=2)
        self.assertLess(len(step.report().variants), 3)


def scaled(model, optimizer, scaler, unscale=False, update=True):

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        if update:
            scaler.update()
        return loss.detach(), scaler.get_scale()

    return step


def overflowing(call):
    return batch(call, math.inf if call % 8 == 7 else 1.0)


class Scalers(ValuesTest):
    """torch.amp.GradScaler: steps are left out where gradients overflow."""

    def test_a_scaler(self):
        options = {"init_scale": 1024.0, "growth_interval": 5}
        for unscale in (False, True):
            for optimizer, own in ((torch.optim.SGD, {"lr": 0.05, "momentum": 0.9}), (torch.optim.AdamW, {"lr": 0.01})):
                with self.subTest(optimizer.__name__, unscale=unscale):
                    body = lambda *a: scaled(*a, unscale=unscale)
                    _, results = self.drive(lambda: world(body, optimizer=optimizer, scaler=options, **own), 40,
                                            overflowing)
                    self.assertGreater(len({scale for _, scale in results}), 1)

    def test_a_scaler_that_is_updated_outside(self):
        eager, fast = self.twins(lambda: world(lambda *a: scaled(*a, update=False), scaler={"init_scale": 64.0}))
        for call in range(12):
            expected, got = eager.step(*overflowing(call)), fast.step(*overflowing(call))
            self.assert_same(got, expected)
            eager.scaler.update()
            fast.scaler.update()
            fast.step.wait(SECONDS)
            self.assertEqual(fast.scaler.state_dict(), eager.scaler.state_dict())
        self.assertEqual(fast.step.report().compiled_calls, 0)
        self.assertIn("scaler.update()", str(fast.step.report()))

    def test_a_scaler_that_is_off(self):
        self.drive(lambda: world(lambda *a: scaled(*a), scaler={"enabled": False}), CALLS - 6)


if __name__ == "__main__":
    unittest.main()
