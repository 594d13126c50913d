"""Records every sample input of PyTorch's own op database, forward and backward: one recording per op and dtype.

PyTorch tests its operators with `torch.testing._internal.common_methods_invocations.op_db`: for each of them sample
inputs of every supported dtype. Here each sample is a module of its own (`sample_17`), which leaves its results in
buffers (`sample_17.result_0`, gradients after the results), so that check_samples can lower and replay each by itself.

Prints one JSON object per op: {"op", "dtype", "path", "samples", "skipped": {reason: count}}.
"""

import argparse
import contextlib
import importlib.util
import json
import math
import os
import pathlib
import random
import re
import sys
import types
import unittest
import warnings

import numpy
import torch
from torch.utils._pytree import tree_flatten, tree_map

import crucible

# Their results are whatever the memory held.
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}


class Sample(torch.nn.Module):
    """One call of an operator, with the gradients of its differentiable inputs where it has any."""

    def __init__(self, op, sample, differentiate):
        super().__init__()
        self.start(op, sample, differentiate)

    def start(self, op, sample, differentiate):
        """Runs it once, so that there is a buffer for each result."""
        self.call = [op, sample]  # a list: neither a module nor a parameter of this one
        self.differentiate = differentiate
        self.cotangents = None
        results = self.compute()
        self.count = len(results)
        self.is_plain = all(map(is_plain, results))
        for k, result in enumerate(results if self.is_plain else []):
            self.register_buffer(f"result_{k}", torch.full(result.shape, 1, dtype=result.dtype))

    def compute(self):
        op, sample = self.call
        with torch.enable_grad() if self.differentiate else torch.no_grad():
            output = op(sample.input, *sample.args, **sample.kwargs)
            tensors = [t for t in tree_flatten(output)[0] if isinstance(t, torch.Tensor)]
            results = [t.detach() for t in tensors]
            if self.differentiate:
                results += self.gradients(tree_flatten(sample.output_process_fn_grad(output))[0], sample)
        return results

    def gradients(self, outputs, sample):
        outputs = [t for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
        leaves = self.leaves(sample)
        if not outputs or not leaves:
            return []
        if self.cotangents is None:
            generator = torch.Generator().manual_seed(7)
            self.cotangents = [
                torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype) for t in outputs
            ]
        return [g for g in torch.autograd.grad(outputs, leaves, self.cotangents, allow_unused=True) if g is not None]

    def leaves(self, sample):
        values = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
        return [t for t in values if isinstance(t, torch.Tensor) and t.requires_grad]

    def forward(self):
        results = self.compute()
        with torch.no_grad():
            for k, result in enumerate(results):
                getattr(self, f"result_{k}").copy_(result)


class Samples(torch.nn.Module):
    def __init__(self, samples):
        super().__init__()
        for number, sample in enumerate(samples):
            self.add_module(f"sample_{number}", sample)

    def forward(self):
        for sample in self.children():
            sample()


def is_plain(value):
    """A strided tensor or no tensor: what a neutral program can hold."""
    return not isinstance(value, torch.Tensor) or (value.layout == torch.strided and not value.is_quantized
                                                   and not value.is_nested)


def doubled(sample):
    """The sample with its numbers in float64; the same numbers. Where an argument names a narrower type to compute in,
    that is float64, too."""

    def convert(value):
        if isinstance(value, torch.dtype):
            return torch.float64 if value.is_floating_point else value
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        return value.detach().double().requires_grad_(value.requires_grad)

    parts = tree_map(convert, (sample.input, sample.args, sample.kwargs))
    return type(sample)(parts[0], args=parts[1], kwargs=parts[2], output_process_fn_grad=sample.output_process_fn_grad)


MOST_EXACT = 4096  # elements of a result whose float64 numbers are written down


def compare_with_float64(op, number, made):
    """How far eager's own results are from what it computes of the same numbers in float64, by the name of the result;
    and those numbers, of results of f16 and bf16.

    Where sums cancel (the gradient of a norm over one element) an exact 0 and eager's rounding differ by all of it.
    Nothing is said of samples that draw random numbers, and of those that eager does not run in float64.
    """
    before = torch.get_rng_state()
    results = made.compute()
    if not torch.equal(before, torch.get_rng_state()):
        return {}, {}
    try:
        wide = Sample(op, doubled(made.call[1]), made.differentiate)
        if made.cotangents is not None:
            wide.cotangents = [t.double() for t in made.cotangents]
        exact = wide.compute()
    except Exception:
        return {}, {}
    if [r.shape for r in exact] != [r.shape for r in results]:
        return {}, {}
    errors, numbers = {}, {}
    for k, (result, wanted) in enumerate(zip(results, exact)):
        if not result.is_floating_point() or not wanted.is_floating_point():
            continue
        difference = (result.double() - wanted.double()).abs()
        difference = difference[difference.isfinite()]
        if difference.numel() and difference.max() > 0:
            errors[f"sample_{number}.result_{k}"] = difference.max().item()
        if result.dtype in (torch.float16, torch.bfloat16) and result.numel() <= MOST_EXACT:
            numbers[f"sample_{number}.result_{k}"] = [
                x if math.isfinite(x) else None
                for x in torch.zeros_like(wanted, dtype=torch.float64).copy_(wanted).flatten().tolist()
            ]
    return errors, numbers


