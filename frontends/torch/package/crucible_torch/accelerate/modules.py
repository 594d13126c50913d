"""What calling a torch.nn.Module or one of its methods means: a user's class is followed through its forward, torch's
own classes are trusted, and what they call of the user's (children, hooks) is followed too. Part of bytecode.py's
checker.
"""

import inspect
import types

import torch

from . import known as tables
from .classes import holder_of, own_special
from .values import (Iterator, Known, Missing, Outside, Plain, Rest, Tensor, Tuple, constant, constants, is_tensor,
                     join, join_all, known)

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
WRAPPED = {
    "DistributedDataParallel": "DistributedDataParallel", "DataParallel": "DataParallel",
    "FullyShardedDataParallel": "FSDP", "FSDPModule": "FSDP", "OptimizedModule": "torch.compile"
}


def why_not(module):
    """Why a module cannot be replayed as a whole, in words; None where it can."""
    for cls in type(module).__mro__:
        if cls.__name__ in WRAPPED and cls.__module__.startswith("torch."):
            return f"is wrapped by {WRAPPED[cls.__name__]}"
    if isinstance(module, torch.jit.ScriptModule):
        return "is a ScriptModule"
    if getattr(module, "_compiled_call_impl", None) is not None:
        return "is compiled by torch.compile"
    if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and module.has_uninitialized_params():
        return "has parameters that are not made yet"
    return None


