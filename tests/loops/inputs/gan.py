# A GAN: two networks, two optimizers, and the generator trained every second step.
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 6))
critic = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
first = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
second = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
loss = nn.BCEWithLogitsLoss()
for step in range(22):
    real = torch.randn(8, 6) * 0.5 + 1
    fake = generator(torch.randn(8, 4))
    second.zero_grad()
    (loss(critic(real), torch.ones(8, 1)) + loss(critic(fake.detach()), torch.zeros(8, 1))).backward()
    second.step()
    if step % 2:
        first.zero_grad()
        loss(critic(fake), torch.ones(8, 1)).backward()
        first.step()
