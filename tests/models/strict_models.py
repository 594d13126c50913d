"""Replays every model of the zoo in strict numerics on several backends and compares the bits: see `ci/models --help`.

For each model: a recording (made now, or one that `ci/models record --keep` left), then `crucible replay --verify` on the CPU plugin as
it is (fast), and in strict numerics on each backend. A model passes when every backend that takes it is verified and all of
them end with the same bits; a backend that refuses one says which op. Exit code 1 when any does not pass.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from record_models import HERE, colour, record

LONG = 1200  # seconds


def replay(arguments, path, *options):
    """{"sha256", "verified", "time_ns", "why"}; "sha256" is "" when nothing ran."""
    command = [arguments.crucible, "replay", path, "--fallback", "forbid", "--verify", "--sensitivity", "3", "--json", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
        found = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"sha256": "", "verified": False, "time_ns": None, "why": f"ran longer than {LONG} s"}
    except ValueError:
        lines = [line.strip() for line in done.stderr.splitlines() if line.startswith("crucible: error")]
        return {"sha256": "", "verified": False, "time_ns": None, "why": " ".join(lines[:2]) or f"ended with {done.returncode}"}
    return {"sha256": found["result_sha256"], "verified": found["verified"], "time_ns": found["time_ns_per_iteration"],
            "why": "" if found["verified"] else found["reason"]}


def row_of(arguments, folder, name):
    path = os.path.join(arguments.recordings or folder, f"{name}.crtrace")
    row = {"model": name, "failed": "", "strict": {}}
    if not os.path.exists(path):
        _, _, row["failed"] = record(arguments.crucible, folder, name)
        path = os.path.join(folder, f"{name}.crtrace")
    if row["failed"]:
        return row
    row["fast"] = replay(arguments, path, "--backend", "cpu")
    if not row["fast"]["sha256"] and "iterations" in row["fast"]["why"] and " differ" in row["fast"]["why"]:
        path = os.path.join(folder, f"{name}.crtrace")  # its iterations are not the same ops: one alone
        if os.path.exists(path):
            os.remove(path)
        _, _, row["failed"] = record(arguments.crucible, folder, name, iterations=1)
        if row["failed"]:
            return row
        row["fast"] = replay(arguments, path, "--backend", "cpu")
    for backend in arguments.backends.split(","):
        row["strict"][backend] = replay(arguments, path, "--backend", backend, "--numerics", "strict")
    if not arguments.recordings and not arguments.keep:
        os.remove(path)
    return row


def verdict(row):
    """"same bits", or what is wrong."""
    if row["failed"]:
        return "not recorded"
    ran = {backend: result for backend, result in row["strict"].items() if result["sha256"]}
    if not ran:
        return "refused"
    if len({result["sha256"] for result in ran.values()}) > 1:
        return "DIFFER"
    if not all(result["verified"] for result in ran.values()):
        return "not verified"
    return "same bits" if len(ran) == len(row["strict"]) else "one refused"


def milliseconds(result):
    return "-" if not result or result["time_ns"] is None else f"{result['time_ns'] / 1e6:.4g}"


def table(rows, backends):
    print(f"{'':<20}{'fast':>10}" + "".join(f"{'strict':>10}" for _ in backends) + "  first of the")
    print(f"{'model':<20}{'cpu ms':>10}" + "".join(f"{backend + ' ms':>10}" for backend in backends) + f"  {'SHA-256':<14}result")
    for row in rows:
        result = verdict(row)
        times = "".join(f"{milliseconds(row['strict'].get(backend)):>10}" for backend in backends)
        first = next((r["sha256"] for r in row["strict"].values() if r["sha256"]), "")[:8]
        print(f"{row['model']:<20}{milliseconds(row.get('fast')):>10}{times}  {first or '-':<14}"
              f"{colour(result, 32 if result == 'same bits' else 31)}")
    for row in rows:
        if row["failed"]:
            print(f"{row['model']}: {row['failed']}")
        for backend, result in row["strict"].items():
            if result["why"]:
                print(f"{row['model']}, {backend}: {result['why']}")
    print(f"{sum(verdict(row) == 'same bits' for row in rows)} of {len(rows)} models: verified in strict numerics, the same bits from "
          f"{' and '.join(backends)}")


def main():
    parser = argparse.ArgumentParser(prog="ci/models strict", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="models (default: all)")
    parser.add_argument("--crucible", required=True, help="the command, in a build folder")
    parser.add_argument("--backends", default="cpu,opencl", help="the plugins whose bits are compared (default: cpu,opencl)")
    parser.add_argument("--recordings", help="a folder of recordings that `ci/models record --keep` left; without it they are made first")
    parser.add_argument("--keep", help="a folder in which the recordings that are made stay")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    arguments = parser.parse_args()
    sys.path.insert(0, HERE)
    from zoo import MODELS
    names = arguments.names or list(MODELS)
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        parser.error(f"no model is called {', '.join(unknown)}; there are {', '.join(MODELS)}")
    arguments.crucible = os.path.abspath(arguments.crucible)
    rows = []
    with tempfile.TemporaryDirectory(prefix="crucible-models-") as temporary:
        if arguments.keep:
            os.makedirs(arguments.keep, exist_ok=True)
        for name in names:
            rows.append(row_of(arguments, arguments.keep or temporary, name))
            print(f"  {len(rows)} of {len(names)}: {name}: {verdict(rows[-1])}", file=sys.stderr, flush=True)
    passed = all(verdict(row) == "same bits" for row in rows)
    if arguments.json:
        print(json.dumps({"models": rows, "ok": passed}, indent=2))
    else:
        table(rows, arguments.backends.split(","))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
