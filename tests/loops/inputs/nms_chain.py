# Boxes in a row, each of which overlaps the next: whether one is kept follows from the one before it, 600 times.
import torch
import torchvision
from torch import nn

torch.manual_seed(0)
layer = nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-9)
left, zero = torch.arange(600) * 3.0, torch.zeros(600)
boxes = torch.stack([left, zero, left + 10, zero + 10], 1)
for step in range(8):
    kept = torchvision.ops.nms(boxes, torch.linspace(1, 0, 600), 0.5)
    layer(boxes[kept]).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
