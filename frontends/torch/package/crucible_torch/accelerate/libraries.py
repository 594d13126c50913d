"""Functions of libraries that crucible.accelerate takes at their word, each with the reason. Everything else of a library
is followed by its bytecode as the user's own code is: what is not in this table is not trusted.

An entry is the function's module and name as its own code says them, and what a call gives: "nothing" (None), "plain" (a
bool or a text that is the same as long as the process lives), "copy" (an object that depends on nothing but all attributes
of its arguments: it is called once while a function is followed, and those are watched), "keeps" (nothing, but "kept" gives
what its object was given last in the same call). It holds only for code that lies
in the library's folder.
"""

import functools
import inspect
import os
import sys
import types

from .classes import static

ONCE = "shows a hint once; the first calls, which are eager, have shown it"
INSTALLED = "asks what is installed, which is the same as long as the process lives"
TRACED = "asks whether torch.compile, torch.jit or torch.fx trace the call, in which no call is compiled"

TRUSTED = {
    "transformers.utils.logging.warning_once": ("nothing", ONCE),
    "transformers.utils.logging.info_once": ("nothing", ONCE),
    "transformers.modeling_utils.PreTrainedModel.warn_if_padding_and_no_attention_mask": ("nothing", ONCE),
    "transformers.utils.generic._register_model_output_pytree_node":
    ("nothing", "tells torch's trees of a class of outputs, once for each class"),
    "transformers.utils.output_capturing.CompileableContextVar.set":
    ("keeps", "says where hooks put outputs that were asked for; capture_outputs takes it back when the call ends"),
    "transformers.utils.output_capturing.CompileableContextVar.get":
    ("kept", "gives hooks what set was given in the same call, and None where it was given nothing"),
    "transformers.utils.output_capturing.CompileableContextVar.reset": ("nothing", "takes back what set has done"),
    "transformers.utils.import_utils.is_tracing": ("plain", TRACED),
    "transformers.utils.import_utils.is_torchdynamo_compiling": ("plain", TRACED),
    "transformers.utils.import_utils.is_torchdynamo_exporting": ("plain", TRACED),
    "transformers.utils.import_utils.is_torch_fx_proxy": ("plain", TRACED),
    "transformers.utils.import_utils.is_jit_tracing": ("plain", TRACED),
    "transformers.utils.import_utils.is_torch_greater_or_equal": ("plain", INSTALLED),
    "transformers.utils.import_utils.is_torch_less_or_equal": ("plain", INSTALLED),
    "transformers.utils.import_utils.get_torch_version": ("plain", INSTALLED),
    "transformers.utils.import_utils._is_package_available": ("plain", INSTALLED),
    "transformers.configuration_utils.PreTrainedConfig.get_text_config":
    ("copy", "gives the configuration, a part of it, or a copy with other names"),
    "transformers.cache_utils.get_layer_types_and_kwargs":
    ("copy", "says by the configuration which kind of cache each layer has"),
    "transformers.utils.import_utils.is_torch_available": ("plain", INSTALLED),
    "transformers.utils.import_utils.is_torch_distributed_available": ("plain", INSTALLED),
}


@functools.lru_cache(maxsize=None)
def _folder(library):
    path = getattr(sys.modules.get(library), "__file__", None)
    return os.path.dirname(os.path.abspath(path)) + os.sep if path else None


def answer(function):
    """What a call of a trusted function gives, as above; None for any other function."""
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
    if name not in TRUSTED:
        return None
    code = getattr(inspect.unwrap(function), "__code__", None)
    folder = _folder(name.partition(".")[0])
    if not isinstance(code, types.CodeType) or folder is None or not code.co_filename.startswith(folder):
        return None
    return TRUSTED[name][0]


def attribute(obj, name):
    """The trusted function that an attribute of an object's class is, or None."""
    where, found = static(obj, name)
    callable_there = where == "class" and isinstance(found, (types.FunctionType, functools._lru_cache_wrapper))
    return found if callable_there and answer(found) is not None else None
