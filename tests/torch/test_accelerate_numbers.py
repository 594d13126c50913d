"""Numbers among the arguments of accelerated functions: one variant for all of them where ops alone use them, one for
each value where they decide more; what eager does either way."""

import math
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["CRUCIBLE_BUILD"], "python"))

import torch
from torch import nn
from torch.nn import functional as F

import crucible
from crucible_torch.accelerate import bytecode

RATES = [0.1, 0.09, 0.07, 0.11, 0.05, 0.02, 0.3, 0.25, 0.15, 0.12, 0.2, 0.21, 0.01, 0.4, 0.35]
TABLE = {0: 1.0, 1: 2.0}


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def data(seed):
    torch.manual_seed(seed)
    return torch.randn(6, 8), torch.randint(0, 4, (6, ))


def trained_by(change):
    """A step whose loss is changed by a number: (step, model)."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y, number):
        optimizer.zero_grad()
        logits = model(x)
        loss = change(F.cross_entropy(logits, y), logits, number)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step.optimizer = optimizer
    return step, model


def states(model, step):
    """All that a step writes."""
    kept = [] if not hasattr(step, "optimizer") else [
        value for state in step.optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    return [*model.state_dict().values(), *kept]


def by_hand():
    """Gradient descent written out, the rate an argument."""
    model = net()
    parameters = list(model.parameters())

    def step(x, y, lr):
        loss = F.cross_entropy(model(x), y)
        grads = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for parameter, grad in zip(parameters, grads):
                parameter -= lr * grad
        return loss.detach()

    return step, model


def clipped():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y, number):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), number)
        optimizer.step()
        return loss.detach()

    return step, model


def helped():
    """Through functions of the user's own, a closure, a default and a name."""

    def weigh(loss, by, scale=1.0):
        return loss * (by * scale)

    def change(loss, logits, number, more=None):
        if more is None:
            more = number
        return weigh(loss, by=more) + (lambda z: z * number)(logits.square().mean())

    return trained_by(change)


OPERANDS = {
    "a rate": by_hand,
    "a factor": lambda: trained_by(lambda loss, logits, n: loss * n),
    "a factor and a rest": lambda: trained_by(lambda loss, logits, n: loss * n + logits.square().mean() * (1 - n)),
    "a quotient": lambda: trained_by(lambda loss, logits, n: loss + (logits / (n + 1.0)).square().mean()),
    "a number alone": lambda: trained_by(lambda loss, logits, n: (loss + n) * 2),
    "alpha": lambda: trained_by(lambda loss, logits, n: torch.add(loss, logits.square().mean(), alpha=n)),
    "lerp": lambda: trained_by(lambda loss, logits, n: torch.lerp(loss, logits.square().mean(), n)),
    "a power": lambda: trained_by(lambda loss, logits, n: loss * 0.9**n),
    "made real": lambda: trained_by(lambda loss, logits, n: loss * float(n)),
    "clipping": clipped,
    "helped": helped,
}


def stored():
    seen = []

    def change(loss, logits, n):
        seen.append(n)
        return loss * n

    step, model = trained_by(change)
    step.seen = seen
    return step, model


