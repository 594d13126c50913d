"""Steps that switch modes, freeze parameters and set flags, and put them back or not."""

import torch
import torch.nn.functional as F
from torch import nn

from accelerated_programs.register import NS, cls_batch, mlp, program


def normed():
    return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))


def flags(net, **more):
    """The state of the net with its modes, which parameters take a gradient, and what else there is."""

    def state_dict():
        found = dict(net.state_dict())
        found["modes"] = torch.tensor([float(part.training) for part in net.modules()])
        found["takes"] = torch.tensor([float(parameter.requires_grad) for parameter in net.parameters()])
        return found | {name: torch.tensor(float(get())) for name, get in more.items()}

    return NS(state_dict=state_dict)


def switched(body, make=normed, between=None, more=None, batch=None, calls=30):
    """body(c, x, y) with c.m, c.o; between(c, number) comes before each call; more(c): what else there is."""
    c = NS(m=make())
    c.o = torch.optim.SGD(c.m.parameters(), 0.05, momentum=0.9)
    c.first, c.mode, c.count = True, "a", [0]
    draw = batch or cls_batch(8)

    def step(x, y):
        return body(c, x, y)

    def given():
        if between is not None:
            between(c, c.count[0])
        c.count[0] += 1
        return draw()

    values = {name: lambda get=get: get(c) for name, get in (more or {}).items()}
    return NS(step=step, net=flags(c.m, **values), batch=given, calls=calls)


def fit(c, x, y, scale=1.0):
    loss = F.cross_entropy(c.m(x), y) * scale
    c.o.zero_grad()
    loss.backward()
    c.o.step()
    return loss.detach()


@program
def evaluates_inside():

    def body(c, x, y):
        loss = fit(c, x, y)
        c.m.eval()
        with torch.no_grad():
            value = F.cross_entropy(c.m(x), y)
        c.m.train()
        return loss, value

    return switched(body)


@program
def puts_the_mode_back_that_was():

    def body(c, x, y):
        loss, was = fit(c, x, y), c.m.training
        c.m.eval()
        with torch.no_grad():
            value = c.m(x)
        c.m.train(was)
        return loss, value

    def between(c, number):
        if number in (14, 20):
            c.m.train(number == 20)

    return switched(body, between=between, calls=40)


@program
def leaves_another_mode():

    def body(c, x, y):
        c.m.train()
        return fit(c, x, y)

    return switched(body, between=lambda c, number: c.m.eval())


@program
def keeps_norms_in_evaluation():

    def body(c, x, y):
        c.m.train()
        for part in c.m.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.eval()
        return fit(c, x, y)

    return switched(body)


@program
def reads_its_mode():

    class Noisy(nn.Module):

        def __init__(self):
            super().__init__()
            self.inner = normed()

        def train(self, mode=True):
            super().train(mode)
            self.inner[1].eval()
            return self

        def forward(self, x):
            return self.inner(x) + (torch.randn(4) if self.training else 0)

    def body(c, x, y):
        loss = fit(c, x, y)
        c.m.eval()
        with torch.no_grad():
            value = c.m(x)
        c.m.train()
        return loss, value

    return switched(body, Noisy)


@program(eager="changes seen")
def switches_what_has_an_effect():
    seen = []

    class Noted(nn.Module):

        def __init__(self):
            super().__init__()
            self.inner = normed()

        def train(self, mode=True):
            seen.append(mode)
            return super().train(mode)

        def forward(self, x):
            return self.inner(x)

    def body(c, x, y):
        c.m.eval()
        c.m.train()
        return fit(c, x, y)

    return switched(body, lambda: nn.Sequential(Noted()), more={"seen": lambda c: len(seen)})


@program
def raises_between_two_modes():

    def body(c, x, y):
        c.m.eval()
        value = c.m(x)
        if x.sum() > 60:
            raise ValueError("large")
        c.m.train()
        return fit(c, x, y), value.detach()

    calls = [0]

    def batch():
        calls[0] += 1
        return torch.randn(8, 16) + (2 if calls[0] % 9 == 0 else 0), torch.randint(0, 4, (8,))

    return switched(body, batch=batch, calls=40)


