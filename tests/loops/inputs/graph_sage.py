# GraphSAGE with neighbours sampled anew for each batch: other numbers of nodes and edges in each step.
import torch
from torch import nn

torch.manual_seed(0)
nodes, edges = 60, torch.randint(60, (2, 300))
features, labels = torch.randn(nodes, 8), torch.randint(3, (nodes,))


class Sage(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.own, self.others = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, source, target):
        total = torch.zeros_like(x).index_add(0, target, x[source])
        count = torch.zeros(len(x)).scatter_add(0, target, torch.ones(len(target)))
        return self.own(x) + self.others(total / count.clamp(min=1).unsqueeze(1))


def sample(seeds):
    keep = torch.isin(edges[1], seeds) & (torch.rand(edges.shape[1]) < 0.5)
    source, target = edges[:, keep]
    found, place = torch.unique(torch.cat([seeds, source, target]), return_inverse=True)
    k = len(seeds)
    return found, place[:k], place[k:k + len(source)], place[k + len(source):]


layers = nn.ModuleList([Sage(8, 16), Sage(16, 3)])
optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)
for step in range(10):
    found, seeds, source, target = sample(torch.randperm(nodes)[:12])
    hidden = layers[0](features[found], source, target).relu()
    out = layers[1](hidden, source, target)[seeds]
    loss = nn.functional.cross_entropy(out, labels[found[seeds]])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
