"""Whose turn it is among threads. While a call is recorded the recorder's functions stand in the place of torch's, for the whole
process: another thread that compared what a function sees would find a change, and no thread but the recorded one may
end a recording."""

from __future__ import annotations

import threading
import time

PATIENCE_S = 1.0  # for calls that other threads are in
POLL_S = 0.0005


class Turns:
    """Calls enter and leave; one that is recorded is alone. Threads: any, each for itself. A few hundred nanoseconds for each call."""

    def __init__(self) -> None:
        self._inside: set[int] = set()  # threads; single operations on it are whole under the GIL
        self._alone: int | None = None
        self._lock = threading.RLock()  # of who is alone, or waits to be
        self._patience = PATIENCE_S

    def enter(self) -> bool:
        """The calling thread begins a call. False where another thread's call is recorded."""
        me = threading.get_ident()
        self._inside.add(me)
        alone = self._alone  # is set before the other looks who is inside: one of the two sees the other
        if alone is None or alone == me:
            return True
        self._inside.discard(me)
        return False

    def leave(self) -> None:
        """The calling thread looks at nothing of the program any more, and is not alone any more. It may have left before."""
        self._inside.discard(threading.get_ident())
        self.give()

    def take(self) -> bool:
        """Waits until no other thread is in a call. False where one takes too long or is recorded itself."""
        if not self._lock.acquire(blocking=False):
            return False
        me = self._alone = threading.get_ident()
        end = time.monotonic() + self._patience
        while self._inside - {me}:
            if time.monotonic() >= end:
                self._patience /= 2  # the next to come waits less for those that take long
                self.give()
                return False
            time.sleep(POLL_S)
        self._patience = PATIENCE_S
        return True

    def give(self) -> None:
        """The end of what take() began. Of nothing where it did not."""
        while self._lock._is_owned():
            self._alone = None
            self._lock.release()


turns = Turns()
