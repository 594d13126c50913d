"""Records the three examples, replays them and prints one table. Called by ci/quickstart after the build."""

import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CRUCIBLE = ROOT / "build/release/crucible"
OUT = ROOT / "build/quickstart"
EXAMPLES = ["mlp_sgd", "gpt_adamw", "resnet18_sgd"]


def run(command, what):
    """Runs a command; its output is shown only when it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {what} failed with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def progress(text):
    if sys.stderr.isatty():
        print(f"\r  {text:<70}", end="", file=sys.stderr, flush=True)


def size(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.1f} {unit}"
        count /= 1024


def measure(example):
    """One row of the table."""
    script = ROOT / "examples" / f"{example}.py"
    trace = OUT / f"{example}.crtrace"
    progress(f"{example}: recording")
    run([CRUCIBLE, "record", "-o", trace, "--iterations", "8", "--", sys.executable, script, "--steps", "12"],
        f"recording {example}")
    progress(f"{example}: timing eager PyTorch")
    times = json.loads(run([sys.executable, ROOT / "tests/bench/step_times.py", script, "--steps", "30"],
                           f"timing {example}").splitlines()[-1])["step_ns"]
    progress(f"{example}: replaying")
    done = subprocess.run([CRUCIBLE, "replay", trace, "--verify", "--sensitivity", "3", "--json", "--repeat", "4"],
                          capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"error: replaying {example} failed with exit code {done.returncode}:\n{done.stderr}")
    replay = json.loads(done.stdout)
    difference = max(abs(iteration["rel_diff"]) for iteration in replay["iterations"])
    return [example, str(replay["ops_per_iteration"]), f"{statistics.median(times[5:]) / 1e6:.2f}",
            f"{replay['time_ns_per_iteration'] / 1e6:.2f}", size(replay["planned_peak_bytes"]), f"{difference:.1e}",
            "yes" if replay["verified"] else "NO"]


def main():
    os.makedirs(OUT, exist_ok=True)
    rows = [["example", "ops", "eager ms", "replay ms", "planned peak", "loss difference", "verified"]]
    rows += [measure(example) for example in EXAMPLES]
    progress("")
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *rest = [cell.rjust(width) for cell, width in zip(row, widths)]
        print("  ".join([row[0].ljust(widths[0]), *rest]))
    print(f"\nThe recordings are in {OUT.relative_to(ROOT)}/; try: build/release/crucible trace info "
          f"{OUT.relative_to(ROOT)}/gpt_adamw.crtrace")
    return 0 if all(row[-1] == "yes" for row in rows[1:]) else 1


if __name__ == "__main__":
    sys.exit(main())
