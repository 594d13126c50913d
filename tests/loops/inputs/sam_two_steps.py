# Sharpness-aware minimisation: a step up to the worst point nearby, a second pass there, the step of the optimizer that
# is inside. One iteration is both passes.
import torch
import torch.nn as nn

torch.manual_seed(0)


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **options):
        super().__init__(params, dict(rho=rho, **options))
        self.base_optimizer = base(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        norm = torch.norm(torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"]]))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * (group["rho"] / (norm + 1e-12)))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.base_optimizer.step()
        self.zero_grad()


net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
opt = SAM(net.parameters(), torch.optim.SGD, lr=0.1)
x, y = torch.randn(80, 4), torch.randint(0, 3, (80,))
for i in range(10):
    a, b = x[8 * i:8 * i + 8], y[8 * i:8 * i + 8]
    nn.functional.cross_entropy(net(a), b).backward()
    opt.first_step()
    nn.functional.cross_entropy(net(a), b).backward()
    opt.second_step()
