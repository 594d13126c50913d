# DQN: random actions at first, then those of the network; a target network copied every fourth step; a replay buffer.
import random
from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
target = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
target.load_state_dict(net.state_dict())
optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
memory, state = deque(maxlen=100), torch.randn(3)
for step in range(30):
    if random.random() < 0.3:
        action = torch.tensor([random.randrange(2)])
    else:
        with torch.no_grad():
            action = net(state).argmax().view(1)
    after = torch.roll(state, 1) * 0.9 + 0.1 * (action - 0.5)
    memory.append((state, action, after, -after.abs().sum().view(1)))
    state = after if step % 7 else torch.randn(3)
    if len(memory) < 8:
        continue
    states, actions, nexts, rewards = (torch.stack(rows) for rows in zip(*random.sample(memory, 8)))
    with torch.no_grad():
        wanted = rewards.squeeze(1) + 0.9 * target(nexts).max(1).values
    loss = nn.functional.smooth_l1_loss(net(states).gather(1, actions).squeeze(1), wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(net.parameters(), 1)
    optimizer.step()
    if step % 4 == 0:
        target.load_state_dict(net.state_dict())
