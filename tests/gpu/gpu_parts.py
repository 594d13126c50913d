"""What `ci/gpu` does on a machine with an NVIDIA GPU, in parts that each stand alone: see `ci/gpu --help`.

A part that fails ends none of the others: it is a row of the table at the end, with its reason. Recordings and results
lie in one folder, so that parts can be run one by one and the report has all of them.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/models"))
from devices_here import devices, nvrtc_library  # noqa: E402

EXAMPLES = ("mlp_sgd", "gpt_adamw", "resnet18_sgd")
PRECISIONS = {"f32": [], "bf16": ["--bf16"]}
NO_GPU = 4  # as `crucible` says that a device is not available
LONG = 7200  # seconds for one command
STEPS = {"mlp_sgd": 4000, "gpt_adamw": 600, "resnet18_sgd": 600}  # of a peer: long enough for all of its turns


def gpus_of_driver(library="libcuda.so.1"):
    """How many devices NVIDIA's driver has here; 0 where there is no driver or it has none."""
    try:
        driver = ctypes.CDLL(library)
        count = ctypes.c_int(0)
        return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0
    except (OSError, AttributeError):
        return 0


class Failed(Exception):
    """A part did not do what it should; the text is its row's."""


class Machine:
    """Where things run: on a GPU, or in a rehearsal on what is here without one."""

    def __init__(self, arguments):
        self.crucible = arguments.crucible
        self.folder = pathlib.Path(arguments.folder)
        self.rehearses = arguments.rehearse
        self.train = "cpu" if arguments.rehearse else "cuda"
        self.examples = arguments.examples
        self.precisions = arguments.precisions
        self.rounds, self.iterations = arguments.rounds, arguments.iterations
        self.all_patterns, self.quick = arguments.all, arguments.quick
        self.columns = self._columns()

    def _columns(self):
        here = devices(self.crucible)
        columns = {"cpu": here["cpu"], **{name: options for name, options in here.items() if name.startswith("opencl")}}
        if self.rehearses:
            return {"nvidia": here.get("nvidia (emulated)", ["--backend", "nvidia"]), **columns}
        nvrtc = nvrtc_library()
        return {
            "nvidia": ["--backend", "nvidia", *(["--set", f"backend.nvidia.nvrtc={nvrtc}"] if nvrtc else [])], **columns
        }

    def settings(self, name):
        """What a column sets: ["backend.nvidia.nvrtc=...", ...]."""
        options = self.columns[name]
        return [options[i + 1] for i in range(len(options)) if options[i] == "--set"]

    def run(self, *command, fine=(0,)):
        """The finished process. Failed when it ends with another code than those in `fine`, or takes too long."""
        words = [str(word) for word in command]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=LONG)
        except subprocess.TimeoutExpired:
            raise Failed(f"{shlex.join(words)} ran longer than {LONG} s") from None
        if done.returncode not in fine:
            lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            said = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")
            raise Failed(f"{shlex.join(words[:3])} ... ended with {done.returncode}: {said.strip()[:300]}")
        return done

    def json(self, *command, fine=(0,)):
        text = self.run(*command, "--json", fine=fine).stdout
        try:
            return json.loads(text)
        except ValueError:
            raise Failed(f"{command[1]} printed no JSON: {text[:200]!r}") from None

    def script(self, example, precision, device, steps):
        return [sys.executable, str(ROOT / "examples" / f"{example}.py"), "--steps", str(steps),
                *(["--device", device] if device != "cpu" else []), *PRECISIONS[precision]]

    def recording(self, example, precision, device):
        """Its path; it is made where it is not there yet."""
        path = self.folder / "recordings" / f"{example}.{precision}.{device}.crtrace"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self.run(self.crucible, "record", "-o", path, "--iterations", self.iterations, "--",
                     *self.script(example, precision, device, self.iterations + 4))
        return path

    def sources(self):
        """Where the recordings are made: on the GPU and, to be replayed on it, on the CPU."""
        return list(dict.fromkeys((self.train, "cpu")))


