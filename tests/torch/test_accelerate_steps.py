"""crucible.accelerate on the steps that people write: losses, parameters and states of an eager twin, and which calls
were compiled."""

import copy
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["CRUCIBLE_BUILD"], "python"))

import torch
from torch import nn
from torch.nn import functional as F

import crucible

CALLS = 30


def net(*middle):
    return nn.Sequential(nn.Linear(8, 16), *(middle or (nn.ReLU(), )), nn.Linear(16, 4))


def data(seed):
    torch.manual_seed(seed)
    return torch.randn(6, 8), torch.randint(0, 4, (6, ))


class Case:
    """make() gives (step, tensors that it trains, what happens between two calls)."""

    def __init__(self, make, inputs=data):
        self.make, self.inputs = make, inputs


def plain(model, optimizer, schedule=None, set_to_none=True, after=None):

    def step(x, y):
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def between():
        if schedule is not None:
            schedule.step()
        if after is not None:
            after()

    return step, model, between


def with_optimizer(kind, **options):

    def make():
        model = net()
        return plain(model, kind(model.parameters(), **options))

    return Case(make)


def with_schedule(kind, optimizer=torch.optim.SGD, rate=0.1, optimizer_options=None, **options):

    def make():
        model = net()
        optimizer_ = optimizer(model.parameters(), lr=rate, **(optimizer_options or {}))
        return plain(model, optimizer_, kind(optimizer_, **options))

    return Case(make)


def with_layers(*middle):

    def make():
        model = net(*(layer() for layer in middle))
        return plain(model, torch.optim.SGD(model.parameters(), lr=0.05))

    return Case(make)


def two_optimizers():
    one, two = net(), nn.Linear(4, 4)
    first = torch.optim.SGD(one.parameters(), lr=0.1)
    second = torch.optim.AdamW(two.parameters(), lr=0.01)

    def step(x, y):
        first.zero_grad()
        second.zero_grad()
        hidden = one(x)
        loss = F.cross_entropy(two(hidden), y)
        loss.backward()
        first.step()
        second.step()
        return {"loss": loss, "hidden": (hidden.detach().mean(), None)}

    return step, nn.ModuleList([one, two]), lambda: None


def accumulated():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        for half in (slice(0, 3), slice(3, 6)):
            loss = F.cross_entropy(model(x[half]), y[half]) / 2
            loss.backward()
        optimizer.step()
        return loss

    return step, model, lambda: None


def accumulated_outside():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    count = [0]

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss

    def between():
        count[0] += 1
        if count[0] % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()

    return step, model, between


def tied():
    embedding = nn.Embedding(10, 8)
    head = nn.Linear(8, 10, bias=False)
    head.weight = embedding.weight
    model = nn.ModuleList([embedding, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(head(embedding(x)), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, model, lambda: None


def tokens(seed):
    torch.manual_seed(seed)
    return torch.randint(0, 10, (7, )), torch.randint(0, 10, (7, ))


def moving_average():
    model, average = net(), net()
    average.load_state_dict(model.state_dict())
    step, _, _ = plain(model, torch.optim.SGD(model.parameters(), lr=0.1))

    def between():
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()):
                a.lerp_(p, 0.1)

    return step, nn.ModuleList([model, average]), between


def moving_average_inside():
    model, average = net(), net()
    average.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters()):
                a.lerp_(p, 0.1)
        return loss

    return step, nn.ModuleList([model, average]), lambda: None


class Attention(nn.Module):

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.1, batch_first=True)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        h = self.norm(x)
        return self.out(x + self.attention(h, h, h, need_weights=False)[0]).mean(1)


def attention():
    model = Attention()
    return plain(model, torch.optim.SGD(model.parameters(), lr=0.05))


def sequence(seed):
    torch.manual_seed(seed)
    return torch.randn(3, 5, 8), torch.randint(0, 4, (3, ))


class Recurrent(nn.Module):

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(8, 8, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        return self.out(self.cell(x)[0][:, -1])


def recurrent():
    model = Recurrent()
    return plain(model, torch.optim.RMSprop(model.parameters(), lr=0.01))


def convolution():
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(6 * 16, 4))
    return plain(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True))


