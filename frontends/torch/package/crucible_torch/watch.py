"""The places at which the session learns what the program does: optimizer steps, backward passes, module calls.

Installed from the import of torch until the recording is over. All stand-ins but those for captured graphs are C
functions of the extension module, which leave no line in tracebacks; all are taken back.
"""

import _thread
import functools
import sys
import threading

OPTIMIZER_PHASE, BACKWARD_PHASE, FORWARD_PHASE = 2, 1, 0
# Where torch.compile keeps what nn.Module.__call__ is, to know whether a program replaced it.
COMPILER_MODULES = ("torch._dynamo.utils", "torch._dynamo.variables.nn_module")


CAPTURES = ("the program captures a graph of its device's work while it is recorded: what is captured does not run then, "
            "and no op is seen when the graph is replayed; record it without graphs (torch.cuda.graph, torch.compile with "
            "mode reduce-overhead)")

LOADER_METHODS = (
    ("DataLoader", ("__iter__",)),
    ("_BaseDataLoaderIter", ("__init__", "_reset", "_next_index", "__next__")),
    ("_SingleProcessDataLoaderIter", ("__init__",)),
    ("_MultiProcessingDataLoaderIter", ("__init__", "_reset")),
)


def frames_compiled():
    """How many frames torch.compile has looked at: it compiles anew when recording begins, which tensors show it."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", {})
    return counters.get("frames", {}).get("total", 0)


def device_modules(torch):
    """Of the devices that the program may have initialised."""
    names = ("cuda", "xpu", torch._C._get_privateuse1_backend_name())
    return [module for module in map(vars(torch).get, names) if module is not None]


def is_capturing(torch):
    """Whether what the calling thread gives a device is captured for later: nothing may be waited for then."""
    for module in device_modules(torch):
        ask = vars(module).get("is_current_stream_capturing")
        if ask is not None and module.is_initialized() and ask():
            return True
    return False


def graph_classes(torch):
    """What captures a device's work, as classes of Python."""
    modules = [*device_modules(torch), vars(torch).get("accelerator")]
    return [
        owner for module in modules for name in ("CUDAGraph", "XPUGraph", "Graph")
        if isinstance(owner := vars(module).get(name) if module is not None else None, type)
    ]


def telling(tell, original):
    """A stand-in for a method that tells first."""

    @functools.wraps(original)
    def stand_in(*args, **keywords):
        tell()
        return original(*args, **keywords)

    return stand_in


