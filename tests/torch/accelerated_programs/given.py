"""Steps that are given an object, a closure or a partial that is new in each call, and steps whose effects hide in
objects."""

import collections
import contextlib
import dataclasses
import functools
import typing

import torch
import torch.nn.functional as F
from torch import nn

from accelerated_programs.register import NS, cls_batch, mlp, program


def fit(o, loss):
    o.zero_grad()
    loss.backward()
    o.step()
    return loss.detach()


def sample(size=8):
    return torch.randn(size, 16), torch.randint(0, 4, (size,))


def trained(make, loss):
    """A step that is given what make(number of the call) makes."""
    m, calls = mlp(), [0]
    o = torch.optim.SGD(m.parameters(), 0.1)

    def step(batch):
        return fit(o, loss(m, batch))

    def batch():
        calls[0] += 1
        return (make(calls[0]),)

    return NS(step=step, net=m, batch=batch, calls=40)


class Batch:

    def __init__(self, x, y, **more):
        self.x, self.y = x, y
        self.__dict__.update(more)

    def to(self, device):
        return type(self)(self.x.to(device), self.y.to(device))

    @property
    def size(self):
        return self.x.shape[0]


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor
    y: torch.Tensor


@dataclasses.dataclass(slots=True)
class Slotted:
    x: torch.Tensor
    y: torch.Tensor


class Named(typing.NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Keys(dict):

    def __getattr__(self, key):
        return self[key]


class Graph:

    def __init__(self, **parts):
        self._store = dict(parts)

    def __getattr__(self, key):
        if key == "_store" or key not in self._store:
            raise AttributeError(key)
        return self._store[key]


def plain(m, batch):
    return F.cross_entropy(m(batch.x), batch.y)


@program
def object_with_a_property_and_a_method():
    return trained(lambda n: Batch(*sample(8 if n % 7 else 5)), lambda m, b: plain(m, b.to("cpu")) / b.size)


@program
def object_with_numbers_and_parts():
    return trained(lambda n: Batch(*sample(), scale=0.5, mode="ab"[n % 2], inner={"w": [torch.ones(4)]}),
                   lambda m, b: F.cross_entropy(m(b.x), b.y, b.inner["w"][0]) * (b.scale if b.mode == "a" else 2.0))


@program
def object_whose_part_is_sometimes_there():
    return trained(lambda n: Batch(*sample(), **({"scale": 2.0} if n > 12 and n % 2 else {})),
                   lambda m, b: plain(m, b) * getattr(b, "scale", 1.0))


@program
def frozen_dataclass_of_views():
    return trained(lambda n: Frozen(torch.randn(20, 16)[4:12], torch.randint(0, 4, (20,))[:8]), plain)


@program
def slotted_dataclass():
    return trained(lambda n: Slotted(*sample()), plain)


@program
def named_tuple():
    return trained(lambda n: Named(*sample()), plain)


@program
def dict_with_attributes():
    return trained(lambda n: Keys(zip("xy", sample())), lambda m, b: F.cross_entropy(m(b["x"]), b.y))


@program
def object_with_getattr():
    return trained(lambda n: Graph(**dict(zip("xy", sample()))), plain)


@program
def objects_in_a_list():
    return trained(lambda n: [Batch(*sample()) for _ in range(3)], lambda m, bs: sum(plain(m, b) for b in bs))


@program
def one_tensor_in_two_attributes():

    def make(n):
        x, y = sample()
        return Batch(x, y, z=x if n < 14 else torch.randn(8, 16))

    return trained(make, lambda m, b: F.cross_entropy(m(b.x + b.z), b.y))


@program
def object_with_a_shared_configuration():
    cfg = NS(scale=2.0, weight=torch.ones(4))

    def make(n):
        if n == 12:
            cfg.scale = 3.0
        if n == 18:
            cfg.weight = torch.full((4,), 0.5)
        return Batch(*sample(), cfg=cfg)

    return trained(make, lambda m, b: F.cross_entropy(m(b.x), b.y, b.cfg.weight) * b.cfg.scale)


@program
def class_that_is_changed():

    class Scaled(Batch):

        def scale(self):
            return 1.0

    def make(n):
        if n == 14:
            Scaled.scale = lambda self: 2.0
        return Scaled(*sample())

    return trained(make, lambda m, b: plain(m, b) * b.scale())


@program
def closures_of_two_codes():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    calls = [0]

    def step(x, y, criterion):
        return fit(o, criterion(m(x), y))

    def batch():
        calls[0] += 1
        weight = 0.5 if calls[0] < 20 else 2.0
        if calls[0] % 3:
            return *sample(), lambda p, t: F.cross_entropy(p, t) * weight
        return *sample(), lambda p, t: F.cross_entropy(p, t) * 3

    return NS(step=step, net=m, batch=batch, calls=80)


@program
def partial_and_method():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)

    def loss(x, y, scale=1.0):
        return F.cross_entropy(m(x), y) * scale

    class Task:

        def __init__(self, x, y):
            self.x, self.y = x, y

        def loss(self):
            return loss(self.x, self.y)

    def step(first, second):
        return fit(o, first() + second())

    return NS(step=step, net=m, batch=lambda: (functools.partial(loss, *sample(), scale=0.5), Task(*sample()).loss))


@program(eager="stores argument batch.seen")
def object_that_counts():

    def use(m, batch):
        batch.seen += 1
        return plain(m, batch)

    made = []

    def make(n):
        made.append(Batch(*sample(), seen=3))
        return made[-1]

    p = trained(make, use)
    net = NS(state_dict=lambda: {"seen": torch.tensor([b.seen for b in made]) * 1.0})
    return NS(step=p.step, batch=p.batch, net=net)


