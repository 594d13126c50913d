"""What the programs of this folder share. Each is a function without arguments that makes a namespace: `step`, what is
accelerated; `batch`, the arguments of one call; `net`, whose state is compared; `calls`, where there have to be more;
`around(step)`, where a loop does something with what the step gives."""

import types

import torch
from torch import nn

PROGRAMS = {}
EAGER = {}  # name: words of the reason why calls stay eager
NS = types.SimpleNamespace


def program(made=None, *, eager=""):
    """As a decorator: one more program. `eager`: its calls stay eager, and the report says so in these words."""
    if made is None:
        return lambda function: program(function, eager=eager)
    PROGRAMS[made.__name__] = made
    if eager:
        EAGER[made.__name__] = eager
    return made


def mlp(i=16, h=64, o=4, act=nn.ReLU):
    return nn.Sequential(nn.Linear(i, h), act(), nn.Linear(h, h), act(), nn.Linear(h, o))


def cls_batch(b=32, i=16, o=4):
    return lambda: (torch.randn(b, i), torch.randint(0, o, (b,)))