def device_part(machine):
    """What is here: device, driver, CUDA of torch, and what `crucible devices` says of it."""
    said = machine.json(machine.crucible, "devices", fine=(0, 4))
    try:
        import torch

        about = {"torch": torch.__version__, "cuda": torch.version.cuda or "none"}
        if machine.train == "cuda":
            if not torch.cuda.is_available():
                raise Failed(f"torch {torch.__version__} finds no CUDA device; install a torch with CUDA")
            about |= {
                "device": torch.cuda.get_device_name(),
                "capability": ".".join(map(str, torch.cuda.get_device_capability()))
            }
    except ImportError:
        raise Failed(f"{sys.executable} has no torch; ci/setup.sh installs one") from None
    if machine.train == "cuda":
        about["driver"] = machine.run("nvidia-smi", "--query-gpu=driver_version",
                                      "--format=csv,noheader").stdout.splitlines()[0].strip()
    else:
        about |= {"device": "none: a rehearsal on the CPU and an emulated driver", "driver": "emulated"}
    return ", ".join(f"{key} {value}" for key, value in about.items()), {"about": about, "devices": said}


def record_part(machine):
    """Records the examples on `cuda` and on the CPU, in f32 and bf16."""
    rows, problems = [], []
    for device in machine.sources():
        for example in machine.examples:
            for precision in machine.precisions:
                row = {"example": example, "precision": precision, "device": device, "ops": None, "reason": ""}
                try:
                    info = machine.json(machine.crucible, "trace", "info",
                                        machine.recording(example, precision, device))
                    row["ops"] = info["ops_per_iteration"][0]
                    if not info["device"].startswith(device):
                        raise Failed(f"the recording says that it was made on {info['device']}")
                except Failed as failed:
                    row["reason"] = str(failed)
                    problems.append(f"{example} {precision} on {device}: {failed}")
                rows.append(row)
    return told(rows, problems, "recordings"), {"rows": rows}


def replay_part(machine):
    """Every recording on every backend: verified in fast numerics, the same bits in strict."""
    rows, problems = [], []
    for device in machine.sources():
        for example in machine.examples:
            for precision in machine.precisions:
                rows += replay_rows(machine, example, precision, device, problems)
    return told(rows, problems, "replays"), {"rows": rows}


def replay_rows(machine, example, precision, device, problems):
    rows, hashes = [], {}
    for column, options in machine.columns.items():
        for mode in ("fast", "strict"):
            row = {
                "example": example, "precision": precision, "recorded_on": device, "backend": column, "numerics": mode,
                "verified": False, "sha256": "", "reason": ""
            }
            try:
                found = machine.json(machine.crucible, "replay", machine.recording(example, precision,
                                                                                   device), *options, "--numerics",
                                     mode, "--fallback", "forbid", "--verify", "--sensitivity", 3, fine=(0, 1))
                row |= {
                    "verified": bool(found["verified"]), "sha256": found["result_sha256"],
                    "reason": found.get("reason") or ""
                }
                if mode == "strict":
                    hashes[column] = found["result_sha256"]
            except Failed as failed:
                row["reason"] = str(failed)
            if not row["verified"]:
                problems.append(f"{example} {precision} of {device} on {column}, {mode}: {row['reason']}")
            rows.append(row)
    if len(set(hashes.values())) > 1:
        problems.append(f"{example} {precision} of {device}: strict results have other bits on " +
                        ", ".join(name for name, found in hashes.items() if found != next(iter(hashes.values()))))
    return rows


def kit_part(machine):
    """The conformance kit on the NVIDIA plugin."""
    plugin = next(iter(sorted(pathlib.Path(machine.crucible).resolve().parent.glob("**/libcrucible_nvidia.so"))), None)
    if plugin is None:
        raise Failed(f"there is no libcrucible_nvidia.so beside {machine.crucible}")
    options = [
        word for setting in machine.settings("nvidia") for word in ("--set", setting.removeprefix("backend.nvidia."))
    ]
    found = machine.json(machine.crucible, "plugin", "check", plugin, *options, *(["--quick"] if machine.quick else []),
                         fine=(0, 1))
    counts = {}
    for case in found["cases"]:
        counts[case["outcome"]] = counts.get(case["outcome"], 0) + 1
    bad = [case["name"] for case in found["cases"] if case["outcome"] in ("failed", "unexpected pass")]
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    if bad:
        raise Failed(f"{words}; failed: {', '.join(bad[:5])}{' ...' if len(bad) > 5 else ''}")
    return words, {"counts": counts}


