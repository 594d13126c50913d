# Several tasks over one body, each with a head and an optimizer of its own; the task is drawn for each step.
import random

import torch
from torch import nn

random.seed(3)
torch.manual_seed(0)
body = nn.Linear(8, 16)
heads = [nn.Linear(16, classes) for classes in (2, 3, 5)]
optimizers = [torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3) for head in heads]
for step in range(120):
    task = random.choices(range(3), [4, 2, 1])[0]
    x, y = torch.randn(4, 8), torch.randint(0, heads[task].out_features, (4,))
    optimizers[task].zero_grad()
    loss = nn.functional.cross_entropy(heads[task](body(x).relu()), y)
    loss.backward()
    optimizers[task].step()
print(f"{loss.item():.6f}")
