"""The attacks that make_attacks.py writes: what declares one, and the commands that most of them are tried on."""

from crtrace_maker import *

ATTACKS = []


def attack(kind, demand, *commands):
    def note(make):
        ATTACKS.append((make.__name__, kind, demand, commands, make))
        return make
    return note


REPLAY, INFO, OPS, GRAPH, PLAN, KERNELS = ("replay {f} --verify", "trace info {f}", "trace ops {f} --all", "graph {f}",
                                           "plan {f}", "kernels {f}")
POOL = (
    "aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, "
    "bool ceil_mode=False) -> (Tensor, Tensor)")
