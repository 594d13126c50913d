"""What a program may say to Crucible, and how a program or notebook records itself.

Under `crucible record` everything is there already; in a program started plainly this package's folder must be on
PYTHONPATH. All functions do nothing, and cost next to nothing, while nothing is recorded.

    import crucible

    with crucible.record("step.crtrace", iterations=4) as recording:
        for batch in loader:
            train(batch)          # an optimizer's step ends an iteration
    print(recording.path, recording.summary["ops"])
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Sequence

if TYPE_CHECKING:
    from crucible_torch.recording import Recording

__all__ = ["RecordError", "accelerate", "is_recording", "phase", "record", "record_thread", "step"]

_PHASES = {"forward": 0, "backward": 1, "optimizer": 2, "evaluation": None, "input": None}


class RecordError(Exception):
    """Nothing could be recorded; the text says what, where and what to do."""


def _session() -> Any:
    frontend = sys.modules.get("crucible_torch")
    return None if frontend is None else frontend.of_program()


def step() -> None:
    """Marks the end of one iteration.

    For programs whose iterations are not what repeats in their optimizers' steps or module calls. From the first call
    on, only these calls count.
    """
    session = _session()
    if session is not None:
        session.explicit_step()


def is_recording() -> bool:
    """Whether ops of this process are being recorded right now (not during the warm-up, nor in a pause)."""
    session = _session()
    return session is not None and session.state == "recording" and not session.paused


class phase(AbstractContextManager[None]):
    """Says what the program does inside the block: "forward", "backward", "optimizer", "evaluation" or "input".

    The first three are what `torch.autograd` and `torch.optim` tell by themselves; say so where the program does it by
    hand.
    The ops of an evaluation are left out, and what they changed is taken again. In "input" data is made, as by a
    DataLoader: its ops are no part of an iteration, and what they give enters with its bytes. Blocks may be nested.
    Errors: ValueError for another name.
    """

    def __init__(self, name: str) -> None:
        if name not in _PHASES:
            raise ValueError(f"a phase is one of {', '.join(_PHASES)}, not {name!r}")
        self._phase = _PHASES[name]
        self._is_input = name == "input"
        self._session: Any = None
        self._before: int | None = None

    def __enter__(self) -> None:
        session = _session()
        if session is None:
            return
        if self._is_input:
            self._session = session.enter_input()
        elif self._phase is None:
            self._session = session if session.pause() else None
        else:
            self._before = session.set_phase(self._phase)
            self._session = session if self._before is not None else None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        if self._is_input:
            session()
        elif self._phase is None:
            session.resume()
        else:
            session.set_phase(self._before)


def accelerate(target: Callable[..., Any] | None = None, *, check_every: int = 1024, on_mismatch: str = "eager",
               max_variants: int = 16, rng: str = "torch", progress: bool = False) -> Any:
    """A stand-in for a function of tensors, or for a module, that becomes faster while the program runs.

        step = crucible.accelerate(train_step)     # forward, backward, optimizer.step(), zero_grad inside
        for x, y in loader:
            loss = step(x, y)                      # eager at first; compiled in the background; then one replay
        print(step.report())

    Of a function: the first calls run in eager and are recorded, a background thread compiles them, and later calls run
    what was compiled as long as everything that the function can see is as it was; any other call is eager, and
    `report()` says why. Of an nn.Module: its calls without gradients. The stand-in of a module has the module's
    attributes. May be used as a decorator, with or without arguments.

    Compiled calls 1, 2, 4, ... and then every `check_every`-th run in eager too, from the same start, and eager's
    result stays; where the two differ beyond rounding the function is eager from then on (`on_mismatch="eager"`), or
    the call raises (`"raise"`). `max_variants`: how many sizes, modes or values are compiled at most.
    `rng="torch"`: random numbers are drawn by torch from its own generator, as in eager. `rng="philox"`: the function
    draws other numbers, by torch's seed at its first call and the call's number, the same ones in eager, in compiled
    calls and on every device; torch's generator stays as it was (docs/numerics.md, "Random numbers of our own").
    `progress=True`: the last row of the terminal says how far it is, where standard error is one.

    Threads: any; one call of a function at a time is compiled, others meanwhile are eager. Errors: ValueError for an
    option; in a call eager's own alone, and with on_mismatch="raise" crucible_torch.accelerate.policy.Mismatch.
    docs/accelerate.md has the limits and all the rules.
    """
    options = {"check_every": check_every, "on_mismatch": on_mismatch, "max_variants": max_variants, "rng": rng,
               "progress": progress}
    if target is None:
        return lambda function: accelerate(function, **options)
    from crucible_torch.accelerate import make

    return make(target, options)


class record_thread(AbstractContextManager[None]):
    """Records the calling thread too, for as long as the block lasts; its ops have a thread number of their own.

    The thread that steps or calls modules is recorded anyway, and so are autograd's. Others the program has to name:
    what they compute enters as bytes from outside otherwise. The block may be entered before recording begins.
    """

    def __init__(self) -> None:
        self._session: Any = None

    def __enter__(self) -> None:
        session = _session()
        self._session = session if session is not None and session.join_thread() else None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.leave_thread()


def record(
    path: str | os.PathLike[str],
    *,
    iterations: int = 4,
    warmup: int = 2,
    end_of_iteration: str = "auto",
    max_bytes: int = 0,
    exclude_modules: Sequence[str] = (),
    snapshot: str = "",
    kernels: str = "typed",
    command: bool = True,
    paths: bool = True,
) -> Recording:
    """Records `iterations` iterations of what the with-block does into the file `path`, after `warmup` have passed.

    The file is written when they are complete, or when the block ends with fewer; the block goes on meanwhile. With
    warmup=0 the block itself is the start of the first iteration. `end_of_iteration` is auto, optimizer, step, module
    or period; `max_bytes` stops the recording when it has taken that much memory, 0 is no limit; `exclude_modules` are
    patterns of module paths to leave out; `command=False` leaves the command line out of the file, `paths=False` makes
    paths in it relative; all as docs/recording.md says of the options of `crucible record`.

    The object that the block gives has `path` and `summary` once the file is there.

    Threads: the block's own thread is recorded; one recording per process at a time.
    Errors: RecordError when the recorder does not fit this torch or Python, when `path` is being written by another
    recording, and at the block's end when nothing could be recorded. An exception of the block's own goes first.
    """
    from crucible_torch.recording import Recording

    return Recording(
        os.fspath(path),
        {
            "iterations": iterations,
            "warmup": warmup,
            "end_of_iteration": end_of_iteration,
            "max_bytes": max_bytes,
            "exclude_modules": list(exclude_modules),
            "snapshot": snapshot,
            "kernels": kernels,
            "no_paths": not paths,
        },
        command,
    )
