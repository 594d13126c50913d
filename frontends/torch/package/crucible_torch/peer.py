"""A peer of `crucible bench`: a program as it is, eager or with torch.compile around its outermost modules, that is
stopped at the end of an iteration and goes on when it is told to.

Where iterations end is decided as in a recording (iterations.py), so that the peer stands after its warm-up where the
recording began. The command's side is frontends/cli/torch_peer.cpp. Both write lines of JSON into one socket:

    peer     {"event": "ready", "torch", "device", "threads", "warmup_ns", "clock_ns"}      stands at the end of an
    iteration command  {"run": N, "check": true}                                                     N iterations
    peer     {"event": "ran", "times_ns": [N], "begin_ns", "end_ns", "losses": [N lists], "outputs": [...]}   and stands
    again peer     {"event": "ended", "why", "iterations"}                                       the program is over
    peer     {"event": "refused", "message"}                                               it cannot be this peer

Clocks are CLOCK_MONOTONIC in nanoseconds, which is the command's clock too. When the command's end closes, the process
ends. A device that works asynchronously is waited for at each end of an iteration.
"""

import json
import math
import os
import sys
import threading
import time

from crucible_torch.iterations import Boundaries, Verdict
from crucible_torch.outputs import named_tensors
from crucible_torch.plain_hooks import PlainHooks
from crucible_torch.watch import Watch


def plain(number):
    """A number that JSON has, or its text."""
    return number if math.isfinite(number) else repr(number)