class Watch:
    def __init__(self, recorder, torch, session):
        self._recorder = recorder
        self._torch = torch
        self._session = session
        self._hooks = []
        self._aside = []  # (table, key, hook) of those that are out of the way
        self._wrapped = []  # (owner, name, original, ours)
        self._stepping = []  # ids of the optimizers whose step is running

    def install(self):
        from torch.optim.optimizer import register_optimizer_step_post_hook

        recorder, session, autograd = self._recorder, self._session, self._torch.autograd
        self._hooks.append(register_optimizer_step_post_hook(self._after_optimizer_step))
        self._wrap(autograd, "backward", recorder.wrap_backward)
        self._wrap(autograd, "grad", recorder.wrap_grad)
        self.module_call = self._torch.nn.Module.__call__
        self._wrap(self._torch.nn.Module, "__call__", recorder.wrap_module_call)
        self._tell_compiler()
        self._wrap_loaders()
        for owner, name in ((_thread, "start_new_thread"), (threading, "_start_new_thread")):
            if name in vars(owner):
                self._wrap(owner, name, recorder.wrap_start_thread)
        recorder.listen(session.backward_ended, session.module_entered, session.module_left, session.excluded_runs)

    def watch_phases(self):
        """From now on optimizers' ops are told from others."""
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._stepping.clear()
        self._hooks.append(register_optimizer_step_pre_hook(self._before_optimizer_step))
        self._wrap_graphs()

    def leave_phases(self):
        while len(self._hooks) > 1:
            self._hooks.pop().remove()

    def step_aside(self):
        """For a while torch has its own functions and no hooks of ours; step_back() puts the same ones there again."""
        self._aside = [(handle.hooks_dict_ref(), handle.id) for handle in self._hooks]
        self._aside = [(hooks, key, hooks.pop(key)) for hooks, key in self._aside if hooks and key in hooks]
        for owner, name, original, ours in self._wrapped:
            if owner.__dict__.get(name) is ours:
                setattr(owner, name, original)
        self._tell_compiler()

    def step_back(self):
        for hooks, key, hook in self._aside:
            hooks[key] = hook
        for owner, name, original, ours in self._wrapped:
            if owner.__dict__.get(name) is original:  # else the program has put something else there
                setattr(owner, name, ours)
        self._tell_compiler()

    def remove(self):
        self._recorder.listen(None, None, None, None)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for owner, name, original, ours in self._wrapped:
            if owner.__dict__.get(name) is ours:
                setattr(owner, name, original)
        self._wrapped.clear()
        self._tell_compiler()

    def remove_module_call(self):
        """Module calls are seen no longer; everything else is."""
        for entry in [entry for entry in self._wrapped if entry[1] == "__call__"]:
            owner, name, original, ours = entry
            if owner.__dict__.get(name) is ours:
                setattr(owner, name, original)
            self._wrapped.remove(entry)
        self._tell_compiler()

    def _wrap(self, owner, name, wrap):
        original = owner.__dict__[name]
        ours = wrap(original)
        setattr(owner, name, ours)
        self._wrapped.append((owner, name, original, ours))

    def _wrap_loaders(self):
        """Where a DataLoader's iterator is made and asked: samplers, dataset, transforms and collate function run
        there. Classes of other libraries that derive from these call them for their share."""
        recorder, data = self._recorder, sys.modules.get("torch.utils.data.dataloader")
        for kind, names in LOADER_METHODS if data is not None else ():
            owner = getattr(data, kind, None)
            for name in names:
                if owner is not None and callable(vars(owner).get(name)):
                    self._wrap(owner, name, recorder.wrap_next if name == "__next__" else recorder.wrap_input)

    def _wrap_graphs(self):
        """Classes of Python whose objects capture what a device's stream is given, and do it again as one."""
        wrapped = {(owner, name) for owner, name, _, _ in self._wrapped}
        for owner in graph_classes(self._torch):
            for name, tell in (("capture_begin", self._session.capture_begins),
                               ("replay", self._session.graph_replayed)):
                if callable(vars(owner).get(name)) and (owner, name) not in wrapped:
                    self._wrap(owner, name, functools.partial(telling, tell))

    def _tell_compiler(self):
        present = self._torch.nn.Module.__call__
        for name in COMPILER_MODULES:
            module = sys.modules.get(name)
            if module is not None and hasattr(module, "unpatched_nn_module_call"):
                module.unpatched_nn_module_call = present

    # Optimizers

    def _before_optimizer_step(self, optimizer, args, kwargs):
        if id(optimizer) in self._stepping:
            del self._stepping[self._stepping.index(id(optimizer)):]  # its last step raised
        self._stepping.append(id(optimizer))
        self._recorder.set_phase(OPTIMIZER_PHASE)
        self._session.optimizer_steps(optimizer)
        # What a closure computes is forward and backward, not the optimizer.
        if len(args) > 1 and callable(args[1]):
            return (args[0], self._recorder.wrap_closure(args[1]), *args[2:]), kwargs
        if callable(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._recorder.wrap_closure(kwargs["closure"])}
        return None

    def _after_optimizer_step(self, optimizer, args, kwargs):
        if self._recorder.makes_input():
            return  # of what data is made with
        in_backward = self._recorder.in_backward()
        if id(optimizer) in self._stepping:
            del self._stepping[self._stepping.index(id(optimizer)):]
            self._recorder.set_phase(
                OPTIMIZER_PHASE if self._stepping else BACKWARD_PHASE if in_backward else FORWARD_PHASE)
        self._session.optimizer_stepped(optimizer, in_backward)
