"""Precisions and kinds of tensors: what a record keeps of each, and what the summary says of those that replay does not
take."""

import os
import struct
import unittest

from snippets import SnippetTest
from support import BUILD, floats, real

LIBRARY = os.path.join(BUILD, "tests", "torch", "crucible_test_ops.so")


class Compounds(SnippetTest):
    SNIPPETS = {
        "coo": """
            with torch.no_grad():
                s = torch.sparse_coo_tensor(torch.tensor([[0, 2], [1, 0]]), torch.tensor([3.0, 4.0]), (3, 3)).coalesce()
                (s * 2).to_dense().tan()
                torch.sparse.mm(s, torch.ones(3, 2)).sin()
        """, "coo_grad": """
            e = torch.nn.Embedding(5, 2, sparse=True)
            e(torch.tensor([1, 3])).sum().backward()
        """, "csr": """
            with torch.no_grad():
                s = torch.eye(3).to_sparse_csr()
                (s @ torch.ones(3)).tan()
                torch.eye(4).to_sparse_bsr((2, 2)).to_dense().sin()
        """, "csr_from_parts": "torch.sparse_csr_tensor([0, 1, 1], [1], torch.tensor([5.0]), (2, 2)).to_dense().tan()",
        "quantized": """
            with torch.no_grad():
                x = torch.arange(4.0)
                torch.quantize_per_tensor(x, 0.5, 10, torch.quint8).dequantize().tan()
                torch.quantize_per_channel(x.view(2, 2), torch.tensor([0.5, 0.25]), torch.tensor([0, 1]), 1, torch.qint8).dequantize().sin()
        """, "nested": """
            with torch.no_grad():
                n = torch.nested.nested_tensor([torch.ones(2, 3), torch.zeros(1, 3)])
                torch.nested.to_padded_tensor(n * 2, 9.0).tan()
        """, "conjugate": """
            with torch.no_grad():
                z = torch.tensor([1 + 2j, 3 - 1j])
                c = torch.view_as_real(z).tan()
                z.conj().mul(2).sin()
                torch.view_as_real(torch.resolve_conj(z.conj())).cos()
        """, "negative": """
            with torch.no_grad():
                z = torch.tensor([1 + 2j, 3 - 1j])
                z.conj().imag[1:].clone().tan()
        """, "zero": """
            with torch.no_grad():
                torch._efficientzerotensor(2).add(torch.ones(2)).tan()
        """, "mkldnn": """
            with torch.no_grad():
                if torch.backends.mkldnn.is_available():
                    torch.ones(2, 2).to_mkldnn().to_dense().tan()
                else:
                    print('no mkldnn')
        """,
    }

    def compound_of(self, argument, kind):
        found = self.shared.compound(argument)
        self.assertIsNotNone(found, argument)
        self.assertEqual(found["kind"], kind)
        self.assertIsNone(self.shared.tensor(argument)["storage"])
        return found["parts"]

    def bytes_of(self, argument):
        return bytes.fromhex(self.shared.externals_of(self.shared.storage(argument))[0]["blob"]["hex"])

    def test_sparse_coo(self):
        product = self.one("coo", "aten::mul.Tensor")
        parts = self.compound_of(product["args"][0], "sparse_coo")
        self.assertEqual(set(parts), {"indices", "values", "is_coalesced", "sparse_dim", "dense_dim"})
        self.assertEqual((parts["is_coalesced"], parts["sparse_dim"], parts["dense_dim"]), (True, 2, 0))
        self.assertEqual(self.shared.tensor(parts["indices"])["sizes"], [2, 2])
        self.assertEqual(self.shared.tensor(parts["values"])["dtype"], "f32")
        made = [op for op in self.ops("coo") if op["outputs"][0] == product["args"][0]]
        self.assertTrue(made, "its identity is that of the tensor which an op returned")
        self.assertEqual(self.shared.tensor(product["args"][0])["sizes"], [3, 3])

    def test_sparse_gradient(self):
        gradient = [op for op in self.ops("coo_grad") if op["phase"] == 1 and any(
            self.shared.compound(a) for a in op["outputs"] if isinstance(a, dict) and "tensor" in a)]
        self.assertTrue(gradient, self.names("coo_grad"))

    def test_sparse_compressed(self):
        made = self.one("csr", "aten::_to_sparse_csr")
        parts = self.compound_of(made["outputs"][0], "sparse_csr")
        self.assertEqual(
            [self.shared.tensor(parts[name])["sizes"] for name in ("compressed_indices", "plain_indices", "values")],
            [[4], [3], [3]])
        blocks = self.compound_of(self.one("csr", "aten::_to_sparse_bsr")["outputs"][0], "sparse_bsr")
        self.assertEqual(self.shared.tensor(blocks["values"])["sizes"], [2, 2, 2])

    def test_quantized(self):
        parts = self.compound_of(
            self.one("quantized", "aten::quantize_per_tensor")["outputs"][0], "quantized_per_tensor")
        self.assertEqual((real(parts["scale"]), parts["zero_point"], parts["dtype"]), (0.5, 10, "QUInt8"))
        self.assertEqual(self.shared.tensor(parts["data"])["dtype"], "u8")
        self.assertEqual(self.shared.storages[self.shared.storage(parts["data"])]["size"], 4)
        parts = self.compound_of(
            self.one("quantized", "aten::quantize_per_channel")["outputs"][0], "quantized_per_channel")
        self.assertEqual((parts["axis"], parts["dtype"]), (1, "QInt8"))
        self.assertEqual(struct.unpack("<2d", self.bytes_of(parts["scales"])), (0.5, 0.25))

    def test_nested(self):
        product = self.one("nested", "aten::mul.Tensor")
        parts = self.compound_of(product["args"][0], "nested")
        self.assertEqual(struct.unpack("<4q", self.bytes_of(parts["sizes"])), (2, 3, 1, 3))
        self.assertEqual(self.shared.tensor(parts["buffer"])["sizes"], [9])
        again = self.compound_of(product["outputs"][0], "nested")
        self.assertNotEqual(self.shared.storage(parts["buffer"]), self.shared.storage(again["buffer"]))

    def test_conjugate(self):
        conjugate = self.ops("conjugate")[[op["name"] for op in self.ops("conjugate")].index("aten::_conj")]
        parts = self.compound_of(conjugate["outputs"][0], "conjugate")
        self.assertEqual(parts["base"], conjugate["args"][0], "a conjugate view is its base, read differently")
        self.assertEqual(self.shared.tensor(conjugate["outputs"][0])["strides"], [1])

    def test_negative(self):
        views = [
            self.shared.compound(op["outputs"][0]) for op in self.ops("negative") if isinstance(op["outputs"][0], dict)
        ]
        negative = [view["parts"]["base"] for view in views if view is not None and view["kind"] == "negative"]
        self.assertTrue(negative)
        self.assertEqual(self.shared.tensor(negative[-1])["strides"], [2])

    def test_zero(self):
        parts = self.compound_of(self.one("zero", "aten::_efficientzerotensor")["outputs"][0], "zero")
        self.assertEqual(parts, {})

    def test_opaque(self):
        if "no mkldnn" in self.printed:
            self.skipTest("this torch has no MKL-DNN")
        self.compound_of(self.one("mkldnn", "aten::to_mkldnn")["outputs"][0], "opaque")

    def test_all_reads_are_explained(self):
        self.assertEqual(self.shared.unexplained_reads(), [])

    def test_summary_names_them_with_count_and_line(self):
        named = {item["what"]: item for item in self.shared.not_recorded}
        for kind in ("sparse_bsr tensors", "quantized tensors", "nested tensors"):
            found = [item for what, item in named.items() if what.startswith(f"{kind} in ")]
            self.assertTrue(found, (kind, list(named)))
            self.assertTrue(all(item["count"] >= 1 and "program.py:" in item["site"] for item in found), found)
        self.assertFalse([what for what in named if "conjugate" in what or "negative" in what],
                         "replay reads lazy views")
        self.assertFalse([what for what in named if "sparse_coo" in what or "sparse_csr" in what or "zero" in what], "replay reads these, too")

    def test_boxed_and_typed_agree(self):
        test = type(self)("record_once")
        test.setUp()
        self.addCleanup(test.doCleanups)
        test.OPTIONS = ("--iterations", "2", "--kernels", "boxed")
        boxed, _ = test.record_once()
        for ours, theirs in zip(self.shared.ops, boxed.ops):
            self.assertEqual(ours, theirs)
        self.assertEqual(self.shared.content(), boxed.content())


