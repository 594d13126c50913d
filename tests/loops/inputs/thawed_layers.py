# A new optimizer with more parameters when layers are thawed after the first epoch.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
data = torch.utils.data.TensorDataset(torch.randn(48, 8), torch.randint(0, 3, (48,)))
loader = torch.utils.data.DataLoader(data, 8, shuffle=True)
for parameter in model[:2].parameters():
    parameter.requires_grad_(False)
optimizer = torch.optim.Adam(model[3].parameters(), 1e-2)
for epoch in range(3):
    if epoch == 1:
        for parameter in model.parameters():
            parameter.requires_grad_(True)
        optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
