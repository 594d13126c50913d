"""What recording costs per op, beside PyTorch's own observers, in one run: recorder_bench.py BUILD_FOLDER/python
[--rounds N]

A training step of many small ops (20 x Linear 32 + Tanh, AdamW foreach) runs in blocks: plain, recorded (as always,
without call sites, by the boxed kernel alone), under torch.profiler (CPU, shapes), ExecutionTraceObserver and a
TorchDispatchMode that does nothing, and again. The first steps of each block are not timed: there the recorder takes
the bytes of parameters and states, and the others warm up. Cost per op: in each round the median step time less the
plain block's of the same round (machines change speed within seconds), over ops; of these differences the median and
quartiles.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time

parser = argparse.ArgumentParser()
parser.add_argument("package", help="the folder with crucible_torch, BUILD/python")
parser.add_argument("--rounds", type=int, default=30, help="blocks of each kind (default 30)")
parser.add_argument("--steps", type=int, default=12, help="timed steps in a block (default 12)")
parser.add_argument("--json", action="store_true")
arguments = parser.parse_args()
sys.path.insert(0, arguments.package)

import torch  # noqa: E402
import torch.utils._python_dispatch  # noqa: E402

from crucible_torch import _recorder  # noqa: E402
from crucible_torch.naming import Names  # noqa: E402

WARMUP = 2
torch.set_num_threads(1)
torch.manual_seed(0)
layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()) for _ in range(20)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
batch = torch.randn(8, 32)


def step():
    optimizer.zero_grad()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()


def timed_block(after_step=lambda: None):
    times = []
    for index in range(WARMUP + arguments.steps):
        start = time.perf_counter_ns()
        step()
        after_step()
        if index >= WARMUP:
            times.append(time.perf_counter_ns() - start)
    return times


def plain():
    return timed_block()


measures = {}


def says_phase(phase):
    _recorder.set_phase(phase)  # a hook must return nothing


def recorded(kernels="typed", way=1):
    """With all that a recording does per iteration: hooks, phases, boundaries. `way`: 1 with call sites, 2 without."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    _recorder.install(kernels)
    names = Names(_recorder, torch)
    hooks = [
        register_optimizer_step_pre_hook(lambda *_: says_phase(2)),
        register_optimizer_step_post_hook(lambda *_: says_phase(0))
    ]
    original = torch.autograd.backward
    torch.autograd.backward = _recorder.wrap_backward(original)
    folders = [os.path.dirname(torch.__file__) + os.sep, os.path.abspath(arguments.package) + os.sep]
    _recorder.start(torch.nn.Module.__call__, folders, names.add_root, way)
    times = timed_block(_recorder.end_iteration)
    _recorder.stop()
    torch.autograd.backward = original
    for hook in hooks:
        hook.remove()
    _recorder.uninstall()
    found = _recorder.measures()
    measures["ops"] = found["ops"] / found["complete_iterations"]
    if kernels == "boxed" or way == 2:
        _recorder.clear()
        return times
    measures.setdefault("self", []).append(found["overhead_ns_per_op"])
    measures.setdefault("copying", []).append(found["copy_ns"] / found["complete_iterations"])
    measures.setdefault("boundary", []).append(found["boundary_ns"] / found["complete_iterations"])
    measures["log_bytes_per_op"] = found["log_bytes"] / found["ops"]
    _recorder.clear()
    return times


def profiled():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True):
        return timed_block()


def observed():
    with tempfile.TemporaryDirectory() as folder:
        observer = torch.profiler.ExecutionTraceObserver()
        observer.register_callback(os.path.join(folder, "trace.json"))
        observer.start()
        times = timed_block()
        observer.stop()
        observer.unregister_callback()
        return times


class Idle(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def dispatched():
    with Idle():
        return timed_block()


def main():
    kinds = {"plain": plain, "recorder": recorded, "recorder, no call sites": lambda: recorded(way=2),
             "recorder, boxed": lambda: recorded("boxed"), "torch.profiler": profiled,
             "ExecutionTraceObserver": observed, "TorchDispatchMode": dispatched}
    times = {name: [] for name in kinds}
    for _ in range(arguments.rounds):
        for name, block in kinds.items():
            times[name].append(statistics.median(block()))
    ops = measures["ops"]

    def per_op(name):
        """Lower quartile, median, upper quartile over the rounds, in ns per op."""
        return statistics.quantiles(
            [(with_it - without) / ops for with_it, without in zip(times[name], times["plain"])], n=4)

    plain_ns = statistics.median(times["plain"])
    result = {
        "ops_per_step": ops,
        "plain_ns_per_step": plain_ns,
        **{f"{name}_ns_per_op": per_op(name)[1] for name in kinds if name != "plain"},
        **{f"{name}_ns_per_op_quartiles": per_op(name)[::2] for name in kinds if name != "plain"},
        "recorder_self_measured_ns_per_op": statistics.median(measures["self"]),
        "recorder_copying_ns_per_step": statistics.median(measures["copying"]),
        "recorder_log_bytes_per_op": measures["log_bytes_per_op"],
        "recorder_boundary_ns_per_step": statistics.median(measures["boundary"]),
    }
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    print(f"torch {torch.__version__}, {ops:.0f} ops per step, plain step {plain_ns / 1e3:.0f} us, "
          f"{arguments.rounds} x {arguments.steps} steps of each kind, alternating")
    for name in kinds:
        if name != "plain":
            low, middle, high = per_op(name)
            print(f"  {name:24s} {middle:7.0f} ns per op (quartiles of the rounds: {low:.0f} and {high:.0f})")
    print(f"  of the recorder's: {result['recorder_self_measured_ns_per_op']:.0f} ns per op by its own clock, "
          f"{result['recorder_copying_ns_per_step'] / 1e3:.0f} us per step copying bytes that entered, "
          f"{result['recorder_boundary_ns_per_step'] / 1e3:.0f} us per step at the boundary, "
          f"{measures['log_bytes_per_op']:.0f} bytes of log per op")


if __name__ == "__main__":
    main()
