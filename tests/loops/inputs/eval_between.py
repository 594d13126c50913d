# A validation after every fourth step, as trainers do it at an interval of their own.
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.randint(0, 3, (8,)))
    optimizer.zero_grad()
    loss.backward()
    print(loss.item())
    optimizer.step()
    if step % 4 == 3:
        model.eval()
        with torch.no_grad():
            model(torch.randn(8, 4))
            model(torch.randn(8, 4))
        model.train()
