"""What the models share: the registry, a training loop's step, and random batches."""

import dataclasses
import itertools
from collections.abc import Callable

import torch

MODELS = {}


@dataclasses.dataclass
class Entry:
    name: str
    build: Callable        # () -> (module, step); step() does one step and returns its loss or its outputs
    inference: bool
    packages: tuple        # beyond torch


def model(name, inference=False, packages=()):
    """Registers a function that builds a seeded model and returns (module, step)."""
    def register(build):
        assert name not in MODELS, name
        MODELS[name] = Entry(name, build, inference, packages)
        return build
    return register


def training(module, optimizer, batches, loss_of, autocast=None, scaler=None, clip=None):
    """(module, step) of the usual loop. `loss_of(*batch)`; `autocast`: an element type or None."""
    module.train()
    turn = itertools.cycle(batches)

    def step():
        batch = next(turn)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=autocast or torch.bfloat16, enabled=autocast is not None):
            loss = loss_of(*batch)
        if scaler is None:
            loss.backward()
        else:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        return loss

    return module, step


def images(batch, size, classes, count=4, channels=3):
    """Batches of (pixels, labels)."""
    return [(torch.randn(batch, channels, size, size), torch.randint(0, classes, (batch,))) for _ in range(count)]


def tokens(batch, length, vocabulary, count=4):
    """Batches of (ids,); 0 and 1 are left to padding and beginning."""
    return [(torch.randint(2, vocabulary, (batch, length)),) for _ in range(count)]
