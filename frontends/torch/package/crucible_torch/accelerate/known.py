"""Which code is trusted, and which calls have effects that a replay would leave out. Tables for bytecode.py."""

import builtins
import collections
import contextlib
import itertools
import math
import operator
import os
import sys
import sysconfig
import types
import typing

import torch
import torch.nn.attention

TORCH_FOLDER = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
STANDARD_FOLDERS = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})

# Pure builtins that need no more than their arguments' kinds; those with a meaning of their own are in calls.py.
PURE_BUILTINS = frozenset({
    builtins.abs, builtins.ascii, builtins.bin, builtins.callable, builtins.chr, builtins.divmod, builtins.format,
    builtins.hash, builtins.hex, builtins.id, builtins.len, builtins.oct, builtins.ord, builtins.pow, builtins.repr,
    builtins.round, builtins.issubclass, builtins.slice, builtins.bytes, builtins.complex, builtins.str, builtins.int,
    builtins.float, builtins.bool, builtins.range, builtins.object})
PURE_MODULES = ("math", "cmath", "operator", "_operator", "numbers")
MATHEMATICS = {  # of numbers, one number each
    getattr(math, name): name
    for name in ("isnan", "isinf", "isfinite", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "pow",
                 "fabs", "floor", "ceil", "trunc", "tanh", "copysign", "fmod", "degrees", "radians", "sin", "cos",
                 "erf", "cbrt") if hasattr(math, name)
}
FRESH_TYPES = {list: "list", dict: "dict", set: "set", tuple: "tuple", frozenset: "set",
               collections.OrderedDict: "dict", collections.defaultdict: "dict", collections.deque: "list",
               collections.Counter: "dict", types.SimpleNamespace: "namespace", bytearray: "list"}
ITERTOOLS = frozenset({
    itertools.chain, itertools.product, itertools.repeat, itertools.islice, itertools.combinations,
    itertools.permutations, itertools.accumulate, itertools.zip_longest, itertools.count, itertools.starmap,
    itertools.chain.from_iterable, *filter(None, [getattr(itertools, "pairwise", None)])
})
SAME_OBJECT = frozenset({typing.cast})  # return their last argument
# Of the module operator: what stores, and what makes a function of a name.
CHANGING_OPERATORS = frozenset(
    name for name in dir(operator) if name in ("setitem", "delitem") or name[:1] == "i" and name not in
    ("index", "indexOf", "invert", "inv", "is_", "is_not", "is_none", "is_not_none", "itemgetter"))
CONTEXTS = (contextlib.nullcontext,)
# Contexts that say by which kernels torch computes, and take it back: what runs in them is recorded as it ran.
KERNEL_CONTEXTS = frozenset(
    {torch.backends.cudnn.flags, torch.backends.cuda.sdp_kernel, torch.nn.attention.sdpa_kernel})
MAKES_CONTEXT = contextlib.contextmanager(iter).__code__
# Python's own that are followed.
FOLLOWED_MODULES = frozenset({"_collections_abc", "collections", "collections.abc", "dataclasses"})

PURE_METHODS = frozenset({
    "get", "items", "keys", "values", "index", "count", "copy", "startswith", "endswith", "split", "rsplit", "join",
    "format", "replace", "lower", "upper", "strip", "lstrip", "rstrip", "union", "intersection", "difference",
    "issubset", "issuperset", "isdisjoint", "symmetric_difference", "is_integer", "bit_length", "title", "capitalize",
    "isdigit", "find", "rfind", "zfill", "partition", "rpartition", "encode", "decode", "conjugate", "as_integer_ratio",
    "hex", "removeprefix", "removesuffix", "isalpha", "isnumeric", "splitlines", "casefold", "numel", "_asdict",
    "_replace"
})
ADDING_METHODS = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "appendleft", "extendleft"})
CHANGING_METHODS = ADDING_METHODS | {
    "pop", "popleft", "popitem", "remove", "discard", "clear", "sort", "reverse", "rotate", "move_to_end",
    "difference_update", "intersection_update", "__setitem__", "__delitem__", "symmetric_difference_update"
}

