"""Memory budgets of two training steps, measured: python budget_bench.py --crucible PATH [--rounds 3]

Records a GPT with 32 sequences and a ResNet-18 with 8 images of 224 x 224, replays each without a budget and within 80,
60,
50 and 40 percent of the peak, and says what the plugin counted, whether the results are the same bits (without a budget
they are verified), and what it cost: the runs take turns, the ratio is that of the medians. 10 percent must be refused;
the smallest budget that is named must work.
Both are measured twice: as a CPU is, and with a device profile that has a link to a host, where tensors and states may
wait; the copies are then real ones, within the memory of this machine.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = {"gpt_adamw": ["--batch", "32"], "resnet18_sgd": ["--batch", "8", "--size", "224"]}
SHARES = (80, 60, 50, 40)
PROFILES = ("", "l4")


def replay(crucible, trace, budget, profile="", runs=0):
    """Exit code, JSON and words. Verified or not, the results have a hash; `runs` as in --sensitivity."""
    command = [crucible, "replay", trace, "--verify", "--json", *(["--memory-budget", str(budget)] if budget else []),
               *(["--device-profile", profile] if profile else []), *(["--sensitivity", str(runs)] if runs else [])]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def refused(crucible, trace, budget, profile):
    """The smallest budget that the refusal names."""
    code, _, words = replay(crucible, trace, budget, profile)
    found = re.search(r"the smallest that works is (\d+) bytes", words)
    if code == 0 or not found:
        sys.exit(f"error: a budget of {budget} bytes was not refused with the smallest one: exit code {code}, {words}")
    return int(found.group(1))


def row(label, budget, runs, free):
    times = statistics.median(run["time_ns_per_iteration"] for run in runs)
    free_times = statistics.median(run["time_ns_per_iteration"] for run in free)
    last = runs[-1]
    same = all(run["result_sha256"] == free[0]["result_sha256"] for run in runs)
    if budget and last["peak_bytes"] > budget:
        sys.exit(f"error: {label}: {last['peak_bytes']} bytes were taken, {budget} were allowed")
    if not same:
        sys.exit(f"error: {label}: the results are other bits than without a budget")
    mib = 1 / 2**20
    print(
        f"{label:>9} {budget * mib if budget else float('nan'):11.1f} {last['planned_peak_bytes'] * mib:12.1f} "
        f"{last['peak_bytes'] * mib:13.1f} {last['memory']['steps_repeated']:9d} {last['memory']['transfers']:10d} {last['memory']['host_bytes'] * mib:12.1f} "
        f"{'yes' if same else 'no':>10} {times / 1e6:9.1f} {times / free_times:6.2f}")


def measure(crucible, trace, profile, rounds):
    """One table: without a budget, then each budget that works, in turns."""
    code, free, words = replay(crucible, trace, 0, runs=3)
    if code != 0:
        sys.exit(f"error: {trace.stem}: {words}{free and free.get('reason')}")
    peak = free["peak_bytes"]
    smallest = refused(crucible, trace, peak // 10, profile)
    budgets = {
        "none": 0, **{
            f"{share}%": peak * share // 100 for share in SHARES if peak * share // 100 >= smallest
        }, "smallest": smallest
    }
    runs = {label: [] for label in budgets}
    for _ in range(rounds):
        for label, budget in budgets.items():
            code, document, words = replay(crucible, trace, budget, profile)
            if document is None:
                sys.exit(f"error: {trace.stem}, {label}: {words}")
            runs[label].append(document)
    print(
        "   budget  budget MiB  planned MiB  measured MiB  repeated  transfers  on host MiB  same bits  ms/step  ratio")
    for label, budget in budgets.items():
        row(label, budget, runs[label], runs["none"])
    for share in SHARES:
        if f"{share}%" not in budgets:
            print(f"{share:>8}%: refused: the smallest is {100 * smallest / peak:.0f}%")
    print(f"      10%: refused: the smallest is {smallest / 2**20:.1f} MiB\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crucible", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each budget (default 3)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for example, switches in STEPS.items():
            trace = pathlib.Path(folder) / f"{example}.crtrace"
            subprocess.run([args.crucible, "record", "-o", trace, "--iterations", "2", "--", sys.executable,
                            ROOT / "examples" / f"{example}.py", "--steps", "4", *switches], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for profile in PROFILES:
                link = f"with the link to a host of {profile}" if profile else "without a link to a host"
                print(f"{example} {' '.join(switches)}, {link}")
                measure(args.crucible, trace, profile, args.rounds)


if __name__ == "__main__":
    main()
