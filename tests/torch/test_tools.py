"""Under other tools: the recorder sees the ops that execute, once each, and the other tool sees what it always sees."""

import textwrap
import unittest

from snippets import WRAPPED, Recorded, SnippetTest, program
from support import RecorderTest


class Tools(SnippetTest):
    BEFORE = WRAPPED + textwrap.dedent("""
        import os
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.overrides import TorchFunctionMode
        import torch.autograd.forward_ad as fwd

        class Counting(TorchDispatchMode):
            seen = []
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                self.seen.append(str(function))
                return function(*args, **(kwargs or {}))

        class Doubling(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                return function(*args, **(kwargs or {})).mul(2)

        class Functions(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                return function(*args, **(kwargs or {}))

        os.environ.update(MASTER_ADDR='localhost', MASTER_PORT='0')
        torch.distributed.init_process_group('gloo', store=torch.distributed.HashStore(), rank=0, world_size=1)
        from torch.distributed.tensor import DTensor, Shard, Replicate, distribute_tensor
        mesh = torch.distributed.init_device_mesh('cpu', (1,))
        sharded = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)])
        import torch.distributed._functional_collectives as functional
        reduced, gathered = torch.ones(3), torch.zeros(3)
    """)
    SNIPPETS = {
        "profiled": """
            with torch.profiler.profile(record_shapes=True, with_stack=False) as profile:
                with torch.profiler.record_function('mark'):
                    torch.ones(2).tan()
            names = [event.key for event in profile.key_averages()]
            assert 'aten::tan' in names and 'mark' in names, names
        """,
        "anomaly": """
            with torch.autograd.detect_anomaly(check_nan=True):
                torch.ones(2, requires_grad=True).tan().sum().backward()
        """,
        "fake": """
            with FakeTensorMode():
                torch.ones(3).tan()
            torch.ones(3, device='meta').tan()
            torch.ones(2).sin()
        """,
        "symbolic": """
            from torch.fx.experimental.symbolic_shapes import ShapeEnv
            with FakeTensorMode(shape_env=ShapeEnv()) as mode:
                t = mode.from_tensor(torch.ones(5, 3), static_shapes=False)
                t.view(t.shape[0] * 3).tan().narrow(0, 0, t.shape[0])
            torch.ones(2, 3).view(3, 2).cos()
        """,
        "other_mode": """
            del Counting.seen[:]
            with Counting():
                torch.ones(3).tan()
            assert Counting.seen == ['aten.ones.default', 'aten.tan.default'], Counting.seen
        """,
        "mode_that_adds_ops": """
            with Doubling():
                torch.ones(3).tan()
        """,
        "function_mode": """
            with Functions():
                torch.ones(3).tan()
        """,
        "subclass": """
            with torch.no_grad():
                (Wrapped(torch.ones(3)) + 1).tan()
        """,
        "distributed_tensor": """
            with torch.no_grad():
                (sharded * 3).tan().full_tensor()
        """,
        "inference": """
            with torch.inference_mode():
                torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))
                torch.matmul(torch.ones(2, 2, 3), torch.ones(3, 4)).tan()
        """,
        "without_gradient": """
            with torch.no_grad():
                torch.ones(2, requires_grad=True).tan()
        """,
        "forward_mode": """
            with fwd.dual_level():
                dual = fwd.make_dual(torch.ones(3), torch.full((3,), 2.0))
                fwd.unpack_dual(dual.tan()).tangent.sin()
        """,
        "collectives": """
            t = torch.ones(3)
            torch.distributed.all_reduce(t, op=torch.distributed.ReduceOp.MAX)
            parts = [torch.zeros(3)]
            torch.distributed.all_gather(parts, t)
            torch.distributed.broadcast(t, 0)
            torch.distributed.barrier()
            parts[0].tan()
            torch.distributed.all_reduce(reduced)
            torch.distributed.all_gather_into_tensor(gathered, t)
        """,
        "functional_collectives": """
            functional.all_reduce(torch.ones(2), 'sum', torch.distributed.group.WORLD).tan()
        """,
    }

    def count(self, snippet, name):
        return self.names(snippet).count(name)

    def test_profiler(self):
        self.assertEqual(self.names("profiled"), ["aten::ones", "aten::tan"], "marks compute nothing")

    def test_anomaly_mode(self):
        self.assertEqual([op["phase"] for op in self.ops("anomaly") if op["name"].startswith("aten::tan")], [0])
        self.assertTrue([op for op in self.ops("anomaly") if op["phase"] == 1])

    def test_fake_and_meta_tensors(self):
        self.assertEqual([n for n in self.names("fake") if n in ("aten::tan", "aten::sin")], ["aten::sin"])
        self.assertEqual({storage["device"] for storage in self.shared.storages}, {"cpu"})

    def test_symbolic_sizes(self):
        self.assertEqual(self.count("symbolic", "aten::tan"), 0)
        view = [op for op in self.ops("symbolic") if op["name"] == "aten::view"][-1]
        self.assertEqual(view["args"][1], [3, 2], "sizes are integers in eager mode")

    def test_other_dispatch_modes(self):
        # The innermost line outside torch is the mode's own.
        self.assertEqual(self.names("Counting"), ["aten::ones", "aten::tan"])
        self.assertEqual(self.names("Doubling"), ["aten::ones", "aten::mul.Tensor", "aten::tan", "aten::mul.Tensor"])
        self.assertEqual(self.names("Functions"), ["aten::ones", "aten::tan"])

    def test_subclass(self):
        self.assertEqual(self.names("Wrapped"), ["aten::add.Tensor", "aten::tan"], "the inner ops, once")
        self.assertEqual(self.shared.storages[self.shared.storage(self.one("Wrapped", "aten::tan")["args"][0])]["size"],
                         12)

    def test_distributed_tensor(self):
        tangent = self.one("distributed_tensor", "aten::tan")
        self.assertEqual(self.shared.tensor(tangent["args"][0])["sizes"], [4, 2])
        self.assertIsNotNone(self.shared.storage(tangent["args"][0]))

    def test_inference_and_no_grad(self):
        self.assertFalse({"aten::linear", "aten::matmul"} & set(self.names("inference")))
        self.assertEqual(self.count("inference", "aten::addmm"), 1)
        self.assertEqual(self.count("without_gradient", "aten::tan"), 1)

    def test_forward_mode(self):
        self.assertEqual(self.count("forward_mode", "aten::tan"), 1)
        self.assertEqual(self.count("forward_mode", "aten::sin"), 1)

    def test_collectives(self):
        reduce = [op for op in self.ops("collectives") if op["name"] == "c10d::allreduce_"][0]
        self.assertEqual(reduce["args"][1]["opaque"].rsplit(" rank ", 1)[1], "0 of 1")
        self.assertTrue(reduce["args"][1]["opaque"].startswith("process group '"))
        self.assertEqual(reduce["args"][2], "max")
        self.assertEqual(self.shared.tensor(reduce["args"][0][0])["sizes"], [3])
        self.assertEqual(reduce["outputs"][0], reduce["args"][0], "in place")
        self.assertEqual(reduce["outputs"][1], {"opaque": "__torch__.torch.classes.c10d.Work"})
        gather = self.one("collectives", "c10d::allgather_")
        self.assertEqual(self.shared.storage(gather["args"][0][0][0]),
                         self.shared.storage(self.one("collectives", "aten::tan")["args"][0]))
        self.assertIn("c10d::broadcast_", self.names("collectives"))

    def test_collectives_write_without_saying_so(self):
        kept = {state["storage"] for state in self.shared.final_states}
        reduce = [op for op in self.ops("collectives") if op["name"] == "c10d::allreduce_"][1]
        gather = self.one("collectives", "c10d::_allgather_base_")
        self.assertIn(self.shared.storage(reduce["args"][0][0]), kept)
        self.assertIn(self.shared.storage(gather["args"][0]), kept)
        self.assertNotIn(self.shared.storage(gather["args"][1]), kept)

    def test_functional_collectives(self):
        reduce = self.one("functional_collectives", "_c10d_functional::all_reduce")
        self.assertEqual(reduce["args"][1], "sum")
        waited = self.one("functional_collectives", "_c10d_functional::wait_tensor")
        self.assertEqual(waited["args"][0], reduce["outputs"][0])

    def test_iterations_agree(self):
        for snippet in self.SNIPPETS:
            self.assertEqual(self.names(snippet), self.names(snippet, 1), snippet)

    def test_all_reads_are_explained(self):
        self.assertEqual(self.shared.unexplained_reads(), [])

    def test_nothing_is_missing(self):
        self.assertEqual(self.shared.not_recorded, [])


