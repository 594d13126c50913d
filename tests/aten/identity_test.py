"""One computation has one identity, however PyTorch was told to carry it out.

Records the same seeded training with different flavours (optimizer loops, oneDNN on and off) and compares the hash of
the final program, as `crucible graph --stages` prints it. All of a class are recorded by one process, for importing
torch takes longer than they do.
Needs torch, `crucible` (environment CRUCIBLE) and its Python package (CRUCIBLE_PYTHON_FOLDER).
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CRUCIBLE = os.environ.get("CRUCIBLE", "crucible")

FLAVOURS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


TRAININGS = ("foreach", "loop", "fused", "without oneDNN", "another rate", "another decay",
             *(f"{optimizer} {flavour}" for optimizer in ("SGD", "Adagrad", "Adam", "scheduled")
               for flavour in FLAVOURS))
ATTENTIONS = ("plain", "causal", "masked", "scaled", "float64", "inference")


def attend(kernel, form):
    """What is recorded: a layer of attention by one of the framework's kernels, trained or not."""
    import crucible
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch.manual_seed(0)
    options = {"causal": {"is_causal": True}, "scaled": {"scale": 0.3}, "dropout": {"dropout_p": 0.25},
               "masked": {"attn_mask": (torch.arange(7) % 3 != 1).expand(5, 7)}}.get(form, {})

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.keys, self.out = torch.nn.Linear(16, 24), torch.nn.Linear(16, 48), torch.nn.Linear(24, 16)

        def forward(self, x, y):
            def heads(z):
                return z.view(3, -1, 2, 12).transpose(1, 2)

            keys, values = self.keys(y).split(24, 2)
            attention = torch.nn.functional.scaled_dot_product_attention
            z = attention(heads(self.query(x)), heads(keys), heads(values), **options)
            return self.out(z.transpose(1, 2).reshape(3, 5, 24))

    dtype = torch.float64 if form == "float64" else torch.float32
    network = Attention().to(dtype)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with sdpa_kernel(SDPBackend.MATH if kernel == "math" else SDPBackend.FLASH_ATTENTION):
        for _ in range(5):
            x, y = torch.randn(3, 5, 16, dtype=dtype), torch.randn(3, 7, 16, dtype=dtype)
            if form == "inference":
                with torch.inference_mode():
                    network(x, y)
                crucible.step()
                continue
            network(x, y).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


