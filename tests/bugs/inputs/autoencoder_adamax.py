# A small convolutional autoencoder with batch norms behind biased convolutions, trained with Adamax.
import torch, torch.nn as nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                    nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                    nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                    nn.ConvTranspose2d(8, 1, 4, stride=2, padding=1), nn.Sigmoid())
optimizer = torch.optim.Adamax(net.parameters(), lr=2e-3)
for step in range(8):
    x = torch.rand(8, 1, 28, 28)
    loss = nn.functional.mse_loss(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
