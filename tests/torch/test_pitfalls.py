"""The known pitfalls of recording below autograd, each with a small program."""

import struct
import unittest

from support import LOOP, RecorderTest, floats, real


def loop_with(code, before=""):
    """LOOP with `code` at the end of each step's forward part (it sees `step`) and `before` ahead of the loop."""
    indented = "".join(f"    {line}\n" for line in code.strip("\n").splitlines())
    return LOOP.replace("for step in range(10):\n", before + "\nfor step in range(10):\n").replace("    loss.backward()\n", indented + "    loss.backward()\n")


class Aliasing(RecorderTest):
    def test_in_place_keeps_the_storage(self):
        trace = self.recorded(loop_with("with torch.no_grad():\n    t = torch.zeros(3)\n    t.sin_()\n    t[1:].cos_()\n    t.tan()"))
        sine, cosine, tangent = trace.one("aten::sin_"), trace.one("aten::cos_"), trace.one("aten::tan")
        self.assertEqual(sine["args"][0], sine["outputs"][0])
        self.assertEqual(trace.storage(sine["args"][0]), trace.storage(cosine["outputs"][0]))
        self.assertEqual(trace.tensor(cosine["args"][0])["offset"], 1)
        self.assertEqual(trace.storage(tangent["args"][0]), trace.storage(sine["args"][0]))
        self.assertEqual(trace.externals_of(trace.storage(sine["args"][0])), [], "it was made by a recorded op")

    def test_views_keep_offset_and_strides(self):
        trace = self.recorded(loop_with("with torch.no_grad():\n    torch.arange(12.0).view(3, 4).t()[1:3].expm1()"))
        seen = trace.tensor(trace.one("aten::expm1")["args"][0])
        self.assertEqual((seen["offset"], seen["sizes"], seen["strides"]), (1, [2, 3], [1, 4]))

    def test_strides_of_single_elements_are_exact(self):
        trace = self.recorded(loop_with("torch.zeros(8).as_strided((1, 2), (77, 1)).expm1()"))
        self.assertEqual(trace.tensor(trace.one("aten::expm1")["args"][0])["strides"], [77, 1])

    def test_strides_beyond_32_bits(self):
        trace = self.recorded(loop_with("torch.zeros(4).as_strided((1, 2), (2**33, 1)).expm1()"))
        self.assertEqual(trace.tensor(trace.one("aten::expm1")["args"][0])["strides"], [2**33, 1])

    def test_set_data_and_resize(self):
        trace = self.recorded(loop_with("with torch.no_grad():\n    q = torch.full((3,), 2.0)\n    p = torch.zeros(3)\n    p.data = q\n    p.tan()\n"
                                        "    r = torch.zeros(2)\n    r.resize_(100)\n    torch.empty(0).set_(q.untyped_storage()).tan()"))
        first = trace.ops_named("aten::tan", 0)[0]
        made = [op for op in trace.ops_named("aten::full", 0) if op["args"][0] == [3]][0]
        self.assertEqual(trace.storage(first["args"][0]), trace.storage(made["outputs"][0]), "p.data = q: p is q's storage")
        grown = trace.one("aten::resize_")
        self.assertEqual(trace.storages[trace.storage(grown["outputs"][0])]["size"], 400)
        source = trace.one("aten::set_.source_Storage_storage_offset") if trace.ops_named("aten::set_.source_Storage_storage_offset", 0) else trace.one("aten::set_.source_Storage")
        self.assertEqual(trace.tensor(source["args"][1])["dtype"], "u8", "a storage is kept as a tensor of its bytes")
        self.assertEqual(trace.storage(source["args"][1]), trace.storage(source["outputs"][0]))

    def test_recycled_address_is_a_new_storage(self):
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
        trace = self.recorded(loop_with(code))
        storages = {trace.storage(op["args"][0]) for op in trace.ops_named("aten::tan", 0)}
        self.assertEqual(len(storages), 50)


