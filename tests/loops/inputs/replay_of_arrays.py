# DQN as tutorials write it: transitions are tensors made of arrays, and earlier ones are drawn by chance.
import random

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)


def observed():
    return torch.tensor(np.random.rand(3), dtype=torch.float32).unsqueeze(0)


state, memory = observed(), []
for step in range(30):
    after = observed()
    with torch.no_grad():
        action = net(state).max(1).indices.view(1, 1)
    memory.append((state, action, after, torch.tensor([1.0])))
    state = after
    if len(memory) < 8:
        continue
    states, actions, nexts, rewards = (torch.cat(rows) for rows in zip(*random.sample(memory[:-1], 6)))
    with torch.no_grad():
        wanted = rewards + 0.9 * net(nexts).max(1).values
    loss = nn.functional.smooth_l1_loss(net(states).gather(1, actions).squeeze(1), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