class Modules:
    """Mixed into bytecode.Checker."""

    def call_module(self, frame, module, path, arguments, keywords, site):
        if (reason := why_not(module)) is not None:
            frame.refuse(f"calls {path}, which {reason}", "pass the module below it")
            return Tensor()
        for table in HOOKS:
            for at, hook in enumerate(vars(module).get(table, {}).values()):
                self.call(frame, known(hook, f"{path}.{table}[{at}]"), [Rest(Tensor(outside=True))], {},
                          (*site, table, at))
        special = own_special(module, "__call__")
        if special is not None and not tables.is_torch_callable(special):
            return self._call(frame, Known(special, f"{path}.__call__"), [Known(module, path), *arguments], keywords,
                              site)
        forward = vars(module).get("forward")
        if forward is not None:
            return self.call(frame, known(forward, f"{path}.forward"), arguments, keywords, site)
        return self.call_forward(frame, module, path, arguments, keywords, site)

    def call_forward(self, frame, module, path, arguments, keywords, site):
        forward = type(module).forward
        if tables.is_torch_throughout(forward):
            self.no_number(frame, f"gives {path}", *arguments, *keywords.values())
            if forward is torch.nn.Sequential.forward and len(arguments) == 1 and not isinstance(
                    arguments[0], Rest) and not keywords and not self.is_torch_all_through(module):
                value = arguments[0]
                for name, child in module._modules.items():
                    value = self.call_module(frame, child, f"{path}.{name}", [value], {}, (*site, name))
                return value
            is_of_users = self.follow_children(frame, module, path, site)
            is_of_users |= self._functions_among(frame, arguments, keywords, site)
            return Tensor(outside=is_of_users)
        if not isinstance(forward, types.FunctionType):
            self._unknown(frame, f"{path}.forward")
            return Tensor()
        return self._call(frame, known(forward, f"{path}.forward"), [Known(module, path), *arguments], keywords, site)

    def follow_children(self, frame, module, path, site):
        """Follows the modules of the user's that code of torch's may call. Whether there are any."""
        found = False
        for name, child in module.named_children():
            if not self.is_torch_all_through(child):
                found = True
                self.call_module(frame, child, f"{path}.{name}", [Rest(Tensor(outside=True))], {}, (*site, name))
        return found

    def is_torch_all_through(self, module):
        """Whether a module and all below it are torch's own classes without hooks and patches."""
        key = id(module)
        if key not in self.trusted_modules:
            self.trusted_modules[key] = all(
                tables.is_torch_class(type(part)) and why_not(part) is None and "forward" not in vars(part)
                and not any(vars(part).get(table) for table in HOOKS) for part in module.modules())
        return self.trusted_modules[key]

    def module_method(self, frame, owner, name, arguments, keywords, site):
        module, path = owner.obj, owner.path
        if name in ("__call__", "forward"):
            call = self.call_module if name == "__call__" else self.call_forward
            return call(frame, module, path, arguments, keywords, site)
        if name == "forward of torch":  # super().forward()
            is_of_users = self.follow_children(frame, module, path, site)
            is_of_users |= self._functions_among(frame, arguments, keywords, site)
            return Tensor(outside=is_of_users)
        if name in tables.MODULE_ITERATORS:
            return self._module_iterator(module, path, tables.MODULE_ITERATORS[name])
        if name in ("train", "eval"):
            is_constant, wanted = (True, name == "train") if name == "eval" or not arguments and not keywords else \
                constant(next(iter([*arguments, *keywords.values()])))
            mode = Known(bool(wanted), "constant") if is_constant else next(iter([*arguments, *keywords.values()]))
            of_users = own_special(module, "train") if name == "eval" else None
            if of_users is not None:
                self._call(frame, Known(of_users, f"{path}.train"), [owner, mode], {}, (*site, "train"))
            else:
                self.switch_mode(frame, module, path, mode, site)
            return owner
        if name == "requires_grad_" and self.sets_gradient(next(iter([*arguments, *keywords.values()]),
                                                                Known(True, "constant"))):
            return owner
        if name == "zero_grad":
            return Known(None, "constant")
        if name in ("items", "values", "keys") and isinstance(module, torch.nn.ModuleDict):
            keys = [Known(key, path) for key in module]
            children = [Known(child, f"{path}[{key!r}]") for key, child in module._modules.items()]
            pairs = [Tuple(pair) for pair in zip(keys, children)]
            found = {"items": pairs, "values": children, "keys": keys}[name]
            return Iterator(join_all(found)) if found else Tuple(())
        if name in ("items", "values", "keys", "get") and isinstance(module, torch.nn.ParameterDict):
            keys = join_all([Known(key, path) for key in module.keys()]) if len(module) else Plain()
            value = Tensor(outside=True)
            if name == "get":
                return join_all([value, *(arguments[1:] or [Known(None, "constant")])])
            return Iterator({"items": Tuple([keys, value]), "values": value, "keys": keys}[name])
        if name == "__getattr__":  # super().__getattr__() of a class that has its own
            return self.own_of(module, path, arguments)
        if name in ("__len__", "__contains__", "extra_repr", "_get_name"):
            return Plain()
        if name in ("get_submodule", "get_parameter", "get_buffer") and arguments and constant(arguments[0])[0]:
            try:
                found = getattr(module, name)(constant(arguments[0])[1])
            except AttributeError:
                return Outside(f"{path}.{name}()")
            return Known(found, f"{path}.{constant(arguments[0])[1]}")
        if name in ("state_dict",):
            made = self.fresh("dict", site)
            self.grow(made, Tensor(outside=True))
            return made
        if name in ("register_buffer", "register_parameter", "register_module", "add_module", "append", "extend",
                    "insert", "load_state_dict", "to", "cpu", "cuda", "half", "float", "double", "bfloat16", "type",
                    "requires_grad_", "apply", "share_memory", "compile", "_apply", "to_empty", "update", "pop",
                    "clear") or name.startswith(("register_", "set_", "__set", "__del")):
            frame.refuse(f"calls {path}.{name}(), which changes the module", "call it outside of the function")
            return Tensor()
        found = getattr(type(module), name, None)
        if isinstance(found, types.FunctionType) and tables.in_torch(found.__code__) and tables.is_torch_class(
                type(module)):
            self.follow_children(frame, module, path, site)
            return self._library(frame, arguments, keywords, site)
        self._unknown(frame, f"{path}.{name}")
        return Outside(f"{path}.{name}()")

    def own_of(self, module, path, arguments):
        """A parameter, a buffer or a child, as torch's own __getattr__ finds it."""
        result = None
        for name in (constants(arguments[0]) if arguments else None) or ():
            self.reach.names.add(name)
            found = [vars(module)[table][name] for table in ("_parameters", "_buffers", "_modules")
                     if name in vars(module).get(table, ())]
            result = join(result, self.count_at(holder_of(module, name), name) or known(found[0], f"{path}.{name}")
                          if found else Missing(f"{path}.{name}"))
        return result if result is not None else Outside(f"{path}.__getattr__()")

    @staticmethod
    def _module_iterator(module, path, kind):
        named = kind.startswith("named")
        if kind.endswith("tensor"):
            element = Tensor(outside=True)
        else:
            children = module.named_modules() if kind.endswith("module") else module.named_children()
            found = [Known(child, f"{path}.{name}" if name else path) for name, child in children]
            if not found:
                return Tuple(())
            element = join_all(found)
        return Iterator(Tuple([Plain(), element]) if named else element)

    def apply_function(self, frame, cls, arguments, keywords, site):
        """A user's autograd.Function: its forward, backward and set-up."""
        self.no_number(frame, f"gives {cls.__qualname__}", *arguments, *keywords.values())
        self.wrote(*arguments)
        context = self.fresh("namespace", (*site, "context"))
        self.grow(context, Tensor())
        given = [Tensor(outside=True) if is_tensor(value) else value for value in arguments]
        for name in ("forward", "backward", "setup_context", "jvp", "vmap"):
            found = inspect.getattr_static(cls, name, None)
            function = found.__func__ if isinstance(found, staticmethod) else None
            if function is None or tables.is_torch_callable(function):
                continue
            if name == "forward":
                values = given if "setup_context" in vars(cls) else [context, *given]
            else:
                values = [context, Rest(Tensor())]
            self._call(frame, Known(function, f"{cls.__qualname__}.{name}"), values, keywords, (*site, name))
        return Tensor()
