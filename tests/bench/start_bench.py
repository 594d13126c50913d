"""From the start of the process to the first replayed step, with an empty store, a warm one, and on a second machine whose
store is empty beside a warm server (nginx on this machine, entries signed, each one verified).

Of each: medians of rounds that take turns. Reading the recording's weights and writing them to the device is shown apart.

Environment: CRUCIBLE_NGINX, as ci/setup.sh sets it.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import remote_servers  # noqa: E402

COLUMNS = ["process", "read", "open", "prepare", "weights", "first step", "to it, without weights", "compiled"]


def replay(crucible, trace, store, options, **variables):
    """Milliseconds of each stage, and how many kernels were compiled."""
    environment = {**os.environ, "CRUCIBLE_STORE_DIR": str(store), "no_proxy": "*", **variables}
    start = time.monotonic()
    done = subprocess.run([crucible, "replay", trace, "--iterations", "1", "--json", *options], capture_output=True,
                          text=True, env=environment)
    wall = (time.monotonic() - start) * 1e3
    if done.returncode != 0:
        sys.exit(f"error: {done.stderr}")
    document = json.loads(done.stdout)
    stage = {name.removesuffix("_ns"): ns / 1e6 for name, ns in document["start"].items()}
    step = document["times_ns"][0] / 1e6
    prepare = stage["prepare"] - stage["states"]
    known = stage["read"] + stage["open"] + stage["prepare"] + step
    return {
        "process": wall - known, "read": stage["read"], "open": stage["open"], "prepare": prepare,
        "weights": stage["states"], "first step": step,
        "to it, without weights": stage["read"] + stage["open"] + prepare + step,
        "compiled": document["receipt"]["cache"]["kernels_compiled"]
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crucible", default=str(ROOT / "build/release/crucible"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("trace", nargs="?", help="a recording (default: examples/gpt_adamw.py is recorded)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crucible-start-") as name:
        folder = pathlib.Path(name)
        trace = options.trace
        if not trace:
            trace = folder / "gpt_adamw.crtrace"
            subprocess.run([options.crucible, "record", "-o", trace, "--", sys.executable, ROOT / "examples/gpt_adamw.py"],
                           check=True, capture_output=True)
        key = remote_servers.make_key(folder, "ours.pem")
        (folder / "nginx").mkdir()
        server = remote_servers.Nginx(folder / "nginx", is_open=True)
        asking = {"CRUCIBLE_STORE_REMOTE": server.url, "CRUCIBLE_STORE_KEYS": f"{key}.pub"}
        more = ["--no-sandbox"]
        try:
            replay(options.crucible, trace, folder / "warm", more)
            subprocess.run([options.crucible, "store", "push", "--store", folder / "warm", "--remote", server.url, "--sign",
                            key], check=True, capture_output=True)
            rows = {"empty store": [], "warm store": [], "empty store, warm server": []}
            for number in range(options.rounds):
                for title, store, variables in (("empty store", f"empty{number}", {}), ("warm store", "warm", {}),
                                                ("empty store, warm server", f"second{number}", asking)):
                    rows[title].append(replay(options.crucible, trace, folder / store, more, **variables))
                for used in (f"empty{number}", f"second{number}"):
                    shutil.rmtree(folder / used)
        finally:
            server.end()
    medians = {title: {column: statistics.median(row[column] for row in of) for column in COLUMNS}
               for title, of in rows.items()}
    if options.json:
        print(json.dumps(medians, indent=2))
        return
    print(f"milliseconds, medians of {options.rounds} rounds in turns, {os.path.basename(trace)}")
    print(f"{'':26}" + "".join(f"{column:>{max(len(column), 9) + 2}}" for column in COLUMNS))
    for title, row in medians.items():
        print(f"{title:26}" + "".join(
            f"{row[column]:>{max(len(column), 9) + 2}.{0 if column == 'compiled' else 1}f}" for column in COLUMNS))


if __name__ == "__main__":
    main()
