"""The part `model` of `ci/gpu`: what each kernel takes on the device beside what the model of an H100 says
(tests/emulators/ptx/warp_model.hpp), so that its constants can be set to what was measured."""

import json
import math
import statistics
import sys

from gpu_machine import ROOT, Failed, over

sys.path.insert(0, str(ROOT / "tests/emulators"))
import warps  # noqa: E402

ALONE = ("blas=none", "dnn=none", "batches=none")  # every step is one launch of a kernel of ours, on both sides
WORST = 10


def model_part(machine):
    """Per kernel measured over modelled: the median, by what the model says it waits for, and the worst."""
    return over(machine, machine.cases(), lambda *case: work(machine, *case), "recordings")


def work(machine, example, precision):
    recording = machine.recording(example, precision, machine.train)
    modelled = modelled_of(machine, recording)
    measured, told = ({}, "unmeasured: a rehearsal") if machine.rehearses else measured_of(machine, recording)
    kernels = joined(modelled, measured, told)
    row = {"example": example, "precision": precision, "times": told, "level": modelled["totals"]["level"],
           "launches": modelled["totals"]["generated_launches"], "modelled_us": modelled["totals"]["modelled_us"],
           "bound_us": modelled["totals"]["bound_us"], **summary(kernels), "all": kernels}
    if measured and not row["measured"]:
        return [row], [f"{example} {precision}: none of {len(measured)} measured kernels is one of the model's"]
    return [row], []


def modelled_of(machine, recording):
    settings = [word for setting in ALONE for word in ("--set", setting)]
    done = machine.run(sys.executable, ROOT / "tests/emulators/warps.py", "--crucible", machine.crucible, recording,
                       "--sampled", *settings, "--json")
    return json.loads(done.stdout)


def measured_of(machine, recording):
    """({kernel: [nanoseconds, of the smallest grid first]}, how it was timed). Kernels have the same names on both
    sides, because a name is a digest of what the kernel does."""
    settings = [word for setting in ALONE for word in ("--set", f"backend.nvidia.{setting}")]
    replayed = machine.replay(recording, *settings, "--tune", "off", "--profile")
    listed = machine.json(machine.crucible, "kernels", recording, *machine.columns["nvidia"], *settings, "--tune",
                          "off")
    steps = {step["index"]: step for step in listed["kernels"] if step["kind"] == "launch"}
    by_grid = {}
    for step in replayed["profile"]:
        if step["kind"] == "generated" and step["step"] in steps:
            launch = steps[step["step"]]
            by_grid.setdefault(launch["name"], {}).setdefault(launch["grid"], []).append(step["time_ns"])
    return {name: [statistics.median(times) for _, times in sorted(grids.items())]
            for name, grids in by_grid.items()}, replayed["profile_times"]


def joined(modelled, measured, told):
    """A row for each kernel and shape of the model's, with what was measured or None."""
    by_events = "events" in told  # which see the launch as well
    shapes = {}
    for row in modelled["kernels"]:
        shapes.setdefault(row["kernel"], []).append(row)
    found = []
    for name, rows in shapes.items():
        times = measured.get(name, [])
        for i, row in enumerate(sorted(rows, key=warps.blocks_of)):
            us = times[min(i, len(times) - 1)] / 1000 if times else None
            expected = row["body_us"] + (warps.LAUNCH_US if by_events else 0.0)
            found.append({
                "kernel": name, "ops": row["ops"], "origin": row["origin"], "grid": row["grid"], "block": row["block"],
                "launches": row["launches"], "why": row["why"], "terms_us": row["terms_us"],
                "modelled_us": expected, "bound_us": row["bound_us"], "measured_us": us,
                "ratio": us / expected if us is not None and expected > 0 else None
            })
    return found


def summary(kernels):
    """The medians of measured over modelled, and the kernels that are farthest from 1."""
    timed = [row for row in kernels if row["ratio"]]
    by_term = {}
    for row in timed:
        by_term.setdefault(row["why"], []).append(row["ratio"])
    worst = sorted(timed, key=lambda row: -abs(math.log(row["ratio"])))
    if not timed:
        worst = sorted(kernels, key=lambda row: -row["launches"] * row["modelled_us"])
    return {
        "kernels": len(kernels), "measured": len(timed),
        "measured_us": sum(row["launches"] * row["measured_us"] for row in timed) if timed else None,
        "median_ratio": statistics.median(row["ratio"] for row in timed) if timed else None,
        "by_term": {why: [len(ratios), statistics.median(ratios)] for why, ratios in sorted(by_term.items())},
        "worst": worst[:WORST]
    }
