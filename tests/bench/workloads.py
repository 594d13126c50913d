"""The five training steps whose targets docs/performance.md names: python workloads.py NAME [--steps N] [--compile
WHAT]

    tinymlp   20 x (Linear 32 + Tanh), batch 8
    mlp       256-512-512-10 with GELU, batch 64
    gpttiny   GPT-2 of transformers, 4 layers, width 64, 2 x 32 tokens
    gpt2s     GPT-2 of transformers, 4 layers, width 256, vocabulary 2048, 4 x 128 tokens
    resnet18  torchvision's, 8 x 3 x 64 x 64

Forward, backward and AdamW (learning rate 1e-3) on one fixed batch, f32. With --paced N it prints {"step_ns": [...]}
after every N steps and goes on when a line arrives on standard input.
"""

import argparse
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

NAMES = ("tinymlp", "mlp", "gpttiny", "gpt2s", "resnet18")


def gpt2(layers, heads, width, vocabulary, tokens):
    from transformers import GPT2Config, GPT2LMHeadModel
    model = GPT2LMHeadModel(GPT2Config(n_layer=layers, n_head=heads, n_embd=width, vocab_size=vocabulary,
                                       n_positions=tokens[1], resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    ids = torch.randint(0, vocabulary, tokens)
    return model, lambda call: call(input_ids=ids, labels=ids).loss


def make(name):
    """The model, and its loss as a function of what is called in its place."""
    if name == "tinymlp":
        model = nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(20)])
        inputs = torch.randn(8, 32)
        return model, lambda call: call(inputs).square().mean()
    if name == "gpttiny":
        return gpt2(4, 2, 64, 256, (2, 32))
    if name == "gpt2s":
        return gpt2(4, 4, 256, 2048, (4, 128))
    if name == "mlp":
        model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))
        inputs, labels = torch.randn(64, 256), torch.randint(0, 10, (64,))
    else:
        import torchvision
        model = torchvision.models.resnet18(num_classes=10)
        inputs, labels = torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,))
    return model, lambda call: F.cross_entropy(call(inputs), labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--compile", choices=("nothing", "model", "everything"), default="nothing",
                        help="what torch.compile is put around: the model, or loss and optimizer step")
    parser.add_argument("--paced", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(0)
    model, loss_of = make(options.name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    called = torch.compile(model) if options.compile == "model" else model
    loss_now, update = (lambda: loss_of(called)), optimizer.step
    if options.compile == "everything":
        loss_now, update = torch.compile(loss_now), torch.compile(optimizer.step)
    times = []
    for number in range(options.steps):
        start = time.perf_counter_ns()
        optimizer.zero_grad()
        loss = loss_now()
        loss.backward()
        update()
        value = loss.item()
        times.append(time.perf_counter_ns() - start)
        if not options.paced:
            print(f"step {number:3d}  loss {value:.9g}")
        elif len(times) == options.paced:
            print(json.dumps({"step_ns": times}), flush=True)
            times = []
            if not sys.stdin.readline():
                return


if __name__ == "__main__":
    main()