class Ordinary(SnippetTest):
    BEFORE = f"""
        torch.ops.load_library({LIBRARY!r})

        @torch.library.custom_op('mine::twice', mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2
        @twice.register_fake
        def _(x):
            return torch.empty_like(x)
        twice.register_autograd(lambda ctx, g: g.clone().tan())

        @torch.library.custom_op('mine::fill', mutates_args=('x',))
        def fill(x: torch.Tensor, number: float) -> None:
            x.fill_(number)

        loose = torch.library.Library('loose', 'FRAGMENT')
        loose.define('op(Tensor x, Any how) -> Tensor')
        loose.impl('op', lambda x, how: x.neg(), 'CPU')

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.square()
            @staticmethod
            def backward(ctx, g):
                x, = ctx.saved_tensors
                return (g * x).tan()

        shared = torch.nn.Linear(3, 3, bias=False)
        tied = torch.nn.Sequential(shared, torch.nn.Tanh(), shared)
        normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))
        half = torch.nn.Linear(4, 4)
        half_optimizer = torch.optim.SGD(half.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler('cpu', init_scale=8.0)
    """
    SNIPPETS = {
        "bfloat16": """
            with torch.autocast('cpu', dtype=torch.bfloat16):
                half(torch.ones(2, 4)).sum().backward()
        """, "float16": """
            with torch.autocast('cpu', dtype=torch.float16):
                out = half(torch.ones(2, 4)).sum()
            scaler.scale(out).backward()
            scaler.unscale_(half_optimizer)
            if step < 0:
                scaler.step(half_optimizer)
            scaler.update()
        """, "complex_numbers": """
            with torch.no_grad():
                z = torch.fft.fft(torch.ones(4)) * (1 + 2j)
                z.abs().tan()
        """, "channels_last": """
            with torch.no_grad():
                x = torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last).tan()
        """, "zero_dimensional": "torch.tensor(3.0).tan()", "empty": "torch.empty(0, 5).tan()",
        "zero_stride": "torch.ones(1).expand(4).tan()", "huge": """
            x = torch.ones(1).expand(2**33)
            x.view(2, 2**32).t()[2**31:2**31 + 3].tan()
            torch.empty(2**40, device='meta').add(1)
        """, "integers": """
            x = torch.arange(5, dtype=torch.int32)
            (x << 2).bitwise_and(7).to(torch.uint8).eq(4).logical_not().any()
        """, "any_type": """
            for how in (None, True, 3, 2.5, 1j, 'sum', (1, 'two', torch.ones(2)), [4.5, 0.5], torch.zeros(3)):
                torch.ops.loose.op(torch.ones(3), how)
        """, "python_operator": """
            x = torch.ones(3, requires_grad=True)
            twice(x).sum().backward()
            with torch.no_grad():
                y = torch.zeros(2)
                fill(y, 2.5)
                y.tan()
        """, "cpp_operator": """
            x = torch.ones(3)
            torch.ops.crucible_test.scale(x, 2.5).tan()
            torch.ops.crucible_test.accumulate_(torch.zeros(3), x).sin()
            torch.ops.crucible_test.several(x, [x, x.neg()], 'four', [3, 1], 2)
            torch.ops.crucible_test.several(x, [], '', None, 1 + 1j)
            torch.ops.crucible_test.unbox(x, torch.classes.crucible_test.Box(2.0))
            torch.ops.crucible_test.sum_of(x, {'a': x, 'b': x.cos()})
        """, "functional": """
            f = lambda x: (x.sin() * x).sum()
            torch.func.grad(f)(torch.ones(3))
            torch.func.vmap(lambda x: x.tan() @ torch.ones(3))(torch.ones(2, 3))
            torch.func.functional_call(half, {'weight': torch.zeros(4, 4), 'bias': torch.ones(4)}, (torch.ones(1, 4),)).cos()
        """, "checkpointed": """
            from torch.utils.checkpoint import checkpoint
            checkpoint(lambda x: x.tan(), torch.ones(2, requires_grad=True), use_reentrant=False).sum().backward()
            checkpoint(lambda x: x.cos(), torch.ones(2, requires_grad=True), use_reentrant=True).sum().backward()
        """, "hooked": """
            x = torch.ones(2, requires_grad=True)
            y = x * 3
            y.register_hook(lambda g: g.tan())
            module = torch.nn.Linear(2, 2)
            module.register_forward_hook(lambda m, i, o: o.cos())
            (module(y)).sum().backward()
        """, "own_function": "Square.apply(torch.ones(2, requires_grad=True)).sum().backward()",
        "parametrized": "normed(torch.ones(1, 3)).sum().backward()",
        "shared_weights": "tied(torch.ones(1, 3)).sum().backward()",
    }

    def input_types(self, snippet, name):
        return [self.shared.tensor(op["args"][0])["dtype"] for op in self.ops(snippet) if op["name"] == name]

    def test_autocast(self):
        linear = [op for op in self.ops("bfloat16") if op["name"] == "aten::addmm"]
        self.assertEqual([self.shared.tensor(argument)["dtype"] for argument in linear[0]["args"][:3]], ["bf16"] * 3)
        self.assertIn("aten::_to_copy", self.names("bfloat16"), "the casts are ops")
        self.assertEqual(self.input_types("float16", "aten::addmm"), ["f16"])

    def test_gradient_scaler(self):
        scale = [op for op in self.ops("float16") if op["name"] == "aten::_amp_foreach_non_finite_check_and_unscale_"]
        self.assertEqual(len(scale), 1)
        entered = self.shared.externals_of(
            self.shared.storage(self.one("float16", "aten::_amp_update_scale_")["args"][0]))
        self.assertEqual(floats(entered[0]["blob"]), [8.0])

    def test_complex(self):
        self.assertIn("c64", {self.shared.tensor(op["outputs"][0])["dtype"] for op in self.ops("complex_numbers")})

    def test_layouts(self):
        seen = self.shared.tensor(self.one("channels_last", "aten::tan")["args"][0])
        self.assertEqual((seen["sizes"], seen["strides"]), ([1, 2, 3, 4], [24, 1, 8, 2]))
        self.assertEqual(self.shared.tensor(self.one("zero_dimensional", "aten::tan")["args"][0])["sizes"], [])
        self.assertEqual(self.shared.tensor(self.one("empty", "aten::tan")["args"][0])["sizes"], [0, 5])
        stretched = self.shared.tensor(self.one("zero_stride", "aten::tan")["args"][0])
        self.assertEqual((stretched["sizes"], stretched["strides"]), ([4], [0]))
        self.assertEqual(self.shared.storages[stretched["storage"]]["size"], 4)

    def test_sizes_above_2_to_the_32(self):
        view = [op for op in self.ops("huge") if op["name"] == "aten::view"][0]
        self.assertEqual(self.shared.tensor(view["args"][0])["sizes"], [2**33])
        self.assertEqual(view["args"][1], [2, 2**32])
        self.assertEqual(self.shared.tensor(view["outputs"][0])["sizes"], [2, 2**32])
        self.assertEqual(self.names("huge").count("aten::add.Tensor"), 0, "meta tensors compute nothing")

    def test_integers_and_booleans(self):
        types = [self.shared.tensor(op["outputs"][0])["dtype"] for op in self.ops("integers")]
        self.assertEqual([t for t in ("i32", "u8", "bool") if t not in types], [])

    def test_any_type(self):
        given = [op["args"][1] for op in self.ops("any_type") if op["name"] == "loose::op"]
        self.assertEqual(given[:3], [None, True, 3])
        self.assertEqual(real(given[3]), 2.5)
        self.assertEqual(list(given[4]), ["complex"])
        self.assertEqual(given[5], "sum")
        self.assertEqual(given[6][:2], [1, "two"])
        self.assertEqual(self.shared.tensor(given[6][2])["sizes"], [2])
        self.assertEqual([real(number) for number in given[7]], [4.5, 0.5])
        self.assertEqual(self.shared.tensor(given[8])["sizes"], [3])

    def test_operators_from_python(self):
        forward = self.one("python_operator", "mine::twice")
        self.assertEqual(self.shared.tensor(forward["args"][0])["sizes"], [3])
        # The line of its backward formula is where the lambda stands, outside the snippet.
        self.assertTrue([
            op for op in self.shared.iteration_ops(0)
            if op["name"] == "aten::tan" and (op["phase"], op["function"]) == (1, "<lambda>")
        ])
        fill = self.one("python_operator", "mine::fill")
        tangent = [op for op in self.ops("python_operator") if op["name"] == "aten::tan" and op["phase"] == 0][0]
        self.assertEqual(real(fill["args"][1]), 2.5)
        self.assertEqual(self.shared.storage(fill["args"][0]), self.shared.storage(tangent["args"][0]))
        self.assertIn("(a0!) x", fill["schema"])

    def test_operators_from_cpp(self):
        scale = self.one("cpp_operator", "crucible_test::scale")
        self.assertEqual(real(scale["args"][1]), 2.5)
        self.assertNotIn("aten::mul.Tensor", self.names("cpp_operator"),
                         "what runs inside an operator is its own business")
        added = self.one("cpp_operator", "crucible_test::accumulate_")
        self.assertEqual(self.shared.storage(added["args"][0]), self.shared.storage(added["outputs"][0]))
        first, second = [op for op in self.ops("cpp_operator") if op["name"] == "crucible_test::several"]
        self.assertEqual((first["args"][2], first["args"][3], first["args"][4]), ("four", [3, 1], 2))
        self.assertEqual(len(first["outputs"][1]), 2)
        self.assertEqual((second["args"][1:4], second["args"][4]), ([[], "", None], {"complex": [1.0, 1.0]}))

    def test_objects_and_dictionaries(self):
        self.assertEqual(
            self.one("cpp_operator", "crucible_test::unbox")["args"][1],
            {"opaque": "__torch__.torch.classes.crucible_test.Box"})
        tensors = self.one("cpp_operator", "crucible_test::sum_of")["args"][1]
        self.assertEqual([pair[0] for pair in tensors], ["a", "b"])
        self.assertEqual(tensors[1][1], self.one("cpp_operator", "aten::cos")["outputs"][0])

    def test_function_transforms(self):
        names = self.names("functional")
        self.assertIn("aten::cos", names)
        self.assertEqual(
            self.shared.tensor([op for op in self.ops("functional") if op["name"] == "aten::tan"
                               ][0]["args"][0])["sizes"], [2, 3], "vmap's batch is one tensor below it")
        self.assertEqual([
            op["name"] for op in self.shared.iteration_ops(0) if op["function"] == "functional.<locals>.<lambda>"
        ].count("aten::sin"), 1)

    def test_checkpoint(self):
        self.assertEqual([op["phase"] for op in self.ops("checkpointed") if op["name"] == "aten::tan"], [0, 1])
        self.assertEqual([op["phase"] for op in self.ops("checkpointed") if op["name"] == "aten::cos"], [0, 1])

    def test_hooks(self):
        self.assertEqual([op["phase"] for op in self.ops("hooked") if op["name"] == "aten::tan"], [1])
        self.assertEqual(self.names("hooked").count("aten::cos"), 1)

    def test_functions_of_the_program(self):
        # The lines of its two formulas are where they stand, outside the snippet.
        self.assertEqual(
            [(op["function"], op["phase"])
             for op in self.shared.iteration_ops(0)
             if op["function"].startswith("Square.") and op["name"] in ("aten::pow.Tensor_Scalar", "aten::tan")],
            [("Square.forward", 0), ("Square.backward", 1)])

    def test_parametrization(self):
        self.assertTrue(any("weight_norm" in op["name"] or "norm" in op["name"] for op in self.ops("parametrized")),
                        self.names("parametrized"))

    def test_shared_weights(self):
        transposed = [op for op in self.ops("shared_weights") if op["name"] == "aten::t" and op["phase"] == 0]
        self.assertEqual(len({self.shared.storage(op["args"][0]) for op in transposed}), 1)

    def test_all_reads_are_explained(self):
        self.assertEqual(self.shared.unexplained_reads(), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
