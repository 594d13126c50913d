"""The known traps of recording below autograd, each by its number in docs/recording.md ("Known traps")."""

import os
import struct
import sys
import textwrap
import unittest

from snippets import WRAPPED, Recorded, SnippetTest, program
from support import BUILD, LOOP, RecorderTest, floats, real

LIBRARY = os.path.join(BUILD, "tests", "torch", "crucible_test_ops.so")


class Pitfalls(SnippetTest):
    BEFORE = WRAPPED + textwrap.dedent(f"""
        torch.ops.load_library({LIBRARY!r})
        outside = [torch.full((3,), float(i)) for i in range(20)]

        class Deep(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, depth):
                ctx.depth = depth
                return x.clone()
            @staticmethod
            def backward(ctx, g):
                if ctx.depth > 0:
                    with torch.enable_grad():
                        y = torch.ones(2, requires_grad=True)
                        Deep.apply(y, ctx.depth - 1).sum().backward()
                return g.expm1(), None

        lstm = torch.nn.LSTM(3, 2)
        norm = torch.nn.BatchNorm1d(3)
        attention = torch.nn.MultiheadAttention(4, 2)
    """)
    SNIPPETS = {
        "inference": """
            with torch.inference_mode():
                torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))
                torch.matmul(torch.ones(2, 2, 3), torch.ones(3, 4))
        """,
        "names": """
            lstm(torch.ones(4, 1, 3))[0].sum().backward()
            norm(torch.ones(4, 3)).sum().backward()
            attention(*[torch.ones(2, 1, 4)] * 3)[0].sum().backward()
            torch.nn.functional.dropout(torch.ones(8), 0.5)
            torch.ones(2).to(torch.float64)
        """,
        "identity": """
            with torch.no_grad():
                p = torch.nn.Parameter(torch.zeros(3))
                p.data = outside[step]
                p.tan()
                q = torch.full((3,), 2.0)
                p.data = q
                p.sin()
        """,
        "leaving": "torch.full((), 2.5).item()",
        "random": """
            with torch.no_grad():
                print('drawn', torch.empty(3, 2).t().uniform_().flatten().tolist())
                torch.bernoulli(torch.full((4,), 0.5))
        """,
        "in_place": """
            with torch.no_grad():
                t = torch.zeros(3)
                t.sin_()
                t[1:].cos_()
                t.tan()
                torch.add(t, 1, out=torch.empty(3))
                a, b = torch.ones(2), torch.ones(2)
                torch._foreach_add_([a, b], 1.0)
                torch.arange(12.0).view(3, 4).t()[1:3].expm1()
                torch.zeros(8).as_strided((1, 2), (77, 1)).log1p()
                torch.zeros(4).as_strided((1, 2), (2**33, 1)).erf()
        """,
        "saved_before_write": """
            x = torch.ones(3, requires_grad=True)
            y = x * 1
            y.sin_().sum().backward()
        """,
        "undefined": """
            torch.nn.functional.layer_norm(torch.ones(2, 3, requires_grad=True), (3,)).sum().backward()
            with torch.no_grad():
                a = torch.ones(4, 3)
                a[:, torch.tensor([0, 2])]
                a.mul(0.1 * step)
                a * torch.tensor(2.0)
        """,
        "subclass": """
            with torch.no_grad():
                (Wrapped(torch.ones(3)) + 1).tan()
        """,
        "symbolic": """
            from torch._subclasses.fake_tensor import FakeTensorMode
            from torch.fx.experimental.symbolic_shapes import ShapeEnv
            with FakeTensorMode(shape_env=ShapeEnv()) as mode:
                t = mode.from_tensor(torch.ones(5, 3), static_shapes=False)
                t.view(t.shape[0] * 3).tan()
            torch.ones(2, 3).view(3, 2)
        """,
        "stream": """
            with torch.cpu.stream(torch.cpu.Stream()):
                torch.ones(2).tan()
            torch.cpu.synchronize()
        """,
        "failing": """
            for attempt in (lambda: torch.empty(2, 3) @ torch.empty(2, 3), lambda: torch.ones(3).tan_().view(7)):
                try:
                    attempt()
                except RuntimeError:
                    pass
            torch.ones(2).sin()
        """,
        "references": """
            t = torch.ones(4)
            u = t.tan()
            print('counts', torch.ops.crucible_test.use_count(t), torch.ops.crucible_test.use_count(u))
            p = torch.nn.Parameter(torch.ones(4))
            g = []
            p.register_post_accumulate_grad_hook(lambda p: g.append(torch.ops.crucible_test.use_count(p.grad)))
            (p * 2).sum().backward()
            (p * 3).sum().backward()
            print('gradient', g)
        """,
        "slow_foreach": """
            torch._foreach_add([torch.ones(2), torch.ones(2, dtype=torch.float64)], [torch.ones(2), torch.ones(2)])
        """,
        "threads": """
            import threading
            Deep.apply(torch.ones(2, requires_grad=True), 70).sum().backward()
            thread = threading.Thread(target=lambda: torch.ones(2).erfc())
            thread.start()
            thread.join()
        """,
    }

    def test_01_inference_mode_composites(self):
        self.assertFalse({"aten::linear", "aten::matmul"} & {op["name"] for op in self.shared.ops})
        self.assertIn([2, 4], [
            self.shared.tensor(op["outputs"][0])["sizes"] for op in self.ops("inference") if op["name"] == "aten::addmm"
        ])

    def test_02_many_names_for_one_thing(self):
        # Nothing asks for a name: whatever this version and device call it, what it reads was made or entered.
        self.assertTrue(self.ops("names"))
        self.assertEqual(self.shared.unexplained_reads(), [])
        drawn = {self.shared.ops[draw["op"]]["name"] for draw in self.shared.draws}
        self.assertTrue(drawn & {"aten::bernoulli_.float", "aten::native_dropout"}, drawn)

    def test_03_identity_without_an_op(self):
        for iteration in range(2):
            read = self.one("identity", "aten::tan", iteration)
            entered = self.shared.externals_of(self.shared.storage(read["args"][0]))
            self.assertEqual(floats(entered[0]["blob"]), [2.0 + iteration] * 3)
        made = self.one("identity", "aten::full")
        self.assertEqual(self.shared.storage(self.one("identity", "aten::sin")["args"][0]),
                         self.shared.storage(made["outputs"][0]))

    def test_04_values_that_leave(self):
        left = self.one("leaving", "aten::_local_scalar_dense")
        self.assertEqual(real(left["outputs"][0]), 2.5)
        self.assertIn("program.py:", left["site"])
        self.assertEqual(*[[op["name"] for op in self.shared.iteration_ops(i)] for i in range(2)],
                         "shown by the second iteration")

    def test_05_draws(self):
        printed = [eval(line.split(" ", 1)[1]) for line in self.printed.splitlines() if line.startswith("drawn")]
        for iteration in range(2):
            ops = {self.shared.index_of(op) for op in self.ops("random", iteration)}
            draws = [draw for draw in self.shared.draws if draw["op"] in ops]
            self.assertEqual(len(draws), 2)
            exact = [struct.unpack("<f", struct.pack("<f", x))[0] for x in printed[2 + iteration]]
            self.assertEqual(floats(draws[0]["blob"]), exact, "row-major, whatever the strides")
        self.assertIsNone(self.one("random", "aten::uniform_")["args"][3], "the generator argument says nothing")

    def test_06_in_place_views_and_lists(self):
        sine, cosine, tangent = (self.one("in_place", f"aten::{name}") for name in ("sin_", "cos_", "tan"))
        self.assertEqual(sine["args"][0], sine["outputs"][0])
        self.assertEqual(self.shared.storage(sine["args"][0]), self.shared.storage(cosine["outputs"][0]))
        self.assertEqual(self.shared.tensor(cosine["args"][0])["offset"], 1)
        self.assertEqual(self.shared.storage(tangent["args"][0]), self.shared.storage(sine["args"][0]))
        self.assertEqual(self.shared.externals_of(self.shared.storage(sine["args"][0])), [], "made by a recorded op")
        out = self.one("in_place", "aten::add.out")
        self.assertEqual(out["args"][3], out["outputs"][0])
        both = self.one("in_place", "aten::_foreach_add_.Scalar")["args"][0]
        self.assertEqual([self.shared.tensor(element)["sizes"] for element in both], [[2], [2]])
        view = self.shared.tensor(self.one("in_place", "aten::expm1")["args"][0])
        self.assertEqual((view["offset"], view["sizes"], view["strides"]), (1, [2, 3], [1, 4]))
        self.assertEqual(self.shared.tensor(self.one("in_place", "aten::log1p")["args"][0])["strides"], [77, 1])
        self.assertEqual(self.shared.tensor(self.one("in_place", "aten::erf")["args"][0])["strides"], [2**33, 1])
        saved = [op for op in self.ops("saved_before_write") if op["phase"] == 0]
        self.assertEqual([op["name"] for op in saved[1:4]], ["aten::mul.Tensor", "aten::clone", "aten::sin_"],
                         "autograd saves what it overwrites")

    def test_07_undefined_and_wrapped(self):
        norm = self.one("undefined", "aten::native_layer_norm")
        self.assertIn(norm["args"][2:4], ([None, None], ["undefined", "undefined"]),
                      "as this torch's caller passed them")
        self.assertEqual(
            self.one("undefined", "aten::native_layer_norm_backward")["outputs"][1:], ["undefined", "undefined"])
        indices = self.one("undefined", "aten::index.Tensor")["args"][1]
        self.assertEqual(len(indices), 2)
        self.assertIn(indices[0], (None, "undefined"))
        by_number, by_tensor = [op for op in self.ops("undefined") if op["name"] == "aten::mul.Tensor"]
        number = self.shared.tensor(by_number["args"][1])
        self.assertEqual((number["wrapped"], number["dtype"], number["sizes"]), (True, "f64", []))
        self.assertEqual(
            self.shared.externals_of(number["storage"])[0]["blob"]["hex"],
            struct.pack("<d", 0.1 * 2).hex())
        self.assertFalse(self.shared.tensor(by_tensor["args"][1])["wrapped"])

    def test_10_subclasses(self):
        self.assertEqual(self.names("Wrapped"), ["aten::add.Tensor", "aten::tan"], "the inner ops, once each")
        self.assertNotIn("aten::tan", self.names("subclass"))

    def test_12_schemas_in_full(self):
        addition = self.one("in_place", "aten::add.out")
        self.assertEqual(addition["schema"],
                         "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)")

    def test_14_sizes_are_integers(self):
        self.assertNotIn("aten::tan", self.names("symbolic"), "what has no sizes yet computes nothing")
        self.assertEqual(self.one("symbolic", "aten::view")["args"][1], [3, 2])

    def test_15_streams_are_no_ops(self):
        # As far as a machine without an accelerator lets: choosing and awaiting streams adds nothing to the record.
        self.assertEqual(self.names("stream"), ["aten::ones", "aten::tan"])

    def test_17_exceptions(self):
        names = self.names("failing")
        self.assertNotIn("aten::mm", names)
        self.assertEqual(names[-2:], ["aten::ones", "aten::sin"], "recording goes on")
        self.assertIn("aten::tan_", names)
        self.assertEqual(self.names("failing"), self.names("failing", 1))

    def test_19_no_references(self):
        counts = {line for line in self.printed.splitlines() if line.startswith("counts")}
        gradients = {line for line in self.printed.splitlines() if line.startswith("gradient")}
        self.assertEqual((len(counts), len(gradients)), (1, 1),
                         f"recorded steps count as unrecorded ones do: {counts} {gradients}")

    def test_ops_inside_kernels_are_not_seen_again(self):
        self.assertEqual(self.names("slow_foreach").count("aten::_foreach_add.List"), 1)
        self.assertNotIn("aten::add.Tensor", self.names("slow_foreach"))

    def test_threads(self):
        backward = [op for op in self.shared.iteration_ops(0) if op["name"] == "aten::expm1" and op["phase"] == 1]
        self.assertEqual(len(backward), 71, "none is lost on autograd's own threads")
        self.assertGreater(len({op["thread"] for op in backward}), 1)
        self.assertEqual([op for op in self.shared.ops if op["name"] == "aten::erfc"], [],
                         "threads of the program are not recorded")