# A tensor's attributes and methods that are no tensors and are known from what is guarded.
TENSOR_PLAIN = frozenset({
    "shape", "dtype", "device", "ndim", "requires_grad", "is_leaf", "layout", "itemsize", "nbytes", "is_cuda", "is_cpu",
    "is_mps", "is_sparse", "is_quantized", "is_meta", "is_nested", "is_xpu", "names", "size", "dim", "numel",
    "nelement", "stride", "element_size", "is_contiguous", "is_floating_point", "is_complex",
    "is_inference", "is_conj", "is_neg", "ndimension", "get_device", "type", "is_same_size", "is_signed", "__len__",
    "is_pinned"
})
TENSOR_LEAVES = frozenset({
    "numpy", "__bool__", "__float__", "__int__", "__index__", "equal", "allclose",
    "__array__", "data_ptr", "__repr__", "__str__", "__format__", "_version", "__dlpack__", "__contains__",
    "untyped_storage", "storage", "typed_storage", "storage_offset"
})
TENSOR_READ = frozenset({"item", "tolist", "is_nonzero"})  # numbers that are followed
TENSOR_DENIED = frozenset({
    "__enter__", "__exit__",
    "register_hook", "register_post_accumulate_grad_hook", "set_", "share_memory_", "apply_", "map_", "map2_",
    "resize_", "resize_as_", "pin_memory", "__setstate__", "rename_", "swap_tensors", "__reduce_ex__", "__reduce__",
    "cuda", "__setattr__", "__delattr__", "__dict__", "register_post_hook", "module_load"
})
TENSOR_NAMES = frozenset(dir(torch.Tensor))
TENSOR_DATA = frozenset(name for name in TENSOR_PLAIN if not callable(getattr(torch.Tensor, name, None)))

MODULE_ITERATORS = {"parameters": "tensor", "buffers": "tensor", "named_parameters": "named tensor",
                    "named_buffers": "named tensor", "modules": "module", "children": "child",
                    "named_modules": "named module", "named_children": "named child"}

# Parts of torch whose functions change or read what lies outside of a call; and single functions of that kind.
DENIED_PARTS = ("torch.backends", "torch.cuda", "torch.distributed", "torch.jit", "torch.hub", "torch.multiprocessing",
                "torch.random", "torch.profiler", "torch.serialization", "torch._dynamo", "torch._inductor",
                "torch.onnx", "torch.export", "torch.fx", "torch.package", "torch.utils.data",
                "torch.utils.tensorboard", "torch.utils.cpp_extension", "torch.monitor", "torch._logging",
                "torch.library", "torch.overrides", "torch.xpu", "torch.mps", "torch.accelerator",
                "torch.nn.modules.lazy", "torch.utils.benchmark", "torch.testing", "torch.nn.utils.parametrize",
                "torch.nn.utils.prune", "torch.utils.hooks", "torch.futures")
DENIED_NAMES = ("get_num_threads", "get_num_interop_threads", "get_float32_matmul_precision",
                "get_deterministic_debug_mode", "is_warn_always_enabled", "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "save", "load", "compile",
                "set_default_dtype", "set_default_tensor_type", "set_default_device", "set_num_threads",
                "set_num_interop_threads", "set_flush_denormal", "use_deterministic_algorithms",
                "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_printoptions", "set_warn_always",
                "set_anomaly_enabled", "from_file", "set_autocast_enabled", "set_autocast_dtype",
                "set_autocast_cpu_enabled", "set_autocast_cpu_dtype", "set_autocast_cache_enabled",
                "clear_autocast_cache", "autocast_increment_nesting", "from_numpy", "frombuffer", "from_dlpack", "vmap",
                "nn.utils.parameters_to_vector.x", "nn.utils.weight_norm", "nn.utils.remove_weight_norm",
                "nn.utils.spectral_norm", "utils.swap_tensors", "nn.modules.module.register_module_forward_hook",
                "nn.modules.module.register_module_forward_pre_hook",
                "nn.modules.module.register_module_full_backward_hook", "_C._set_grad_enabled",
                "nn.utils.vector_to_parameters", "autograd.set_multithreading_enabled.x", "set_vital",
                "init_num_threads", "autograd.graph.register_multi_grad_hook", "quantize_per_tensor.x", "_assert_async")
