# A replay buffer of states that the program itself computes: each iteration adds one and reads six by chance.
import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
memory = [torch.randn(3) for _ in range(50)]
for step in range(12):
    with torch.no_grad():
        memory.append(memory[-1] * 0.9 + 0.1)
    loss = net(torch.stack(random.sample(memory[40:], 6))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
