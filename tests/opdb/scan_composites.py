"""Which operators write memory that the recorder does not see them write?

Runs every sample input of PyTorch's op database under the recorder - with gradients, without (`no_grad`), in inference
mode, and in place where there is such a form - and reads all results. A value without a recorded origin (`crucible
trace info`), or bytes that enter although they are no input of the call, were written by the operator in a way of its
own. Each such operator has a line in
`unseen.tsv` that says why it stays so, or is recorded whole (frontends/torch/whole_composites.cpp).

    python tests/opdb/scan_composites.py --crucible build/release/crucible            # all: some minutes
    python tests/opdb/scan_composites.py --crucible build/release/crucible --share 20  # every twentieth operator, and
    those known

Exit code 1 when something was found that has no line, or a line of an operator that was run found nothing.
"""

import argparse
import collections
import contextlib
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

import crucible
import numpy
import torch
from torch.utils._pytree import tree_flatten, tree_map

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "models"))
import crtrace  # noqa: E402

MODES = {"grad": contextlib.nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode}
IN_ONE = 40  # operators per recording
FORCED = ("nn.functional.max_pool1d", "nn.functional.max_pool2d", "nn.functional.conv1d", "empty", "new_empty",
          "resize_", "cat")


def tensors_of(value):
    return [t for t in tree_flatten(value)[0] if isinstance(t, torch.Tensor)]


def read(tensors):
    """Makes the bytes of each an argument of a recorded op."""
    for tensor in tensors:
        with contextlib.suppress(Exception):  # nested, quantized: whatever has no such op
            tensor.detach().clone()


class Enter(torch.nn.Module):
    def forward(self, tensors):
        with torch.no_grad():
            read(tensors)


class Call(torch.nn.Module):
    def forward(self, function, sample, differentiate):
        output = function(sample.input, *sample.args, **sample.kwargs)
        results = tensors_of(output)
        if differentiate:
            outputs = [t for t in tensors_of(sample.output_process_fn_grad(output)) if t.requires_grad]
            leaves = [t for t in tensors_of((sample.input, sample.args, sample.kwargs)) if t.requires_grad]
            if outputs and leaves:
                gradients = torch.autograd.grad(outputs, leaves, [torch.ones_like(t) for t in outputs],
                                                allow_unused=True)
                results += [g for g in gradients if g is not None]
        return results


class Case(torch.nn.Module):
    """One call. Its path in the recording says what it was."""

    def __init__(self, function, sample, mode, in_place):
        super().__init__()
        self.what = [function, sample, mode, in_place]
        self.enter, self.call, self.result = Enter(), Call(), Enter()

    def forward(self):
        function, sample, mode, in_place = self.what
        with MODES[mode]():
            # Of this mode, and of no other call.
            clone = lambda t: t.detach().clone().requires_grad_(t.requires_grad and mode == "grad") if is_plain(t
                                                                                                               ) else t
            inputs, args, kwargs = tree_map(clone, (sample.input, sample.args, sample.kwargs))
            own = type(sample)(inputs, args=args, kwargs=kwargs, output_process_fn_grad=sample.output_process_fn_grad)
            self.enter(tensors_of((inputs, args, kwargs)))
            with contextlib.suppress(Exception):  # eager itself refuses
                self.result(self.call(function, own, mode == "grad"))


def is_plain(value):
    return isinstance(value,
                      torch.Tensor) and value.layout == torch.strided and not value.is_quantized and not value.is_nested


