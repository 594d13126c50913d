"""One line at the bottom of the terminal that says how far a program's accelerated functions are, on request alone.

The terminal scrolls above it: what the program writes never meets it, wherever its cursor is. Nothing is written
where standard error is no terminal."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from typing import Any

from crucible_torch.accelerate import reporting
from crucible_torch.accelerate.variant import OBSERVED

FEWEST_ROWS, FEWEST_COLUMNS = 4, 20
PAUSE_S = 0.2  # between two times that the same thing is said with other numbers

_SAVE, _RESTORE, _DOWN, _UP = "\x1b7", "\x1b8", "\x1bD", "\x1b[A"


def _region(rows: int) -> str:
    """The terminal scrolls above its last row. Moves the cursor."""
    return f"\x1b[1;{rows - 1}r"


def _blank(row: int) -> str:
    return f"\x1b[{row};1H\x1b[2K"


class Line:
    """One per process. Threads: any; who finds another one writing leaves it to that one."""

    def __init__(self) -> None:
        self._rows = 0  # of the terminal, as it was when its last row was taken; 0: it is not
        self._lock = threading.Lock()
        self._is_watched = False

    def show(self, text: str) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            size = self._terminal()
            if size is None:
                return
            rows = size.lines
            shown = "".join(letter if letter.isprintable() else "?" for letter in text)[:size.columns - 1]
            self._write(f"{self._take(rows)}{_SAVE}{_blank(rows)}{shown}{_RESTORE}")
        except (OSError, ValueError):  # it was closed, or is none any more
            self._rows = 0
        finally:
            self._lock.release()

    @staticmethod
    def _terminal() -> os.terminal_size | None:
        stream = sys.stderr
        if stream is None or not stream.isatty() or os.environ.get("TERM", "dumb") == "dumb":
            return None
        size = os.get_terminal_size(stream.fileno())
        return size if size.lines >= FEWEST_ROWS and size.columns >= FEWEST_COLUMNS else None

    @staticmethod
    def _write(text: str) -> None:
        stream = sys.stderr
        stream.flush()
        os.write(stream.fileno(), text.encode("utf-8", "replace"))  # at once: nobody writes in between

    def _take(self, rows: int) -> str:
        before, self._rows = self._rows, rows
        if before == rows:
            return ""
        if not self._is_watched:
            self._is_watched = True
            atexit.register(self.close)
            os.register_at_fork(after_in_child=self._forget)
        if before:  # the terminal has another size now
            return _SAVE + (_blank(before) if before < rows else "") + _region(rows) + _RESTORE
        # A row below the cursor's, whatever column that is in: down scrolls where there is none.
        return _DOWN + _SAVE + _region(rows) + _RESTORE + _UP

    def close(self) -> None:
        """The terminal is as it was."""
        with self._lock:
            rows, self._rows = self._rows, 0
            if not rows:
                return
            try:
                if self._terminal() is not None:
                    self._write(f"{_SAVE}\x1b[r{_blank(rows)}{_RESTORE}")
            except (OSError, ValueError):
                pass

    def _forget(self) -> None:
        """In a forked child: the terminal is the parent's."""
        self._rows = 0
        self._lock = threading.Lock()


line = Line()


class Progress:
    """Of one accelerated function. Threads: any."""

    def __init__(self, accelerated: Any):
        self._accelerated = accelerated
        self._process = os.getpid()
        self._said: tuple[Any, ...] = ()
        self._when = 0.0

    def note(self) -> None:
        """Says how far it is, where that is new or a while ago."""
        variant = self._present()
        said = _stage(self._accelerated, variant)
        now = time.monotonic()
        if os.getpid() != self._process or said == self._said and now - self._when < PAUSE_S:
            return
        self._said, self._when = said, now
        line.show(f"{self._accelerated.__name__}: {describe(self._accelerated, variant)}")

    def _present(self) -> Any:
        return max(self._accelerated._every_variant(), key=lambda each: each.used, default=None)


def _observed(variant: Any) -> int:
    observation = variant._observation
    return int(variant._warm) + (0 if observation is None else observation.calls)


def _stage(accelerated: Any, variant: Any) -> tuple[Any, ...]:
    if accelerated._reason or variant is None:
        return (accelerated._reason, )
    return variant.number, variant.tier, _observed(variant), variant.checks


def describe(accelerated: Any, variant: Any) -> str:
    """Of the variant that was called last, in a few words."""
    if accelerated._reason:
        return f"eager: {accelerated._reason}"
    if variant is None:
        return "not called yet"
    count = len(accelerated._every_variant())
    which = f"variant {variant.number + 1} of {count}: " if count > 1 else ""
    if variant.tier == "observing":
        return f"{which}observing {_observed(variant)}/{OBSERVED + 1}"
    if variant.tier == "compiling":
        job = variant.job
        return f"{which}compiling" + ("" if job is None else f" {job.age():.1f} s")
    if variant.tier == "eager":
        return f"{which}eager: {variant.reason}"
    since = "" if variant.since is None else f" since call {variant.since}"
    gain = reporting.gain_of(variant) if len(variant.compiled_ms) > 1 else None  # the first one makes the plan
    faster = "" if gain is None else f", {gain:.1f}x"
    checks = "" if not variant.checks else f", {variant.checks} check{'s' if variant.checks > 1 else ''}"
    return f"{which}compiled{since}{faster}{checks}"
