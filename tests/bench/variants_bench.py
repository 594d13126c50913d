"""Recordings of 1, 10, 100 and 1,000 variants: python variants_bench.py --crucible PATH [--counts 1,10,100] [--keep FOLDER]

Records variants_script.py, a small model of tokens with another length in each iteration (ten iterations of one length for
the first row), and replays each recording with --verify twice: with an empty cache of kernels, and with what that left there. Prints
per row the time of the whole command, its processor time with that of compilers, its most memory (the largest of its
processes), and the arena. All results must be verified.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SCRIPT = pathlib.Path(__file__).resolve().parent / "variants_script.py"


def measured(command, environment):
    """Seconds by the clock and of processors, KiB, output."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: {' '.join(command)}: exit code {process.returncode}\n{output.decode()[:2000]}")
    wall = time.monotonic() - began
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, json.loads(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crucible", required=True)
    parser.add_argument("--counts", default="1,10,100,1000")
    parser.add_argument("--keep", type=pathlib.Path, help="where recordings are kept, and found again")
    arguments = parser.parse_args()
    print(f"{'variants':>8} {'cache':>6} {'seconds':>9} {'processor s':>12} {'per variant':>12} {'memory MiB':>11} {'arena MiB':>10}")
    with tempfile.TemporaryDirectory(prefix="crucible-variants-") as folder:
        place = arguments.keep or pathlib.Path(folder)
        place.mkdir(exist_ok=True)
        for count in map(int, arguments.counts.split(",")):
            trace, iterations = place / f"variants_{count}.crtrace", max(count, 10)
            if not trace.exists():
                subprocess.run([arguments.crucible, "record", "-o", trace, "--iterations", str(iterations), "--",
                                sys.executable, SCRIPT, str(count), str(iterations)], check=True, capture_output=True)
            kept = {"CRUCIBLE_STORE_DIR": f"{folder}/{count}"}
            for cache in ("empty", "warm"):
                wall, processor, kib, report = measured(
                    [arguments.crucible, "replay", str(trace), "--verify", "--json"], {**os.environ, **kept})
                found = report["variants"]["count"] if report["variants"] else 1
                if not report["verified"] or found != count:
                    sys.exit(f"error: {trace}: verified {report['verdict']}, {found} variants")
                print(f"{count:8d} {cache:>6} {wall:9.1f} {processor:12.1f} {processor / count * 1e3:9.0f} ms "
                      f"{kib / 1024:11.0f} {report['arena_bytes'] / 2**20:10.2f}", flush=True)


if __name__ == "__main__":
    main()
