# Reinforcement learning by a DataLoader: the data are what the network that is trained chooses. A replay takes them
# as recorded; the verdict says so.
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)


class Experience(IterableDataset):
    def __iter__(self):
        state = torch.randn(4)
        while True:
            with torch.no_grad():
                action = int(net(state).argmax())
            reward = state[action]
            yield state, action, reward
            state = torch.randn(4)


for step, (state, action, reward) in zip(range(10), DataLoader(Experience(), batch_size=8)):
    loss = -(nn.functional.log_softmax(net(state), -1).gather(1, action[:, None])[:, 0] * reward).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
