"""The Python side of the recorder. Loaded by start/sitecustomize.py as soon as torch is imported; programs use `crucible`."""

_session = None


def begin(config, torch):
    """Called once, right after torch was imported: gets ready to record as `config` (a dict, see report.py) says."""
    global _session
    from crucible_torch.session import Session

    session = Session(config, torch)
    if session.prepare():
        _session = session


def explicit_step():
    """crucible.step() was called."""
    if _session is not None:
        _session.explicit_step()
