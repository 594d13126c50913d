"""The stand-ins that watch.py puts in place, in plain Python: for a peer of `crucible bench`, which records nothing.

The same functions as the extension module's (python_hooks.hpp), without it: a peer runs under any torch, also one that
the recorder was not built for, and none of its work may pass through the recorder's kernels. A module call costs a
fraction of a microsecond more, so that peer.py takes that stand-in away before anything is timed.
"""

import threading


class PlainHooks:
    def __init__(self, torch):
        self._torch = torch
        self._depths = threading.local()  # backward passes, module calls and iterators that are running, by thread
        self._listeners = (None, None, None, None)
        self.losses = None  # a list: the values of what backward is called on are added to it

    def listen(self, backward_ended, module_entered, module_left, excluded_runs):
        self._listeners = (backward_ended, module_entered, module_left, excluded_runs)

    def set_phase(self, phase):
        return phase

    def in_backward(self):
        return getattr(self._depths, "backward", 0) > 0

    def wrap_start_thread(self, original):
        return original

    def makes_input(self):
        return getattr(self._depths, "input", 0) > 0

    def wrap_input(self, original):
        depths = self._depths

        def make(*args, **kwargs):
            depths.input = getattr(depths, "input", 0) + 1
            try:
                return original(*args, **kwargs)
            finally:
                depths.input -= 1

        return make

    wrap_next = wrap_input

    def wrap_closure(self, closure):
        return closure

    def wrap_backward(self, original):
        def backward(*args, **kwargs):
            if self.losses is not None and not self.makes_input():
                self._add_losses(args[0] if args else kwargs.get("tensors"))
            return self._in_backward(original, args, kwargs)

        return backward

    def wrap_grad(self, original):
        def grad(*args, **kwargs):
            return self._in_backward(original, args, kwargs)

        return grad

    def wrap_module_call(self, original):
        depths = self._depths

        def __call__(module, *args, **kwargs):
            _, entered, left, _ = self._listeners
            depth = getattr(depths, "module", 0)
            if left is None or depth > 0 or self.makes_input():
                return original(module, *args, **kwargs)
            entered(module, self._torch.is_grad_enabled())
            depths.module = depth + 1
            try:
                result = original(module, *args, **kwargs)
            finally:
                depths.module = depth
            left(module, result)
            return result

        return __call__

    def _in_backward(self, original, args, kwargs):
        if self.makes_input():
            return original(*args, **kwargs)
        depths = self._depths
        depths.backward = getattr(depths, "backward", 0) + 1
        try:
            result = original(*args, **kwargs)
        finally:
            depths.backward -= 1
        if depths.backward == 0 and self._listeners[0] is not None:
            self._listeners[0]()
        return result

    def _add_losses(self, tensors):
        """As the recorder: each tensor of one element, with its value at this moment."""
        for tensor in tensors if isinstance(tensors, (tuple, list)) else (tensors,):
            if isinstance(tensor, self._torch.Tensor) and tensor.numel() == 1:
                self.losses.append(tensor.detach().double().item())