PLAIN_NAMES = (  # functions of torch that return no tensor and read only what is guarded
    "is_grad_enabled", "is_inference_mode_enabled", "is_tensor", "is_floating_point", "is_complex", "numel",
    "get_default_dtype", "finfo", "iinfo", "is_autocast_enabled", "get_autocast_dtype", "is_autocast_cpu_enabled",
    "get_autocast_cpu_dtype", "are_deterministic_algorithms_enabled", "is_storage", "broadcast_shapes", "promote_types",
    "result_type", "can_cast", "device", "Size", "get_default_device", "is_inference",
    "nn.functional.has_torch_function",
    "overrides.has_torch_function", "is_anomaly_enabled", "overrides.has_torch_function_unary",
    "overrides.has_torch_function_variadic")
NEVER_NAMES = (  # False in every call that is compiled
    "jit.is_scripting", "jit.is_tracing", "compiler.is_compiling", "compiler.is_dynamo_compiling",
    "compiler.is_exporting", "_dynamo.is_compiling", "onnx.is_in_onnx_export")
# Modules without parameters, which a call may make for itself.
MADE_INSIDE = ("torch.nn.modules.loss", "torch.nn.modules.distance", "torch.nn.modules.pooling",
               "torch.nn.modules.padding", "torch.nn.modules.flatten", "torch.nn.modules.upsampling",
               "torch.nn.modules.pixelshuffle", "torch.nn.modules.activation")
WITH_PARAMETERS = (torch.nn.MultiheadAttention, torch.nn.PReLU, torch.nn.AdaptiveLogSoftmaxWithLoss)
LEAVING_NAMES = ("equal", "allclose", "is_nonzero", "is_same_size.x")
CALL_MODES = ("set_grad_enabled",)  # contexts that act already when they are made


def _objects(names):
    found = {}
    for name in names:
        obj = torch
        for part in name.split("."):
            obj = vars(obj).get(part) if isinstance(obj, types.ModuleType) else getattr(obj, part, None)
        if obj is not None:
            found[id(obj)] = f"torch.{name}"
    return found


DENIED = _objects(DENIED_NAMES)
PLAIN = _objects(PLAIN_NAMES)
NEVER = _objects(NEVER_NAMES)
LEAVING = _objects(LEAVING_NAMES)
DATA = _objects(("tensor", "as_tensor", "scalar_tensor.x"))  # copy Python's numbers, which no slot follows
MODES = _objects(CALL_MODES)

# What is said of a call that is refused, by the first part of its module's name or by the builtin's.
REASONS = {
    "print": ("prints", "move the print behind the call, or return what it shows"),
    "input": ("waits for input", "ask before the call and pass the answer as an argument"),
    "open": ("opens a file", "read or write it outside of the call"),
    "exec": ("runs code that is made at run time", "write the code out"),
    "eval": ("runs code that is made at run time", "write the code out"),
    "compile": ("makes code at run time", "write the code out"),
    "next": ("takes the next of an iterator that lives on", "take it outside of the call and pass it as an argument"),
    "globals": ("reaches every global", "name the globals that are meant"),
    "locals": ("reaches every local", "name the variables that are meant"),
    "vars": ("reaches every attribute", "name the attributes that are meant"),
    "__import__": ("imports a module", "import it at the top of the file"),
    "breakpoint": ("stops in the debugger", "remove the breakpoint"),
    "random": ("draws from Python's random numbers", "draw with torch, or outside of the call"),
    "_random": ("draws from Python's random numbers", "draw with torch, or outside of the call"),
    "numpy": ("calls NumPy", "use torch's function of that name, or call it outside"),
    "time": ("reads the clock", "take the time outside of the call"),
    "datetime": ("reads the clock", "take the time outside of the call"),
    "os": ("reads or changes what lies outside of the process", "do it outside of the call and pass the result"),
    "posix": ("reads or changes what lies outside of the process", "do it outside of the call and pass the result"),
    "sys": ("reads or changes the interpreter", "do it outside of the call"),
    "io": ("reads or writes a file", "do it outside of the call"),
    "pathlib": ("reads or changes files", "do it outside of the call and pass the result"),
    "logging": ("writes a log", "move it behind the call"),
    "warnings": ("warns", "move it behind the call"),
    "_warnings": ("warns", "move it behind the call"),
    "tqdm": ("draws a progress bar", "move it outside of the call"),
    "wandb": ("writes a log", "move it behind the call"),
    "threading": ("works with threads", "do it outside of the call"),
    "subprocess": ("starts a process", "do it outside of the call"),
    "gc": ("changes the garbage collector", "do it outside of the call"),
    "copy": ("copies objects", "copy outside of the call, or clone tensors"),
}


