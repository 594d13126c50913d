"""Small programs that the part `record` of `ci/gpu` records, for what only a device does: memory written by what is no
op, a captured graph, streams, precision switches. In a rehearsal they run on the test device of tests/torch/device."""

import os
import sys

from gpu_machine import ROOT, Failed

CHANGED = "memory that something other than an op changed between "
CAPTURE = "the program captures a graph of its device's work while it is recorded"

CUDA = '''
import ctypes, struct
import torch
DEVICE = "cuda"
driver = ctypes.CDLL("libcuda.so.1")

def poke(tensor, value):
    """By the driver itself, on the stream of the program: no op."""
    bits, = struct.unpack("I", struct.pack("f", value))
    status = driver.cuMemsetD32Async(ctypes.c_uint64(tensor.data_ptr()), ctypes.c_uint(bits),
                                     ctypes.c_size_t(tensor.numel()),
                                     ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
    assert status == 0, status

def sleep():
    torch.cuda._sleep(2000000)  # cycles, in which the other stream could go on

graph = torch.cuda.CUDAGraph()
def capture():
    return torch.cuda.graph(graph)
'''

APART = '''
import contextlib
import apart
import torch
DEVICE = "apart"
poke = torch.apart.poke

def sleep():
    torch.apart.late(True)

graph = torch.apart.Graph()
@contextlib.contextmanager
def capture():
    graph.capture_begin()
    yield
    graph.capture_end()
'''

MODEL = '''
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.LayerNorm(128),
                            torch.nn.Linear(128, 64)).to(DEVICE)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = [torch.randn(32, 256) for _ in range(8)]

def train(x, run=model):
    optimizer.zero_grad()
    loss = run(x).square().mean()
    loss.backward()
    optimizer.step()
'''

UNSEEN = '''
def run(x):
    hidden = model[0](x)
    write(hidden.detach(), 0.5)
    return model[1:](hidden)

for batch in data:
    train(batch.to(DEVICE), run)
'''

TRITON = '''
import triton
import triton.language as tl

@triton.jit
def fill(place, value, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(place + at, tl.zeros((BLOCK,), tl.float32) + value, mask=at < count)

def write(tensor, value):
    fill[(triton.cdiv(tensor.numel(), 256),)](tensor, value, tensor.numel(), BLOCK=256)
'''

CAPTURED = '''
still = torch.zeros(3, device=DEVICE)
for step, batch in enumerate(data):
    train(batch.to(DEVICE))
    if step == 3:
        with capture():
            still.add_(1)
    if step > 3:
        graph.replay()
print("after the capture:", still.tolist())
'''

PREFETCH = '''
side = torch.Stream(DEVICE)
for batch in data:
    with side:
        sleep()
        batch = batch.pin_memory() if DEVICE == "cuda" else batch
        batch = batch.to(DEVICE, non_blocking=True)
    torch.accelerator.current_stream().wait_stream(side)
    batch.record_stream(torch.accelerator.current_stream())
    train(batch)
'''

PRECISION = '''
torch.backends.cuda.matmul.allow_tf32 = ALLOWED
for batch in data:
    train(batch.to(DEVICE))
'''


