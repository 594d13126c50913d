"""Times eager steps of a model: python eager_step.py NAME [--steps N] [--threads N]. Prints the median in
nanoseconds."""

import argparse
import statistics
import time

import torch
from run_model import SEED
from zoo import MODELS

WARMUP = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as torch takes")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(SEED)
    _module, step = MODELS[arguments.name].build()
    times = []
    for index in range(WARMUP + arguments.steps):
        start = time.perf_counter_ns()
        step()
        if index >= WARMUP:
            times.append(time.perf_counter_ns() - start)
    print(int(statistics.median(times)))


if __name__ == "__main__":
    main()