class Compiled(RecorderTest):
    PROGRAM = """
        compiled = torch.compile(lambda x: (x.tan() * 2).sum(), backend=BACKEND)
    """

    def test_eager_backend(self):
        text = program({"run": "compiled(torch.ones(3, requires_grad=True)).backward()"},
                       self.PROGRAM.replace("BACKEND", "'eager'"))
        done = self.record(text, options=("--iterations", "2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = Recorded(self.trace().document)
        for iteration in range(2):
            self.assertEqual(len(trace.ops_named("aten::tan", iteration)), 1,
                             "what is traced while compiling is not recorded")
        self.assertEqual(trace.unexplained_reads(), [])

    def test_compiled_while_recording(self):
        text = program(
            {
                "run": "if step == 2:\n    torch._dynamo.reset()\ncompiled(torch.ones(step + 2, requires_grad=True)).backward()"
            }, self.PROGRAM.replace("BACKEND", "'eager'"))
        trace = self.recorded(text)
        self.assertEqual([len(trace.ops_named("aten::tan", iteration)) for iteration in range(2)], [1, 1])

    def test_inductor_is_refused(self):
        text = program({"run": "compiled(torch.ones(3, requires_grad=True)).backward()"},
                       self.PROGRAM.replace("BACKEND", "'inductor'"))
        done = self.record(text, options=("--iterations", "2"))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("kernels that torch.compile made", done.stderr)
        self.assertIn("backend='eager'", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
