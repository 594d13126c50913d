"""One peer of adaptive_bench.py: a training step, called in turns.

    python adaptive_program.py NAME --way eager|model|everything|accelerate [--calls N]

NAME: one of workloads.py, or `zoo:NAME` of tests/models/zoo (with the models' environment). The first line that it prints says
how it was made; then for each line on standard input N calls are made and a line of JSON tells their times; when standard
input ends, a last line tells memory, and of an accelerated step the report and what a call costs beside its plan.
"""

import argparse
import ctypes
import json
import os
import pathlib
import resource
import statistics
import struct
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAYS = ("eager", "model", "everything", "accelerate")
SEED = 20


def of_workload(name, way):
    """call(): one step. workloads.py's, as a function without arguments."""
    from workloads import make

    torch.manual_seed(0)
    model, loss_of = make(name)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    called = torch.compile(model) if way == "model" else model
    loss_now, update = (lambda: loss_of(called)), optimizer.step
    if way == "everything":
        loss_now, update = torch.compile(loss_now), torch.compile(optimizer.step)

    def compiled():
        optimizer.zero_grad()
        loss = loss_now()
        loss.backward()
        update()
        return loss

    def step():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return (compiled, None) if way in ("model", "everything") else accelerated(step, way)


def accelerated(step, way):
    """(what is called, what tells of it or None)."""
    if way == "eager":
        return step, None
    import crucible

    fast = crucible.accelerate(step)
    return fast, fast


def of_zoo(name, way):
    """A model of tests/models/zoo. Its step takes the batch as arguments: what is made of an iterator inside is a side
    effect, and loops of people hand the batch in."""
    sys.path.insert(0, str(ROOT / "tests/models"))
    import random

    import numpy

    random.seed(SEED), numpy.random.seed(SEED), torch.manual_seed(SEED)
    made = []

    def training(module, optimizer, batches, loss_of, autocast=None, scaler=None, clip=None):
        """common.training(), with the batch as argument."""
        module.train()
        inner = torch.compile(module) if way == "model" else None
        if inner is not None:
            module.forward = inner.forward if hasattr(inner, "forward") else module.forward
        kind = autocast or torch.bfloat16
        has_autocast = autocast is not None

        def step(*batch):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=kind, enabled=has_autocast):
                loss = loss_of(*batch)
            if scaler is None:
                loss.backward()
            else:
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            return loss.detach()

        call, told = accelerated(torch.compile(step) if way == "everything" else step,
                                 "accelerate" if way == "accelerate" else "eager")
        made.append((call, told))
        count = iter(range(1 << 62))
        return module, lambda: call(*batches[next(count) % len(batches)])

    from zoo import MODELS
    for part in [each for name, each in sys.modules.items() if name.startswith("zoo")]:
        if hasattr(part, "training"):
            part.training = training
    module, step = MODELS[name].build()
    if made:
        return step, made[0][1]
    cells = dict(zip(step.__code__.co_freevars, step.__closure__ or ()))
    if MODELS[name].inference and "module" in cells and way != "eager":  # the step calls what stands for its module
        call, told = accelerated(module, way) if way == "accelerate" else (torch.compile(module), None)
        cells["module"].cell_contents = call
        return step, told
    return accelerated(torch.compile(step) if way in ("model", "everything") else step,
                       "accelerate" if way == "accelerate" else "eager")


def made(name, way):
    return of_zoo(name.removeprefix("zoo:"), way) if name.startswith("zoo:") else of_workload(name, way)


class Instructions:
    """Instructions of this thread by perf_event_open. `handle` is -1 where the machine does not let it."""

    OPEN, HARDWARE, INSTRUCTIONS = 298, 0, 1  # x86-64; elsewhere nothing is measured

    def __init__(self):
        self.handle = -1
        if os.uname().machine == "x86_64":
            attributes = struct.pack("IIQQQQQ", self.HARDWARE, 64, self.INSTRUCTIONS, 0, 0, 0, 1 << 5 | 1 << 6)
            attributes = attributes.ljust(64, b"\0")
            self.handle = ctypes.CDLL(None, use_errno=True).syscall(self.OPEN, attributes, 0, -1, -1, 0)

    def count(self, call, times):
        """Per call, or None."""
        if self.handle < 0:
            return None
        before = struct.unpack("Q", os.read(self.handle, 8))[0]
        for _ in range(times):
            call()
        return (struct.unpack("Q", os.read(self.handle, 8))[0] - before) / times


def ns_of(call, times):
    rounds = []
    for _ in range(5):
        began = time.perf_counter_ns()
        for _ in range(times):
            call()
        rounds.append((time.perf_counter_ns() - began) / times)
    return min(rounds)


def beside_the_plan(told, call):
    """What a compiled call costs beside its plan, and its guards: of the variant with the most calls."""
    accelerated = getattr(told, "_accelerated", told)
    variants = [each for each in accelerated._every_variant() if each.tier == "compiled"]
    if not variants:
        return None
    variant = max(variants, key=lambda each: each.compiled_calls)
    beside = []
    for _ in range(100):
        variant.next_check = variant.compiled_calls + 100
        before = variant.compiled_calls
        began = time.perf_counter_ns()
        call()
        taken = time.perf_counter_ns() - began
        if variant.compiled_calls > before and hasattr(variant._program, "plan_ns"):
            beside.append(taken - variant._program.plan_ns())
    seen, check = variant.visible, variant.guards.check
    return {"beside_plan_ns": statistics.median(beside) if beside else None, "tensors": len(seen.tensors),
            "values": len(seen.values), "guards_ns": ns_of(check, 1000),
            "guards_instructions": Instructions().count(check, 1000)}


def is_settled(report):
    """Whether every variant is compiled, or stays eager."""
    return bool(report.reason) or bool(report.variants) and all(each.tier in ("compiled", "eager")
                                                               for each in report.variants)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--way", choices=WAYS, default="eager")
    parser.add_argument("--calls", type=int, default=10)
    options = parser.parse_args()
    call, told = made(options.name, options.way)
    print(json.dumps({"way": options.way, "torch": str(torch.__version__)}), flush=True)
    first_compiled_s, stall_ns, observed, times = None, 0, None, []
    for _ in sys.stdin:
        turn = []
        for _ in range(options.calls):
            start = time.perf_counter_ns()
            call()
            turn.append(time.perf_counter_ns() - start)
            if told is not None and first_compiled_s is None:
                report = told.report()
                if observed is None and any(each.tier == "compiling" for each in report.variants):
                    observed = time.perf_counter_ns()
                if report.compiled_calls > 0:
                    first_compiled_s = (time.perf_counter_ns() - (observed or start)) / 1e9
        if told is not None and first_compiled_s is None or told is None:
            times += turn
        print(json.dumps({"step_ns": turn, "is_settled": told is None or is_settled(told.report())}), flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    last = {"peak_bytes": peak, "first_compiled_s": first_compiled_s}
    if times[1:]:
        last["longest_stall_ns"] = max(times[1:]) - statistics.median(times[1:])  # the first call makes states
    if told is not None:
        last["report"] = json.loads(told.report().to_json())
        last["beside"] = beside_the_plan(told, call)
    print(json.dumps(last), flush=True)


if __name__ == "__main__":
    main()
