# Layers of one size that are chosen by chance, two per step: only those are trained.
import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(5))
head = nn.Linear(6, 1)
optimizer = torch.optim.SGD([*layers.parameters(), *head.parameters()], lr=0.05, momentum=0.9)
for step in range(14):
    x = torch.randn(4, 6)
    for layer in sorted(random.sample(range(5), 2)):
        x = x + torch.tanh(layers[layer](x))
    loss = (head(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
