"""PyTorch's own peak memory of models' steps on the CPU: python measure_peak.py --library PATH NAME... [--steps N]
[--skip N]

Builds each model of the zoo exactly as run_model.py does, runs its steps in eager PyTorch behind a counting allocator
(peak_allocator.cpp) and prints a JSON object: for each name the most bytes alive during the steps that `ci/models`
records (parameters, optimizer states, gradients and batches included), and how many of these bytes no op of a step ever
touches (the batches of other steps, tables that a library keeps): they are no part of the step, and a plan does not
have them.
"""

import argparse
import ctypes
import gc
import json
import random

import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from run_model import SEED


class Counter:
    """The functions of the library, with their types."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        library.peak_allocator_install()
        self.alive = library.peak_allocator_alive
        self._peak, self._size = library.peak_allocator_peak, library.peak_allocator_size
        self.alive.restype = self._peak.restype = self._size.restype = ctypes.c_uint64
        self._size.argtypes = [ctypes.c_void_p]

    def restart(self):
        self._peak(1)

    def peak(self):
        return self._peak(0)

    def size(self, address):
        return self._size(address)


class Touched(TorchDispatchMode):
    """The addresses of the blocks that ops read or write."""

    def __init__(self):
        super().__init__()
        self.addresses = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, torch.Tensor):
                self.addresses.update(blocks_of(leaf))
        return result


def blocks_of(tensor):
    """Where the memory of a tensor begins; of a sparse one that of its parts."""
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        return []
    try:
        return [tensor.untyped_storage().data_ptr()]
    except (RuntimeError, NotImplementedError):  # no storage: a wrapper around other tensors
        return []


def blocks_alive(counter):
    """Address to bytes of the blocks of all tensors that Python knows."""
    found = {}
    for item in gc.get_objects():
        try:
            tensors = [item, item.grad if item.is_leaf else None] if isinstance(item, torch.Tensor) else []
        except ReferenceError:
            continue
        for tensor in tensors:
            for address in blocks_of(tensor) if tensor is not None else []:
                found[address] = counter.size(address)
    return found


def measure(counter, name, steps, skip):
    from zoo import MODELS
    random.seed(SEED)
    numpy.random.seed(SEED)
    torch.manual_seed(SEED)
    gc.collect()
    outside = counter.alive()  # what earlier models and libraries left
    _module, step = MODELS[name].build()
    for _ in range(skip):
        step()
    gc.collect()
    counter.restart()
    for _ in range(steps - skip):
        step()
    peak = counter.peak() - outside
    gc.collect()
    before = blocks_alive(counter)
    with Touched() as touched:
        step()
    gc.collect()
    after = blocks_alive(counter)  # the gradients of the step before are gone by now, and were no part of it
    untouched = sum(
        size for address, size in before.items() if after.get(address) == size and address not in touched.addresses)
    return {"peak_bytes": peak, "untouched_bytes": min(untouched, peak)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--library", required=True, help="the built peak_allocator.cpp")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--skip", type=int, default=2, help="steps before the measured ones: the recorder's warm-up")
    arguments = parser.parse_args()
    counter = Counter(arguments.library)
    torch.set_num_threads(1)
    print(json.dumps({name: measure(counter, name, arguments.steps, arguments.skip) for name in arguments.names}))


if __name__ == "__main__":
    main()
