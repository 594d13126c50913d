"""Train a small classifier with SGD: momentum, weight decay, cross entropy.

The data is synthetic and made by the script, so it runs anywhere:

    python mlp_sgd.py --steps 12 --seed 0
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def synthetic_batches(steps, batch, features, classes, seed):
    """Points around one random centre per class; yields (inputs, labels) for each step."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(classes, features, generator=generator)
    for _ in range(steps):
        labels = torch.randint(0, classes, (batch,), generator=generator)
        noise = torch.randn(batch, features, generator=generator)
        yield centres[labels] + noise, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="optimizer steps to run (default 12)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the parameters and of the data (default 0)")
    parser.add_argument("--device", default="cpu", help="where to train: cpu, cuda, cuda:1 (default cpu)")
    parser.add_argument("--bf16", action="store_true", help="compute in bf16 where autocast does")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = nn.Sequential(
        nn.Linear(256, 512), nn.ReLU(),
        nn.Linear(512, 512), nn.ReLU(),
        nn.Linear(512, 10),
    ).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)

    batches = list(synthetic_batches(args.steps, 64, 256, 10, args.seed))
    for step, (inputs, labels) in enumerate(batches):
        inputs, labels = inputs.to(args.device), labels.to(args.device)
        optimizer.zero_grad()
        with torch.autocast(torch.device(args.device).type, torch.bfloat16, enabled=args.bf16):
            loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step:3d}  loss {loss.item():.9g}")


if __name__ == "__main__":
    main()
