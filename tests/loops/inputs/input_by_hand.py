# Data made by hand in every step, another number of ops each time; crucible.phase("input") says that it is input.
import random
import crucible
import torch

torch.manual_seed(0)
chance = random.Random(0)
net = torch.nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    with crucible.phase("input"):
        x = torch.randn(8, 4)
        for _ in range(chance.randrange(4)):
            x = x * 1.1
        y = torch.randint(0, 3, (8,))
    loss = torch.nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
