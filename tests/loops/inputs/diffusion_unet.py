# A diffusion UNet with random timesteps, and an average of its weights kept beside it.
import copy
import math

import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv, self.time = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Linear(8, outputs)
        self.norm = nn.GroupNorm(2, outputs)

    def forward(self, x, t):
        return nn.functional.silu(self.norm(self.conv(x)) + self.time(t)[:, :, None, None])


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = Block(1, 8), Block(8, 16), Block(24, 8)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x, t):
        steps = torch.exp(torch.arange(4) * (-math.log(1000) / 4))
        t = t[:, None] * steps
        t = torch.cat([t.sin(), t.cos()], 1)
        a = self.one(x, t)
        b = self.two(nn.functional.avg_pool2d(a, 2), t)
        up = nn.functional.interpolate(b, scale_factor=2, mode="nearest")
        return self.out(self.three(torch.cat([up, a], 1), t))


model = UNet()
average = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
betas = torch.linspace(1e-4, 0.02, 100)
kept = torch.cumprod(1 - betas, 0)
for step in range(11):
    image, noise = torch.randn(4, 1, 8, 8), torch.randn(4, 1, 8, 8)
    t = torch.randint(100, (4,))
    scale = kept[t][:, None, None, None]
    loss = nn.functional.mse_loss(model(scale.sqrt() * image + (1 - scale).sqrt() * noise, t), noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mine, other in zip(average.parameters(), model.parameters()):
            mine.lerp_(other, 0.1)
