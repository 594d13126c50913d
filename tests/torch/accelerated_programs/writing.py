"""Ways of writing a step: what it is given, what it returns, what it keeps and counts."""

import collections
import contextlib
import dataclasses
import functools
import itertools
import types

import torch
import torch.nn.functional as F
from torch import nn

from accelerated_programs.register import NS, cls_batch, mlp, program


@program
def trainer_class():

    class Trainer:

        def __init__(self):
            self.model = mlp()
            self.opt = torch.optim.Adam(self.model.parameters(), 0.001)
            self.crit = nn.CrossEntropyLoss()
            self.clip = 1.0

        def train_step(self, x, y):
            self.model.train()
            self.opt.zero_grad()
            out = self.model(x)
            loss = self.crit(out, y)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
            self.opt.step()
            return loss.detach()

    t = Trainer()
    return NS(step=t.train_step, net=t.model, batch=cls_batch())


@program
def trainer_item():

    class Trainer:

        def __init__(self):
            self.model = mlp()
            self.opt = torch.optim.Adam(self.model.parameters(), 0.001)
            self.crit = nn.CrossEntropyLoss()
            self.clip = 1.0

        def train_step(self, x, y):
            self.opt.zero_grad()
            loss = self.crit(self.model(x), y)
            loss.backward()
            self.opt.step()
            return loss.item()

    t = Trainer()
    return NS(step=t.train_step, net=t.model, batch=cls_batch())


@program
def dataclass_config():

    @dataclasses.dataclass
    class Cfg:
        lr: float = 0.001
        wd: float = 0.1
        smoothing: float = 0.1
        grad_clip: float | None = 1.0

    cfg = Cfg()
    m = mlp()
    opt = torch.optim.AdamW(m.parameters(), lr=cfg.lr, weight_decay=cfg.wd)

    def step(x, y):
        logits = m(x)
        loss = F.cross_entropy(logits, y, label_smoothing=cfg.smoothing)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        if cfg.grad_clip is not None:
            norm = torch.nn.utils.clip_grad_norm_(m.parameters(), cfg.grad_clip)
        opt.step()
        return {"loss": loss.detach(), "norm": norm.detach(), "acc": (logits.argmax(-1) == y).float().mean()}

    return NS(step=step, net=m, batch=cls_batch())


@program
def acc_metrics_item():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9, nesterov=True)

    def step(x, y):
        o.zero_grad()
        out = m(x)
        l = F.cross_entropy(out, y)
        l.backward()
        o.step()
        _, pred = out.max(1)
        correct = pred.eq(y).sum().item()
        return (l.item() * x.size(0), correct, 100.0 * correct / y.size(0))

    return NS(step=step, net=m, batch=cls_batch())


@program
def dict_batch():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(batch):
        x, y = (batch["x"], batch["y"])
        mask = batch.get("mask")
        out = m(x)
        l = F.cross_entropy(out, y, reduction="none")
        if mask is not None:
            l = (l * mask).sum() / mask.sum()
        else:
            l = l.mean()
        o.zero_grad()
        l.backward()
        o.step()
        return {"loss": l.detach()}

    return NS(
        step=step,
        net=m,
        batch=lambda: (
            {"x": torch.randn(32, 16), "y": torch.randint(0, 4, (32,)), "mask": (torch.rand(32) > 0.2).float()},
        ),
    )


@program
def to_device():
    m = mlp()
    o = torch.optim.Adam(m.parameters())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    m.to(device)

    def step(x, y):
        x, y = (x.to(device, non_blocking=True), y.to(device))
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach().cpu()

    return NS(step=step, net=m, batch=cls_batch())


@program(eager="writes into o.param_groups")
def lr_arg():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    k = itertools.count()

    def step(x, y, lr):
        for g in o.param_groups:
            g["lr"] = lr
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (*cls_batch()(), 0.1 / (1 + next(k))))


@program
def kl_weight_arg():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    k = itertools.count()

    def step(x, y, w):
        o.zero_grad()
        l = F.cross_entropy(m(x), y) + w * m(x).square().mean()
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (*cls_batch()(), min(1.0, 0.01 * next(k))), calls=90)


@program
def partial_step():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(model, opt, crit, x, y):
        opt.zero_grad()
        l = crit(model(x), y)
        l.backward()
        opt.step()
        return l.detach()

    return NS(step=functools.partial(step, m, o, nn.CrossEntropyLoss()), net=m, batch=cls_batch())


@program
def model_opt_args():
    m = mlp()
    o = torch.optim.Adam(m.parameters())
    crit = nn.CrossEntropyLoss()

    def step(model, opt, crit, x, y):
        opt.zero_grad()
        l = crit(model(x), y)
        l.backward()
        opt.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (m, o, crit, *cls_batch()()))


