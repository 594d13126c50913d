"""Replays recordings on every device that is here, real or emulated, in both numerics modes: see `ci/matrix --help`.

A cell is "verified" (fast), the first digits of the hash of all results (strict, verified), or the reason why not. In
strict numerics all hashes of a row are equal, or the row fails. Exit code 1 when any row fails.

Where something differs, runs one rounding apart are asked on the CPU plugin whether they explain it (docs/replay.md,
"Chaos"); the cell says how many that took. Strict results that have the hash of verified ones are those results, so
they are verified.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

from devices_here import devices
from record_models import colour, record

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLES = ("mlp_sgd", "gpt_adamw", "resnet18_sgd")
MODELS = ("gpt2", "bert", "llama", "lstm", "vae", "dcgan", "mixture_of_experts", "dlrm", "graphsage", "whisper")
LONG = 1200  # seconds
RUNS = 200  # at most, one rounding apart
MODES = ("fast", "strict")


def replay(arguments, path, options, mode):
    """{"sha256", "verified", "runs", "why"}"""
    command = [
        arguments.crucible, "replay", path, "--numerics", mode, "--fallback", "forbid", "--verify", "--sensitivity",
        str(RUNS), "--sensitivity-backend", "cpu", "--json", *options
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
        found = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"sha256": "", "verified": False, "runs": 0, "why": f"ran longer than {LONG} s"}
    except ValueError:
        lines = [
            line.removeprefix("crucible: error: ")
            for line in done.stderr.splitlines()
            if line.startswith("crucible: error")
        ]
        return {
            "sha256": "", "verified": False, "runs": 0, "why": " ".join(lines[:2]) or f"ended with {done.returncode}"
        }
    return {
        "sha256": found.get("result_sha256") or "", "verified": bool(found["verified"]),
        "runs": found["state"]["spread"]["runs"], "why": "" if found["verified"] else found.get("reason", "")
    }


def recording_of(arguments, folder, name):
    """The path, or an exception with the reason."""
    path = os.path.join(folder, f"{name}.crtrace")
    if os.path.exists(path):
        return path
    if name in EXAMPLES:
        done = subprocess.run([
            arguments.crucible, "record", "-o", path, "--iterations", "3", "--", sys.executable,
            os.path.join(ROOT, "examples", f"{name}.py"), "--steps", "6"
        ], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return path
    _, _, failed = record(arguments.crucible, folder, name)
    if failed:
        raise RuntimeError(failed)
    return path


def verified_replay(arguments, path, options, mode, row):
    """As replay(); strict results that have the hash of verified ones are those."""
    result = replay(arguments, path, options, mode)
    for other in row["strict"].values() if mode == "strict" and not result["verified"] else ():
        if result["sha256"] and other["verified"] and other["sha256"] == result["sha256"]:
            return result | {"verified": True, "runs": other["runs"], "why": ""}
    return result


def row_of(arguments, folder, name, columns):
    row = {"name": name, "failed": "", **{mode: {} for mode in MODES}}
    try:
        path = recording_of(arguments, folder, name)
    except RuntimeError as error:
        return row | {"failed": str(error)}
    for column, options in columns.items():
        for mode in MODES:
            print(f"{name}: {column}, {mode}", file=sys.stderr)
            row[mode][column] = verified_replay(arguments, path, options, mode, row)
    if not arguments.keep:
        os.remove(path)
    return row


def verdict(row):
    if row["failed"]:
        return "not recorded"
    hashes = {result["sha256"] for result in row["strict"].values() if result["sha256"]}
    if len(hashes) > 1:
        return "BITS DIFFER"
    if not all(result["verified"] for mode in MODES for result in row[mode].values()):
        return "not everywhere"
    return "same bits"


def cell(row, column):
    fast, strict = row["fast"].get(column), row["strict"].get(column)
    if fast is None:
        return "-"
    words = [("verified" if fast["verified"] else "NO") + many(fast)]
    words.append(strict["sha256"][:8] + many(strict) if strict["verified"] else (strict["sha256"][:8] + " NO").strip())
    return ", ".join(words)


def many(result):
    return f" ({result['runs']} runs)" if result["verified"] and result["runs"] > 0 else ""


def print_table(rows, columns, is_markdown):
    heads = ["recording", *columns, "verdict"]
    lines = [[row["name"], *(cell(row, column) for column in columns), verdict(row)] for row in rows]
    if is_markdown:
        print("| " + " | ".join(heads) + " |")
        print("|" + "---|" * len(heads))
        for line in lines:
            print("| " + " | ".join(line) + " |")
    else:
        widths = [max(len(line[i]) for line in [heads, *lines]) for i in range(len(heads))]
        for line, row in zip([heads, *lines], [None, *rows]):
            cells = [f"{text:<{width}}" for text, width in zip(line, widths)]
            if row is not None:
                cells[-1] = colour(cells[-1], 32 if verdict(row) == "same bits" else 31)
            print("  ".join(cells).rstrip())
    for row in rows:
        if row["failed"]:
            print(f"{row['name']}: {row['failed']}")
        for mode in MODES:
            for column, result in row[mode].items():
                if result["why"]:
                    print(f"{row['name']}, {column}, {mode}: {result['why']}")
    print(
        f"{sum(verdict(row) == 'same bits' for row in rows)} of {len(rows)} recordings: verified in both modes on {len(columns)} devices, the same bits in strict"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crucible", required=True)
    parser.add_argument("--keep", default="", help="a folder for the recordings, where later runs find them")
    parser.add_argument("--devices", default="", help="only these columns, divided by commas")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("names", nargs="*", help="examples or models; default: three examples and ten models")
    arguments = parser.parse_args()
    columns = devices(arguments.crucible)
    wanted = [name.strip() for name in arguments.devices.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in columns]
    if unknown:
        parser.error(f"not here: {', '.join(unknown)}; here are {', '.join(columns)}")
    columns = {name: options for name, options in columns.items() if not wanted or name in wanted}
    with tempfile.TemporaryDirectory(prefix="crucible-matrix-") as temporary:
        folder = arguments.keep or temporary
        os.makedirs(folder, exist_ok=True)
        rows = [row_of(arguments, folder, name, columns) for name in arguments.names or EXAMPLES + MODELS]
    if arguments.json:
        print(
            json.dumps({"devices": list(columns), "rows": [row | {"verdict": verdict(row)} for row in rows]}, indent=2))
    else:
        print_table(rows, columns, arguments.markdown)
    return 0 if all(verdict(row) == "same bits" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
