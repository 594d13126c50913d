"""Ways of training: losses, optimizers, schedules, averages, several networks."""

import copy
import itertools

import torch
import torch.nn.functional as F
from torch import nn

from accelerated_programs.register import NS, cls_batch, mlp, program


@program
def amp_bf16():
    m = mlp(act=nn.GELU)
    o = torch.optim.AdamW(m.parameters())

    def step(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            l = F.cross_entropy(m(x), y)
        o.zero_grad()
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch(), tol=0.02)


@program
def grad_scaler():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    sc = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=10)

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        sc.scale(l).backward()
        sc.unscale_(o)
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        sc.step(o)
        sc.update()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def nan_skip():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        if not torch.isfinite(l):
            return None
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def ema_deepcopy():
    m = mlp()
    e = copy.deepcopy(m).requires_grad_(False)
    o = torch.optim.Adam(m.parameters())

    @torch.no_grad()
    def update():
        for pe, p in zip(e.parameters(), m.parameters()):
            pe.mul_(0.99).add_(p, alpha=0.01)

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        update()
        return l.detach()

    return NS(step=step, net=nn.ModuleList([m, e]), batch=cls_batch())


@program
def checkpointed():
    from torch.utils.checkpoint import checkpoint

    a, b = (mlp(16, 32, 16), mlp())
    o = torch.optim.Adam([*a.parameters(), *b.parameters()])

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(b(checkpoint(a, x, use_reentrant=False)), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=nn.ModuleList([a, b]), batch=cls_batch())


@program(eager="sets them back")
def checkpointed_dropout():
    from torch.utils.checkpoint import checkpoint

    a, b = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.3)), mlp()
    o = torch.optim.SGD([*a.parameters(), *b.parameters()], 0.1)

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(b(checkpoint(a, x, use_reentrant=False)), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=nn.ModuleList([a, b]), batch=cls_batch())


@program
def spectral_norm():
    m = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(16, 32)), nn.ReLU(), nn.Linear(32, 4))
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def weight_norm():
    m = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(16, 32)), nn.ReLU(), nn.Linear(32, 4))
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def custom_function():

    class Ste(torch.autograd.Function):

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sign()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() <= 1).float()

    a, b = (nn.Linear(16, 32), nn.Linear(32, 4))
    o = torch.optim.Adam([*a.parameters(), *b.parameters()])

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(b(Ste.apply(a(x))), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=nn.ModuleList([a, b]), batch=cls_batch())


@program
def manual_sgd():
    W = torch.randn(16, 4, requires_grad=True)
    b = torch.zeros(4, requires_grad=True)
    lr = 0.1

    def step(x, y):
        l = F.cross_entropy(x @ W + b, y)
        l.backward()
        with torch.no_grad():
            for p in (W, b):
                p -= lr * p.grad
                p.grad.zero_()
        return l.detach()

    n = nn.Module()
    n.W = nn.Parameter(W)
    n.W.data = W.data
    return NS(step=step, net=n, batch=cls_batch())


@program
def manual_sgd_none():
    W = torch.randn(16, 4, requires_grad=True)
    b = torch.zeros(4, requires_grad=True)
    lr = 0.1

    def step(x, y):
        l = F.cross_entropy(x @ W + b, y)
        l.backward()
        with torch.no_grad():
            for p in (W, b):
                p -= lr * p.grad
                p.grad = None
        return l.detach()

    n = nn.Module()
    n.W = nn.Parameter(W)
    n.W.data = W.data
    return NS(step=step, net=n, batch=cls_batch())


@program
def autograd_grad_sgd():
    m = mlp()
    params = list(m.parameters())

    def step(x, y):
        l = F.cross_entropy(m(x), y)
        gs = torch.autograd.grad(l, params)
        with torch.no_grad():
            for p, g in zip(params, gs):
                p.sub_(g, alpha=0.05)
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def maml_like():
    m = nn.Linear(4, 1)
    o = torch.optim.Adam(m.parameters(), 0.01)

    def step(xs, ys, xq, yq):
        w, b = (m.weight, m.bias)
        l = F.mse_loss(F.linear(xs, w, b), ys)
        gw, gb = torch.autograd.grad(l, (w, b), create_graph=True)
        lq = F.mse_loss(F.linear(xq, w - 0.1 * gw, b - 0.1 * gb), yq)
        o.zero_grad()
        lq.backward()
        o.step()
        return lq.detach()

    return NS(
        step=step, net=m, batch=lambda: (torch.randn(8, 4), torch.randn(8, 1), torch.randn(8, 4), torch.randn(8, 1))
    )


