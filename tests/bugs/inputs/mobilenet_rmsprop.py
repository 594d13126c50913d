# A small MobileNet (depthwise separable blocks, batch norms) with RMSprop.
import torch, torch.nn as nn
torch.manual_seed(0)


def block(i, o, s):
    return nn.Sequential(nn.Conv2d(i, i, 3, stride=s, padding=1, groups=i, bias=False), nn.BatchNorm2d(i), nn.ReLU6(),
                         nn.Conv2d(i, o, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU6())


net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(), block(8, 16, 1),
                    block(16, 32, 2), block(32, 32, 1), block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                    nn.Linear(64, 10))
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3, momentum=0.9)
for step in range(8):
    x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
