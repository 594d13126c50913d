"""A module in the place of another one, for inference: calls without gradients are compiled, all others are eager."""

from __future__ import annotations

from typing import Any

import torch

from crucible_torch.accelerate.policy import Accelerated


def _itself(module: torch.nn.Module) -> torch.nn.Module:
    return module


class AcceleratedModule:
    """Attributes are the module's. Threads: as Accelerated."""

    def __init__(self, module: torch.nn.Module, **options: Any):
        call = Accelerated(module, **options)
        call.__name__ = type(module).__name__
        object.__setattr__(self, "_module", module)
        object.__setattr__(self, "_accelerated", call)
        object.__setattr__(self, "report", call.report)
        object.__setattr__(self, "wait", call.wait)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            return self._accelerated.call_eagerly(
                "gradients were wanted: call it under torch.no_grad() or inference_mode()", args, kwargs)
        return self._accelerated(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_module"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._module, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._module, name)

    # Python looks for these in the class, not through __getattr__.

    def __getitem__(self, key: Any) -> Any:
        return self._module[key]

    def __len__(self) -> int:
        return len(self._module)

    def __iter__(self) -> Any:
        return iter(self._module)

    def __contains__(self, item: Any) -> bool:
        return item in self._module

    def __bool__(self) -> bool:
        return True

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._module), "report", "wait"})

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and pickled it is the module alone: an average of weights, a checkpoint."""
        return _itself, (self._module, )

    def __repr__(self) -> str:
        return f"<crucible.accelerate of {self._module!r}>"
