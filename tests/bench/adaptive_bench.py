"""crucible.accelerate beside eager and torch.compile: `ci/bench adaptive`.

    python adaptive_bench.py --python-folder build/release/python [--rounds 7] [--json] [--programs | --models] [NAME...]

Without --programs or --models: the five training steps of workloads.py, each peer a process of its own, the peers in turns, so
that a change of the machine's speed meets all of them: eager, torch.compile of the model, torch.compile of loss and
optimizer step, crucible.accelerate. A figure is the median over the rounds of each round's median call; the first compiled
call's is seconds after the last observed one. --models: the models of tests/models, eager and accelerated. --programs: the
programs of tests/loops. Exit code 1 when a peer ends early, or when an accelerated step gave something else than eager.
"""

import argparse
import ast
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from loop_functions import with_function

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = {"tinymlp": 400, "mlp": 200, "gpttiny": 80, "gpt2s": 8, "resnet18": 8}  # in one turn, as kernels_bench.py
PEERS = {
    "eager": "eager", "torch.compile, model": "model", "torch.compile, all": "everything", "accelerate": "accelerate"
}
MODEL_CALLS = 10
LOOPS = ROOT / "tests/loops/inputs"
SETTLE_S, SETTLE_TURNS, WARMUP_TURNS = 60.0, 1000, 2  # until the accelerated peer is compiled, or eager for good
TURN_S = 300  # a turn that takes longer is a peer that hangs


def progress(text):
    if sys.stderr.isatty():
        print(f"\r{text:<70}", end="", file=sys.stderr, flush=True)


class Peer:
    """A process. turn(): the times of so many calls in nanoseconds, None when it has ended."""

    def __init__(self, name, way, calls):
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/bench/adaptive_program.py"), name, "--way", way, "--calls", str(calls)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.last, self.is_settled = None, False
        self.is_there = bool(self.process.stdout.readline())

    def turn(self):
        if not self.is_there:
            return None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        self.is_there = bool(line)
        if not line:
            return None
        told = json.loads(line)
        self.is_settled = told["is_settled"]
        return told["step_ns"]

    def close(self):
        """What it tells at its end; its last words when it ended early."""
        if self.is_there:
            self.process.stdin.close()
            line = self.process.stdout.readline()
            self.last = json.loads(line) if line else None
        said = self.process.stderr.read()
        self.process.wait()
        return self.last or {"failed": (said.strip().splitlines() or ["it ended"])[-1]}


def settle(peers):
    """Turns of each peer by itself, until everything that it compiles has compiled, at most so long. torch.compile does in
    its first calls; an accelerated peer goes on meanwhile, and nobody else takes its time."""
    for peer in peers.values():
        began = time.monotonic()
        for number in range(SETTLE_TURNS):
            peer.turn()
            is_over = peer.is_settled or not peer.is_there or time.monotonic() - began > SETTLE_S
            if number + 1 >= WARMUP_TURNS and is_over:
                break


def measure(name, ways, calls, rounds):
    peers = {peer: Peer(name, way, calls) for peer, way in ways.items()}
    settle(peers)
    times = {peer: [] for peer in peers}
    for number in range(rounds):
        progress(f"{name}: round {number + 1} of {rounds}")
        for peer, process in peers.items():
            turn = process.turn()
            if turn is not None:
                times[peer].append(statistics.median(turn))
    told = {peer: process.close() for peer, process in peers.items()}
    progress("")
    line = {"name": name, "times_ns": {peer: values for peer, values in times.items() if values},
            "failed": {peer: each["failed"] for peer, each in told.items() if "failed" in each}}
    for peer, each in told.items():
        line.setdefault("peak_bytes", {})[peer] = each.get("peak_bytes")
    fast = told["accelerate"]
    line |= {key: fast.get(key) for key in ("first_compiled_s", "longest_stall_ns", "report", "beside")}
    return line


def why(report):
    """Why a step is eager, in words; "" where it is compiled."""
    if report is None or report["tier"] == "compiled":
        return ""
    reasons = [report["reason"], *(each["reason"] for each in report["variants"]), *report["eager_calls"]]
    return next((reason for reason in reasons if reason), "no call was compiled in time")


def ratio(line, peer="accelerate"):
    """The best of the others over it, round by round."""
    times = line["times_ns"]
    others = [values for name, values in times.items() if name != peer]
    if peer not in times or not others:
        return None
    best = [min(values) for values in zip(*others)]
    return statistics.median(b / own for b, own in zip(best, times[peer]))


def cell(value, form="{:.3f}", scale=1.0):
    return "-" if value is None else form.format(value / scale)


