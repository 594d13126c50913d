# `cat` and `stack` of more pieces than a device takes buffers for one kernel: the embeddings of many columns, the norms
# of many parameters (kind: text of a kernel that grows with the program; HIP's compiler refused more than 256 pieces,
# exit code 5).
import torch

torch.manual_seed(0)
COLUMNS = 300
columns = [torch.randn(2, 1 + column % 3) for column in range(COLUMNS)]
head = torch.nn.Linear(sum(column.shape[1] for column in columns), 4)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for step in range(4):
    features = torch.cat([column * (step + 1) if at % 50 == 0 else column for at, column in enumerate(columns)], dim=1)
    norm = torch.stack([column.norm() for column in columns[::2]] + [column[0, 0] for column in columns[1::2]]).norm()
    loss = head(features / norm).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
