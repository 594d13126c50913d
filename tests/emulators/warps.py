#!/usr/bin/env python3
"""What the warps of a recording's kernels would do on an H100: python warps.py FILE.crtrace [--sampled] [--json]

Replays the recording on the emulated NVIDIA device with CRUCIBLE_EMU_TIMING=warps, joins what was counted with what
`crucible kernels` says each launch has to move, and prints totals and the worst kernels. Times are those of the model
in ptx/warp_model.hpp: nothing here was measured on hardware. No GPU and no other emulator is needed.

--sampled runs the few blocks of each kernel that are counted, cheap launches as a whole and no library call, which is
what real sizes need. Results are wrong then, and what indices from memory address may be garbage: scatter_add_rows.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "models"))
from devices_here import nvrtc_library  # noqa: E402

L2_BYTES = 50e6
LAUNCH_US = 2.0
RATES = {"dram": 3.35e6, "l2": 5.5e6}  # bytes a microsecond, as in warp_model.cpp
BIG_BYTES = 1e6
LIMITED = ("generated_launches", "library_launches", "modelled_us", "bound_us", "worst_factor", "above_twice",
           "launches_above_twice", "big_with_few_warps", "big_bytes_per_lane", "big_narrow", "big_moved_over_least",
           "worst_sectors", "with_local_memory")
INDEXED = ("gather_rows", "gather", "index_rows")  # their tables are not read whole


class Failed(Exception):
    pass


def command(options, what, *more, **environment):
    """The document that `crucible WHAT` prints for the recording."""
    emulators = pathlib.Path(options.crucible).resolve().parent / "emulators/nvidia"
    nvrtc = nvrtc_library()
    if not (emulators / "libcuda.so.1").exists() or not nvrtc:
        raise Failed("there is no emulated NVIDIA driver, or no NVRTC (set CRUCIBLE_NVRTC)")
    words = [options.crucible, what, options.file, "--json", "--numerics", options.numerics, "--backend", "nvidia"]
    settings = {"library": emulators / "libcuda.so.1", "nvrtc": nvrtc}
    if options.libraries:
        settings |= {"cublaslt": emulators / "libcublasLt.so.13", "blas": "cublaslt",
                     "cudnn": emulators / "libcudnn.so.9", "dnn": "cudnn"}
    for name, value in settings.items():
        words += ["--set", f"backend.nvidia.{name}={value}"]
    for setting in options.set:
        words += ["--set", f"backend.nvidia.{setting}"]
    words += ["--tune", "off", *more]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, words))}\n{done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout)


def counted(options):
    """What the emulated driver wrote, and what the replay said."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "warps.json"
        environment = {
            "CRUCIBLE_EMU_TIMING": "warps", "CRUCIBLE_EMU_WARPS": str(file), "CRUCIBLE_KERNEL_TRIAL": "false"
        }
        linkers = sorted(pathlib.Path(nvrtc_library()).parent.glob("libnvJitLink.so.*"))
        if linkers:
            environment["CRUCIBLE_EMU_NVJITLINK"] = str(linkers[0])
        if options.sampled:
            environment |= {"CRUCIBLE_EMU_EMPTY": "1"}
        if options.memory_mib:
            environment |= {"CRUCIBLE_EMU_MEMORY_MIB": str(options.memory_mib)}
        replay = command(options, "replay", **environment)
        return json.loads(file.read_text()), replay


def per_iteration(launches, iterations):
    """Launches of an iteration, whichever of a program's graphs made them; other launches are no part of it."""
    return sum(count for graph, count in launches.items() if graph != "0") / iterations


def schedule(document):
    """By kernel: its launches as `crucible kernels` lists them, smallest grid first."""
    found = {}
    for launch in document["kernels"]:
        if launch["kind"] == "launch":
            found.setdefault(launch["name"], {}).setdefault(launch["grid"], launch)
    return {name: [launch for _, launch in sorted(grids.items())] for name, grids in found.items()}


def blocks_of(row):
    return row["grid"][0] * row["grid"][1] * row["grid"][2]


def rows_of(report, document, level, iterations):
    """A row for each kernel and shape of an iteration, the one that takes longest first."""
    launches = schedule(document)
    shapes = {}
    for row in report["kernels"]:
        if per_iteration(row["launches"], iterations) > 0:
            shapes.setdefault(row["kernel"], []).append(row)
    rows = []
    for name, of_kernel in shapes.items():
        planned = launches.get(name, [])
        for i, row in enumerate(sorted(of_kernel, key=blocks_of)):
            plan = planned[min(i, len(planned) - 1)] if planned else None
            rows.append(row_of(row, plan, level, per_iteration(row["launches"], iterations)))
    return sorted(rows, key=lambda row: -row["launches"] * row["body_us"])