@program
def dropout_of_another_share():

    def body(c, x, y):
        c.m[3].p = 0.5
        loss = fit(c, x, y)
        c.m[3].p = 0.1
        return loss

    def between(c, number):
        if number == 16:
            c.m[3].p = 0.9

    return switched(body, between=between, more={"p": lambda c: c.m[3].p})


@program
def first_call_is_another():

    def body(c, x, y):
        loss = fit(c, x, y, 2.0 if c.first else 1.0)
        c.first = False
        return loss

    def between(c, number):
        if number == 18:
            c.first = True

    return switched(body, between=between, more={"first": lambda c: c.first})


@program
def mode_in_a_text():

    def body(c, x, y):
        c.mode = "b"
        loss = fit(c, x, y, 2.0 if c.mode == "b" else 1.0)
        c.mode = "a"
        return loss

    return switched(body, more={"is_a": lambda c: c.mode == "a"})


@program(eager="changes seen")
def what_is_set_decides_that_there_is_an_effect():
    seen = []

    def body(c, x, y):
        c.mode = "b"
        if c.mode == "b":
            seen.append(1)
        c.mode = "a"
        return fit(c, x, y)

    return switched(body, more={"seen": lambda c: len(seen)})


@program
def freezes_by_name():

    def body(c, x, y):
        for name, parameter in c.m.named_parameters():
            if name.startswith("0."):
                parameter.requires_grad_(False)
        taken = sum(parameter.numel() for parameter in c.m.parameters() if parameter.requires_grad)
        loss = fit(c, x, y)
        for parameter in c.m.parameters():
            parameter.requires_grad = True
        return loss, taken

    def between(c, number):
        if number == 14:
            c.m[0].requires_grad_(False)

    return switched(body, between=between)


@program
def freezes_in_turns():

    def body(c, x, y):
        for parameter in c.m[0].parameters():
            parameter.requires_grad = not parameter.requires_grad
        return fit(c, x, y)

    return switched(body, mlp, calls=60)


@program
def attacks_a_frozen_net():

    def body(c, x, y):
        c.m.requires_grad_(False)
        delta = torch.zeros_like(x, requires_grad=True)
        F.cross_entropy(c.m(x + delta), y).backward()
        c.m.requires_grad_(True)
        return fit(c, x + 0.1 * delta.grad.sign(), y)

    return switched(body, mlp)


@program
def gan_that_freezes():
    g, d = mlp(8, 32, 16), mlp(16, 32, 1)
    og, od = torch.optim.SGD(g.parameters(), 0.05), torch.optim.SGD(d.parameters(), 0.05)

    def step(real, z):
        fake = g(z)
        d.requires_grad_(True)
        first = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
        od.zero_grad()
        first.backward()
        od.step()
        for parameter in d.parameters():
            parameter.requires_grad_(False)
        second = F.softplus(-d(fake)).mean()
        og.zero_grad()
        second.backward()
        og.step()
        return first.detach(), second.detach()

    return NS(step=step, net=flags(nn.ModuleList([g, d])), batch=lambda: (torch.randn(8, 16), torch.randn(8, 8)))


@program(eager="makes an argument require a gradient")
def makes_an_argument_take_a_gradient():

    def body(c, x, y):
        x.requires_grad_(True)
        slope, = torch.autograd.grad(F.cross_entropy(c.m(x), y), x)
        return fit(c, x.detach() + 0.1 * slope.sign(), y)

    return switched(body, mlp)


@program
def rate_that_is_set_to_one_value():

    def body(c, x, y):
        c.o.param_groups[0]["lr"] = 0.05
        return fit(c, x, y)

    def between(c, number):
        if number in (14, 22):
            c.o.param_groups[0]["lr"] = 0.5

    return switched(body, mlp, between=between, more={"rate": lambda c: c.o.param_groups[0]["lr"]})
