# A module that is called before the optimizer exists (making data, a teacher's features, a shape check): its calls
# are taken for iterations of inference, recorded, and recording ends before training has begun. The summary does not
# say so ("recorded 4 iterations"). crucible record -o m.crtrace -- python module_before_optimizer.py          -> 1 op
# each, no loss crucible record --end-of-iteration optimizer ...                           -> what was meant
import torch, torch.nn as nn
torch.manual_seed(0)
teacher = nn.Linear(8, 4)
with torch.no_grad():
    data = [(x, teacher(x)) for x in (torch.randn(16, 8) for _ in range(20))]     # twenty calls without gradients
net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters())
for x, y in data:
    opt.zero_grad(); loss = (net(x) - y).square().mean(); loss.backward(); opt.step()
print(loss.item())
