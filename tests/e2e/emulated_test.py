"""The plugins of NVIDIA, AMD and Intel end to end on emulated drivers: the same bits as everywhere, and what faults
look like to a user.

Environment: as e2e_test.py, whose folder with a recording it uses; CRUCIBLE_INTEL_OPENCL for the emulated Intel device.
"""

import json
import os
import re
import sys
import unittest

import e2e_test
from e2e_test import CRUCIBLE, ROOT, crucible

sys.path.insert(0, str(ROOT / "tests" / "models"))
from devices_here import devices  # noqa: E402


class Emulated(e2e_test.Folder):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.all = devices(CRUCIBLE)
        cls.devices = {name: options for name, options in cls.all.items() if name.endswith("(emulated)")}

    def setUp(self):
        if not self.devices:
            self.skipTest("this build has no emulated driver")
        self.environment = {
            **os.environ, "CRUCIBLE_STORE_DIR": str(self.folder / "store")
        }

    def replay(self, options, *more, **environment):
        return crucible("replay", self.trace, *options, *more, env={**self.environment, **environment})

    def test_every_vendor_is_here(self):
        """Nothing is left out in silence where everything that is needed was installed."""
        if not os.environ.get("CRUCIBLE_INTEL_OPENCL"):
            self.skipTest("CRUCIBLE_INTEL_OPENCL names no driver; ci/test installs one")
        self.assertEqual(list(self.devices), ["nvidia (emulated)", "amd (emulated)", "intel (emulated)"])

    def test_strict_replays_have_the_same_bits(self):
        hashes = {}
        for name, options in {"cpu": self.all["cpu"], **self.devices}.items():
            with self.subTest(name):
                what = "--verify" if name == "cpu" else "--hash"  # the same bits elsewhere have the same verdict
                done = self.replay(options, "--numerics", "strict", what, "--json")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                document = json.loads(done.stdout)
                self.assertIs(document["verified"], True if name == "cpu" else None)
                self.assertEqual("emulated" in document["device"], name != "cpu", document["device"])
                hashes[name] = document["result_sha256"]
        self.assertEqual(len(set(hashes.values())), 1, hashes)

    def test_a_second_device_may_be_of_another_architecture(self):
        archs = {"nvidia (emulated)": "sm_90,sm_80", "amd (emulated)": "gfx90a,gfx1100"}
        for name, arch in archs.items():
            if name in self.devices:
                with self.subTest(name):
                    device = self.devices[name][1] + ":1"
                    done = self.replay(self.devices[name], "--device", device, "--verify", "--json",
                                       CRUCIBLE_EMU_DEVICES="2", CRUCIBLE_EMU_ARCH=arch)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertIn(arch.split(",")[1], json.loads(done.stdout)["device"])

    def test_teams_change_no_bit(self):
        """An item by a warp, a wave or a group, and by a thread; NVIDIA's under the checker of races as well."""
        for name, options in self.devices.items():
            plugin = name.split()[0]
            runs = {"teams": {}, "threads": {"--set": f"backend.{plugin}.teams=false"}}
            environments = [{}, {"CRUCIBLE_EMU_RACES": "on"}] if plugin == "nvidia" else [{}]
            hashes = set()
            for how, more in runs.items():
                for environment in environments:
                    with self.subTest(name, how=how, **environment):
                        words = [word for pair in more.items() for word in pair]
                        done = self.replay(options, *words, "--numerics", "strict", "--hash", "--json", **environment)
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                        hashes.add(json.loads(done.stdout)["result_sha256"])
            self.assertEqual(len(hashes), 1, name)

    def test_launches_that_are_one_change_no_bit(self):
        """And nodes of a graph that have no order may run in any: whatever is missing among its edges shows in one."""
        for name, options in self.devices.items():
            plugin = name.split()[0]
            if plugin == "intel":
                continue
            hashes, plans = set(), {}
            for batches in "same", "mixed", "none":
                for order in "forward", "reverse", "shuffled":
                    with self.subTest(name, batches=batches, order=order):
                        done = self.replay(options, "--set", f"backend.{plugin}.batches={batches}", "--objective",
                                           "fastest", "--numerics", "strict", "--hash", "--json",
                                           CRUCIBLE_EMU_ORDER=order)
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                        document = json.loads(done.stdout)
                        hashes.add(document["result_sha256"])
                        plans[batches] = document["plans"][0]
            self.assertEqual(len(hashes), 1, name)
            alone, same, mixed = plans["none"], plans["same"], plans["mixed"]
            self.assertEqual((alone["batches"], alone["launches"]), (0, alone["ops"]))
            self.assertGreater(same["batches"], 0)
            self.assertLess(same["launches"], alone["launches"])
            self.assertLessEqual(mixed["launches"], same["launches"])
            self.assertLess(same["longest_path"], same["nodes"])
            told = self.replay(options, "--objective", "fastest", "--numerics", "strict").stdout
            self.assertIn(
                f"launches  {same['launches']} for {same['ops']} ops, {same['batches']} of them for several; "
                f"at most {same['longest_path']} behind each other\n", told)

    def test_fast_replays_are_verified(self):
        for name, options in self.devices.items():
            with self.subTest(name):
                done = self.replay(options, "--verify")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_convolutions_by_the_library_are_verified(self):
        """With the emulated cuDNN and MIOpen: and it was those, because a fault of theirs shows. Strict replays never
        use them."""
        vendors = [("nvidia", "cudnn", "libcudnn.so.9", "cudnnBackendExecute"),
                   ("amd", "miopen", "libMIOpen.so.1", "MIOpen's conv2d")]
        emulators = CRUCIBLE.resolve().parent / "emulators"
        vendors = [
            row for row in vendors if f"{row[0]} (emulated)" in self.devices and (emulators / row[0] / row[2]).exists()
        ]
        if not vendors:
            self.skipTest("this build has no emulated cuDNN or MIOpen")
        recorded, trace = self.record(
            """
            import torch
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, stride=2, groups=2),
                                        torch.nn.Flatten(), torch.nn.Linear(8 * 7 * 7, 4))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in range(5):
                optimizer.zero_grad()
                model(torch.randn(2, 3, 16, 16)).square().mean().backward()
                optimizer.step()
        """, "--iterations", 2)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        for vendor, name, library, call in vendors:
            options = [
                *self.devices[f"{vendor} (emulated)"], "--set",
                f"backend.{vendor}.{name}={emulators / vendor / library}", "--set", f"backend.{vendor}.dnn={name}",
                "--tune", "off", "--verify"
            ]
            with self.subTest(vendor):
                done = crucible("replay", trace, *options, env=self.environment)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                for kind in ("forward", "data", "filter"):
                    done = crucible("replay", trace, *options,
                                    env={**self.environment, "CRUCIBLE_EMU_FAULTS": f"fail@launch(conv_f32_{kind}*)"})
                    self.assertNotEqual(done.returncode, 0, kind)
                    self.assertIn(call, done.stderr)
                strict = [*options, "--numerics", "strict"]
                done = crucible(
                    "replay", trace, *strict, env={
                        **self.environment, "CRUCIBLE_EMU_FAULTS": "fail@launch(conv*); fail@init(miopen*); fail@init(cudnn*)"
                    })
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_attention_by_the_library_is_verified(self):
        """With the emulated cuDNN, which has it of bf16: one call, named where steps are; strict replays never use
        it."""
        library = CRUCIBLE.resolve().parent / "emulators" / "nvidia" / "libcudnn.so.9"
        if "nvidia (emulated)" not in self.devices or not library.exists():
            self.skipTest("this build has no emulated cuDNN")
        program = """
            import torch
            torch.manual_seed(0)
            class Model(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner, self.outer = torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)
                def forward(self, x):
                    q, k, v = self.inner(x).view(2, 24, 3, 4, 16).permute(2, 0, 3, 1, 4)
                    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                    return self.outer(y.transpose(1, 2).reshape(2, 24, 64))
            model = Model().to(torch.DTYPE).eval()
            with torch.no_grad():
                for _ in range(5):
                    model(torch.randn(2, 24, 64).to(torch.DTYPE))
        """
        options = [
            *self.devices["nvidia (emulated)"], "--set", f"backend.nvidia.cudnn={library}", "--set",
            "backend.nvidia.dnn=cudnn", "--tune", "off"
        ]
        fault = {**self.environment, "CRUCIBLE_EMU_FAULTS": "fail@launch(attention*)"}
        for dtype, calls in {"bfloat16": 1, "float16": 1, "float32": 0}.items():
            with self.subTest(dtype):
                recorded, trace = self.record(program.replace("DTYPE", dtype), "--iterations", 2)
                self.assertEqual(recorded.returncode, 0, recorded.stderr)
                listed = crucible("kernels", trace, *options, "--json", env=self.environment)
                self.assertEqual(listed.returncode, 0, listed.stderr)
                names = [step["name"] for step in json.loads(listed.stdout)["kernels"]]
                self.assertEqual(names.count("attention"), calls, names)
                done = crucible("replay", trace, *options, "--verify", "--profile", env=self.environment)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(len(re.findall(r"library +attention\b", done.stdout)), calls, done.stdout)
                done = crucible("replay", trace, *options, "--verify", env=fault)
                self.assertEqual(done.returncode == 0, calls == 0, done.stderr)
                if calls:
                    self.assertIn("cudnnBackendExecute of attention", done.stderr)
                done = crucible("replay", trace, *options, "--numerics", "strict", "--verify", env=fault)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_attention_in_training_by_the_library_is_verified(self):
        """Both directions of a bf16 training step, one call each, against the recording: with the library and without,
        which are different steps. A wrong bit of either is seen; strict replays use neither."""
        library = CRUCIBLE.resolve().parent / "emulators" / "nvidia" / "libcudnn.so.9"
        if "nvidia (emulated)" not in self.devices or not library.exists():
            self.skipTest("this build has no emulated cuDNN")
        recorded, trace = self.record("""
            import torch
            torch.manual_seed(0)
            class Model(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner, self.outer = torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)
                def forward(self, x):
                    q, k, v = self.inner(x).view(2, 24, 3, 4, 16).permute(2, 0, 3, 1, 4)
                    y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                    return self.outer(y.transpose(1, 2).reshape(2, 24, 64))
            model = Model()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(6):
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.bfloat16):
                    loss = model(torch.randn(2, 24, 64)).float().square().mean()
                loss.backward()
                optimizer.step()
        """, "--iterations", 3)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        device = [*self.devices["nvidia (emulated)"], "--set", f"backend.nvidia.cudnn={library}", "--tune", "off"]
        options = [*device, "--set", "backend.nvidia.dnn=cudnn"]
        names = {}
        for dnn in ("cudnn", "none"):
            listed = crucible("kernels", trace, *device, "--set", f"backend.nvidia.dnn={dnn}", "--json",
                              env=self.environment)
            self.assertEqual(listed.returncode, 0, listed.stderr)
            names[dnn] = [step["name"] for step in json.loads(listed.stdout)["kernels"]]
            done = crucible("replay", trace, *device, "--set", f"backend.nvidia.dnn={dnn}", "--verify", "--profile",
                            env=self.environment)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for name in ("attention", "attention_backward"):
                calls = re.findall(rf"library +{name}\b(?!_)", done.stdout)
                self.assertEqual(len(calls), int(dnn == "cudnn"), done.stdout)
        for name in ("attention_forward", "attention_backward"):
            self.assertEqual(names["cudnn"].count(name), 1, names["cudnn"])
            self.assertNotIn(name, names["none"])
        self.assertLess(len(names["cudnn"]), len(names["none"]))
        for name in ("attention_forward", "attention_backward"):
            rules = f"flip:byte=1,bit=6@launch({name}*)"
            done = crucible("replay", trace, *options, "--verify",
                            env={**self.environment, "CRUCIBLE_EMU_FAULTS": rules})
            self.assertNotEqual(done.returncode, 0, f"{name}: {done.stdout}{done.stderr}")
        fault = {**self.environment, "CRUCIBLE_EMU_FAULTS": "fail@launch(attention*)"}
        done = crucible("replay", trace, *options, "--numerics", "strict", "--verify", env=fault)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_products_by_matrix_units_are_verified(self):
        """bf16 on devices that have them: and it was those, because a fault of theirs shows. Strict replays never use
        them."""
        devices = {name: options for name, options in self.devices.items() if name.split()[0] in ("nvidia", "amd")}
        if not devices:
            self.skipTest("this build has no emulated driver of NVIDIA's or AMD's")
        recorded, trace = self.record("""
            import torch
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(40, 100), torch.nn.ReLU(), torch.nn.Linear(100, 24))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            for _ in range(5):
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.bfloat16):
                    loss = model(torch.randn(70, 40)).square().mean()
                loss.backward()
                optimizer.step()
        """, "--iterations", 2)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        fault = {"CRUCIBLE_EMU_FAULTS": "fail@launch(crucible_matrix_bf16*)"}
        for name, options in devices.items():
            def replay(*more, options=options, **environment):
                return crucible("replay", trace, *options, "--fallback", "forbid", "--tune", "off", "--verify", *more,
                                env={**self.environment, **environment})

            with self.subTest(name):
                done = replay()
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertRegex(
                    done.stdout,
                    r"note +\d+ of the library calls are products by kernels for the device's matrix units: mf?ma \(f16, bf16\)"
                )
                done = replay(**fault)
                self.assertNotEqual(done.returncode, 0)
                for without in (("--numerics", "strict"), ("--set", f"backend.{name.split()[0]}.matrix_units=false")):
                    done = replay(*without, **fault)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name, more in (("nvidia (emulated)", {"CRUCIBLE_EMU_RACES": "on"}), ("amd (emulated)",
                                                                                 {"CRUCIBLE_EMU_ARCH": "gfx1100"})):
            if name in devices:
                with self.subTest(name, **more):
                    done = replay(options=devices[name], **more)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertNotEqual(replay(options=devices[name], **more, **fault).returncode, 0)

    def test_a_profile_by_the_model_of_times_is_the_same_each_time(self):
        name = "nvidia (emulated)"
        if name not in self.devices:
            self.skipTest("this build has no emulated NVIDIA driver")
        plain = self.replay(self.devices[name], "--numerics", "strict", "--verify", "--json")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        documents = []
        for threads in "1", "2":
            done = self.replay(self.devices[name], "--numerics", "strict", "--verify", "--profile", "--json",
                               CRUCIBLE_EMU_TIMING="roofline", CRUCIBLE_EMU_THREADS=threads)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            documents.append(json.loads(done.stdout))
        for document in documents:
            self.assertIn("emulated, not a GPU; times of a roofline model", document["device"])
            self.assertEqual(document["result_sha256"],
                             json.loads(plain.stdout)["result_sha256"], "counting changed what is computed")
        steps = documents[0]["profile"]
        self.assertEqual(steps, documents[1]["profile"])
        launch_ns, bytes_per_ns = 2000, 3350  # of an sm_90
        for step in steps:
            self.assertGreaterEqual(step["time_ns"], launch_ns - 1, step)  # a float of milliseconds on its way
            self.assertLess(step["time_ns"], launch_ns + 1e6, step)
        self.assertGreater(max(step["time_ns"] for step in steps),
                           launch_ns + max(step["bytes"] for step in steps) / bytes_per_ns / 2)
        text = self.replay(self.devices[name], "--profile", CRUCIBLE_EMU_TIMING="roofline").stdout
        self.assertIn("emulated, these are no device's times: NVIDIA sm_90", text)

    def test_a_librarys_products_take_biases_and_activations(self):
        name = "nvidia (emulated)"
        library = CRUCIBLE.resolve().parent / "emulators/nvidia/libcublasLt.so.13"
        if name not in self.devices or not library.exists():
            self.skipTest("this build has no emulated cuBLASLt")
        options = [
            *self.devices[name], "--set", f"backend.nvidia.cublaslt={library}", "--set", "backend.nvidia.blas=cublaslt",
            "--tune", "off"
        ]
        listed = crucible("kernels", self.trace, *options, "--json", env=self.environment)
        self.assertEqual(listed.returncode, 0, listed.stdout + listed.stderr)
        names = [step["name"] for step in json.loads(listed.stdout)["kernels"]]
        self.assertIn("matmul+bias+relu", names)
        done = self.replay(options, "--verify", "--json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIs(json.loads(done.stdout)["verified"], True)

    def test_a_librarys_products_have_their_place_in_the_model_of_times(self):
        name = "nvidia (emulated)"
        library = CRUCIBLE.resolve().parent / "emulators/nvidia/libcublasLt.so.13"
        if name not in self.devices or not library.exists():
            self.skipTest("this build has no emulated cuBLASLt")
        done = self.replay(self.devices[name], "--set", f"backend.nvidia.cublaslt={library}", "--set",
                           "backend.nvidia.blas=cublaslt", "--tune", "off", "--profile", "--json",
                           CRUCIBLE_EMU_TIMING="roofline")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        products = [step for step in json.loads(done.stdout)["profile"] if step["kind"] == "library"]
        self.assertNotEqual(products, [])
        for step in products:  # an sm_90: memory in bytes, f32 in operations per nanosecond
            self.assertAlmostEqual(step["time_ns"], 2000 + max(step["bytes"] / 3350, step["flops"] / 67000), delta=3,
                                   msg=step)

    def counting(self):
        """Emulated devices that count: what to add for it, a counter that grows with each launch, the rule that denies
        it, and what is advised then."""
        cupti = CRUCIBLE.resolve().parent / "emulators/nvidia/libcupti.so.13"
        if "nvidia (emulated)" in self.devices and cupti.exists():
            yield ("nvidia (emulated)", ["--set", f"backend.nvidia.cupti={cupti}"], {}, "smsp__threads_launched.sum",
                   "deny@query(cupti*)", "NVreg_RestrictProfilingToAdminUsers=0")
        rocprofiler = CRUCIBLE.resolve().parent / "emulators/amd/librocprofiler-sdk.so.1"
        if "amd (emulated)" in self.devices and rocprofiler.exists():
            yield ("amd (emulated)",
                   ["--set", "backend.amd.profiler=auto", "--set", f"backend.amd.rocprofiler={rocprofiler}"
                   ], {}, "SQ_WAVES", "deny@query(rocprofiler_start_context)#2+", "CAP_PERFMON")
        if "intel (emulated)" in self.devices:
            yield ("intel (emulated)", [], {"ZET_ENABLE_METRICS": "1"}, "ComputeBasic.WorkItems",
                   "deny@query(zetContextActivateMetricGroups)", "perf_stream_paranoid=0")

    def test_counters_are_those_of_one_replay(self):
        for name, more, environment, counter, deny, advice in self.counting():
            with self.subTest(name):
                options = [*self.devices[name], *more]
                listed = self.replay(options, "--counters", "list", **environment)
                self.assertEqual(listed.returncode, 0, listed.stderr)
                self.assertIn(counter, listed.stdout)
                self.assertNotIn("iteration", listed.stdout, "nothing is run")
                plain = self.replay(options, "--numerics", "strict", "--verify", "--json", **environment)
                done = self.replay(options, "--numerics", "strict", "--verify", "--profile", "--counters", counter,
                                   "--json", **environment)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                document = json.loads(done.stdout)
                self.assertEqual(document["result_sha256"], json.loads(plain.stdout)["result_sha256"])
                self.assertIsNone(document["counters"]["refused"])
                launches = [step for step in document["profile"] if step["kind"] == "generated"]
                self.assertGreaterEqual(document["counters"]["values"][counter], len(launches),
                                        "a thread for each launch at least")
                text = self.replay(options, "--numerics", "strict", "--counters", counter, **environment).stdout
                self.assertRegex(
                    text,
                    f"emulated, these are no device's counts\\ncounter +one replay\\n{counter} +{document['counters']['values'][counter]}"
                )
                wrong = self.replay(options, "--counters", "no_such", **environment)
                self.assertEqual(wrong.returncode, 2)
                self.assertRegex(wrong.stderr, f"has no counter 'no_such'; it has .*{counter}")

    def test_a_device_that_may_not_be_counted_on_replays_all_the_same(self):
        for name, more, environment, counter, deny, advice in self.counting():
            with self.subTest(name):
                done = self.replay([*self.devices[name], *more], "--verify", "--profile", "--counters", counter,
                                   CRUCIBLE_EMU_FAULTS=deny, **environment)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("verified  yes", done.stdout)
                line = [line for line in done.stdout.splitlines() if line.startswith("counters  none: ")]
                self.assertEqual(len(line), 1, done.stdout)
                self.assertIn(advice, line[0])

    def test_a_profile_says_where_its_times_are_from(self):
        """Each plugin's own words, in the text and in JSON: of the whole replay where a profiler is there, else of
        events around each op."""
        traced = {name: more for name, more, *_ in self.counting()}
        records, events = "records of one replay of the whole graph", "events around each op"
        cases = [(name, [], "time stamps of an event of each op" if name.startswith("intel") else events)
                 for name in self.devices]
        cases += [(name, more, records) for name, more in traced.items() if not name.startswith("intel")]
        cases += [(name, [], words)
                  for name, words in (("cpu", "the host's clock around each op"), ("opencl: Intel",
                                                                                   "profiling event of each op"))
                  if name in self.all]
        for name, more, words in cases:
            with self.subTest(name, more=more):
                options = [*self.all[name], *more, "--numerics", "strict", "--profile"]
                document = json.loads(self.replay(options, "--json").stdout)
                self.assertIn(words, document["profile_times"])
                self.assertIn(f"times are those of {document['profile_times']}\n", self.replay(options).stdout)

    def test_counters_that_cannot_be_read_end_no_replay(self):
        for name, more, environment, counter, _, _ in self.counting():
            rules = {
                "nvidia (emulated)": [
                    "fail@query(cuptiProfilerInitialize)", "fail@query(cuptiRangeProfilerDecodeData)"
                ], "intel (emulated)": ["missing@query(zetMetricGroupGet)"], "amd (emulated)": [
                    "fail@query(rocprofiler_force_configure)",
                    "fail@query(rocprofiler_sample_device_counting_service)#2"
                ]
            }
            for rule in rules[name]:
                with self.subTest(name, rule=rule):
                    done = self.replay([*self.devices[name], *more], "--verify", "--counters", counter, "--json",
                                       CRUCIBLE_EMU_FAULTS=rule, **environment)
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    counters = json.loads(done.stdout)["counters"]
                    self.assertEqual(counters["values"], {})
                    self.assertRegex(
                        counters["refused"],
                        "CUPTI_ERROR_UNKNOWN|ZE_RESULT_ERROR_UNSUPPORTED_FEATURE|ROCPROFILER_STATUS_ERROR")

    def test_only_nvidias_devices_tell_of_their_kernels(self):
        """The model of times, and races: where kernels cannot be watched the word is refused, not passed over."""
        settings = {"CRUCIBLE_EMU_TIMING": "roofline", "CRUCIBLE_EMU_RACES": "on"}
        why = {
            "nvidia (emulated)": "", "amd (emulated)": "kernels of HIP", "intel (emulated)": "Intel's own OpenCL driver"
        }
        for name, options in self.devices.items():
            for setting, word in settings.items():
                with self.subTest(name=name, setting=setting):
                    done = self.replay(options, "--verify", **{setting: word})
                    if not why[name]:
                        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                        continue
                    self.assertNotEqual(done.returncode, 0)
                    self.assertIn(f"{setting}={word}: kernels", done.stderr)
                    self.assertIn(why[name], done.stderr)

    def test_a_device_that_runs_out_of_memory_says_so(self):
        for name, options in self.devices.items():
            with self.subTest(name):
                done = self.replay(options, CRUCIBLE_EMU_FAULTS="oom@alloc")
                self.assertNotEqual(done.returncode, 0)
                self.assertLess(done.returncode, 6, done.stderr)
                self.assertIn("memory", done.stderr)

    def test_a_device_that_is_lost_says_so(self):
        for name, options in self.devices.items():
            with self.subTest(name):
                done = self.replay(options, CRUCIBLE_EMU_FAULTS="lost@launch#3")
                self.assertNotEqual(done.returncode, 0)
                self.assertLess(done.returncode, 6, done.stderr)
                self.assertRegex(done.stderr.lower(), "lost|any more")

    def test_a_wrong_bit_is_found_by_comparing(self):
        for name, options in self.devices.items():
            with self.subTest(name):
                backend = options[1]
                settings = [option for option in options[2:]]
                done = crucible("compare", self.trace, "--backends", f"cpu,{backend}", *settings, "--numerics",
                                "strict", "--json", env=self.environment)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                done = crucible("compare", self.trace, "--backends", f"cpu,{backend}", *settings, "--numerics",
                                "strict", "--json",
                                env={**self.environment, "CRUCIBLE_EMU_FAULTS": "flip:arg=0,byte=1,bit=3@launch#5"})
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertEqual(json.loads(done.stdout)["first_difference"]["different"], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
