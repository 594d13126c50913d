"""Interpreters for the programs that tests record: python() is a path to start them with.

It is warm_python.cpp, whose processes are forked from one that has imported torch (warm_server.py): 0.3 seconds of a
processor each where a fresh interpreter takes 2.5. One server per build runs as long as tests come. Tests of what
happens around a process - signals, launchers, children, what is decided by its start - take sys.executable.
"""

import fcntl
import os
import pathlib
import socket
import subprocess
import sys
import time

SERVER = pathlib.Path(__file__).resolve().with_name("warm_server.py")
START_TIME_LIMIT_S = 120


def listens(folder):
    place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"/proc/self/fd/{place}/socket")
            return True
    except OSError:
        return False
    finally:
        os.close(place)


def python(build):
    """The interpreter to start programs with. `build`: the folder of the executable `crucible`."""
    path = pathlib.Path(build).resolve() / "tests" / "warm" / "python3"
    if not path.exists() or os.environ.get("LD_PRELOAD"):  # a sanitizer is of no use in a process that was there before
        return sys.executable
    with open(path.with_name("lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not listens(path.parent):
            start(path.parent)
    return str(path)


def start(folder):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with open(folder / "log", "a") as log:
        server = subprocess.Popen([sys.executable, SERVER, folder], env=environment, stdin=subprocess.DEVNULL,
                                  stdout=log, stderr=log, start_new_session=True)
    for _ in range(START_TIME_LIMIT_S * 20):
        if listens(folder):
            return
        if server.poll() is not None:
            raise RuntimeError(f"the process that programs are forked from ended: {(folder / 'log').read_text()[-2000:]}")
        time.sleep(0.05)
    raise RuntimeError("the process that programs are forked from does not listen")
