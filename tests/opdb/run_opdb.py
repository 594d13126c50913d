"""Every sample of PyTorch's op database: recorded, lowered, replayed by the reference and by a plugin, compared with
eager.

    python tests/opdb/run_opdb.py --check build/release/crucible_check_samples --plugin libcrucible_cpu.so \
        --dtypes float32,bfloat16 --json results.json

The interpreter must have torch, expecttest and the package `crucible` (PYTHONPATH). Exit code 1 when a sample failed
and no line of reasons.tsv says why nothing is wrong, or was not lowered and no line of unsupported.tsv says why.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SCRIPTS = {
    "ops": "record_samples.py", "optimizers": "record_training.py", "modules": "record_training.py",
    "oplogs": "record_oplogs.py"
}


class Recorder:
    """A record_*.py in a process of its own, started again behind an entry that killed it."""

    def __init__(self, dtype, folder, options):
        self.dtype, self.folder, self.options = dtype, folder, options

    def logs(self):
        return ["--logs", self.options.logs] if self.options.logs else []

    def lines(self):
        begin, last = 0, None
        while begin is not None:
            script = HERE / SCRIPTS[self.options.database]
            command = [
                sys.executable, script, "--database", self.options.database, *self.logs(), "--dtype", self.dtype,
                "--out", self.folder, "--samples", self.options.samples, "--begin", begin
            ]
            process = subprocess.Popen([*map(str, command), *self.options.names], stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
            begin = last = None
            for text in process.stdout:
                line = json.loads(text)
                if "begin" in line:
                    last = line
                else:
                    last = None
                    yield line
            if process.wait() != 0 and last is not None:
                yield {
                    "op": last["op"], "dtype": self.dtype, "path": None, "samples": 0,
                    "error": f"recording ended with exit code {process.returncode}"
                }
                begin = last["begin"] + 1


def check(options, line):
    """The outcomes of one recording's samples, as check_samples prints them."""
    command = [
        options.check, line["path"], *(["--plugin", options.plugin] if options.plugin else []),
        *(["--sanitize"] if options.sanitize else [])
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=options.timeout)
        outcomes = [json.loads(text) for text in done.stdout.splitlines()]
        error = "" if done.returncode == 0 else f"check_samples: exit code {done.returncode}: {done.stderr.strip()[-300:]}"
    except subprocess.TimeoutExpired:
        outcomes, error = [], f"check_samples: not done after {options.timeout} s"
    if error:
        outcomes = [{"sample": k, "outcome": "failed", "reason": error} for k in range(line["samples"])]
    if not options.keep:
        path = pathlib.Path(line["path"])
        path.unlink()
        for beside in (".errors.json", ".exact.json"):
            path.with_suffix(beside).unlink(missing_ok=True)
    return outcomes


def run_dtype(dtype, folder, options):
    """One entry per op: counts by outcome, and the different reasons with their counts."""
    entries, pending = [], {}
    started, shown = time.monotonic(), 0.0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for line in Recorder(dtype, folder, options).lines():
            if line["path"]:
                pending[pool.submit(check, options, line)] = line
            else:
                entries.append({
                    **line, "passed": 0, "failed": 1 if "error" in line else 0, "unsupported": 0,
                    "reasons": {line["error"]: 1} if "error" in line else {}
                })
            if sys.stderr.isatty() or time.monotonic() - shown > 30:
                shown = time.monotonic()
                print(
                    f"{dtype}: {len(entries) + len(pending)} ops recorded after {shown - started:.0f} s ({line['op']})",
                    file=sys.stderr)
        for future, line in pending.items():
            outcomes = future.result()
            counts = collections.Counter(o["outcome"] for o in outcomes)
            reasons = collections.Counter(f"{o['outcome']}: {o['reason']}" for o in outcomes if "reason" in o)
            worst = {
                key: max((o[key] for o in outcomes if o.get(key) is not None), default=None)
                for key in ("reference", "plugin")
            }
            # Of several ops that each round once eager's result is within half a unit by luck: only one that rounds
            # more often is to blame.
            ulps = [(ours, eager, result, ops <= 1 or bool(o.get("roundings")))
                    for o in outcomes
                    for result, (ours, eager, ops) in o.get("ulps", {}).items()]
            roundings = sorted({name for o in outcomes for name in o.get("roundings", [])})
            entries.append({
                **line, "passed": counts["passed"], "failed": counts["failed"], "unsupported": counts["unsupported"],
                "worst": worst, "reasons": dict(reasons), "ulps": ulps, "roundings": roundings
            })
    return sorted(entries, key=lambda entry: entry["op"])


