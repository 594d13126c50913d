# A trainer's callbacks: averaged weights that are set in for each validation, which the script's own end does not read.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
average = {name: value.clone() for name, value in model.state_dict().items()}


@torch.no_grad()
def update():
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            average[name].mul_(0.9).add_(value, alpha=0.1)
        else:
            average[name].copy_(value)


@torch.no_grad()
def validate():
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(average)
    model.eval()
    found = [nn.functional.cross_entropy(model(torch.randn(8, 8)), torch.zeros(8).long()).item() for _ in range(4)]
    model.load_state_dict(kept)
    model.train()
    return sum(found)


for step in range(1, 14):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(torch.randn(5 + step % 2, 8)), torch.arange(5 + step % 2) % 3)
    loss.backward()
    optimizer.step()
    update()
    if step % 3 == 0:  # the last recorded iteration, the tenth, begins behind one
        print(step, f"{validate():.6f}")
