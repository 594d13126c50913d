"""Replays every model of the zoo in both numerics modes on several backends, beside eager PyTorch: see `ci/models
--help`.

For each model: a recording (made now, or one that `ci/models record --keep` left), then `crucible replay --verify` on
each backend, fast and strict. A model passes when every run is verified or refuses in strict numerics by name, and all
strict ones end with the same bits. The times of eager steps and of fast replays are taken in turn, of which the medians
count. Exit code 1 when any does not pass.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

from record_models import arguments_of, colour, parser_of, python, record

LONG = 1200  # seconds
RUNS_APART = (3, 12)  # --sensitivity


def replay(arguments, path, backend, mode, *options):
    """{"sha256", "verified", "time_ns", "why"}; "sha256" is "" when nothing ran."""
    command = [
        arguments.crucible, "replay", path, "--backend", backend, "--numerics", mode, "--fallback", "forbid", "--json",
        *options
    ]
    done = None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
        found = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"sha256": "", "verified": False, "time_ns": None, "why": f"ran longer than {LONG} s"}
    except ValueError:
        lines = [line.strip() for line in done.stderr.splitlines() if line.startswith("crucible: error")]
        return {
            "sha256": "", "verified": False, "time_ns": None,
            "why": " ".join(lines[:2]) or f"ended with {done.returncode}"
        }
    return {
        "sha256": found.get("result_sha256") or "", "verified": found["verified"],
        "time_ns": found["time_ns_per_iteration"], "iterations": len(found["iterations"]),
        "why": "" if found["verified"] else found.get("reason", "")
    }


def verified(arguments, path, backend, mode):
    """Where three runs one rounding apart spread too little to judge by, twelve are asked; the table says so."""
    result = {}
    for runs in RUNS_APART:
        result = replay(arguments, path, backend, mode, "--verify", "--sensitivity", str(runs), "--repeat", "3")
        if result["verified"]:
            return result | {
                "note":
                    "" if runs == RUNS_APART[0] else
                    f"verified by the spread of {runs} runs one rounding apart, where {RUNS_APART[0]} said too little"
            }
        if "runs one rounding apart" not in result["why"]:
            break
    return result


def time_in_turn(arguments, name, path, row):
    """Eager steps and fast replays on the first backend, one after the other, some rounds: medians and the median of
    the ratios."""
    eager, own = [], []
    for _ in range(arguments.rounds):
        eager.append(int(python("eager_step.py", name)))
        own.append(replay(arguments, path, row["backends"][0], "fast", "--repeat", "5", *arguments.tune)["time_ns"])
    if None not in own and own:
        row |= {"eager_ns": statistics.median(eager), "replay_ns": statistics.median(own),
                "eager_over_replay": statistics.median(a / b for a, b in zip(eager, own))}


def row_of(arguments, folder, name):
    path = os.path.join(arguments.recordings or folder, f"{name}.crtrace")
    row = {"model": name, "failed": "", "backends": arguments.backends.split(","), "fast": {}, "strict": {}}
    if not os.path.exists(path):
        path = os.path.join(folder, f"{name}.crtrace")
        _, _, row["failed"] = record(arguments.crucible, folder, name)
    if row["failed"]:
        return row
    first = verified(arguments, path, row["backends"][0], "fast")
    for backend in row["backends"]:
        row["fast"][backend] = first if backend == row["backends"][0] else verified(arguments, path, backend, "fast")
        row["strict"][backend] = verified(arguments, path, backend, "strict")
    time_in_turn(arguments, name, path, row)
    if not arguments.recordings and not arguments.keep:
        os.remove(path)
    return row


def verdict(row):
    """"same bits" or "refused" when all is well, or what is wrong."""
    if row["failed"]:
        return "not recorded"
    if not all(result["verified"] for result in row["fast"].values()):
        return "fast differs"
    ran = [result for result in row["strict"].values() if result["sha256"]]
    if not ran:
        return "refused"
    if len({result["sha256"] for result in ran}) > 1:
        return "BITS DIFFER"
    if not all(result["verified"] for result in ran):
        return "not verified"
    return "same bits" if len(ran) == len(row["strict"]) else "one refused"


def passed(row):
    return verdict(row) in ("same bits", "refused")


def milliseconds(time_ns):
    return "-" if time_ns is None else f"{time_ns / 1e6:.3g}"


def columns(row, backends):
    """The cells of a row: times in milliseconds, what eager takes over the replay, the bits and the verdict."""
    ratio = row.get("eager_over_replay")
    cells = [
        row["model"],
        milliseconds(row.get("eager_ns")),
        milliseconds(row.get("replay_ns")), "-" if ratio is None else f"{ratio:.2f}"
    ]
    for backend in backends[1:]:
        cells.append(milliseconds(row["fast"].get(backend, {}).get("time_ns")))
    for backend in backends:
        cells.append(milliseconds(row["strict"].get(backend, {}).get("time_ns")))
    first = next((result["sha256"] for result in row["strict"].values() if result["sha256"]), "")
    return cells + [first[:8] or "-", verdict(row)]


def table(rows, backends, is_markdown):
    heads = [
        "model", "eager", backends[0], "ratio", *backends[1:], *(f"{backend} strict" for backend in backends),
        "SHA-256", "verdict"
    ]
    lines = [columns(row, backends) for row in rows]
    if is_markdown:
        print("| " + " | ".join(heads) + " |")
        print("|" + "---|" * len(heads))
        for line in lines:
            print("| " + " | ".join(line) + " |")
    else:
        widths = [max(len(line[i]) for line in [heads, *lines]) for i in range(len(heads))]
        for line, row in zip([heads, *lines], [None, *rows]):
            cells = [f"{cell:<{width}}" if i in (0, len(heads) - 1) else f"{cell:>{width}}"
                     for i, (cell, width) in enumerate(zip(line, widths))]
            if row is not None:
                cells[-1] = colour(cells[-1], 32 if passed(row) else 31)
            print("  ".join(cells).rstrip())
    print("times: milliseconds per iteration; ratio: eager over the fast replay")
    for row in rows:
        if row["failed"]:
            print(f"{row['model']}: {row['failed']}")
        for mode in ("fast", "strict"):
            for backend, result in row[mode].items():
                if words := result["why"] or result.get("note"):
                    print(f"{row['model']}, {backend}, {mode}: {words}")
    print(
        f"{sum(map(passed, rows))} of {len(rows)} models: verified in both modes on {' and '.join(backends)}, or refused in strict by name"
    )


def main():
    parser = parser_of("modes", __doc__, "recordings", "keep", "json")
    parser.add_argument("--backends", default="cpu,opencl",
                        help="the plugins that run them (default: cpu,opencl); eager is timed beside the first")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of eager steps and replays, in turn (default: 3)")
    parser.add_argument("--tune", action="store_const", const=["--tune", "measure"], default=[],
                        help="with measured choices (crucible replay --tune measure)")
    parser.add_argument("--markdown", action="store_true", help="the table as in docs/numerics.md")
    arguments = arguments_of(parser)
    rows = []
    with tempfile.TemporaryDirectory(prefix="crucible-models-") as temporary:
        if arguments.keep:
            os.makedirs(arguments.keep, exist_ok=True)
        for name in arguments.names:
            rows.append(row_of(arguments, arguments.keep or temporary, name))
            print(f"  {len(rows)} of {len(arguments.names)}: {name}: {verdict(rows[-1])}", file=sys.stderr, flush=True)
    is_well = all(map(passed, rows))
    if arguments.json:
        print(json.dumps({"models": rows, "ok": is_well}, indent=2))
    else:
        table(rows, arguments.backends.split(","), arguments.markdown)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
