# L-BFGS: its closure runs as often as the line search asks for.
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(20, 3)
y = x.sum(1, keepdim=True).sin()
model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(11):
    optimizer.step(closure)
