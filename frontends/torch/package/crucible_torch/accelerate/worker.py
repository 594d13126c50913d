"""The thread that compiles while the program goes on: one per process, one job at a time, in the order in which they
came, with a priority that leaves most of a busy processor to the program."""

from __future__ import annotations

import collections
import threading
import time
from typing import Any, Callable

THREAD = "crucible-compile"


class Job:
    """One compilation. `program` or `problem` is there when `done` is set."""

    def __init__(self, work: Callable[[], Any]):
        self._work = work
        self.done = threading.Event()
        self.cancelled = False
        self.program: Any = None
        self.problem: str | None = None
        self.seconds = 0.0
        self.waited = 0.0
        self._asked = time.perf_counter()

    def cancel(self) -> None:
        """A job that has not begun never does; one that runs is not used."""
        self.cancelled = True

    def age(self) -> float:
        """Seconds since it was asked for."""
        return time.perf_counter() - self._asked

    def run(self) -> None:
        began = time.perf_counter()
        self.waited = began - self._asked
        try:
            if self.cancelled:
                self.problem = "it was cancelled"
            else:
                self.program = self._work()
        except BaseException as error:  # whatever it is, the program that is accelerated goes on as it is
            self.problem = f"{error}" or type(error).__name__
        finally:
            self.seconds = time.perf_counter() - began
            self._work = None
            self.done.set()


class Worker:

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._jobs: collections.deque[Job] = collections.deque()
        self._thread: threading.Thread | None = None
        self._running: Job | None = None
        self._closed = False

    def submit(self, work: Callable[[], Any]) -> Job:
        job = Job(work)
        with self._lock:
            if self._closed:
                job.cancel()
            self._jobs.append(job)
            if self._thread is None:
                self._running = Job(self._open)
                self._thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
                self._thread.start()
            self._lock.notify()
        return job

    @staticmethod
    def _open() -> None:
        from crucible_torch import _accelerate

        try:
            _accelerate.open_device()  # before the priority falls: its threads run the calls later
        finally:
            _accelerate.become_background()

    def _run(self) -> None:
        self._running.run()  # what goes wrong is said again, in its job's words, by whoever needs the device
        self._running = None
        while True:
            with self._lock:
                while not self._jobs:
                    self._lock.wait()
                job = self._running = self._jobs.popleft()
            job.run()
            del job
            self._running = None  # and with it the program, which holds the tensors that it is bound to

    def close(self) -> None:
        """The program ends: what has not begun never does, and what runs is waited for. A thread that comes back from
        the compiler while Python takes itself apart would take the process along."""
        with self._lock:
            self._closed = True
            for job in self._jobs:
                job.cancel()
            running = self._running
        if running is not None:
            running.done.wait()

    def forget(self) -> None:
        """In a forked child: the thread did not come along."""
        self.__init__()


worker = Worker()
