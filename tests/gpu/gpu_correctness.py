"""The parts of `ci/gpu` that come first: whether what is computed is right."""

import sys

from gpu_machine import Failed, over
from gpu_recording import items_of


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
    """Records the examples on `cuda` and on the CPU, in f32 and bf16, and the small programs of gpu_recording.py."""
    def work(device, example, precision):
        row = {"example": example, "precision": precision, "device": device, "ops": None, "reason": ""}
        try:
            info = machine.json(machine.crucible, "trace", "info", machine.recording(example, precision, device))
            row["ops"] = info["ops_per_iteration"][0]
            if not info["device"].startswith(device):
                raise Failed(f"the recording says that it was made on {info['device']}")
        except Failed as failed:
            if not failed.is_mistake:
                raise
            row["reason"] = str(failed)
        return [row], [f"{example} {precision} on {device}: {row['reason']}"] if row["reason"] else []

    cases = machine.cases(*machine.sources())
    items = items_of(machine)

    def either(*case):
        return items[case[0]]() if len(case) == 1 else work(*case)

    words, data = over(machine, [*cases, *((name,) for name in items)], either, "recordings and programs")
    left = [row for row in data["rows"] if row.get("item") and row["verdict"] == "not rehearsed"]
    return words + (f", {len(left)} of them not rehearsed" if left else ""), data


def replay_part(machine):
    """Every recording on every backend: verified in fast numerics, the same bits in strict."""
    return over(machine, machine.cases(*machine.sources()),
                lambda device, example, precision: replay_rows(machine, example, precision, device), "replays")


def replay_rows(machine, example, precision, device):
    rows, problems, hashes = [], [], {}
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
                if not failed.is_mistake:
                    raise
                row["reason"] = str(failed)
            if not row["verified"]:
                problems.append(f"{example} {precision} of {device} on {column}, {mode}: {row['reason']}")
            rows.append(row)
    if len(set(hashes.values())) > 1:
        problems.append(f"{example} {precision} of {device}: strict results have other bits on " +
                        ", ".join(name for name, found in hashes.items() if found != next(iter(hashes.values()))))
    return rows, problems


def kit_part(machine):
    """The conformance kit on the NVIDIA plugin."""
    plugin = next(iter(sorted(machine.build.glob("**/libcrucible_nvidia.so"))), None)
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
                         *(["--all-patterns"] if machine.all_patterns else []), fine=(0, 1),
                         long=7200 if machine.all_patterns else 900)
    differ = [item["name"] for item in found["items"] if not item["passed"]]
    if differ or not found["passed"]:
        raise Failed(f"{', '.join(differ)} differ on {found['name']}")
    return f"{len(found['items'])} equal, each on {found['samples']} bit patterns", {
        "samples": found["samples"], "items": len(found["items"])
    }
