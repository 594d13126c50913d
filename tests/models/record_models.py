"""Records every model of the zoo and shows that nothing was changed and nothing is missing: see `ci/models --help`.

For each model: a plain run; a run under `crucible record` whose losses must be the same to the last bit; the first
recorded iteration executed again from the file alone, each op's results equal to the recorded hashes; what the file
holds; what a recorded step costs beside a plain one. Exit code 1 when anything is unequal or was not recorded.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, WARMUP, ITERATIONS = 6, 2, 3
NUMBERS = ("bool", "int", "double", "complex")


def python(script, *arguments, check=True):
    """Runs one of our scripts; its standard output."""
    done = subprocess.run([sys.executable, os.path.join(HERE, script), *arguments], capture_output=True, text=True,
                          env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"})
    if check and done.returncode != 0:
        raise RuntimeError(f"{script} {' '.join(arguments[:1])} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def record(crucible, folder, name, iterations=ITERATIONS):
    """Records one model. Returns what the run gave, what `trace info` says of the file, and why it failed, if it
    did."""
    path, notes = os.path.join(folder, f"{name}.crtrace"), os.path.join(folder, f"{name}.json")
    command = [
        crucible, "record", "-o", path, "--iterations",
        str(iterations), "--warmup",
        str(WARMUP), "--snapshot", "ops", "--", sys.executable,
        os.path.join(HERE, "run_model.py"), name, "--steps",
        str(STEPS), "--output", notes
    ]
    done = subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"})
    if done.returncode != 0:
        return None, None, (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
    told = subprocess.run([crucible, "trace", "info", path, "--json"], capture_output=True, text=True)
    if told.returncode != 0:
        return None, None, told.stderr.strip()
    with open(notes, encoding="utf-8") as file:
        return json.load(file)[name], json.loads(told.stdout), ""


def execute_again(folder, names):
    """Re-executes the files of some models in one process."""
    paths = [os.path.join(folder, f"{name}.crtrace") for name in names]
    if not paths:
        return {}
    found = json.loads(python("reexecute.py", "--json", *paths, check=False) or "{}")
    return {
        name: found.get(path, {"equal": False, "difference": "the re-execution ended early"})
        for name, path in zip(names, paths)
    }


def gather(arguments, names, folder):
    """One dict per model."""
    def say(what):
        print(f"  {what}", file=sys.stderr)

    say(f"running {len(names)} models plain")
    halves = [names[0::2], names[1::2]]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        plain = {}
        for part in pool.map(
                lambda half: json.loads(python("run_model.py", *half, "--steps", str(STEPS))
                                        if half else "{}"), halves):
            plain.update(part)
        say("recording them")
        recorded = dict(zip(names, pool.map(lambda name: record(arguments.crucible, folder, name), names)))
        good = [name for name in names if not recorded[name][2]]
        say("executing the recordings again")
        again = {}
        for part in pool.map(lambda half: execute_again(folder, half), [good[0::2], good[1::2]]):
            again.update(part)
    overhead = {}
    if not arguments.no_overhead:
        say("measuring what recording costs")
        overhead = json.loads(
            python("overhead.py", "--package", os.path.join(os.path.dirname(arguments.crucible), "python"), *names))
    rows = []
    for name in names:
        notes, info, reason = recorded[name]
        rows.append(row(name, plain[name], notes, info, reason, again.get(name, {}), overhead.get(name)))
    return rows


def row(name, plain, notes, info, reason, again, overhead):
    result = {
        "model": name, "failed": reason, "losses_equal": notes == plain, "reexecuted_equal": again.get("equal", False),
        "difference": again.get("difference", ""), "results_compared": again.get("hashed", 0),
        "values_left": again.get("values_left", 0), "not_recorded": [], "overhead_ratio": None, "added_ns_per_op": None
    }
    if info is not None:
        result |= {"ops": info["ops_per_iteration"][0], "unique_ops": info["unique_ops"], "slots": info["slots"],
                   "no_slots_reason": info.get("no_slots_reason", ""), "file_bytes": info["file_bytes"],
                   "not_recorded": info["not_recorded"]}
    if overhead is not None:
        result |= {"overhead_ratio": overhead["ratio"], "added_ns_per_op": overhead["added_ns_per_op"],
                   "plain_step_ns": overhead["plain_ns"]}
    result["ok"] = bool(not reason and result["losses_equal"] and result["reexecuted_equal"]
                        and not result["not_recorded"])
    return result


def colour(text, code):
    return f"\x1b[{code}m{text}\x1b[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


def verdict(equal, width):
    return colour(f"{'equal':>{width}}", 32) if equal else colour(f"{'UNEQUAL':>{width}}", 31)


def table(rows):
    """At most 100 columns wide."""
    print(
        f"{'model':<20}{'ops':>6}{'unique':>7}{'slots':>6}{'left':>5}{'missed':>7}{'MiB':>7}{'losses':>9}{'re-executed':>13}"
        f"{'compared':>9}{'cost':>10}")
    for r in rows:
        if r["failed"]:
            print(f"{r['model']:<20}{colour('not recorded: ' + r['failed'][:64], 31)}")
            continue
        slots = "-" if r["slots"] is None else r["slots"]
        missed = sum(item["count"] for item in r["not_recorded"])
        cost = "-" if r["overhead_ratio"] is None else f"{(r['overhead_ratio'] - 1) * 100:+.1f} %"
        print(f"{r['model']:<20}{r['ops']:>6}{r['unique_ops']:>7}{slots:>6}{r['values_left']:>5}{missed:>7}"
              f"{r['file_bytes'] / 2**20:>7.1f}{verdict(r['losses_equal'], 9)}{verdict(r['reexecuted_equal'], 13)}"
              f"{r['results_compared']:>9}{cost:>10}")
    for r in rows:
        if not r["ok"] and not r["failed"]:
            lines = [r["difference"]] if r["difference"] else []
            lines += [
                f"not recorded: {item['what']} ({item['count']} times, first at {item['site']})"
                for item in r["not_recorded"]
            ]
            for line in lines:
                print(f"{r['model']}: {line}")
    good = sum(r["ok"] for r in rows)
    print(
        f"{good} of {len(rows)} models: losses bit-identical, every op's results equal when executed again, nothing missed"
    )


COMMON = {
    "recordings": {
        "help": "a folder of recordings that `ci/models record --keep` left; without it they are made first"
    }, "keep": {"help": "a folder in which the recordings that are made stay"},
    "json": {"action": "store_true", "help": "one JSON document on standard output"},
}


def parser_of(what, words, *common):
    """What every command of ci/models takes, and those of COMMON that it names."""
    parser = argparse.ArgumentParser(prog=f"ci/models {what}", description=words.splitlines()[0])
    parser.add_argument("names", nargs="*", help="models (default: all)")
    parser.add_argument("--crucible", required=True, help="the command, in a build folder")
    for name in common:
        parser.add_argument(f"--{name}", **COMMON[name])
    return parser


def arguments_of(parser):
    """The arguments, with names of models that there are and the whole path of the command."""
    arguments = parser.parse_args()
    sys.path.insert(0, HERE)
    from zoo import MODELS
    arguments.names = arguments.names or list(MODELS)
    unknown = [name for name in arguments.names if name not in MODELS]
    if unknown:
        parser.error(f"no model is called {', '.join(unknown)}; there are {', '.join(MODELS)}")
    arguments.crucible = os.path.abspath(arguments.crucible)
    return arguments


def main():
    parser = parser_of("record", __doc__, "json")
    parser.add_argument("--no-overhead", action="store_true", help="leave the measuring of steps out")
    parser.add_argument("--keep", help="a folder in which the recordings stay")
    parser.add_argument("--torch-only", action="store_true",
                        help="the models that need no package beyond torch and torchvision")
    arguments = arguments_of(parser)
    names = arguments.names
    if arguments.torch_only:
        from zoo import MODELS
        names = [name for name in names if set(MODELS[name].packages) <= {"torchvision"}]
    with tempfile.TemporaryDirectory(prefix="crucible-models-") as temporary:
        if arguments.keep:
            os.makedirs(arguments.keep, exist_ok=True)
        rows = gather(arguments, names, arguments.keep or temporary)
    if arguments.json:
        print(json.dumps({"models": rows, "ok": all(r["ok"] for r in rows)}, indent=2))
    else:
        table(rows)
    return 0 if all(r["ok"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