def strict_part(machine):
    """The functions and rules of strict numerics on 2^22 bit patterns, with --all on all 2^32 of a float."""
    found = machine.json(machine.crucible, "devices", "--self-test", *machine.columns["nvidia"],
                         *(["--all-patterns"] if machine.all_patterns else []), fine=(0, 1))
    differ = [item["name"] for item in found["items"] if not item["passed"]]
    if differ or not found["passed"]:
        raise Failed(f"{', '.join(differ)} differ on {found['name']}")
    return f"{len(found['items'])} equal, each on {found['samples']} bit patterns", {
        "samples": found["samples"], "items": len(found["items"])
    }


def bench_part(machine):
    """Backends beside eager PyTorch, eager as CUDA graphs, and torch.compile max-autotune, in turns, f32 and bf16."""
    rows, problems = [], []
    peers = ["eager", "compile:max-autotune"
            ] if machine.train == "cpu" else ["eager", "cudagraphs", "compile:max-autotune"]
    settings = [word for setting in machine.settings("nvidia") for word in ("--set", setting)]
    for example in machine.examples:
        for precision in machine.precisions:
            try:
                script = machine.script(example, precision, machine.train, STEPS[example])
                found = machine.json(machine.crucible, "bench", machine.recording(example, precision, machine.train),
                                     "--backends", "nvidia,cpu",
                                     "--peers", ",".join(peers[:1] if machine.quick else peers), "--script",
                                     shlex.join(script), "--rounds", machine.rounds, *settings, fine=(0, 1))
            except Failed as failed:
                problems.append(f"{example} {precision}: {failed}")
                continue
            for row in found["files"][0]["rows"]:
                rows.append({"example": example, "precision": precision, **row})
                if row["reason"]:
                    problems.append(f"{example} {precision}, {row['backend']}: {row['reason']}")
    return told(rows, problems, "rows"), {"rows": rows}


PRODUCTS = {"library": {}, "matrix units": {"blas": "none"},
            "generated": {"blas": "none", "matrix_units": "false"}}  # who does the products


def products_part(machine):
    """Products by cuBLASLt, by our kernels for tensor cores, and by those generated from the IR, in turns; all
    verified."""
    rows, problems = [], []
    for example in machine.examples:
        for precision in machine.precisions:
            of = {who: [] for who in PRODUCTS if who != "matrix units" or precision != "f32"
                 }  # those are of f16 and bf16
            try:
                for _ in range(machine.rounds):
                    for who, times in of.items():
                        settings = [
                            word for key, value in PRODUCTS[who].items()
                            for word in ("--set", f"backend.nvidia.{key}={value}")
                        ]
                        found = machine.json(machine.crucible, "replay",
                                             machine.recording(example, precision, machine.train),
                                             *machine.columns["nvidia"], *settings, "--fallback", "forbid", "--tune",
                                             "off", "--verify", "--sensitivity", 40, "--repeat", 3)
                        times.append(found["time_ns_per_iteration"])
            except Failed as failed:
                problems.append(f"{example} {precision}: {failed}")
            rows += [{
                "example": example, "precision": precision, "who": who, "rounds_ns": times,
                "median_ns": statistics.median(times) if times else None
            } for who, times in of.items()]
    return told(rows, problems, "rows"), {"rows": rows}


def counters_part(machine):
    """What the device counts of one replay: the first three counters that it has. Without rights there are none, which
    is no fault of ours."""
    def counters(example, precision, words):
        return machine.json(machine.crucible, "replay", machine.recording(example, precision, machine.train),
                            *machine.columns["nvidia"], "--fallback", "forbid", "--counters", words)

    listed = counters(machine.examples[0], machine.precisions[0], "list")
    names = [counter["name"] for counter in listed["counters"]][:3]
    if not names:
        return f"none: {listed.get('refused') or 'the device lists no counters'}", {"rows": []}
    rows = []
    for example in machine.examples:
        for precision in machine.precisions:
            found = counters(example, precision, ",".join(names))["counters"]
            if found["refused"]:
                return f"none: {found['refused']}", {"rows": []}
            rows.append({"example": example, "precision": precision, "values": found["values"]})
    return f"{len(rows)} replays", {"rows": rows}