def in_torch(code):
    """Whether a code object is torch's own."""
    return os.path.abspath(code.co_filename).startswith(TORCH_FOLDER)


def in_standard_library(code):
    name = code.co_filename
    return name.startswith(STANDARD_FOLDERS) and f"{os.sep}site-packages{os.sep}" not in name or name.startswith(
        "<frozen")


def module_name(obj):
    """The module of a callable, by its own word; "" where it says none."""
    name = getattr(obj, "__module__", None)
    if not isinstance(name, str):
        owner = getattr(obj, "__self__", None)
        name = owner.__name__ if isinstance(owner, types.ModuleType) else getattr(
            type(owner if owner is not None else obj), "__module__", "")
    return name if isinstance(name, str) else ""


def is_torch_class(cls):
    """Whether a class is torch's: by its word and by where the module of that name lies."""
    name = getattr(cls, "__module__", "") or ""
    if name != "torch" and not name.startswith("torch."):
        return False
    return str(getattr(sys.modules.get(name), "__file__", None) or TORCH_FOLDER).startswith((TORCH_FOLDER, "built-in"))


def is_torch_callable(obj):
    """Whether a callable is torch's own code, compiled or Python."""
    if isinstance(obj, types.FunctionType):
        return in_torch(obj.__code__)
    if isinstance(obj, type):
        return is_torch_class(obj)
    if isinstance(obj, types.MethodType):
        return is_torch_callable(obj.__func__)
    if isinstance(
            obj,
        (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType)):
        owner = getattr(obj, "__self__", None)
        owner_class = getattr(obj, "__objclass__", None) or (owner if isinstance(owner, type) else type(owner))
        name = owner.__name__ if isinstance(
            owner, types.ModuleType) else getattr(obj, "__module__", None) or owner_class.__module__
        return name == "torch" or str(name).startswith("torch.") or is_torch_class(owner_class)
    return is_torch_class(type(obj))


def is_torch_throughout(obj):
    """Whether a callable and what it wraps are torch's own."""
    while is_torch_callable(obj):
        if (inner := getattr(obj, "__wrapped__", None)) is None:
            return True
        obj = inner
    return False


def reason_for(obj):
    """(what objects and functions of its module do, advice) where a replay would leave that out; None otherwise."""
    root = module_name(obj).partition(".")[0]
    return REASONS.get(root.lstrip("_")) or REASONS.get(root) if root not in ("builtins", "compile", "copy") else None


def denied_part(obj):
    """The part of torch that a callable belongs to where that part is not allowed; None otherwise."""
    name = module_name(obj)
    return next((part for part in DENIED_PARTS if name == part or name.startswith(part + ".")), None)


def name_of(obj):
    """A callable's name as a person writes it."""
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", None) or type(obj).__qualname__
    module = module_name(obj)
    return name if module in ("builtins", "__main__", "") else f"{module}.{name}"
