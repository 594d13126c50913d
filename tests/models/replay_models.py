"""Replays every model of the zoo from its recording and compares it with what was recorded: see `ci/models --help`.

For each model: a recording (made now, or one that `ci/models record --keep` left), `crucible graph --stages` for the
ops before and after the passes (where iterations differ, of the variant with most ops), `crucible replay --verify` of
all iterations on one backend with no other one to fall back on. Exit code 1 when any is not verified.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

from record_models import arguments_of, colour, parser_of, record


def run(*command):
    """The JSON document of a command, or None and the line that says why there is none."""
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        return json.loads(done.stdout), ""
    except ValueError:
        lines = [line for line in done.stderr.strip().splitlines() if line]
        return None, " ".join(line.strip() for line in lines[:3]) or f"ended with {done.returncode} and said nothing"


def variants_of(crucible, path):
    """The options that choose each program of a recording, one list for each; and why there is none."""
    listed, failed = run(crucible, "graph", path, "--variants", "--json")
    if listed is None:
        return [], failed
    return [["--variant", str(v)] for v in range(listed["count"])] if listed["count"] > 1 else [[]], ""


def replay(arguments, folder, name):
    """One row of the table."""
    path = os.path.join(arguments.recordings or folder, f"{name}.crtrace")
    row = {"model": name, "verified": False, "failed": ""}
    if not arguments.recordings:
        _, _, row["failed"] = record(arguments.crucible, folder, name)
        if row["failed"]:
            return row
    programs, row["failed"] = variants_of(arguments.crucible, path)
    stages = []
    for program in programs:
        found, row["failed"] = run(arguments.crucible, "graph", path, "--stages", "--json", *program)
        if found is None:
            return row
        stages.append([stage["ops"] for stage in found["stages"]])
    if row["failed"]:
        return row
    largest = max(stages)
    row |= {"variants": len(programs), "ops_lowered": largest[0], "ops_final": largest[-1]}
    found, row["failed"] = run(arguments.crucible, "replay", path, "--backend", arguments.backend, "--fallback",
                               "forbid", "--verify", "--json")
    if found is None:
        return row
    iterations, state, outputs = found["iterations"], found["state"], found["outputs"]
    row |= {
        "ops_recorded": found["ops_per_iteration"], "steps": found["steps"], "verified": found["verified"],
        "iterations": len(iterations),
        "losses_rel_diff": found["max_loss_rel_diff"] if any("loss_recorded" in i for i in iterations) else None,
        "states_rel_diff": state["max_rel_diff"] if state["tensors"] else None, "worst_state": state.get("worst", ""),
        "outputs_compared": outputs["compared"], "states": state["tensors"],
        "states_undetermined": len(state["spread"]["undetermined"]), "noise_elements": state["noise"]["elements"],
        "compile_ns": found["compile_ns"], "time_ns_per_iteration": found["time_ns_per_iteration"]
    }
    row["verdict"] = found["verdict"]
    if not found["verified"]:
        row["difference"] = found["reason"]
    if not arguments.recordings and not arguments.keep:
        os.remove(path)
    return row


def number(value):
    return "-" if value is None else f"{float(value):.1e}" if value else "0"


def table(rows):
    """At most 100 columns wide."""
    print(f"{'':<19}{'itera-':>6}{'vari-':>6}{'ops':>9}{'after':>9}{'after':>7}{'':>6}{'losses':>8}{'states':>8}"
          f"{'undeter-':>9}{'outputs':>8}")
    print(f"{'model':<19}{'tions':>6}{'ants':>6}{'recorded':>9}{'lowering':>9}{'passes':>7}{'steps':>6}{'differ':>8}"
          f"{'differ':>8}{'mined':>9}{'equal':>8}{'right':>6}")
    for r in rows:
        if r["failed"]:
            print(f"{r['model']:<20} {colour('not replayed', 31)}")
            continue
        verdict = colour(f"{'yes':>6}", 32) if r["verified"] else colour(f"{'NO':>6}", 31)
        print(f"{r['model']:<19}{r['iterations']:>6}{r['variants']:>6}{r['ops_recorded']:>9}{r['ops_lowered']:>9}"
              f"{r['ops_final']:>7}{r['steps'] or '-':>6}{number(r['losses_rel_diff']):>8}"
              f"{number(r['states_rel_diff']):>8}{r['states_undetermined']:>9}{r['outputs_compared']:>8}{verdict}")
    for r in rows:
        if not r["verified"]:
            print(f"{r['model']}: {r['failed'] or r['difference']}")
    print(
        f"{sum(r['verified'] for r in rows)} of {len(rows)} models: verified as docs/replay.md says, no op left to another backend"
    )


def main():
    parser = parser_of("replay", __doc__, "recordings", "keep", "json")
    parser.add_argument("--backend", default="cpu", help="the plugin that runs them, or reference (default: cpu)")
    arguments = arguments_of(parser)
    rows = []
    with tempfile.TemporaryDirectory(
            prefix="crucible-models-") as temporary, concurrent.futures.ThreadPoolExecutor(2) as pool:
        if arguments.keep:
            os.makedirs(arguments.keep, exist_ok=True)
        for row in pool.map(lambda name: replay(arguments, arguments.keep or temporary, name), arguments.names):
            rows.append(row)
            print(f"  {len(rows)} of {len(arguments.names)}: {row['model']}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({"models": rows, "ok": all(r["verified"] for r in rows)}, indent=2))
    else:
        table(rows)
    return 0 if all(r["verified"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
