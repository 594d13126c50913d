"""Eager, torch.compile and replay on the five training steps of workloads.py, in turns.

    python kernels_bench.py --crucible PATH [--rounds 7] [--json] [NAME...]

Each peer is a process of its own; the peers take turns, so that a change of the machine's speed meets all of them. A
figure is the median over the rounds of each round's median step; a ratio is the median of the rounds' ratios to the
best of eager and torch.compile in the same round. "replay", "generated" and "strict" go by choices that were measured
before the rounds (--tune measure). Below: how long the products and convolutions take by the library and by generated
kernels, from a profile each.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = {"tinymlp": 400, "mlp": 200, "gpttiny": 80, "gpt2s": 8, "resnet18": 8}  # in one turn
TARGETS = {"tinymlp": 25, "mlp": 2.3, "gpttiny": 4.5, "gpt2s": 1.6, "resnet18": 3}
WARMUP_TURNS = 2
PEERS = {"eager": "nothing", "torch.compile, model": "model", "torch.compile, all": "everything"}
REPLAYS = {
    "replay": [], "replay, library": ["--tune", "off"], "replay, generated": ["--set", "backend.cpu.library=none"],
    "replay, strict": ["--numerics", "strict"]
}


class TorchPeer:
    def __init__(self, name, compiled):
        steps = STEPS[name]
        self.process = subprocess.Popen([
            sys.executable,
            str(ROOT / "tests/bench/workloads.py"), name, "--steps",
            str(steps * 1000), "--paced",
            str(steps), "--compile", compiled
        ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.first = True

    def turn(self):
        if not self.first:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        self.first = False
        line = self.process.stdout.readline()
        return statistics.median(json.loads(line)["step_ns"]) if line else None

    def close(self):
        self.process.kill()
        self.process.wait()


class ReplayPeer:
    """One turn is one run of `crucible replay`, timed by itself: iterations alone, no loading."""

    def __init__(self, crucible, trace, name, extra):
        self.command = [crucible, "replay", trace, "--backend", "cpu", "--json", "--repeat",
                        str(max(1, STEPS[name] // 8) + 1), *extra]

    def turn(self):
        done = subprocess.run([str(part) for part in self.command], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)["time_ns_per_iteration"]

    def close(self):
        pass


def record(crucible, name, folder):
    trace = pathlib.Path(folder) / f"{name}.crtrace"
    subprocess.run([crucible, "record", "-o", trace, "--iterations", "8", "--", sys.executable,
                    ROOT / "tests/bench/workloads.py", name, "--steps", "12"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    verified = subprocess.run([crucible, "replay", trace, "--backend", "cpu", "--verify", "--sensitivity", "3"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for extra in ([], REPLAYS["replay, generated"], REPLAYS["replay, strict"]):
        subprocess.run([crucible, "replay", trace, "--backend", "cpu", "--tune", "measure", *extra], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return trace, verified.returncode == 0


def bench(crucible, name, trace, rounds):
    peers = {peer: TorchPeer(name, compiled) for peer, compiled in PEERS.items()}
    peers |= {peer: ReplayPeer(crucible, trace, name, extra) for peer, extra in REPLAYS.items()}
    times = {peer: [] for peer in peers}
    for number in range(WARMUP_TURNS + rounds):
        if sys.stderr.isatty():
            print(f"\r{name}: round {number + 1} of {WARMUP_TURNS + rounds} ", end="", file=sys.stderr, flush=True)
        for peer, process in peers.items():
            time = process.turn()
            if number >= WARMUP_TURNS and time is not None:
                times[peer].append(time)
    for process in peers.values():
        process.close()
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return {peer: values for peer, values in times.items() if values}


def products(crucible, trace):
    """Milliseconds of all products and convolutions of one step: {"library": ..., "generated": ...}."""
    result = {}
    for kind, extra in (("library", REPLAYS["replay, library"]), ("generated", REPLAYS["replay, generated"])):
        done = subprocess.run([crucible, "replay", trace, "--backend", "cpu", "--profile", "--json", *extra],
                              check=True, capture_output=True, text=True)
        steps = json.loads(done.stdout)["profile"]
        result[kind] = sum(step["time_ns"] for step in steps if step["ops"].startswith(("matmul", "conv2d"))) / 1e6
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crucible", default=ROOT / "build/release/crucible")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("names", nargs="*", default=list(STEPS), metavar="NAME", help=", ".join(STEPS))
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in STEPS]:
        parser.error(f"no workload is called {unknown[0]}: {', '.join(STEPS)}")
    results, failed = {}, False
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CRUCIBLE_STORE_DIR"] = str(pathlib.Path(folder) / "store")
        for name in options.names:
            trace, verified = record(options.crucible, name, folder)
            failed |= not verified
            times = bench(options.crucible, name, trace, options.rounds)
            results[name] = {"verified": verified, "times_ns": times, "products_ms": products(options.crucible, trace)}
    if options.json:
        print(json.dumps(results, indent=2))
        return failed
    print(f"one training step, {options.rounds} rounds in turns, torch {torch.__version__}, {os.cpu_count()} cores")
    print(f"{'workload':9} {'peer':21} {'median ms':>10} {'min ms':>9} {'max ms':>9}   best peer / it   target")
    for name, result in results.items():
        times = result["times_ns"]
        best = [min(values) for values in zip(*(times[peer] for peer in PEERS if peer in times))]
        for peer, values in times.items():
            ratio = statistics.median(b / v for b, v in zip(best, values))
            target = f"{TARGETS[name]:6}" if peer == "replay" else ""
            print(f"{name:9} {peer:21} {statistics.median(values) / 1e6:10.3f} {min(values) / 1e6:9.3f} "
                  f"{max(values) / 1e6:9.3f}   {ratio:14.2f}   {target}")
        if not result["verified"]:
            print(f"{name:9} NOT VERIFIED: its replay does not compute what was recorded")
    print("\nproducts and convolutions of one step, milliseconds (each step timed by itself)")
    for name, result in results.items():
        p = result["products_ms"]
        print(f"{name:9} library {p['library']:8.3f}   generated {p['generated']:8.3f}   "
              f"library / generated {p['library'] / max(p['generated'], 1e-9):.2f}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
