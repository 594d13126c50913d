"""Train a small decoder-only transformer with AdamW, gradient clipping, warm-up and a cosine schedule.

The text is synthetic (a noisy arithmetic sequence of tokens), made by the script, so it runs anywhere:

    python gpt_adamw.py --steps 12 --seed 0
"""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY, WIDTH, LAYERS, HEADS, BATCH, LENGTH, DROPOUT = 2048, 256, 4, 4, 4, 128, 0.1


class Attention(nn.Module):
    """Causal self-attention over all heads at once."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).split(WIDTH, dim=2)
        q, k, v = (t.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Block(nn.Module):
    """Attention and a feed-forward network, each behind a layer norm and on a residual."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.feed_forward(self.norm2(x)))


class GPT(nn.Module):
    """Token and position embeddings, the blocks, and a linear head over the vocabulary."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.tokens(ids) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def synthetic_text(steps, seed, batch=BATCH):
    """Token sequences that count up by a random stride, one in ten tokens replaced; yields (inputs, targets)."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        start = torch.randint(0, VOCABULARY, (batch, 1), generator=generator)
        stride = torch.randint(1, 8, (batch, 1), generator=generator)
        tokens = (start + stride * torch.arange(LENGTH + 1)) % VOCABULARY
        noise = torch.randint(0, VOCABULARY, tokens.shape, generator=generator)
        tokens = torch.where(torch.rand(tokens.shape, generator=generator) < 0.1, noise, tokens)
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def learning_rate_factor(step, warmup=100, total=1000):
    """Linear warm-up to 1, then a cosine down to 0."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (total - warmup))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12, help="optimizer steps to run (default 12)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the parameters, dropout and data (default 0)")
    parser.add_argument("--batch", type=int, default=BATCH, help=f"sequences in a step (default {BATCH})")
    parser.add_argument("--device", default="cpu", help="where to train: cpu, cuda, cuda:1 (default cpu)")
    parser.add_argument("--bf16", action="store_true", help="compute in bf16 where autocast does")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    model = GPT().to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, learning_rate_factor)

    batches = list(synthetic_text(args.steps, args.seed, args.batch))
    for step, (inputs, targets) in enumerate(batches):
        inputs, targets = inputs.to(args.device), targets.to(args.device)
        optimizer.zero_grad()
        with torch.autocast(torch.device(args.device).type, torch.bfloat16, enabled=args.bf16):
            logits = model(inputs)
            loss = F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print(f"step {step:3d}  loss {loss.item():.9g}")


if __name__ == "__main__":
    main()