def print_workloads(lines, has_compiler):
    print(f"{'program':9} {'peer':21} {'median ms':>10} {'min ms':>9} {'max ms':>9} {'peak MiB':>9}")
    for line in lines:
        for peer, values in line["times_ns"].items():
            print(f"{line['name']:9} {peer:21} {statistics.median(values) / 1e6:10.3f} {min(values) / 1e6:9.3f} "
                  f"{max(values) / 1e6:9.3f} {cell(line['peak_bytes'].get(peer), '{:.0f}', 2**20):>9}")
        for peer, text in line["failed"].items():
            print(f"{line['name']:9} {peer:21} did not run: {text}")
    if not has_compiler:
        print("torch.compile did not run: no C++ compiler (g++ or clang++) is there")
    print(f"\n{'program':9} {'best / accelerate':>17} {'first compiled s':>16} {'longest stall ms':>16} {'beside plan us':>14} "
          f"{'guards us':>9} {'tensors':>7} {'ns each':>7} {'values':>6} {'instructions':>12}")
    for line in lines:
        beside = line["beside"] or {}
        guards, tensors = beside.get("guards_ns"), beside.get("tensors")
        each = guards / tensors if guards and tensors else None
        counted = beside.get("guards_instructions")
        print(f"{line['name']:9} {cell(ratio(line), '{:.2f}'):>17} {cell(line['first_compiled_s'], '{:.2f}'):>16} "
              f"{cell(line['longest_stall_ns'], '{:.1f}', 1e6):>16} {cell(beside.get('beside_plan_ns'), '{:.1f}', 1e3):>14} "
              f"{cell(guards, '{:.2f}', 1e3):>9} {tensors or '-':>7} {cell(each, '{:.1f}'):>7} {beside.get('values', '-'):>6} "
              f"{cell(counted, '{:.0f}') if counted is not None else 'not measured':>12}")
    print_reasons(lines)


def print_reasons(lines):
    for line in lines:
        if text := why(line["report"]):
            print(f"{line['name']}: eager: {text}")
        for text in (line["report"] or {}).get("mismatches", []):
            print(f"{line['name']}: WRONG: {text}")


def print_models(lines):
    print(f"{'model':28} {'tier':9} {'eager ms':>9} {'accelerated ms':>14} {'gain':>5} {'first compiled s':>16} "
          f"{'peak MiB, eager':>15} {'accelerated':>11}")
    for line in lines:
        times, peaks, report = line["times_ns"], line["peak_bytes"], line["report"]
        own = {peer: statistics.median(values) for peer, values in times.items()}
        name, tier = line["name"].removeprefix("zoo:"), (report or {}).get("tier", "failed")
        print(f"{name:28} {tier:9} {cell(own.get('eager'), scale=1e6):>9} "
              f"{cell(own.get('accelerate'), scale=1e6):>14} {cell(ratio(line), '{:.2f}'):>5} "
              f"{cell(line['first_compiled_s'], '{:.2f}'):>16} {cell(peaks.get('eager'), '{:.0f}', 2**20):>15} "
              f"{cell(peaks.get('accelerate'), '{:.0f}', 2**20):>11}")
    print_reasons(lines)
    gains = [value for line in lines if (value := ratio(line)) is not None]
    tiers = [(line["report"] or {}).get("tier") for line in lines]
    if gains:
        print(f"{tiers.count('compiled')} of {len(lines)} compiled; gain {min(gains):.2f} to {max(gains):.2f}")


# ---- the programs of tests/loops: plain scripts, of which those have a function for a step that name one


def step_functions(path):
    """Names of functions at the top of a script that step an optimizer themselves."""
    tree = ast.parse(path.read_text())

    def steps(node):
        return any(isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr in ("step", "backward")
                   for each in ast.walk(node))

    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and steps(node)]


PATCH = """
import atexit as _atexit, crucible as _crucible, json as _json, os as _os
import crucible_torch.accelerate.policy  # what it does at the end comes after what is told here
def _told():
    with open(_os.environ["ADAPTIVE_REPORT"], "w") as out:
        out.write(_json.dumps([_json.loads(each.report().to_json()) for each in _accelerated]))
_accelerated = []
_atexit.register(_told)
def _accelerate(function):
    step = _crucible.accelerate(function)
    _accelerated.append(step)
    def call(*arguments, **named):
        result = step(*arguments, **named)
        if step.report().calls < 40:
            step.wait(20)  # these programs end before anything has been compiled
        return result
    return call
"""
REPEATED = 16  # times as many iterations as the program has: most have a dozen


def accelerated_script(path, names):
    """The script with its step functions accelerated where they are made."""
    lines = path.read_text().splitlines()
    for node in reversed([node for node in ast.parse(path.read_text()).body
                          if isinstance(node, ast.FunctionDef) and node.name in names]):
        lines.insert(node.end_lineno, f"{node.name} = _accelerate({node.name})")
    return PATCH + "\n".join(lines) + "\n"


def run_script(text, folder, row):
    """(what it prints, exit code, last words, reports) of a script as a process of its own."""
    script, told = folder / f"{row.name}.py", folder / f"{row.name}.json"
    script.write_text(text)
    told.unlink(missing_ok=True)
    done = subprocess.run([sys.executable, str(script), *row.arguments], capture_output=True, text=True, timeout=TURN_S,
                          cwd=folder, env={**os.environ, "ADAPTIVE_REPORT": str(told)})
    words = done.stderr.strip().splitlines()[-1:] or [""]
    return done.stdout, done.returncode, words[0], json.loads(told.read_text()) if told.exists() else []


