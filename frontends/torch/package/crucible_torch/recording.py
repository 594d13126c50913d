"""What crucible.record() gives: a recording that the program asked for itself."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import shlex
import stat
import sys
import threading
from types import TracebackType
from typing import Any

import crucible_torch
from crucible import RecordError

CHOICES = {
    "end_of_iteration": ("auto", "optimizer", "step", "module", "period"),
    "snapshot": ("", "ops"),
    "kernels": ("typed", "boxed", "per_op"),
}


class PathLock:
    """PATH.lock with flock, as core/trace/path_lock.cpp takes it: two recordings cannot share a path."""

    def __init__(self, path: str) -> None:
        self._lock_path = path + ".lock"
        self._process = os.getpid()
        while True:
            try:
                # Never through a link: the folder may be somebody else's.
                self._descriptor = os.open(self._lock_path,
                                           os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise RecordError(
                        f"cannot create the lock file {self._lock_path}: a link of that name stands there; remove it"
                    ) from None
                hint = "create the folder first" if isinstance(
                    error, FileNotFoundError) else "choose a folder that you may write to"
                raise RecordError(f"cannot create the lock file {self._lock_path}: {error.strerror}; {hint}") from None
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.pread(self._descriptor, 32, 0).decode("ascii", "replace").strip()
                os.close(self._descriptor)
                who = f"process {holder}" if holder.isdigit() else "another process"
                raise RecordError(
                    f"another recording ({who}) is writing to {path}: wait for it or choose another path") from None
            if self._is_named():
                self._check_ours()
                break
            os.close(self._descriptor)  # the former holder removed it in between
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def _check_ours(self) -> None:
        """What stands there and is no lock file is not written to: another file's name (a hard link), other content."""
        status = os.fstat(self._descriptor)
        is_plain = stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size < 32
        if not is_plain or os.pread(self._descriptor, 32, 0).strip(b"0123456789\n"):
            os.close(self._descriptor)
            raise RecordError(f"cannot use {self._lock_path} as the lock file: it is no lock file; remove it")

    def _is_named(self) -> bool:
        try:
            named, ours = os.lstat(self._lock_path), os.fstat(self._descriptor)
        except OSError:
            return False
        return (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)

    def release(self) -> None:
        if self._descriptor < 0:
            return
        if self._process == os.getpid():
            if self._is_named():
                os.unlink(self._lock_path)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)
        self._descriptor = -1


class Recording:
    """One recording by crucible.record(). Attributes, set once the file is there:

    path: the file; None before, and when there is none.
    summary: {"iterations", "ops", "ops_per_iteration", "bytes", "incomplete", "not_recorded", "notes", "frontend",
    "overhead_ns_per_op", ...}; empty before.
    """

    path: str | None
    summary: dict[str, Any]

    def __init__(self, path: str, config: dict[str, Any], command: bool = True) -> None:
        for name, choices in CHOICES.items():
            if config[name] not in choices:
                raise ValueError(
                    f"{name} is one of {', '.join(repr(choice) for choice in choices)}, not {config[name]!r}")
        for name, least in (("iterations", 1), ("warmup", 0), ("max_bytes", 0)):
            if config[name] < least:
                raise ValueError(f"{name} is {config[name]}, at least {least} is needed")
        self.path = None
        self.summary = {}
        self._wanted_path = os.path.abspath(path)
        self._config = {"output": self._wanted_path, "command": shlex.join(sys.orig_argv) if command else "", **config}
        self._session: Any = None
        self._lock: PathLock | None = None
        self._process = -1

    def __enter__(self) -> Recording:
        import torch

        from crucible_torch.report import LocalReport
        from crucible_torch.session import Refusal, Session

        if (other := crucible_torch.current()) is not None and getattr(other, "gives_way", None):
            other.gives_way()
        if crucible_torch.current() is not None:
            raise RecordError("this process is being recorded already; one recording at a time")
        gc.collect()  # optimizers of an earlier run of a notebook's cell are not this block's
        self._lock = PathLock(self._wanted_path)
        self._report = LocalReport(self._written)
        session = Session(self._config, torch, self._report)
        try:
            crucible_torch.start(session)
        except Refusal as refusal:
            self._release()
            raise RecordError(str(refusal)) from None
        self._session, self._process = session, os.getpid()
        session.begin_in_block(threading.get_ident())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        session, self._session = self._session, None
        if session is None or os.getpid() != self._process:
            return
        ended = "the block ended" if error is None else f"the block ended with {type(error).__name__}" + (
            f": {error}" if str(error) else "")
        session.end(ended)
        self._release()
        if self.path is None and error is None:
            raise RecordError(f"nothing was recorded: {self._report.why_nothing(self._config)}")

    def _written(self, details: dict[str, Any]) -> None:
        self.path = details["path"]
        self.summary = details
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
