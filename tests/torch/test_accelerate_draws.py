"""Random numbers that a compiled call of crucible.accelerate draws again: torch's ops in whatever layout the tensor has that
they fill, beside an eager twin from one seed. What comes out and the generator's state are compared after every call."""

import os
import random
import types
import unittest

from accelerated import AccelerateTest, Twins, batch
import torch
from torch import nn

ROUNDS = int(os.environ.get("CRUCIBLE_LAYOUTS", "4"))  # random layouts of each op

FILLS = {
    "bernoulli": lambda t: t.bernoulli_(0.4),
    "uniform": lambda t: t.uniform_(-1, 2),
    "normal": lambda t: t.normal_(1, 2),
    "exponential": lambda t: t.exponential_(2.0),
    "random": lambda t: t.random_(0, 9),
    "geometric": lambda t: t.geometric_(0.5),
    "cauchy": lambda t: t.cauchy_(0, 0.5).clamp_(-9, 9),
    "log_normal": lambda t: t.log_normal_(0, 0.5),
}
MAKES = {
    "dropout": lambda t: nn.functional.dropout(t, 0.3),
    "alpha_dropout": lambda t: nn.functional.alpha_dropout(t, 0.3, True),
    "rand_like": lambda t: t * torch.rand_like(t),
    "randn_like": lambda t: t * torch.randn_like(t),
    "randint_like": lambda t: t * torch.randint_like(t, 1, 5),
    "bernoulli_like": lambda t: t * torch.empty_like(t).bernoulli_(0.5),
}


def layout(seed):
    """A function from a tensor of 240 elements to a view of it, with a random permutation, steps and ends."""
    choose = random.Random(seed)
    sizes = choose.choice([(240,), (12, 20), (4, 6, 10), (2, 3, 5, 8), (2, 12, 10)])
    order = choose.sample(range(len(sizes)), len(sizes))
    cuts = [slice(choose.choice((None, 0, 1)), None, choose.choice((None, 1, 2))) for _ in sizes]
    whole = choose.random() < 0.4
    return lambda flat: flat.reshape(sizes).permute(order)[tuple(slice(None) for _ in sizes) if whole else tuple(cuts)]


def drawing(draw):
    """A net of one weight whose step draws by `draw(product, flat)`."""
    weight = nn.Parameter(torch.randn(240))
    optimizer = torch.optim.SGD([weight], 0.01)
    net = nn.Module()
    net.weight = weight

    def step(x):
        optimizer.zero_grad()
        loss = draw(x * weight).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return types.SimpleNamespace(net=net, optimizer=optimizer, step=step)


class Layouts(AccelerateTest):
    """Each op in tensors that are permuted, cut, and taken from the middle of others."""

    def check(self, name, draw):
        for seed in range(ROUNDS):
            with self.subTest(op=name, seed=seed):
                view = layout(f"{name}{seed}")
                twins = Twins(self, lambda: drawing(lambda v: draw(v, view)))
                twins.settle(lambda: (torch.randn(240),))
                self.assertTrue(twins.is_compiled(3, lambda: (torch.randn(240),)), str(twins.step.report()))
                self.assertFalse(twins.step.report().mismatches)

    def test_what_is_filled(self):
        for name, fill in FILLS.items():
            self.check(name, lambda v, view, fill=fill: view(v) * fill(view(torch.ones(240))))

    def test_what_is_made_like_another(self):
        for name, make in MAKES.items():
            self.check(name, lambda v, view, make=make: make(view(v)))

    def test_part_of_what_is_drawn_lies_in_a_larger_tensor(self):
        def draw(v, view):
            whole = torch.zeros(240)
            view(whole).normal_()
            return v * whole

        self.check("part", draw)


class Layers(AccelerateTest):

    def test_transformer_layers_drop_out_in_transposed_tensors(self):
        for norm_first in (False, True):
            with self.subTest(norm_first=norm_first):
                def make():
                    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.2, batch_first=True, norm_first=norm_first)
                    net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
                    optimizer = torch.optim.SGD(net.parameters(), 0.01)

                    def step(x, y):
                        optimizer.zero_grad()
                        loss = (net(x.unsqueeze(0)) * y).square().mean()
                        loss.backward()
                        optimizer.step()
                        return loss.detach()

                    return types.SimpleNamespace(net=net, optimizer=optimizer, step=step)

                twins = Twins(self, make).settle(batch)
                self.assertTrue(twins.is_compiled(4), str(twins.step.report()))
                self.assertFalse(twins.step.report().mismatches)


if __name__ == "__main__":
    unittest.main()
