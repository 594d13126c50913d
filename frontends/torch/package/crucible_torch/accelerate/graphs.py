"""Which graphs of autograd a call has used up: what hangs on them comes back without a graph, as it is of no use."""

from __future__ import annotations

import threading
from typing import Any

import torch


class BackwardRoots:
    """Sees the calls of backward() between `with` and its end, on this thread."""

    def __init__(self) -> None:
        self._roots: list[Any] = []
        self._thread = threading.get_ident()
        self._original: Any = None

    def __enter__(self) -> "BackwardRoots":
        self._original = torch.autograd.backward
        original, roots, thread = self._original, self._roots, self._thread

        def backward(tensors: Any, grad_tensors: Any = None, retain_graph: Any = None, create_graph: bool = False,
                     *args: Any, **kwargs: Any) -> Any:
            keeps = retain_graph if retain_graph is not None else create_graph
            if threading.get_ident() == thread and not keeps:
                some = (tensors, ) if isinstance(tensors, torch.Tensor) else tuple(tensors)
                roots.extend(tensor.grad_fn for tensor in some if isinstance(tensor, torch.Tensor))
            return original(tensors, grad_tensors, retain_graph, create_graph, *args, **kwargs)

        torch.autograd.backward = backward
        return self

    def __exit__(self, *_: Any) -> None:
        torch.autograd.backward = self._original

    def are_used_up(self, tensor: torch.Tensor) -> bool:
        """Whether backward has run through all of the tensor's graph and let go of it."""
        wanted, seen = tensor.grad_fn, set()
        pending = [root for root in self._roots if root is not None]
        while pending:
            node = pending.pop()
            if node is wanted:
                return True
            if node in seen:
                continue
            seen.add(node)
            pending.extend(following for following, _ in node.next_functions if following is not None)
        return False
