"""Records the smaller argument tuples of operator-input logs: every op on made-up numbers of the sizes that models use.

As record_samples.py, whose output and options it shares; --logs is the folder (oplogs.py), --samples how many tuples of
each op at most.
"""

import warnings

import torch

import oplogs
from record_samples import Sample, is_plain, main, make_recording

LARGEST = 30_000  # elements of all tensors of a tuple together


class Arguments:
    """A tuple as a sample of the op database has it: numbers from 0.5 to 1.5, integers 0 and 1."""

    def __init__(self, positional, named):
        generator = torch.Generator().manual_seed(5)

        def make(t):
            elements = t.elements()
            if t.dtype.is_floating_point:
                buffer = torch.rand(elements, generator=generator, dtype=torch.float64) + 0.5
            else:
                buffer = torch.randint(0, 2, (elements,), generator=generator)
            return buffer.to(t.dtype).as_strided(t.sizes, t.stride or t.dense())

        self.input = None
        self.args, self.kwargs = oplogs.replaced(tuple(positional), make), oplogs.replaced(named, make)


def call_of(overload):
    """Calls the op on copies of what it writes, and gives what it returned and wrote."""
    written = [
        k for k, a in enumerate(overload._schema.arguments) if a.alias_info is not None and a.alias_info.is_write
    ]

    def call(_, *args, **kwargs):
        args = list(args)
        for k in written:
            if k < len(args):
                args[k] = [t.clone() for t in args[k]] if isinstance(args[k], list) else args[k].clone()
        result = overload(*args, **kwargs)
        return [result, *(args[k] for k in written if k < len(args))]

    return call


class OplogEntry:
    def __init__(self, op, tuples):
        self.name, self.tuples = op, tuples

    def samples(self, most, skip):
        overload = oplogs.overload_of(self.name)
        found = []
        for text in self.tuples:
            positional, named = oplogs.arguments_of(text)
            tensors = oplogs.tensors_in((positional, named))
            if any(isinstance(t, oplogs.Sparse) for t in tensors) or sum(t.elements() for t in tensors) > LARGEST:
                skip("large or not strided")
                continue
            named = {key: value for key, value in named.items() if key not in ("device", "pin_memory")}
            found.append((positional, named))
        if most and len(found) > most:
            found = [found[k * len(found) // most] for k in range(most)]
        for arguments in found:
            if overload is None:
                skip("no such op in this torch")
                continue
            try:
                made = Sample(call_of(overload), Arguments(*arguments), False)
            except Exception as error:
                skip(f"eager: {type(error).__name__}")
                continue
            if made.is_plain and made.count and all(is_plain(value) for value in made.call[1].args):
                yield made
            else:
                skip("no tensor among the results")


def record(entry, dtype, folder, most):
    skipped = {}

    def skip(reason):
        skipped[reason] = skipped.get(reason, 0) + 1

    torch.manual_seed(1)
    return make_recording(entry.name, dtype, folder, list(entry.samples(most, skip)), skipped)


def entries(options, _):
    warnings.simplefilter("ignore")
    return [OplogEntry(op, tuples) for op, tuples in oplogs.read(options.logs).items()]


if __name__ == "__main__":
    main({"oplogs": entries}, record)
