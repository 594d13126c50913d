"""Five training steps on a machine that others use, too: replay with as many threads as it finds right, with each fixed
number, and eager, under the same load.

    python shared_bench.py --crucible PATH [--rounds 3] [--replays 48] [--busy 0,1,2,4] [--picture FILE] [--json]
    [NAME...]

A load is a number of processes that do nothing but turn. Under each load everybody takes turns; a figure is the median
over the rounds of the mean step, for waiting is what counts here and a median would leave it out. "Slowest" is the
slowest of the replays over their median, the worst round.
Then, without a load: one processor of taskset against one thread there, eight replays at once in processes of their own
against the same in turn, and what a loop that only looks at the clock loses to the machine. --picture draws how 200
replays of mlp and tinymlp are spread, idle and beside one busy process.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = {"tinymlp": 400, "mlp": 100, "gpttiny": 60, "gpt2s": 4, "resnet18": 4}  # of eager in one turn
ITERATIONS = 8  # of a recording


class Load:
    """So many processes that turn, in this session, so that the scheduler sees them as it sees the others."""

    def __init__(self, count):
        self.processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
        time.sleep(0.3 if count else 0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


class Eager:
    def __init__(self, name):
        self.name = name
        self.process = subprocess.Popen([
            sys.executable,
            str(ROOT / "tests/bench/workloads.py"), name, "--steps",
            str(STEPS[name] * 100000), "--paced",
            str(STEPS[name])
        ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.process.stdout.readline()  # the first steps, without a load

    def turn(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())["step_ns"]

    def close(self):
        self.process.kill()
        self.process.wait()


class Replay:
    def __init__(self, crucible, trace, replays, extra=(), before=()):
        self.command = [
            *before,
            str(crucible), "replay",
            str(trace), "--no-sandbox", "--backend", "cpu", "--json", "--repeat",
            str(max(1, replays // ITERATIONS)), *extra
        ]
        self.threads = ""

    def turn(self):
        return self.end(self.begin())

    def begin(self):
        return subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process):
        text, error = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(self.command)}: exit code {process.returncode}\n{error}")
        found = json.loads(text)
        self.threads = "; ".join(str(plan["threads"]) for plan in found["plans"] if "threads" in plan)
        return found["times_ns"]

    def close(self):
        pass


def record(crucible, name, folder):
    trace = pathlib.Path(folder) / f"{name}.crtrace"
    subprocess.run([
        crucible, "record", "-o", trace, "--iterations",
        str(ITERATIONS), "--", sys.executable, ROOT / "tests/bench/workloads.py", name, "--steps", "12"
    ], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for threads in ([], ["--threads", "1"]):
        subprocess.run([crucible, "replay", trace, "--no-sandbox", "--backend", "cpu", "--tune", "measure", *threads],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return trace


def say(text):
    if sys.stderr.isatty():
        print(f"\r{text:<78}", end="", file=sys.stderr, flush=True)


def under_loads(options, name, trace):
    """{load: {peer: {"mean_ns", "slowest", "threads"}}}"""
    fixed = sorted({1, os.cpu_count() or 1})
    peers = {"eager": Eager(name), "replay": Replay(options.crucible, trace, options.replays)}
    peers |= {
        f"{count} thread{'s' if count > 1 else ''}": Replay(options.crucible, trace, options.replays,
                                                            ["--threads", str(count)]) for count in fixed
    }
    result = {}
    for busy in options.busy:
        times = {peer: [] for peer in peers}
        with Load(busy):
            for number in range(options.rounds):
                for peer, process in peers.items():
                    say(f"{name}: {busy} busy, round {number + 1} of {options.rounds}, {peer}")
                    times[peer].append(process.turn())
        result[busy] = {peer: {"mean_ns": statistics.median(statistics.mean(turn) for turn in turns),
                               "slowest": max(max(turn) / statistics.median(turn) for turn in turns),
                               "threads": getattr(peers[peer], "threads", "")} for peer, turns in times.items()}
    for process in peers.values():
        process.close()
    return result


def alone(options, trace):
    """One processor of taskset, and eight replays at once: the ratios, each the median of the rounds."""
    first = str(min(os.sched_getaffinity(0)))
    free, one = (Replay(options.crucible, trace, options.replays, extra, ["taskset", "-c", first])
                 for extra in ([], ["--threads", "1"]))
    taskset = statistics.median(
        statistics.mean(free.turn()) / statistics.mean(one.turn()) for _ in range(options.rounds))
    at_once, replay = [], Replay(options.crucible, trace, options.replays)
    for _ in range(options.rounds):
        start = time.perf_counter()
        for _ in range(8):
            replay.turn()
        turn = time.perf_counter()
        for process in [replay.begin() for _ in range(8)]:
            replay.end(process)
        at_once.append((time.perf_counter() - turn) / (turn - start))
    return {"taskset": taskset, "eight_at_once": statistics.median(at_once)}


def hypervisor(seconds=3):
    """What a loop that only looks at the clock misses: the longest gap, ms, and how many of over 0.2 ms a second."""
    end, last, longest, gaps = time.perf_counter() + seconds, time.perf_counter(), 0, 0
    while last < end:
        now = time.perf_counter()
        longest, gaps = max(longest, now - last), gaps + (now - last > 0.2e-3)
        last = now
    return {"longest_ms": longest * 1e3, "gaps_per_second": gaps / seconds}


def picture(options, traces, file):
    """Each row a line of dots, one for each of 200 replays in their order, by their time over the median of the idle
    ones; 10 times is the top."""
    rows, width, height = [], 880, 130
    for name in ("mlp", "tinymlp"):
        middle = None
        for busy in (0, 1):
            with Load(busy):
                times = Replay(options.crucible, traces[name], 200).turn()[:200]
            middle = middle or statistics.median(times)
            rows.append((
                f"{name}, {'idle' if busy == 0 else 'beside one busy process'}: median {statistics.median(times) / 1e6:.3f} ms, "
                f"slowest {max(times) / 1e6:.3f} ms", [time / middle for time in times]))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height * len(rows) + 20}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>'
    ]
    for index, (title, ratios) in enumerate(rows):
        top = index * height + 20
        parts.append(f'<text x="10" y="{top}">{title}</text>')
        for ratio in (1, 2, 5, 10):
            y = top + 105 - 9.5 * ratio
            parts.append(
                f'<line x1="40" x2="{width - 10}" y1="{y}" y2="{y}" stroke="#ddd"/><text x="10" y="{y + 4}" fill="#666">{ratio}x</text>'
            )
        parts += [
            f'<circle cx="{45 + i * 4.1:.1f}" cy="{top + 105 - 9.5 * min(ratio, 10):.1f}" r="1.8" fill="{"#c33" if ratio > 2 else "#36c"}"/>'
            for i, ratio in enumerate(ratios)
        ]
    pathlib.Path(file).write_text("\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crucible", default=ROOT / "build/release/crucible")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--replays", type=int, default=48)
    parser.add_argument("--busy", default="0,1,2,4", type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--picture", metavar="FILE")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("names", nargs="*", default=list(STEPS), metavar="NAME", help=", ".join(STEPS))
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in STEPS]:
        parser.error(f"no workload is called {unknown[0]}: {', '.join(STEPS)}")
    result = {"processors": os.cpu_count(), "clock": hypervisor(), "steps": {}}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CRUCIBLE_STORE_DIR"] = str(pathlib.Path(folder) / "store")
        traces = {
            name: record(options.crucible, name, folder)
            for name in {*options.names, *(("mlp", "tinymlp") if options.picture else ())}
        }
        for name in options.names:
            result["steps"][name] = {
                "loads": under_loads(options, name, traces[name]), "alone": alone(options, traces[name])
            }
        if options.picture:
            picture(options, traces, options.picture)
    say("")
    if options.json:
        print(json.dumps(result, indent=2))
        return
    clock = result["clock"]
    print(
        f"{result['processors']} processors; a loop that only looks at the clock waited {clock['longest_ms']:.1f} ms at most, "
        f"over 0.2 ms {clock['gaps_per_second']:.1f} times a second")
    print(
        f"{'step':9} {'busy':>4} {'eager ms':>9} {'replay ms':>10}  {'fixed numbers of threads, ms':34} {'replay / best':>13} {'eager / replay':>14} {'slowest':>8}"
    )
    for name, found in result["steps"].items():
        for busy, peers in found["loads"].items():
            fixed = {peer: row["mean_ns"] for peer, row in peers.items() if peer not in ("eager", "replay")}
            replay = peers["replay"]
            words = ", ".join(f"{peer} {ns / 1e6:.3f}" for peer, ns in fixed.items())
            print(
                f"{name:9} {busy:4} {peers['eager']['mean_ns'] / 1e6:9.3f} {replay['mean_ns'] / 1e6:10.3f}  {words:34} "
                f"{replay['mean_ns'] / min(fixed.values()):13.2f} {peers['eager']['mean_ns'] / replay['mean_ns']:14.2f} {replay['slowest']:8.1f}"
            )
    for name, found in result["steps"].items():
        print(
            f"{name:9} on one processor {found['alone']['taskset']:.2f} of one thread; eight replays at once {found['alone']['eight_at_once']:.2f} of the same in turn"
        )


if __name__ == "__main__":
    main()
