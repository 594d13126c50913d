# The ways in which people take batches from a DataLoader, one after the other: python loader_kinds.py KIND. Whatever
# the loader runs in this process - samplers, datasets, generators, transforms that are modules, collate functions -
# is input.
import collections, dataclasses, itertools, random, sys
import torch
import torch.nn as nn
from torch.utils.data import (BatchSampler, ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset,
                              WeightedRandomSampler, random_split)

torch.manual_seed(0)
chance = random.Random(0)
kind = sys.argv[1]
X, Y = torch.randn(96, 4), torch.randint(0, 3, (96,))
Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    y: torch.Tensor


class Flip(nn.Module):  # as torchvision's transforms: a module that is called by the dataset
    def forward(self, x):
        return x.flip(0) if chance.random() < 0.5 else x * 1.5


class Augmented(Dataset):
    def __init__(self, whole=True):
        self.flip, self.whole = Flip(), whole

    def __len__(self): return 96

    def __getitem__(self, i):
        return (self.flip(X[i]), int(Y[i])) if self.whole else {"x": [self.flip(X[i])], "y": Y[i]}


class Stream(IterableDataset):
    def __iter__(self):
        for i in torch.randperm(96).tolist():
            if chance.random() < 0.8:
                yield X[i].clone().add_(0.1), Y[i]


class Repeated(DataLoader):  # an iterator of its own around the loader's, as trainer libraries have them
    def __iter__(self):
        batches = super().__iter__()
        following = next(batches)
        for batch in batches:
            yield following
            following = batch
        yield following


def shifted(batch, times):  # data that is filled in place, into memory that is used again
    for i, (x, y) in enumerate(batch):
        memory[0][i].copy_(x).mul_(times)
        memory[1][i] = y
    return memory[0], memory[1]


def stacked(batch):
    return torch.stack([x for x, _ in batch]), torch.stack([y for _, y in batch])


def of_numbers(batch):
    return torch.tensor([x for x, _ in batch]), torch.tensor([y for _, y in batch])


memory = torch.zeros(8, 4), torch.zeros(8, dtype=torch.long)
data = TensorDataset(X, Y)
loader = {
    "modules": lambda: DataLoader(Augmented(), 8, shuffle=True),
    "nested": lambda: DataLoader(Augmented(whole=False), 8, shuffle=True),
    "stream": lambda: DataLoader(Stream(), 8, drop_last=True),
    "named": lambda: DataLoader(data, 8, collate_fn=lambda b: Pair(*stacked(b))),
    "dataclass": lambda: DataLoader(data, 8, collate_fn=lambda b: Batch(*stacked(b))),
    "numbers": lambda: DataLoader([(x.tolist(), int(y)) for x, y in data], 8, collate_fn=of_numbers),
    "in_place": lambda: DataLoader(data, 8, collate_fn=lambda b: shifted(b, chance.choice([1, 2]))),
    "batch_sampler": lambda: DataLoader(
        data, batch_sampler=BatchSampler(WeightedRandomSampler(torch.rand(96), 96), 8, True)),
    "split": lambda: DataLoader(
        ConcatDataset([Subset(data, range(0, 48)), random_split(data, [56, 40])[0]]), 8, shuffle=True),
    "subclass": lambda: Repeated(Augmented(), 8, shuffle=True),
    "pinned": lambda: DataLoader(data, 8, pin_memory=True),
    "zipped": lambda: DataLoader(data, 8, shuffle=True),
}[kind]()
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def batches():
    if kind == "zipped":
        for (x, _), (_, y) in zip(loader, DataLoader(Augmented(), 8)):
            yield x, y
        yield next(iter(loader))
    else:
        for _, batch in enumerate(loader):
            yield batch


for batch in itertools.islice(itertools.chain.from_iterable(batches() for _ in range(3)), 14):
    if isinstance(batch, dict):
        batch = batch["x"][0], batch["y"]
    x, y = (batch.x, batch.y) if hasattr(batch, "x") else batch
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(f"{loss.item():.6f}")
