"""The ways in which ops come to the recorder: which one is taken when, and that they write the same records."""

import os
import unittest

from snippets import Recorded
from support import LOOP, ROOT, RecorderTest

# Somebody else owns the key's fallback, as a newer framework would.
OCCUPIED = LOOP.replace("model = ", """
taken = torch.library.Library("_", "IMPL")
taken.fallback(torch.library.fallthrough_kernel, "Fake")
model = """)

# On top of that the first two paths are blind; what makes them so does not matter to the choice.
BLIND = OCCUPIED.replace("import torch\n", """import torch
from crucible_torch import _recorder
class Blind:
    asked = []
    def __getattr__(self, name):
        return getattr(_recorder, name)
    def install(self, path):
        self.asked.append(path)
        if path == 'typed':
            raise RuntimeError('cannot be registered')
        return _recorder.install(path)
    def self_test(self):
        return self.asked[-1] == 'record_function' and _recorder.self_test()
import crucible_torch
crucible_torch._session._recorder = Blind()
""", 1)


class Choice(RecorderTest):
    def test_nothing_in_the_way(self):
        self.assertIn("typed kernels on the Fake key", self.recorded(LOOP).metadata["frontend"])

    def test_occupied_fallback(self):
        plain = self.recorded(LOOP)
        trace = self.recorded(OCCUPIED)
        self.assertIn("a boxed kernel per operator on the Fake key", trace.metadata["frontend"])
        self.assertEqual([(op["name"], op["args"]) for op in plain.ops], [(op["name"], op["args"]) for op in trace.ops])
        self.assertEqual(plain.externals, trace.externals)

    def test_no_kernel_is_called(self):
        done = self.record(BLIND + "print(Blind.asked)\n", options=("--iterations", "2"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("['typed', 'per_op', 'record_function']", done.stdout)
        self.assertIn("RecordFunction observers", self.trace().metadata["frontend"])

    def test_summary_says_which(self):
        done = self.record(OCCUPIED, options=("--iterations", "1", "--json"))
        self.assertIn("a boxed kernel per operator", done.stdout)

    def test_kernels_are_taken_back(self):
        program = LOOP + """
for path in ('typed', 'boxed', 'per_op', 'record_function'):
    from crucible_torch import _recorder
    _recorder.install(path)
    _recorder.self_test()
    _recorder.uninstall()
    assert 'crucible recorder' not in torch._C._dispatch_dump('aten::neg'), path
    assert 'Fake: ' not in torch._C._dispatch_dump_table('aten::add.Tensor'), path
print('clean')
"""
        self.assertIn("clean", self.record(program, options=("--iterations", "1")).stdout)


class Observers(RecorderTest):
    OPTIONS = ("--iterations", "2", "--kernels", "record_function")

    def test_same_ops_as_the_key(self):
        key, observed = self.recorded(LOOP), self.recorded(LOOP, options=self.OPTIONS)
        strip = [(op["name"], op["phase"], op["site"], op["module"], [self.plain(key, a)
                                                                      for a in op["args"]])
                 for op in key.ops]
        self.assertEqual(
            strip, [(op["name"], op["phase"], op["site"], op["module"], [self.plain(observed, a)
                                                                         for a in op["args"]])
                    for op in observed.ops])
        self.assertEqual([(e["name"], e["blob"]["hash"], e["op"]) for e in key.externals],
                         [(e["name"], e["blob"]["hash"], e["op"]) for e in observed.externals])
        self.assertEqual([s["blob"]["hash"] for s in key.final_states],
                         [s["blob"]["hash"] for s in observed.final_states])
        self.assertEqual(key.iterations[0]["losses"][0]["value"], observed.iterations[0]["losses"][0]["value"])
        self.assertEqual(Recorded(observed.document).unexplained_reads(), [])

    @staticmethod
    def plain(trace, argument):
        """A tensor by what it looks like: ids differ where requires_grad does."""
        if isinstance(argument, list):
            return [Observers.plain(trace, element) for element in argument]
        if isinstance(argument, dict) and "tensor" in argument:
            tensor = trace.tensor(argument)
            return tensor["storage"], tensor["dtype"], tuple(tensor["sizes"]), tuple(
                tensor["strides"]), tensor["offset"]
        return argument

    def test_limits_are_named(self):
        trace = self.recorded(LOOP, options=self.OPTIONS)
        self.assertTrue(any("observers" in item["what"] for item in trace.not_recorded), trace.not_recorded)

    def test_draws_errors_autocast_and_transforms(self):
        code = """
    with torch.no_grad():
        torch.rand(3).tan()
        try:
            torch.ones(2, 3) @ torch.ones(2, 3)
        except RuntimeError:
            pass
        torch.func.vmap(lambda x: x.sin())(torch.ones(2, 3))
        with torch.autocast('cpu', dtype=torch.bfloat16):
            torch.mm(torch.ones(2, 2), torch.ones(2, 2))
    with torch.inference_mode():
        torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))
    loss.backward()
"""
        trace = self.recorded(LOOP.replace("    loss.backward()\n", code), options=self.OPTIONS)
        self.assertEqual(len(trace.draws), 2)
        product = trace.one("aten::mm", 0) if len(trace.ops_named("aten::mm", 0)) == 1 else [
            op for op in trace.ops_named("aten::mm", 0) if trace.tensor(op["args"][0])["sizes"] == [2, 2]][0]
        self.assertEqual(trace.tensor(product["args"][0])["dtype"], "bf16")
        self.assertEqual(trace.tensor(trace.one("aten::sin")["args"][0])["sizes"], [2, 3])
        self.assertNotIn("aten::linear", {op["name"] for op in trace.ops})
        self.assertEqual(trace.iterations[0]["op_count"], trace.iterations[1]["op_count"])


class Agreement(RecorderTest):
    """Typed and boxed kernels write the same record: for every operator of the lowering's cases, and for every operator
    with a typed kernel that can be called with arguments made up from its schema."""

    def both(self, *path):
        path = os.path.join(ROOT, *path)
        program = (f"import runpy, sys, torch\nsys.path.insert(0, {os.path.dirname(path)!r})\ntorch.manual_seed(0)\n"
                   f"runpy.run_path({path!r}, run_name='__main__')\n")
        typed, boxed = (self.recorded(program, options=("--iterations", "1", "--kernels", kernels))
                        for kernels in ("typed", "boxed"))
        self.assertIn("typed kernels", typed.metadata["frontend"])
        self.assertEqual(len(typed.ops), len(boxed.ops))
        for ours, theirs in zip(typed.ops, boxed.ops):
            self.assertEqual(ours, theirs)
        self.assertEqual(typed.content(), boxed.content())
        return typed

    def test_cases_of_the_lowering(self):
        trace = self.both("tests", "aten", "op_cases.py")
        self.assertGreater(len({op["name"] for op in trace.ops}), 150)

    def test_arguments_from_schemas(self):
        trace = self.both("tests", "torch", "call_every_op.py")
        self.assertGreater(len({op["name"] for op in trace.ops}), 1000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
