"""What roundings explain where a checked call of crucible.accelerate differs from eager by more than is usual: each case
with an arithmetic that rounds otherwise, which is no mistake, and with planted mistakes, which are."""

import contextlib
import unittest
import unittest.mock

from accelerated import SECONDS, AccelerateTest, torch
from torch.nn import functional as F

import crucible

from crucible_torch.accelerate import checking, judge, sensitivity
from crucible_torch.accelerate.outcome import Outcome, differences, nothing
from crucible_torch.accelerate.sensitivity import LEAN_ELSE, Moves, Rough, Roundings

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class Moving(AccelerateTest):

    def test_by_some_roundings_of_the_type(self):
        for dtype in FLOATS:
            x = torch.rand(5000).to(dtype).add_(0.25)
            step = sensitivity.STEP.get(dtype, sensitivity.NARROW_STEP) * torch.finfo(dtype).eps
            moved = Roundings(3).moved(x)
            share = (moved.double() / x.double() - 1) / step
            self.assertLess(share.abs().max(), 1.6)
            for direction in (share < -0.4, share > 0.4):
                self.assertAlmostEqual(direction.double().mean().item(), 0.25, delta=0.05)
            self.assertAlmostEqual((moved == x).double().mean().item(), 0.5, delta=0.05)

    def test_zeros_whole_numbers_and_what_is_not_finite_stay(self):
        for dtype in FLOATS:
            most = torch.finfo(dtype).max
            x = torch.tensor([0.0, 1.0, -3.0, 48.0, float("inf"), -float("inf"), most, -most], dtype=dtype).repeat(50)
            moved = Roundings(0).moved(x)
            self.assertTrue(moved.isfinite().equal(x.isfinite()))
            small = (x.abs() < 1e4) | x.isinf()
            self.assertTrue(torch.equal(moved[small], x[small]), dtype)
        large = torch.full((100, ), 192.0, dtype=torch.bfloat16)  # it has no others of that size
        self.assertFalse(torch.equal(Roundings(0).moved(large), large))
        self.assertTrue(Roundings(0).moved(torch.full((9, ), float("nan"))).isnan().all())
        whole = torch.arange(5)
        self.assertIs(Roundings(0).moved(whole), whole)

    def test_each_time_by_others_and_the_same_from_the_same_seed(self):
        x, first, second = torch.rand(100), Roundings(1), Roundings(1)
        moved = first.moved(x)
        self.assertTrue(torch.equal(moved, second.moved(x)))
        self.assertFalse(torch.equal(moved, first.moved(x)))
        self.assertFalse(torch.equal(moved, Roundings(2).moved(x)))

    def test_layouts(self):
        x = torch.rand(6, 8).t()
        self.assertEqual(Roundings(0).moved(x).stride(), x.stride())
        one = torch.tensor([0.3])
        Roundings(0).move(one.expand(40))
        self.assertEqual(one.item(), torch.tensor(0.3).item())
        whole = torch.rand(8, 8)
        before = whole.clone()
        Roundings(0).move(whole[:, ::2])
        self.assertTrue(torch.equal(whole[:, 1::2], before[:, 1::2]))
        self.assertFalse(torch.equal(whole[:, ::2], before[:, ::2]))


