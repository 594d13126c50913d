# Cross-validation: a new model and a new optimizer for each fold, with a validation at its end.
import torch
from torch import nn

torch.manual_seed(0)
inputs, targets = torch.randn(60, 6), torch.randn(60, 1)
for fold in range(4):
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    is_held_out = torch.arange(60) % 5 == fold
    x, y = inputs[~is_held_out], targets[~is_held_out]
    for epoch in range(2):
        for i in range(0, 48, 16):
            optimizer.zero_grad()
            (model(x[i:i + 16]) - y[i:i + 16]).square().mean().backward()
            optimizer.step()
    with torch.no_grad():
        error = (model(inputs[is_held_out]) - targets[is_held_out]).square().mean().item()
