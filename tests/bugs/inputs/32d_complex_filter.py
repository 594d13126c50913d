# A filter in the frequency domain, linear layers and a convolution of complex numbers, a running mean that is complex,
# trained with Adam.
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)


class Net(nn.Module):

    def __init__(self):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(4, 9, dtype=torch.complex64) * 0.2)
        self.lin = nn.Linear(9, 5, dtype=torch.complex64)
        self.lin2 = nn.Linear(5, 3, dtype=torch.complex64)
        self.conv = nn.Conv1d(4, 2, 3, dtype=torch.complex64)
        self.register_buffer('ema', torch.zeros(9, dtype=torch.complex64))

    def forward(self, x):
        z = torch.fft.rfft(x) * self.filter
        with torch.no_grad():
            self.ema.lerp_(z.mean((0, 1)), 0.1)
        z = z - self.ema
        y = self.lin(z)
        y = torch.complex(F.relu(y.real), F.relu(y.imag))
        w = self.lin2(y).abs().softmax(-1)
        c = self.conv(z)
        top = c.flatten(1)[:, [3, 1, 2]]
        m = c.real > 0
        c = c.masked_fill(m, 0.5j)
        n = torch.linalg.vector_norm(c, dim=-1).mean()
        return w.square().sum() + n + (top * top.conj()).real.sum() + torch.stack(
            [c.imag.sum(), c.abs().max()]).sum() + torch.log(1 + c.square()).real.mean()
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for i in range(7):
    loss = net(torch.randn(3, 4, 16))
    opt.zero_grad()
    loss.backward()
    opt.step()