DECIDING = {  # (function of loss, logits and number, numbers)
    "branch": (lambda loss, logits, n: loss * n if n > 0.1 else loss, RATES),
    "truth": (lambda loss, logits, n: loss * n if n else loss + 1, [1, 2, 3, 4, 0, 5, 0, 6, 7, 8]),
    "conditional factor": (lambda loss, logits, n: loss * (n > 0.1), RATES),
    "index": (lambda loss, logits, n: loss + logits[n].sum(), [0, 1, 2, 3, 4, 5, 0, 1, 2, 3]),
    "slice": (lambda loss, logits, n: loss + logits[:n].mean(), [1, 2, 3, 4, 5, 6, 1, 2, 3]),
    "size": (lambda loss, logits, n: loss + torch.ones(n).sum() * logits.mean(), [1, 2, 3, 4, 5, 6, 1, 2, 3]),
    "dimension": (lambda loss, logits, n: loss + logits.sum(n).square().mean(), [0, 1, 0, 1, -1, 0, -2, 1]),
    "count": (lambda loss, logits, n: loss + sum(logits.mean() for _ in range(n)), [1, 2, 3, 4, 1, 2, 3]),
    "repeated": (lambda loss, logits, n: loss + torch.stack([logits.mean()] * n).sum(), [1, 2, 3, 4, 1, 2, 3]),
    "whole part": (lambda loss, logits, n: loss * int(n * 10), RATES),
    "rounded": (lambda loss, logits, n: loss * round(n, 1), RATES),
    "remainder": (lambda loss, logits, n: loss * (n % 7 + 1), list(range(20))),
    "whole quotient": (lambda loss, logits, n: loss * (n // 4 + 1), list(range(20))),
    "shifted": (lambda loss, logits, n: loss * (n >> 2), list(range(20))),
    "least": (lambda loss, logits, n: loss * min(n, 8), list(range(20))),
    "largest": (lambda loss, logits, n: loss * max(n, 0.1), RATES),
    "absolute": (lambda loss, logits, n: loss * abs(n), [5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5]),
    "table": (lambda loss, logits, n: loss * TABLE[n], [0, 1, 0, 1, 1, 0, 0]),
    "text": (lambda loss, logits, n: loss * len(f"{n}"), [1, 2, 3, 4, 10, 11, 100, 5]),
    "exponent": (lambda loss, logits, n: loss + (logits.relu()**n).mean(), [3, 2, 4, 1, 0, 3, 2, 0]),
    "dropped": (lambda loss, logits, n: loss + F.dropout(logits, n).square().mean(), [0.1, 0.2, 0.3, 0.0, 0.5, 0.9]),
    "smoothed": (lambda loss, logits, n: loss + F.cross_entropy(logits, torch.zeros(6, dtype=torch.int64),
                                                                label_smoothing=n), [0.1, 0.2, 0.3, 0.0, 0.1, 0.0]),
    "a tensor of it": (lambda loss, logits, n: loss * torch.tensor(n), RATES),
    "floor": (lambda loss, logits, n: loss * math.floor(n * 10), RATES),
    "seed of a list": (lambda loss, logits, n: loss * [n, 1.0][0], RATES),
    "clamped": (lambda loss, logits, n: loss + logits.clamp(max=n).mean(), RATES),
}
SPECIAL = [0.5, 0.25, 2.0, 1.0, 0.0, -0.0, -1.0, 3, 2, 1, 0, True, False, 1e30, math.inf, -math.inf, math.nan, 2**40,
           -2**70, 0.5, 1e300, 5e-324, 0.75, 0.8, 0.9]


def of_special(x, n):
    return x * n, x + n, n - x, x / n if n else x


def bits(tensor):
    return tensor.contiguous().view(torch.uint8).tolist() if tensor.dim() else tensor[None].view(torch.uint8).tolist()


class Numbers(unittest.TestCase):

    def run_step(self, step, call, number, how):
        x, y = data(call)
        torch.manual_seed(1000 + call)
        try:
            return how(step, x, y, number).clone()
        except Exception as error:
            return type(error)

    def compare(self, make, numbers, how=lambda step, x, y, n: step(x, y, n)):
        """Against an eager twin, from the same start in each call."""
        eager, their_model = make()
        step, my_model = make()
        fast = crucible.accelerate(step)
        for call, number in enumerate(numbers):
            theirs, mine = self.run_step(eager, call, number, how), self.run_step(fast, call, number, how)
            report = fast.report()
            if isinstance(theirs, type):
                self.assertEqual(mine, theirs, f"call {call}\n{report}")
                continue
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5, equal_nan=True,
                                       msg=f"call {call}: {number!r} {mine}, {theirs}\n{report}")
            for a, b in zip(states(my_model, step), states(their_model, eager)):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, equal_nan=True, msg=f"call {call}\n{report}")
                with torch.no_grad():
                    a.copy_(b)
            fast.wait(60)
        self.assertFalse(fast.report().mismatches, str(fast.report()))
        return fast.report()

    def test_operands_are_one_variant(self):
        for name, make in OPERANDS.items():
            with self.subTest(name):
                report = self.compare(make, RATES)
                self.assertEqual([each.tier for each in report.variants], ["compiled"], str(report))
                self.assertGreaterEqual(report.compiled_calls, len(RATES) - 6, str(report))

    def test_by_name_and_whole(self):
        report = self.compare(OPERANDS["a factor"], RATES, how=lambda step, x, y, n: step(x, y, number=n))
        self.assertGreaterEqual(report.compiled_calls, len(RATES) - 6, str(report))
        report = self.compare(OPERANDS["a factor and a rest"], range(1, 16))
        self.assertGreaterEqual(report.compiled_calls, 9, str(report))
        self.assertEqual(len(report.variants), 1, str(report))

    def test_one_that_stood_still_for_long(self):
        numbers = [0.1] * 8 + [0.2] * 8 + RATES
        report = self.compare(by_hand, numbers)
        self.assertGreaterEqual(report.compiled_calls, 4 + 4 + len(RATES) - 6, str(report))
        self.assertIn("compiled", [each.tier for each in report.variants], str(report))

    def test_two_that_take_turns_in_blocks(self):
        numbers = ([0.1] * 8 + [0.2] * 8) * 3
        report = self.compare(by_hand, numbers)
        self.assertGreaterEqual(report.compiled_calls, 28, str(report))

    def test_deciding_ones_are_compared(self):
        for name, (change, numbers) in DECIDING.items():
            with self.subTest(name):
                # each number comes back until it is compiled by itself, then others follow
                self.compare(lambda: trained_by(change), [*numbers, *([numbers[0]] * 7), *numbers, *numbers])

    def test_a_deciding_one_is_seen_by_its_code(self):
        step, _ = trained_by(lambda loss, logits, n: loss)
        x, y = data(0)
        for name, (change, numbers) in DECIDING.items():
            with self.subTest(name):
                _, reach = bytecode.follow(trained_by(change)[0], (x, y, numbers[0]))
                self.assertIn("argument number", reach.deciding)
        for name, make in OPERANDS.items():
            with self.subTest(name):
                _, reach = bytecode.follow(make()[0], (x, y, 0.1))
                self.assertEqual(reach.deciding, set())
                self.assertEqual(reach.operands, {"argument lr" if name == "a rate" else "argument number"})

    def test_what_is_returned_or_stored(self):

        def make():
            def step(x, y, number):
                return x * number, number
            return step, nn.Linear(1, 1)

        step = crucible.accelerate(make()[0])
        for call, number in enumerate([*RATES, *([0.1] * 6), *RATES]):
            x, y = data(call)
            result, same = step(x, y, number)
            step.wait(60)
            self.assertEqual(same, number)
            self.assertEqual(bits(result), bits(x * number))
        _, reach = bytecode.follow(make()[0], (x, y, 0.1))
        self.assertIn("argument number", reach.deciding)
        report = self.compare(stored, RATES)
        self.assertEqual(report.compiled_calls, 0)

    def test_numbers_of_every_kind(self):
        step = crucible.accelerate(of_special)
        for call, number in enumerate([*SPECIAL, *SPECIAL, *RATES, *SPECIAL]):
            x = data(call)[0]
            try:
                expected = of_special(x, number)
            except Exception as error:
                self.assertRaises(type(error), step, x, number)
                continue
            for a, b in zip(step(x, number), expected):
                self.assertEqual(bits(a), bits(b), f"{number!r}\n{step.report()}")
                self.assertEqual(a.dtype, b.dtype)
            step.wait(60)

    def test_special_operands(self):

        def scaled(x, n):
            return x * n, x + n, n - x

        step = crucible.accelerate(scaled)
        for call, number in enumerate([*RATES, *SPECIAL, *RATES, *SPECIAL]):
            x = data(call)[0]
            try:
                expected = scaled(x, number)
            except Exception as error:
                self.assertRaises(type(error), step, x, number)
                continue
            for a, b in zip(step(x, number), expected):
                torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, msg=f"{number!r}\n{step.report()}")
                self.assertEqual((a == 0).logical_and(a.signbit()).tolist(), (b == 0).logical_and(b.signbit()).tolist(),
                                 f"{number!r}")
                self.assertEqual(a.dtype, b.dtype)
            step.wait(60)
        report = step.report()
        self.assertGreaterEqual(report.compiled_calls, 30, str(report))
        self.assertFalse(report.mismatches, str(report))

    def test_small_whole_numbers_overflow_as_in_eager(self):

        def scaled(x, n):
            return x * n

        for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16, torch.bool):
            step = crucible.accelerate(scaled)
            for number in [1, 2, 3, 4, 5, 6, 7, 300, 8, -1, 70000, 2**33, 9, 2, 1 << 62, 5]:
                x = torch.arange(6).to(dtype)
                try:
                    expected = scaled(x, number)
                except Exception as error:
                    self.assertRaises(type(error), step, x, number)
                    continue
                result = step(x, number)
                self.assertEqual(result.dtype, expected.dtype)
                self.assertTrue(torch.equal(result, expected), f"{dtype} {number} {result} {expected}\n{step.report()}")
                step.wait(60)

    def test_an_argument_that_nothing_uses(self):
        report = self.compare(lambda: trained_by(lambda loss, logits, n: loss), list(range(20)))
        self.assertGreaterEqual(report.compiled_calls, 12, str(report))

    def test_two_numbers(self):
        model = net()

        def step(x, a, b):
            return (model(x) * a + b * x.sum() * (a * b)).detach()

        fast = crucible.accelerate(step)
        for call in range(20):
            x = data(call)[0]
            a, b = RATES[call % 15], RATES[(7 * call + 3) % 15]
            torch.testing.assert_close(fast(x, a, b), step(x, a, b), rtol=1e-5, atol=1e-6)
            fast.wait(60)
        self.assertGreaterEqual(fast.report().compiled_calls, 12, str(fast.report()))

    def test_two_numbers_that_were_equal(self):

        def step(x, a, b):
            return x * a, x * b

        fast = crucible.accelerate(step)
        for call in range(40):
            x = data(call)[0]
            a = RATES[call % 15]
            b = a if call < 20 else RATES[(7 * call + 3) % 15]
            for mine, theirs in zip(fast(x, a, b), step(x, a, b)):
                self.assertEqual(bits(mine), bits(theirs), f"call {call}\n{fast.report()}")
            fast.wait(60)
        self.assertFalse(fast.report().mismatches)


if __name__ == "__main__":
    unittest.main()
