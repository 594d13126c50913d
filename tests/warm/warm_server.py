"""A process that has imported torch, and forks one for each program that warm_python.cpp hands over: warm_server.py
FOLDER. It listens on FOLDER/socket and ends when nobody has come for IDLE_S seconds.

A forked process is as one that has just started: of what was imported beforehand only the standard library and what
torch brings along are in sys.modules. torch itself and what it imports late are out of sight until the program imports
them, so that whoever waits for that import (start/sitecustomize.py of the recorder) sees it. What differs: those
modules have been executed before, /proc/self/cmdline is this server's, and the parent is this process.
"""

import array
import atexit
import copy
import fcntl
import gc
import importlib
import importlib.machinery
import os
import pathlib
import random
import resource
import selectors
import signal
import socket
import struct
import sys
import tempfile
import threading
import types

IDLE_S = 90
MOST_FILES = 64
HIGH = 700  # descriptors from here on are ours while those of a program get their numbers
LIMITS = ("CPU", "FSIZE", "DATA", "STACK", "CORE", "NOFILE", "AS", "NPROC")  # as in warm_python.cpp
# What a process reads once, when it or its libraries start: a program that wants these otherwise needs a start of its
# own.
READ_AT_START = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "DNNL_", "ONEDNN_", "TORCH", "PYTORCH_", "ATEN_",
                 "LD_", "MALLOC_", "PYTHON", "CUDA_", "LC_", "LANG", "GLIBC_", "ASAN_", "TSAN_", "TZ", "HOME")
READ_BY_US = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")

# Where PYTHONPATH would stand in sys.path: this interpreter was started without one.
PATH = list(sys.path[1:])
ENVIRONMENT = dict(os.environb)  # before anything imported changes it


def of_torch(name):
    return name == "torch" or name.startswith("torch.")


class Late:
    """Modules that were imported and taken out of sight; each bundle comes back as a whole when one of it is
    imported."""

    def __init__(self):
        self._bundle_of = {}  # name of a module -> its bundle, {name: module}
        self._specs = {}      # name -> the module's own spec
        self._parts = {}      # name -> the module that has it as an attribute

    def hide(self):
        """Imports what programs import, and notes what is to be hidden."""
        seen = set(sys.modules)
        for first, belongs in (("torch", of_torch), ("torch._dynamo", None), ("torchvision", None)):
            try:
                importlib.import_module(first)
            except ImportError:
                continue
            new = [name for name in sys.modules if name not in seen]
            seen |= set(new)
            bundle = {name: sys.modules[name] for name in new if belongs is None or belongs(name)}
            for name, module in bundle.items():
                self._bundle_of[name] = bundle
                self._specs[name] = getattr(module, "__spec__", None)
                parent, _, own = name.rpartition(".")
                if parent and parent not in bundle and vars(sys.modules[parent]).get(own) is module:
                    self._parts[name] = sys.modules[parent]

    def close(self):
        """In the forked process: out of sight."""
        for name, parent in self._parts.items():
            delattr(parent, name.rpartition(".")[2])
        for name in self._bundle_of:
            del sys.modules[name]
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        spec = self._specs.get(name)
        if spec is None:
            return None
        if "." not in name:  # another one may stand in front of it: in the program's folder, in PYTHONPATH
            found = importlib.machinery.PathFinder.find_spec(name)
            if found is None or found.origin != spec.origin:
                return None
        spec = copy.copy(spec)
        spec.loader = self
        return spec

    def create_module(self, spec):
        return self._bundle_of[spec.name][spec.name]

    def exec_module(self, module):
        """All of the bundle are there at once, as after its first import."""
        name = module.__spec__.name
        module.__spec__ = self._specs[name]
        for other, there in self._bundle_of[name].items():
            sys.modules.setdefault(other, there)
            self._specs.pop(other, None)
            if other in self._parts:
                setattr(self._parts[other], other.rpartition(".")[2], there)
        if name == "torch":
            module.default_generator.seed()  # as each process, by what the system gives


