"""Everything that a function can see: `look` walks from it through closures, globals, defaults, attributes and
containers, along the names that its code reads (bytecode.Reach), and through modules and optimizers whole.
`Visible.guards` watches what was found.

Paths are stable from walk to walk and name things as a person writes them: `net.dropout.training`, `config['width']`,
`self.scale`, `step.__defaults__[0]`; names of other files are `module.name`. Optimizers are numbered in the order of
`Visible.optimizers`, which is the order in which the walk meets them: `optimizer[0].param_groups[1]['lr']`,
`optimizer[0].param_groups[1]['betas'][0]`, `optimizer[0].state[1][2]['exp_avg']` for the third parameter of the
second group. `rules.py` names its sources so too.
"""

import array
import collections
import enum
import functools
import os
import sys
import types

import torch
from torch.utils import _pytree as pytree

from . import known as tables
from .bytecode import Refusal, argument_paths, follow, name_of
from .calls import SCALERS
from .modules import HOOKS, why_not
from .classes import SCHEDULERS, is_user_class, own_dict
from .structure import objects_among
from .values import is_simple

MOST_OBJECTS = 200_000
TABLES = ("_parameters", "_buffers", "_modules")
# A module's own tables that no call reads by themselves: hooks' kinds change together with the tables that are watched.
UNREAD = {
    "_non_persistent_buffers_set", "_is_full_backward_hook", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"
}
MODULE_NAMES = ("training", *TABLES, *HOOKS, "forward", "_compiled_call_impl")
OPTIMIZER_SKIPPED = {
    "_step_count", "_opt_called", "_warned_capturable_if_run_uncaptured", "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks"
}
SCALER_NAMES = ("_enabled", "_device", "_growth_factor", "_backoff_factor", "_growth_interval", "_scale",
                "_growth_tracker")
# Names in classes that Python writes by itself.
IGNORED = {
    "__annotations__", "__doc__", "__module__", "__weakref__", "__dict__", "__abstractmethods__", "_abc_impl",
    "__parameters__", "__slotnames__", "__static_attributes__", "__firstlineno__", "__annotate__",
    "__annotations_cache__", "__orig_bases__", "__match_args__"
}
ARRAYS = (array.array, bytearray, memoryview)
LIBRARY_PARTS = ("torch", "torch.nn.functional")


class Visible:
    """What a function can see.

    `tensors`: [(path, tensor)], each once; `modules`, `optimizers`, `schedulers`, `scalers`: [(path, object)];
    `values`: {path: simple value}; `refusals`: what cannot be watched, and why.
    """

    def __init__(self):
        self.tensors, self.modules, self.optimizers, self.schedulers, self.scalers = [], [], [], [], []
        self.values, self.refusals = {}, []
        self._watches = []  # (method of Guards, its arguments)
        self._groups = []  # (param_group, path)
        self._numbers = []  # (state of a parameter, path)

    def guards(self, skip=frozenset()):
        """A `Guards` that compares all of it with what it is now; call it right after the walk.

        `skip`: paths of hyperparameters that are computed anew for each call: their values may move, but not their
        kind, nor whether they are zero (a learning rate may be). Errors: RuntimeError where the native part is not
        built.
        """
        from .._accelerate import Guards
        guards = Guards()
        guards.watch_state()
        for method, arguments in self._watches:
            getattr(guards, method)(*arguments)
        for group, path in self._groups:
            guards.watch_keys(group, path)
            guards.watch_dict(group, path,
                              {key: group_mode(f"{path}[{key!r}]", key, value, skip)
                               for key, value in group.items()})
        for state, path in self._numbers:
            guards.watch_keys(state, path)
            guards.watch_dict(state, path, {key: "number" if f"{path}[{key!r}]" in skip else "value" for key in state})
        return guards


def group_mode(path, key, value, skip):
    """How a hyperparameter is compared."""
    if isinstance(value, tuple):
        return tuple("zeroness" if f"{path}[{at}]" in skip else "value" for at in range(len(value)))
    if path not in skip:
        return "value"
    return "number" if key == "lr" else "zeroness"


