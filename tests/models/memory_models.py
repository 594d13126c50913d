"""The memory of every model of the zoo, as planned and as PyTorch has it: see `ci/models --help`.

For each model: a recording (made now, or one that `ci/models record --keep` left), `crucible plan` for the planned peak
and its lower bound (where iterations differ, of the variant that needs most), measure_peak.py for the peak of eager
PyTorch on the CPU over the same steps, and `crucible replay --verify` with an arena that is poisoned wherever nothing
lives. Writes the table of docs/memory-models.md with --markdown. Exit code 1 when a replay is not verified or a peak is
below its bound.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

from record_models import arguments_of, colour, ITERATIONS, parser_of, python, record, WARMUP
from replay_models import run, variants_of


def measure(arguments, folder, name):
    """One row of the table."""
    row = {"model": name, "failed": "", "verified": False}
    path = os.path.join(arguments.recordings or folder, f"{name}.crtrace")
    if not os.path.exists(path):
        _, _, row["failed"] = record(arguments.crucible, folder, name)
        if row["failed"]:
            return row
    programs, row["failed"] = variants_of(arguments.crucible, path)
    plans = []
    for program in programs:
        plan, row["failed"] = run(arguments.crucible, "plan", path, "--backend", arguments.backend, "--json", *program)
        if plan is None:
            return row
        plans.append(plan)
    if row["failed"]:
        return row
    plan = max(plans, key=lambda each: each["peak_bytes"])
    peak = json.loads(
        python("measure_peak.py", name, "--library", arguments.library, "--steps", str(WARMUP + ITERATIONS), "--skip",
               str(WARMUP)))[name]
    torch_bytes = peak["peak_bytes"] - peak["untouched_bytes"]
    row |= {
        "peak_bytes": plan["peak_bytes"], "lower_bound_bytes": plan["lower_bound_bytes"], "buffers": plan["buffers"],
        "plan_ns": plan["time_ns"], "torch_peak_bytes": torch_bytes, "torch_untouched_bytes": peak["untouched_bytes"],
        "ratio": plan["peak_bytes"] / torch_bytes if torch_bytes else None
    }
    found, row["failed"] = run(arguments.crucible, "replay", path, "--backend", arguments.backend, "--fallback",
                               "forbid", "--verify", "--json")
    if found is not None and not found["verified"]:
        plain, _ = run("env", "CRUCIBLE_POISON=0", arguments.crucible, "replay", path, "--backend", arguments.backend,
                       "--fallback", "forbid", "--json")
        row["same_bits"] = plain is not None and [i["loss"] for i in plain["iterations"]
                                                 ] == [i["loss"] for i in found["iterations"]]
    if found is not None:
        row |= {
            "verified": bool(found["verified"]) and found["receipt"]["poisoned"], "difference": found.get("reason", "")
        }
        row["arena_bytes"] = found["arena_bytes"]
    if not arguments.keep and not arguments.recordings:
        os.remove(path)
    return row


def verdict(row):
    """Of a replay that is not verified: whether the poison has to do with it."""
    if is_good(row):
        return "verified"
    return "NOT verified" + (", the same bits without poison" if row.get("same_bits") else "")


def is_good(row):
    """The poisoned arena is larger than the plan: it has red zones."""
    return not row["failed"] and row["verified"] and row["lower_bound_bytes"] <= row["peak_bytes"] <= row["arena_bytes"]


def mib(count):
    return f"{count / 2**20:.2f}"


def summary(rows):
    done = sorted(r["ratio"] for r in rows if r.get("ratio"))
    optimal = sum(not r["failed"] and r["peak_bytes"] == r["lower_bound_bytes"] for r in rows)
    middle = ""
    if done:
        middle = f"; planned / PyTorch: median {done[len(done) // 2]:.2f}, from {done[0]:.2f} to {done[-1]:.2f}"
    return (f"{sum(map(is_good, rows))} of {len(rows)} models verified with a poisoned arena; "
            f"{optimal} plans equal their lower bound{middle}")


def table(rows):
    """At most 100 columns wide."""
    print(f"{'':<20}{'':>8}{'planned':>10}{'lower':>10}{'above':>9}{'PyTorch':>10}{'planned /':>11}{'poisoned':>10}")
    print(f"{'model':<20}{'buffers':>8}{'MiB':>10}{'bound':>10}{'bound':>9}{'MiB':>10}{'PyTorch':>11}{'verified':>10}")
    for r in rows:
        if r["failed"]:
            print(f"{r['model']:<20} {colour('not measured: ' + r['failed'][:60], 31)}")
            continue
        above = f"{100 * (r['peak_bytes'] / max(r['lower_bound_bytes'], 1) - 1):.2f} %"
        word = colour(f"{'yes':>10}", 32) if is_good(r) else colour(f"{'NO':>10}", 31)
        print(f"{r['model']:<20}{r['buffers']:>8}{mib(r['peak_bytes']):>10}{mib(r['lower_bound_bytes']):>10}{above:>9}"
              f"{mib(r['torch_peak_bytes']):>10}{r['ratio']:>11.2f}{word}")
    for r in rows:
        if not r["failed"] and not is_good(r):
            print(f"{r['model']}: {verdict(r)}: {r['difference'] or 'the arena is smaller than planned'}")
    print(summary(rows))


def markdown(rows):
    print(
        "| model | buffers | planned peak (MiB) | lower bound (MiB) | PyTorch's peak (MiB) | planned / PyTorch | poisoned replay |"
    )
    print("|---|---:|---:|---:|---:|---:|---|")
    for r in rows:
        if r["failed"]:
            print(f"| {r['model']} | | | | | | not measured: {r['failed'][:80]} |")
            continue
        print(
            f"| {r['model']} | {r['buffers']} | {mib(r['peak_bytes'])} | {mib(r['lower_bound_bytes'])} | {mib(r['torch_peak_bytes'])} | "
            f"{r['ratio']:.2f} | {verdict(r)} |")
    for r in rows:
        if not r["failed"] and not is_good(r):
            print(f"\n{r['model']} is {verdict(r)}: {r['difference']}.")
    print(f"\n{summary(rows)}.")


def main():
    parser = parser_of("memory", __doc__, "recordings", "keep", "json")
    parser.add_argument("--library", help="the built peak_allocator.cpp (default: the one beside the command)")
    parser.add_argument("--backend", default="cpu",
                        help="the plugin that the plan and the replay are for (default: cpu)")
    parser.add_argument("--markdown", action="store_true", help="the table as docs/memory-models.md has it")
    arguments = arguments_of(parser)
    arguments.library = os.path.abspath(
        arguments.library or os.path.join(os.path.dirname(arguments.crucible), "tests/models/peak_allocator.so"))
    os.environ["CRUCIBLE_POISON"] = "1"  # of the replays
    rows = []
    with tempfile.TemporaryDirectory(
            prefix="crucible-models-") as temporary, concurrent.futures.ThreadPoolExecutor(2) as pool:
        if arguments.keep:
            os.makedirs(arguments.keep, exist_ok=True)
        for row in pool.map(lambda name: measure(arguments, arguments.keep or temporary, name), arguments.names):
            rows.append(row)
            print(f"  {len(rows)} of {len(arguments.names)}: {row['model']}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"models": rows, "ok": all(map(is_good, rows))}, indent=2))
    else:
        markdown(rows) if arguments.markdown else table(rows)
    return 0 if all(map(is_good, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
