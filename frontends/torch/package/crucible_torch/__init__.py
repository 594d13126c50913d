"""The Python side of the recorder, one session at a time. Loaded by start/sitecustomize.py as soon as torch is
imported, or by crucible.record(); programs use the package `crucible`."""

import atexit
import os
from typing import Any

_session: Any = None
_at_fork_registered = False


def begin(config, torch):
    """Called once, right after torch was imported: gets ready to record as `config` (a dict, see session.py) says."""
    from crucible_torch.report import Report

    if "peer" in config:
        return _begin_peer(config, torch, Report(config["status"]))
    from crucible_torch.session import Refusal, Session

    session = Session(config, torch, Report(config["status"], config.get("several", False)))
    try:
        if start(session):
            atexit.register(session.end)
    except Refusal:
        raise SystemExit(3) from None  # before it has done anything: it was started to be recorded


def _begin_peer(config, torch, report):
    """The process is a peer of `crucible bench`: nothing is recorded."""
    from crucible_torch.peer import Peer

    peer = Peer(config, torch, report)
    if start(peer):
        atexit.register(peer.end)
        peer.begin()


def start(session: Any) -> bool:
    """Makes `session` the process's. False when it has nothing to do here."""
    global _session, _at_fork_registered
    if not session.prepare():
        return False
    _session = session
    if not _at_fork_registered:
        os.register_at_fork(after_in_child=_forget_in_child)
        _at_fork_registered = True
    return True


def hand_over() -> bool:
    """The process is about to become another program. True when that may record in its place."""
    return _session is None or _session.hand_over()


def take_back() -> None:
    """It did not."""
    if _session is not None:
        _session.take_back()


def current() -> Any:
    """The session that is waiting or recording in this process, or None."""
    return _session if _session is not None and _session.state != "off" else None


def of_program() -> Any:
    """The same, but for a session that crucible.accelerate has for itself, which the program does not know of."""
    session = current()
    return None if session is None or getattr(session, "gives_way", None) else session


def _forget_in_child():
    if _session is not None:
        _session.forget_in_child()