@program
def infer_mode_fn():
    m = mlp().eval()

    @torch.no_grad()
    def step(x):
        return m(x).softmax(-1).topk(2)

    return NS(step=step, net=m, batch=lambda: (torch.randn(8, 16),))


@program
def returns_live_loss():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l

    return NS(step=step, net=m, batch=cls_batch())


@program
def returns_logits_live():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        out = m(x)
        l = F.cross_entropy(out, y)
        l.backward()
        o.step()
        return (l, out)

    return NS(step=step, net=m, batch=cls_batch())


@program
def try_finally_ctx():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    @contextlib.contextmanager
    def freeze(mod):
        mod.requires_grad_(False)
        try:
            yield
        finally:
            mod.requires_grad_(True)

    d = nn.Linear(4, 1)

    def step(x, y):
        with freeze(d):
            l = F.cross_entropy(m(x), y) + d(m(x)).mean()
        o.zero_grad()
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def property_module():

    class M(nn.Module):

        def __init__(s):
            super().__init__()
            s.net = mlp()

        @property
        def device(s):
            return next(s.parameters()).device

        def forward(s, x):
            return s.net(x.to(s.device))

    m = M()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def assert_shapes():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        assert x.ndim == 2 and x.shape[0] == y.shape[0], f"bad {x.shape}"
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        assert not torch.isnan(l).any(), "nan"
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def two_returns_namedtuple():
    Out = collections.namedtuple("Out", "loss logits")
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        out = m(x)
        l = F.cross_entropy(out, y)
        l.backward()
        o.step()
        return Out(l.detach(), out.detach())

    return NS(step=step, net=m, batch=cls_batch())


@program
def returns_dataclass():

    @dataclasses.dataclass
    class Out:
        loss: torch.Tensor
        logits: torch.Tensor

    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        out = m(x)
        l = F.cross_entropy(out, y)
        l.backward()
        o.step()
        return Out(l.detach(), out.detach())

    return NS(step=step, net=m, batch=cls_batch())


@program
def all_args():
    cfg = types.SimpleNamespace(clip=1.0, use=True)
    m = mlp()
    o = torch.optim.Adam(m.parameters())
    device = torch.device("cpu")

    def step(model, batch, optimizer, loss_fn, device, cfg):
        x, y = (b.to(torch.device(device)) for b in batch)
        optimizer.zero_grad()
        l = loss_fn(model(x), y)
        l.backward()
        if cfg.use:
            nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        optimizer.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (m, list(cls_batch()()), o, F.cross_entropy, torch.device("cpu"), cfg))


@program
def batch_object():

    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor
        y: torch.Tensor

    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(b):
        o.zero_grad()
        l = F.cross_entropy(m(b.x), b.y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (Batch(*cls_batch()()),), calls=90)


@program
def forward_arg():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(forward, x, y, **kw):
        o.zero_grad()
        l = F.cross_entropy(forward(x), y, **kw)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (m.forward, *cls_batch()()))


@program
def lambda_arg():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(f, x, y, **kw):
        o.zero_grad()
        l = F.cross_entropy(f(m(x)), y, **kw)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (lambda v: v * 2, *cls_batch()()), calls=90)


@program
def nested_dataclass():

    @dataclasses.dataclass(frozen=True)
    class In:
        acc: torch.Tensor
        n: int = 3

    @dataclasses.dataclass
    class Out:
        loss: torch.Tensor
        inner: In
        parts: dict = dataclasses.field(default_factory=dict)
        k: str = "a"

    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        out = m(x)
        l = F.cross_entropy(out, y)
        l.backward()
        o.step()
        return [Out(l.detach(), In((out.argmax(1) == y).sum()), {"x": out.detach()})]

    return NS(step=step, net=m, batch=cls_batch())


@program
def namespace_result():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        out = m(x)
        l = F.cross_entropy(out, y)
        l.backward()
        o.step()
        return types.SimpleNamespace(loss=l.detach(), n=3)

    return NS(step=step, net=m, batch=cls_batch())


@program
def in_model_dataclass():

    @dataclasses.dataclass
    class Out:
        logits: torch.Tensor
        loss: torch.Tensor | None = None

    class M(nn.Module):

        def __init__(s):
            super().__init__()
            s.f = mlp()

        def forward(s, x, y=None):
            lg = s.f(x)
            return Out(lg, F.cross_entropy(lg, y) if y is not None else None)

    m = M()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        out = m(x, y)
        out.loss.backward()
        o.step()
        return out.loss.detach()

    return NS(step=step, net=m, batch=cls_batch())
