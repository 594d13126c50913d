"""Eager PyTorch, torch.compile and replay of the examples, in turns: python step_bench.py --crucible PATH [--rounds 7]

Each peer is a process of its own; the peers take turns, so that a change of the machine's speed meets all of them.
Prints the median over the rounds of each round's median step, the spread, and the median of the ratios eager / peer.
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
EXAMPLES = {"mlp_sgd": 200, "gpt_adamw": 12, "resnet18_sgd": 12}  # steps in one turn
WARMUP_TURNS = 2


class TorchPeer:
    """A paced process that trains; one turn is `steps` optimizer steps."""

    def __init__(self, example, steps, compiled):
        turns = 64
        command = [sys.executable, ROOT / "tests/bench/step_times.py", *(["--compile"] if compiled else []),
                   "--paced", str(steps), ROOT / "examples" / f"{example}.py", "--steps", str(steps * turns)]
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        self.first = True

    def turn(self):
        if not self.first:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        self.first = False
        for line in self.process.stdout:
            if line.startswith("{"):
                return statistics.median(json.loads(line)["step_ns"])
        sys.exit(f"error: the peer {self.process.args} ended early")

    def close(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


class ReplayPeer:
    """One turn is one run of `crucible replay`, timed by itself: iterations alone, no loading."""

    def __init__(self, crucible, example, steps, folder):
        self.crucible, self.repeat = crucible, max(1, steps // 8)
        self.trace = pathlib.Path(folder) / f"{example}.crtrace"
        subprocess.run([crucible, "record", "-o", self.trace, "--iterations", "8", "--", sys.executable,
                        ROOT / "examples" / f"{example}.py", "--steps", "12"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def turn(self):
        done = subprocess.run([self.crucible, "replay", self.trace, "--json", "--repeat", str(self.repeat + 1)],
                              check=True, capture_output=True, text=True)
        return json.loads(done.stdout)["time_ns_per_iteration"]

    def close(self):
        pass


def bench(crucible, example, rounds, folder):
    steps = EXAMPLES[example]
    peers = {"eager": TorchPeer(example, steps, False), "torch.compile": TorchPeer(example, steps, True),
             "replay": ReplayPeer(crucible, example, steps, folder)}
    times = {name: [] for name in peers}
    for number in range(WARMUP_TURNS + rounds):
        if sys.stderr.isatty():
            print(f"\r{example}: round {number + 1} of {WARMUP_TURNS + rounds} ", end="", file=sys.stderr, flush=True)
        for name, peer in peers.items():
            time = peer.turn()
            if number >= WARMUP_TURNS:
                times[name].append(time)
    for peer in peers.values():
        peer.close()
    if sys.stderr.isatty():
        print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crucible", default=ROOT / "build/release/crucible")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("examples", nargs="*", default=list(EXAMPLES))
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for example in options.examples:
            results[example] = bench(options.crucible, example, options.rounds, folder)
    if options.json:
        print(json.dumps(results, indent=2))
        return
    print(f"one training step, {options.rounds} rounds in turns, torch {torch.__version__}, {os.cpu_count()} cores")
    print(f"{'example':14} {'peer':14} {'median ms':>10} {'min ms':>9} {'max ms':>9}   eager / peer")
    for example, times in results.items():
        for peer, values in times.items():
            ratio = statistics.median(eager / value for eager, value in zip(times["eager"], values))
            print(f"{example:14} {peer:14} {statistics.median(values) / 1e6:10.3f} {min(values) / 1e6:9.3f} "
                  f"{max(values) / 1e6:9.3f}   {ratio:.2f}")


if __name__ == "__main__":
    main()
