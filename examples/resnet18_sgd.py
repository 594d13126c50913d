"""Train torchvision's ResNet-18 with SGD: momentum, weight decay and a step schedule.

The pictures are synthetic and made by the script, so it runs anywhere:

    python resnet18_sgd.py --steps 12 --seed 1

Batch norm over few samples and ReLU make this training chaotic: the last bit of one activation near zero changes a
gradient by percents. The default learning rate and seed are a run in which no ReLU is that close to zero for the first
dozen steps, so that two correct implementations can be compared at the end (docs/replay.md, "Chaos").
"""

import argparse

import torch
import torch.nn.functional as F
import torchvision

CLASSES, BATCH, SIZE = 10, 8, 64


def synthetic_images(steps, seed, batch=BATCH, size=SIZE):
    """Noise with a brighter square whose place depends on the class; yields (images, labels) for each step."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        labels = torch.randint(0, CLASSES, (batch,), generator=generator)
        images = torch.randn(batch, 3, size, size, generator=generator)
        for image, label in zip(images, labels.tolist()):
            top, left = 6 * label, 54 - 6 * label
            image[:, top:top + 8, left:left + 8] += 2.0
        yield images, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="optimizer steps to run (default 12)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the parameters and of the data (default 1)")
    parser.add_argument("--batch", type=int, default=BATCH, help=f"images in a step (default {BATCH})")
    parser.add_argument("--size", type=int, default=SIZE, help=f"pixels of a side, at least 64 (default {SIZE})")
    parser.add_argument("--device", default="cpu", help="where to train: cpu, cuda, cuda:1 (default cpu)")
    parser.add_argument("--bf16", action="store_true", help="compute in bf16 where autocast does")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = torchvision.models.resnet18(num_classes=CLASSES).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)

    batches = list(synthetic_images(args.steps, args.seed, args.batch, args.size))
    for step, (images, labels) in enumerate(batches):
        images, labels = images.to(args.device), labels.to(args.device)
        optimizer.zero_grad()
        with torch.autocast(torch.device(args.device).type, torch.bfloat16, enabled=args.bf16):
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        print(f"step {step:3d}  loss {loss.item():.9g}")


if __name__ == "__main__":
    main()