def print_table(results):
    print(f"{'dtype':<10} {'ops':>5} {'samples':>8} {'passed':>8} {'failed':>7} {'unsupported':>12} {'passed %':>9}")
    for dtype, entries in results.items():
        total = {key: sum(entry[key] for entry in entries) for key in ("samples", "passed", "failed", "unsupported")}
        share = 100 * total["passed"] / max(1, total["samples"])
        print(
            f"{dtype:<10} {len(entries):>5} {total['samples']:>8} {total['passed']:>8} {total['failed']:>7} {total['unsupported']:>12} {share:>9.2f}"
        )


def explained():
    """The lines of reasons.tsv: (op, dtype) -> why its samples may differ."""
    rows = [
        line.split("\t")
        for line in (HERE / "reasons.tsv").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    return {(op, dtype): why for op, dtype, why in rows}


def missing_parts(op, reason):
    """What a sample that was not lowered lacks: overloads; or, where the reason is another one, the database's name of
    the op."""
    text = reason.removeprefix("unsupported: ").splitlines()[0]
    return text.removeprefix("no lowering: ").split(", ") if text.startswith("no lowering") else [op]


def excuse(part, excuses):
    """The line of unsupported.tsv for an overload (`aten::pow on complex numbers` too) or an op of the database; None
    without one."""
    return excuses.get(part) or excuses.get(part.split(" on ")[0])


def pairs(file):
    return dict(
        line.split("\t") for line in (HERE / file).read_text().splitlines() if line and not line.startswith("#"))


def excuses():
    return pairs("unsupported.tsv")


def unexplained(results):
    """Sentences, one for each op and reason without a line in reasons.tsv or unsupported.tsv."""
    differ, lack, found = explained(), excuses(), []
    for dtype, entries in results.items():
        for entry in entries:
            if entry["failed"] and (entry["op"], dtype) not in differ:
                found.append(
                    f"{entry['op']}, {dtype}: {entry['failed']} samples differ, which reasons.tsv does not explain")
            parts = {
                part for reason in entry["reasons"] if reason.startswith("unsupported")
                for part in missing_parts(entry["op"], reason)
            }
            found += [
                f"{entry['op']}, {dtype}: {part} is not lowered, which unsupported.tsv does not explain"
                for part in sorted(parts)
                if not excuse(part, lack)
            ]
    return found


def rounded_again(results):
    """Sentences, one for each op without a line in twice.tsv of which eager rounds a result of f16 or bf16 once and a
    replay more often."""
    known, found = pairs("twice.tsv"), []
    found += [
        f"{dtype}: no result was measured" for dtype, entries in results.items()
        if not any(entry.get("ulps") for entry in entries)
    ]
    for dtype, entries in results.items():
        for entry in entries:
            worse = [(ours - eager, ours, eager, result)
                     for ours, eager, result, counts in entry.get("ulps", [])
                     if counts and eager <= 0.51 and ours > eager + 0.5]
            if worse and entry["op"] not in known:
                _, ours, eager, result = max(worse)
                found.append(
                    f"{entry['op']}, {dtype}: {result} is {ours:.2f} units in the last place off, eager's {eager:.2f}, which twice.tsv does not explain"
                )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", required=True, help="the program crucible_check_samples")
    parser.add_argument("--plugin", default="", help="a plugin that runs what the reference agreed on")
    parser.add_argument("--sanitize", action="store_true",
                        help="the CPU plugin's kernels check each of their accesses (backend.cpu.sanitize)")
    parser.add_argument("--database", choices=SCRIPTS, default="ops")
    parser.add_argument("--logs", type=pathlib.Path, help="the folder of operator-input logs, for the database oplogs")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--samples", type=int, default=0, help="at most so many per op, evenly chosen; 0: all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=900, help="seconds for one op's samples")
    parser.add_argument("--keep", action="store_true", help="keep the recordings")
    parser.add_argument("--folder", type=pathlib.Path, help="where recordings go; else a temporary folder")
    parser.add_argument("--json", type=pathlib.Path, help="write all results here")
    parser.add_argument("--show", action="store_true", help="print every op with its reasons")
    parser.add_argument("--once", action="store_true",
                        help="judge alone how often results of f16 and bf16 are rounded beside eager's")
    parser.add_argument("names", nargs="*", help="names of the database's entries; none: all")
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or pathlib.Path(temporary)
        for dtype in options.dtypes.split(","):
            results[dtype] = run_dtype(dtype, folder, options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.show:
        for dtype, entries in results.items():
            for entry in entries:
                for reason, count in entry["reasons"].items():
                    print(f"{dtype} {entry['op']}: {count} {reason[:300]}")
    print_table(results)
    sentences = rounded_again(results) if options.once else unexplained(results)
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main())