class Results(AccelerateTest):
    """Which results of ops are moved."""

    def moves(self, function, *given):
        expected = function(*(each.clone() for each in given))
        with Rough(Roundings(0)):
            got = function(*given)
        return not torch.equal(got, expected)

    def test_what_is_computed_is_moved(self):
        x, w = torch.rand(40, 40), torch.rand(40, 40)
        for function in (lambda a, b: a @ b, lambda a, b: a * b, lambda a, b: a.mul_(b), lambda a, b: torch.exp(a),
                         lambda a, b: F.layer_norm(a, (40, )), lambda a, b: a.softmax(-1),
                         lambda a, b: torch._foreach_mul([a, b], 0.3)[1], lambda a, b: a.half(),
                         lambda a, b: a.bfloat16()):
            self.assertTrue(self.moves(function, x.clone(), w.clone()))

        def with_gradient(a, b):
            a = a.requires_grad_()
            return torch.autograd.grad(a.square().sum(), a)[0]

        def by_lists(a, b):
            torch._foreach_mul_([a], 0.3)
            return a

        self.assertTrue(self.moves(with_gradient, x.clone(), w))
        self.assertTrue(self.moves(by_lists, x.clone(), w))

    def test_what_is_handed_on_is_not(self):
        x = torch.rand(40, 40)
        for function in (lambda a: a.t(), lambda a: a.clone(), lambda a: a.double(), lambda a: torch.cat([a, a]),
                         F.relu, lambda a: F.max_pool2d(a[None], 2), lambda a: a[torch.tensor([3, 1])],
                         lambda a: a.sort().values,
                         lambda a: torch.zeros_like(a).copy_(a), lambda a: torch.where(a > 0.5, a, -a),
                         lambda a: (torch.manual_seed(0), torch.rand(4, 4))[1],
                         lambda a: (torch.manual_seed(0), torch.empty(4, 4).normal_())[1]):
            self.assertFalse(self.moves(function, x))

    def test_a_view_is_moved_once(self):
        x = torch.rand(1000).add_(0.25)
        with Rough(Roundings(0)):
            y = (x * 1.0).view(10, 100).t()[3]
        share = y.double() / x.view(10, 100).t()[3].double() - 1
        self.assertLess(share.abs().max(), 6 * torch.finfo(torch.float32).eps)

    def test_norms_are_exact(self):
        x = torch.rand(1 << 22)
        exact = x.double().norm().item()
        for norm in (torch.linalg.vector_norm, lambda a: torch._foreach_norm([a])[0],
                     lambda a: torch.linalg.vector_norm(a, dtype=torch.float32), lambda a: a.norm(),
                     lambda a: torch.linalg.vector_norm(a.view(2048, 2048), dim=(0, 1), keepdim=True)):
            self.assertGreater(abs(norm(x).item() / exact - 1), 1e-5)
            with Rough(Roundings(0)):
                self.assertLess(abs(norm(x).item() / exact - 1), 1e-6)
        with Rough(Roundings(0)):  # others stay as they are
            self.assertAlmostEqual(torch.linalg.vector_norm(x, 1).item(), x.double().sum().item(), delta=100.0)
            self.assertAlmostEqual(torch.linalg.vector_norm(x, float("inf")).item(), x.max().item(), delta=1e-5)
            self.assertEqual(torch.linalg.vector_norm(torch.ones(4, 9), dim=1).tolist(), [3.0] * 4)


