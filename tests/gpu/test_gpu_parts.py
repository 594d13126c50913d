"""The logic of `ci/gpu` without a GPU: with a stand-in for `crucible` that says what a test wants, and, where there is
a build, a rehearsal.

Environment: CRUCIBLE (the executable) for the rehearsal.
"""

import contextlib
import io
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import gpu_claims  # noqa: E402
import gpu_machine  # noqa: E402
import gpu_model  # noqa: E402
import gpu_parts  # noqa: E402
import gpu_recording  # noqa: E402
import gpu_report  # noqa: E402

# Answers as `crucible` would. $PLAN: what each command is to say instead, by its first words.
STAND_IN = """
    import json, os, pathlib, sys
    words = sys.argv[1:]
    plan = json.loads(os.environ.get("PLAN", "{}"))
    with open(os.environ["CALLS"], "a") as calls: calls.write(json.dumps(words) + "\\n")
    for key, answer in plan.items():
        if all(word in words for word in key.split()):
            print(answer.get("out", ""), end=""); print(answer.get("err", ""), end="", file=sys.stderr); sys.exit(answer.get("code", 0))
    file = pathlib.Path(next((word for word in words if word.endswith(".crtrace")), "none"))
    if words[0] == "record":
        if "captured" in file.name:
            print("after the capture: [4.0, 4.0, 4.0]"); print(os.environ["SAID_OF_CAPTURES"], file=sys.stderr)
        path = pathlib.Path(words[words.index("-o") + 1]); path.write_text("cuda" if "--device" in words else "cpu")
    elif words[:2] == ["trace", "info"]:
        what = [{"what": "memory that something other than an op changed between a and b"}] if "write_by" in file.name else []
        print(json.dumps({"device": file.read_text() + ":0", "ops_per_iteration": [68], "not_recorded": what,
                          "precision": "cuda.conv=tf32, cuda.matmul=" + ("tf32" if "TF32_on" in file.name else "none")}))
    elif words[0] == "replay" and words[-2] == "list":
        print(json.dumps({"counters": [{"name": name, "what": name} for name in "abcd"]}))
    elif words[0] == "replay":
        names = words[words.index("--counters") + 1].split(",") if "--counters" in words else []
        print(json.dumps({"verified": "write_by" not in file.name, "result_sha256": "ab" * 32, "reason": "", "time_ns_per_iteration": 5e6,
                          "plans": [{"launches": "12", "nodes": 14}], "profile_times": "CUPTI",
                          "profile": [{"step": 0, "kind": "generated", "time_ns": 3000}, {"step": 1, "kind": "generated", "time_ns": 9000}],
                          "counters": {"values": {name: 7 for name in names}, "refused": None}}))
    elif words[0] == "kernels":
        steps = [("launch", "k_a", ["add", "exp*2"], 64), ("launch", "k_b", ["conv2d"], 32), ("library", "conv2d", [], 0), ("library", "matmul+bias", [], 0)]
        print(json.dumps({"kernels": [{"index": i, "kind": kind, "name": name, "ops": ops, "grid": grid} for i, (kind, name, ops, grid) in enumerate(steps)]}))
    elif words[0] == "plugin":
        print(json.dumps({"cases": [{"name": "memory.alloc", "outcome": "passed"}, {"name": "queue.x", "outcome": "unsupported"}]}))
    elif "--self-test" in words:
        print(json.dumps({"passed": True, "name": "a GPU", "samples": 2 ** 32 if "--all-patterns" in words else 2 ** 22, "items": [{"name": "exp", "passed": True}]}))
    elif words[0] == "devices":
        print(json.dumps({"devices": []}))
    elif words[0] == "bench":
        row = {"note": "", "reason": "", "emulated": False, "median_ns": 2e6, "quartiles_ns": [1e6, 3e6], "ratio": 1.0, "joules": 0.5, "compile_ns": 1e9}
        print(json.dumps({"files": [{"rows": [{"backend": "nvidia", **row}, {"backend": "eager", **row, "joules": None}]}]}))
"""