class Cases(torch.nn.Module):
    def forward(self):
        for op in self.children():
            for case in op.children():
                case()


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def cases_of(op, most):
    """The calls of one entry, and how many samples they are of."""
    found = torch.nn.Module()
    count = 0
    for mode in MODES:
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
            differentiate = mode == "grad"
            if dtype not in op.supported_dtypes("cpu") or (differentiate and
                                                           (not op.supports_autograd or dtype != torch.float32)):
                continue
            torch.manual_seed(1), numpy.random.seed(1), random.seed(1)
            try:
                samples = list(op.sample_inputs("cpu", dtype, requires_grad=differentiate))
            except Exception:
                continue
            if most and len(samples) > most:
                samples = [samples[k * len(samples) // most] for k in range(most)]
            for number, sample in enumerate(samples):
                for form, function in (("", op), ("_in_place", op.inplace_variant)):
                    if function is None or (form and differentiate):
                        continue
                    path = f"{mode}_{str(dtype).removeprefix('torch.')}_{number}{form}"
                    found.add_module(path, Case(function, sample, mode, bool(form)))
                    count += 1
    return found, count


def entered(trace):
    """Modules in whose calls bytes entered that are no input of theirs, with the operator that read them."""
    small = {t.storage for t in trace.tensors if t.is_wrapped_number}  # a Python number
    small |= {number for number, storage in enumerate(trace.storages) if storage[0] == 0}
    for external in trace.externals:
        storage, op = external[0], trace.ops[external[2]]
        module = trace.modules[op.module] if op.module is not None else ""
        if storage not in small and module.endswith((".call", ".result")):
            yield module, trace.schemas[op.schema][0]


def scan(ops, most, command, folder):
    """{operator: {what was found: [modes and samples]}} of some entries, and how many calls were made."""
    cases, names, calls = Cases(), {}, 0
    for number, op in enumerate(ops):
        child, count = cases_of(op, most)
        cases.add_module(f"op{number}", child)
        names[f"op{number}"] = name_of(op)
        calls += count
    path = folder / "scan.crtrace"
    with crucible.record(path, iterations=1, warmup=0, end_of_iteration="step"):
        cases()
        crucible.step()
    report = json.loads(
        subprocess.run([command, "trace", "info", str(path), "--json"], capture_output=True, check=True,
                       text=True).stdout)
    found = collections.defaultdict(lambda: collections.defaultdict(list))

    def add(module, what):
        op, _, rest = module.removeprefix("Cases.").partition(".")
        found[names.get(op, "outside of all calls")][what].append(rest)

    for write in report["unrecorded_writes"]:
        add(write["module"],
            f"{'changes unseen' if write['changed'] else 'unwritten'}: {write['before']} -> {write['after']}")
    for module, reader in set(entered(crtrace.read(path))):
        add(module, f"enters: {reader}")
    return found, calls


def known_lines():
    lines = {}
    for line in (HERE / "unseen.tsv").read_text().splitlines():
        if line and not line.startswith("#"):
            name, kind, reason = line.split("\t")
            lines[name, kind] = reason
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--crucible", required=True, help="the command")
    parser.add_argument("--share", type=int, default=1,
                        help="run every Nth operator, and those that are known to matter")
    parser.add_argument("--samples", type=int, default=0, help="at most so many per operator and dtype; 0: all")
    parser.add_argument("--only", nargs="*", help="these operators")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if importlib.util.find_spec(
            "expecttest") is None:  # the database's own tests want its class, and we run none of them
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
    from torch.testing._internal.common_methods_invocations import op_db

    lines = known_lines()
    wanted = [
        op for number, op in enumerate(op_db)
        if (name_of(op) in options.only if options.only else number %
            options.share == 0 or name_of(op) in FORCED or any(name == name_of(op) for name, _ in lines))
    ]
    found, calls = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(wanted), IN_ONE):
            some, count = scan(wanted[start:start + IN_ONE], options.samples, os.path.abspath(options.crucible),
                               pathlib.Path(folder))
            found.update(some)
            calls += count
    status, met = 0, set()
    for name, kinds in sorted(found.items()):
        for what, places in sorted(kinds.items()):
            kind = what.split(":")[0]
            reason = lines.get((name, kind)) or lines.get(("*", what))
            met.add((name, kind))
            status |= reason is None
            print(f"{name}: {what}, {len(places)} calls, such as {places[0]}: {reason or 'NOT EXPLAINED'}")
    ran = {name_of(op) for op in wanted}
    for name, kind in lines:
        if name in ran and (name, kind) not in met and not options.samples:
            print(f"{name}: {kind}: unseen.tsv has a line for it, and nothing was found")
            status = 1
    print(f"{len(wanted)} operators, {calls} calls, {sum(map(len, found.values()))} findings")
    return status


if __name__ == "__main__":
    sys.exit(main())
