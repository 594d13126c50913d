# Samples of boxes as many as the boxes are large, torchvision's default: how many there are is data.
import torch
import torchvision
from torch import nn

torch.manual_seed(0)
conv, head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(36, 2)
optimizer = torch.optim.SGD([*conv.parameters(), *head.parameters()], lr=0.05)
for step in range(8):
    corner = torch.rand(5, 2) * 8
    boxes = torch.cat([torch.randint(0, 2, (5, 1)), corner, corner + 1 + torch.rand(5, 2) * 6], 1)
    pooled = torchvision.ops.roi_align(conv(torch.randn(2, 3, 16, 16)), boxes, (3, 3))
    head(pooled.flatten(1)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
