"""One recording inside the recorded process: when it starts, what an iteration is, what is written and told at the end.

Boundaries are optimizer steps or crucible.step(). During the warm-up there is one counter per step and nothing else;
the kernels, the hooks and the dispatch key exist only while iterations are recorded.
"""

import atexit
import datetime
import os
import sys
import traceback
import weakref

from crucible_torch import build_info
from crucible_torch.naming import Names, framework_name
from crucible_torch.report import Report

OPTIMIZER_PHASE, FORWARD_PHASE = 2, 0


class Session:
    """`config`: output, iterations, warmup, status (path), command, kernels, lock_descriptor."""

    def __init__(self, config, torch):
        self._config = config
        self._torch = torch
        self._report = Report(config["status"])
        self._recorder = None
        self._state = "waiting"
        self._steps = 0
        self._explicit = False
        self._owner = None  # weak reference to the optimizer whose steps are boundaries
        self._step_hook = None
        self._hooks = []
        self._wrapped = {}
        self._names = None
        self._frontend = ""
        self._pid = os.getpid()

    def prepare(self):
        """Checks that this interpreter can be recorded and waits for steps. False: another process is recorded."""
        if not self._report.claim():
            return False
        self._refuse_other_versions()
        try:
            from crucible_torch import _recorder
        except ImportError as error:
            self._refuse(f"the recorder library cannot be loaded: {error}; build it again for this Python and torch")
        self._recorder = _recorder
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._step_hook = register_optimizer_step_post_hook(self._after_optimizer_step)
        os.register_at_fork(after_in_child=self._forget_in_child)
        atexit.register(self._at_exit)
        self._report.tell("waiting", steps=0, ended=False)
        return True

    def explicit_step(self):
        if self._state not in ("waiting", "recording"):
            return
        if not self._explicit:
            # Until now optimizer steps were counted; what they began is begun anew from here.
            self._explicit = True
            self._steps = 0
            if self._state == "recording":
                self._leave()
                self._recorder.clear()
                self._state = "waiting"
        self._boundary()

    # Versions

    def _refuse_other_versions(self):
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        fix = (f"build it for {sys.executable}: cmake -B {build_info.BUILD_FOLDER} -DCRUCIBLE_PYTHON={sys.executable} "
               f"&& cmake --build {build_info.BUILD_FOLDER}")
        if python != build_info.PYTHON_VERSION:
            self._refuse(f"the recorder was built for Python {build_info.PYTHON_VERSION}, the program runs Python {python}; {fix}")
        if self._torch.__version__ != build_info.TORCH_VERSION:
            self._refuse(f"the recorder was built for torch {build_info.TORCH_VERSION}, the program runs torch "
                         f"{self._torch.__version__}; {fix}")

    def _refuse(self, message):
        """Ends the program before it has done anything: it was started to be recorded."""
        self._state = "off"
        self._report.tell("refused", message=message)
        raise SystemExit(3)

    # Iterations

    def _after_optimizer_step(self, optimizer, args, kwargs):
        if self._state == "recording":
            self._recorder.set_phase(FORWARD_PHASE)
        if self._explicit:
            return
        owner = self._owner() if self._owner is not None else None
        if owner is None:
            self._owner = weakref.ref(optimizer)
        elif owner is not optimizer:
            return  # with several optimizers, an iteration ends with the step of the one that stepped first
        self._boundary()

    def _before_optimizer_step(self, optimizer, args, kwargs):
        self._recorder.set_phase(OPTIMIZER_PHASE)
        self._names.add_optimizer(optimizer)

    def _boundary(self):
        if self._state == "waiting":
            self._steps += 1
            if self._steps == self._config["warmup"]:
                self._start()
        elif self._state == "recording":
            kept = self._recorder.end_iteration()
            done = self._recorder.measures()["complete_iterations"]
            if not kept:
                self._finish(f"recording was switched off inside iteration {done} by code that restores the thread's state")
            elif self._runs_compiled_code():
                self._give_up("the program runs kernels that torch.compile made, which are not operators; "
                              "record it without torch.compile or with backend='eager'")
            elif done == self._config["iterations"]:
                self._finish("")

    def _runs_compiled_code(self):
        cache = sys.modules.get("torch._inductor.codecache")
        return bool(cache is not None and getattr(cache.PyCodeCache, "modules", None))

    def _start(self):
        try:
            self._install()
        except RuntimeError as error:
            self._give_up(f"the recorder's kernels cannot be registered: {error}")
            return
        self._names = Names(self._recorder, self._torch)
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._hooks.append(register_optimizer_step_pre_hook(self._before_optimizer_step))
        autograd = self._torch.autograd
        for name, wrap in (("backward", self._recorder.wrap_backward), ("grad", self._recorder.wrap_grad)):
            original = getattr(autograd, name)
            self._wrapped[name] = (original, wrap(original))
            setattr(autograd, name, self._wrapped[name][1])
        folders = [os.path.dirname(self._torch.__file__) + os.sep, os.path.dirname(os.path.abspath(__file__)) + os.sep]
        self._report.tell("recording")
        self._state = "recording"
        self._recorder.start(self._torch.nn.Module.__call__, folders, self._names.add_root,
                             self._config.get("read_frames", True))

    def _install(self):
        wanted = self._config.get("kernels", "typed")
        reason = "the self test saw no op on any path"
        for kernels in dict.fromkeys((wanted, "per_op", "record_function")):
            try:
                installed = self._recorder.install(kernels)
            except RuntimeError as error:  # the dispatcher refuses: the next path may need less of it
                reason = str(error)
                continue
            if self._recorder.self_test():
                self._frontend = f"crucible {build_info.CRUCIBLE_VERSION}, {installed}"
                return
            self._recorder.uninstall()
        raise RuntimeError(reason)

    # The end

    def _leave(self):
        """Switches everything off that a recording has switched on."""
        self._recorder.stop()
        self._recorder.uninstall()
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for name, (original, ours) in self._wrapped.items():
            if getattr(self._torch.autograd, name) is ours:
                setattr(self._torch.autograd, name, original)
        self._wrapped.clear()

    def _finish(self, reason):
        """Writes the complete iterations; `reason` says why some are missing."""
        self._leave()
        self._step_hook.remove()
        self._state = "off"
        config = self._config
        try:
            self._names.name_final()
            summary = self._recorder.write(
                config["output"], framework_name(self._torch), self._frontend, config["command"],
                datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), reason, config["warmup"])
            self._report.tell("written", bytes=os.path.getsize(config["output"]), incomplete=[reason] if reason else [],
                              path=config["output"], frontend=self._frontend, measures=self._recorder.measures(), **summary)
        except (RuntimeError, OSError, MemoryError) as error:
            self._report.tell("failed", message=str(error))
        finally:
            self._recorder.clear()
            self._names = None
            self._close_lock()

    def _give_up(self, message):
        self._leave()
        self._step_hook.remove()
        self._state = "off"
        self._recorder.clear()
        self._names = None
        self._report.tell("refused", message=message)
        self._close_lock()

    def _close_lock(self):
        descriptor = self._config.get("lock_descriptor", -1)
        if descriptor >= 0:
            try:
                os.close(descriptor)
            except OSError:
                pass

    def _at_exit(self):
        if os.getpid() != self._pid:
            return
        if self._state == "waiting":
            self._report.tell("waiting", steps=self._steps, ended=True)
        elif self._state == "recording":
            done, wanted = self._recorder.measures()["complete_iterations"], self._config["iterations"]
            reason = f"recorded {done} of {wanted} iterations: {self._how_it_ended()}"
            if done > 0:
                self._finish(reason)
            else:
                self._give_up(f"no iteration was recorded whole: {self._how_it_ended()}")

    @staticmethod
    def _how_it_ended():
        error = getattr(sys, "last_value", None)
        if error is None:
            return "the program ended"
        where = traceback.extract_tb(getattr(sys, "last_traceback", None))
        line = f" at {os.path.basename(where[-1].filename)}:{where[-1].lineno}" if where else ""
        return f"the program ended with {type(error).__name__}: {error}{line}"

    def _forget_in_child(self):
        """A forked worker (of a DataLoader, say) must neither record nor write."""
        if self._state == "recording":
            self._recorder.stop()
        self._state = "off"
