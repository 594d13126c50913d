"""What the guards of a compiled call cost in instructions, counted by valgrind's callgrind: `ci/bench adaptive
--instructions`.

    python guard_instructions.py --python-folder build/release/python

Machines that let nobody count instructions (perf_event_open) are measured too, and the count is the same in each run.
Counted is Guards.check() alone, of so many tensors and of so many values that the function can see."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKED = "crucible::accelerate::Guards::check*"
CASES = [(0, 0), (10, 0), (100, 0), (1000, 0), (0, 10), (0, 100), (0, 1000)]  # tensors, values
TIMES = 10
LONGEST_S = 900


def control(*options):
    subprocess.run(["callgrind_control", *options, str(os.getpid())], check=True, stdout=subprocess.DEVNULL)


def be_counted():
    """In the process that valgrind runs: a part of the profile for each case."""
    import torch
    from crucible_torch import _accelerate

    class Holder:
        pass

    all_guards = []
    for tensors, values in CASES:
        guards = _accelerate.Guards()
        guards.watch_state()
        for k in range(tensors):
            guards.watch_tensor(torch.nn.Parameter(torch.zeros(2, 3)), f"t{k}")
        holders = [Holder() for _ in range(values)]
        for k, holder in enumerate(holders):
            holder.value = k
            guards.watch_dict(vars(holder), f"h{k}.__dict__", {"value": "value"})
        all_guards.append((guards, holders))
    control("--instr=on")
    for guards, _ in all_guards:
        assert guards.check() is None
    control("-z")
    for guards, _ in all_guards:
        for _ in range(TIMES):
            guards.check()
        control("-d")


def count(python_folder):
    """Instructions of one check() of each case."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        environment = {**os.environ, "PYTHONPATH": str(python_folder), "OMP_NUM_THREADS": "1"}
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--collect-atstart=no",
                   f"--toggle-collect={CHECKED}", f"--callgrind-out-file={out}", sys.executable, __file__,
                   "--counted"]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LONGEST_S)
        if ran.returncode != 0:
            raise RuntimeError(ran.stderr.strip()[-600:])
        parts = sorted(out.parent.glob(f"{out.name}.*"), key=lambda part: int(part.suffix[1:]))
        if len(parts) != len(CASES):
            raise RuntimeError(f"callgrind wrote {len(parts)} parts for {len(CASES)} cases: {ran.stderr[-600:]}")
        counted = []
        for part in parts:
            found = re.search(r"^(?:summary|totals): (\d+)", part.read_text(), re.MULTILINE)
            if found is None or int(found.group(1)) == 0:
                raise RuntimeError(f"callgrind has not seen {CHECKED}: is build/release stripped?")
            counted.append(int(found.group(1)) / TIMES)
        return counted


def main():
    parser = argparse.ArgumentParser(prog="ci/bench adaptive --instructions", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python-folder", default=ROOT / "build/release/python")
    parser.add_argument("--counted", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.counted:
        return be_counted()
    counted = count(options.python_folder)
    print(f"{'tensors':>7} {'values':>6} {'instructions':>12} {'each':>6}")
    base = counted[0]
    for (tensors, values), instructions in zip(CASES, counted):
        each = (instructions - base) / (tensors + values) if tensors + values else 0
        print(f"{tensors:7} {values:6} {instructions:12.0f} {each:6.1f}")


if __name__ == "__main__":
    sys.exit(main())
