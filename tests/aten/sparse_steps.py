"""A few steps of an embedding with sparse gradients: sparse_steps.py {sgd,adagrad,sparse_adam}. Each batch has as many
distinct ids."""

import sys

import torch

import crucible

OPTIMIZERS = {"sgd": lambda p: torch.optim.SGD(p, lr=0.1), "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
              "sparse_adam": lambda p: torch.optim.SparseAdam(p, lr=0.1)}

torch.manual_seed(0)
embedding, head = torch.nn.Embedding(11, 4, sparse=True), torch.nn.Linear(4, 3)
model = torch.nn.Sequential(embedding, torch.nn.Tanh(), head)
optimizers = [OPTIMIZERS[sys.argv[1]](list(embedding.parameters())), torch.optim.SGD(head.parameters(), lr=0.1)]
for _ in range(6):
    ids, wanted = torch.randperm(11)[:9].repeat(2), torch.randint(0, 3, (18,))
    loss = torch.nn.functional.cross_entropy(model(ids), wanted)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    crucible.step()
