"""A model of tokens whose batches have another length in each iteration: python variants_script.py LENGTHS ITERATIONS

As many lengths as are asked for, evenly between 8 and 1032, each as often as the others, in an order that is mixed. What
tests/bench/variants_bench.py records.
"""

import random
import sys

import torch
from torch import nn

lengths, iterations = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(100, 32), nn.Flatten(0, 1), nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(),
                      nn.Linear(64, 100))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
ends = [1032 - (1024 * k) // lengths for k in range(lengths)]
plan = [length for _ in range(-(-(iterations + 2) // lengths)) for length in random.Random(7).sample(ends, lengths)]
for length in plan[:iterations + 2]:  # the recorder passes over the first ones, which warm up
    tokens = torch.randint(100, (4, length + 1))
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
