"""Where the parts of `ci/gpu` run: commands, recordings, the minutes that are left, and what an earlier run has left."""

import ctypes
import hashlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from importlib import metadata

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/models"))
from devices_here import devices, nvrtc_library  # noqa: E402

EXAMPLES = ("mlp_sgd", "gpt_adamw", "resnet18_sgd")
PRECISIONS = {"f32": [], "bf16": ["--bf16"]}
LONG = 900  # seconds for one command: what hangs must not cost the parts behind it
STEPS = {"mlp_sgd": 4000, "gpt_adamw": 600, "resnet18_sgd": 600}  # of a peer: long enough for all of its turns
NO_TIME = "no time left"


def gpus_of_driver(library="libcuda.so.1"):
    """How many devices NVIDIA's driver has here; 0 where there is no driver or it has none."""
    try:
        driver = ctypes.CDLL(library)
        count = ctypes.c_int(0)
        return count.value if driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 else 0
    except (OSError, AttributeError):
        return 0


class Failed(Exception):
    """A part did not do what it should; the text is its row's."""

    data = {}
    is_mistake = True


class NoTime(Failed):
    """The minutes are over; what has been done is in `data`."""

    is_mistake = False


def end(process):
    """Ends it with what it has started, which would keep the GPU and the pipes. It leads a group of its own; a number
    that is not such a group's, 1 above all, would be everybody's processes."""
    if type(process.pid) is not int or process.pid <= 1 or process.poll() is not None:
        return
    if os.getpgid(process.pid) == process.pid:
        os.killpg(process.pid, signal.SIGKILL)


class Machine:
    """Where things run: on a GPU, or in a rehearsal on what is here without one."""

    def __init__(self, arguments):
        self.crucible = arguments.crucible
        self.build = pathlib.Path(arguments.crucible).resolve().parent
        self.folder = pathlib.Path(arguments.folder)
        self.rehearses = arguments.rehearse
        self.train = "cpu" if arguments.rehearse else "cuda"
        self.examples = arguments.examples
        self.precisions = arguments.precisions
        self.rounds, self.iterations = arguments.rounds, arguments.iterations
        self.all_patterns, self.quick = arguments.all, arguments.quick
        self.columns = self._columns()
        self.deadline = time.monotonic() + 60 * arguments.minutes
        self.kept = {}  # of the part that runs: what an earlier run did of the same, by case
        self._digest = None

    def _columns(self):
        here = devices(self.crucible)
        columns = {"cpu": here["cpu"], **{name: options for name, options in here.items() if name.startswith("opencl")}}
        if self.rehearses:
            return {"nvidia": here.get("nvidia (emulated)", ["--backend", "nvidia"]), **columns}
        nvrtc = nvrtc_library()
        return {
            "nvidia": ["--backend", "nvidia", *(["--set", f"backend.nvidia.nvrtc={nvrtc}"] if nvrtc else [])], **columns
        }

    def settings(self, name):
        """What a column sets: ["backend.nvidia.nvrtc=...", ...]."""
        options = self.columns[name]
        return [options[i + 1] for i in range(len(options)) if options[i] == "--set"]

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def run(self, *command, fine=(0,), long=LONG, **environment):
        """The finished process. Failed when it ends with another code than those in `fine`, or takes too long; NoTime
        when the minutes are over, before it or in it."""
        words = [str(word) for word in command]
        left = self.seconds_left()
        if left <= 0:
            raise NoTime(NO_TIME)
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **environment}, start_new_session=True)
        try:
            out, said = process.communicate(timeout=min(long, left))
        except subprocess.TimeoutExpired:
            end(process)
            process.communicate()
            if left < long:
                raise NoTime(NO_TIME) from None
            raise Failed(f"{shlex.join(words)} ran longer than {long} s") from None
        except BaseException:  # an interrupt, which a session of its own does not get
            end(process)
            raise
        if process.returncode not in fine:
            lines = [line for line in (said or out).splitlines() if line.strip()]
            last = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "")
            raise Failed(f"{shlex.join(words[:3])} ... ended with {process.returncode}: {last.strip()[:300]}")
        return subprocess.CompletedProcess(words, process.returncode, out, said)

    def json(self, *command, **more):
        text = self.run(*command, "--json", **more).stdout
        try:
            return json.loads(text)
        except ValueError:
            raise Failed(f"{command[1]} printed no JSON: {text[:200]!r}") from None

    def replay(self, recording, *options, **more):
        return self.json(self.crucible, "replay", recording, *self.columns["nvidia"], "--fallback", "forbid", *options,
                         **more)

    def script(self, example, precision, device, steps):
        on = ["--device", device] if device != "cpu" else []
        file = str(ROOT / f"examples/{example}.py")
        return [sys.executable, file, "--steps", str(steps), *on, *PRECISIONS[precision]]

    def recording(self, example, precision, device):
        """Its path; it is made where it is not there yet, or was made by another build or otherwise."""
        path = self.folder / "recordings" / f"{example}.{precision}.{device}.crtrace"
        made_by = path.with_suffix(".made_by")
        now = f"{self.digest()} {self.iterations}"
        if not path.exists() or not made_by.exists() or made_by.read_text() != now:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.run(self.crucible, "record", "-o", path, "--iterations", self.iterations, "--",
                     *self.script(example, precision, device, self.iterations + 4))
            made_by.write_text(now)
        return path

    def sources(self):
        """Where the recordings are made: on the GPU and, to be replayed on it, on the CPU."""
        return list(dict.fromkeys((self.train, "cpu")))

    def cases(self, *more):
        """(example, precision), each with one of `more` in front where there are such."""
        pairs = [(example, precision) for example in self.examples for precision in self.precisions]
        return [(first, *pair) for first in more for pair in pairs] if more else pairs

    def digest(self):
        """Of what is run: the build, the examples, these files, torch, the driver and the devices."""
        if self._digest is None:
            found = hashlib.blake2b(digest_size=12)
            files = [pathlib.Path(self.crucible), *self.build.glob("libcrucible_*.so*"),
                     *self.build.glob("python/**/*"),
                     *self.build.glob("emulators/nvidia/**/*"), *self.build.glob("tests/torch/device/*"),
                     *ROOT.glob("examples/*.py"), *ROOT.glob("tests/gpu/*.py"), ROOT / "tests/emulators/warps.py"]
            for file in sorted(file for file in files if file.is_file() and file.suffix != ".pyc"):
                found.update(f"{file.name}\n".encode() + hashlib.blake2b(file.read_bytes()).digest())
            found.update((packages() + ("" if self.rehearses else driver_and_devices())).encode())
            self._digest = found.hexdigest()
        return self._digest

    def inputs(self, options):
        """What a part's result depends on; `options` are the names of those that it looks at."""
        return {"of": self.digest(), "columns": self.columns, "rehearsal": self.rehearses,
                **{name: getattr(self, name) for name in options}}


