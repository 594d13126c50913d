# A trainer with validation, a scheduler that looks at it, and the best weights kept.
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
features = torch.randn(44, 8)
labels = (features.sum(1) > 0).long()
train = DataLoader(TensorDataset(features[:34], labels[:34]), batch_size=8, shuffle=True)
held_out = DataLoader(TensorDataset(features[34:], labels[34:]), batch_size=8)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
best, kept = float("inf"), None
for epoch in range(4):
    model.train()
    for x, y in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        value = sum(nn.functional.cross_entropy(model(x), y, reduction="sum").item() for x, y in held_out) / 10
    scheduler.step(value)
    if value < best:
        best, kept = value, copy.deepcopy(model.state_dict())
model.load_state_dict(kept)
