# Triplets mined in each batch: how many are hard differs.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(10):
    labels = torch.randint(3, (12,))
    points = nn.functional.normalize(model(torch.randn(12, 6) + labels.unsqueeze(1)), dim=1)
    far = torch.cdist(points, points)
    same = labels.unsqueeze(0) == labels.unsqueeze(1)
    mask = same.unsqueeze(2) & ~same.unsqueeze(1) & ~torch.eye(12, dtype=torch.bool).unsqueeze(2)
    anchor, positive, negative = torch.where(mask & (far.unsqueeze(2) - far.unsqueeze(1) + 0.2 > 0))
    loss = (far[anchor, positive] - far[anchor, negative] + 0.2).relu().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
