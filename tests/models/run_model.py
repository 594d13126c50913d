"""Runs some steps of models and tells what they gave: python run_model.py NAME... [--steps N] [--threads N] [--output
FILE]

Alone it is the plain run; under `crucible record` it is the recorded one. It prints a JSON object: for each name a list
with a text per step that holds every bit: the loss in hexadecimal, or the hash of the outputs.
"""

import argparse
import hashlib
import json
import random
import sys

import numpy
import torch

SEED = 20


def note(value, is_inference):
    if not is_inference:
        return value.item().hex()
    return hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest()


def run(name, steps):
    """The notes of the first steps of a model, built anew."""
    from zoo import MODELS
    entry = MODELS[name]
    random.seed(SEED)
    numpy.random.seed(SEED)  # some libraries draw masks from it
    torch.manual_seed(SEED)
    _module, step = entry.build()
    recorder = sys.modules.get("crucible_torch._recorder")
    if recorder is not None:
        import crucible
    notes = []
    for _ in range(steps):
        notes.append(note(step(), entry.inference))
        if recorder is not None:
            crucible.step()  # an iteration is one step here, whatever the model calls while it is built
    return notes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", help="a file for the object instead of the standard output")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    text = json.dumps({name: run(name, arguments.steps) for name in arguments.names})
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8") as out:
            out.write(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
