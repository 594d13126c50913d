"""What `ci/gpu` does on a machine with an NVIDIA GPU, in parts that each stand alone: see `ci/gpu --help`.

A part that fails ends none of the others: it is a row of the table at the end, with its reason. Recordings and results
lie in one folder, so that parts can be run one by one, a second run does what the first has left, and the report has
all of them. What is right comes first, then how good the model is, then times; when the minutes are over, what is left
is a row that says so.
"""

import argparse
import json
import sys
import time

from gpu_claims import claims_part
from gpu_correctness import device_part, kit_part, record_part, replay_part, strict_part
from gpu_figures import batches_part, bench_part, counters_part, products_part
from gpu_machine import EXAMPLES, NO_TIME, PRECISIONS, ROOT, Failed, Machine, NoTime, gpus_of_driver, nvrtc_library
from gpu_model import model_part
from gpu_report import print_table, write_report

__all__ = ["Machine", "gpus_of_driver", "nvrtc_library"]  # what the tests take from here
NO_GPU = 4  # as `crucible` says that a device is not available

PARTS = {  # in this order: what is right, the model, figures, the longest last
    "device": device_part, "record": record_part, "replay": replay_part, "kit": kit_part, "strict": strict_part,
    "model": model_part, "claims": claims_part, "counters": counters_part, "batches": batches_part,
    "products": products_part, "bench": bench_part
}
CASES = ("examples", "precisions", "iterations")
OPTIONS = {"device": (), "kit": ("quick",), "strict": ("all_patterns",), "record": CASES, "replay": CASES,
           "model": CASES, "counters": CASES, "claims": (*CASES, "rounds"), "batches": (*CASES, "rounds"),
           "products": (*CASES, "rounds"), "bench": (*CASES, "rounds", "quick")}  # which change a part's result


def before(machine, name):
    """What an earlier run has left of the part, with whether that was of the same inputs."""
    try:
        found = json.loads((machine.folder / f"{name}.json").read_text())
        return found, found.get("inputs") == machine.inputs(OPTIONS[name])
    except (OSError, ValueError):
        return None, False


def good_cases(result):
    """{case: its rows}, of the cases that went through."""
    found = {name: [] for name in result.get("data", {}).get("good", [])}
    for row in result.get("data", {}).get("rows", []):
        if row.get("case") in found:
            found[row["case"]].append(row)
    return found


def run_part(machine, name, again=True):
    """{"part", "verdict", "words", "seconds", "inputs", "data"}; whatever goes wrong is a verdict. Unless `again`, what
    an earlier run did of the same inputs is taken from the folder."""
    earlier, is_same = before(machine, name)
    if not again and is_same and earlier["verdict"] == "passed" and not earlier["data"].get("is_none"):
        return earlier | {"words": "of an earlier run: " + earlier["words"]}
    machine.kept = good_cases(earlier) if is_same and not again else {}
    start = time.monotonic()
    result = {"part": name, "verdict": "passed", "rehearsal": machine.rehearses, "data": {}}
    result["inputs"] = json.loads(json.dumps(machine.inputs(OPTIONS[name])))
    try:
        if machine.seconds_left() <= 0:
            raise NoTime(f"not run: {NO_TIME}")
        result["words"], result["data"] = PARTS[name](machine)
    except NoTime as late:
        done = bool(late.data.get("rows"))
        result |= {"verdict": "cut" if done else "not run", "words": str(late) if done else f"not run: {NO_TIME}",
                   "data": late.data}
    except Failed as failed:
        result |= {"verdict": "failed", "words": str(failed), "data": failed.data}
    except Exception as error:  # a mistake in one part must not cost the others
        result |= {"verdict": "failed", "words": f"{type(error).__name__}: {error}"}
    result["seconds"] = round(time.monotonic() - start, 1)
    if result["verdict"] != "not run" or earlier is None:  # an older result is worth more than none
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
    parser.add_argument("--rounds", type=int, default=7, help="rounds of what is timed in turns")
    parser.add_argument("--minutes", type=float, default=40, help="after which nothing more is run (default 40)")
    parser.add_argument("--again", action="store_true", help="also what an earlier run did of the same inputs")
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
    wanted = arguments.parts or [*PARTS, "report"]
    results = []
    for name in (name for name in PARTS if name in wanted):  # whatever order they were named in
        print(f"  {name} ...", file=sys.stderr, flush=True)
        results.append(run_part(machine, name, arguments.again))
    if "report" in wanted:
        same = {name: before(machine, name)[1] for name in PARTS}
        print(f"the section for docs/performance.md: {write_report(machine.folder, list(PARTS), same)}")
    print_table(results)
    return 1 if any(result["verdict"] == "failed" for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
