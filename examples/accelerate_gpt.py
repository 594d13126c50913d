"""Train a small GPT on the characters of a text, eagerly and with `crucible.accelerate`.

The two lines of Crucible are marked. Without arguments both ways run from one seed, and a table compares them:

    python accelerate_gpt.py
    python accelerate_gpt.py --eager --steps 50
"""

import argparse
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, LAYERS, HEADS, BATCH, LENGTH, DROPOUT = 64, 2, 2, 4, 32, 0.1
LARGEST_RATE, WARMUP = 1e-3, 20

ANIMALS = ("cat", "dog", "hen", "goat", "horse", "mouse", "owl", "fox")
PLACES = ("the barn", "a river", "the old house", "her garden", "the hill", "a field of rye")


def text():
    """Sentences that all differ a little, so that there is something to learn."""
    lines = [f"The {ANIMALS[k % 8]} that lives near {PLACES[k % 6]} saw {k % 5 + 2} {ANIMALS[(3 * k + 1) % 8]}s today."
             for k in range(240)]
    return "\n".join(lines)


class Block(nn.Module):
    """Causal self-attention and a feed-forward network, each added to what it reads."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.dropout(self.out(seen.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.narrow(F.gelu(self.wide(self.norm2(x)))))


class Gpt(nn.Module):
    """Characters in, scores of the next character out."""

    def __init__(self, characters):
        super().__init__()
        self.tokens, self.places = nn.Embedding(characters, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def learning_rate(step, steps):
    """Up in a line, down in half a cosine."""
    if step < WARMUP:
        return LARGEST_RATE * (step + 1) / WARMUP
    return LARGEST_RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - WARMUP) / max(1, steps - WARMUP))))


def train(steps, seed, accelerated):
    """(losses, seconds of each step, report or None)."""
    letters = sorted(set(text()))
    data = torch.tensor([letters.index(letter) for letter in text()])
    torch.manual_seed(seed)
    model = Gpt(len(letters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=LARGEST_RATE, weight_decay=0.1)

    def train_step(ids, targets):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    if accelerated:
        import crucible                             # <-- Crucible, first line
        train_step = crucible.accelerate(train_step)  # <-- Crucible, second line

    batches = torch.Generator().manual_seed(seed)
    losses, seconds = [], []
    for step in range(steps):
        starts = torch.randint(0, len(data) - LENGTH - 1, (BATCH,), generator=batches)
        ids = torch.stack([data[start:start + LENGTH] for start in starts])
        targets = torch.stack([data[start + 1:start + LENGTH + 1] for start in starts])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps)  # outside of the function: the compiled step reads it each time
        began = time.perf_counter()
        losses.append(train_step(ids, targets))
        seconds.append(time.perf_counter() - began)
        if accelerated and step < 60:
            train_step.wait()  # for the table's sake: a loop of hours goes on while something is compiled
    return [loss.item() for loss in losses], seconds, train_step.report() if accelerated else None


def main():
    from accelerate_table import compare, show

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="optimizer steps to run (default 400)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the parameters and of the batches (default 0)")
    parser.add_argument("--eager", action="store_true", help="only eagerly, without Crucible")
    args = parser.parse_args()
    eager = train(args.steps, args.seed, False)
    if args.eager:
        return show("loss", eager)
    compare("loss", eager, train(args.steps, args.seed, True))


if __name__ == "__main__":
    main()