def images(seed):
    torch.manual_seed(seed)
    return torch.randn(4, 3, 8, 8), torch.randint(0, 4, (4, ))


class Cooled(nn.Module):

    def __init__(self):
        super().__init__()
        self.net = net()
        self.register_buffer("temperature", torch.tensor(1.0))

    def forward(self, x):
        return self.net(x) / self.temperature


def one_number_in_a_buffer():
    """It stands still while the calls are observed, and is no number of the program all the same."""
    model = Cooled()
    step, _, _ = plain(model, torch.optim.SGD(model.parameters(), lr=0.05))
    calls = [0]

    def between():
        calls[0] += 1
        if calls[0] > 10:
            model.temperature.mul_(0.9)

    return step, model, between


def scheduled_inside():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    model.register_buffer("rate", torch.zeros(()))

    def between():  # what the schedule has come to is compared with the twin's
        model.rate.fill_(optimizer.param_groups[0]["lr"] + schedule.last_epoch)

    return step, model, between


def own_average():
    """A method of the user's own class, with attributes that it reads."""

    class Trainer:

        def __init__(self):
            self.model = net()
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
            self.settings = {"weight": 0.5, "clip": 0.5}

        def step(self, x, y):
            self.optimizer.zero_grad()
            logits = self.model(x)
            losses = [F.cross_entropy(logits, y), logits.square().mean()]
            loss = losses[0] + self.settings["weight"] * losses[1]
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.settings["clip"])
            self.optimizer.step()
            return loss

    trainer = Trainer()
    return trainer.step, trainer.model, lambda: None


