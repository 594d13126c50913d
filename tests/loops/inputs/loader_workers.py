# DataLoaders with worker processes: python loader_workers.py WORKERS [START] [STRATEGY] [persistent]. Batches arrive
# in shared memory, as storages of bytes, when they arrive; the recording must not depend on when.
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

workers, start, strategy = int(sys.argv[1]), *(sys.argv[2:] + ["fork", "file_descriptor"][len(sys.argv) - 2:])[:2]


def main():
    torch.manual_seed(0)
    torch.multiprocessing.set_sharing_strategy(strategy)
    data = TensorDataset(torch.randint(0, 10, (64, 6)), torch.randint(0, 3, (64,)))
    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=workers,
                        persistent_workers="persistent" in sys.argv, multiprocessing_context=start, prefetch_factor=3)
    net = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Flatten(), torch.nn.Linear(24, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(f"{loss.item():.6f}")


if __name__ == "__main__":
    main()