def train(flavour):
    """What is recorded: six steps of a small network."""
    import torch

    torch.manual_seed(0)

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
            self.norm = torch.nn.BatchNorm2d(8)
            self.dropout = torch.nn.Dropout(0.1)
            self.head = torch.nn.Linear(8, 4)

        def forward(self, x):
            x = torch.nn.functional.relu(self.norm(self.convolution(x)))
            return self.head(self.dropout(x).mean((2, 3)))

    network = Network()
    optimizers = {
        "foreach": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=True),
        "loop": lambda p: torch.optim.AdamW(p, lr=1e-2, foreach=False),
        "fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
        **{f"Adam {name}": lambda p, flags=flags: torch.optim.Adam(p, lr=1e-2, weight_decay=1e-2, amsgrad=True, **flags)
           for name, flags in FLAVOURS.items()},
        **{f"SGD {name}": lambda p, flags=flags: torch.optim.SGD(
            p, lr=1e-2, momentum=0.9, weight_decay=1e-2, nesterov=True, **flags)
           for name, flags in FLAVOURS.items()},
        **{f"Adagrad {name}": lambda p, flags=flags: torch.optim.Adagrad(p, lr=1e-2, weight_decay=1e-2, **flags)
           for name, flags in FLAVOURS.items()},
        **{f"scheduled {name}": lambda p, flags=flags: torch.optim.AdamW(p, lr=1e-2, **flags)
           for name, flags in FLAVOURS.items()},
        "another rate": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=False),
        "another decay": lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1, foreach=False),
    }
    optimizer = optimizers.get(flavour, optimizers["foreach"])(network.parameters())
    with torch.backends.mkldnn.flags(enabled=False) if flavour == "without oneDNN" else contextlib.nullcontext():
        for _ in range(5):
            x, y = torch.randn(2, 3, 8, 8), torch.randint(0, 4, (2,))
            torch.nn.functional.cross_entropy(network(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()


def run_crucible(*command):
    done = subprocess.run([CRUCIBLE, *map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def record_all(kind, folder):
    """`kind`.crtrace of each training, or of each attention, in the folder: by a process that runs this file."""
    path = os.pathsep.join(filter(None, [os.environ.get("CRUCIBLE_PYTHON_FOLDER"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run([sys.executable, __file__, f"--{kind}", folder], capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": path})
    if done.returncode != 0:
        raise AssertionError(f"recording {kind}: exit code {done.returncode}\n{done.stderr[-3000:]}")


def record_here(folder, name, run, *arguments):
    import crucible

    with crucible.record(os.path.join(folder, f"{name}.crtrace"), iterations=3):
        run(*arguments)


def final_stage(trace):
    return json.loads(run_crucible("graph", trace, "--stages", "--json"))["stages"][-1]


class Identity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            record_all("train", folder)
            cls.hashes = {flavour: final_stage(pathlib.Path(folder) / f"{flavour}.crtrace")["hash"]
                          for flavour in TRAININGS}

    def test_optimizer_loops(self):
        self.assertEqual(self.hashes["loop"], self.hashes["foreach"])

    def test_fused_steps(self):
        self.assertEqual(self.hashes["fused"], self.hashes["loop"])
        for optimizer in ("SGD", "Adagrad", "Adam", "scheduled"):
            for flavour in ("foreach", "fused"):
                self.assertEqual(self.hashes[f"{optimizer} {flavour}"], self.hashes[f"{optimizer} loop"],
                                 (optimizer, flavour))
        self.assertNotEqual(self.hashes["SGD loop"], self.hashes["Adagrad loop"])

    def test_onednn_on_and_off(self):
        self.assertEqual(self.hashes["without oneDNN"], self.hashes["foreach"])

    def test_other_numbers_are_other_programs(self):
        # The decay is a fixed number of the program; the learning rate too, where no schedule changes it.
        self.assertNotEqual(self.hashes["another decay"], self.hashes["foreach"])
        self.assertNotEqual(self.hashes["another rate"], self.hashes["foreach"])


class AttentionIdentity(unittest.TestCase):
    """Attention composed of single ops is the program of the kernels, and computes what was recorded."""

    def recorded(self, kernel, form):
        trace = pathlib.Path(self.folder) / f"{kernel} {form}.crtrace"
        run_crucible("replay", trace, "--backend", "reference", "--verify")
        return final_stage(trace)

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        record_all("attend", cls.folder)

    def test_math_and_flash(self):
        hashes = set()
        for form in ATTENTIONS:
            with self.subTest(form=form):
                composed, kernel = self.recorded("math", form), self.recorded("flash", form)
                self.assertEqual(composed["hash"], kernel["hash"])
                self.assertEqual(composed["ops"], kernel["ops"])
                hashes.add(composed["hash"])
        self.assertEqual(len(hashes), len(ATTENTIONS), "each form is a program of its own")

    def test_dropout_stays_composed(self):
        # The draws stand between the probabilities and their product: no kernel's program.
        self.assertGreater(self.recorded("math", "dropout")["ops"], self.recorded("math", "plain")["ops"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attend"]:
        for kernel in ("math", "flash"):
            for form in (*ATTENTIONS, "dropout"):
                if (kernel, form) != ("flash", "dropout"):
                    record_here(sys.argv[2], f"{kernel} {form}", attend, kernel, form)
    elif sys.argv[1:2] == ["--train"]:
        for flavour in TRAININGS:
            record_here(sys.argv[2], flavour, train, flavour)
    else:
        unittest.main()
