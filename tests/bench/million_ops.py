"""Very many ops in one iteration: million_ops.py BUILD_FOLDER/python [--ops N]

A loop of small ops on the CPU (products, sums, views, an in-place update, a new tensor each) is timed as it is and then
recorded as one iteration. Prints the ops, their time with and without recording, memory and bytes of the file per op,
and how long the writing took after the last op. Checks that the recording holds every op.
"""

import argparse
import os
import resource
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("package", help="the folder with crucible and crucible_torch, BUILD/python")
parser.add_argument("--ops", type=int, default=1_000_000)
arguments = parser.parse_args()
sys.path.insert(0, arguments.package)

import torch  # noqa: E402

import crucible  # noqa: E402

OPS_PER_ROUND = 5
torch.set_num_threads(1)


def run(ops, state):
    """`ops` ops, in rounds of five. Returns seconds."""
    row = torch.full((8,), 0.5)
    start = time.perf_counter()
    for _ in range(ops // OPS_PER_ROUND):
        product = torch.mul(state, row)
        shifted = torch.add(product, 1.0)
        line = shifted.view(2, 4)
        total = line.sum()
        state.mul_(total)
    return time.perf_counter() - start


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main():
    state = torch.zeros(8)
    run(arguments.ops // 10, state)
    plain = run(arguments.ops, state)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "many.crtrace")
        with crucible.record(path, iterations=1, warmup=0, end_of_iteration="step") as recording:
            run(arguments.ops // 100, state)  # what a recording takes once is there from here on
            before = resident_bytes()
            recorded = run(arguments.ops, state)
            grown = resident_bytes() - before
            start = time.perf_counter()
            crucible.step()
        written = time.perf_counter() - start
        ops = recording.summary["ops"]
        size = os.path.getsize(path)
    if ops < arguments.ops:
        sys.exit(f"error: {ops} ops are in the file, {arguments.ops} were run")
    print(
        f"torch {torch.__version__}, {ops} ops in one iteration: {1e9 * plain / arguments.ops:.0f} ns per op, recorded {1e9 * recorded / arguments.ops:.0f}; "
        f"{grown / arguments.ops:.0f} bytes of memory per op, {size / ops:.1f} bytes per op in the file, written in {written:.1f} s"
    )


if __name__ == "__main__":
    main()
