"""The parts of `ci/gpu` that come last: times, which mean something where results are right."""

import shlex
import statistics

from gpu_machine import STEPS, Failed, over

BATCHES = ("none", "same", "mixed")
PRODUCTS = {"library": {}, "matrix units": {"blas": "none"},
            "generated": {"blas": "none", "matrix_units": "false"}}  # who does the products


def batches_part(machine):
    """Replays with each of backend.nvidia.batches in turns: the same bits in strict, launches and times."""
    return over(machine, machine.cases(), lambda *case: batch_rows(machine, *case), "rows")


def batch_rows(machine, example, precision):
    recording = machine.recording(example, precision, machine.train)
    times, hashes, facts = {mode: [] for mode in BATCHES}, {}, {}
    for mode in BATCHES:
        found = machine.replay(recording, "--set", f"backend.nvidia.batches={mode}", "--numerics", "strict", "--hash")
        hashes[mode] = found["result_sha256"]
    for _ in range(machine.rounds):
        for mode in BATCHES:
            found = machine.replay(recording, "--set", f"backend.nvidia.batches={mode}", "--tune", "off", "--verify",
                                   "--sensitivity", 40, "--repeat", 3)
            times[mode].append(found["time_ns_per_iteration"])
            facts[mode] = found.get("plans") or [{}]
    rows = [{
        "example": example, "precision": precision, "batches": mode, "sha256": hashes[mode],
        **{name: sum(int(plan.get(name, 0)) for plan in facts[mode]) if any(name in plan for plan in facts[mode])
                 else None for name in ("launches", "nodes", "longest_path")},
        "rounds_ns": times[mode], "median_ns": statistics.median(times[mode])
    } for mode in BATCHES]
    other = [mode for mode in BATCHES if hashes[mode] != hashes["none"]]
    return rows, [f"{example} {precision}: strict results have other bits with batches={', '.join(other)}"
                 ] if other else []


def products_part(machine):
    """Products by cuBLASLt, by our kernels for tensor cores, and by those generated from the IR, in turns; all
    verified."""
    return over(machine, machine.cases(), lambda *case: product_rows(machine, *case), "rows")


def product_rows(machine, example, precision):
    problems = []
    of = {who: [] for who in PRODUCTS if who != "matrix units" or precision != "f32"}  # those are of f16 and bf16
    try:
        for _ in range(machine.rounds):
            for who, times in of.items():
                settings = [
                    word for key, value in PRODUCTS[who].items() for word in ("--set", f"backend.nvidia.{key}={value}")
                ]
                found = machine.replay(machine.recording(example, precision, machine.train), *settings, "--tune", "off",
                                       "--verify", "--sensitivity", 40, "--repeat", 3)
                times.append(found["time_ns_per_iteration"])
    except Failed as failed:
        if not failed.is_mistake:
            raise
        problems.append(f"{example} {precision}: {failed}")
    return [{
        "example": example, "precision": precision, "who": who, "rounds_ns": times,
        "median_ns": statistics.median(times) if times else None
    } for who, times in of.items()], problems


def counters_part(machine):
    """What the device counts of one replay: the first three counters that it has. Without rights there are none, which
    is no fault of ours."""
    def counters(example, precision, words):
        return machine.replay(machine.recording(example, precision, machine.train), "--counters", words)

    none = {"rows": [], "is_none": True}  # rights may be given without a change of what a result depends on
    listed = counters(machine.examples[0], machine.precisions[0], "list")
    names = [counter["name"] for counter in listed["counters"]][:3]
    if not names:
        return f"none: {listed.get('refused') or 'the device lists no counters'}", none
    rows = []
    for example, precision in machine.cases():
        found = counters(example, precision, ",".join(names))["counters"]
        if found["refused"]:
            return f"none: {found['refused']}", none
        rows.append({"example": example, "precision": precision, "values": found["values"]})
    return f"{len(rows)} replays", {"rows": rows}


def bench_part(machine):
    """Backends beside eager PyTorch, eager as CUDA graphs, and torch.compile max-autotune, in turns, f32 and bf16."""
    return over(machine, machine.cases(), lambda *case: bench_rows(machine, *case), "rows")


def bench_rows(machine, example, precision):
    peers = ["eager", "compile:max-autotune"
            ] if machine.train == "cpu" else ["eager", "cudagraphs", "compile:max-autotune"]
    settings = [word for setting in machine.settings("nvidia") for word in ("--set", setting)]
    script = machine.script(example, precision, machine.train, STEPS[example])
    found = machine.json(machine.crucible, "bench", machine.recording(example, precision, machine.train), "--backends",
                         "nvidia,cpu", "--peers", ",".join(peers[:1] if machine.quick else peers), "--script",
                         shlex.join(script), "--rounds", machine.rounds, *settings, fine=(0, 1))
    rows = [{"example": example, "precision": precision, **row} for row in found["files"][0]["rows"]]
    return rows, [f"{example} {precision}, {row['backend']}: {row['reason']}" for row in rows if row["reason"]]
