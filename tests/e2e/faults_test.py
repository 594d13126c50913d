"""What goes wrong with a device, on each plugin: one table, a row per fault and plugin. And a run whose device is lost
goes on elsewhere.

Environment: as e2e_test.py, whose folder with a recording it uses; CRUCIBLE_INTEL_OPENCL for the emulated Intel device.
NVIDIA, AMD and Intel are those of the emulated drivers; OpenCL is the real driver with a layer of the loader that lets
calls fail (tests/emulators/opencl).
"""

import dataclasses
import json
import os
import pathlib
import re
import sys
import unittest

import e2e_test
import kept_store
from e2e_test import CRUCIBLE, ROOT, crucible

sys.path.insert(0, str(ROOT / "tests" / "models"))
from devices_here import devices, nvrtc_library  # noqa: E402

EMULATORS = pathlib.Path(CRUCIBLE).resolve().parent / "emulators"
LAYER = EMULATORS / "opencl/libopencl_faults.so"
PLANTING = EMULATORS / "planting/libplanting_compiler.so"
COLUMNS = {
    "nvidia": "nvidia (emulated)", "amd": "amd (emulated)", "intel": "intel (emulated)", "opencl": "opencl: PoCL"
}
VISIBLE = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "HIP_VISIBLE_DEVICES", "intel": "ZE_AFFINITY_MASK"}
TWO = {
    "nvidia": {"CRUCIBLE_EMU_DEVICES": "2"}, "amd": {"CRUCIBLE_EMU_DEVICES": "2"},
    "intel": {"CRUCIBLE_EMU_DEVICES": "2"}, "opencl": {"POCL_DEVICES": "pthread pthread"}
}


@dataclasses.dataclass
class Fault:
    """One cell of the table: `crucible replay` under a fault. `words` are regular expressions, all of which standard
    error has."""
    rules: str = ""                                    # CRUCIBLE_EMU_FAULTS; each of them must have fired
    sets: list = dataclasses.field(default_factory=list)  # OPTION=VALUE of the plugin
    env: dict = dataclasses.field(default_factory=dict)
    code: int = 4
    words: list = dataclasses.field(default_factory=list)


def everywhere(fault, **other):
    """The same on each plugin, but for those that are named; None: there is no such fault on that one, and why."""
    return {plugin: other.get(plugin, fault) for plugin in COLUMNS}


