# REINFORCE: one update after each episode, whose length depends on what was drawn.
import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
for episode in range(10):
    at, logs, rewards = torch.zeros(2), [], []
    for step in range(8):
        spread = torch.distributions.Categorical(nn.functional.softmax(policy(at), dim=-1))
        action = spread.sample()
        logs.append(spread.log_prob(action))
        at = at + 0.3 * torch.tensor([float(action.item()) - 1, 1.0])
        rewards.append(float(-at.abs().sum()))
        if at[0].abs() > 0.5:
            break
    back, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + 0.9 * total
        back.insert(0, total)
    back = torch.tensor(back)
    back = (back - back.mean()) / (back.std() + 1e-6) if len(back) > 1 else back
    loss = torch.stack([-log * r for log, r in zip(logs, back)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
