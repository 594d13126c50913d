"""The table of ci/loops: what becomes of programs whose iterations differ. Environment: as loops_test.py."""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

import loops_test
import rows

CRUCIBLE = loops_test.crucible
STEP_TIMES = pathlib.Path(__file__).resolve().parent.parent / "bench/step_times.py"
WARM_UP = 3  # steps of optimizers that are not counted


def progress(text):
    if sys.stderr.isatty():
        print(f"\r  {text:<70}", end="", file=sys.stderr, flush=True)


def step_ms(row, *options):
    """The median of what an iteration of the script takes, its data and all; None where it failed."""
    done = loops_test.run([sys.executable, STEP_TIMES, *options, loops_test.INPUTS / (row.file or f"{row.name}.py"),
                           *row.arguments])
    try:
        times = json.loads(done.stdout.splitlines()[-1])["step_ns"][WARM_UP:]
    except (IndexError, json.JSONDecodeError):
        return None
    whole = [sum(times[i:i + row.steps]) for i in range(0, len(times) - row.steps + 1, row.steps)]
    return statistics.median(whole) / 1e6 if whole else None


def replayed(trace, *options):
    done = CRUCIBLE("replay", trace, "--verify", "--json", *options)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"verified": False, "reason": loops_test.last_line(done)}


def largest_plan(trace, count):
    """Bytes that the largest variant needs when it is planned alone."""
    plans = [CRUCIBLE("plan", trace, "--json", *(("--variant", n) if count > 1 else ())) for n in range(count)]
    return max(json.loads(done.stdout)["peak_bytes"] for done in plans)


def measure(row, folder, options):
    trace = folder / f"{row.name}.crtrace"
    progress(f"{row.name}: recording")
    done = loops_test.record(row, trace, sys.executable)
    if not trace.exists():
        return {"program": row.name, "verified": False, "reason": loops_test.last_line(done)}
    progress(f"{row.name}: replaying")
    os.environ["CRUCIBLE_STORE_DIR"] = str(folder / f"{row.name}.cache")
    fast = replayed(trace)  # with an empty cache of kernels, so that those that are compiled can be counted
    strict = [replayed(trace, "--set", "numerics=strict", "--backend", backend)
              for backend in ("cpu", "opencl", "reference")]
    every = [fast, *strict]
    found = fast.get("variants") or {"count": 1, "seams": 0}
    failed = [replay["reason"] for replay in every if not replay["verified"]]
    is_equal = len({replay.get("result_sha256") for replay in strict}) == 1
    line = {"program": row.name, "iterations": json.loads(done.stdout)["iterations"], "variants": found["count"],
            "seams": found["seams"], "verified": not failed, "equal_bits": is_equal,
            "reason": "; ".join(map(str, failed))}
    if failed:
        return line
    progress(f"{row.name}: timing")
    line |= {"ops": fast["ops_per_iteration"], "compilations": fast["receipt"]["cache"]["kernels_compiled"],
             "compile_ms": fast["compile_ns"] / 1e6,
             "replay_ms": replayed(trace, "--repeat", "5")["time_ns_per_iteration"] / 1e6, "eager_ms": step_ms(row),
             "arena_bytes": fast["arena_bytes"], "largest_plan_bytes": largest_plan(trace, found["count"])}
    if options.compile:
        line["compiled_ms"] = step_ms(row, "--compile")
        line["compiled_dynamic_ms"] = step_ms(row, "--compile", "--dynamic")
    return line


def cells(line, has_compiled):
    def ms(key):
        return "-" if line.get(key) is None else f"{line[key]:.3g}"

    yes = "yes" if line["verified"] and line["equal_bits"] else "NO"
    memory = f"{line['arena_bytes'] / line['largest_plan_bytes']:.2f}" if line.get("largest_plan_bytes") else "-"
    peers = [ms("compiled_ms"), ms("compiled_dynamic_ms")] if has_compiled else []
    counts = ("iterations", "variants", "seams", "ops", "compilations")
    return [line["program"], *(str(line.get(key, "-")) for key in counts), ms("compile_ms"), yes, ms("replay_ms"),
            ms("eager_ms"), *peers, memory]


def print_table(lines, options):
    peers = ["torch.compile", "dynamic"] if options.compile else []
    heads = ["program", "iterations", "variants", "seams", "ops", "kernels", "compiled ms", "verified", "replay ms",
             "eager ms", *peers, "arena/plan"]
    table = [heads, *(cells(line, options.compile) for line in lines)]
    if options.markdown:
        table.insert(1, ["---", *["---:"] * (len(heads) - 1)])
        print("\n".join(f"| {' | '.join(row)} |" for row in table))
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(heads))]
    for row in table:
        first, *rest = [cell.rjust(width) for cell, width in zip(row, widths)]
        print("  ".join([row[0].ljust(widths[0]), *rest]))


def main():
    programs = {row.name: row for row in rows.ROWS if isinstance(row, rows.Program)}
    parser = argparse.ArgumentParser(prog="ci/loops", epilog="example: ci/loops radam_switch detector")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(programs))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--compile", action="store_true", help="times beside torch.compile")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="where the recordings stay")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in programs]
    if unknown:
        parser.error(f"no program is called {', '.join(unknown)}; there are {', '.join(programs)}")
    with tempfile.TemporaryDirectory(prefix="crucible-loops-") as temporary:
        folder = options.keep or pathlib.Path(temporary)
        os.makedirs(folder, exist_ok=True)
        lines = [measure(programs[name], folder, options) for name in options.names or programs]
    progress("")
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    if options.json:
        print(json.dumps(lines, indent=2))
    else:
        print_table(lines, options)
        for line in lines:
            if line.get("reason"):
                print(f"{line['program']}: {line['reason']}")
    return 0 if all(line["verified"] and line.get("equal_bits") for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