# "which fault": {plugin: Fault, or the reason why there is none}. `{id}` is the plugin's first device.
FAULTS = {
    "no driver": everywhere(
        Fault(sets=["library=/nowhere/lib.so"], words=["/nowhere/lib.so", "cannot be loaded", "install"])),
    "a library of something else": everywhere(Fault(sets=["library=libz.so.1"], words=["libz.so.1", "lacks"])),
    "a driver that does not start": everywhere(
        Fault("fail@init", words=["does not start"]), opencl=Fault("fail@init(clGetPlatformIDs)",
                                                                   words=["no OpenCL platform", "install a driver"])),
    "a driver that is too old": {
        "nvidia": Fault("fail@query(cuDriverGetVersion)",
                        words=["speaks CUDA 10.2", "CUDA 11.4 or newer is needed", "update the driver"]),
        "amd": Fault("fail@query(hipRuntimeGetVersion)",
                     words=["is version 4.4", "5 or newer is needed", "update ROCm"]),
        "intel": Fault("fail@query(zeDriverGetApiVersion)", words=["speaks version 2.0", "1.0 to 1.x is needed"]),
        "opencl": Fault("fail@query(clGetDeviceInfo)", words=["speaks OpenCL 1.1", "1.2 or newer is needed"])
    }, "a compiler that is newer than the driver": {
        "nvidia": Fault("fail:code=CUDA_ERROR_UNSUPPORTED_PTX_VERSION@load",
                        words=["is newer than the driver", "update the driver, or name an older NVRTC"]),
        "amd": Fault("fail@load", words=["hipModuleLoadData of the kernels", "hipErrorInvalidImage"]),
        "intel": "the compiler is the driver's own", "opencl": "the compiler is the driver's own"
    }, "a busy device": {
        "nvidia": Fault("fail@init(cuDevicePrimaryCtxRetain)",
                        words=["another process has the device for itself",
                               "nvidia-smi"]), "amd": "HIP knows no device that one process has for itself",
        "intel": Fault("fail@init(zeContextCreate)", words=["another process has the device for itself"]),
        "opencl": Fault("fail@init(clCreateContext)", words=["another process has it for itself"])
    }, "a device that disappears": everywhere(
        Fault(
            "lost@launch#3", words=[
                r"device {id} \(.+\) was lost (in iteration 0 \(of 0 to 2\): in one of steps 0 to \d+ \(of \d+\)|before the first iteration: trial of )",
                "--fallback warn or allow"
            ])),
    "a compile error": everywhere(
        Fault("fail@compile", code=5, words=["refuses the kernels"]), amd=Fault(
            "fail@compile#1", sets=["compiler=hiprtc"], code=5,
            words=["refuses the kernels", r"\n  kernel \w+: .+ at mlp_sgd.py:\d+",
                   r"crucible kernels FILE --show \d+"]),
        nvidia=Fault(
            sets=[f"nvrtc={PLANTING}"], code=5, env={
                "CRUCIBLE_PLANT_COMPILER": nvrtc_library(),
                "CRUCIBLE_PLANT_FROM": "c.v[i] = fmaf(a.v[i], b.v[i], c.v[i])",
                "CRUCIBLE_PLANT_TO": "c.v[i] = no_such_function(a.v[i])"
            }, words=[
                "refuses the kernels", "no_such_function", r"\n  kernel \w+: .+ at mlp_sgd.py:\d+",
                r"crucible kernels FILE --show \d+"
            ])), "a kernel that needs more than the device has":
                everywhere("launches are shaped by what the driver says of each kernel, and kernels share no memory"),
    "no memory at first": everywhere(
        Fault("oom@alloc#1", code=0,
              words=[r"{id} had no \d+ bytes", "asked again: it has them now"])), "no memory at all": everywhere(
                  Fault(
                      "oom@alloc", words=[
                          r"arena: allocating \d+ bytes on device {id}: cannot have \d+ bytes", "free|in use",
                          "memory budget"
                      ])), "a hang": everywhere(
                          Fault(
                              "hang@launch#3", sets=["timeout_s=1"], words=[
                                  "{id} is suspect: .+ did not finish within 1 s, the option timeout_s",
                                  r"device {id} \(.+\) was lost"
                              ])),
}