def row_of(row, plan, level, launches):
    counts = row["counts"]
    time = counts[level]
    least = plan["bytes"] if plan else counts["distinct_bytes"]
    if plan and any(op in INDEXED for op in plan["ops"]):
        least = min(least, 1.05 * counts["moved_bytes"])
    bound = least / RATES[level]
    terms = {"latency": time["latency_us"], "issue": time["issue_us"], "shared": time["shared_us"],
             "l2": time["l2_us"], "memory": bound}
    why = max(terms, key=terms.get)
    useful = counts["load_bytes"] + counts["store_bytes"]
    beyond = counts["moved_bytes"] - 32 * counts["l1_sectors"]
    return {
        "kernel": row["kernel"], "ops": plan["ops"] if plan else [], "origin": plan["origin"] if plan else "",
        "grid": row["grid"], "block": row["block"], "launches": launches, "registers": row["registers"],
        "registers_from": row["registers_from"], "spilled_bytes": row["spilled_bytes"],
        "warps": counts["warps"], "warps_per_multiprocessor": counts["warps_per_multiprocessor"],
        "cycles": time["cycles"], "body_us": terms[why], "bound_us": bound, "factor": terms[why] / max(bound, 1.0),
        "why": why, "terms_us": terms, "bytes": least, "moved_bytes": counts["moved_bytes"], "beyond_l1_bytes": beyond,
        "moved_over_least": counts["moved_bytes"] / least if least else 0.0,
        "sectors_over_useful": counts["moved_bytes"] / useful if useful else 0.0,
        "bytes_per_lane": counts["bytes_per_lane"], "shuffles": counts["shuffles"], "barriers": counts["barriers"],
        "local_requests": counts["local_requests"], "local_bytes": row["local_bytes"],
        "requests": counts["load_requests"] + counts["store_requests"], "wide_requests": counts["wide_requests"],
        "complete": counts["complete"],
    }


def totals_of(rows, report, level, iterations):
    big = [row for row in rows if row["beyond_l1_bytes"] > BIG_BYTES]
    requests = sum(row["launches"] * row["requests"] for row in big)
    lanes = sum(row["launches"] * row["requests"] * row["bytes_per_lane"] for row in big)
    count = sum(row["launches"] for row in rows)
    return {
        "level": level, "generated_launches": count,
        "library_launches": sum(per_iteration(by_graph, iterations) for by_graph in report["library"].values()),
        "kernels": len(rows), "modelled_us": sum(row["launches"] * (row["body_us"] + LAUNCH_US) for row in rows),
        "launch_us": count * LAUNCH_US, "bound_us": sum(row["launches"] * row["bound_us"] for row in rows),
        "worst_factor": max((row["factor"] for row in rows), default=0.0),
        "above_twice": sum(row["factor"] > 2 for row in rows),
        "launches_above_twice": sum(row["launches"] for row in rows if row["factor"] > 2),
        "big": len(big), "big_with_few_warps": sum(row["warps_per_multiprocessor"] < 8 for row in big),
        "big_bytes_per_lane": lanes / requests if requests else 0.0,
        "big_narrow": sum(row["bytes_per_lane"] < 12 for row in big),
        "big_moved_over_least": max((row["moved_over_least"] for row in big), default=0.0),
        "worst_sectors": max((row["sectors_over_useful"] for row in big), default=0.0),
        "with_wide_accesses": sum(row["wide_requests"] > 0 for row in rows),
        "with_shuffles": sum(row["shuffles"] > 0 for row in rows),
        "with_barriers": sum(row["barriers"] > 0 for row in rows),
        "with_local_memory": sum(row["local_requests"] > 0 for row in rows),
        "not_counted": [row["kernel"] for row in rows if not row["complete"]],
    }


def shape_text(row):
    sizes = [f"{n[0]}" if n[1:] == [1, 1] else "x".join(map(str, n)) for n in (row["grid"], row["block"])]
    return f"<{sizes[0]},{sizes[1]}>"