def run_program(row, folder):
    """The line of one program of tests/loops: eager, then with its step functions accelerated. A loop without one gets its
    body as one: the whole of it, then ever less of its beginning, until it is compiled - as a person does who reads the
    report and takes the batch outside."""
    path = LOOPS / (row.file or f"{row.name}.py")
    names = step_functions(path)
    line = {"name": row.name, "functions": names, "report": None, "outside": 0}
    if names:
        scripts = [(path.read_text(), accelerated_script(path, names))]
    else:
        scripts = []
        while made := with_function(path.read_text(), len(scripts), REPEATED, "{name} = _accelerate({name})"):
            plain = with_function(path.read_text(), len(scripts), REPEATED)
            scripts.append((plain.script, PATCH + made.script))
    for outside, (plain, accelerated) in enumerate(scripts):
        eager = run_script(plain, folder, row)
        if eager[1] and not names:
            continue  # such a function needs what its loop has
        fast = run_script(accelerated, folder, row)
        line |= {"is_equal": is_near(eager[0], fast[0]), "exit_codes": [eager[1], fast[1]], "reports": fast[3],
                 "outside": outside, "functions": names or ["the loop's body"]}
        if fast[1]:
            line["words"] = [eager[2], fast[2]]
        line["report"] = line["reports"][0] if line["reports"] else None
        line.setdefault("first_reason", why(line["report"]))
        if fast[1] or any(report["tier"] == "compiled" for report in line["reports"]):
            break
    return line


def is_near(text, other):
    """Whether two outputs have the same words, and numbers that differ by no more than training does by rounding."""
    words, others = text.split(), other.split()
    if len(words) != len(others):
        return False
    for own, their in zip(words, others):
        try:
            if abs(float(own) - float(their)) > 1e-2 * max(1, abs(float(own))):
                return False
        except ValueError:
            if own != their:
                return False
    return True


def print_programs(lines):
    print(f"{'program':30} {'tier':9} {'calls':>6} {'compiled':>8} {'gain':>5} {'outside':>7}  why not")
    for line in lines:
        if not line["functions"]:
            print(f"{line['name']:30} {'-':9} {'-':>6} {'-':>8} {'-':>5} {'-':>7}  its loop cannot be a function of its batch")
            continue
        if line["exit_codes"] != [0, 0]:
            print(f"{line['name']:30} FAILED with exit codes {line['exit_codes']}: {' | '.join(line['words'])}")
        elif not line["is_equal"]:
            print(f"{line['name']:30} WRONG: it prints something else than eager")
        for report in line["reports"]:
            print(f"{line['name']:30} {report['tier']:9} {report['calls']:6} {report['compiled_calls']:8} "
                  f"{cell(report['gain'], '{:.2f}'):>5} {line['outside']:7}  "
                  f"{why(report) and (line['first_reason'] or why(report))}")
    ran = [line for line in lines if line["functions"]]
    compiled = sum(any(report["tier"] == "compiled" for report in line["reports"]) for line in ran)
    print(f"{compiled} of {len(ran)} compiled; outside: so many statements at the beginning of the loop are not in the function")


def main():
    parser = argparse.ArgumentParser(prog="ci/bench adaptive", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: ci/bench adaptive tinymlp --rounds 3")
    parser.add_argument("--python-folder", default=ROOT / "build/release/python")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--models", action="store_true", help="the models of tests/models instead")
    parser.add_argument("--programs", action="store_true", help="the programs of tests/loops instead")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(STEPS))
    options = parser.parse_args()
    package = str(pathlib.Path(options.python_folder).resolve())
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    known = list(STEPS)
    if options.models:
        sys.path.insert(0, str(ROOT / "tests/models"))
        from zoo import MODELS
        known = list(MODELS)
    if options.programs:
        sys.path.insert(0, str(LOOPS.parent))
        from rows import ROWS
        rows = {row.name: row for row in ROWS}
        known = list(rows)
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"nothing is called {unknown[0]}: {', '.join(known)}")
    names = options.names or known
    has_compiler = any(shutil.which(name) for name in ("g++", "clang++"))
    peers = PEERS if has_compiler else {"eager": "eager", "accelerate": "accelerate"}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CRUCIBLE_STORE_DIR"] = str(pathlib.Path(folder) / "store")
        if options.programs:
            lines = [run_program(rows[name], pathlib.Path(folder)) for name in names]
        elif options.models:
            lines = [measure(f"zoo:{name}", {"eager": "eager", "accelerate": "accelerate"}, MODEL_CALLS, options.rounds)
                     for name in names]
        else:
            lines = [measure(name, peers, STEPS[name], options.rounds) for name in names]
    if options.json:
        print(json.dumps(lines, indent=2))
    elif options.programs:
        print_programs(lines)
    elif options.models:
        print_models(lines)
    else:
        print_workloads(lines, has_compiler)
    is_wrong = any((line["report"] or {}).get("mismatches") or line.get("failed", {}).get("accelerate")
                   or line.get("exit_codes", [0, 0]) != [0, 0] or not line.get("is_equal", True) for line in lines)
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
