"""Recordings of the examples that several tests need, made once per build: recorded(crucible, example, iterations) is a
path to read.

They lie in the build's folder test_recordings, under what they are made of: the example, the recorder's library, the
command and the interpreter. Tests run side by side: who comes first makes a recording, the others wait for it.

They are used where they lie: a copy would be a stranger's recording (core/trace/own_recordings.hpp), whose replay is
shut in.
"""

import fcntl
import hashlib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def own_recordings():
    """Where `crucible record` remembers what this user recorded."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(state) / "crucible" / "recorded"


def key(crucible, example, iterations):
    made_of = hashlib.sha256(f"{sys.executable} {iterations} {own_recordings()}".encode())
    made_of.update((ROOT / "examples" / f"{example}.py").read_bytes())
    for file in [
            crucible, *sorted((crucible.parent / "python").rglob("*.so")), *sorted(
                (crucible.parent / "python").rglob("*.py"))
    ]:
        made_of.update(f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}".encode())
    return made_of.hexdigest()[:16]


def recorded(crucible, example, iterations):
    """The path of a recording of examples/EXAMPLE.py. It belongs to all: read it."""
    crucible = pathlib.Path(crucible).resolve()
    folder = crucible.parent / "test_recordings"
    folder.mkdir(exist_ok=True)
    path = folder / f"{example}-{iterations}-{key(crucible, example, iterations)}.crtrace"
    with open(folder / f"{example}-{iterations}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists() or not own_recordings().exists():
            done = subprocess.run([
                str(crucible), "record", "-o",
                str(path), "--iterations",
                str(iterations), "--", sys.executable,
                str(ROOT / "examples" / f"{example}.py"), "--steps",
                str(iterations + 3)
            ], capture_output=True, text=True, timeout=280)
            if done.returncode != 0:
                path.unlink(missing_ok=True)
                raise RuntimeError(f"recording {example} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return path