class Separate(RecorderTest):
    """Those that need a program of their own."""

    def test_08_compiled_is_refused(self):
        before = "import types\ncache = types.ModuleType('torch._inductor.codecache')\nclass PyCodeCache:\n    modules = [object()]\n" \
                 "cache.PyCodeCache = PyCodeCache\nsys.modules['torch._inductor.codecache'] = cache\n"
        done = self.record(program({"nothing": "pass"}, before))
        self.assertEqual(done.returncode, 3)
        self.assertIn("torch.compile", done.stderr)

    def test_09_somebody_else_switches_the_key_on(self):
        text = f"""
            import sys
            sys.path.insert(0, {os.path.join(BUILD, "python")!r})
            import torch
            from crucible_torch import _recorder
            torch.ops.load_library({LIBRARY!r})
            for path in ("typed", "boxed", "per_op"):
                _recorder.install(path)
                torch.ops.crucible_test.switch_key(True)
                x = torch.ones(2, requires_grad=True)
                (torch.nn.Linear(2, 2)(x).tan() + torch.ops.crucible_test.scale(x, 2.0)).sum().backward()
                torch.ops.crucible_test.switch_key(False)
                assert _recorder.measures()["ops"] == 0, path
                _recorder.uninstall()
            print("plain", x.grad is not None)
        """
        done = self.run_command([sys.executable, self.script(text)])
        self.assertEqual((done.returncode, done.stdout), (0, "plain True\n"), done.stderr)

    def test_11_collectives_and_marks(self):
        code = "with torch.profiler.record_function('mark'):\n    torch.distributed.all_reduce(torch.ones(3))\ntorch.distributed.monitored_barrier()"
        before = "torch.distributed.init_process_group('gloo', store=torch.distributed.HashStore(), rank=0, world_size=1)\n"
        trace = Recorded(self.recorded(program({"collective": code}, before)).document)
        names = [op["name"] for op in trace.ops_of("collective")]
        self.assertIn("c10d::allreduce_", names)
        self.assertEqual([name for name in names if name.startswith("profiler")], [])
        self.assertIn("process group", trace.one("c10d::allreduce_")["args"][1]["opaque"])

    def test_13_tensors_without_a_storage(self):
        code = "with torch.no_grad():\n    torch.eye(3).to_sparse().to_dense()\n    torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).dequantize()\n" \
               "    torch.ones(2, dtype=torch.complex64).conj().clone()"
        trace = Recorded(self.recorded(program({"kinds": code})).document)
        kinds = {compound["kind"] for compound in trace.compounds}
        self.assertTrue({"sparse_coo", "quantized_per_tensor", "conjugate"} <= kinds, kinds)
        self.assertEqual(trace.unexplained_reads(), [])

    def test_16_steady_from_the_third_step(self):
        optimizers = ("SGD(p, lr=0.1, momentum=0.9)", "Adam(p)", "AdamW(p, amsgrad=True)", "RMSprop(p, momentum=0.1)",
                      "Adagrad(p)")
        text = LOOP.replace("for step in range(10):", "p = list(model.parameters())\nothers = [" +
                            ", ".join(f"torch.optim.{o}" for o in optimizers) + "]\nfor step in range(10):")
        text = text.replace("    optimizer.step()",
                            "    for other in others:\n        other.step()\n    optimizer.step()")
        trace = self.recorded(text)
        first, second = ([op["name"] for op in trace.iteration_ops(i)] for i in range(2))
        self.assertEqual(first, second)
        self.assertNotIn("aten::zeros_like", first)

    def test_18_the_vendor_is_stored(self):
        # On a CPU all that can be shown is that the file says what torch was built for, whatever devices are called.
        self.assertIn("torch ", self.recorded(LOOP).metadata["framework"])
        amd = LOOP.replace("import torch\n", "import torch\ntorch.version.hip, torch.version.cuda = '6.4', None\n")
        self.assertIn("built for AMD ROCm 6.4", self.recorded(amd).metadata["framework"])

    def test_scalars_change_where_nothing_says_so(self):
        trace = self.recorded(
            LOOP.replace("torch.optim.SGD(model.parameters(), lr=0.1)",
                         "torch.optim.AdamW(model.parameters(), foreach=True)"))
        first, second = (trace.one("aten::_foreach_addcdiv_.ScalarList", i)["args"][3] for i in range(2))
        self.assertNotEqual(first, second)
        self.assertEqual(*[[op["name"] for op in trace.iteration_ops(i)] for i in range(2)])

    def test_losses_are_the_same_to_the_last_bit(self):
        text = LOOP + "print(loss.item().hex(), [p.detach().numpy().tobytes().hex() for p in model.parameters()])\n"
        plain = self.run_command([sys.executable, self.script(text)])
        self.assertEqual(plain.returncode, 0, plain.stderr)
        for kernels in ("typed", "boxed", "per_op", "record_function"):
            done = self.record(text, options=("--kernels", kernels))
            self.assertEqual((done.returncode, done.stdout), (0, plain.stdout), done.stderr)

    @unittest.skipIf("libasan" in os.environ.get("LD_PRELOAD", ""),
                     "the address sanitizer keeps freed memory for a while")
    def test_a_recycled_address_is_a_new_storage(self):
        code = """
            with torch.no_grad():
                seen = set()
                for _ in range(50):
                    t = torch.zeros(1000)
                    seen.add(t.untyped_storage().data_ptr())
                    t.tan()
                    del t
                assert len(seen) < 50, 'the allocator did not recycle: the test shows nothing'
        """
        trace = self.recorded(program({"recycled": code}))
        self.assertEqual(len({trace.storage(op["args"][0]) for op in trace.ops_named("aten::tan", 0)}), 50)

    def test_an_operator_registered_while_recording(self):
        code = "if step == 2:\n    library = torch.library.Library('late', 'FRAGMENT')\n    library.define('op(Tensor x) -> Tensor')\n" \
               "    library.impl('op', lambda x: x.neg(), 'CPU')\n    kept.append(library)\nif step >= 3:\n    torch.ops.late.op(torch.ones(3))"
        for kernels in ("typed", "per_op"):
            trace = self.recorded(program({"late": code}, "kept = []"),
                                  options=("--iterations", "2", "--kernels", kernels))
            self.assertEqual(len(trace.ops_named("late::op", 1)), 1, kernels)


if __name__ == "__main__":
    unittest.main(verbosity=2)
