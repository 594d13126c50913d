# Tricks with the bits of numbers: exponents, mantissas, bytes, sortable keys, halves; storages that tensors of another
# dtype are set to.
import torch
import torch.nn as nn
torch.manual_seed(0)


class M(nn.Module):

    @torch.no_grad()
    def forward(self, x, h, d, n):
        out = {}
        e = h.view(torch.int16) >> 10 & 31
        out['exponent'] = e
        out['mantissa'] = (h.view(torch.int16) & 1023 | 15360).view(torch.float16)
        out['bytes'] = x.view(torch.uint8).sum(-1)
        out['hi'] = d.view(torch.int32)[..., 1::2] & 2146435072
        out['bf'] = x.view(torch.bfloat16)[..., 1::2].float()
        y = n.clone()
        y.view(torch.int8)[..., 3::4] = 0
        out['masked'] = y
        t = torch.empty(0).set_(x.untyped_storage(), 3, (2, 3), (3, 1))
        t.mul_(2)
        out['t'] = t + 0
        out['x'] = x + 0
        v = torch.tensor([], dtype=torch.int32).set_(x.untyped_storage())
        out['v'] = v ^ 1
        a = torch.empty(3, 4, dtype=torch.int32)
        a.view(torch.float32).normal_()
        out['a'] = a.view(torch.float32) * 2
        b = torch.zeros(8, dtype=torch.uint8)
        b[:4].view(torch.float32).fill_(1.5)
        b[4:].view(torch.int32).fill_(7)
        out['b'] = b
        order = x.view(torch.int32)
        key = torch.where(order < 0, ~order, order ^ -2 ** 31)
        out['sorted'] = key.flatten().sort().values
        out['neg0'] = torch.where(x.view(torch.int32) == -2 ** 31, 1, 0)
        return out
m = M()
for i in range(6):
    m(torch.randn(3, 4),
      torch.randn(5).half(), torch.randn(2, 3, dtype=torch.float64),
      torch.randint(0, 2**31 - 1, (3, 4), dtype=torch.int32))