def told(rows, problems, what):
    """The words of a part that went through; Failed with the first problems where there are any. Rows are kept in both
    cases."""
    if problems:
        failed = Failed(f"{len(problems)} of {len(rows)} {what}: " + "; ".join(problems[:3]) +
                        (" ..." if len(problems) > 3 else ""))
        failed.data = {"rows": rows, "problems": problems}
        raise failed
    return f"{len(rows)} {what}"


PARTS = {
    "device": device_part, "record": record_part, "replay": replay_part, "kit": kit_part, "strict": strict_part,
    "bench": bench_part, "products": products_part, "counters": counters_part
}


def run_part(machine, name):
    """{"part", "verdict", "words", "seconds", "data"}; whatever goes wrong is a verdict."""
    start = time.monotonic()
    result = {"part": name, "verdict": "passed", "rehearsal": machine.rehearses, "data": {}}
    try:
        result["words"], result["data"] = PARTS[name](machine)
    except Failed as failed:
        result |= {"verdict": "failed", "words": str(failed), "data": getattr(failed, "data", {})}
    except Exception as error:  # a mistake in one part must not cost the others
        result |= {"verdict": "failed", "words": f"{type(error).__name__}: {error}"}
    result["seconds"] = round(time.monotonic() - start, 1)
    (machine.folder / f"{name}.json").write_text(json.dumps(result, indent=1))
    return result


def parse(arguments=None):
    parser = argparse.ArgumentParser(prog="ci/gpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}, report; default: all")
    parser.add_argument("--crucible", default=str(ROOT / "build/release/crucible"))
    parser.add_argument("--folder", default=str(ROOT / "build/gpu"),
                        help="recordings, results and report.md (default build/gpu)")
    parser.add_argument("--examples", type=lambda text: text.split(","), default=list(EXAMPLES),
                        help="some of " + ", ".join(EXAMPLES))
    parser.add_argument("--precisions", type=lambda text: text.split(","), default=list(PRECISIONS),
                        help="some of " + ", ".join(PRECISIONS))
    parser.add_argument("--iterations", type=int, default=8, help="recorded iterations")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of bench")
    parser.add_argument("--all", action="store_true", help="strict: all 2^32 patterns (about an hour)")
    parser.add_argument("--quick", action="store_true", help="kit: the cheap tiers; bench: eager alone")
    parser.add_argument("--rehearse", action="store_true",
                        help="without a GPU: the CPU in place of CUDA, the emulated driver in place of NVIDIA's")
    found = parser.parse_args(arguments)
    for name, allowed in (("parts", (*PARTS, "report")), ("examples", EXAMPLES), ("precisions", tuple(PRECISIONS))):
        unknown = [value for value in getattr(found, name) if value not in allowed]
        if unknown:
            parser.error(f"no {name[:-1]} is called {unknown[0]}: {', '.join(allowed)}")
    return found


def main():
    arguments = parse()
    if not arguments.rehearse and gpus_of_driver() == 0:
        print("no NVIDIA GPU is here: nothing was run. --rehearse runs the parts on the CPU and the emulated driver",
              file=sys.stderr)
        return NO_GPU
    machine = Machine(arguments)
    machine.folder.mkdir(parents=True, exist_ok=True)
    from gpu_report import print_table, write_report

    results = []
    for name in arguments.parts or [*PARTS, "report"]:
        if name != "report":
            print(f"  {name} ...", file=sys.stderr, flush=True)
            results.append(run_part(machine, name))
    if not arguments.parts or "report" in arguments.parts:
        print(f"the section for docs/performance.md: {write_report(machine.folder, list(PARTS))}")
    print_table(results)
    return 0 if all(result["verdict"] == "passed" for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
