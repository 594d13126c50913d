"""Networks over tables and graphs: recommendation, graph convolution by index ops."""

import torch
from torch.nn import functional as F

from zoo.common import model, training


class Dlrm(torch.nn.Module):
    """Dense features through an MLP, sparse ones through embedding bags, products of all pairs, a second MLP."""

    def __init__(self, tables=(50, 30, 20), width=16, dense=13):
        super().__init__()
        self.bottom = torch.nn.Sequential(torch.nn.Linear(dense, 32), torch.nn.ReLU(), torch.nn.Linear(32, width),
                                          torch.nn.ReLU())
        self.bags = torch.nn.ModuleList(torch.nn.EmbeddingBag(rows, width, mode="sum") for rows in tables)
        count = len(tables) + 1
        self.register_buffer("pairs", torch.tril_indices(count, count, offset=-1), persistent=False)
        self.top = torch.nn.Sequential(torch.nn.Linear(width + count * (count - 1) // 2, 32), torch.nn.ReLU(),
                                       torch.nn.Linear(32, 1))

    def forward(self, dense, indices, offsets):
        x = self.bottom(dense)
        vectors = torch.stack([x] + [bag(index, offset) for bag, index, offset in zip(self.bags, indices, offsets)],
                              dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, products], dim=1)).squeeze(1)


@model("dlrm")
def dlrm():
    module = Dlrm()
    batches = []
    for _ in range(4):
        indices = [torch.randint(0, rows, (24,)) for rows in (50, 30, 20)]
        offsets = [torch.arange(0, 24, 3) for _ in range(3)]
        batches.append((torch.randn(8, 13), indices, offsets, torch.randint(0, 2, (8,)).float()))
    return training(
        module, torch.optim.Adagrad(module.parameters(), lr=0.05, foreach=True), batches,
        lambda dense, indices, offsets, y: F.binary_cross_entropy_with_logits(module(dense, indices, offsets), y))


class GraphSage(torch.nn.Module):
    """Two layers of mean aggregation over an edge list: gather, index_add, divide by the degree."""

    def __init__(self, inputs=12, hidden=32, classes=4):
        super().__init__()
        self.own = torch.nn.ModuleList([torch.nn.Linear(inputs, hidden), torch.nn.Linear(hidden, classes)])
        self.around = torch.nn.ModuleList(
            [torch.nn.Linear(inputs, hidden, bias=False),
             torch.nn.Linear(hidden, classes, bias=False)])

    def forward(self, x, source, target):
        degree = torch.zeros(x.shape[0]).scatter_add_(0, target, torch.ones(target.shape[0])).clamp_(min=1).unsqueeze(1)
        for layer, (own, around) in enumerate(zip(self.own, self.around)):
            gathered = torch.zeros(x.shape).index_add(0, target, x[source]) / degree
            x = own(x) + around(gathered)
            if layer == 0:
                x = F.dropout(F.relu(x), 0.3, self.training)
        return x


@model("graphsage")
def graphsage():
    module = GraphSage()
    source, target = torch.randint(0, 60, (300,)), torch.randint(0, 60, (300,))
    features, labels, known = torch.randn(60, 12), torch.randint(0, 4, (60,)), torch.rand(60) < 0.5
    return training(module, torch.optim.Adam(module.parameters(), lr=1e-2, weight_decay=5e-4), [(features, labels)],
                    lambda x, y: F.cross_entropy(module(x, source, target)[known], y[known]))
