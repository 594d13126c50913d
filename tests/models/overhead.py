"""What recording adds to a step of each model: python overhead.py --package BUILD/python NAME... [--rounds N] [--steps
N]

Blocks of plain and of recorded steps of the same model in one process, in turn. The first steps of a block are not
timed: there the recorder takes the bytes of parameters and states. Per round the ratio of the blocks' median steps; of
the rounds the median. Time is the process's CPU time with one thread, so that other work on the machine counts little.
Prints JSON.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time

import numpy
import torch

WARMUP = 2


class Recording:
    """All that a recording does in the program: kernels, hooks, phases, boundaries."""

    def __init__(self, package):
        sys.path.insert(0, package)
        from crucible_torch import _recorder
        from crucible_torch.naming import Names
        self.recorder, self.names, self.package = _recorder, Names, package

    def __enter__(self):
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
        self.recorder.install("typed")
        names = self.names(self.recorder, torch)
        self.hooks = [register_optimizer_step_pre_hook(lambda *_: self.set_phase(2)),
                      register_optimizer_step_post_hook(lambda *_: self.set_phase(0))]
        self.backward = torch.autograd.backward
        torch.autograd.backward = self.recorder.wrap_backward(self.backward)
        folders = [os.path.dirname(torch.__file__) + os.sep, os.path.abspath(self.package) + os.sep]
        self.recorder.start(torch.nn.Module.__call__, folders, names.add_root, True)
        return self

    def set_phase(self, phase):
        self.recorder.set_phase(phase)  # a hook must return nothing

    def end_step(self):
        self.recorder.end_iteration()

    def __exit__(self, *_):
        self.recorder.stop()
        torch.autograd.backward = self.backward
        for hook in self.hooks:
            hook.remove()
        self.recorder.uninstall()
        self.measures = self.recorder.measures()
        self.recorder.clear()


def block(step, steps, after_step=lambda: None):
    """The median CPU time of a step, in nanoseconds."""
    times = []
    for index in range(WARMUP + steps):
        start = time.process_time_ns()
        step()
        after_step()
        if index >= WARMUP:
            times.append(time.process_time_ns() - start)
    return statistics.median(times)


def measure(name, recording, rounds, steps):
    from zoo import MODELS
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
    _module, step = MODELS[name].build()
    block(step, 1)
    pairs, ops = [], 0
    for _ in range(rounds):
        plain = block(step, steps)
        with recording:
            recorded = block(step, steps, recording.end_step)
        pairs.append((plain, recorded))
        ops = recording.measures["ops"] / recording.measures["complete_iterations"]
    return {"plain_ns": statistics.median(plain for plain, _ in pairs), "ops": ops,
            "ratio": statistics.median(recorded / plain for plain, recorded in pairs),
            "added_ns_per_op": statistics.median((recorded - plain) / ops for plain, recorded in pairs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--package", required=True, help="the folder with crucible_torch, BUILD/python")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recording = Recording(arguments.package)
    print(json.dumps({name: measure(name, recording, arguments.rounds, arguments.steps) for name in arguments.names}))


if __name__ == "__main__":
    main()
