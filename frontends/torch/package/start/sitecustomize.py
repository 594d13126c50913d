"""First code of ours in a recorded interpreter: `crucible record` puts this folder in front of PYTHONPATH.

It puts everything back as it was (PYTHONPATH, sys.path, the user's own sitecustomize), so that the program and its
children see nothing of it, and leaves one import hook: as soon as torch is imported, the recorder gets ready. In a
launcher of ranks (torchrun), and with --children, it leaves the environment as it is and so comes to each process that
is started.
"""

import importlib.machinery
import importlib.util
import json
import os
import sys


class _Packages:
    """Finds our packages in our folder: crucible_torch always there, crucible where nobody else has one."""

    def __init__(self, folder, names):
        self._folder = folder
        self._names = names

    def find_spec(self, name, path=None, target=None):
        if path is None and name in self._names:
            return importlib.machinery.PathFinder.find_spec(name, [self._folder])
        return None


class _AfterTorch:
    """Lets torch be found as always, and calls us when it has been executed."""

    def __init__(self, config):
        self._config = config

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or path is not None:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            del spec.loader.exec_module  # the class's own is back
            execute(module)
            import crucible_torch

            crucible_torch.begin(self._config, module)

        spec.loader.exec_module = exec_module
        return spec


def _restore_environment(config):
    if config["several"]:
        # The ranks and children that this process starts see what it has seen, but for what only one process may hold.
        os.environ["CRUCIBLE_RECORDING"] = json.dumps({**config, "lock_descriptor": -1})
        folder = os.path.dirname(os.path.abspath(__file__))
        os.environ["PYTHONPATH"] = folder if config["pythonpath"] in (None, "") else f"{folder}:{config['pythonpath']}"
    elif config["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = config["pythonpath"]
    descriptor = config.get("lock_descriptor", -1)
    if descriptor >= 0:
        try:
            os.set_inheritable(descriptor, False)
        except OSError:
            config["lock_descriptor"] = -1


def _follow_exec(config):
    """A process that becomes another program (os.execv: scripts that set OMP_NUM_THREADS and start anew) takes us
    along."""
    process, folder = os.getpid(), os.path.dirname(os.path.abspath(__file__))

    def environment(current):
        """`current` as our first one; None when the recording is this process's own or over."""
        package = sys.modules.get("crucible_torch")
        if os.getpid() != process or package is not None and not package.hand_over():
            return None
        python_path = current.get("PYTHONPATH")
        descriptor = config.get("lock_descriptor", -1)
        if descriptor >= 0:
            try:
                os.set_inheritable(descriptor, True)
            except OSError:
                descriptor = -1
        handed = json.dumps({**config, "pythonpath": python_path, "lock_descriptor": descriptor})
        return {
            **current, "CRUCIBLE_RECORDING": handed, "PYTHONPATH": f"{folder}:{python_path}" if python_path else folder
        }

    def stayed():
        """It did not become another program after all."""
        package = sys.modules.get("crucible_torch")
        if package is not None:
            package.take_back()
        descriptor = config.get("lock_descriptor", -1)
        if descriptor >= 0:
            os.set_inheritable(descriptor, False)

    execv, execve = os.execv, os.execve

    def execv_along(path, args, /):
        ours = environment(os.environ)
        if ours is None:
            return execv(path, args)
        try:
            return execve(path, args, ours)
        except BaseException:
            stayed()
            raise

    def execve_along(path, args, env):
        ours = environment(dict(env))
        try:
            return execve(path, args, env if ours is None else ours)
        except BaseException:
            if ours is not None:
                stayed()
            raise

    os.execv, os.execve = execv_along, execve_along


def _tell_started(config):
    if not os.path.exists(config["status"]):
        try:
            with open(config["status"], "w", encoding="utf-8") as out:
                json.dump({"state": "python"}, out)
        except OSError:
            pass


def _load_other_sitecustomize(folder):
    """Runs the sitecustomize that would have run without us, under its own name."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize",
                                                    [p for p in sys.path if os.path.abspath(p) != folder])
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _is_launcher(packages):
    spec = importlib.util.spec_from_file_location("processes", os.path.join(packages, "crucible_torch", "processes.py"))
    processes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(processes)
    return processes.is_launcher(sys.orig_argv)


def _main():
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p) != folder]
    text = os.environ.pop("CRUCIBLE_RECORDING", None)
    if text is not None:
        config = json.loads(text)
        packages = os.path.dirname(folder)
        launches = _is_launcher(packages)
        config["several"] = bool(config.get("several") or config.get("children") or launches)
        _restore_environment(config)
        _tell_started(config)
        _follow_exec(config)
        if launches:
            return _load_other_sitecustomize(folder)
        sys.meta_path[:0] = [_AfterTorch(config), _Packages(packages, ("crucible_torch",))]
        sys.meta_path.append(_Packages(packages, ("crucible",)))
    _load_other_sitecustomize(folder)


_main()
