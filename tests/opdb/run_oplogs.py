"""Lowers every argument tuple of operator-input logs, of which only shapes are known, and prints what is unsupported,
by op.

    python tests/opdb/run_oplogs.py FOLDER --lower build/release/crucible_lower_shapes

FOLDER holds the logs (oplogs.py says what they look like; they are not in this repository). Sizes of results come from
torch's meta kernels. Exit code 1 when a tuple was lowered to a program that verify() refuses. Executing the smaller
ones is
`run_opdb.py --database oplogs --logs FOLDER`.
"""

import argparse
import collections
import json
import math
import pathlib
import subprocess
import sys
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import oplogs

NAMES = {
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.int8: "i8",
    torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.bool: "bool",
    torch.complex64: "c64", torch.complex128: "c128"
}


class Call:
    """One call as the JSON line that lower_shapes reads."""

    def __init__(self, overload):
        self.overload = overload
        self.storages, self.tensors, self.numbers = [], [], {}

    def tensor(self, t):
        key = t.untyped_storage()._cdata
        if key not in self.numbers:
            self.numbers[key] = len(self.storages)
            self.storages.append([NAMES[t.dtype], t.untyped_storage().nbytes() // t.dtype.itemsize])
        self.tensors.append([self.numbers[key], list(t.shape), list(t.stride()), t.storage_offset(), NAMES[t.dtype]])
        return ["tensor", len(self.tensors) - 1]

    def json(self, value):
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, (list, tuple)):
            return ["list", *map(self.json, value)]
        if isinstance(value, torch.dtype):
            return ["dtype", NAMES.get(value, "f32")]
        if isinstance(value, float) and not math.isfinite(value):
            return ["number", str(value)]
        if isinstance(value, (bool, int, float, str)):
            return value
        return ["none"]

    def line(self, positional, named):
        schema = self.overload._schema
        positional, named, values = list(positional), dict(named), []
        for argument in schema.arguments:
            if argument.kwarg_only or not positional:
                value = named.pop(argument.name, argument.default_value)
            else:
                value = positional.pop(0)
            if str(argument.type) == "Tensor" and isinstance(value, (bool, int, float)):
                value = torch.empty(
                    (), dtype=torch.int64 if isinstance(value, int) else torch.float64)  # as the recorder has numbers
            values.append(value)
        arguments = [self.json(value) for value in values]
        outside = len(self.storages)
        by_name = {a.name: v for a, v in zip(schema.arguments, values)}
        in_order = [by_name[a.name] for a in schema.arguments if not a.kwarg_only]
        results = self.overload(*in_order, **{a.name: by_name[a.name] for a in schema.arguments if a.kwarg_only})
        results = list(results) if isinstance(results, (list, tuple)) and len(schema.returns) > 1 else [results]
        random = torch.Tag.nondeterministic_seeded in self.overload.tags
        written = [self.json(result) for result in results]
        return {
            "schema": str(schema), "storages": self.storages, "tensors": self.tensors,
            "made": list(range(outside, len(self.storages))), "args": arguments, "results": written,
            "draws": list(range(len(written))) if random else []
        }


def describe(op, text):
    """The JSON line of a tuple, or why there is none."""
    overload = oplogs.overload_of(op)
    if overload is None:
        return None, "no such op in this torch"
    positional, named = oplogs.arguments_of(text)
    if any(isinstance(t, oplogs.Sparse) or t.dtype == torch.complex32 for t in oplogs.tensors_in((positional, named))):
        return None, "a tensor that is sparse, or complex of halves"
    named.pop("device", None)
    named.pop("pin_memory", None)
    with FakeTensorMode(allow_non_fake_inputs=True):
        make = lambda t: torch.empty_strided(t.sizes, t.stride or t.dense(), dtype=t.dtype)
        try:
            return Call(overload).line(*oplogs.replaced((positional, named), make)), None
        except Exception as error:
            return None, f"no sizes from torch: {type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--lower", required=True, help="the program crucible_lower_shapes")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines, ops, reasons = [], [], collections.Counter()
    total = 0
    for op, tuples in oplogs.read(options.folder).items():
        for text in tuples:
            total += 1
            line, reason = describe(op, text)
            if line:
                lines.append(json.dumps(line))
                ops.append(op)
            else:
                reasons[(op, reason)] += 1
    done = subprocess.run([options.lower], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    outcomes = [json.loads(text) for text in done.stdout.splitlines()]
    if len(outcomes) != len(lines):
        print(f"lower_shapes ended after {len(outcomes)} of {len(lines)} tuples: {done.stderr[-500:]}", file=sys.stderr)
        return 1
    counts = collections.Counter(outcome["outcome"] for outcome in outcomes)
    for op, outcome in zip(ops, outcomes):
        if outcome["outcome"] != "lowered":
            reasons[(op, f"{outcome['outcome']}: {outcome['reason'].splitlines()[0][:160]}")] += 1
    for (op, reason), count in sorted(reasons.items(), key=lambda item: -item[1]):
        print(f"{count:6} {op}: {reason}")
    print(
        f"{total} tuples: {counts['lowered']} lowered, {counts['unsupported']} unsupported, {counts['broken']} broken, {total - len(lines)} not asked"
    )
    return 1 if counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
