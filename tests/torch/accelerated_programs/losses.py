"""Losses that need more than a target: several networks, random numbers, policies."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import nn

from accelerated_programs.register import NS, cls_batch, mlp, program


@program
def gan():
    G = nn.Sequential(nn.Linear(8, 32), nn.LeakyReLU(0.2), nn.Linear(32, 2))
    D = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    og = torch.optim.Adam(G.parameters(), 0.0002, betas=(0.5, 0.999))
    od = torch.optim.Adam(D.parameters(), 0.0002, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()

    def step(real):
        b = real.size(0)
        z = torch.randn(b, 8)
        fake = G(z)
        od.zero_grad()
        ld = bce(D(real), torch.ones(b, 1)) + bce(D(fake.detach()), torch.zeros(b, 1))
        ld.backward()
        od.step()
        og.zero_grad()
        lg = bce(D(fake), torch.ones(b, 1))
        lg.backward()
        og.step()
        return (ld.detach(), lg.detach())

    return NS(step=step, net=nn.ModuleList([G, D]), batch=lambda: (torch.randn(64, 2),))


@program
def wgan_gp():
    D = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    od = torch.optim.RMSprop(D.parameters(), 0.001)

    def step(real, fake):
        a = torch.rand(real.size(0), 1)
        inter = (a * real + (1 - a) * fake).requires_grad_(True)
        g = torch.autograd.grad(D(inter).sum(), inter, create_graph=True)[0]
        gp = ((g.norm(2, dim=1) - 1) ** 2).mean()
        loss = D(fake).mean() - D(real).mean() + 10 * gp
        od.zero_grad()
        loss.backward()
        od.step()
        return loss.detach()

    return NS(step=step, net=D, batch=lambda: (torch.randn(32, 4), torch.randn(32, 4)))


@program
def vae():

    class VAE(nn.Module):

        def __init__(s):
            super().__init__()
            s.e = nn.Linear(20, 32)
            s.mu = nn.Linear(32, 4)
            s.lv = nn.Linear(32, 4)
            s.d = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20))

        def encode(s, x):
            h = F.relu(s.e(x))
            return (s.mu(h), s.lv(h))

        def reparameterize(s, mu, lv):
            std = torch.exp(0.5 * lv)
            return mu + torch.randn_like(std) * std

        def forward(s, x):
            mu, lv = s.encode(x)
            z = s.reparameterize(mu, lv)
            return (s.d(z), mu, lv)

    m = VAE()
    o = torch.optim.Adam(m.parameters())

    def loss_function(r, x, mu, lv):
        return F.binary_cross_entropy_with_logits(r, x, reduction="sum") + -0.5 * torch.sum(
            1 + lv - mu.pow(2) - lv.exp()
        )

    def step(x):
        o.zero_grad()
        r, mu, lv = m(x)
        l = loss_function(r, x, mu, lv)
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (torch.rand(16, 20),))


@program
def ddpm():
    T = 100
    betas = torch.linspace(0.0001, 0.02, T)
    abar = torch.cumprod(1 - betas, 0)
    m = mlp(3, 64, 2)
    o = torch.optim.Adam(m.parameters())

    def step(x0):
        t = torch.randint(0, T, (x0.size(0),))
        n = torch.randn_like(x0)
        a = abar[t][:, None]
        xt = a.sqrt() * x0 + (1 - a).sqrt() * n
        l = F.mse_loss(m(torch.cat([xt, t[:, None] / T], 1)), n)
        o.zero_grad()
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (torch.randn(64, 2),))


@program
def contrastive():
    m = mlp(o=16)
    temp = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
    o = torch.optim.AdamW([*m.parameters(), temp], 0.001)

    def step(a, b):
        za = F.normalize(m(a), dim=-1)
        zb = F.normalize(m(b), dim=-1)
        lg = za @ zb.t() * temp.exp()
        y = torch.arange(len(a))
        l = (F.cross_entropy(lg, y) + F.cross_entropy(lg.t(), y)) / 2
        o.zero_grad()
        l.backward()
        o.step()
        with torch.no_grad():
            temp.clamp_(0, math.log(100))
        return l.detach()

    return NS(step=step, net=m, batch=lambda: (torch.randn(16, 16), torch.randn(16, 16)))


@program
def distill():
    t = mlp().eval().requires_grad_(False)
    s = mlp(h=32)
    o = torch.optim.Adam(s.parameters())
    T = 4.0

    def step(x, y):
        with torch.no_grad():
            tl = t(x)
        sl = s(x)
        kd = F.kl_div(F.log_softmax(sl / T, -1), F.softmax(tl / T, -1), reduction="batchmean") * T * T
        l = 0.5 * kd + 0.5 * F.cross_entropy(sl, y)
        o.zero_grad()
        l.backward()
        o.step()
        return (l.detach(), kd.detach())

    return NS(step=step, net=s, batch=cls_batch())


@program
def ppo():

    class AC(nn.Module):

        def __init__(s):
            super().__init__()
            s.b = nn.Sequential(nn.Linear(8, 64), nn.Tanh())
            s.pi = nn.Linear(64, 3)
            s.v = nn.Linear(64, 1)

        def forward(s, x):
            h = s.b(x)
            return (s.pi(h), s.v(h).squeeze(-1))

    m = AC()
    o = torch.optim.Adam(m.parameters(), 0.0003, eps=1e-05)
    clip = 0.2

    def update(obs, act, oldlp, adv, ret):
        lg, v = m(obs)
        d = torch.distributions.Categorical(logits=lg)
        lp = d.log_prob(act)
        r = (lp - oldlp).exp()
        adv = (adv - adv.mean()) / (adv.std() + 1e-08)
        pl = -torch.min(r * adv, r.clamp(1 - clip, 1 + clip) * adv).mean()
        vl = 0.5 * (v - ret).pow(2).mean()
        ent = d.entropy().mean()
        l = pl + 0.5 * vl - 0.01 * ent
        o.zero_grad()
        l.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        o.step()
        return (pl.detach(), vl.detach(), ent.detach())

    return NS(
        step=update,
        net=m,
        batch=lambda: (
            torch.randn(64, 8),
            torch.randint(0, 3, (64,)),
            torch.randn(64) * 0.1 - 1,
            torch.randn(64),
            torch.randn(64),
        ),
    )


@program
def sac_critic():
    q1, q2, t1, t2 = (mlp(6, 32, 1) for _ in range(4))
    o = torch.optim.Adam(itertools.chain(q1.parameters(), q2.parameters()), 0.001)
    gamma, tau = (0.99, 0.005)

    def soft(a, b):
        for p, t in zip(a.parameters(), b.parameters()):
            t.data.copy_(tau * p.data + (1 - tau) * t.data)

    def step(s, a, r, s2, a2, d):
        with torch.no_grad():
            sa2 = torch.cat([s2, a2], 1)
            y = r + gamma * (1 - d) * torch.min(t1(sa2), t2(sa2))
        sa = torch.cat([s, a], 1)
        l = F.mse_loss(q1(sa), y) + F.mse_loss(q2(sa), y)
        o.zero_grad()
        l.backward()
        o.step()
        soft(q1, t1)
        soft(q2, t2)
        return l.detach()

    return NS(
        step=step,
        net=nn.ModuleList([q1, q2, t1, t2]),
        batch=lambda: (
            torch.randn(32, 4),
            torch.randn(32, 2),
            torch.randn(32, 1),
            torch.randn(32, 4),
            torch.randn(32, 2),
            (torch.rand(32, 1) < 0.1).float(),
        ),
    )


@program(eager="_sample_dirichlet draws")
def mixup():
    m = mlp()
    o = torch.optim.SGD(m.parameters(), 0.1)

    def step(x, y):
        lam = torch.distributions.Beta(0.4, 0.4).sample()
        perm = torch.randperm(x.size(0))
        mx = lam * x + (1 - lam) * x[perm]
        out = m(mx)
        l = lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y[perm])
        o.zero_grad()
        l.backward()
        o.step()
        return l.detach()

    return NS(step=step, net=m, batch=cls_batch())