class Devices(e2e_test.Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        here = devices(CRUCIBLE)
        cls.options = {plugin: here[column] for plugin, column in COLUMNS.items() if column in here}
        if not LAYER.exists() or "opencl:0" not in crucible("devices", "--json").stdout:
            cls.options.pop("opencl", None)

    def setUp(self):
        if not self.options:
            self.skipTest("this build has no emulated driver, and no layer for OpenCL's faults")
        self.fired = self.folder / f"{self._testMethodName}.log"

    def run_on(self, plugin, command, *arguments, rules="", sets=(), env=None):
        """Under these rules, each of which must fire: a fault that was not there proves nothing."""
        self.fired.unlink(missing_ok=True)
        environment = {
            **os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store"), "CRUCIBLE_EMU_LOG": str(self.fired),
            **(env or {})
        }
        if rules:
            environment["CRUCIBLE_EMU_FAULTS"] = rules
        if plugin == "opencl":
            environment["OPENCL_LAYERS"] = str(LAYER)
        words = [word for text in sets for word in ("--set", f"backend.{plugin}.{text}")]
        done = crucible(command, *arguments, *self.options[plugin], *words, env=environment)
        fired = self.fired.read_text() if self.fired.exists() else ""
        for rule in filter(None, rules.split(";")):
            action, site = rule.split("@")
            self.assertIn(f"{action.split(':')[0]}@{re.match('[a-z]+', site)[0]}", fired,
                          f"{rule} did not fire: {done.stderr}")
        return done

    def replay(self, plugin, *arguments, **more):
        return self.run_on(plugin, "replay", self.trace, *arguments, **more)

    def document(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)


class Faults(Devices):
    def test_every_fault_says_what_to_do(self):
        for name, cells in FAULTS.items():
            for plugin, fault in cells.items():
                if plugin not in self.options or isinstance(fault, str):
                    continue
                if name == "a compile error" and plugin == "nvidia" and not PLANTING.exists():
                    continue
                with self.subTest(name, plugin=plugin):
                    # What is compiled once is loaded ever after: faults of compilers and loaders get a folder of their
                    # own, the others share one.
                    of_compiler = re.search("@(compile|load)", fault.rules) or fault.code == 5
                    cache = str(self.folder / (f"cache of {name} {plugin}" if of_compiler else "cache"))
                    env = {"CRUCIBLE_STORE_DIR": cache, "POCL_CACHE_DIR": cache, **fault.env}
                    done = self.replay(plugin, "--verify", rules=fault.rules, sets=fault.sets, env=env)
                    self.assertEqual(done.returncode, fault.code, done.stdout + done.stderr)
                    for words in fault.words:
                        self.assertRegex(done.stderr, words.replace("{id}", f"{plugin}:0"))

    def test_two_devices_and_the_second_one_alone(self):
        for plugin in self.options:
            with self.subTest(plugin):
                done = self.replay(plugin, "--device", f"{plugin}:1", "--verify", "--json", env=TWO[plugin])
                document = self.document(done)
                self.assertIs(document["verified"], True)
                self.assertEqual(document["receipt"]["device"]["id"], f"{plugin}:1")
                if plugin not in VISIBLE:
                    continue
                visible = {**TWO[plugin], VISIBLE[plugin]: "1"}
                done = self.replay(plugin, "--device", f"{plugin}:1", env=visible)
                self.assert_refused(done, 4, f"no device '{plugin}:1'", f"it has {plugin}:0")
                document = self.document(self.replay(plugin, "--json", env=visible))
                self.assertEqual(document["receipt"]["device"]["properties"][VISIBLE[plugin]], "1")
                # Intel's emulated devices are alike, and its driver has none where all are hidden.
                if plugin != "intel":
                    self.assert_refused(self.replay(plugin, env={**visible, VISIBLE[plugin]: ""}), 4, VISIBLE[plugin])

    def test_a_damaged_program_in_the_store_is_compiled_again_and_told(self):
        for plugin in self.options:
            if plugin == "opencl":
                continue  # PoCL keeps what it compiles by itself
            with self.subTest(plugin):
                store = self.folder / f"damaged {plugin}"
                env = {"CRUCIBLE_STORE_DIR": str(store)}
                first = self.document(self.replay(plugin, "--verify", "--json", env=env))
                self.assertEqual(first["cache"], "miss")
                files = kept_store.files_in(store / "cas")
                self.assertTrue(files)
                for file in files:
                    file.write_bytes(file.read_bytes()[:-30] + b"?" * 30)
                again = self.replay(plugin, "--verify", "--json", env=env)
                self.assertEqual(self.document(again)["result_sha256"], first["result_sha256"])
                self.assertIn("it was moved to quarantine", again.stderr)
                self.assertEqual(self.document(self.replay(plugin, "--json", env=env))["cache"], "hit")


class Rerouted(Devices):
    """A device is lost while it runs: the run ends elsewhere with equal results, and the receipt tells."""

    def lost_in_iteration(self, plugin, iteration, *more):
        """The rule that loses the device there, and the document of a run that loses none."""
        plain = self.document(self.replay(plugin, "--verify", "--json", *more))
        launches = plain["receipt"]["generated_steps"]
        return f"lost@launch#{iteration * launches + 2}", plain

    def check(self, plugin, done, plain, iteration, went_on):
        document = self.document(done)
        self.assertIs(document["verified"], True)
        self.assertEqual(len(document["lost"]), 1, document["lost"])
        loss = document["lost"][0]
        self.assertEqual(
            (loss["device"], loss["iteration"], loss["from_iteration"], loss["repeated_iterations"], loss["went_on"]),
            (f"{plugin}:0", iteration, iteration, 0, went_on))
        self.assertIn("step", loss["reason"])
        self.assertEqual(document["receipt"]["lost"], document["lost"])
        self.assertEqual(document["receipt"]["device"]["id"], went_on)
        self.assertEqual(len(document["iterations"]), len(plain["iterations"]))
        self.assertEqual(document["timed_iterations"],
                         len(plain["iterations"]) - iteration, "times of a lost device are no times of the other one")
        self.assertEqual(document["receipt"]["checkpoints"]["times"], len(plain["iterations"]))
        return document

    def test_another_backend_goes_on_with_equal_results(self):
        for plugin in self.options:
            for numerics in ("strict", "fast"):
                with self.subTest(plugin, numerics=numerics):
                    more = ["--numerics", numerics, "--set", "fallback_devices=cpu"]
                    rule, plain = self.lost_in_iteration(plugin, 1, *more)
                    done = self.replay(plugin, "--verify", "--json", "--fallback", "warn", *more, rules=rule)
                    document = self.check(plugin, done, plain, 1, "cpu:0")
                    self.assertRegex(
                        done.stderr,
                        rf"warning: device {plugin}:0 \(.+\) was lost in iteration 1 \(of 0 to 2\): .+ takes over")
                    if numerics == "strict":
                        self.assertEqual(document["result_sha256"], plain["result_sha256"])

    def test_a_log_says_where_the_run_went_on(self):
        for plugin in self.options:
            with self.subTest(plugin):
                more = ["--numerics", "strict", "--set", "fallback_devices=cpu"]
                rule, _ = self.lost_in_iteration(plugin, 1, *more)
                log = self.folder / f"{plugin}.crlog"
                self.document(self.replay(plugin, "--json", "--log", log, *more))
                self.document(self.replay(plugin, "--json", "--fallback", "allow", "--log", log, *more, rules=rule))
                runs = json.loads(crucible("log", log, "--json").stdout)["runs"]
                self.assertEqual([run["iterations_logged"] for run in runs], [3, 3])
                done = crucible("log", log, "--compare")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                lines = json.loads(crucible("log", log, "--json", "--run", runs[1]["run"]).stdout)["runs"][0]["lines"]
                self.assertEqual([line["kind"] for line in lines],
                                 ["run", "iteration", "moved", "iteration", "iteration", "end"])
                self.assertEqual((lines[2]["from"], lines[2]["first_iteration"]), (f"{plugin}:0", 1))
                self.assertEqual(lines[2]["machine"]["device"], "cpu:0")
                self.assertEqual(crucible("log", log, "--verify").returncode, 0)

    def test_another_device_of_the_same_plugin_goes_first(self):
        for plugin in self.options:
            with self.subTest(plugin):
                more = ["--numerics", "strict", "--set", "fallback_devices=cpu"]
                rule, plain = self.lost_in_iteration(plugin, 2, *more)
                done = self.replay(plugin, "--verify", "--json", "--fallback", "allow", *more, rules=rule,
                                   env=TWO[plugin])
                # OpenCL's layer and Intel's emulated driver lose all of their devices at once: the second one is passed
                # over.
                together = plugin in ("opencl", "intel")
                document = self.check(plugin, done, plain, 2, "cpu:0" if together else f"{plugin}:1")
                self.assertEqual(document["result_sha256"], plain["result_sha256"])
                self.assertEqual([row["device"] for row in document["receipt"]["passed_over"]],
                                 [f"{plugin}:1"] if together else [])
                self.assertIn("note: device", done.stderr)

    def test_a_hang_goes_on_elsewhere(self):
        for plugin in self.options:
            with self.subTest(plugin):
                more = ["--numerics", "strict", "--set", "fallback_devices=cpu"]
                rule, plain = self.lost_in_iteration(plugin, 1, *more)
                done = self.replay(plugin, "--verify", "--json", "--fallback", "allow", *more,
                                   rules=rule.replace("lost", "hang"), sets=["timeout_s=5"])
                document = self.check(plugin, done, plain, 1, "cpu:0")
                self.assertIn("suspect", document["lost"][0]["reason"])
                self.assertEqual(document["result_sha256"], plain["result_sha256"])

    def test_without_kept_states_it_begins_anew(self):
        for plugin in self.options:
            with self.subTest(plugin):
                more = ["--numerics", "strict", "--set", "fallback_devices=cpu", "--checkpoint-every", "0"]
                rule, plain = self.lost_in_iteration(plugin, 2, *more)
                document = self.document(
                    self.replay(plugin, "--verify", "--json", "--fallback", "allow", *more, rules=rule))
                loss = document["lost"][0]
                self.assertEqual((loss["iteration"], loss["from_iteration"], loss["repeated_iterations"]), (2, 0, 2))
                self.assertEqual(document["receipt"]["checkpoints"]["times"], 0)
                self.assertEqual(document["result_sha256"], plain["result_sha256"])

    def test_no_emulated_device_takes_over_that_nobody_named(self):
        """Beside the lost device there are emulated ones of other plugins: configured, never named."""
        plugin = next(iter(self.options))
        others = [word for other, options in self.options.items() if other != plugin for word in options[2:]]
        rule, _ = self.lost_in_iteration(
            plugin, 2)  # the last one: the rule is every emulated driver's, and the next one is not to come so far
        document = self.document(self.replay(plugin, "--verify", "--json", "--fallback", "allow", *others, rules=rule))
        self.assertNotIn("emulated", document["device"])
        passed = {row["device"]: row["reason"] for row in document["receipt"]["passed_over"]}
        for other in self.options:
            if other not in (plugin, "opencl"):
                self.assertIn("emulated", passed[f"{other}:0"])
        named = next((other for other in self.options if other not in (plugin, "opencl")), None)
        if named is None:
            self.skipTest("one emulated driver alone")
        document = self.document(
            self.replay(plugin, "--verify", "--json", "--fallback", "allow", *others, "--set",
                        f"fallback_devices={named}:0", rules=rule))
        self.assertEqual(document["lost"][0]["went_on"], f"{named}:0")

    def test_nobody_takes_over(self):
        plugin = next(iter(self.options))
        rule, _ = self.lost_in_iteration(plugin, 1)
        done = self.replay(plugin, "--fallback", "allow", "--set", "fallback_devices=reference,nowhere,uuid:0000",
                           rules=rule)
        self.assert_refused(done, 4, f"device {plugin}:0", "no other device takes over: none of these:",
                            "reference: the reference interpreter takes over from no device", "nowhere: ",
                            "uuid:0000: no plugin has such a device")

    def test_what_is_measured_is_not_moved(self):
        plugin = next(iter(self.options))
        rule, _ = self.lost_in_iteration(plugin, 4)  # in the second repetition
        done = self.replay(plugin, "--fallback", "allow", "--repeat", "2", rules=rule)
        self.assert_refused(done, 4, f"device {plugin}:0", "was lost while it was measured", "--repeat")

    def test_bench_and_compare_have_a_row_with_the_reason(self):
        plugin = next(iter(self.options))
        rule, plain = self.lost_in_iteration(plugin, 1)
        settings = self.options[plugin][2:]
        env = {
            **os.environ, "CRUCIBLE_EMU_FAULTS": rule, "CRUCIBLE_STORE_DIR": str(self.folder / "store"),
            "CRUCIBLE_FALLBACK": "allow"
        }
        done = crucible("bench", self.trace, "--backends", f"cpu,{plugin}", "--rounds", 1, "--json", *settings, env=env)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        rows = json.loads(done.stdout)["files"][0]["rows"]
        self.assertIn("was lost", rows[1]["reason"])
        self.assertEqual((rows[0]["verified"], rows[1]["verified"]), (True, False))
        # In a later round: the others go on with theirs.
        later = f"lost@launch#{len(plain['iterations']) * plain['receipt']['generated_steps'] + 3}"
        done = crucible("bench", self.trace, "--backends", f"cpu,{plugin}", "--rounds", 2, "--json", *settings,
                        env={**env, "CRUCIBLE_EMU_FAULTS": later})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        rows = json.loads(done.stdout)["files"][0]["rows"]
        self.assertIn("was lost", rows[1]["reason"])
        self.assertEqual(len(rows[0]["rounds_ns"]), 2)
        done = crucible("compare", self.trace, "--backends", f"cpu,{plugin}", *settings, env=env)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, "was lost")


