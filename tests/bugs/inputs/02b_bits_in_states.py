# Parameters and states that are changed through views of another dtype: weights rounded to bf16 by their bits, as
# optimizers with stochastic rounding do it, a generator of random bits kept as floats, two halves packed into one word,
# and a step counter inside of a table of bytes.
import torch

torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 4)
        self.register_buffer("random", torch.arange(1, 25, dtype=torch.int32).view(torch.float32))
        self.register_buffer("packed", torch.zeros(3, dtype=torch.int32))
        self.register_buffer("table", torch.zeros(32, dtype=torch.uint8))

    def forward(self, x):
        with torch.no_grad():
            bits = self.random.view(torch.int32)
            bits ^= bits << 13
            bits ^= (bits >> 17) & 0x7FFF
            bits ^= bits << 5
            self.packed.view(torch.bfloat16)[::2] = x[0, :3]
            self.packed.view(torch.float16)[1::2] = x[1, :3]
            self.table[8:16].view(torch.int64).add_(1)
            self.table[16:24].view(torch.float64).copy_(x.double().mean())
            self.table.view(torch.float32)[1] += 0.5
        return self.layer(x)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(7):
    loss = net(torch.randn(5, 6)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        bits = net.layer.weight.view(torch.int32)
        bits += net.random.view(torch.int32).view(4, 6) & 0xFFFF
        bits &= -0x10000
