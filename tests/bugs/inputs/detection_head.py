# The second stage of a detector: proposals that suppress each other, samples of the image inside of the best, their
# gradient.
import torch
import torchvision

torch.manual_seed(0)
body, head = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(8 * 16, 3)
opt = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
# Twelve places with five boxes each: how many are kept does not change, which ones does.
corners = torch.cartesian_prod(torch.arange(4) * 8.0, torch.arange(3) * 10.0).repeat(5, 1) + torch.rand(60, 2)
boxes = torch.cat([corners, corners + 7], 1)
for step in range(8):
    scores = torch.rand(60)
    best = torchvision.ops.nms(boxes, scores, 0.3)
    regions = torch.cat([torch.zeros(12, 1), boxes[best]], 1)
    samples = torchvision.ops.roi_align(body(torch.randn(1, 3, 32, 32)), regions, (4, 4), sampling_ratio=2)
    loss = torch.nn.functional.cross_entropy(head(samples.flatten(1)), torch.randint(0, 3, (12,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
