"""Records and replays programs as people write them: python loops_test.py NAME... runs some rows of rows.py.

Environment: CRUCIBLE (the executable), CRUCIBLE_PYTHON_FOLDER (the package `crucible`). The interpreter that runs it
has torch.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import rows

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "warm"))
import warm  # noqa: E402

INPUTS = pathlib.Path(__file__).resolve().parent / "inputs"
TIME_LIMIT_S = 240


def run(command):
    path = os.pathsep.join(filter(None, [os.environ.get("CRUCIBLE_PYTHON_FOLDER"), os.environ.get("PYTHONPATH")]))
    return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=TIME_LIMIT_S,
                          env={**os.environ, "PYTHONPATH": path})


def crucible(*arguments):
    return run([os.environ["CRUCIBLE"], *arguments])


def last_line(done):
    return next((line for line in reversed((done.stdout + done.stderr).splitlines()) if line.strip()), "")


def record(row, trace, python):
    return crucible("record", "--json", "-o", trace, *row.record, "--", python, INPUTS / (row.file or f"{row.name}.py"),
                    *row.arguments)


def faults_of_summary(row, report):
    ops = report["ops_per_iteration"]
    said = "\n".join([*report["notes"], *report["incomplete"]])
    if report["iterations"] != row.iterations:
        yield f"{report['iterations']} iterations: {said}"
    if report["end_of_iteration"] != row.kind:
        yield f"iterations end by {report['end_of_iteration']}"
    if row.variants == 1 and len(set(ops)) != 1 or row.ops and ops[0] != row.ops:
        yield f"ops of each iteration: {ops}"
    missing = [item for item in report["not_recorded"] if not row.lacks or row.lacks not in item["what"]]
    if missing and not row.says:
        yield f"not recorded: {missing}"
    if row.lacks and len(missing) == len(report["not_recorded"]):
        yield f"'{row.lacks}' is not said to be missing"
    for words in row.summary:
        if words not in said:
            yield f"the summary does not say '{words}' but '{said}'"


def faults_of_recording(row, trace):
    listed = json.loads(crucible("trace", "ops", trace, "--all", "--json").stdout)["ops"]
    firsts = {}
    for op in listed:
        firsts.setdefault(op["iteration"], op["schema"])
        if any(op["schema"].startswith(f"{name}(") or op["schema"].startswith(f"{name}.") for name in row.absent):
            yield f"{op['schema'].partition('(')[0]} is in iteration {op['iteration']}, at {op['site']}"
    for iteration, schema in firsts.items():
        if row.starts and not schema.startswith(row.starts):
            yield f"iteration {iteration} begins with {schema}"


def faults_of_replay(row, trace):
    done = crucible("replay", trace, "--verify", "--json", "--backend", "reference")
    if row.refused:
        if done.returncode != 3 or row.refused not in done.stdout + done.stderr:
            yield f"exit code {done.returncode}, wanted a refusal with '{row.refused}': {last_line(done)}"
        return
    try:
        report = json.loads(done.stdout)
    except json.JSONDecodeError:
        yield f"replay: exit code {done.returncode}: {last_line(done)}"
        return
    if report["verified"] is not True:
        yield f"verified {report['verified']}: {report.get('reason')}"
    found = report["variants"] or {"count": 1, "seams": 0}
    most = 1 if row.variants == 1 else row.most or found["count"]
    if not row.variants <= found["count"] <= most:
        yield f"{found['count']} variants"
    if found["seams"] != row.seams:
        yield f"{found['seams']} seams"
    if row.variants > 1 or isinstance(row, rows.Program):
        yield from faults_of_strict_replays(trace)
    with_loss = sum(iteration.get("loss") is not None for iteration in report["iterations"])
    if with_loss != (row.iterations if row.trains else 0):
        yield f"{with_loss} of {len(report['iterations'])} iterations have a loss"
    but = "; ".join(report["but"])
    for words in row.says:
        if words not in but:
            yield f"the verdict does not say '{words}' but '{but}'"
    if but and not row.says:
        yield f"the verdict says '{but}'"


def faults_of_strict_replays(trace):
    hashes = set()
    for backend in ("cpu", "opencl", "reference"):
        done = crucible("replay", trace, "--verify", "--json", "--backend", backend, "--set", "numerics=strict")
        if done.returncode != 0:
            yield f"strict on {backend}: exit code {done.returncode}: {last_line(done)}"
            return
        hashes.add(json.loads(done.stdout)["result_sha256"])
    if len(hashes) != 1:
        yield f"strict: other bits: {hashes}"


def content_hash(trace):
    return json.loads(crucible("trace", "info", trace, "--json").stdout)["content_hash"]


def faults(row, folder):
    trace = folder / f"{row.name}.crtrace"
    python = sys.executable if row.fresh else warm.python(pathlib.Path(os.environ["CRUCIBLE"]).parent)
    done = record(row, trace, python)
    if done.returncode != 0 or not trace.exists():
        yield f"record: exit code {done.returncode}: {last_line(done)}"
        return
    alone = run([python, INPUTS / (row.file or f"{row.name}.py"), *row.arguments])
    # With --json the program's own output goes to standard error.
    if alone.returncode != 0 or alone.stdout not in done.stderr:
        yield "recorded, the program prints something else than alone"
    yield from faults_of_summary(row, json.loads(done.stdout))
    yield from faults_of_recording(row, trace)
    yield from faults_of_replay(row, trace)
    if row.states:
        info = crucible("trace", "info", trace, "--private", "--json").stdout
        yield from (f"no final state is called {name}" for name in row.states if f'"{name}"' not in info)
    if row.content:
        again = folder / f"{row.name}.again.crtrace"
        record(row, again, sys.executable)
        if content_hash(again) != content_hash(trace):
            yield "recorded again, it has another content"


def main(names):
    by_name = {row.name: row for row in rows.ROWS}
    unknown = [name for name in names if name not in by_name]
    if unknown or not names:
        print(f"usage: loops_test.py NAME...; no row is called {', '.join(unknown) or '(nothing)'}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="crucible-loops-") as folder:
        wrong = [f"{name}: {fault}" for name in names for fault in faults(by_name[name], pathlib.Path(folder))]
    print("\n".join(wrong) or "as wanted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
