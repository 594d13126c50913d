# Complex numbers through what models do with them: products, powers, transforms, parts, indexing, an inverse.
# An argument: in double precision.
import sys

import torch
from torch import nn

torch.manual_seed(0)
complex_type = torch.complex128 if len(sys.argv) > 1 else torch.complex64
real_type = torch.float64 if len(sys.argv) > 1 else torch.float32


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, dtype=complex_type) + 2 * torch.eye(4, dtype=complex_type))
        self.rows = nn.Parameter(torch.randn(6, 4, dtype=complex_type))

    def forward(self, x):
        z = torch.roll(torch.fft.fft(x.to(complex_type), dim=-1), 1, 0) @ self.weight
        z = torch.cat([z, self.rows]).flip(0)[torch.tensor([0, 3, 5, 7])]
        z = torch.where(z.real > 0, z, z.conj() * 0.5)
        z = (z.pow(2) + z**3 * 0.1) @ torch.linalg.inv(self.weight)
        z = torch.fft.ifft2(z.view(2, 2, 4).permute(1, 0, 2).reshape(4, 4))
        parts = torch.view_as_real(z).pow(2).sum() + torch.polar(z.abs() + 1, z.angle()).real.sum() * 0.01
        roots = torch.sqrt(z + 3).abs() + (z / (z + 5)).real
        functions = (torch.exp(z * 0.1).abs() + torch.log(z + 3).imag + roots).sum()
        sums = torch.einsum("ab,bc->ac", z, self.weight).abs().mean() + z.cumsum(0).abs().sum() * 0.01
        back = torch.fft.irfft(torch.fft.rfft(x.to(real_type))).sum() + torch.stack([z, z]).sum().abs()
        return parts + functions + sums + back + z.transpose(0, 1).conj().contiguous().norm()


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    optimizer.zero_grad()
    model(torch.randn(4, 4)).backward()
    optimizer.step()
