# Graph layers whose sparse matrix is made in the loop, of weights that are learned: its gradient is the product where
# it has elements.
# Argument: coo, csr, sum.
import sys

import torch

torch.manual_seed(0)
dense = (torch.rand(20, 20) < 0.2).float()
rows, columns = dense.nonzero().t()
begins = torch.cat([torch.zeros(1, dtype=torch.int64), dense.sum(1).long().cumsum(0)])
weights = torch.nn.Parameter(torch.randn(len(rows)))
lin = torch.nn.Linear(8, 3)
opt = torch.optim.SGD([weights, *lin.parameters()], lr=0.05)
for step in range(8):
    x, y = torch.randn(20, 8), torch.randint(0, 3, (20,))
    if sys.argv[1] == "csr":
        out = torch.sparse_csr_tensor(begins, columns, weights, (20, 20)) @ lin(x)
    else:
        matrix = torch.sparse_coo_tensor(torch.stack([rows, columns]), weights, (20, 20))
        out = torch.sparse.mm(matrix, lin(x))
        if sys.argv[1] == "sum":
            out = out / (1 + torch.sparse.sum(matrix * matrix.detach().to_dense(), 1).to_dense()[:, None].abs())
    loss = torch.nn.functional.cross_entropy(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{loss.item():.4f}")
