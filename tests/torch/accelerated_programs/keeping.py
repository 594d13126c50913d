"""Steps that keep, count, switch or return what lives longer than a call."""

import copy
import itertools
import logging
import types

import torch
import torch.nn.functional as F
from torch import nn

from accelerated_programs.register import NS, cls_batch, mlp, program


@program
def counter_attr():

    class T:

        def __init__(s):
            s.m = mlp()
            s.o = torch.optim.SGD(s.m.parameters(), 0.1)
            s.global_step = 0

        def step(s, x, y):
            s.o.zero_grad()
            l = F.cross_entropy(s.m(x), y)
            l.backward()
            s.o.step()
            s.global_step += 1
            return l.detach()

    t = T()
    return NS(step=t.step, net=t.m, batch=cls_batch())


@program(eager="keeping.py:")
def loss_list():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    hist = []

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        hist.append(l.item())
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def cell():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    n = 0

    def step(x, y):
        nonlocal n
        n += 1
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    def state_dict():
        return {"n": torch.tensor(float(n))}

    return NS(step=step, net=NS(state_dict=state_dict), batch=cls_batch())


@program
def module_counter():

    class M(nn.Module):

        def __init__(s):
            super().__init__()
            s.f = mlp()
            s.calls = 0
            s.register_buffer("seen", torch.zeros((), dtype=torch.long))

        def forward(s, x):
            s.calls += 1
            s.seen += x.shape[0]
            return s.f(x)

    m = M()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(
        step=step,
        net=NS(state_dict=lambda: {**m.state_dict(), "calls": torch.tensor(float(m.calls))}),
        batch=cls_batch(),
    )


@program(eager="changes acts")
def forward_hook():
    m = mlp()
    acts = {}
    m[0].register_forward_hook(lambda mod, i, o: acts.__setitem__("h", o))
    o = torch.optim.SGD(m.parameters(), 0.1)

    def step(x, y):
        o.zero_grad()
        out = m(x)
        l = F.cross_entropy(out, y) + 0.001 * acts["h"].abs().mean()
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def epochs_train_eval():
    k = itertools.count()
    m = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.1), nn.Linear(32, 4))
    o = torch.optim.SGD(m.parameters(), 0.02)

    def step(x, y):
        m.train()
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    def b():
        if next(k) % 15 == 14:
            m.eval()
            with torch.no_grad():
                m(torch.randn(3, 16))
        return cls_batch()()

    return NS(step=step, net=m, batch=b, calls=100)


@program
def evaluate_fn():
    k = itertools.count()
    m = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.1), nn.Linear(32, 4))

    @torch.no_grad()
    def evaluate(x, y):
        m.eval()
        out = m(x)
        return (F.cross_entropy(out, y), (out.argmax(1) == y).sum())

    def b():
        if next(k) % 15 == 14:
            m.train()
        return cls_batch()()

    return NS(step=evaluate, net=m, batch=b, calls=100)


@program
def train_and_back():
    k = itertools.count()
    m = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Dropout(0.1), nn.Linear(32, 4))

    @torch.no_grad()
    def evaluate(x, y):
        was = m.training
        m.eval()
        out = m(x)
        m.train(was)
        return (F.cross_entropy(out, y), (out.argmax(1) == y).sum())

    return NS(step=evaluate, net=m, batch=cls_batch(), calls=40)


@program(eager="writes a log")
def logging_debug():

    log = logging.getLogger("x")
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        log.debug("stepped")
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def cfg_changes():

    k = itertools.count()
    cfg = types.SimpleNamespace(clip=1.0, use=True)
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(model, x, y, cfg):
        o.zero_grad()
        l = F.cross_entropy(model(x), y)
        l.backward()
        if cfg.use:
            nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        o.step()
        return l.detach()

    def b():
        n = next(k)
        if n == 20:
            cfg.clip = 0.01
        if n == 30:
            cfg.use = False
        return (m, *cls_batch()(), cfg)

    return NS(step=step, net=m, batch=b)


@program
def configuration_that_is_copied():

    class Config:

        def __init__(s):
            s.scale, s.parts, s.is_on = 1.0, {"bias": 0.5}, True

        def __len__(s):
            return 2 if s.is_on else 0

    k, cfg, m = itertools.count(), Config(), mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        mine = copy.deepcopy(cfg)
        mine.scale = 2.0 * mine.scale
        o.zero_grad()
        l = F.cross_entropy(m(x), y) * mine.scale + mine.parts["bias"]
        if mine:
            l = 3.0 * l
        l.backward()
        o.step()
        return l.detach()

    def b():
        n = next(k)
        cfg.scale, cfg.is_on = 1.0 if n < 20 else 0.5, n < 40
        cfg.parts["bias"] = 0.5 if n < 60 else 1.5
        return cls_batch()()

    return NS(step=step, net=m, batch=b, calls=80)


@program
def models_in_turn():

    k = itertools.count()
    ms = [mlp(), mlp()]
    os_ = [torch.optim.Adam(m.parameters()) for m in ms]

    def step(model, opt, x, y):
        opt.zero_grad()
        l = F.cross_entropy(model(x), y)
        l.backward()
        opt.step()
        return l.detach()

    def b():
        n = next(k) % 2
        return (ms[n], os_[n], *cls_batch()())

    return NS(step=step, net=nn.ModuleList(ms), batch=b)


@program(eager="that lives longer")
def returned_outside_object():
    kept = types.SimpleNamespace(a=1, w=torch.zeros(3))
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        out = m(x)
        l = F.cross_entropy(out, y)
        l.backward()
        o.step()
        return (l.detach(), kept)

    return NS(step=step, net=m, batch=cls_batch())


@program(eager="or twice")
def returned_twice():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        out = m(x)
        l = F.cross_entropy(out, y)
        l.backward()
        o.step()
        n = types.SimpleNamespace(l=l.detach())
        return (n, n)

    return NS(step=step, net=m, batch=cls_batch())
