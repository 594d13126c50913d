"""The test device as PyTorch sees it: torch.device("apart"), torch.apart. See device.hpp."""

import types

import _apart
import torch

module = types.ModuleType("torch.apart")
for name in ("poke", "fail_later", "late", "counts", "current_device", "set_device", "device_count", "synchronize",
             "is_current_stream_capturing"):
    setattr(module, name, getattr(_apart, name))


class Graph(_apart.Graph):
    """As torch.cuda.CUDAGraph: what is recorded of it is methods of a class of Python."""

    def capture_begin(self):
        super().capture_begin()

    def capture_end(self):
        super().capture_end()

    def replay(self):
        super().replay()


module.Graph = Graph
module.is_available = lambda: True
module.is_initialized = lambda: True
module._is_in_bad_fork = lambda: False
module.manual_seed = module.manual_seed_all = lambda seed: None
module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
module.current_stream = lambda device=None: torch.accelerator.current_stream(device)
torch.utils.rename_privateuse1_backend("apart")
torch._register_device_module("apart", module)
torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
