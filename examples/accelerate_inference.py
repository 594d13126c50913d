"""Answers of a convolutional network for batches of several sizes, eagerly and with `crucible.accelerate`.

Requests come in batches of 8, 4 and 1; the last one of each round has what is left, 3. Each size is compiled for itself.
The two lines of Crucible are marked. Without arguments both ways run from one seed, and a table compares them:

    python accelerate_inference.py
    python accelerate_inference.py --eager --steps 50
"""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZES, CLASSES, WIDTHS = (8, 4, 8, 1, 8, 3), 10, (16, 32, 64)


class Block(nn.Module):
    """Two convolutions, and what was read added to what they give."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class Network(nn.Module):
    """A residual network for pictures of 32 x 32."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, WIDTHS[0], 3, 1, 1)
        self.blocks = nn.Sequential(*[Block(a, b, 2) for a, b in zip((WIDTHS[0], *WIDTHS), WIDTHS)])
        self.head = nn.Linear(WIDTHS[-1], CLASSES)

    def forward(self, x):
        return self.head(self.blocks(self.first(x)).mean((2, 3)))


def answer(steps, seed, accelerated):
    """(the sum of each batch's highest probabilities, seconds of each, report or None)."""
    torch.manual_seed(seed)
    model = Network().eval()
    pictures = [torch.randn(SIZES[k % len(SIZES)], 3, 32, 32) for k in range(2 * len(SIZES))]
    if accelerated:
        import crucible                   # <-- Crucible, first line
        model = crucible.accelerate(model)  # <-- Crucible, second line

    answers, seconds = [], []
    with torch.inference_mode():
        for step in range(steps):
            began = time.perf_counter()
            scores = model(pictures[step % len(pictures)])
            seconds.append(time.perf_counter() - began)
            if accelerated and step < 60:
                model.wait()  # for the table's sake: a loop of hours goes on while something is compiled
            answers.append(scores.softmax(1).max(1).values.sum())
    return [each.item() for each in answers], seconds, model.report() if accelerated else None


def main():
    from accelerate_table import compare, show

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="batches to answer (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the parameters and of the pictures (default 0)")
    parser.add_argument("--eager", action="store_true", help="only eagerly, without Crucible")
    args = parser.parse_args()
    eager = answer(args.steps, args.seed, False)
    if args.eager:
        return show("sum of probabilities", eager)
    compare("sum of probabilities", eager, answer(args.steps, args.seed, True))


if __name__ == "__main__":
    main()
