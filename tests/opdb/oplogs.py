"""Reads operator-input logs (meta-pytorch/tritonbench): per op the distinct argument tuples of a training model, with
counts.

    Operator: aten._softmax.default
    cnt: 12, ((T([2, 64, 512, 512], f16), -1, False), {})

A tensor is its sizes, dtype and, where it is not row-major, strides; what it held is not in the logs.
"""

import collections

import torch

DTYPES = {
    "bf16": torch.bfloat16, "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "c32": torch.complex32,
    "c64": torch.complex64, "c128": torch.complex128, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "b8": torch.bool, "u8": torch.uint8
}


class Tensor:
    """What the logs know of a tensor."""

    def __init__(self, sizes, dtype, stride=None):
        self.sizes, self.dtype, self.stride = tuple(sizes), dtype, None if stride is None else tuple(stride)

    def elements(self):
        return max(0, 1 + sum(
            (n - 1) * s for n, s in zip(self.sizes, self.stride or self.dense()))) if 0 not in self.sizes else 0

    def dense(self):
        strides, step = [], 1
        for size in reversed(self.sizes):
            strides.insert(0, step)
            step *= max(1, size)
        return strides


class Sparse(Tensor):
    """A tensor that is not strided."""

    def __init__(self, *arguments, **named):
        super().__init__(arguments[0], arguments[1])


NAMES = {
    **DTYPES, "T": Tensor, "ST": Sparse, "torch": torch, "inf": float("inf"), "nan": float("nan"),
    "device": torch.device, "th": torch
}


def replaced(value, make):
    """The argument with every Tensor made into something else."""
    if isinstance(value, Tensor):
        return make(value)
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(item, make) for item in value)
    if isinstance(value, dict):
        return {key: replaced(item, make) for key, item in value.items()}
    return value


def tensors_in(value):
    found = []
    replaced(value, found.append)
    return found


def read(folder):
    """{op: {text of the arguments: count}} over all logs below a folder, in the order of names."""
    found = collections.defaultdict(collections.Counter)
    for path in sorted(folder.rglob("*.txt")):
        op = None
        for line in path.read_text().splitlines():
            if line.startswith("Operator: "):
                op = line.removeprefix("Operator: ").strip()
            elif line.startswith("cnt: "):
                count, arguments = line.removeprefix("cnt: ").split(", ", 1)
                found[op][arguments] += int(count)
    return dict(sorted(found.items()))


def arguments_of(text):
    """(positional, named) with Tensor objects."""
    positional, named = eval(text, {"__builtins__": {}}, NAMES)  # the logs are Python literals with the names above
    return positional, named


def overload_of(op):
    """torch's overload, or None where this torch has none of the name."""
    _, packet, overload = op.split(".", 2)
    found = getattr(getattr(torch.ops.aten, packet, None), {"SymInt": "default"}.get(overload, overload), None)
    if found is None and hasattr(torch.ops.aten, packet) and overload in ("SymInt", "vec"):
        packet = getattr(torch.ops.aten, packet)
        found = getattr(packet, "dim_IntList", None) or getattr(packet, "default", None)
    return found