class Values(RecorderTest):
    def test_numbers_in_tensors(self):
        trace = self.recorded(loop_with("with torch.no_grad():\n    torch.ones(2).mul(0.1 * step)\n    torch.ones(2) ** 3.5"))
        scaled = [op for op in trace.ops_named("aten::mul.Tensor", 0) if trace.tensor(op["args"][1])["wrapped"]][0]
        number = trace.externals_of(trace.storage(scaled["args"][1]))[0]
        self.assertEqual(trace.tensor(scaled["args"][1])["sizes"], [])
        self.assertEqual(trace.tensor(scaled["args"][1])["dtype"], "f64")
        self.assertEqual(number["blob"]["hex"], struct.pack("<d", 0.1 * 2).hex())
        self.assertEqual([real(op["args"][1]) for op in trace.ops_named("aten::pow.Tensor_Scalar", 0) if isinstance(op["args"][1], dict)][:1], [3.5])

    def test_value_that_leaves(self):
        trace = self.recorded(loop_with("value = torch.full((), 2.5).item()"))
        left = [op for op in trace.ops_named("aten::_local_scalar_dense", 0)]
        self.assertEqual([real(op["outputs"][0]) for op in left], [2.5])
        self.assertIn("program.py:", left[0]["site"])

    def test_draws(self):
        trace = self.recorded(loop_with("with torch.no_grad():\n    noise = torch.randn(2, 3)\n    torch.empty(3, 2).t().uniform_()\n"
                                        "    torch.bernoulli(torch.full((4,), 0.5))\n    print(step, noise.flatten().tolist())"))
        for iteration in range(2):
            op = trace.one("aten::randn", iteration)
            index = trace.index_of(op)
            draw = [draw for draw in trace.draws if draw["op"] == index][0]
            self.assertEqual((draw["output"], draw["blob"]["size"]), (0, 24))
        uniform = trace.one("aten::uniform_")
        self.assertEqual(trace.tensor(uniform["outputs"][0])["strides"], [1, 2])
        self.assertEqual(len(trace.draws), 2 * 3)

    def test_draws_are_row_major(self):
        program = loop_with("with torch.no_grad():\n    u = torch.empty(3, 2).t().uniform_()\n    print(u.flatten().tolist()) if step == 2 else None")
        done = self.record(program, options=("--iterations", "1"))
        trace = self.trace()
        self.assertEqual([f"{x:.6f}" for x in floats(trace.draws[0]["blob"])], [f"{x:.6f}" for x in eval(done.stdout)])

    def test_dropout(self):
        trace = self.recorded(loop_with("torch.nn.functional.dropout(torch.ones(8), 0.5)"))
        drawn = {trace.ops[draw["op"]]["name"] for draw in trace.draws}
        self.assertTrue(drawn <= {"aten::bernoulli_.float", "aten::native_dropout"} and drawn, drawn)

    def test_attention_without_dropout_draws_nothing(self):
        trace = self.recorded(loop_with("torch.nn.functional.scaled_dot_product_attention(*torch.ones(3, 1, 2, 4, 8).unbind(0))"))
        self.assertEqual(trace.draws, [])
        self.assertEqual(trace.not_recorded, [])

    def test_undefined_and_optional(self):
        trace = self.recorded(loop_with("torch.nn.functional.layer_norm(torch.ones(2, 3, requires_grad=True), (3,)).sum().backward()"))
        norm = trace.one("aten::native_layer_norm")
        self.assertEqual(norm["args"][2:4], [None, None])
        self.assertEqual(trace.one("aten::native_layer_norm_backward")["outputs"][1:], ["undefined", "undefined"])


