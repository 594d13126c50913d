# The best weights so far are kept by copy.deepcopy, which copies storages as bytes, right behind the step that made
# them.
import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.PReLU(), nn.Linear(12, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.5)
average, best, kept = None, float("inf"), None
for step in range(16):
    x = torch.randn(5, 6)
    loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average = loss.detach() if average is None else 0.7 * average + 0.3 * loss.detach()
    if average < best:
        best, kept = average, copy.deepcopy(model.state_dict())
model.load_state_dict(kept)
print(f"{float(best):.6f}")