class Parts(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="crucible-gpu-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.crucible = self.folder / "crucible"
        self.crucible.write_text(f"#!{sys.executable}\n" + textwrap.dedent(STAND_IN))
        self.crucible.chmod(self.crucible.stat().st_mode | stat.S_IXUSR)
        (self.folder / "libcrucible_nvidia.so").write_text("")
        self.calls = self.folder / "calls"
        os.environ["CALLS"] = str(self.calls)
        os.environ["SAID_OF_CAPTURES"] = gpu_recording.CAPTURE
        self.addCleanup(os.environ.pop, "PLAN", None)

    def machine(self, *options):
        arguments = gpu_parts.parse([
            *options, "--crucible",
            str(self.crucible), "--folder",
            str(self.folder), "--examples", "mlp_sgd", "--precisions", "f32"
        ])
        return gpu_parts.Machine(arguments)

    def plan(self, **answers):
        os.environ["PLAN"] = json.dumps(answers)

    def called(self, word):
        return [call for call in map(json.loads, self.calls.read_text().splitlines()) if word in call]

    def test_recordings_are_made_on_both(self):
        result = gpu_parts.run_part(self.machine(), "record")
        self.assertEqual((result["verdict"], result["words"]), ("passed", "8 recordings and programs"))
        self.assertEqual([row["device"] for row in result["data"]["rows"] if "device" in row], ["cuda", "cpu"])
        on_cuda, on_cpu = self.called("record")[:2]
        self.assertEqual(on_cuda[on_cuda.index("--device") + 1], "cuda")
        self.assertNotIn("--device", on_cpu)

    def test_a_recording_of_another_device_is_seen(self):
        self.plan(**{"trace info": {"out": json.dumps({"device": "cpu", "ops_per_iteration": [1]})}})
        result = gpu_parts.run_part(self.machine(), "record")
        self.assertEqual(result["verdict"], "failed")
        self.assertIn("mlp_sgd f32 on cuda: the recording says that it was made on cpu", result["words"])
        rows = [row for row in result["data"]["rows"] if "device" in row]
        self.assertEqual(len(rows), 2, "what was found is kept")

    def test_every_pair_is_replayed_in_both_modes(self):
        machine = self.machine()
        result = gpu_parts.run_part(machine, "replay")
        self.assertEqual(result["verdict"], "passed", result["words"])
        pairs = {(row["recorded_on"], row["backend"], row["numerics"]) for row in result["data"]["rows"]}
        self.assertEqual(
            pairs, {(device, column, mode)
                    for device in ("cuda", "cpu")
                    for column in machine.columns
                    for mode in ("fast", "strict")})
        self.assertIn("nvidia", machine.columns)
        self.assertEqual(len(self.called("record")), 2,
                         "a part that stands alone makes the recordings that it needs, once")

    def test_other_bits_fail(self):
        self.plan(
            **
            {"replay nvidia strict": {"out": json.dumps({"verified": True, "result_sha256": "cd" * 32, "reason": ""})}})
        result = gpu_parts.run_part(self.machine(), "replay")
        self.assertEqual(result["verdict"], "failed")
        self.assertIn("strict results have other bits", result["words"])

    def test_one_replay_that_fails_costs_no_other(self):
        self.plan(**{"replay nvidia fast": {"code": 4, "err": "crucible: error: the device was lost\n"}})
        result = gpu_parts.run_part(self.machine(), "replay")
        self.assertIn("the device was lost", result["words"])
        verified = [row["verified"] for row in result["data"]["rows"] if row["backend"] != "nvidia"]
        self.assertTrue(verified and all(verified))

    def test_the_kit_says_what_failed(self):
        result = gpu_parts.run_part(self.machine(), "kit")
        self.assertEqual((result["verdict"], result["words"]), ("passed", "1 passed, 1 unsupported"))
        self.plan(
            **
            {"plugin check": {"code": 1, "out": json.dumps({"cases": [{"name": "queue.order", "outcome": "failed"}]})}})
        self.assertIn("failed: queue.order", gpu_parts.run_part(self.machine(), "kit")["words"])

    def test_strict_with_all_patterns(self):
        self.assertIn("4194304 bit patterns", gpu_parts.run_part(self.machine(), "strict")["words"])
        self.assertIn("4294967296 bit patterns", gpu_parts.run_part(self.machine("--all"), "strict")["words"])
        self.plan(
            **{
                "devices --self-test": {
                    "code": 1, "out": json.dumps(
                        {"passed": False, "name": "a GPU", "samples": 1, "items": [{"name": "exp", "passed": False}]})
                }
            })
        result = gpu_parts.run_part(self.machine(), "strict")
        self.assertEqual((result["verdict"], result["words"]), ("failed", "exp differ on a GPU"))

    def test_bench_has_the_peers(self):
        self.assertEqual(gpu_parts.run_part(self.machine(), "bench")["verdict"], "passed")
        call = self.called("bench")[0]
        self.assertEqual(call[call.index("--peers") + 1], "eager,cudagraphs,compile:max-autotune")
        self.assertIn("--device cuda", call[call.index("--script") + 1])

    def test_products_have_each_way_its_turns(self):
        machine = self.machine("--rounds", "2")
        machine.precisions = ["f32", "bf16"]
        result = gpu_parts.run_part(machine, "products")
        self.assertEqual((result["verdict"], result["words"]), ("passed", "5 rows"))
        self.assertEqual([(row["precision"], row["who"]) for row in result["data"]["rows"]], [("f32", "library"),
                                                                                              ("f32", "generated"),
                                                                                              ("bf16", "library"),
                                                                                              ("bf16", "matrix units"),
                                                                                              ("bf16", "generated")])
        self.assertEqual(result["data"]["rows"][0]["median_ns"], 5e6)
        bf16 = [call for call in self.called("replay") if any(".bf16." in word for word in call)]
        self.assertEqual(
            [("backend.nvidia.blas=none" in call, "backend.nvidia.matrix_units=false" in call) for call in bf16],
            [(False, False), (True, False), (True, True)] * 2)

    def test_a_product_that_is_wrong_fails(self):
        self.plan(**{"replay backend.nvidia.blas=none": {"code": 1, "err": "crucible: error: not verified"}})
        result = gpu_parts.run_part(self.machine(), "products")
        self.assertEqual(result["verdict"], "failed")
        self.assertIn("mlp_sgd f32", result["words"])

    def test_counters_are_those_that_are_listed_first(self):
        result = gpu_parts.run_part(self.machine(), "counters")
        self.assertEqual((result["verdict"], result["words"], result["data"]["rows"][0]["values"]),
                         ("passed", "1 replays", {"a": 7, "b": 7, "c": 7}))
        self.plan(**{"replay a,b,c": {"out": json.dumps({"counters": {"values": {}, "refused": "no rights"}})}})
        result = gpu_parts.run_part(self.machine(), "counters")
        self.assertEqual((result["verdict"], result["words"]), ("passed", "none: no rights"))
        self.plan(**{"replay list": {"out": json.dumps({"counters": [], "refused": "no CUPTI"})}})
        self.assertEqual(gpu_parts.run_part(self.machine(), "counters")["words"], "none: no CUPTI")

    def test_a_mistake_of_ours_is_a_verdict(self):
        self.plan(**{"bench": {"out": "no JSON"}})
        self.assertIn("bench printed no JSON", gpu_parts.run_part(self.machine(), "bench")["words"])
        self.plan(**{"plugin check": {"out": "{}"}})
        self.assertEqual(gpu_parts.run_part(self.machine(), "kit")["words"], "KeyError: 'cases'")

    def test_the_report_has_every_part(self):
        machine = self.machine("--rehearse")
        for name in ("replay", "bench", "products", "counters"):
            gpu_parts.run_part(machine, name)
        text = gpu_report.write_report(self.folder, list(gpu_parts.PARTS)).read_text()
        self.assertIn("| replay | passed |", text)
        self.assertIn("| kit | not run | - | unmeasured |", text)
        self.assertIn("no figure here is a GPU's", text)
        self.assertIn("same bits", text)
        self.assertIn("| mlp_sgd | f32 | generated | 5.000 |", text)
        self.assertIn("| mlp_sgd | f32 | 7 | 7 | 7 |", text)
        self.assertIn("| mlp_sgd | f32 | eager | 2.000 | 1.000 .. 3.000 | 1 | 1.0 | - | verified |", text)

    def test_programs_that_only_a_device_has(self):
        result = gpu_parts.run_part(self.machine(), "record")
        rows = {row["item"]: row for row in result["data"]["rows"] if "item" in row}
        self.assertEqual(list(rows), list(gpu_recording.ITEMS))
        self.assertIn("told: memory that something other than an op changed", rows["write by the driver"]["reason"])
        self.assertEqual(rows["TF32 on"]["reason"], "cuda.matmul=tf32, verified on cpu and nvidia")
        self.assertEqual(rows["TF32 off"]["reason"], "cuda.matmul=none, verified on cpu and nvidia")
        for name, (program, _) in gpu_recording.ITEMS.items():
            for head in (gpu_recording.CUDA, gpu_recording.APART):
                compile(head + gpu_recording.MODEL + program, name, "exec")

    def test_programs_that_are_recorded_wrongly(self):
        recorded = {"device": "cuda:0", "ops_per_iteration": [1], "not_recorded": [], "precision": "cuda.matmul=tf32"}
        self.plan(**{"trace info": {"out": json.dumps(recorded)}})
        os.environ["SAID_OF_CAPTURES"] = "nothing"
        result = gpu_parts.run_part(self.machine("--minutes", "1"), "record")
        reasons = {row["item"]: row["reason"] for row in result["data"]["rows"] if row.get("verdict") == "failed"}
        self.assertEqual(result["verdict"], "failed")
        self.assertEqual(reasons.pop("write by the driver"), "nothing is told of a write by what is no op")
        self.assertIn("no sentence tells of the capture", reasons.pop("captured graph"))
        self.assertEqual(reasons.pop("TF32 off"), "the recording's precision is 'cuda.matmul=tf32'")
        self.assertNotIn("TF32 on", reasons)
        self.plan(replay={"out": json.dumps({"verified": False, "reason": "other", "result_sha256": ""}), "code": 1})
        os.environ["SAID_OF_CAPTURES"] = gpu_recording.CAPTURE
        result = gpu_parts.run_part(self.machine(), "record")
        reasons = {row["item"]: row["reason"] for row in result["data"]["rows"] if row.get("verdict") == "failed"}
        self.assertEqual(reasons, dict.fromkeys(("two streams", "TF32 on", "TF32 off"), "not verified on cpu: other"))

    def test_what_an_earlier_run_did_is_not_done_again(self):
        gpu_parts.run_part(self.machine(), "strict", again=False)
        result = gpu_parts.run_part(self.machine(), "strict", again=False)
        self.assertEqual((result["verdict"], result["words"][:18], len(self.called("--self-test"))),
                         ("passed", "of an earlier run:", 1))
        gpu_parts.run_part(self.machine(), "strict", again=True)
        self.assertEqual(len(self.called("--self-test")), 2)
        gpu_parts.run_part(self.machine("--all"), "strict", again=False)
        self.assertEqual(len(self.called("--self-test")), 3, "other options")
        (self.folder / "libcrucible_nvidia.so").write_text("another build")
        self.assertEqual(gpu_parts.before(self.machine("--all"), "strict")[1], False)
        gpu_parts.run_part(self.machine("--all"), "strict", again=False)
        self.assertEqual(len(self.called("--self-test")), 4)

    def test_what_failed_is_done_again_and_nothing_else(self):
        lost = {"code": 4, "err": "crucible: error: the device was lost\n"}
        self.plan(**{f"replay {self.folder}/recordings/gpt_adamw.f32.cpu.crtrace": lost})
        machine = self.machine()
        machine.examples = ["mlp_sgd", "gpt_adamw"]
        self.assertEqual(gpu_parts.run_part(machine, "replay", again=False)["verdict"], "failed")
        first = len(self.called("replay"))
        self.plan()
        result = gpu_parts.run_part(machine, "replay", again=False)
        self.assertEqual((result["verdict"], len(result["data"]["rows"])), ("passed", first))
        second = self.called("replay")[first:]
        self.assertEqual({call[1].split("/")[-1] for call in second}, {"gpt_adamw.f32.cpu.crtrace"})
        gpu_parts.run_part(machine, "replay", again=False)
        self.assertEqual(len(self.called("replay")), first + len(second))

    def test_recordings_of_another_build_are_made_again(self):
        self.machine().recording("mlp_sgd", "f32", "cuda")
        self.machine().recording("mlp_sgd", "f32", "cuda")
        self.assertEqual(len(self.called("record")), 1)
        (self.folder / "libcrucible_nvidia.so").write_text("another build")
        self.machine().recording("mlp_sgd", "f32", "cuda")
        self.assertEqual(len(self.called("record")), 2)
        self.machine("--iterations", "3").recording("mlp_sgd", "f32", "cuda")
        self.assertEqual(len(self.called("record")), 3)

    def test_when_the_minutes_are_over(self):
        result = gpu_parts.run_part(self.machine("--minutes", "0"), "products", again=False)
        self.assertEqual((result["verdict"], result["words"]), ("not run", "not run: no time left"))
        self.assertFalse(self.calls.exists())
        text = gpu_report.write_report(self.folder, list(gpu_parts.PARTS)).read_text()
        self.assertIn("| products | not run | 0.0 | not run: no time left |", text)
        self.assertIn("### products\n\nUnmeasured: not run: no time left", text)

    def test_a_part_that_is_cut_goes_on_where_it_was(self):
        """The second case finds no time; the next run does that one alone."""
        machine = self.machine()
        machine.precisions = ["f32", "bf16"]
        once = gpu_parts.bench_part

        def run_out(machine):
            run = machine.json

            def until(*words, **more):
                if any(".bf16." in str(word) for word in words):
                    machine.deadline = 0
                return run(*words, **more)

            machine.json = until
            return once(machine)

        self.addCleanup(gpu_parts.PARTS.update, bench=once)
        gpu_parts.PARTS["bench"] = run_out
        result = gpu_parts.run_part(machine, "bench", again=False)
        self.assertEqual((result["verdict"], result["words"]),
                         ("cut", "2 rows; not run: no time left for 1 of 2 cases"))
        gpu_parts.PARTS["bench"] = once
        again = self.machine()
        again.precisions = ["f32", "bf16"]
        result = gpu_parts.run_part(again, "bench", again=False)
        self.assertEqual((result["verdict"], result["words"]), ("passed", "4 rows"))
        self.assertEqual([".f32." in call[1] for call in self.called("bench")], [True, False])

    def test_what_hangs_is_ended_with_what_it_started(self):
        machine = self.machine()
        child = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60'], stdout=-3, stderr=-3); " \
                f"open({str(self.folder / 'child')!r}, 'w').write(str(p.pid)); time.sleep(60)"
        with self.assertRaises(gpu_machine.Failed) as hung:
            machine.run(sys.executable, "-c", child, long=2)
        self.assertTrue(hung.exception.is_mistake)
        stat_of = pathlib.Path(f"/proc/{(self.folder / 'child').read_text()}/stat")
        for _ in range(200):  # it is ended, which takes its time, or goes on for a minute
            if not stat_of.exists() or stat_of.read_text().split()[2] == "Z":
                break
            time.sleep(0.05)
        else:
            self.fail("what it started goes on")
        machine.deadline = gpu_machine.time.monotonic() + 0.5
        with self.assertRaises(gpu_machine.NoTime):
            machine.run("sleep", "60")
        never = mock.Mock(side_effect=AssertionError("it was started"))
        with self.assertRaises(gpu_machine.NoTime), mock.patch.object(gpu_machine.subprocess, "Popen", never):
            machine.run("true")

    def test_parts_are_in_the_order_of_what_they_are_worth(self):
        order = list(gpu_parts.PARTS)
        for first, then in (("device", "record"), ("record", "replay"), ("replay", "kit"), ("kit", "strict"),
                            ("strict", "model"), ("model", "batches"), ("model", "products"), ("products", "bench")):
            self.assertLess(order.index(first), order.index(then))
        self.assertEqual((order[-1], set(gpu_parts.OPTIONS)), ("bench", set(order)))

    def modelled(self):
        def row(kernel, blocks, us):
            return {"kernel": kernel, "ops": ["add"], "origin": "x.py:1", "grid": [blocks, 1, 1], "block": [256, 1, 1],
                    "launches": 2, "why": "memory" if us < 5 else "latency", "terms_us": {}, "body_us": us,
                    "bound_us": 1.0}

        totals = {"level": "l2", "generated_launches": 4, "modelled_us": 20.0, "bound_us": 4.0}
        return {"totals": totals, "kernels": [row("k_b", 1, 6.0), row("k_a", 2, 2.0), row("k_c", 1, 1.0)]}

    def model(self, *options):
        asked = gpu_model.modelled_of
        self.addCleanup(setattr, gpu_model, "modelled_of", asked)
        gpu_model.modelled_of = lambda machine, recording: self.modelled()
        result = gpu_parts.run_part(self.machine(*options), "model")
        self.assertEqual(result["verdict"], "passed", result["words"])
        return result["data"]["rows"][0]

    def test_measured_over_modelled(self):
        row = self.model()
        self.assertEqual((row["kernels"], row["measured"], row["measured_us"], row["median_ratio"]), (3, 2, 24.0, 1.5))
        self.assertEqual(row["by_term"], {"latency": [1, 1.5], "memory": [1, 1.5]})
        self.assertEqual({kernel["kernel"]: kernel["measured_us"] for kernel in row["all"]},
                         {"k_a": 3.0, "k_b": 9.0, "k_c": None})
        for command in ("replay", "kernels"):
            self.assertIn("backend.nvidia.batches=none", self.called(command)[0])
        text = gpu_report.write_report(self.folder, list(gpu_parts.PARTS)).read_text()
        self.assertIn("| 3 | 2 | 1.50 | latency 1.50 (1), memory 1.50 (1) | CUPTI |", text)

    def test_events_see_the_launch_too(self):
        answer = {"profile_times": "events around each op",
                  "profile": [{"step": 1, "kind": "generated", "time_ns": 16000}]}
        self.plan(replay={"out": json.dumps(answer)})
        self.assertEqual(self.model()["median_ratio"], 2.0)  # of 6 us and a launch

    def test_a_model_that_nothing_was_measured_for(self):
        row = self.model("--rehearse")
        self.assertEqual((row["measured"], row["measured_us"], row["median_ratio"]), (0, None, None))
        self.assertEqual(row["worst"][0]["kernel"], "k_b", "the longest")
        self.assertEqual(self.called("replay"), [])
        text = gpu_report.write_report(self.folder, list(gpu_parts.PARTS)).read_text()
        self.assertIn("| unmeasured | 4.0 | 3 | 0 | unmeasured | unmeasured | unmeasured: a rehearsal |", text)

    def test_kernels_of_other_names_fail(self):
        gpu_model_rows = self.modelled()
        for row in gpu_model_rows["kernels"]:
            row["kernel"] += "_other"
        self.modelled = lambda: gpu_model_rows
        with self.assertRaises(AssertionError) as seen:
            self.model()
        self.assertIn("none of 2 measured kernels is one of the model's", str(seen.exception))

    def test_batches_have_equal_bits(self):
        result = gpu_parts.run_part(self.machine("--rounds", "2"), "batches")
        self.assertEqual((result["verdict"], result["words"]), ("passed", "3 rows"))
        self.assertEqual([(row["batches"], row["launches"], row["nodes"], row["longest_path"], len(row["rounds_ns"]))
                          for row in result["data"]["rows"]],
                         [(mode, 12, 14, None, 2) for mode in ("none", "same", "mixed")])
        timed = [call for call in self.called("replay") if "--repeat" in call]
        self.assertEqual([word for call in timed for word in call if "batches=" in word],
                         [f"backend.nvidia.batches={mode}" for mode in ("none", "same", "mixed")] * 2)
        self.plan(**{"strict backend.nvidia.batches=mixed": {"out": json.dumps({"result_sha256": "cd" * 32})}})
        result = gpu_parts.run_part(self.machine("--rounds", "1"), "batches")
        self.assertEqual(result["verdict"], "failed")
        self.assertIn("strict results have other bits with batches=mixed", result["words"])

    def test_claims_are_counted_and_compared(self):
        result = gpu_parts.run_part(self.machine("--rounds", "1"), "claims")
        self.assertEqual(result["verdict"], "passed", result["words"])
        here = result["data"]["rows"][0]
        self.assertEqual((here["who"], here["products"], here["convolutions"], here["attentions"]),
                         ("this device", [1, 1], [1, 2], [0, 0]))
        beside = [row for row in result["data"]["rows"] if "without a device" in row.get("who", "")]
        self.assertEqual(len(beside), 3)
        self.assertTrue(all(row["reason"].startswith("unmeasured: ") for row in beside), "the stand-in has none")
        turns = [word for call in self.called("replay") for word in call if "measure_products" in word]
        self.assertEqual(turns, [f"backend.nvidia.measure_products={value}" for value in ("false", "true")])

    def test_a_device_that_takes_less_than_is_taken_without_one(self):
        for name in ("libcuda.so.1", "deviceless/libcudnn.so.9"):
            place = self.folder / "emulators/nvidia" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("")
        os.environ["CRUCIBLE_REAL_CUDNN"] = "a library"
        self.addCleanup(os.environ.pop, "CRUCIBLE_REAL_CUDNN")
        both = [{"index": i, "kind": "library", "name": "conv2d", "ops": []} for i in range(2)]
        self.plan(**{"kernels backend.nvidia.dnn=cudnn": {"out": json.dumps({"kernels": both})}})
        result = gpu_parts.run_part(self.machine("--rounds", "1"), "claims")
        self.assertEqual(result["verdict"], "failed")
        self.assertIn("this device takes 1 convolutions, and without a device cuDNN takes 2", result["words"])
        self.assertIn("| sm_90 without a device | not asked | 2 of 2 | 0 of 0 | not told |",
                      gpu_report.write_report(self.folder, list(gpu_parts.PARTS)).read_text())

    def test_engines_are_those_of_plans_that_could_be_built(self):
        def call(text):
            return f"I! CuDNN (v91900 56) function cudnnBackendFinalize() called:\ni!     {text}\n\n\n"

        def plan(engine, what, more=""):
            return call("descriptor: type=CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:\n"
                        f"i!  operation: type=CUDNN_BACKEND_OPERATION_{what}_DESCRIPTOR:\n"
                        f"i!  engine_id: type=int; val={engine};\n{more}")

        good, bad = (call(f"status: type=cudnnStatus_t; val=CUDNN_STATUS_{word};") for word in ("SUCCESS", "NOT_X"))
        cores = "i!  CUDNN_NUMERICAL_NOTE_TENSOR_CORE: type=bool; val=true;\n"
        log = self.folder / "log"
        log.write_text(
            plan(45, "CONVOLUTION_FORWARD", cores) + good + plan(45, "CONVOLUTION_FORWARD", cores) + good +
            plan(47, "CONVOLUTION_BACKWARD_DATA") + bad + plan(4, "MATMUL") + good + call("descriptor: a graph") + good)
        self.assertEqual(gpu_claims.engines_of(log), {
            "forward: engine 45, tensor cores": 2,
            "attention: engine 4": 1
        })
        self.assertEqual(gpu_claims.engines_of(self.folder / "none"), {})

    def test_a_report_says_what_is_of_other_inputs(self):
        gpu_parts.run_part(self.machine(), "strict")
        same = {name: name != "strict" for name in gpu_parts.PARTS}
        text = gpu_report.write_report(self.folder, list(gpu_parts.PARTS), same).read_text()
        self.assertIn("| with other inputs: 1 equal", text)

    def test_words_that_would_break_the_table(self):
        result = {"part": "kit", "verdict": "failed", "seconds": 1, "words": "a | b\nc", "data": {}}
        self.assertIn("a \\| b c", gpu_report.report({"kit": result}, ["kit"]))

    def test_wrong_use(self):
        for words in (["cook"], ["--examples", "bert"], ["--precisions", "f8"]):
            with self.assertRaises(SystemExit) as ended, contextlib.redirect_stderr(io.StringIO()) as said:
                gpu_parts.parse(words)
            self.assertEqual(ended.exception.code, 2)
            self.assertIn("is called", said.getvalue())

    def test_without_a_driver_nothing_is_run(self):
        self.assertEqual(gpu_parts.gpus_of_driver("libcrucible-no-such-driver.so"), 0)
        if gpu_parts.gpus_of_driver() > 0:
            self.skipTest("a GPU is here")
        done = subprocess.run(
            [sys.executable, str(HERE / "gpu_parts.py"), "--folder",
             str(self.folder / "none")], capture_output=True, text=True)
        self.assertEqual(done.returncode, gpu_parts.NO_GPU)
        self.assertIn("no NVIDIA GPU is here: nothing was run", done.stderr)
        self.assertFalse((self.folder / "none").exists())


@unittest.skipUnless(os.environ.get("CRUCIBLE"), "CRUCIBLE names no executable")
class Rehearsal(unittest.TestCase):
    def test_the_parts_go_through_on_the_emulated_driver(self):
        crucible = pathlib.Path(os.environ["CRUCIBLE"])
        if not (crucible.parent / "emulators/nvidia/libcuda.so.1").exists() or not gpu_parts.nvrtc_library():
            self.skipTest("this build has no emulated NVIDIA driver, or NVRTC is missing")
        folder = pathlib.Path(tempfile.mkdtemp(prefix="crucible-gpu-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        parts = ["device", "record", "replay", "model", "claims", "counters", "batches", "products", "bench"]
        command = [
            sys.executable,
            str(HERE / "gpu_parts.py"), *parts, "report", "--rehearse", "--quick", "--crucible",
            str(crucible), "--folder",
            str(folder), "--examples", "mlp_sgd", "--precisions", "f32", "--iterations", "2", "--rounds", "1"
        ]
        environment = {**os.environ, "CRUCIBLE_STORE_DIR": str(folder / "store")}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        text = (folder / "report.md").read_text()
        for part in parts:
            self.assertIn(f"| {part} | passed |", text)
        for words in ("| kit | not run | - | unmeasured |", "| mlp_sgd | f32 | generated |",
                      "| mlp_sgd | f32 | mixed |", "| mlp_sgd | f32 | this device | unmeasured: a rehearsal |", "| unmeasured: a rehearsal |",
                      "verified, emulated", "losses as recorded", "same bits", "A rehearsal without a GPU"):
            self.assertIn(words, text)
        if (crucible.parent / "tests/torch/device/_apart.so").exists():
            for name in sorted(gpu_recording.ITEMS.keys() - {"write by a Triton kernel"}):
                self.assertIn(f"| {name} | passed |", text)
        again = subprocess.run(command, capture_output=True, text=True, env=environment)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertEqual(again.stdout.count("of an earlier run: "), len(parts) - 1, again.stdout)  # counters has none


if __name__ == "__main__":
    unittest.main(verbosity=2)
