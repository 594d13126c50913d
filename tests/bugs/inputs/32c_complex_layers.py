# A layer of complex numbers, trained: complex parameters, products, einsum, indexing, masks, concatenation, functions,
# a running mean that is a complex state, and constants; SGD steps complex parameters as they are, Adam as pairs of real
# ones. Argument: sgd, adam or double.
import sys
import torch

how = sys.argv[1]
torch.manual_seed(0)
real = torch.float64 if how == "double" else torch.float32
kind = torch.complex128 if how == "double" else torch.complex64


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(0.3 * torch.randn(6, 4, dtype=kind))
        self.mix = torch.nn.Parameter(0.3 * torch.randn(4, 3, 4, dtype=kind))
        self.bias = torch.nn.Parameter(torch.zeros(4, dtype=kind))
        self.register_buffer("mean", torch.zeros(3, dtype=kind))
        self.register_buffer("turn", torch.polar(torch.ones(8, dtype=real), torch.arange(8, dtype=real) / 5))

    def forward(self, x, at):
        z = torch.view_as_complex(x) @ self.weight + self.bias
        z = z * self.turn[at][:, None]
        z = torch.where(z.abs() > 0.1, z, 2 * z.conj())
        z = torch.cat([z[:, 1:], torch.sqrt(z[:, :1] * z[:, :1] + 4)], 1)
        y = torch.einsum("bi,ijk,bk->bj", z, self.mix, z.conj()) / (1 + z.abs().sum(1, keepdim=True))
        y = torch.tanh(y).clone()
        y[0] = y[0] * 1j
        with torch.no_grad():
            self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
        y = y - self.mean
        return (torch.view_as_real(y).square().sum() + y.angle().cos().mean() + torch.exp(y).real.mean() +
                (y**2).imag.mean()) / 5


net = Net()
if how == "sgd":
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
else:
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(1)
for step in range(8):
    x = torch.randn(5, 6, 2, dtype=real, generator=generator)
    loss = net(x, torch.randint(0, 8, (5,), generator=generator))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
