"""Calls of one variant, recorded as they run in eager, each an iteration of one file."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import weakref
from contextlib import AbstractContextManager
from typing import Any, Callable

import torch

import crucible_torch
from crucible_torch.report import LocalReport
from crucible_torch.session import Refusal as SessionRefusal
from crucible_torch.session import Session

PREFIX = "acc:"  # before the name of every tensor that is the caller's
LONGEST_CALL_S = 60.0  # for which a recording that the program wants waits
MOST_WAITS = 8  # calls of others for which a paused observation holds up theirs
ROLE_UNKNOWN, ROLE_PARAMETER, ROLE_BUFFER, ROLE_OPTIMIZER_STATE, ROLE_INPUT = range(5)


class Unrecorded(Exception):
    """A call cannot be recorded now. `result`: what it returned, a tuple of one; None where it was not made."""

    def __init__(self, reason: str, result: tuple[Any] | None = None):
        super().__init__(reason)
        self.result = result


class Busy(Unrecorded):
    """Something else is being recorded: a later call may try again."""


class Observation:
    """One at a time has the process's recorder. Threads: any, of which `turns` lets one in. Errors: Unrecorded."""

    holder: "Observation | None" = None  # which has the recorder

    def __init__(self, calls: int, owner: object):
        self._wanted = calls
        self._owner = weakref.ref(owner)  # without it no further call will come
        self.calls = 0
        self.was_dropped = False
        self._waits = 0
        self._process = os.getpid()  # a forked child leaves the file to its parent
        try:
            self.folder = tempfile.mkdtemp(prefix="crucible-accelerate-")
        except OSError as error:
            raise Unrecorded(f"the call could not be recorded, no temporary folder can be made: {error}") from None
        self.file = os.path.join(self.folder, "calls.crtrace")
        self.summary: dict[str, Any] | None = None
        self._report = LocalReport(self._written)
        self._session: Any = None
        self._thread = 0  # of the call that is recorded now

    def _written(self, details: dict[str, Any]) -> None:
        self.summary = details

    @property
    def is_complete(self) -> bool:
        return self.calls == self._wanted

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
             around: AbstractContextManager[Any], name_before: Callable[[Callable[..., None]], None],
             name_results: Callable[[Any, Callable[..., None]], None]) -> Any:
        """The call, eager and recorded, inside `around`. `name_before(name)` names what enters, and
        `name_results(result, output)` what leaves when it has returned. Errors:
        the call's own, after which nothing is recorded any more; Unrecorded when recording is not possible."""
        self._thread = threading.get_ident()
        try:
            return self._record(function, args, kwargs, around, name_before, name_results)
        finally:
            self._thread = 0

    def _record(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                around: AbstractContextManager[Any], name_before: Callable[[Callable[..., None]], None],
                name_results: Callable[[Any, Callable[..., None]], None]) -> Any:
        if self._session is None:
            self._start()
        else:
            self._step_back()
        recorder = self._session._recorder
        name_before(lambda tensor, name, role: recorder.name_tensor(tensor, PREFIX + name, role, False, True))
        try:
            with around:  # entered last: what it puts in the place of functions goes before the recorder's
                result = function(*args, **kwargs)
        except BaseException:
            self.drop()
            raise
        session = self._session
        if session.state != "recording":
            problem = self._report.why_nothing({"warmup": 0})
            self.drop()
            raise Unrecorded(f"the call could not be recorded: {problem}", (result, ))
        name_results(result, lambda tensor, name: recorder.add_output(PREFIX + name, tensor))
        session.explicit_step()
        self.calls += 1
        self._waits = 0
        if not self.is_complete:
            self._step_aside()
        elif self.summary is None or self.summary["iterations"] != self._wanted:
            problem = (self.summary or {}).get("incomplete") or [self._report.why_nothing({"warmup": 0})]
            self.drop()
            raise Unrecorded(f"the calls could not be recorded: {problem[0]}", (result, ))
        return result

    def _step_aside(self) -> None:
        """A pause in which nothing of the recorder's stands in the place of torch's functions."""
        session = self._session
        if session.pause():
            session._leaving.step_aside()
            session._watch.step_aside()

    def _step_back(self) -> None:
        session = self._session
        if session.state == "recording" and session.paused:
            if session._thread != self._thread:
                session.take_over()
            session._watch.step_back()
            session._leaving.step_back()
            session.resume()

    @classmethod
    def check_room(cls) -> None:
        """Errors: Busy, while something else has the recorder and may keep it. An observation whose next call does not come for long
        is given up for who asks then: a tail batch comes once an epoch, and others need not wait for three epochs."""
        if crucible_torch.current() is None:
            return
        holder = cls.holder
        if holder is None or holder._session is None:
            raise Busy("this process is being recorded; calls are compiled when that is over")
        holder._waits += 1
        if holder._owner() is not None and (holder._waits <= MOST_WAITS or not holder._session.paused):
            raise Busy("calls of something else are being observed")

    @classmethod
    def make_room(cls) -> None:
        """Takes the recorder from who has it. Threads: the caller's turn is its own. Errors: Busy."""
        cls.check_room()
        if crucible_torch.current() is not None and cls.holder is not None:  # else its calls are being compiled
            cls.holder.drop()

    def _start(self) -> None:
        self.make_room()
        config = {
            "output": self.file, "command": "", "iterations": self._wanted, "warmup": 0, "end_of_iteration": "step",
            "max_bytes": 0, "exclude_modules": [], "snapshot": "", "kernels": "typed", "no_paths": False,
            "leave_out": True
        }
        session = Session(config, torch, self._report)
        try:
            crucible_torch.start(session)
        except SessionRefusal as refusal:
            raise Unrecorded(str(refusal)) from None
        self._session, Observation.holder = session, self
        session.gives_way = self._give_way
        session.begin_in_block(threading.get_ident())
        if session.state != "recording":
            problem = self._report.why_nothing({"warmup": 0})
            self.drop()
            raise Unrecorded(f"the call could not be recorded: {problem}")

    def _give_way(self) -> None:
        """The program wants to record itself: at once, but for a call of another thread, which comes to its end first."""
        end = time.monotonic() + LONGEST_CALL_S
        while self._is_of_another_thread() and time.monotonic() < end:
            time.sleep(0.001)
        self.drop()

    def _is_of_another_thread(self) -> bool:
        """Whether a call is being recorded that is not the calling thread's: none but its own can end that."""
        return self._thread not in (0, threading.get_ident())

    def drop(self) -> None:
        """Ends the recording, if one is going on, and forgets the file. While another thread is in a recorded call nothing is
        dropped: it ends by itself."""
        if self._is_of_another_thread():
            return
        session, self._session = self._session, None
        self.was_dropped = True
        if Observation.holder is self:
            Observation.holder = None
        if session is not None and session.state == "recording":
            session.end("the observation was given up")
        if os.getpid() == self._process:
            shutil.rmtree(self.folder, ignore_errors=True)