class _Walk:
    """One walk; objects are met once."""

    def __init__(self, reach):
        self.reach = reach
        self.found = Visible()
        self.seen = {}  # id: object, which keeps the id taken
        self.waiting = []  # the next at the end
        self.children = []  # of the object that is looked into
        self.later = []  # optimizers: what their parameters are called is the modules' to say
        self.too_many = False

    def refuse(self, path, what, advice):
        self.found.refusals.append(Refusal("", 0, f"{path} {what}", advice))

    def watch(self, method, *arguments):
        self.found._watches.append((method, arguments))

    def add(self, obj, path):
        """Notes a value, and looks into the object later."""
        if is_simple(obj):
            at, number = path, 2
            while at in self.found.values and self.found.values[at] is not obj and number < 1000:
                at, number = f"{path}#{number}", number + 1
            self.found.values[at] = obj
        elif id(obj) not in self.seen:
            if len(self.seen) >= MOST_OBJECTS:
                if not self.too_many:
                    self.refuse(path, f"is one of more than {MOST_OBJECTS} objects",
                                "keep large tables out of what the function can see")
                self.too_many = True
                return
            self.seen[id(obj)] = obj
            (self.later if isinstance(obj, torch.optim.Optimizer) else self.children).append((obj, path))

    def run(self):
        """Looks into everything, depth first, in the order in which it was met; optimizers last."""
        while self.waiting or self.children or self.later:
            self.waiting.extend(reversed(self.children))
            self.children = []
            obj, path = self.waiting.pop() if self.waiting else self.later.pop(0)
            self.look_into(obj, path)

    def look_into(self, obj, path):
        if isinstance(obj, torch.Tensor):
            self.tensor(obj, path)
        elif isinstance(obj, torch.nn.Module):
            self.module(obj, path)
        elif isinstance(obj, torch.optim.Optimizer):
            self.optimizer(obj, path)
        elif isinstance(obj, SCHEDULERS):
            self.found.schedulers.append((path, obj))
            self.watch("watch_type", obj, path)
            self.attributes(obj, path, sorted(self.reach.names & vars(obj).keys() - {"optimizer"}))
            self.add(obj.optimizer, f"{path}.optimizer")
        elif isinstance(obj, SCALERS):
            self.found.scalers.append((path, obj))
            self.watch("watch_type", obj, path)
            self.attributes(obj, path, SCALER_NAMES)
        elif isinstance(obj, (list, tuple, dict, set, frozenset, collections.deque)):
            self.container(obj, path)
        elif isinstance(obj, types.MethodType):
            self.add(obj.__self__, "self" if path.startswith("self.") and path.count(".") == 1 else f"{path}.__self__")
        elif isinstance(obj, functools.partial):
            self.add(obj.func, f"{path}.func")
            self.add(obj.args, f"{path}.args")
            self.add(obj.keywords, f"{path}.keywords")
        elif isinstance(obj, type):
            if is_user_class(obj):
                self.user_class(obj)
        elif isinstance(obj, ARRAYS) or type(obj).__module__ == "numpy" and type(obj).__name__ == "ndarray":
            self.refuse(path, f"is a {type(obj).__name__}, whose elements are not watched",
                        "make it a tensor, or pass it as an argument")
        elif isinstance(obj, torch.Generator):
            self.refuse(path, "is a generator of random numbers of its own", "use torch's default generator")
        elif isinstance(obj, (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, enum.Enum)):
            return  # functions that are called are in `reach`, and so are the modules that are read
        elif tables.is_torch_class(type(obj)):
            if own := own_dict(obj):  # torch's own things are what they are, but for what is read of them
                names = own.keys() if id(obj) in self.reach.whole else self.reach.names & own.keys()
                self.attributes(obj, path, sorted(names))
        else:
            self.instance(obj, path)

    # Plain objects.

    def attributes(self, obj, path, names):
        """Watches some attributes in an object's own dict, those that are not there as well."""
        own = own_dict(obj)
        names = self.uncounted(own, names)
        self.watch("watch_dict", own, f"{path}.__dict__", dict.fromkeys(names, "value"))
        for name in names:
            if name in own:
                self.add(own[name], f"{path}.{name}")

    def uncounted(self, holder, names):
        """Without what the function counts up, which decides nothing, and what it stores: both move in every call."""
        counters, stored = self.reach.counters, self.reach.stored
        return [name for name in names if (id(holder), name) not in counters and (id(holder), name) not in stored
                ] if counters or stored else names

    def instance(self, obj, path):
        cls = type(obj)
        if (own := own_dict(obj)) is not None:
            self.watch("watch_type", obj, path)
            self.attributes(obj, path, sorted(self.reach.names))
            if id(obj) in self.reach.whole:
                self.add(own, f"{path}.__dict__")
                for value in own.values():  # and what it consists of
                    if is_user_class(type(value)) and own_dict(value) is not None:
                        self.reach.whole[id(value)] = value
        slots = {
            name
            for base in cls.__mro__
            for name in vars(base) if isinstance(vars(base)[name], types.MemberDescriptorType)
        }
        if (read := sorted(slots & self.reach.names)) and is_user_class(cls):
            self.refuse(path, f"has __slots__ ({read[0]}), which are not watched", "use a class without __slots__")
        if is_user_class(cls):
            self.user_class(cls)

    def user_class(self, cls):
        if (cls, "class") in self.seen:
            return
        self.seen[cls, "class"] = cls
        names = set(self.reach.names)
        whole = any(tables.is_torch_class(base) and base is not torch.nn.Module for base in cls.__mro__[:-1])
        for base in cls.__mro__[:-1]:
            for name, value in vars(base).items():
                if name in IGNORED:
                    continue
                if name.startswith("__") or name in self.reach.names or whole or callable(
                        value) or tables.is_torch_class(base):
                    names.add(name)
                if name in self.reach.names and is_user_class(base) and not isinstance(
                        value, (staticmethod, classmethod, property)):
                    self.add(value, f"{base.__qualname__}.{name}")
        self.watch("watch_class", cls, cls.__qualname__, sorted(names))
        for base in cls.__mro__[:-1]:
            if tables.is_torch_class(base):
                self.library(base.__module__)

    def library(self, name):
        """Watches the functions of one of torch's own modules: they can be replaced too."""
        module = sys.modules.get(name)
        if module is None or ("library", name) in self.seen:
            return
        self.seen["library", name] = module
        names = [key for key, value in vars(module).items() if callable(value)]
        self.watch("watch_dict", vars(module), f"{name}.__dict__", dict.fromkeys(names, "is"))

    def container(self, obj, path):
        if isinstance(obj, list):
            self.watch("watch_list", obj, path)
        elif isinstance(obj, dict):
            self.watch("watch_keys", obj, path)
            watched = self.uncounted(obj, obj)
            self.watch("watch_dict", obj, path, dict.fromkeys(watched, "value"))
            if is_user_class(type(obj)):
                self.instance(obj, path)
            for key in watched:
                self.add(dict.__getitem__(obj, key),
                         f"{path}[{key!r}]" if is_simple(key) else f"{path}[{type(key).__name__}]")
            return
        elif isinstance(obj, set):
            self.watch("watch_set", obj, path)
        elif isinstance(obj, collections.deque):
            self.refuse(path, "is a deque, whose elements are not watched", "use a list")
            return
        if is_user_class(type(obj)) and hasattr(obj, "__dict__"):
            self.instance(obj, path)
        kind = next(kind for kind in (list, tuple, set, frozenset) if isinstance(obj, kind))
        for at, value in enumerate(kind.__iter__(obj)):
            self.add(value, f"{path}[{at}]")

    def tensor(self, tensor, path):
        reason = why_not_tensor(tensor)
        if reason is not None:
            self.refuse(path, *reason)
            return
        self.found.tensors.append((path, tensor))
        self.watch("watch_tensor", tensor, path)
        if vars(tensor) or id(tensor) in self.reach.whole:
            self.attributes(tensor, path, sorted(self.reach.names | vars(tensor).keys()))

    # torch's own.

    def module(self, module, path):
        self.found.modules.append((path, module))
        if (reason := why_not(module)) is not None:
            self.refuse(path, reason, "pass the module below it")
            return
        cls = type(module)
        self.watch("watch_type", module, path)
        self.user_class(cls)
        own = own_dict(module)
        whole = any(tables.is_torch_class(base) and base is not torch.nn.Module for base in cls.__mro__[:-1])
        names = set(MODULE_NAMES) | self.reach.names | (own.keys() - UNREAD if whole else set())
        if id(module) in self.reach.whole:
            names |= own.keys() - {*TABLES, *HOOKS, *UNREAD}
        names = set(self.uncounted(own, names))
        self.watch("watch_dict", own, f"{path}.__dict__", dict.fromkeys(sorted(names), "value"))
        for name in TABLES:
            table = own.get(name, {})
            self.watch("watch_keys", table, f"{path}.__dict__")
            watched = self.uncounted(table, table)
            self.watch("watch_dict", table, f"{path}.__dict__", dict.fromkeys(watched, "value"))
            for key in watched:
                self.add(table[key], f"{path}.{key}")
        for name in HOOKS:
            if isinstance(hooks := own.get(name), dict):
                self.watch("watch_keys", hooks, f"{path}.{name}")
                if hooks:
                    self.watch("watch_dict", hooks, f"{path}.{name}", dict.fromkeys(hooks, "value"))
        for name in sorted(names - set(TABLES) - set(HOOKS)):
            if name in own:
                self.add(own[name], f"{path}.{name}")

    def optimizer(self, optimizer, path):
        path = f"optimizer[{len(self.found.optimizers)}]"
        self.found.optimizers.append((path, optimizer))
        self.watch("watch_type", optimizer, path)
        self.user_class(type(optimizer))
        own = vars(optimizer)
        self.watch(
            "watch_dict", own, f"{path}.__dict__",
            dict.fromkeys([name for name in (*own, "zero_grad", "step") if name not in OPTIMIZER_SKIPPED], "value"))
        for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks"):
            if isinstance(hooks := own.get(name), dict):
                self.watch("watch_keys", hooks, f"{path}.{name}")
                if hooks:
                    self.refuse(path, f"has {name.strip('_').replace('_', ' ')}",
                                "remove the hook, and do its work in the function")
        self.seen[id(optimizer.param_groups)] = optimizer.param_groups
        self.seen[id(optimizer.state)] = optimizer.state
        self.watch("watch_list", optimizer.param_groups, f"{path}.param_groups")
        self.watch("watch_keys", optimizer.state, f"{path}.state")
        self.watch("watch_dict", optimizer.state, f"{path}.state", dict.fromkeys(optimizer.state, "value"))
        for at, group in enumerate(optimizer.param_groups):
            self.group(optimizer, group, f"{path}.param_groups[{at}]", f"{path}.state[{at}]")
        for key, value in optimizer.state.items():  # state of no parameter
            if not isinstance(key, torch.Tensor):
                self.add(value, f"{path}.state[{key!r}]")

    def group(self, optimizer, group, path, state_path):
        self.seen[id(group)] = group
        self.found._groups.append((group, path))
        for key, value in group.items():
            if key != "params":
                self.add(value, f"{path}[{key!r}]")
                if type(value) is tuple:
                    for at, item in enumerate(value):
                        self.add(item, f"{path}[{key!r}][{at}]")
        self.watch("watch_list", group["params"], f"{path}['params']")
        for at, parameter in enumerate(group["params"]):
            self.add(parameter, f"{path}['params'][{at}]")
            state = optimizer.state.get(parameter)
            if isinstance(state, dict):
                self.seen[id(state)] = state
                self.found._numbers.append((state, f"{state_path}[{at}]"))
                for key, value in state.items():
                    self.add(value, f"{state_path}[{at}][{key!r}]")

    # Where the walk begins.

    def reached(self):
        """What the function's code reads by name, and the functions that it calls."""
        for function, path in list(self.reach.functions.values()):
            self.watch("watch_function", function, path)
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
                if not self.uncounted(cell, [None]):
                    continue
                self.watch("watch_cell", cell, name)
                try:
                    self.add(cell.cell_contents, name)
                except ValueError:
                    continue  # empty as yet: that is watched too
            for at, value in enumerate(function.__defaults__ or ()):
                self.add(value, f"{path}.__defaults__[{at}]")
            if function.__kwdefaults__ is not None:
                self.add(function.__kwdefaults__, f"{path}.__kwdefaults__")
        for names, prefix, read in self.reach.globals.values():
            read = set(self.uncounted(names, read))
            where = prefix.removesuffix(".") or names.get("__name__", "?")
            self.watch("watch_dict", names, f"{where}.__dict__", dict.fromkeys(sorted(read), "value"))
            builtins = names.get("__builtins__")
            builtins = vars(builtins) if isinstance(builtins, types.ModuleType) else builtins
            if missing := sorted(name for name in read if name not in names):
                self.watch("watch_dict", builtins, "builtins.__dict__", dict.fromkeys(missing, "value"))
            for name in sorted(read & names.keys()):
                self.add(names[name], prefix + name)
        for module, read in self.reach.modules.values():
            present = sorted(self.uncounted(vars(module), read & vars(module).keys()))
            self.watch("watch_dict", vars(module), f"{module.__name__}.__dict__", dict.fromkeys(present, "value"))
            if not tables.is_torch_class(types.SimpleNamespace(__module__=module.__name__)):
                for name in present:
                    self.add(vars(module)[name], f"{module.__name__}.{name}")
        for cls in self.reach.classes.values():
            self.user_class(cls)
        if self.reach.environment:
            names = [os.environ.encodekey(name) for name in sorted(self.reach.environment)]
            self.watch("watch_dict", os.environ._data, "os.environ", dict.fromkeys(names, "value"))

    def settings(self):
        """Hooks and functions of torch that are for all modules, tensors and optimizers."""
        for name in LIBRARY_PARTS:
            self.library(name)
        self.watch("watch_class", torch.Tensor, "torch.Tensor",
                   [name for name in dir(torch.Tensor) if name not in IGNORED])
        for module in (sys.modules["torch.nn.modules.module"], sys.modules["torch.optim.optimizer"]):
            for name, value in vars(module).items():
                if name.startswith("_global_") and isinstance(value, dict):
                    self.watch("watch_keys", value, f"{module.__name__}.{name}")
                    if value and "registration" not in name:
                        self.refuse(f"{module.__name__}.{name}", "has a hook for all of them", "remove the hook")