def table(totals, rows, top):
    t = totals
    yield f"modelled, not measured: an H100, data in {'its L2' if t['level'] == 'l2' else 'its memory'}"
    yield (f"launches   {t['generated_launches']:g} generated of {t['kernels']} kernels, "
           f"{t['library_launches']:g} of libraries (not in the times)")
    yield (f"time       {t['modelled_us']:.1f} us, of it {t['launch_us']:.0f} us launches; "
           f"bytes' bound {t['bound_us']:.1f} us")
    yield (f"factor     worst {t['worst_factor']:.1f} of max(bound, 1 us); above 2: {t['above_twice']} kernels, "
           f"{t['launches_above_twice']:g} launches")
    yield (f"over 1 MB  {t['big']} kernels: {t['big_with_few_warps']} with < 8 warps per multiprocessor, "
           f"{t['big_narrow']} with < 12 bytes per lane (mean {t['big_bytes_per_lane']:.1f})")
    yield (f"           moved over least at most {t['big_moved_over_least']:.2f}, sectors over useful bytes at most "
           f"{t['worst_sectors']:.2f}")
    yield (f"kernels    {t['with_wide_accesses']} have accesses of 16 bytes, {t['with_shuffles']} shuffles, "
           f"{t['with_barriers']} block barriers, {t['with_local_memory']} local memory")
    if t["not_counted"]:
        yield f"not counted: {' '.join(t['not_counted'])}"
    yield ""
    yield (f"{'kernel':18} {'grid,block':>13} {'n':>3} {'us':>8} {'bound':>7} {'factor':>6} {'why':7} {'w/SM':>5} "
           f"{'B/ln':>4}  ops")
    room = max(90, shutil.get_terminal_size((110, 24)).columns)
    for row in rows[:top]:
        ops = " ".join(row["ops"]) or "?"
        line = (f"{row['kernel'][:18]:18} {shape_text(row):>13} {row['launches']:3g} {row['body_us']:8.1f} "
               f"{row['bound_us']:7.2f} {row['factor']:6.1f} {row['why']:7} {row['warps_per_multiprocessor']:5.1f} "
               f"{row['bytes_per_lane']:4.1f}  {ops}")
        yield line if len(line) <= room else line[:room - 2] + ".."


def broken_limits(totals, options):
    """A line for each limit that the totals break."""
    for name, limit in options.at_most:
        if totals[name] > limit:
            yield f"{name} is {totals[name]:g}, at most {limit:g} is asked for"
    for name, limit in options.at_least:
        if totals[name] < limit:
            yield f"{name} is {totals[name]:g}, at least {limit:g} is asked for"


def limit_of(text):
    name, _, number = text.partition("=")
    if name not in LIMITED:
        raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(LIMITED)}")
    return name, float(number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a recording (.crtrace)")
    parser.add_argument("--crucible", default=str(ROOT / "build/release/crucible"))
    parser.add_argument("--sampled", action="store_true", help="run the counted blocks alone; results are wrong")
    parser.add_argument("--libraries", action="store_true", help="products and convolutions by the emulated libraries")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="an option of the plugin, for instance batches=none")
    parser.add_argument("--numerics", choices=("fast", "strict"), default="fast")
    parser.add_argument("--level", choices=("auto", "l2", "dram"), default="auto",
                        help="where data is; auto: in the L2 (50 MB) if the plan's memory fits into it")
    parser.add_argument("--memory-mib", type=int, help="memory of the emulated device")
    parser.add_argument("--top", type=int, default=10, help="kernels in the table")
    parser.add_argument("--by", choices=("time", "factor"), default="time", help="what puts the worst first")
    parser.add_argument("--json", action="store_true", help="totals and all kernels")
    for flag in ("--at-most", "--at-least"):
        parser.add_argument(flag, type=limit_of, action="append", default=[], metavar="NAME=N",
                            help="a total that has to keep this, else the exit status is 1: names are those of --json")
    options = parser.parse_args()
    try:
        report, replay = counted(options)
        document = command(options, "kernels")
    except Failed as failed:
        print(f"warps.py: {failed}", file=sys.stderr)
        return 1
    level = options.level
    if level == "auto":
        level = "dram" if (replay["arena_bytes"] or 0) > L2_BYTES else "l2"
    iterations = len(replay["iterations"])
    rows = rows_of(report, document, level, iterations)
    totals = totals_of(rows, report, level, iterations)
    if options.by == "factor":
        rows.sort(key=lambda row: -row["factor"])
    if options.json:
        json.dump({"totals": totals, "computed": report["computed"], "kernels": rows}, sys.stdout, indent=1)
        print()
    else:
        print("\n".join(table(totals, rows, options.top)))
    broken = list(broken_limits(totals, options))
    for line in broken:
        print(f"warps.py: {options.file}: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
