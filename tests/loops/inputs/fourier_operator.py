# A Fourier neural operator: spectral weights are complex numbers.
import torch
from torch import nn

torch.manual_seed(0)


class Spectral(nn.Module):
    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(channels, channels, modes, dtype=torch.cfloat) / channels)

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        out = torch.zeros_like(spectrum)
        out[:, :, :self.modes] = torch.einsum("bim,iom->bom", spectrum[:, :, :self.modes], self.weight)
        return torch.fft.irfft(out, n=x.shape[-1])


class Operator(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift, self.spectral = nn.Conv1d(1, 8, 1), Spectral(8, 5)
        self.local, self.down = nn.Conv1d(8, 8, 1), nn.Conv1d(8, 1, 1)

    def forward(self, x):
        x = self.lift(x)
        return self.down(nn.functional.gelu(self.spectral(x) + self.local(x)))


model = Operator()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(11):
    x = torch.randn(4, 1, 32)
    loss = nn.functional.mse_loss(model(x), x.cumsum(-1) / 8)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
