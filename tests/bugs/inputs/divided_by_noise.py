# A gradient that is zero but for rounding, divided by its own size in three ways (RMSprop with momentum, Adagrad,
# NAdam), and an output whose terms cancel: the mean of what has been centred.
import torch
import torch.nn as nn

torch.manual_seed(0)
parts = [
    nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.Tanh(), nn.Linear(24, 24), nn.BatchNorm1d(24),
                  nn.Linear(24, 3)) for _ in range(3)
]
optimizers = [
    torch.optim.RMSprop(parts[0].parameters(), lr=1e-3, momentum=0.9),
    torch.optim.Adagrad(parts[1].parameters(), lr=1e-2),
    torch.optim.NAdam(parts[2].parameters(), lr=2e-3)
]
for step in range(8):
    x, y = torch.randn(32, 12), torch.randn(32, 3)
    for part, optimizer in zip(parts, optimizers):
        optimizer.zero_grad()
        loss = (part(x) - y).square().mean()
        loss.backward()
        optimizer.step()
    centred = parts[0](x) - parts[0](x).mean(0)
    print(loss.item(), centred.mean().item())
