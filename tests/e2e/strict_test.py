"""Strict numerics as a user meets them: one hash from everywhere, and `crucible compare` where there is another.

Environment: as e2e_test.py, whose folder with a recording it uses.
"""

import json
import os
import shutil
import unittest

import e2e_test
from e2e_test import ROOT, crucible, opencl_drivers

# What is planted here is to be found later than by the trial of kernels.
UNTRIED = ("--set", "kernel_trial=false")


class Strict(e2e_test.Folder):
    """The same bits from every thread count, vector width, compiler and backend, fused or not."""

    def outcome(self, trace, *options, what="--hash"):
        done = crucible("replay", trace, "--numerics", "strict", what, "--json", *options,
                        env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["receipt"]["numerics"], "strict")
        self.assertEqual(document["receipt"]["library_steps"], 0)
        return document["result_sha256"]

    def narrow_compiler(self, *flags):
        """A compiler that ignores which vectors the processor has."""
        path = self.folder / "narrow-clang"
        path.write_text('#!/bin/sh\nexec clang-19 "$@" ' + " ".join(flags) + "\n")
        path.chmod(0o755)
        return path

    def same_everywhere(self, trace):
        expected = self.outcome(trace, what="--verify")  # the same bits elsewhere have the same verdict
        settings = {
            "threads": ["--threads", 7], "16 threads": ["--threads", 16], "one thread": ["--threads", 1],
            "unfused": ["--no-fuse"], "interpreted": ["--backend", "reference"]
        }
        narrow = self.narrow_compiler("-march=x86-64-v3", "-mprefer-vector-width=256", "-O1")
        settings["AVX2"] = ["--set", f"backend.cpu.compiler={narrow}"]
        if shutil.which("gcc"):
            settings["gcc"] = ["--set", "backend.cpu.compiler=gcc"]
        for driver, options in opencl_drivers().items():
            settings[f"OpenCL, {driver}"] = ["--backend", "opencl", *options]
        for name, options in e2e_test.opencl_teams().items():
            settings[f"OpenCL, {name}"] = ["--backend", "opencl", *options]
        for name, options in settings.items():
            with self.subTest(name):
                self.assertEqual(self.outcome(trace, *options), expected)

    def test_an_mlp(self):
        self.same_everywhere(self.trace)

    def test_a_transformer_with_adamw(self):
        """One block: what four have is compiled again for each, most of all by Intel's driver."""
        done, trace = self.record(
            f"""
            import sys
            sys.path.insert(0, {str(ROOT / "examples")!r})
            import gpt_adamw
            gpt_adamw.LAYERS = 1
            gpt_adamw.main()
            """, "--iterations", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same_everywhere(trace)

    def test_a_layer_of_convolutions(self):
        done, trace = self.record(
            """
            import torch
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                                        torch.nn.MaxPool2d(2), torch.nn.Conv2d(8, 12, 3, groups=4), torch.nn.Flatten(), torch.nn.Linear(300, 5))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for step in range(5):
                loss = torch.nn.functional.cross_entropy(model(torch.randn(6, 3, 28, 28)), torch.randint(0, 5, (6,)))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            """, "--iterations", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same_everywhere(trace)

    def test_bits_of_nan(self):
        """What integers show of NaN that was computed is the canonical one everywhere; what was moved stays."""
        done, trace = self.record(
            """
            import torch
            class Bits(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
                        integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
                        self.register_buffer(f"computed_{dtype.itemsize}_{dtype}".replace("torch.", ""), torch.zeros(6, 5, dtype=integer))
                        self.register_buffer(f"moved_{dtype}".replace("torch.", ""), torch.zeros(5, dtype=integer))
                def forward(self, x):
                    with torch.no_grad():
                        for name, buffer in list(self.named_buffers()):
                            dtype = getattr(torch, name.split("_")[-1])
                            if name.startswith("moved"):
                                bits = torch.arange(5).to(buffer.dtype) - 3  # read as floats: some are NaN of both signs
                                buffer.copy_(bits.view(dtype).view(buffer.dtype))
                                continue
                            y = x.to(dtype)
                            zero = y - y
                            made = [zero / zero, -(zero / zero), (zero - 1).sqrt(), y / zero - y / zero, (zero - 1).log(), (zero + 3).acos()]
                            buffer.copy_(torch.stack([m.view(buffer.dtype) for m in made]))
                    return x.sum()
            model = Bits()
            for step in range(4):
                model(torch.randn(5))
            """, "--iterations", 2, "--end-of-iteration", "module")
        self.assertEqual(done.returncode, 0, done.stderr)
        hashes = {}
        for name, options in {
                "cpu": [], "unfused": ["--no-fuse"], "reference": ["--backend",
                                                                   "reference"], **{
                                                                       f"OpenCL, {driver}": [
                                                                           "--backend", "opencl", *options
                                                                       ] for driver, options in opencl_drivers().items()
                                                                   }
        }.items():
            done = crucible("replay", trace, "--numerics", "strict", "--json", *options,
                            env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})
            self.assertEqual(done.returncode, 0, name + done.stdout + done.stderr)
            hashes[name] = json.loads(done.stdout)["result_sha256"]
        self.assertEqual(len(set(hashes.values())), 1, hashes)

    def compare(self, *options):
        if "opencl:0" not in crucible("devices", "--json").stdout:
            self.skipTest("there is no OpenCL device: install ocl-icd-libopencl1 and pocl-opencl-icd")
        return crucible("compare", self.trace, "--backends", "cpu,opencl", "--numerics", "strict", *options,
                        env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})

    def test_every_result_of_two_backends_is_equal(self):
        done = self.compare("--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertIs(document["equal"], True)
        self.assertEqual(document["iterations"], 3)
        self.assertGreater(document["results"], 100)
        self.assertEqual(document["bit_equal"], document["results"])

    def test_a_planted_difference_is_found_and_its_op_named(self):
        """A compiler that makes each exponential a little larger."""
        planted = self.folder / "planting-clang"
        planted.write_text(
            '#!/bin/bash\nfor a; do case $a in *.c) sed -i "s/= crucible_exp_f32(/= 1.0001f * crucible_exp_f32(/" "$a" ;; esac; done\n'
            'exec clang-19 "$@"\n')
        planted.chmod(0o755)
        done = self.compare("--set", f"backend.cpu.compiler={planted}", *UNTRIED, "--json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        difference = json.loads(done.stdout)["first_difference"]
        self.assertEqual(difference["kind"], "exp")
        self.assertEqual(difference["iteration"], 0)
        self.assertIn("mlp_sgd.py", difference["site"])
        done = self.compare("--set", f"backend.cpu.compiler={planted}", *UNTRIED)
        self.assertIn(f"op {difference['op']}: exp", done.stdout)

    def test_a_difference_is_kept_as_a_capsule_that_other_backends_replay(self):
        planted = self.folder / "capsule-planting-clang"
        planted.write_text(
            '#!/bin/bash\nfor a; do case $a in *.c) sed -i "s/= crucible_exp_f32(/= 1.0001f * crucible_exp_f32(/" "$a" ;; esac; done\n'
            'exec clang-19 "$@"\n')
        planted.chmod(0o755)
        setting = ["--set", f"backend.cpu.compiler={planted}", *UNTRIED]
        environment = {**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")}
        capsule = self.folder / "exp.crcapsule"

        def compare(file, backends, *options):
            done = crucible("compare", file, "--backends", backends, "--numerics", "strict", "--json", *options,
                            env=environment)
            return done, json.loads(done.stdout)

        done, document = compare(self.trace, "reference,cpu", *setting, "--capsule", capsule)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(document["capsule"], {"file": str(capsule), "ops": 1, "reproduced": True})
        self.assertLess(capsule.stat().st_size, 100_000)
        done, document = compare(capsule, "reference,cpu", *setting)
        self.assertEqual((done.returncode, document["first_difference"]["kind"]), (1, "exp"))
        self.assertEqual(compare(capsule, "reference,cpu")[0].returncode, 0, "a compiler that plants nothing")
        done = crucible("replay", capsule, "--backend", "cpu", "--numerics", "strict", "--verify", env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        capsule.write_bytes(capsule.read_bytes()[:-3])
        self.assert_refused(crucible("replay", capsule), 3, str(capsule), "make the capsule again")

    def test_three_backends_are_compared_with_the_first(self):
        done = crucible("compare", self.trace, "--backends", "reference,cpu,cpu:0", "--numerics", "strict", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(len(document["backends"]), 3)
        self.assertEqual([pair["equal"] for pair in document["pairs"]], [True, True])
        self.assertEqual([pair["a"] for pair in document["pairs"]], ["reference", "reference"])

    def test_a_device_that_rounds_otherwise_is_not_admitted(self):
        contracting = self.narrow_compiler("-ffp-contract=fast")
        setting = ["--set", f"backend.cpu.compiler={contracting}"]
        environment = {
            **os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")
        }
        done = crucible("replay", self.trace, "--numerics", "strict", *setting, env=environment)
        self.assert_refused(done, 4, "cannot be strict", "multiply, then add", "--self-test")
        self.assertEqual(crucible("replay", self.trace, *setting, env=environment).returncode, 0)
        done = crucible("devices", "--self-test", "--json", *setting, env=environment)
        self.assertEqual(done.returncode, 1, done.stderr)
        document = json.loads(done.stdout)
        self.assertIs(document["passed"], False)
        self.assertEqual([item["name"] for item in document["items"] if not item["passed"]],
                         ["power", "multiply, then add"])

    def test_every_device_here_is_admitted(self):
        devices = {"cpu": ["--backend", "cpu"]}
        devices |= {
            f"OpenCL, {driver}": ["--backend", "opencl", *options] for driver, options in opencl_drivers().items()
        }
        for name, options in devices.items():
            with self.subTest(name):
                done = crucible("devices", "--self-test", *options,
                                env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("admitted to strict numerics", done.stdout)
        self.assert_refused(crucible("devices", "--threads", 1), 2, "--threads requires --calibrate or --self-test")

    def test_comparing_says_what_it_cannot_do(self):
        self.assert_refused(crucible("compare", self.trace, "--backends", "cpu"), 2, "--backends names two or more")
        self.assert_refused(crucible("compare", self.trace, "--backends", "cpu,nowhere"), 4, "nowhere was not found")
        done = crucible("compare", self.trace, "--backends", "cpu,reference", "--numerics", "strict")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_refused(crucible("compare", self.trace, "--backends", "cpu,reference", "--iterations", 9), 2,
                            "3 complete iterations")
        done = crucible("compare", self.trace, "--backends", "cpu,reference", "--tolerance", "0.01")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_an_op_that_stays_with_the_framework_is_refused_by_name(self):
        done, trace = self.record(e2e_test.Opaque.SCRIPT, "--iterations", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = crucible("replay", trace, "--numerics", "strict", "--fallback", "allow")
        self.assert_refused(done, 2, "aten::linalg_ldl_factor_ex", "cannot be strict", "--numerics fast")


if __name__ == "__main__":
    unittest.main(verbosity=2)