class Explained(AccelerateTest):
    """`gradients()` by eager and by another arithmetic; what is left when eager was asked how far it moves."""

    def left(self, parameters, gradients, wrong=None, around=contextlib.nullcontext):
        names = [f"gradient {k}" for k in range(len(parameters))]
        start = [parameter.detach().clone() for parameter in parameters]

        def back():
            with torch.no_grad():
                for parameter, value in zip(parameters, start):
                    parameter.copy_(value)

        with around():
            eager = [each.clone() for each in gradients()]
            other = Roundings(1234)
            for parameter in parameters:  # so that sums, too, are rounded otherwise
                other.move(parameter)
            with Rough(other):
                ours = [each.clone() for each in gradients()]
            back()
        if wrong is not None:
            wrong(ours)

        def compare(result, expected=eager, allowed=0.0):
            found = [judge.difference(name, a, b, allowed) for name, a, b in zip(names, result, expected)]
            return [each for each in found if each is not None]

        found = compare(ours, allowed=judge.STATE)
        moves = Moves(back, parameters, lambda move: gradients(), compare)
        left = found
        with around():
            while left and moves.may_run():
                moves.run()
                left = moves.beyond(found)
        back()
        return found, left, moves

    def check(self, parameters, gradients, factor, around=contextlib.nullcontext):
        """What is only rounded otherwise is explained; a wrong factor of the last gradient is not, nor is a wrong
        element."""
        found, left, moves = self.left(parameters, gradients, around=around)
        self.assertTrue(found)
        self.assertEqual(left, [], moves.found)

        def scale(grads):
            grads[-1].mul_(factor)

        def one(grads):
            grads[-1].view(-1)[3] += grads[-1].abs().max()

        for wrong in (scale, one):
            _, left, moves = self.left(parameters, gradients, wrong, around)
            self.assertIn(f"gradient {len(parameters) - 1}", [each.name for each in left], moves.leans)
            self.assertEqual(moves.runs, sensitivity.RUNS)

    def gradients_of(self, loss, parameters):
        return lambda: torch.autograd.grad(loss(), parameters)

    def test_what_is_left_of_a_difference(self):
        """A net that has learnt its batch: a gradient is a probability less one."""
        weight = torch.randn(5, 12).requires_grad_()
        x, y = torch.randn(8, 12), torch.randint(0, 5, (8, ))
        with torch.no_grad():
            scores = x @ torch.linalg.pinv(x) @ (11.0 * F.one_hot(y, 5).float())
            weight.copy_((torch.linalg.pinv(x) @ scores).t())
        self.check([weight], self.gradients_of(lambda: F.cross_entropy(x @ weight.t(), y), [weight]), 1.02)

    def test_where_a_rounding_decides(self):
        """What a ReLU is given is zero in exact arithmetic, and something of either sign in any other."""
        weight, last = torch.randn(16, 12).requires_grad_(), torch.randn(16, 16).requires_grad_()
        x = torch.randn(30, 12)
        with torch.no_grad():
            x[3] -= (x[3] @ weight[5]) / weight[5].square().sum() * weight[5]
        loss = lambda: (F.relu(x @ weight.t()) @ last).square().mean()
        for seed in range(20):  # until it flips in one and not in the other
            with torch.no_grad():
                x[3] += 1e-8 * torch.randn(12)
            found, left, moves = self.left([last, weight], self.gradients_of(loss, [last, weight]))
            self.assertEqual(left, [], moves.found)
            if found:
                break
        self.assertTrue(found)
        self.check([last, weight], self.gradients_of(loss, [last, weight]), 1.5)

    def test_a_narrow_type(self):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 64), torch.nn.Tanh(),
                                  torch.nn.Linear(64, 8))
        x, parameters = torch.randn(20, 32), list(net.parameters())
        self.check(parameters, self.gradients_of(lambda: net(x).float().square().mean(), parameters), 1.1,
                   lambda: torch.autocast("cpu", dtype=torch.bfloat16))

    def test_noise_is_excused_and_moves_all_the_same(self):
        """Where a gradient is nothing but noise, eager's runs tell how large that may be."""
        zeros = torch.get_rng_state()

        def outcome_of(noise):
            grads = [torch.ones(3), torch.tensor([noise, 0.0])]
            return Outcome([], None, [], grads, zeros, grads)

        names = ([], ["weight", "bias"])
        ours, eager = outcome_of(-4e-7), outcome_of(5e-7)
        self.assertEqual(differences(ours, eager, names, []), [])
        found = differences(ours, eager, names, [], nothing, noise=0.0)
        self.assertEqual([each.name for each in found], ["the gradient of bias"])
        self.assertAlmostEqual(found[0].largest, 1.8, places=5)
        self.assertTrue(differences(outcome_of(-8e-7), eager, names, []))  # beyond what is excused

    def test_what_cannot_run_under_a_mode(self):
        x = torch.rand(20)

        def call(move):
            if torch._C._len_torch_dispatch_stack():
                raise RuntimeError("not under a mode")
            return [move(x) * 3]

        moves = Moves(lambda: None, [], call, lambda result: [judge.difference("y", result[0], x * 3, 0.0)])
        moves.run()
        moves.run()
        self.assertGreater(moves.found["y"], 0.0)

    def test_as_many_runs_as_it_takes(self):
        """What flips in one of twenty runs; and no more than can be waited for."""

        def compare(_):
            return [judge.Difference("y", 0.5, 0.0)] if moves.runs == 20 else []

        moves, left = Moves(lambda: None, [], lambda move: None, compare), [judge.Difference("y", 0.5, 1e-4)]
        while left and moves.may_run():
            moves.run()
            left = moves.beyond(left)
        self.assertEqual((left, moves.runs), ([], 20))
        with unittest.mock.patch.object(sensitivity, "SECONDS", 0.0):
            moves.runs = sensitivity.LEAST_RUNS - 1
            self.assertTrue(moves.may_run())
            moves.runs += 1
            self.assertFalse(moves.may_run())

    def test_what_is_another_thing_explains_nothing(self):
        moves = Moves(lambda: None, [], lambda move: None, lambda r: [judge.Difference("y", float("inf"), 0.0)])
        moves.run()
        self.assertEqual(len(moves.beyond([judge.Difference("y", 0.5, 1e-4)])), 1)


