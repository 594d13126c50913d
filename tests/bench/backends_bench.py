"""The three examples on every device that is here, real or emulated, of this project's plugins or another's
(CRUCIBLE_PLUGIN_PATH), beside eager PyTorch and torch.compile: one `crucible bench`.

    python backends_bench.py --crucible PATH [--rounds 7] [--numerics strict] [--devices 'cpu,nvidia (emulated)']
    [--html F] [--json] [EXAMPLE...]

The recorded command is long enough for all turns of a peer, so that none is started again. Exit code: that of `crucible
bench`.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/models"))
from devices_here import all_devices  # noqa: E402

EXAMPLES = ("mlp_sgd", "gpt_adamw", "resnet18_sgd")
ITERATIONS = 8
# At most, one rounding apart, for a recording whose arithmetic does not determine its end (docs/replay.md, "Chaos").
RUNS = 200


def setting_of(options):
    """["--backend", "nvidia", "--set", "backend.nvidia.library=X"]: what is set."""
    return [options[i + 1] for i in range(len(options)) if options[i] == "--set"]


def chosen(here, folder):
    """--backends, --set and the environment for the columns of devices_here. One plugin has one library in a process:
    where there are two OpenCL drivers, OpenCL's own loader is shown both, and they are the plugin's devices."""
    names, sets, environment = [], [], dict(os.environ)
    drivers = [name for name in here if name.startswith("opencl")]
    for name, options in here.items():
        if name not in drivers:
            names.append(options[options.index("--backend") + 1])
            sets += setting_of(options)
    if "opencl: Intel" in drivers:
        vendors = pathlib.Path(folder) / "vendors"
        vendors.mkdir()
        (vendors / "intel.icd").write_text(os.environ["CRUCIBLE_INTEL_OPENCL"] + "\n")
        if "opencl: PoCL" in drivers:
            for found in pathlib.Path(os.environ.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")).glob("*.icd"):
                (vendors / found.name).write_text(found.read_text())
        environment["OCL_ICD_VENDORS"] = str(vendors)
    at = 1 if "cpu" in names else 0
    names[at:at] = [f"opencl:{index}" for index in range(len(drivers))]
    return names, sets, environment


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crucible", default=str(ROOT / "build/release/crucible"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--numerics", choices=("fast", "strict"), default="fast")
    parser.add_argument("--devices", default="", help="only these, divided by commas")
    parser.add_argument("--list", action="store_true", help="print the devices, run nothing")
    parser.add_argument("--peers", default="eager,compile")
    parser.add_argument("--html", help="a page too")
    parser.add_argument("--csv", help="each round too")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=", ".join(EXAMPLES))
    options = parser.parse_args()
    if unknown := [name for name in options.examples if name not in EXAMPLES]:
        parser.error(f"no example is called {unknown[0]}: {', '.join(EXAMPLES)}")
    here = all_devices(options.crucible)
    if options.list:
        print("\n".join(here))
        return 0
    wanted = [name.strip() for name in options.devices.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in here]:
        parser.error(f"not here: {', '.join(unknown)}; here are {', '.join(here)}")
    here = {name: words for name, words in here.items() if not wanted or name in wanted}
    with tempfile.TemporaryDirectory(prefix="crucible-bench-") as folder:
        backends, sets, environment = chosen(here, folder)
        traces = []
        for example in options.examples or EXAMPLES:
            trace = pathlib.Path(folder) / f"{example}.crtrace"
            steps = 4 + ITERATIONS * (options.rounds + 1)
            done = subprocess.run([
                options.crucible, "record", "-o", trace, "--iterations",
                str(ITERATIONS), "--", sys.executable, ROOT / "examples" / f"{example}.py", "--steps",
                str(steps)
            ], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                sys.exit(f"error: {example} was not recorded: {done.stderr.strip()}")
            traces.append(trace)
        command = [
            options.crucible, "bench", *traces, "--backends", ",".join(backends), "--rounds", options.rounds,
            "--numerics", options.numerics, "--sensitivity", RUNS, "--sensitivity-backend", "cpu"
        ]
        command += [word for setting in sets for word in ("--set", setting)]
        if options.peers:
            command += ["--peers", options.peers, "--script", "recorded"]
        for name in ("html", "csv"):
            if getattr(options, name):
                command += [f"--{name}", getattr(options, name)]
        sys.stdout.flush()
        return subprocess.run([str(word) for word in command + (["--json"] if options.json else [])],
                              env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
