# A VAE whose loss takes another branch where the divergence is small.
import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(8, 6), nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.05)
for step in range(14):
    x = torch.rand(10, 8)
    mean, log = encoder(x).chunk(2, dim=1)
    z = mean + torch.randn_like(mean) * (log / 2).exp()
    divergence = -0.5 * (1 + log - mean.square() - log.exp()).sum(1).mean()
    loss = nn.functional.binary_cross_entropy_with_logits(decoder(z), x)
    if divergence > 0.3:
        loss = loss + divergence
    elif step > 9:
        loss = loss + 0.1 * divergence.square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
