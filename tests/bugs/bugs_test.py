"""Records and replays what once was wrong: python bugs_test.py NAME... for some rows, --table for all, broken ones too.

Environment: CRUCIBLE (the executable), CRUCIBLE_PYTHON_FOLDER (the package `crucible`). The interpreter that runs it
has torch.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import rows

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "warm"))
import warm  # noqa: E402

INPUTS = pathlib.Path(__file__).resolve().parent / "inputs"
TIME_LIMIT_S = 240


def crucible(*arguments, environment=None):
    command = [os.environ["CRUCIBLE"], *map(str, arguments)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S,
                              env={**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, -1, "", f"did not end within {TIME_LIMIT_S} s")


def first_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line or "terminate" in line), lines[-1] if lines else "")


def aborted_while_it_ended(done):
    """Whether the program died in the framework's own way of ending: a thread of torch.jit.fork may drop the last
    reference to a tensor of Python while the interpreter shuts down, which ends that thread inside a destructor. On a
    busy machine eager PyTorch alone did so in 2 of 24 runs of transformed_fork_grad (the thread in
    c10::ivalue::Future::~Future)."""
    return done.returncode == 128 + signal.SIGABRT and "terminate called without an active exception" in done.stderr


def record(row, trace):
    """Records the row's script; a list of what is wrong with that."""
    path = os.pathsep.join(filter(None, [os.environ.get("CRUCIBLE_PYTHON_FOLDER"), os.environ.get("PYTHONPATH")]))
    python = sys.executable if row.fresh else warm.python(pathlib.Path(os.environ["CRUCIBLE"]).parent)
    for _ in range(3 if row.forks else 1):
        done = crucible("record", "-o", trace, *row.record, "--", python, INPUTS / row.file, *row.arguments,
                        environment={**row.environment, "PYTHONPATH": path})
        if not aborted_while_it_ended(done):
            break
    if done.returncode != row.exit_code or not trace.exists():
        return [f"record: exit code {done.returncode}: {first_line(done.stderr)}"]
    wrong = [f"record: does not say '{words}'" for words in row.summary if words not in done.stderr + done.stdout]
    if row.ops:
        listed = crucible("trace", "ops", trace).stdout
        wrong += [f"{op} is not in the recording" for op in row.ops if op not in listed]
    return wrong


def replay(row, trace, way):
    """One replay: a short answer, what is wrong with it, and the hash of its results."""
    done = crucible("replay", trace, "--verify", "--json", *rows.WAYS[way])
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        return f"exit {done.returncode}", [f"{way}: exit code {done.returncode}: {first_line(done.stderr)}"], None
    answer = "yes" if report["verified"] else "no"
    wrong = []
    if report["verified"] is not row.verified:
        wrong.append(f"{way}: verified {report['verified']}: {report.get('reason')}")
    outputs = report["outputs"]
    if row.bit_equal and outputs["bit_equal"] != outputs["compared"]:
        answer += ", other bits"
        wrong.append(f"{way}: {outputs['bit_equal']} of {outputs['compared']} outputs have the recorded bits")
    if row.says:
        spoken = crucible("replay", trace, "--verify", *rows.WAYS[way])
        wrong += [f"{way}: does not say '{words}'" for words in row.says if words not in spoken.stdout + spoken.stderr]
    return answer, wrong, report["result_sha256"]


def run(row, folder):
    """Everything that a row asks for: the short answer of each way, and what is wrong."""
    trace = folder / f"{row.name}.crtrace"
    answers, hashes = {}, {}
    wrong = record(row, trace)
    if not trace.exists():
        return answers, wrong
    for way in row.ways:
        answers[way], faults, hashes[way] = replay(row, trace, way)
        wrong += faults
    for way in ("interpreted", "opencl"):
        if hashes.get(way) and hashes.get("strict") and hashes[way] != hashes["strict"]:
            answers[way] += ", other bits"
            wrong.append(f"{way}: other bits than on the CPU in strict numerics")
    for command in row.also:
        done = crucible(*(trace if word == "TRACE" else word for word in command))
        if done.returncode != 0:
            wrong.append(f"{' '.join(command)}: exit code {done.returncode}: {first_line(done.stderr)}")
    return answers, wrong


def table(chosen, folder):
    print(f"{'input':<32}" + "".join(f"{way:<18}" for way in rows.WAYS) + "  what is wrong")
    failed = 0
    for row in chosen:
        start = time.monotonic()
        answers, wrong = run(row, folder)
        failed += bool(wrong)
        print(
            f"{row.name:<32}" + "".join(f"{answers.get(way, '-'):<18}" for way in rows.WAYS) + "  " +
            (wrong[0][:160] if wrong else ""), flush=True)
        print(f"  {time.monotonic() - start:.1f} s", file=sys.stderr)
    print(f"{len(chosen) - failed} of {len(chosen)} as wanted")
    return 1 if failed else 0


def main(arguments):
    by_name = {row.name: row for row in rows.ROWS}
    unknown = [name for name in arguments if name not in by_name and name != "--table"]
    if unknown or not arguments:
        print(f"usage: bugs_test.py NAME... | --table [NAME...]; no row is called {', '.join(unknown) or '(nothing)'}",
              file=sys.stderr)
        return 2
    names = [name for name in arguments if name != "--table"]
    with tempfile.TemporaryDirectory(prefix="crucible-bugs-") as folder:
        if "--table" in arguments:
            return table([by_name[name] for name in names] or rows.ROWS, pathlib.Path(folder))
        wrong = [f"{name}: {fault}" for name in names for fault in run(by_name[name], pathlib.Path(folder))[1]]
    print("\n".join(wrong) or "as wanted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