class Item:
    """One program: recorded, and what was recorded of it."""

    def __init__(self, machine, name, program):
        self.machine, self.name, self.program = machine, name, program
        self.output = machine.folder / "programs" / f"{name.replace(' ', '_')}.crtrace"

    def record(self):
        """What the program and the recorder said; the program has to end well."""
        self.output.parent.mkdir(parents=True, exist_ok=True)
        file = self.output.with_suffix(".py")
        head = APART if self.machine.rehearses else CUDA
        file.write_text(head + MODEL + self.program)
        self.output.unlink(missing_ok=True)
        more = {}
        if self.machine.rehearses:
            folders = [*map(str, test_device_folders(self.machine)), os.environ.get("PYTHONPATH", "")]
            more["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
        return self.machine.run(self.machine.crucible, "record", "-o", self.output, "--iterations", 4, "--",
                                sys.executable, file, fine=(0, 1, 2, 3, 4), **more)

    def recorded(self):
        done = self.record()
        if done.returncode != 0 or not self.output.exists():
            said = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Failed(f"recording ended with {done.returncode}: {said[-1][:300] if said else ''}")
        return self.machine.json(self.machine.crucible, "trace", "info", self.output)

    def verify(self, *options):
        return self.machine.json(self.machine.crucible, "replay", self.output, *options, "--verify", fine=(0, 1))

    def verified(self):
        """Where it has been verified: on the processor and on the device."""
        for name in ("cpu", "nvidia"):
            found = self.verify(*self.machine.columns[name])
            if not found["verified"]:
                raise Failed(f"not verified on {name}: {found.get('reason')}")
        return "verified on cpu and nvidia"


def told_of_writes(item):
    """A write by what is no op is told, and the recording is not verified."""
    info = item.recorded()
    changes = [told["what"] for told in info["not_recorded"] if told["what"].startswith(CHANGED)]
    if not changes:
        raise Failed("nothing is told of a write by what is no op")
    if item.verify(*item.machine.columns["cpu"])["verified"]:
        raise Failed("a recording with memory of no recorded origin is verified")
    return f"told: {changes[0]}"


def capture_refused(item):
    """A capture is refused in words, and the program goes on as if nothing was recorded."""
    done = item.record()
    if CAPTURE not in done.stderr:
        raise Failed(f"no sentence tells of the capture: {done.stderr.strip()[-300:]}")
    if "after the capture: [4.0, 4.0, 4.0]" not in done.stdout:
        raise Failed(f"the program did not end well: {(done.stdout + done.stderr).strip()[-300:]}")
    return "refused in words, and the program went on"


def streams(item):
    info = item.recorded()
    changes = [told["what"] for told in info["not_recorded"] if told["what"].startswith(CHANGED)]
    if changes:
        raise Failed(f"a copy on a second stream was taken for a write by no op: {changes[0]}")
    return item.verified()


def precision_is(expected):
    def look(item):
        precision = item.recorded().get("precision", "")
        found = dict(part.strip().partition("=")[::2] for part in precision.split(","))
        if (found.get("cuda.matmul") == "tf32") != expected:
            raise Failed(f"the recording's precision is '{precision}'")
        return f"cuda.matmul={found.get('cuda.matmul')}, {item.verified()}"

    return look


ITEMS = {
    "write by the driver": ("write = poke\n" + UNSEEN, told_of_writes),
    "write by a Triton kernel": (TRITON + UNSEEN, told_of_writes),
    "captured graph": (CAPTURED, capture_refused),
    "two streams": (PREFETCH, streams),
    "TF32 on": (PRECISION.replace("ALLOWED", "True"), precision_is(True)),
    "TF32 off": (PRECISION.replace("ALLOWED", "False"), precision_is(False)),
}


def test_device_folders(machine):
    return [machine.build / "tests/torch/device", ROOT / "tests/torch/device"]


def not_run(machine, name):
    """Why a program is not run here; "" where it is."""
    if machine.rehearses:
        if name == "write by a Triton kernel":
            return "not rehearsed", "Triton compiles for GPUs alone"
        if not (test_device_folders(machine)[0] / "_apart.so").exists():
            return "not rehearsed", "this build has no test device (crucible_test_device)"
    elif name == "write by a Triton kernel":
        try:
            import triton  # noqa: F401
        except ImportError:
            return "unmeasured", "there is no Triton"
    return ""


def items_of(machine):
    """{name: what records it and gives (rows, problems)}"""
    def run(name):
        row = {"item": name, "verdict": "passed", "reason": ""}
        left = not_run(machine, name)
        if left:
            return [row | {"verdict": left[0], "reason": left[1]}], []
        program, look = ITEMS[name]
        try:
            row["reason"] = look(Item(machine, name, program))
        except Failed as failed:
            if not failed.is_mistake:
                raise
            row |= {"verdict": "failed", "reason": str(failed)}
            return [row], [f"{name}: {failed}"]
        return [row], []

    return {name: lambda name=name: run(name) for name in ITEMS}
