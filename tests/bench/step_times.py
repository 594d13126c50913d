"""Times an unmodified training script step by step.

    python step_times.py [--compile [--dynamic]] [--paced STEPS] SCRIPT [ARGS...]

A step is the time from one optimizer step's end to the next. Prints what the script prints and, as its last line, one
JSON object {"step_ns": [...]}. With --paced it stops after every STEPS steps, prints such an object and goes on when a
line arrives on standard input, so that peers in several processes can take turns; it ends when standard input ends.
--compile puts torch.compile around the model at its first call, --dynamic for any sizes.
"""

import argparse
import json
import os
import runpy
import sys
import time

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook


def compile_first_module(dynamic):
    """The first module that is called is the model: compile it in place, then step aside."""
    original = torch.nn.Module.__call__

    def call(module, *args, **kwargs):
        torch.nn.Module.__call__ = original
        module.compile(dynamic=dynamic)
        return module(*args, **kwargs)

    torch.nn.Module.__call__ = call


class StepClock:
    """Collects the times between optimizer steps; waits for its turn when paced."""

    def __init__(self, paced):
        self.paced = paced
        self.step_ns = []
        self.last = None

    def tick(self):
        now = time.perf_counter_ns()
        if self.last is not None:
            self.step_ns.append(now - self.last)
        if self.paced and len(self.step_ns) == self.paced:
            self.report()
            if not sys.stdin.readline():
                sys.stdout.flush()
                os._exit(0)
        self.last = time.perf_counter_ns()

    def report(self):
        print(json.dumps({"step_ns": self.step_ns}), flush=True)
        self.step_ns = []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--dynamic", action="store_const", const=True)
    parser.add_argument("--paced", type=int, default=0)
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.compile:
        compile_first_module(options.dynamic)
    clock = StepClock(options.paced)
    register_optimizer_step_post_hook(lambda *_: clock.tick())
    sys.argv = [options.script, *options.arguments]
    runpy.run_path(options.script, run_name="__main__")
    clock.report()


if __name__ == "__main__":
    main()
