"""Who was the last to step an optimizer. A compiled call counts on each of its parameters having made as many steps as the first of
them: so it is while nothing but calls of one variant steps them. Another one may have stepped some of them and not others."""

from __future__ import annotations

import itertools
from typing import Any

_numbers = itertools.count()
_last: dict[int, int] = {}  # by the id of an optimizer


class Alone:
    """One variant's compiled calls."""

    def __init__(self) -> None:
        self._number = next(_numbers)

    def go_on(self, optimizers: list[Any]) -> bool:
        """Whether these optimizers were stepped by this variant's calls alone since the last one, which is the calling one from now
        on."""
        is_alone = True
        for optimizer in optimizers:
            if _last.get(id(optimizer)) != self._number:
                _last[id(optimizer)] = self._number
                is_alone = False
            elif is_alone:
                is_alone = all(_has_one_count(optimizer, group["params"]) for group in optimizer.param_groups)
        return is_alone


def _has_one_count(optimizer: Any, parameters: list[Any]) -> bool:
    """Whether the first and the last have made as many steps: the program may have stepped a part by itself. All of them would take
    longer than a small call."""
    if len(parameters) < 2:
        return True
    first, last = optimizer.state.get(parameters[0]), optimizer.state.get(parameters[-1])
    if not first or not last or "step" not in first or "step" not in last:
        return True
    return bool(first["step"] == last["step"])


def note_eager() -> None:
    """A call of an accelerated function is not compiled: it may step some parameters of any optimizer."""
    _last.clear()
