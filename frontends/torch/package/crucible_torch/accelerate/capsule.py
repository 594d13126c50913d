"""What is kept of a compiled call that was wrong, for whoever looks into it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Any

import torch


def write(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, differences: list[Any]) -> str:
    """Writes arguments, eager's result and the differences to a file in the folder of temporary files. ", kept in
    FILE", or why not."""
    folder = os.environ.get("CRUCIBLE_CAPSULES") or tempfile.gettempdir()
    path = None
    try:
        descriptor, path = tempfile.mkstemp(prefix=f"crucible-{name}-", suffix=".pt", dir=folder)
        with os.fdopen(descriptor, "wb") as out:
            torch.save({"function": name, "args": args, "kwargs": kwargs, "eager": result,
                        "differences": [str(each) for each in differences], "torch": str(torch.__version__)}, out)
        return f"; its arguments and eager's result are kept in {path}"
    except Exception as error:  # the program goes on, whatever its arguments are and however full the disk is
        if path is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)
        return f"; its arguments could not be kept ({error})"
