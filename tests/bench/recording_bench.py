"""What recording costs whole training steps: recording_bench.py [--crucible PATH] [--rounds 40] [EXAMPLE...]

Each example runs twice as it is and once under `crucible record`, writing its file meanwhile, in processes of their own
that take turns of a few steps (step_times.py): rounds are short, so that a change of the machine's speed meets all
three. Prints the median step of each, and the median and quartiles over the rounds of recorded / eager; of eager /
eager too, which says how much of that is noise.
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
EXAMPLES = {"mlp_sgd": 60, "gpt_adamw": 4, "resnet18_sgd": 4}  # steps in one turn
WARMUP_TURNS = 2


class Peer:
    """A paced process that trains; one turn is `steps` optimizer steps."""

    def __init__(self, example, steps, turns, recording=()):
        command = [*recording, sys.executable, ROOT / "tests/bench/step_times.py", "--paced", str(steps),
                   ROOT / "examples" / f"{example}.py", "--steps", str(steps * (turns + 1))]
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.first = True

    def turn(self):
        """Nanoseconds of the turn's median step."""
        if not self.first:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        self.first = False
        for line in self.process.stdout:
            if line.startswith("{"):
                return statistics.median(json.loads(line)["step_ns"])
        sys.exit(f"error: the peer {self.process.args} ended early")

    def close(self):
        self.process.stdin.close()  # the program ends then
        self.process.stdout.read()
        self.process.wait()


def bench(crucible, example, rounds, folder):
    """Times by peer: a list with the median step of each round, in nanoseconds."""
    steps, turns = EXAMPLES[example], WARMUP_TURNS + rounds
    recording = [
        crucible, "record", "-o",
        pathlib.Path(folder) / f"{example}.crtrace", "--iterations",
        str(steps * (turns + 2)), "--"
    ]
    peers = {"eager": Peer(example, steps, turns), "recorded": Peer(example, steps, turns, recording),
             "eager again": Peer(example, steps, turns)}
    times = {name: [] for name in peers}
    for number in range(turns):
        for name, peer in peers.items():
            time = peer.turn()
            if number >= WARMUP_TURNS:
                times[name].append(time)
    for peer in peers.values():
        peer.close()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crucible", default=ROOT / "build/release/crucible")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("examples", nargs="*", default=list(EXAMPLES), metavar="EXAMPLE")
    options = parser.parse_args()
    print(f"one training step, {options.rounds} rounds in turns, torch {torch.__version__}, {os.cpu_count()} cores")
    print(f"{'example':14} {'eager ms':>9} {'recorded':>9}   recorded / eager (quartiles)   eager / eager (quartiles)")
    with tempfile.TemporaryDirectory() as folder:
        for example in options.examples:
            times = bench(options.crucible, example, options.rounds, folder)
            # The machine's speed between two turns of eager is what the recorded turn between them met.
            around = [(a + b) / 2 for a, b in zip(times["eager"], times["eager again"])]
            cost = statistics.quantiles([one / other for one, other in zip(times["recorded"], around)], n=4)
            noise = statistics.quantiles([one / other for one, other in zip(times["eager again"], times["eager"])], n=4)
            print(
                f"{example:14} {statistics.median(around) / 1e6:9.3f} {statistics.median(times['recorded']) / 1e6:9.3f}   "
                f"{cost[1]:.4f} ({cost[0]:.4f}, {cost[2]:.4f})        {noise[1]:.4f} ({noise[0]:.4f}, {noise[2]:.4f})",
                flush=True)


if __name__ == "__main__":
    main()
