"""Instructions and cache misses that recording adds per op, counted by callgrind: recorder_instructions.py
BUILD_FOLDER/python

Runs the step of recorder_bench.py (20 x Linear 32 + Tanh, AdamW foreach) under valgrind for two numbers of steps,
recorded and plain, at once where there are cores; the differences belong to steady steps alone. Counts do not depend on
what else the machine does.
Simulated: 32 KiB of level 1, 512 KiB of level 2. Takes some ten minutes; needs valgrind.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FEW, MANY = 8, 18
CACHES = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=524288,8,64"]
COUNTED = {
    "instructions": ["Ir"], "code misses": ["I1mr"], "data misses": ["D1mr", "D1mw"],
    "misses of level 2": ["ILmr", "DLmr", "DLmw"]
}


def run_steps(package, kind, steps):
    """What valgrind looks at. Prints the number of ops of a step that was recorded."""
    sys.path.insert(0, package)
    import torch
    from crucible_torch import _recorder
    from crucible_torch.naming import Names

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()) for _ in range(20)])
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    batch = torch.randn(8, 32)

    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    for _ in range(5):
        step()
    if kind == "recorded":
        _recorder.install("typed")
        names = Names(_recorder, torch)
        library = [os.path.dirname(torch.__file__) + os.sep, os.path.abspath(package) + os.sep]
        _recorder.start(torch.nn.Module.__call__, library, names.add_root, 1)
    for _ in range(steps):
        step()
        if kind == "recorded":
            _recorder.end_iteration()
    if kind == "recorded":
        print("ops per step:", _recorder.measures()["ops"] // steps)


def counts_by_library(path):
    """Sums of a callgrind file's own costs: of the recorder's library, and of everything."""
    names, sums, current, events, is_call = {}, collections.defaultdict(collections.Counter), None, [], False
    with open(path, errors="replace") as file:
        for line in file:
            if line.startswith("events:"):
                events = line.split()[1:]
            elif named := re.match(r"c?ob=\((\d+)\)(?: (.*))?", line):
                if named[2]:
                    names[named[1]] = named[2].strip()
                if line.startswith("ob="):
                    current = named[1]
            elif line.startswith("calls="):
                is_call = True  # the next line is what the callee cost
            elif line[:1].isdigit() or line[:1] in "+-*":
                if not is_call:
                    for event, cost in zip(events, line.split()[1:]):
                        sums[current][event] += int(cost)
                is_call = False
    recorder, everything = collections.Counter(), collections.Counter()
    for number, costs in sums.items():
        everything.update(costs)
        if "crucible_torch" in names.get(number, ""):
            recorder.update(costs)
    return recorder, everything


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("package", help="the folder with crucible_torch, BUILD/python")
    parser.add_argument("--steps", nargs=2, metavar=("KIND", "N"), help=argparse.SUPPRESS)  # under valgrind
    arguments = parser.parse_args()
    if arguments.steps:
        return run_steps(arguments.package, arguments.steps[0], int(arguments.steps[1]))
    if shutil.which("valgrind") is None:
        sys.exit("recorder_instructions.py needs valgrind: install the package valgrind")
    ops = 0
    with tempfile.TemporaryDirectory() as folder:

        def count(kind, steps):
            path = pathlib.Path(folder) / f"{kind}.{steps}"
            command = [
                "valgrind", "--tool=callgrind", "--cache-sim=yes", *CACHES, f"--callgrind-out-file={path}",
                sys.executable, __file__
            ]
            done = subprocess.run(
                [*command, arguments.package, "--steps", kind, str(steps)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
            return counts_by_library(path), done.stdout

        runs = [("recorded", FEW), ("recorded", MANY), ("plain", FEW), ("plain", MANY)]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = dict(zip(runs, pool.map(lambda run: count(*run), runs)))
    ops = int(re.search(r"ops per step: (\d+)", found["recorded", MANY][1])[1])

    def per_op(kind, part, events):
        return sum(found[kind, MANY][0][part][e] - found[kind, FEW][0][part][e] for e in events) / (MANY - FEW) / ops

    print(f"{ops} ops per step, {MANY - FEW} steady steps; per op:")
    print(f"{'':20} {'recorder':>10} {'all, recorded':>14} {'all, plain':>12}")
    for name, events in COUNTED.items():
        print(
            f"{name:20} {per_op('recorded', 0, events):10.1f} {per_op('recorded', 1, events):14.1f} {per_op('plain', 1, events):12.1f}"
        )
    return None


if __name__ == "__main__":
    main()