@program(eager="writes into argument batch")
def dict_that_counts():

    def use(m, batch):
        batch["seen"] += 1
        return F.cross_entropy(m(batch["x"]), batch["y"])

    return trained(lambda n: {**dict(zip("xy", sample())), "seen": 3}, use)


def with_effect(make):
    """make(what has an effect) gives a function of the model's and the batch."""
    m, seen = mlp(), []
    o = torch.optim.SGD(m.parameters(), 0.1)
    loss = make(lambda: seen.append(1), m)

    def step(x, y):
        return fit(o, loss(x, y))

    return NS(step=step, batch=cls_batch(8), net=NS(state_dict=lambda: {"seen": torch.tensor(float(len(seen)))}))


@program(eager="changes seen")
def what_a_with_statement_gives_has_an_effect():

    def make(effect, m):

        class Scope:

            def __enter__(self):
                return self

            def __exit__(self, *_):
                return False

            def note(self, loss):
                effect()
                return loss

        def loss(x, y):
            with Scope() as scope:
                return scope.note(F.cross_entropy(m(x), y))

        return loss

    return with_effect(make)


@program(eager="changes seen")
def what_a_module_gives_has_an_effect():

    def make(effect, m):

        class Out:

            def __init__(self, logits):
                self.logits = logits

            def take(self):
                effect()
                return self.logits

        class Wrapped(nn.Module):

            def forward(self, x):
                return Out(m(x))

        net = nn.Sequential(Wrapped())
        return lambda x, y: F.cross_entropy(net(x).take(), y)

    return with_effect(make)


@program(eager="whose __del__ runs")
def what_is_gone_has_an_effect():

    def make(effect, m):

        class Held:

            def __del__(self):
                effect()

        def loss(x, y):
            held = Held()
            return F.cross_entropy(m(x), y) * (2.0 if held else 1.0)

        return loss

    return with_effect(make)


class Encoding(collections.UserDict):

    def __getitem__(self, key):
        return self.data[key]

    def __getattr__(self, key):
        if key == "data" or key not in self.data:
            raise AttributeError(key)
        return self.data[key]

    def items(self):
        return self.data.items()


@program
def mapping_that_is_spread():

    def loss(x, y, mask=None):
        return x.sum() if mask is not None else F.cross_entropy(net(x), y)

    net = mlp()
    o = torch.optim.SGD(net.parameters(), 0.1)

    def step(batch):
        return fit(o, loss(**batch))

    return NS(step=step, net=net, batch=lambda: (Encoding(zip("xy", sample())),))


@program
def mapping_that_is_walked():

    def use(m, batch):
        moved = {key: value.to("cpu") for key, value in batch.items()}
        return F.cross_entropy(m(moved["x"]), batch.y)

    return trained(lambda n: Encoding(zip("xy", sample())), use)


@program(eager="changes seen")
def what_a_context_of_a_generator_gives_has_an_effect():

    def make(effect, m):

        class Scope:

            def note(self, loss):
                effect()
                return loss

        @contextlib.contextmanager
        def scope():
            yield Scope()

        def loss(x, y):
            with scope() as inner:
                return inner.note(F.cross_entropy(m(x), y))

        return loss

    return with_effect(make)


@program(eager="changes seen")
def end_of_a_context_of_a_generator_has_an_effect():

    def make(effect, m):

        @contextlib.contextmanager
        def scope():
            yield
            effect()

        def loss(x, y):
            with scope():
                return F.cross_entropy(m(x), y)

        return loss

    return with_effect(make)


@program
def context_that_freezes_and_context_that_exchanges():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    average = [parameter.detach().clone() for parameter in m.parameters()]

    @contextlib.contextmanager
    def frozen(*parts):
        before = [[parameter.requires_grad for parameter in part.parameters()] for part in parts]
        for part in parts:
            part.requires_grad_(False)
        try:
            yield
        finally:
            for part, flags in zip(parts, before):
                for parameter, flag in zip(part.parameters(), flags):
                    parameter.requires_grad_(flag)

    @contextlib.contextmanager
    def averaged():
        kept = [parameter.detach().clone() for parameter in m.parameters()]
        with torch.no_grad():
            for parameter, value in zip(m.parameters(), average):
                parameter.copy_(value)
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, value in zip(m.parameters(), kept):
                    parameter.copy_(value)

    def step(x, y):
        with frozen(m[0], m[2]):
            first = fit(o, F.cross_entropy(m(x), y))
        second = fit(o, F.cross_entropy(m(x), y))
        with torch.no_grad():
            for value, parameter in zip(average, m.parameters()):
                value.lerp_(parameter, 0.1)
        with averaged(), torch.no_grad():
            return first, second, m(x)

    return NS(step=step, net=m, batch=cls_batch(8))


@program
def gradients_that_are_returned():
    m = mlp()

    def step(x, y):
        loss = F.cross_entropy(m(x), y)
        loss.backward()
        return loss.detach(), [parameter.grad for parameter in m.parameters()]

    kept = []

    def batch():
        if len(kept) % 5 == 4:
            m.zero_grad()
        return cls_batch(8)()

    def state_dict():  # what was returned is added to by the calls that follow
        return {"kept": torch.stack(kept)}

    return NS(step=step, net=NS(state_dict=state_dict), batch=batch, after=lambda result: kept.append(result[1][0]))
