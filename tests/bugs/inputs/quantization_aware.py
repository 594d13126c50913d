# Quantization-aware training: observers that move with the data, weights by channel, gradients through masks.
# Argument: fbgemm (weights by channel) or qnnpack.
import sys
import warnings

import torch
import torch.ao.quantization as quantization

warnings.filterwarnings("ignore")
torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.relu, self.head = torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Linear(8 * 36, 4)

    def forward(self, x):
        return self.leave(self.head(self.relu(self.conv(self.enter(x))).flatten(1)))


net = Net()
net.qconfig = quantization.get_default_qat_qconfig(sys.argv[1])
quantization.prepare_qat(net, inplace=True)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(8):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(4, 3, 8, 8)), torch.randint(0, 4, (4,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
