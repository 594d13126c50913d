# An epoch ends inside the recorded window: the sampler's randperm is an op of that one iteration, so the iterations
# are not alike. crucible record -o e.crtrace -- python epoch_boundary.py && crucible replay e.crtrace --verify ->
# "iterations 0 and 1 differ at op ..."
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.rand(64, 6), torch.randint(0, 3, (64,))), batch_size=16, shuffle=True)
net = torch.nn.Linear(6, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(4):
    for a, b in loader:
        loss = torch.nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