class Request:
    """What warm_python.cpp sends."""

    def __init__(self, data, files):
        self._data, self._place = data, 0
        self.mask = self._number()
        self.limits = [(self._number(), self._number()) for _ in LIMITS]
        self.numbers = [self._number() for _ in range(self._number())]
        self.folder, *self.files = files
        self.arguments = [os.fsdecode(word) for word in self._words()]
        self.environment = dict(word.split(b"=", 1) for word in self._words() if b"=" in word)

    def _number(self):
        self._place += 8
        return struct.unpack_from("=Q", self._data, self._place - 8)[0]

    def _words(self):
        for _ in range(self._number()):
            end = self._data.index(b"\0", self._place)
            word, self._place = self._data[self._place:end], end + 1
            yield word

    def can_run_here(self):
        """Whether a process forked from this one is as one that starts with these arguments and settings."""
        def read_at_start(environment):
            return {
                name: value for name, value in environment.items()
                if name.startswith(tuple(map(os.fsencode, READ_AT_START))) and os.fsdecode(name) not in READ_BY_US
            }

        if read_at_start(self.environment) != read_at_start(ENVIRONMENT):
            return False
        if self.arguments[1] == "-c":
            return True
        try:
            return os.path.isfile(f"/proc/self/fd/{self.folder}/{self.arguments[1]}") or os.path.isabs(
                self.arguments[1]) and os.path.isfile(self.arguments[1])
        except ValueError:
            return False

    def become(self):
        """In the forked process: everything that it is to have of the other one."""
        os.setpgid(0, 0)  # a signal to its group does not reach the server
        high = [self._moved(file) for file in [self.folder, *self.files]]
        os.closerange(0, HIGH)
        for number, file in zip(self.numbers, high[1:]):
            os.dup2(file, number, inheritable=True)
        os.fchdir(high[0])
        os.closerange(HIGH, 2 * HIGH)
        os.umask(self.mask)
        for name, values in zip(LIMITS, self.limits):
            values = [-1 if value >= 2**63 else value for value in values]
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), values)
        for name in list(os.environb):
            del os.environb[name]
        for name, value in self.environment.items():
            os.environb[name] = value
        sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
        sys.orig_argv = [sys.executable, *self.arguments[1:]]
        sys.argv = self.arguments[1:]
        random.seed()
        tempfile.tempdir = None

    @staticmethod
    def _moved(file):
        return fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, HIGH)

    def run(self):
        """What the interpreter does from here on: sitecustomize, then the program as __main__; its exit code."""
        sys.path[:] = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *PATH]
        sys.path_importer_cache.clear()
        sys.modules.pop("sitecustomize", None)
        try:
            importlib.import_module("sitecustomize")
        except ImportError:
            pass
        program = types.ModuleType("__main__")
        sys.modules["__main__"] = program
        if self.arguments[1] == "-c":
            sys.path.insert(0, "")
            text, name = self.arguments[2], "<string>"
            del sys.argv[1]
        else:
            name = os.path.abspath(self.arguments[1])
            sys.path.insert(0, os.path.dirname(os.path.realpath(name)))
            text = pathlib.Path(name).read_bytes()
            program.__file__ = name
            program.__loader__ = importlib.machinery.SourceFileLoader("__main__", name)
        code = ended_with(lambda: exec(compile(text, name, "exec"), vars(program)))
        threading._shutdown()
        atexit._run_exitfuncs()
        # The program's own objects go. What torch consists of is left to the system: to take it apart would copy it.
        vars(program).clear()
        gc.collect()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def ended_with(program):
    """The exit code of a program, after what the interpreter says of an exception that ends it."""
    try:
        program()
        return 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 130 if isinstance(error, KeyboardInterrupt) else 1


class Server:
    def __init__(self, folder):
        os.chdir(folder)  # the path of a socket has 107 characters at most
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        pathlib.Path("socket").unlink(missing_ok=True)
        self._listener.bind("socket")
        self._listener.listen(64)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._running = {}  # process -> (its connection, its descriptor)

    def serve(self):
        """Until nobody comes any more: None. In a forked process: the Request that it is to run."""
        while events := self._selector.select(None if self._running else IDLE_S):
            for key, _ in events:
                if key.fileobj is self._listener:
                    request = self._accept()
                    if request is not None:
                        return request
                elif key.data in self._running:
                    self._end(key.data, key.fileobj is self._running[key.data][0])
        pathlib.Path("socket").unlink(missing_ok=True)
        return None

    def _accept(self):
        connection = self._listener.accept()[0]
        files = array.array("i")
        head, control, *_ = connection.recvmsg(8, socket.CMSG_SPACE(MOST_FILES * files.itemsize))
        for _, _, data in control:
            files.frombytes(data[:len(data) // files.itemsize * files.itemsize])
        try:
            request = Request(self._whole(connection, struct.unpack("=Q", head)[0]), files) if files else None
            process = os.fork() if request is not None and request.can_run_here() else -1
            if process == 0:
                connection.close()
                self._forget()
                request.become()
                return request
            connection.sendall(struct.pack("=q", process))
        except OSError:
            process = -1  # whoever asked is gone
        for file in files:
            os.close(file)
        if process < 0:
            connection.close()
        else:
            descriptor = os.pidfd_open(process)
            self._running[process] = connection, descriptor
            self._selector.register(connection, selectors.EVENT_READ, process)
            self._selector.register(descriptor, selectors.EVENT_READ, process)
        return None

    @staticmethod
    def _whole(connection, length):
        data = b""
        while len(data) < length and (more := connection.recv(length - len(data))):
            data += more
        return data

    def _end(self, process, deserted):
        """Tells how it ended; kills it where whoever asked for it is gone."""
        connection, descriptor = self._running.pop(process)
        self._selector.unregister(connection)
        self._selector.unregister(descriptor)
        if deserted:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        _, status, used = os.wait4(process, 0)
        print(f"{process}: {used.ru_utime + used.ru_stime:.2f} s of a processor, status {status}", flush=True)
        try:
            connection.sendall(struct.pack("=q", status + 1))
        except OSError:
            pass
        connection.close()
        os.close(descriptor)

    def _forget(self):
        """In the forked process."""
        self._selector.close()
        self._listener.close()
        for connection, descriptor in self._running.values():
            connection.close()
            os.close(descriptor)


def main():
    late = Late()
    late.hide()
    gc.freeze()  # so that no collection in a forked process goes through, and thereby copies, all of torch
    request = Server(sys.argv[1]).serve()
    if request is not None:
        late.close()
        request.run()


main()