class Outsiders(RecorderTest):
    def test_exception_inside_an_op(self):
        code = "try:\n    torch.empty(2, 3) @ torch.empty(2, 3)\nexcept RuntimeError:\n    pass\ntry:\n    torch.linalg.cholesky(-torch.eye(2))\nexcept RuntimeError:\n    pass\ntorch.eye(2).expm1()"
        trace = self.recorded(loop_with(code))
        self.assertEqual([op for op in trace.ops_named("aten::mm") if trace.tensor(op["args"][0])["sizes"] == [2, 3]], [])
        self.assertEqual(trace.ops_named("aten::linalg_cholesky_ex", 0) != [], True, "this one runs and reports the error later")
        self.assertEqual(len(trace.ops_named("aten::expm1")), 2, "recording goes on")
        self.assertEqual(trace.iterations[0]["op_count"], trace.iterations[1]["op_count"])

    def test_inference_mode(self):
        code = "with torch.inference_mode():\n    torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))\n    torch.matmul(torch.ones(2, 2, 3), torch.ones(3, 4))"
        trace = self.recorded(loop_with(code))
        names = {op["name"] for op in trace.ops}
        self.assertNotIn("aten::linear", names)
        self.assertNotIn("aten::matmul", names)
        shapes = [trace.tensor(op["outputs"][0])["sizes"] for op in trace.ops_named("aten::addmm", 0)]
        self.assertIn([2, 4], shapes)

    SUBCLASS = """
class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
    def __init__(self, inner):
        self.inner = inner
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        unwrapped = [a.inner if isinstance(a, Wrapped) else a for a in args]
        return Wrapped(function(*unwrapped, **(kwargs or {})))
"""

    def test_subclass(self):
        trace = self.recorded(loop_with("with torch.no_grad():\n    (Wrapped(torch.ones(3)) + 1).tan()", self.SUBCLASS))
        self.assertEqual(len(trace.ops_named("aten::tan", 0)), 1, "the inner op, once")
        self.assertEqual(trace.storages[trace.storage(trace.one("aten::tan")["args"][0])]["size"], 12)

    def test_dispatch_mode(self):
        before = """
from torch.utils._python_dispatch import TorchDispatchMode
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))
"""
        trace = self.recorded(loop_with("with Mode():\n    torch.ones(3).tan()", before))
        self.assertEqual(len(trace.ops_named("aten::tan", 0)), 1)

    def test_meta_tensors_are_skipped(self):
        code = "m = torch.empty(3, device='meta')\n(m + m).tan()\nfrom torch._subclasses.fake_tensor import FakeTensorMode\nwith FakeTensorMode():\n    torch.ones(3).tan()\ntorch.ones(2).tan()"
        trace = self.recorded(loop_with(code))
        self.assertEqual(len(trace.ops_named("aten::tan", 0)), 1)
        self.assertEqual({storage["device"] for storage in trace.storages}, {"cpu"})

    def test_profiler_marks_are_skipped(self):
        trace = self.recorded(loop_with("with torch.autograd.profiler.record_function('mark'):\n    torch.ones(2).tan()"))
        self.assertEqual([op["name"] for op in trace.ops if op["name"].startswith("profiler")], [])

    def test_sparse_is_counted(self):
        trace = self.recorded(loop_with("with torch.no_grad():\n    torch.eye(3).to_sparse().to_dense()"))
        self.assertTrue(any("sparse tensors" in item["what"] for item in trace.not_recorded), trace.not_recorded)
        self.assertTrue(all("program.py:" in item["site"] for item in trace.not_recorded))

    def test_custom_operator(self):
        before = """
@torch.library.custom_op('mine::twice', mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
"""
        trace = self.recorded(loop_with("with torch.no_grad():\n    twice(torch.ones(3)).tan()", before))
        custom = trace.one("mine::twice")
        self.assertEqual(trace.storage(custom["outputs"][0]), trace.storage(trace.one("aten::tan")["args"][0]))

    def test_operator_registered_while_recording(self):
        code = """
if step == 2:
    library = torch.library.Library('late', 'FRAGMENT')
    library.define('op(Tensor x) -> Tensor')
    library.impl('op', lambda x: x.neg(), 'CPU')
if step >= 3:
    torch.ops.late.op(torch.ones(3))
"""
        for kernels in ("typed", "per_op"):
            trace = self.recorded(loop_with(code), options=("--iterations", "2", "--kernels", kernels))
            self.assertEqual(len(trace.ops_named("late::op", 1)), 1, kernels)

    def test_threads(self):
        code = """
class Threaded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, g): return g.tan()
Threaded.apply(torch.ones(2, requires_grad=True)).sum().backward()
import threading
thread = threading.Thread(target=lambda: torch.ones(2).sin())
thread.start(); thread.join()
"""
        trace = self.recorded(loop_with(code))
        self.assertEqual(trace.one("aten::tan")["phase"], 1)
        self.assertEqual(trace.ops_named("aten::sin"), [], "threads that the program starts are not recorded")

    def test_checkpoint(self):
        code = "from torch.utils.checkpoint import checkpoint\ncheckpoint(lambda x: x.tan(), torch.ones(2, requires_grad=True), use_reentrant=False).sum().backward()"
        trace = self.recorded(loop_with(code))
        self.assertEqual([op["phase"] for op in trace.ops_named("aten::tan", 0)], [0, 1])

    def test_compiled_by_inductor_is_refused(self):
        before = """
import types
cache = types.ModuleType('torch._inductor.codecache')
class PyCodeCache:
    modules = [object()]
cache.PyCodeCache = PyCodeCache
sys.modules['torch._inductor.codecache'] = cache
"""
        done = self.record(loop_with("pass", before))
        self.assertEqual(done.returncode, 3)
        self.assertIn("torch.compile", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
