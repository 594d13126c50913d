# A neural ODE: Heun steps whose size follows the error, and the adjoint solved backward.
import torch
from torch import nn

torch.manual_seed(0)


def solve(f, y, t0, t1, tolerance=1e-2):
    t, h = t0, (t1 - t0) / 4
    while (t1 - t) * (1 if t1 > t0 else -1) > 1e-6:
        h = min(h, t1 - t, key=abs)
        k1 = f(y)
        k2 = f(tuple(a + h * b for a, b in zip(y, k1)))
        error = max(((b - a) * h / 2).abs().max().item() for a, b in zip(k1, k2))
        if error < tolerance or abs(h) < 1e-3:
            y, t = tuple(a + h * (b + c) / 2 for a, b, c in zip(y, k1, k2)), t + h
        h *= min(2.0, max(0.3, 0.9 * (tolerance / (error + 1e-9))**0.5))
    return y


class Flow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, net, y, *weights):
        with torch.no_grad():
            end = solve(lambda s: (net(s[0]),), (y,), 0.0, 1.0)[0]
        ctx.net, ctx.weights = net, weights
        ctx.save_for_backward(end)
        return end

    @staticmethod
    def backward(ctx, gradient):
        def rates(state):
            with torch.enable_grad():
                y = state[0].detach().requires_grad_()
                out = ctx.net(y)
                found = torch.autograd.grad(out, (y, *ctx.weights), -state[1])
            return out.detach(), *found

        with torch.no_grad():
            start = (ctx.saved_tensors[0], gradient, *[torch.zeros_like(w) for w in ctx.weights])
            end = solve(rates, start, 1.0, 0.0)
        return None, *end[1:]


net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
x = torch.randn(16, 2)
for step in range(11):
    optimizer.zero_grad()
    loss = (Flow.apply(net, x * (1 + step / 4), *net.parameters()) - x.flip(1)).square().mean()
    loss.backward()
    optimizer.step()