class Peer:
    """One process's. `config`: what torch_peer.cpp says, its own part under "peer"; `report`: the right to be the one
    process."""

    def __init__(self, config, torch, report):
        self._config = config["peer"]
        self._torch = torch
        self._report = report
        self._descriptor = self._config["descriptor"]
        # waiting: warms up; recording: runs as told; off. Names as in session.py, which `crucible` asks.
        self.state = "waiting"
        self.paused = False
        self._boundaries = Boundaries(torch, self._config.get("end_of_iteration", "auto"))
        self._hooks = PlainHooks(torch)
        self._watch = Watch(self._hooks, torch, self)
        self._thread = None
        self._compiled = set()  # ids of outermost modules
        self._device = "cpu"
        self._iterations = 0
        self._calls = 0  # of outermost modules in this iteration
        self._check = None  # {"losses": [...], "outputs": [...]} of the iterations that are checked
        self._times, self._wanted, self._begin, self._last = [], 0, 0, time.perf_counter_ns()
        self.process_id = os.getpid()

    def prepare(self):
        """False: this process is none, because an earlier one of the same program is, or the socket did not come this
        far."""
        if not self._report.claim():
            return False
        try:
            os.set_inheritable(self._descriptor, False)
        except OSError:
            return False
        threads = self._config.get("threads", 0)
        if threads:
            self._torch.set_num_threads(threads)
        self._watch.install()
        return True

    # What the program does (watch.py and the package `crucible` call these)

    def explicit_step(self):
        if self._is_ours():
            self._judge(self._boundaries.explicit_step())

    def optimizer_steps(self, optimizer):
        pass

    def optimizer_stepped(self, optimizer, in_backward):
        if in_backward or self._is_ours():
            self._judge(self._boundaries.optimizer_stepped(optimizer, in_backward))

    def backward_ended(self):
        if self._is_ours():
            self._judge(self._boundaries.backward_ended())

    def module_entered(self, module, gradients_on):
        if self.state == "off" or not self._is_ours():
            return
        if id(module) not in self._compiled and not type(module).__module__.startswith("torch.nn.utils."):
            self._compiled.add(id(module))
            self._see(module)

    def module_left(self, module, result):
        if not self._is_ours():
            return
        boundaries = self._boundaries
        if self._check is not None and (boundaries.kind == "module"
                                        or boundaries.kind == "step" and not boundaries.backward_seen):
            self._add_outputs(module, result)
        self._calls += 1
        self._judge(boundaries.module_called(module))

    def excluded_runs(self, module):
        pass

    def _is_ours(self):
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        return self._thread == thread and self.state != "off"

    def _see(self, module):
        """An outermost module before its first call: says where it computes, and is compiled where that is this
        peer."""
        found = next(iter(module.parameters()), None)
        if found is not None:
            self._device = str(found.device)
        backend = self._config.get("compile")
        if not backend:
            return
        if backend == "cudagraphs" and not self._device.startswith("cuda"):
            self._refuse(f"CUDA graphs need a CUDA device, and the program computes on {self._device}")
        options = {} if self._config.get("mode", "default") == "default" else {"mode": self._config["mode"]}
        if backend == "inductor" and self._config.get("own_random") is False:
            import torch._inductor.config

            torch._inductor.config.fallback_random = True  # the draws of eager PyTorch, so that losses can be compared
        module.compile(backend=backend, **options)

    def _add_outputs(self, module, result):
        alone = self._boundaries.kind == "step" and self._calls == 0 or self._boundaries.length == 1
        prefix = "" if alone else type(module).__name__ + "."
        for name, tensor in named_tensors(result, self._torch):
            self._check["outputs"].append(self._compared(len(self._times), prefix + name, tensor))

    def _compared(self, iteration, name, tensor):
        """One output beside the recorded one: bit-equal or not, and the largest difference over the largest recorded
        value."""
        torch = self._torch
        place = os.path.join(self._config["outputs"], f"{iteration}.{name}") if self._config.get("outputs") else ""
        said = {
            "iteration": iteration, "name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "recorded": False
        }
        if not os.path.exists(place):
            return said
        with open(place, "rb") as file:
            recorded = file.read()
        here = tensor.detach().resolve_conj().cpu().contiguous()
        if len(recorded) != here.numel() * here.element_size():
            return said | {"recorded": True, "equal": False, "max_rel_diff": None}
        there = torch.frombuffer(bytearray(recorded), dtype=here.dtype).reshape(here.shape) if recorded else here
        same = bytes(here.reshape(-1).view(torch.uint8).numpy()) == recorded if recorded else True
        wide = torch.complex128 if here.is_complex() else torch.float64
        largest = there.to(wide).abs().max().item() if recorded else 0
        difference = (here.to(wide) - there.to(wide)).abs().max().item() if recorded else 0
        difference = 0 if same else difference / largest if largest else difference
        return said | {
            "recorded": True, "equal": same, "max_rel_diff": difference if math.isfinite(difference) else None
        }

    # Iterations

    def _judge(self, verdict):
        if verdict == Verdict.BROKEN and self.state == "recording":
            self.state = "waiting"  # what was run were no iterations: warms up again, then runs what it was told
        if verdict == Verdict.END or verdict == Verdict.BROKEN and self._boundaries.at_end:
            self._end_iteration()

    def _end_iteration(self):
        torch = self._torch
        if self._device.startswith("cuda") or torch.cuda.is_initialized():
            torch.cuda.synchronize()
        now = time.perf_counter_ns()
        self._iterations += 1
        self._calls = 0
        if self.state == "waiting":
            if self._boundaries.passed >= self._config["warmup"] and self._boundaries.settled:
                self._become_ready(now)
        elif self.state == "recording":
            self._times.append(now - self._last)
            if self._check is not None:
                self._check["losses"].append([plain(loss) for loss in self._hooks.losses])
                self._hooks.losses = []
            if len(self._times) == self._wanted:
                self._tell_run(now)
        self._last = time.perf_counter_ns()

    def _become_ready(self, now):
        self.state = "recording"
        if self._wanted:
            return self._begin_run()
        device = self._device
        if device.startswith("cuda"):
            device = f"{device} ({self._torch.cuda.get_device_name(device)})"
        self._tell("ready", torch=self._torch.__version__, device=device, threads=self._torch.get_num_threads(),
                   warmup_ns=now - self._last_of_import, clock_ns=now)
        self._wait()

    def _tell_run(self, now):
        check = self._check or {}
        self._check, self._hooks.losses = None, None
        self._tell("ran", times_ns=self._times, begin_ns=self._begin, end_ns=now, **check)
        self._wait()

    def _wait(self):
        """Stands still until the command says how many iterations to run; ends the process when it has gone."""
        command = json.loads(self._line())
        self._wanted, self._checks = command["run"], bool(command.get("check"))
        self._begin_run()

    def _begin_run(self):
        self._times = []
        self._check = {"losses": [], "outputs": []} if self._checks else None
        self._hooks.losses = [] if self._checks else None
        if not self._checks:
            self._leave_modules_alone()
        self._begin = time.perf_counter_ns()

    def _leave_modules_alone(self):
        """Nothing of ours stands in module calls that are timed, unless they are what ends an iteration."""
        if self._boundaries.kind != "module":
            self._watch.remove_module_call()

    def _line(self):
        text = b""
        while not text.endswith(b"\n"):
            piece = os.read(self._descriptor, 1)
            if not piece:
                os._exit(0)
            text += piece
        return text

    def _tell(self, event, **details):
        line = (json.dumps({"event": event, **details}) + "\n").encode()
        try:
            while line:
                line = line[os.write(self._descriptor, line):]
        except OSError:
            os._exit(0)  # nobody listens any more

    def _refuse(self, message):
        self._tell("refused", message=message)
        os._exit(0)

    # The end

    def begin(self):
        """The import of torch is over: from here on the program's own work counts as its start-up."""
        self._last_of_import = self._last = time.perf_counter_ns()

    def end(self):
        if os.getpid() != self.process_id or self.state == "off":
            return
        self.state = "off"
        error = getattr(sys, "last_value", None)
        why = "" if error is None else f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        boundaries = self._boundaries
        self._tell("ended", why=why, iterations=self._iterations, waits_for=boundaries.waits_for,
                   backward=boundaries.backward_seen)

    def forget_in_child(self):
        """A forked worker must neither count nor hold the socket open."""
        if self.state == "off":
            return
        self.state = "off"
        self._watch.remove()
        try:
            os.close(self._descriptor)
        except OSError:
            pass

    # What the package `crucible` asks of a session, and means nothing here

    def pause(self):
        return False

    def resume(self):
        pass

    def set_phase(self, phase):
        return None

    def join_thread(self):
        return False

    def leave_thread(self):
        pass