def why_not_tensor(tensor):
    """(what is wrong, what to change) of a tensor that cannot be bound where it lies; None where it can."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter)) and \
            not isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        return f"is a {type(tensor).__qualname__}, a tensor of a class of its own", "use plain tensors"
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        return "is not made yet", "run the model once"
    if tensor.layout is not torch.strided:
        return f"is {str(tensor.layout).removeprefix('torch.')}", "use a dense tensor"
    if tensor.is_complex():
        return "is complex", "use real tensors (torch.view_as_real)"
    if tensor.is_quantized or tensor.is_nested:
        return "is quantized or nested", "use a dense tensor"
    if tensor.device.type != "cpu":
        return f"lies on {tensor.device}", "move it to the CPU"
    if tensor.grad_fn is not None and tensor.requires_grad:
        return "is the result of a graph that was built before the call", "detach it, or compute it in the function"
    if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
        return "has a hook", "remove the hook, and do its work in the function"
    return None


def look(function, reach=None, arguments=(), keywords=None):
    """What `function` can see now, a Visible. `reach`: what bytecode.follow found of it, which is looked for here
    where it is None.

    Objects among the arguments - modules, optimizers, functions, configurations - are walked too, as `argument model`;
    whoever calls must see that the next call is given the same ones. Tensors and simple values are the caller's to
    compare.

    Makes nothing and changes nothing; call it again when something may have been made (an optimizer's state in its
    first step).
    """
    if reach is None:
        reach = follow(function, arguments, keywords)[1]
    walk = _Walk(reach)
    walk.settings()
    walk.reached()
    walk.add(function, name_of(function))
    paths = [*argument_paths(function, arguments), *(f"argument {name}" for name in keywords or {})]
    for value, path in zip([*arguments, *(keywords or {}).values()], paths):
        for obj in objects_among(tuple(pytree.tree_leaves(value))):
            walk.add(obj, path)
    walk.run()
    return walk.found