def packages():
    """The versions of those that what is recorded and replayed depends on."""
    said = []
    for name in ("torch", "triton", "nvidia-cudnn-cu13", "nvidia-cuda-nvrtc"):
        try:
            said.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            said.append(f"no {name}")
    return ", ".join(said)


def driver_and_devices():
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,uuid", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def over(machine, cases, work, what):
    """(words, data) of a part that does `work(*case)`, which gives (rows, problems), for each case. What an earlier run
    of the same inputs did is not done again; when time is over what has been done is kept for the next."""
    rows, problems, good, late = [], [], [], 0
    for case in cases:
        name = " ".join(case)
        if name in machine.kept:
            rows += machine.kept[name]
            good.append(name)
            continue
        try:
            found, wrong = work(*case)
        except NoTime:
            late += 1
            continue
        except Failed as failed:
            found, wrong = [], [f"{name}: {failed}"]
        except Exception as error:  # a mistake of ours in one case must not cost the others
            found, wrong = [], [f"{name}: {type(error).__name__}: {error}"]
        rows += [{**row, "case": name} for row in found]
        problems += wrong
        if not wrong:
            good.append(name)
    return told(rows, problems, what, good, late, len(cases))


def told(rows, problems, what, good=(), late=0, cases=0):
    """The words of a part that went through; Failed with the first problems where there are any, NoTime where cases are
    left. Rows are kept in all cases."""
    data = {"rows": rows, "problems": problems, "good": list(good)}
    left = f"not run: {NO_TIME} for {late} of {cases} cases" if late else ""
    if problems:
        failed = Failed(f"{len(problems)} of {max(len(rows), cases)} {what}: " + "; ".join(problems[:3]) +
                        (" ..." if len(problems) > 3 else "") + (f"; {left}" if left else ""))
    elif late:
        failed = NoTime(f"{len(rows)} {what}; {left}" if rows else f"not run: {NO_TIME}")
    else:
        return f"{len(rows)} {what}", data
    failed.data = data
    raise failed