class Walk(Devices):
    """docs/configuration.md, "A walk": one crucible.toml picks each backend in turn, and one is unplugged."""

    def test_a_file_picks_each_backend_and_a_lost_one_is_replaced(self):
        project = self.folder / "project"
        project.mkdir(exist_ok=True)
        (project / ".git").mkdir(exist_ok=True)  # where the search for the file ends
        hashes = {}
        for plugin, options in {"cpu": ["--backend", "cpu"], **self.options}.items():
            lines = [
                f'numerics = "strict"\nfallback = "warn"\nfallback_devices = ["cpu"]\n[backend]\nname = "{plugin}"\n[backend.{plugin}]\n'
            ]
            lines += [
                f'{name} = "{value}"\n' for name, value in (text.removeprefix(f"backend.{plugin}.").split("=", 1)
                                                            for text in options[2:]
                                                            if text != "--set")
            ]
            (project / "crucible.toml").write_text("".join(lines))
            env = {
                **os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store"), "CRUCIBLE_TRUST": "off",
                "XDG_CONFIG_HOME": str(self.folder / "config")
            }
            with self.subTest(plugin):
                trusted = crucible("config", "trust", "--yes", cwd=project, env=env)  # it names libraries
                self.assertEqual(trusted.returncode, 0, trusted.stderr)
                listed = crucible("devices", cwd=project, env=env)
                self.assertIn(f"{plugin}:0", listed.stdout, listed.stderr)
                plain = self.document(crucible("replay", self.trace, "--verify", "--json", cwd=project, env=env))
                self.assertEqual((plain["receipt"]["device"]["id"], plain["verified"]), (f"{plugin}:0", True))
                self.assertEqual(plain["lost"], [])
                hashes[plugin] = plain["result_sha256"]
                if plugin == "cpu":
                    continue
                rule = f"lost@launch#{plain['receipt']['generated_steps'] + 2}"
                receipt = project / "receipt.json"
                lost = {**env, "CRUCIBLE_EMU_FAULTS": rule
                       } | ({"OPENCL_LAYERS": str(LAYER)} if plugin == "opencl" else {})
                done = crucible("replay", self.trace, "--verify", "--receipt", receipt, cwd=project, env=lost)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertRegex(done.stdout, rf"lost      device {plugin}:0 \(.+\) was lost in iteration 1 ")
                self.assertRegex(done.stdout, "went on   on cpu:0 from iteration 1")
                told = json.loads(receipt.read_text())["lost"][0]
                self.assertEqual((told["device"], told["went_on"], told["from_iteration"]), (f"{plugin}:0", "cpu:0", 1))
        self.assertEqual(len(set(hashes.values())), 1, hashes)


if __name__ == "__main__":
    unittest.main(verbosity=2)
