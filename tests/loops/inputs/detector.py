# A small detector: boxes matched to anchors by overlap, hard negatives, NMS at the end of each step.
import torch
from torch import nn
from torchvision.ops import box_iou, nms

torch.manual_seed(0)
anchors = torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(4.0), indexing="ij"), -1).reshape(-1, 2)
anchors = torch.cat([anchors, anchors + 1.5], 1)
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 5, 3, padding=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for step in range(10):
    image = torch.randn(1, 3, 8, 8)
    corner = torch.rand(1 + step % 3, 2) * 3
    boxes = torch.cat([corner, corner + 1.5], 1)
    out = model(image)[0].flatten(1).t()
    scores, shifts = out[:, 0], out[:, 1:]
    overlap, which = box_iou(anchors, boxes).max(1)
    positive = torch.nonzero(overlap > 0.3)[:, 0]
    negative = torch.nonzero(overlap <= 0.3)[:, 0]
    hard = negative[scores[negative].detach().topk(min(len(negative), 3 * max(1, len(positive)))).indices]
    chosen = torch.cat([positive, hard])
    target = torch.cat([torch.ones(len(positive)), torch.zeros(len(hard))])
    loss = nn.functional.binary_cross_entropy_with_logits(scores[chosen], target)
    if len(positive):
        loss = loss + nn.functional.smooth_l1_loss(shifts[positive], boxes[which[positive]] - anchors[positive])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        kept = nms(anchors + shifts, scores, 0.5)