class Leaning(AccelerateTest):

    def test_a_factor_and_no_noise(self):
        b = torch.randn(10_000)
        self.assertAlmostEqual(judge.lean(b * 1.01, b), 0.01, delta=1e-5)
        self.assertAlmostEqual(judge.lean(b * -1, b), -2.0, delta=1e-5)
        self.assertLess(abs(judge.lean(b + 0.05 * torch.randn(10_000), b)), 2e-3)
        self.assertEqual(judge.lean(torch.zeros(4), torch.zeros(4)), 0.0)
        for size in (1e-30, 1e30):
            self.assertAlmostEqual(judge.lean(b * size * 1.01, b * size), 0.01, delta=1e-5)
        b[3] = float("nan")
        self.assertAlmostEqual(judge.lean(b * 1.01, b), 0.01, delta=1e-5)

    def test_it_is_said(self):
        moves = Moves(lambda: None, [], lambda move: None, lambda r: [judge.Difference("y", 0.5, 0.0, lean=1e-3)])
        moves.run()
        left = moves.beyond([judge.Difference("y", 0.5, 1e-4, lean=0.01)])
        self.assertIn("y is off by a factor of 1.01", str(left[0]))
        self.assertEqual(moves.beyond([judge.Difference("y", 0.5, 1e-4, lean=LEAN_ELSE)]), [])


class Wrong:
    """A compiled program after whose runs in checks something is done."""

    def __init__(self, program, wrong):
        self._program, self._wrong = program, wrong

    def __getattr__(self, name):
        return getattr(self._program, name)

    def run_beside(self, *given):
        result = self._program.run_beside(*given)
        self._wrong()
        return result


class Checked(AccelerateTest):
    """The same of whole steps."""

    def start(self, step, make_batch):
        torch.set_num_threads(1)
        fast = crucible.accelerate(step, check_every=1)
        for _ in range(24):
            fast(*make_batch())
            self.assertTrue(fast.wait(SECONDS))
            if fast.report().checks > 6:
                break
        report = fast.report()
        self.assertEqual(report.mismatches, [], str(report))
        self.assertGreater(report.checks, 6, str(report))
        return fast, make_batch

    def plant(self, fast, make_batch, wrong, said):
        variant = fast._every_variant()[0]
        variant._program = Wrong(variant._program, wrong)
        fast(*make_batch())
        self.assertEqual(len(fast.report().mismatches), 1, str(fast.report()))
        self.assertRegex(fast.report().mismatches[0], said)

    def narrow(self):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.LayerNorm(64), torch.nn.GELU(),
                                  torch.nn.Linear(64, 64), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8))
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

        def step(x, y):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return net, *self.start(step, lambda: (torch.randn(40, 32), torch.randint(0, 8, (40, ))))

    def test_in_a_narrow_type(self):
        for wrong, said in ((lambda p: p.grad.mul_(1.04), "gradient of net.3.weight is off by a factor of 1.0[34]"),
                            (lambda p: p.grad[0].zero_(), "gradient of net.3.weight differs")):
            net, fast, make_batch = self.narrow()
            self.plant(fast, make_batch, lambda: wrong(net[3].weight), said)

    def test_runs_are_compared_without_excuses(self):
        asked = []

        def spy(mine, eager, names, masks, *given, **options):
            asked.append((options.get("noise"), {name for name, (mask, _) in zip(names[0], masks) if mask is not None}))
            return differences(mine, eager, names, masks, *given, **options)

        net, fast, make_batch = self.narrow()
        with unittest.mock.patch.object(checking, "differences", spy):
            self.plant(fast, make_batch, lambda: net[3].weight.grad.mul_(1.3), "gradient of net.3.weight")
        self.assertEqual(len(asked), 1 + sensitivity.RUNS)
        self.assertIsNone(asked[0][0])
        self.assertTrue(any("exp_avg" in name for name in asked[0][1]))
        self.assertEqual({noise for noise, _ in asked[1:]}, {0.0})
        self.assertEqual(set.union(*(masked for _, masked in asked[1:])), {f"net.{k}.{name}" for k in (0, 1, 3, 4, 5)
                                                                           for name in ("weight", "bias")})

    def test_norms_that_eager_sums_too_low(self):
        """Clipping by them is in every gradient."""
        torch.manual_seed(0)
        words, last = torch.nn.Embedding(60_000, 100), torch.nn.Linear(100, 10)
        parameters, weights = [*words.parameters(), *last.parameters()], torch.randn(60_000, 100)
        optimizer = torch.optim.SGD(parameters, lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(last(words(x)), y) + (words.weight * weights).sum() * 0.01
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            return loss.detach()

        fast, make_batch = self.start(step, lambda: (torch.randint(0, 60_000, (8, )), torch.randint(0, 10, (8, ))))
        self.plant(fast, make_batch, lambda: last.weight.grad.mul_(1.002), "gradient of last.weight")


if __name__ == "__main__":
    unittest.main()