def make_samples(op, dtype, most):
    """The samples that eager PyTorch runs, and why the others are left out."""
    torch.manual_seed(1)
    numpy.random.seed(1)
    random.seed(1)
    skipped, samples = {}, []

    def skip(reason):
        skipped[reason] = skipped.get(reason, 0) + 1

    differentiate = op.supports_autograd and (dtype.is_floating_point
                                              or dtype.is_complex) and dtype in op.supported_backward_dtypes("cpu")
    found = list(op.sample_inputs("cpu", dtype, requires_grad=differentiate))
    if most and len(found) > most:
        found = [found[k * len(found) // most] for k in range(most)]
    for sample in found:
        values = tree_flatten((sample.input, sample.args, sample.kwargs))[0]
        if not all(map(is_plain, values)):
            skip("a tensor that is not strided")
            continue
        try:
            made = Sample(op, sample, differentiate)
        except Exception as error:  # eager itself refuses: nothing to compare with
            skip(f"eager: {type(error).__name__}")
            continue
        if made.count == 0:
            skip("no tensor among the results")
        elif not made.is_plain:
            skip("a tensor that is not strided")
        else:
            samples.append(made)
    return samples, skipped


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def make_recording(name, dtype, folder, samples, skipped, iterations=2):
    """Records modules with a member `count`; the line that is printed about them."""
    line = {"op": name, "dtype": str(dtype).removeprefix("torch."), "path": None, "samples": 0, "skipped": skipped}
    if samples:
        path = folder / (re.sub(r"[^\w.]+", "_", name) + f".{line['dtype']}.crtrace")
        model = Samples(samples)
        with crucible.record(path, iterations=iterations, warmup=1, end_of_iteration="step"):
            for _ in range(iterations + 2):
                model()
                crucible.step()
        line["path"], line["samples"] = str(path), len(samples)
    return line


def record(op, dtype, folder, most):
    samples, skipped = make_samples(op, dtype, most)
    beside = {"errors": {}, "exact": {}}
    if dtype.is_floating_point and dtype != torch.float64 and torch.float64 in op.supported_dtypes("cpu"):
        for number, sample in enumerate(samples):
            for found, of_sample in zip(beside.values(), compare_with_float64(op, number, sample)):
                found.update(of_sample)
    line = make_recording(name_of(op), dtype, folder, samples, skipped)
    for kind, found in beside.items():
        if line["path"] and found:
            pathlib.Path(line["path"]).with_suffix(f".{kind}.json").write_text(json.dumps(found))
    return line


class OpEntry:
    def __init__(self, op):
        self.op, self.name = op, op.name


def ops(_, dtype):
    if importlib.util.find_spec(
            "expecttest") is None:  # the database's own tests want its class, and we run none of them
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
    from torch.testing._internal.common_methods_invocations import op_db

    return [OpEntry(op) for op in op_db if dtype in op.supported_dtypes("cpu") and op.name not in UNDEFINED]


def main(databases, record_entry):
    """`databases`: by name, what gives the entries (each with a member `name`) for the options and a dtype."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__.splitlines()[0])
    parser.add_argument("--database", choices=databases, default=next(iter(databases)))
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--samples", type=int, default=0, help="at most so many per entry, evenly chosen; 0: all")
    parser.add_argument("--logs", type=pathlib.Path, help="the folder of operator-input logs, for the database oplogs")
    parser.add_argument("--begin", type=int, default=0, help="number of the first entry of the list")
    parser.add_argument("--list", action="store_true", help="print the names alone")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    dtype = getattr(torch, options.dtype)
    chosen = databases[options.database](options, dtype)
    if options.names:
        chosen = [entry for entry in chosen if entry.name in options.names]
    options.out.mkdir(parents=True, exist_ok=True)
    for number, entry in enumerate(chosen[options.begin :], options.begin):
        # On the way, so that whoever watches knows where a crash came from.
        print(json.dumps({"begin": number, "of": len(chosen), "op": entry.name}), flush=True)
        if options.list:
            continue
        with contextlib.redirect_stderr(open(os.devnull, "w")):
            try:
                line = record_entry(entry, dtype, options.out, options.samples)
            except Exception as error:
                line = {
                    "op": entry.name, "dtype": options.dtype, "path": None, "samples": 0,
                    "error": f"{type(error).__name__}: {error}"
                }
        print(json.dumps(line), flush=True)
        torch._dynamo.reset() if "torch._dynamo" in sys.modules else None


if __name__ == "__main__":
    main({"ops": ops}, lambda entry, dtype, folder, most: record(entry.op, dtype, folder, most))