@program
def functional_call():
    m = mlp()
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(torch.func.functional_call(m, dict(m.named_parameters()), (x,)), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program(eager="LBFGS decides by tensors' values")
def closure_lbfgs():
    m = nn.Linear(4, 1)
    o = torch.optim.LBFGS(m.parameters(), max_iter=4)

    def step(x, y):

        def closure():
            o.zero_grad()
            l = F.mse_loss(m(x), y)
            l.backward()
            return l

        return o.step(closure).detach()

    return NS(step=step, net=m, batch=lambda: (torch.randn(8, 4), torch.randn(8, 1)))


@program
def adam_closure():
    m = nn.Linear(4, 1)
    o = torch.optim.Adam(m.parameters())

    def step(x, y):

        def closure():
            o.zero_grad()
            l = F.mse_loss(m(x), y)
            l.backward()
            return l

        return o.step(closure).detach()

    return NS(step=step, net=m, batch=lambda: (torch.randn(8, 4), torch.randn(8, 1)))


@program
def sam():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.05)
    rho = 0.05

    def step(x, y):
        l = F.cross_entropy(m(x), y)
        l.backward()
        with torch.no_grad():
            gn = torch.norm(torch.stack([p.grad.norm() for p in m.parameters()]))
            es = []
            for p in m.parameters():
                e = p.grad * (rho / (gn + 1e-12))
                p.add_(e)
                es.append(e)
        o.zero_grad()
        F.cross_entropy(m(x), y).backward()
        with torch.no_grad():
            for p, e in zip(m.parameters(), es):
                p.sub_(e)
        o.step()
        o.zero_grad()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def stochastic_depth_torch():

    class Blk(nn.Module):

        def __init__(s):
            super().__init__()
            s.f = nn.Linear(16, 16)

        def forward(s, x):
            if s.training:
                return x + s.f(x) * (torch.rand(x.size(0), 1) < 0.8) / 0.8
            return x + s.f(x)

    m = nn.Sequential(Blk(), Blk(), nn.Linear(16, 4))
    o = torch.optim.Adam(m.parameters())

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def swa_model():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)
    swa = torch.optim.swa_utils.AveragedModel(m, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        swa.update_parameters(m)
        return l.detach()

    return NS(step=step, net=nn.ModuleList([m, swa]), batch=cls_batch())


@program
def gradient_accum_flag():
    m = mlp()
    o = torch.optim.Adam(m.parameters())
    k = itertools.count()

    def step(x, y, do_step):
        l = F.cross_entropy(m(x), y) / 4
        l.backward()
        if do_step:
            o.step()
            o.zero_grad()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (*cls_batch()(), next(k) % 4 == 3), calls=120)


@program(eager="variants")
def gradient_accum_counter():
    m = mlp()
    o = torch.optim.Adam(m.parameters())
    k = itertools.count()

    def step(i, x, y):
        l = F.cross_entropy(m(x), y) / 4
        l.backward()
        if (i + 1) % 4 == 0:
            o.step()
            o.zero_grad()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (next(k), *cls_batch()()), calls=120)


@program(eager="reads sch.get_last_lr() and steps a scheduler")
def lambda_sched_warmup():
    m = mlp()
    o = torch.optim.AdamW(m.parameters(), 0.001)
    sch = torch.optim.lr_scheduler.LambdaLR(o, lambda s: min(1.0, (s + 1) / 20))

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        sch.step()
        return (l.detach(), sch.get_last_lr()[0])

    return NS(step=step, net=m, batch=cls_batch())


@program(eager="stepped by a value")
def plateau():
    m = mlp()
    o = torch.optim.Adam(m.parameters())
    sch = torch.optim.lr_scheduler.ReduceLROnPlateau(o)

    def step(x, y):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
        sch.step(l.detach())
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())


@program
def turned_weights():
    """Weights that lie in memory column by column: so do their gradients, which one call leaves and another adds to."""
    net = mlp()
    for layer in net[::2]:
        layer.weight.data = layer.weight.data.t().contiguous().t()
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    numbers = itertools.count()

    def step(x, y, is_last):
        loss = F.cross_entropy(net(x), y) / 3
        loss.backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach(), net(x).t().detach().clone(memory_format=torch.preserve_format)

    def state_dict():
        grads = [parameter.grad for parameter in net.parameters()]
        strides = [() if grad is None else grad.stride() for grad in grads]
        return {**net.state_dict(), "strides": torch.tensor([len(each) + sum(each) for each in strides]),
                **{f"grad {k}": torch.zeros(()) if grad is None else grad for k, grad in enumerate(grads)}}

    return NS(step=step, net=NS(state_dict=state_dict),
              batch=lambda: (*cls_batch()(), next(numbers) % 3 == 2), calls=60)


@program(eager="an optimizer steps after a scheduler did")
def schedule_before_the_optimizer():
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    optimizer.step()  # or torch warns

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        scheduler.step()
        optimizer.step()
        return loss.detach()

    return NS(step=step, net=net, batch=cls_batch())
