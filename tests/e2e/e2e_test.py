"""The whole path as a user walks it: record an example, replay it elsewhere, and every refusal on the way.

Environment: CRUCIBLE (the executable). Run by CTest; the interpreter that runs it has torch.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRUCIBLE = pathlib.Path(os.environ["CRUCIBLE"])
PLUGIN = "libcrucible_cpu.so"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "warm")]
import recordings  # noqa: E402
import warm  # noqa: E402


def crucible(*arguments, env=None, **options):
    """Runs the command; returns the finished process with its texts."""
    return subprocess.run([str(CRUCIBLE), *map(str, arguments)], capture_output=True, text=True, timeout=280,
                          env=env if env is not None else os.environ, **options)


def clean_environment(**extra):
    """No Python, no torch, no home folder: what a bare machine has."""
    return {"PATH": "/usr/bin", **extra}


class Folder(unittest.TestCase):
    """A test with a folder of its own and one recording of a small program."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="crucible-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.trace = recordings.recorded(CRUCIBLE, "mlp_sgd", 3)

    @staticmethod
    def record_example(example, trace, iterations):
        return crucible("record", "-o", trace, "--iterations", iterations, "--", sys.executable,
                        ROOT / "examples" / f"{example}.py", "--steps", iterations + 3)

    def script(self, text, name=None):
        path = self.folder / f"{name or self._testMethodName}.py"
        path.write_text(textwrap.dedent(text))
        return path

    def record(self, text, *options, name=None):
        """Records a script given as text; returns the process and the path of the trace."""
        trace = self.folder / f"{name or self._testMethodName}.crtrace"
        python = warm.python(CRUCIBLE.parent)
        return crucible("record", "-o", trace, *options, "--", python, self.script(text, name)), trace

    def assert_refused(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn("Traceback", done.stderr)


class Examples(Folder):
    def run_beside_its_recording(self, example, trace, iterations):
        """The example without Crucible. Recording it changes nothing that it prints.

        Eager PyTorch itself may print another last digit in one process than in another: its matrix library promises
        the same bits within one process only, and on a busy machine one loss of some thousands was one unit in the last
        place away. So a pair that differs by no more is tried again; what recording changes, it changes each time.
        """
        for _ in range(3):
            plain = subprocess.run(
                [sys.executable, ROOT / "examples" / f"{example}.py", "--steps",
                 str(iterations + 3)], capture_output=True, text=True, check=True)
            trace.unlink(missing_ok=True)
            recorded = self.record_example(example, trace, iterations)
            self.assertEqual(recorded.returncode, 0, recorded.stderr)
            if plain.stdout == recorded.stdout:
                return plain
            lines, others = plain.stdout.splitlines(), recorded.stdout.splitlines()
            self.assertEqual([line.split()[:-1] for line in lines], [line.split()[:-1] for line in others])
            for line, other in zip(lines, others):
                self.assertAlmostEqual(float(line.split()[-1]), float(other.split()[-1]),
                                       delta=2e-7 * abs(float(line.split()[-1])))
        return self.fail(f"recording changed what the script prints: {plain.stdout}{recorded.stdout}")

    def verify(self, example, iterations, loss_tolerance=1e-5, state_tolerance=1e-4, runs=0):
        """With `runs`, states count as different only beyond what so many starts one rounding away give."""
        trace = self.folder / f"{example}.crtrace"
        plain = self.run_beside_its_recording(example, trace, iterations)
        sensitivity = ["--sensitivity", str(runs)] if runs else []
        done = crucible("replay", trace, "--verify", "--json", *sensitivity,
                        env=clean_environment(CRUCIBLE_STORE_DIR=str(self.folder / "store")))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        replay = json.loads(done.stdout)
        self.assertIs(replay["verified"], True)
        self.assertEqual(len(replay["iterations"]), iterations)
        printed = [float(line.split()[-1]) for line in plain.stdout.splitlines()][2:2 + iterations]
        for iteration, loss in zip(replay["iterations"], printed):
            self.assertAlmostEqual(iteration["loss_recorded"], loss, delta=1e-7 * abs(loss))
            self.assertLessEqual(abs(iteration["loss"] - loss), loss_tolerance * abs(loss))
        if not runs:
            self.assertLessEqual(replay["state"]["max_rel_diff"], state_tolerance)
        self.assertLessEqual(replay["lower_bound_bytes"], replay["planned_peak_bytes"])
        self.assertEqual(replay["peak_bytes"], replay["planned_peak_bytes"])
        return trace, replay

    def test_mlp_sgd(self):
        self.verify("mlp_sgd", 8)

    def test_gpt_adamw(self):
        _, replay = self.verify("gpt_adamw", 8)
        self.assertIn("recorded", replay["receipt"]["random"])

    def test_plan_of_gpt_adamw(self):
        """Roles, names and sizes of a real program's buffers are those of its model."""
        trace = recordings.recorded(CRUCIBLE, "gpt_adamw", 2)
        spec = importlib.util.spec_from_file_location("gpt_adamw", ROOT / "examples" / "gpt_adamw.py")
        gpt = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(gpt)
        sizes = {name: parameter.nbytes for name, parameter in gpt.GPT().named_parameters()}
        page = self.folder / "plan.html"
        done = crucible("plan", trace, "--backend", "none", "--json", "--html", page, "--device-profile",
                        "jetson-orin-nano-8g")
        self.assertEqual(done.returncode, 0, done.stderr)
        plan = json.loads(done.stdout)
        of_role = {role: {b["name"].split(" (+")[0]: b for b in plan["table"] if b["role"] == role}
                   for role in ("parameter", "optimizer state", "gradient", "activation")}
        self.assertEqual({name: b["size_bytes"] for name, b in of_role["parameter"].items()}, sizes)
        self.assertEqual({name: b["size_bytes"] for name, b in of_role["gradient"].items()},
                         {f"grad of {name}": size for name, size in sizes.items()})
        for name, size in sizes.items():
            self.assertEqual(of_role["optimizer state"][f"exp_avg of {name}"]["size_bytes"], size)
            self.assertEqual(of_role["parameter"][name]["module"], name.rpartition(".")[0])
        self.assertTrue(all(b["site"].startswith("gpt_adamw.py:") for b in of_role["activation"].values()))
        self.assertEqual([phase["phase"] for phase in plan["phases"]], ["forward", "backward", "optimizer"])
        self.assertEqual(sum(role["bytes_at_peak"] for role in plan["roles"]), plan["lower_bound_bytes"])
        self.assertEqual(plan["device_profile"]["batch"], gpt.BATCH)
        self.assertGreater(plan["device_profile"]["largest_batch_estimate"], gpt.BATCH)
        self.assertIn("blocks.3.feed_forward.0.weight", page.read_text())

    @unittest.skipIf(importlib.util.find_spec("torchvision") is None, "torchvision is not installed")
    def test_resnet18_sgd(self):
        # Where PyTorch's convolutions round otherwise than the plugin's library, a ReLU near zero falls to the other
        # side.
        self.verify("resnet18_sgd", 4, runs=3)

    def test_poisoned_arena_gives_the_same_bits(self):
        plain = json.loads(crucible("replay", self.trace, "--json").stdout)
        poisoned = json.loads(
            crucible("replay", self.trace, "--json", env={**os.environ, "CRUCIBLE_POISON": "1"}).stdout)
        self.assertEqual([i["loss"] for i in plain["iterations"]], [i["loss"] for i in poisoned["iterations"]])


def opencl_drivers():
    """The OpenCL drivers that are here, as the options of a command: what the loader finds (Debian's pocl-opencl-icd
    makes the processor a device), and Intel's for processors, where CRUCIBLE_INTEL_OPENCL names its library, as ci/test
    does."""
    drivers = {}
    if "opencl:0" in crucible("devices", "--json").stdout:
        drivers["the loader's"] = []
    if os.environ.get("CRUCIBLE_INTEL_OPENCL"):
        drivers["Intel's"] = ["--set", "backend.opencl.library=" + os.environ["CRUCIBLE_INTEL_OPENCL"]]
    return drivers


def opencl_teams():
    """The same with work-items that do an item together, as they do on graphics cards: by groups of them, and by
    sub-groups where the driver has those."""
    ways = {name: "subgroups" if name == "Intel's" else "groups" for name in opencl_drivers()}
    return {f"{name}, by {ways[name]}": [*options, "--set", f"backend.opencl.teams={ways[name]}"]
            for name, options in opencl_drivers().items()}


class OpenCl(Folder):
    """Replays on each OpenCL driver that is here."""

    def replay(self, *options):
        done = crucible("replay", self.trace, "--backend", "opencl", "--verify", "--json", *options,
                        env={**os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def test_a_replay_is_verified_and_repeats_its_bits(self):
        drivers, devices = opencl_drivers(), set()
        if not drivers:
            self.skipTest("there is no OpenCL device: install ocl-icd-libopencl1 and pocl-opencl-icd")
        for name, options in drivers.items():
            with self.subTest(name):
                first, second = self.replay(*options), self.replay(*options)
                self.assertIs(first["verified"], True)
                self.assertEqual(first["receipt"]["library_steps"], 0)
                self.assertEqual(first["result_sha256"], second["result_sha256"])
                devices.add(first["device"])
        self.assertEqual(len(devices), len(drivers), devices)

    def test_teams_are_verified(self):
        """In fast numerics, with lanes that sum up for themselves; strict ones are Strict's."""
        teams = opencl_teams()
        if not teams:
            self.skipTest("there is no OpenCL device: install ocl-icd-libopencl1 and pocl-opencl-icd")
        for name, options in teams.items():
            with self.subTest(name):
                self.assertIs(self.replay(*options)["verified"], True)

    def test_teams_in_spirv_have_the_bits_of_opencl_c(self):
        library = os.environ.get("CRUCIBLE_INTEL_OPENCL")
        if not library:
            self.skipTest("CRUCIBLE_INTEL_OPENCL names no driver; ci/test installs one")
        driver = ["--set", f"backend.opencl.library={library}", "--numerics", "strict"]
        expected = self.replay(*driver)["result_sha256"]
        for teams in ("groups", "subgroups"):
            with self.subTest(teams):
                by_module = self.replay(*driver, "--set", "backend.opencl.language=spirv", "--set",
                                        f"backend.opencl.teams={teams}")
                self.assertEqual(by_module["result_sha256"], expected)

    def test_spirv_has_the_bits_of_opencl_c(self):
        library = os.environ.get("CRUCIBLE_INTEL_OPENCL")
        if not library:
            self.skipTest("CRUCIBLE_INTEL_OPENCL names no driver; ci/test installs one")
        driver = ["--set", f"backend.opencl.library={library}", "--numerics", "strict"]
        by_text = self.replay(*driver)
        for memory in ("buffers", "usm"):
            with self.subTest(memory):
                by_module = self.replay(*driver, "--set", "backend.opencl.language=spirv", "--set",
                                        f"backend.opencl.memory={memory}")
                self.assertIs(by_module["verified"], True)
                self.assertEqual(by_module["result_sha256"], by_text["result_sha256"])

    def test_intels_driver_passes_the_kit(self):
        """PoCL's run is a test of its own, OpenCl.Conformance."""
        library = os.environ.get("CRUCIBLE_INTEL_OPENCL")
        if not library:
            self.skipTest("CRUCIBLE_INTEL_OPENCL names no driver; ci/test installs one")
        done = crucible("plugin", "check", CRUCIBLE.parent / "libcrucible_opencl.so", "--tier",
                        "static,negotiation,api,behaviour,claims,old", "--quick", "--exclude",
                        ROOT / "backends/opencl/exclusions.json", "--set", f"library={library}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_missing_library_is_named(self):
        done = crucible("replay", self.trace, "--backend", "opencl", "--set",
                        "backend.opencl.library=/nowhere/libOpenCL.so.1")
        self.assert_refused(done, 4, "/nowhere/libOpenCL.so.1 cannot be loaded", "ocl-icd-libopencl1")


class BadTraces(Folder):
    def test_missing_file(self):
        self.assert_refused(crucible("replay", self.folder / "none.crtrace"), 3, "none.crtrace")

    def test_not_a_trace(self):
        path = self.folder / "text.crtrace"
        path.write_text("not a trace, but long enough to hold a header " * 20)
        self.assert_refused(crucible("replay", path), 3, "not a")

    def test_truncated(self):
        data = self.trace.read_bytes()
        path = self.folder / "short.crtrace"
        path.write_bytes(data[: len(data) // 2])
        self.assert_refused(crucible("replay", path), 3, "trunc")

    def test_flipped_byte_is_found_by_check(self):
        data = bytearray(self.trace.read_bytes())
        path = self.folder / "flipped.crtrace"
        for place in range(64, len(data), max(1, len(data) // 40)):
            data[place] ^= 0x10
            path.write_bytes(data)
            done = crucible("trace", "check", path)
            # A byte of padding between sections may be anything; every other byte is covered by a checksum.
            self.assertIn(done.returncode, (0, 3), done.stderr)
            data[place] ^= 0x10
        path.write_bytes(data)
        self.assertEqual(crucible("trace", "check", path).returncode, 0)


class Unavailable(Folder):
    def test_unknown_backend(self):
        self.assert_refused(crucible("replay", self.trace, "--backend", "nosuch"), 4, "nosuch")

    def test_plugin_that_cannot_be_loaded(self):
        folder = self.folder / "plugins"
        folder.mkdir()
        (folder / PLUGIN).write_bytes(b"this is no shared object. " * 1000)
        environment = {**os.environ, "CRUCIBLE_PLUGIN_PATH": str(folder)}
        self.assert_refused(crucible("replay", self.trace, env=environment), 4, PLUGIN, "it is not an ELF file")

    def test_no_compiler(self):
        environment = clean_environment(CRUCIBLE_CLANG="/nonexistent/clang",
                                        CRUCIBLE_STORE_DIR=str(self.folder / "empty"))
        self.assert_refused(crucible("replay", self.trace, env=environment), 4, "clang")

    def test_without_onednn_it_works_and_says_so(self):
        environment = {**os.environ, "CRUCIBLE_LIBRARY": "none"}
        done = crucible("replay", self.trace, "--verify", "--json", env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        receipt = json.loads(done.stdout)["receipt"]
        self.assertEqual(receipt["library_steps"], 0)
        self.assertIn("none", receipt["device"]["properties"]["library"])


class BadScripts(Folder):
    TRAINING = """
        import torch
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(6):
            optimizer.zero_grad()
            loss = {loss}
            loss.backward()
            optimizer.step()
        """

    def test_op_without_lowering_is_listed(self):
        done, trace = self.record(
            self.TRAINING.format(loss="torch.linalg.eigvals(model(torch.ones(3, 4))[:2]).abs().sum()"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_refused(crucible("replay", trace), 3, "aten::linalg_eig", "test_op_without_lowering_is_listed.py:7")

    def test_raises_in_the_third_iteration(self):
        done, trace = self.record("""
            import torch, sys
            model = torch.nn.Linear(4, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(6):
                optimizer.zero_grad()
                loss = model(torch.ones(3, 4)).sum()
                if step == 4:
                    sys.exit(7)
                loss.backward()
                optimizer.step()
            """, "--warmup", 1, "--iterations", 5)
        self.assertEqual(done.returncode, 7, done.stderr)
        info = json.loads(crucible("trace", "info", trace, "--json").stdout)
        self.assertEqual(info["iterations"], 3)
        self.assertEqual(crucible("replay", trace, "--verify").returncode, 0)

    def test_disk_full_leaves_no_file(self):
        trace = self.folder / "full.crtrace"
        command = f"ulimit -f 64; exec {CRUCIBLE} record -o {trace} -- {sys.executable} {ROOT}/examples/mlp_sgd.py"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=280)
        self.assert_refused(done, 3, "full.crtrace")
        self.assertEqual([path.name for path in self.folder.glob("full*")], [])
        self.assertIn("step  11", done.stdout, "the script did not go on")

    def test_two_recordings_into_one_path(self):
        trace = self.folder / "both.crtrace"
        first = subprocess.Popen([str(CRUCIBLE), "record", "-o", str(trace), "--", sys.executable, "-c",
                                  "import sys; print('ready', flush=True); sys.stdin.read()"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(first.stdout.readline(), "ready\n")
        second = crucible("record", "-o", trace, "--", sys.executable, "-c", "pass")
        first.communicate(timeout=60)
        self.assert_refused(second, 3, "both.crtrace")

    def test_a_signal_ends_the_script(self):
        trace = self.folder / "signal.crtrace"
        process = subprocess.Popen([str(CRUCIBLE), "record", "-o", str(trace), "--", sys.executable, "-c",
                                    "import time; print('ready', flush=True); time.sleep(60)"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertIn(process.returncode, (128 + signal.SIGTERM, -signal.SIGTERM))


@unittest.skipUnless((CRUCIBLE.parent / "torch" / "libcrucible_torch.so").exists(), "the plugin torch was not built")
class Opaque(Folder):
    """Ops without a lowering: listed, or run by libtorch beside the CPU plugin; and whole programs through libtorch."""

    SCRIPT = """
        import torch
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for step in range(6):
            y = model(torch.randn(4, 8))
            gram = model.weight @ model.weight.T + 4 * torch.eye(8)
            factor, pivots = torch.linalg.ldl_factor(gram.detach())
            loss = (torch.linalg.ldl_solve(factor, pivots, y.T.detach()) * y.T + gram[:, :4]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """

    def replay(self, trace, *options):
        return crucible("replay", trace, *options, env=clean_environment(
            CRUCIBLE_STORE_DIR=str(self.folder), CRUCIBLE_PROBE_TIME_LIMIT_MS="120000"))

    def test_missing_ops_run_in_libtorch(self):
        done, trace = self.record(self.SCRIPT, "--iterations", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        refused = self.replay(trace, "--backend", "cpu")
        self.assert_refused(refused, 3, "no lowering:", "aten::linalg_ldl_factor_ex", "--fallback warn or allow")
        self.assert_refused(self.replay(trace, "--backend", "reference"), 3, "aten::linalg_ldl_factor_ex")
        done = self.replay(trace, "--verify", "--json", "--fallback", "allow")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertIs(document["verified"], True)
        opaque = document["receipt"]["opaque"]
        self.assertEqual(opaque["device"], "torch:0")
        self.assertIn("aten::linalg_ldl_factor_ex", [op["op"] for op in opaque["ops"]])
        self.assertGreater(document["receipt"]["fallback"]["copies_per_iteration"], 0)
        self.assertEqual(document["receipt"]["opaque_steps"], len(document["receipt"]["fallback"]["steps"]))
        self.assertGreater(document["receipt"]["generated_steps"], 0)

    def test_whole_programs_run_in_libtorch(self):
        done = self.replay(self.trace, "--verify", "--json", "--backend", "torch", "--opaque", "all", "--fallback",
                           "allow")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertIs(document["verified"], True)
        self.assertEqual(document["backend"], "torch")
        self.assertIn("aten::addmm", [op["op"] for op in document["receipt"]["opaque"]["ops"]])

    def test_libraries_with_ops_of_their_own(self):
        library = CRUCIBLE.parent / "own_ops.so"
        if not library.exists():
            self.skipTest("this torch has no interface that stays the same: there is no library of own ops")
        done, trace = self.record(f"""
            import torch
            torch.ops.load_library({str(library)!r})
            model = torch.nn.Linear(8, 8)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
            for step in range(6):
                data = torch.ops.crucible_own.lessened(torch.randn(4, 8).double().float())
                optimizer.zero_grad()
                (model(data) - torch.ops.crucible_own.lessened(data.sin())).square().mean().backward()
                optimizer.step()
            """, "--iterations", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_refused(self.replay(trace, "--verify"), 3, "libtorch has no op crucible_own::lessened",
                            "--set backend.torch.libraries=crucible_own")
        self.assert_refused(self.replay(trace, "--verify", "--set", "backend.torch.libraries=crucible_own"), 3,
                            "there is no library _C.so in", "crucible_own")
        done = self.replay(trace, "--verify", "--json", "--set", f"backend.torch.libraries={library}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertIs(document["verified"], True)
        self.assertIn("crucible_own::lessened", [op["op"] for op in document["receipt"]["opaque"]["ops"]])


if __name__ == "__main__":
    unittest.main(verbosity=2)
