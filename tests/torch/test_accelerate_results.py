"""What calls of crucible.accelerate return: containers, tensors that nobody writes again, tensors that share memory as in eager."""

import collections
import types
import unittest

from accelerated import SECONDS, AccelerateTest, Twins, batch, torch, train_step

Pair = collections.namedtuple("Pair", "first second")


def of_net(forward):
    """A function of tensors that closes over a net; a namespace for Twins."""

    def make():
        net = torch.nn.Linear(8, 8)

        def step(*args, **kwargs):
            with torch.no_grad():
                return forward(net, *args, **kwargs)

        return types.SimpleNamespace(step=step, net=net)

    return make


class Results(AccelerateTest):
    def test_returned_tensors_stay_as_they_were_given(self):
        twins = Twins(self).settle()
        given = [twins.step(*batch()) for _ in range(40)]
        values = [loss.clone() for loss in given]
        for _ in range(40):
            twins.step(*batch())
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(given, values)))
        self.assertEqual(len({loss.data_ptr() for loss in given}), 40)

    def test_a_returned_tensor_may_be_written(self):
        twins = Twins(self).settle()
        for _ in range(20):
            twins.call(*batch()).zero_()

    def test_nested_containers(self):
        def make():
            net = torch.nn.Linear(8, 8)

            def step(arguments, *, scale=None):
                with torch.no_grad():
                    y = net(arguments["x"][0])
                    if scale is not None:
                        y = y * scale[1]
                    return {"all": [y, (y.sum(), y.mean(1))], "pair": (y.square(), 7), "none": None, "text": "as it is"}

            return types.SimpleNamespace(step=step, net=net)

        twins = Twins(self, make)
        for number in range(30):
            result = twins.call({"x": [torch.randn(4, 8)]}, scale=(None, torch.randn(1)))
            twins.step.wait(SECONDS)
        self.assertIs(type(result["pair"]), tuple)
        self.assertGreater(twins.step.report().compiled_calls, 20, str(twins.step.report()))

    def test_named_tuples(self):
        twins = Twins(self, of_net(lambda net, pair: Pair(net(pair.first), pair.second)))
        for _ in range(12):
            self.assertIs(type(twins.call(Pair(torch.randn(4, 8), 3))), Pair)
            twins.step.wait(SECONDS)

    def test_results_that_are_one_tensor_stay_one(self):
        twins = Twins(self, of_net(lambda net, x: (lambda y: (y, y, [y]))(net(x))))
        for _ in range(24):
            x = torch.randn(4, 8)
            got, expected = twins.both(lambda one: one.step(x))
            self.assert_close(got, expected)
            self.assertIs(got[0], got[1])
            self.assertIs(got[0], got[2][0])
            twins.step.wait(SECONDS)

    def test_results_that_share_memory_share_it(self):
        """A view of another result, of an argument, of a parameter: written through one, the other shows it."""
        def two(net, x):
            y = net(x)
            return y, y[1]

        def the_other_way(net, x):
            part, whole = two(net, x)[::-1]
            return {"part": part, "whole": whole}

        def swapped(net, x):
            answer = the_other_way(net, x)
            return answer["whole"], answer["part"]

        for forward in (two, swapped, lambda net, x: (x, x[1]), lambda net, x: (net.weight, net.weight[1]),
                        lambda net, x: (net.weight.detach().t(), net.weight.detach().t()[1])):
            twins = Twins(self, of_net(forward))
            for _ in range(16):
                x = torch.randn(4, 8)
                for one in (twins.eager, twins.fast):
                    whole, part = one.step(x.clone())
                    with torch.no_grad():
                        before = whole.clone()
                        part.fill_(3.0)
                        self.assertEqual(whole[1].tolist(), [3.0] * 8, str(twins.step.report()))
                        whole.copy_(before)
                twins.step.wait(SECONDS)
            if "graph" not in str(twins.step.report()):  # of the parameter's, whose part asks for a gradient
                self.assertGreater(twins.step.report().compiled_calls, 8, str(twins.step.report()))

    def test_results_that_are_parts_of_one_memory(self):
        """Halves have memory of their own; where one overlaps the other without being part of it, the call is eager."""
        twins = Twins(self, of_net(lambda net, x: net(x).chunk(2, 1)))
        for _ in range(16):
            x = torch.randn(4, 8)
            for got, expected in zip(*twins.both(lambda one: one.step(x))):
                self.assert_close(got.contiguous(), expected.contiguous())
            twins.step.wait(SECONDS)
        self.assertGreater(twins.step.report().compiled_calls, 8)
        for forward in (lambda y: (y[:3], y[1:]), lambda y: (y[:, :5], y[0, :5])):
            twins = Twins(self, of_net(lambda net, x, forward=forward: forward(net(x))))
            for _ in range(8):
                twins.call(torch.randn(4, 8))
            self.assertIn("the function returns a view of part of another result", str(twins.step.report()))

    def test_views_of_arguments_that_are_part_of_larger_memory(self):
        """Of the caller's tensor in every call, also where an observed call is given a copy of it."""
        twins = Twins(self, of_net(lambda net, x: (net(x), x[1], x.view(-1)[3:9])))
        large = torch.randn(64, 8)
        for number in range(20):
            x = large[number:number + 4]
            for one in (twins.eager, twins.fast):
                _, row, some = one.step(x)
                self.assertEqual(row.data_ptr(), x[1].data_ptr())
                self.assertEqual(some.data_ptr(), x.data_ptr() + 12)
            twins.call(x)
            twins.step.wait(SECONDS)
        self.assertGreater(twins.step.report().compiled_calls, 8, str(twins.step.report()))

    def test_a_gradient_that_is_returned(self):
        """It is the parameter's own, which later calls write."""
        def make():
            one = train_step()
            inner = one.step
            one.step = lambda x, y: (inner(x, y), one.net[0].weight.grad)
            return one

        twins = Twins(self, make)
        for _ in range(8):
            _, gradient = twins.call(*batch())
            self.assertIs(gradient, twins.fast.net[0].weight.grad)

    def test_an_argument_given_back_is_the_argument(self):
        twins = Twins(self, of_net(lambda net, x, note: (net(x), x, note)))
        for _ in range(20):
            x = torch.randn(4, 8)
            got = twins.call(x, "note")
            self.assertIs(got[1], x)
            twins.step.wait(SECONDS)

    def test_arguments_of_odd_memory(self):
        """Views, transposed ones, ones that do not begin where a vector does, empty and overlapping ones."""
        twins = Twins(self, of_net(lambda net, x: net(x)))
        makes = [lambda: torch.randn(8, 4).t(), lambda: torch.randn(8, 8)[::2], lambda: torch.randn(33)[1:].view(4, 8),
                 lambda: torch.randn(8).expand(4, 8), lambda: torch.randn(0, 8), lambda: torch.randn(4, 16)[:, 4:12]]
        for make in makes:
            for _ in range(10):
                twins.call(make())
                twins.step.wait(SECONDS)


if __name__ == "__main__":
    unittest.main()
