# Losses and features of the steps before are kept in lists, and now and then what they are decides on the step.
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(8, 16), nn.Tanh()), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-2)
losses, features = [], []
for step in range(20):
    x = torch.randn(4, 8)
    seen = body(x)
    loss = (head(seen) - x.sum(1, keepdim=True)).square().mean()
    if step % 4 == 3:
        drift = (seen.mean(0) - torch.cat(features[-3:]).mean(0)).square().sum()
        loss = loss / torch.stack(losses).mean() + 0.1 * drift
        losses.clear()
    losses.append(loss.detach())
    features.append(seen.detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 6 == 5:
        print(step, f"{torch.stack(losses).mean().item():.6f}")
