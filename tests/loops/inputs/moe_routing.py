# Routing as mixtures of experts do it: how many rows each expert gets differs between iterations.
import torch

torch.manual_seed(0)
gate = torch.nn.Linear(8, 2)
experts = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(2)])
optimizer = torch.optim.SGD([*gate.parameters(), *experts.parameters()], lr=0.1)
for step in range(12):
    x = torch.randn(12, 8)
    weights, chosen = gate(x).softmax(-1).max(-1)
    mixed = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        rows = torch.where(chosen == number)[0]
        mixed = mixed.index_add(0, rows, expert(x[rows]) * weights[rows, None])
    loss = mixed.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
