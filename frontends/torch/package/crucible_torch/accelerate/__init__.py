"""`crucible.accelerate`: a function of tensors is watched for a few calls, compiled in the background, and then replayed
where it was called. docs/accelerate.md has the rules; policy.py is where a call comes in."""

from __future__ import annotations

from typing import Any


def make(target: Any, options: dict[str, Any]) -> Any:
    """What crucible.accelerate() gives for a function or a module."""
    import torch

    if isinstance(target, torch.nn.Module):
        from crucible_torch.accelerate.module import AcceleratedModule

        return AcceleratedModule(target, **options)
    if not callable(target):
        raise TypeError(f"crucible.accelerate() takes a function or a module, not a {type(target).__name__}")
    from crucible_torch.accelerate.policy import Accelerated

    return Accelerated(target, **options)
