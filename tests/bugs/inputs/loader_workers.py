# A DataLoader with worker processes: its batches are tensors that are set to bytes of shared memory. Argument: int or
# float.
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
kind = sys.argv[1] if len(sys.argv) > 1 else "int"
x = torch.randint(0, 10, (256, 6)) if kind == "int" else torch.rand(256, 6)
loader = DataLoader(TensorDataset(x, torch.randint(0, 3, (256,))), batch_size=16, num_workers=1)
net = torch.nn.Sequential(
    torch.nn.Embedding(10, 4) if kind == "int" else torch.nn.Linear(6, 24), torch.nn.Flatten(), torch.nn.Linear(24, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for a, b in loader:
    loss = torch.nn.functional.cross_entropy(net(a), b)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{loss.item():.4f}")
