# The untrained model is evaluated first, before an optimizer exists, and then once an epoch, without a mode.
import torch
import torch.nn as nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
x, y = torch.randn(64, 4), torch.randint(0, 3, (64,))


def accuracy():
    with torch.no_grad():
        found = [net(x[i:i + 16]).argmax(1) == y[i:i + 16] for i in range(0, 64, 16)]
        return torch.cat(found).float().mean().item()


print(accuracy())
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(6):
    for i in range(0, 64, 16):
        loss = nn.functional.cross_entropy(net(x[i:i + 16]), y[i:i + 16])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(accuracy())
