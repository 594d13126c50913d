"""Writes the page of op coverage from the results of run_opdb.py: python coverage_page.py RESULTS.json --check PROGRAM
> page.md"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

import torch

from run_opdb import excuse, excuses, explained, missing_parts

HERE = pathlib.Path(__file__).resolve().parent


def lowered(check, names):
    done = subprocess.run([check, "--lowered"], input="\n".join(names) + "\n", capture_output=True, text=True,
                          check=True)
    return set(done.stdout.split())


def needs_no_entry(name):
    """True for ops whose results are drawn and enter as recorded, and for those that neither give nor write a
    tensor."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    try:
        op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    except AttributeError:
        return False
    schema = op._schema
    tensors = any("Tensor" in str(r.type) for r in schema.returns) or any(
        a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
    return torch.Tag.nondeterministic_seeded in op.tags or not tensors


def full_name(packet_style):
    """aten.add.Tensor -> aten::add.Tensor; aten.mm.default -> aten::mm"""
    name, overload = packet_style.removeprefix("aten.").rsplit(".", 1)
    overload = {"SymInt": ""}.get(overload, overload)
    return f"aten::{name}" if overload in ("default", "") else f"aten::{name}.{overload}"


def overloads():
    """Every aten overload that is no composite of others, and which of them are tagged as Core ATen."""
    names, core = [], []
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or torch._C._dispatch_has_kernel_for_dispatch_key(
                name, "CompositeImplicitAutograd"):
            continue
        names.append(name)
        packet, _, overload = name.removeprefix("aten::").partition(".")
        try:
            if torch.Tag.core in getattr(getattr(torch.ops.aten, packet), overload or "default").tags:
                core.append(name)
        except AttributeError:
            pass
    return sorted(names), sorted(core)


def training_ops():
    """The ops of recorded training, as this torch registers them."""
    all_names = set(torch._C._dispatch_get_all_op_names())
    found = []
    for line in (HERE / "training_ops.tsv").read_text().splitlines():
        if line.startswith("#"):
            continue
        spelled, models = line.split("\t")
        name = full_name(spelled)
        if name not in all_names and spelled.endswith((".SymInt", ".vec", ".default")):
            name = next((other for other in (f"{name}.dim_IntList", name.removesuffix(".vec")) if other in all_names),
                        name)
        if spelled == "aten.sum.SymInt":
            name = "aten::sum.dim_IntList"
        found.append((name.removesuffix(".vec") if name.endswith(".vec") else name, int(models)))
    return found


def share(part, whole):
    return f"{part} of {whole} ({100 * part / max(1, whole):.1f}%)"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--check", required=True)
    parser.add_argument("--samples", type=int, default=0, help="how many samples of an op the run took at most; 0: all")
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    known = explained()
    names, core = overloads()
    training = training_ops()
    asked = {*names, *(name for name, _ in training)}
    have = lowered(options.check, sorted(asked)) | {name for name in asked if needs_no_entry(name)}
    print("# Which ops are lowered\n")
    print("Written by `ci/ops` (torch", torch.__version__.split("+")[0] + "); not by hand.\n")
    print("| set | lowered |\n| --- | --- |")
    print(f"| ATen overloads that are no composites | {share(len(have & set(names)), len(names))} |")
    print(f"| Core ATen | {share(len(have & set(core)), len(core))} |")
    print(f"| ops of 155 recorded training models | {share(sum(n in have for n, _ in training), len(training))} |")
    print(
        "\nOps whose results are drawn at random count: what they drew enters as recorded. So do ops that give no tensor: they are left out."
    )
    missing = [f"`{n.removeprefix('aten::')}`" for n in core if n not in have]
    if missing:
        print(f"\nCore ATen without a lowering: {', '.join(missing)}.")
    missing = [f"`{n.removeprefix('aten::')}` ({m})" for n, m in training if n not in have]
    if missing:
        print(f"\nOf the recorded training models, without a lowering (models that use it): {', '.join(missing)}.")
    print("\n## Samples of PyTorch's op database\n")
    print(
        "Each sample is recorded forward and backward, lowered, run on the reference interpreter and on the CPU plugin, and compared"
    )
    if options.samples:
        print(
            f"with eager. Of each op at most {options.samples} samples, spread evenly over the database's (`ci/ops --samples {options.samples}`)."
        )
    else:
        print("with eager.")
    print(
        "`unsupported`: not lowered. An op counts in full when all its samples passed. The last column leaves out samples that"
    )
    print("need an op without a lowering.\n")
    print("| dtype | ops | in full | samples | passed | different | unsupported | passed | of the ops in the table |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for dtype, entries in results.items():
        total = {key: sum(entry[key] for entry in entries) for key in ("samples", "passed", "failed", "unsupported")}
        full = sum(entry["samples"] > 0 and entry["passed"] == entry["samples"] for entry in entries)
        used = sum(entry["samples"] > 0 for entry in entries)
        percent = 100 * total["passed"] / max(1, total["samples"])
        without = sum(n for e in entries for r, n in e["reasons"].items() if r.startswith("unsupported: no lowering"))
        known_ops = 100 * total["passed"] / max(1, total["samples"] - without)
        print(
            f"| {dtype} | {used} | {full} | {total['samples']} | {total['passed']} | {total['failed']} | {total['unsupported']} | {percent:.1f}% | {known_ops:.1f}% |"
        )
    for dtype, entries in results.items():
        wrong = [
            (e["op"], r, n) for e in entries for r, n in e["reasons"].items() if r.startswith("failed") or "error" in e
        ]
        if wrong:
            print(
                f"\n### Different, {dtype}\n\n| op | samples | what | why nothing is wrong |\n| --- | ---: | --- | --- |"
            )
            for op, reason, count in wrong:
                what = reason.removeprefix("failed: ")[:160].replace("|", "/").splitlines()[0]
                print(f"| {op} | {count} | {what} | {known.get((op, dtype), '**not explained**')} |")
    reasons = collections.Counter()
    users = collections.defaultdict(set)
    for entries in results.values():
        for entry in entries:
            for reason, count in entry["reasons"].items():
                if not reason.startswith("unsupported"):
                    continue
                for part in missing_parts(entry["op"], reason):
                    reasons[part] += count
                    users[part].add(entry["op"])
    print(
        "\n## What is missing, by samples that need it\n\n| overload, or op of the database | samples | ops of the database | why |\n| --- | ---: | --- | --- |"
    )
    lack = excuses()
    for part, count in reasons.most_common(100):
        needed_by = f"{', '.join(sorted(users[part])[:6])}{', ...' if len(users[part]) > 6 else ''}"
        print(f"| `{part}` | {count} | {needed_by} | {excuse(part, lack) or '**not explained**'} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