OPTIM = torch.optim
CASES = {
    "sgd": with_optimizer(OPTIM.SGD, lr=0.1),
    "sgd with momentum": with_optimizer(OPTIM.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd nesterov, foreach": with_optimizer(OPTIM.SGD, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "sgd fused": with_optimizer(OPTIM.SGD, lr=0.1, momentum=0.9, fused=True),
    "adam": with_optimizer(OPTIM.Adam, lr=0.01),
    "adam amsgrad": with_optimizer(OPTIM.Adam, lr=0.01, amsgrad=True),
    "adamw": with_optimizer(OPTIM.AdamW, lr=0.01, weight_decay=0.1),
    "adamw foreach": with_optimizer(OPTIM.AdamW, lr=0.01, foreach=True),
    "adamw fused": with_optimizer(OPTIM.AdamW, lr=0.01, fused=True),
    "adamax": with_optimizer(OPTIM.Adamax, lr=0.01),
    "nadam": with_optimizer(OPTIM.NAdam, lr=0.01),
    "radam": with_optimizer(OPTIM.RAdam, lr=0.01),
    "adagrad": with_optimizer(OPTIM.Adagrad, lr=0.05),
    "adadelta": with_optimizer(OPTIM.Adadelta, lr=1.0),
    "rmsprop": with_optimizer(OPTIM.RMSprop, lr=0.01, momentum=0.5, centered=True),
    "step schedule": with_schedule(OPTIM.lr_scheduler.StepLR, step_size=4, gamma=0.5),
    "exponential schedule": with_schedule(OPTIM.lr_scheduler.ExponentialLR, gamma=0.97),
    "cosine schedule": with_schedule(OPTIM.lr_scheduler.CosineAnnealingLR, T_max=20),
    "cosine schedule of adamw": with_schedule(OPTIM.lr_scheduler.CosineAnnealingLR, OPTIM.AdamW, 0.01, T_max=20),
    "one cycle": with_schedule(OPTIM.lr_scheduler.OneCycleLR, OPTIM.AdamW, 0.01, max_lr=0.02, total_steps=200),
    "cyclic": with_schedule(OPTIM.lr_scheduler.CyclicLR, rate=0.05, optimizer_options={"momentum": 0.9}, base_lr=0.01,
                            max_lr=0.1, step_size_up=5),
    "one cycle, adam fused": with_schedule(OPTIM.lr_scheduler.OneCycleLR, OPTIM.Adam, 0.01, {"fused": True},
                                           max_lr=0.02, total_steps=200),
    "one cycle, adamw fused": with_schedule(OPTIM.lr_scheduler.OneCycleLR, OPTIM.AdamW, 0.01, {"fused": True},
                                            max_lr=0.02, total_steps=200),
    "cyclic, sgd fused": with_schedule(OPTIM.lr_scheduler.CyclicLR, rate=0.05, base_lr=0.01, max_lr=0.1, step_size_up=5,
                                       optimizer_options={"momentum": 0.9, "nesterov": True, "fused": True}),
    "asgd": with_optimizer(OPTIM.ASGD, lr=0.05, foreach=False),
    "asgd foreach": with_optimizer(OPTIM.ASGD, lr=0.05, foreach=True, weight_decay=0.01),
    "asgd that averages": with_optimizer(OPTIM.ASGD, lr=0.05, foreach=False, t0=2),
    "asgd foreach that averages": with_optimizer(OPTIM.ASGD, lr=0.05, foreach=True, t0=2),
    "rprop": with_optimizer(OPTIM.Rprop, lr=0.01),
    "dropout": with_layers(lambda: nn.Dropout(0.3)),
    "batch norm": with_layers(lambda: nn.BatchNorm1d(16), nn.Tanh),
    "layer norm and gelu": with_layers(lambda: nn.LayerNorm(16), nn.GELU),
    "silu, softplus, leaky": with_layers(nn.SiLU, nn.Softplus, nn.LeakyReLU),
    "gradients kept as zeros": Case(lambda: (lambda m: plain(m, OPTIM.SGD(m.parameters(), lr=0.1), set_to_none=False))
                                    (net())),
    "two optimizers": Case(two_optimizers),
    "accumulated": Case(accumulated),
    "accumulated over calls": Case(accumulated_outside),
    "tied weights": Case(tied, tokens),
    "moving average": Case(moving_average),
    "moving average inside": Case(moving_average_inside),
    "attention": Case(attention, sequence),
    "recurrent": Case(recurrent, sequence),
    "convolution": Case(convolution, images),
    "a method": Case(own_average),
    "a schedule inside": Case(scheduled_inside),
    "one number in a buffer": Case(one_number_in_a_buffer),
}


def leaves(value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, (list, tuple)) else [value]


class Steps(unittest.TestCase):

    def run_twin(self, case, accelerates):
        torch.manual_seed(0)
        step, model, between = case.make()
        if accelerates:
            step = crucible.accelerate(step)
        results = []
        for number in range(CALLS):
            x, y = case.inputs(number)
            torch.manual_seed(1000 + number)
            results.append([leaf if leaf is None else leaf.clone() for leaf in leaves(step(x, y))])
            between()
            if accelerates:
                step.wait(60)
        gradients = [parameter.grad for parameter in model.parameters()]
        return results, {**model.state_dict()}, gradients, step

    def check(self, name):
        case = CASES[name]
        theirs, their_state, their_grads, _ = self.run_twin(case, False)
        mine, my_state, my_grads, step = self.run_twin(case, True)
        report = step.report()
        for number, (a, b) in enumerate(zip(mine, theirs)):
            self.assertEqual(len(a), len(b))
            for x, y in zip(a, b):
                if isinstance(y, torch.Tensor):
                    torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5, msg=f"call {number}: {x} and {y}\n{report}")
        for key, value in their_state.items():
            torch.testing.assert_close(my_state[key], value, rtol=1e-3, atol=1e-4, msg=f"{key}\n{report}")
        for a, b in zip(my_grads, their_grads):
            self.assertEqual(a is None, b is None, str(report))
            if b is not None:
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=str(report))
        self.assertFalse(report.mismatches, str(report))
        if "CRUCIBLE_SHOW" in os.environ:
            print(f"{name}: {report}", flush=True)
        self.assertEqual(report.tier, "compiled", str(report))
        self.assertGreaterEqual(report.compiled_calls, 6, str(report))


for name in CASES:
    setattr(Steps, "test_" + "".join(c if c.isalnum() else "_" for c in name),
            lambda self, name=name: self.check(name))

if __name__ == "__main__":
    unittest.main()
