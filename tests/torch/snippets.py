"""Many small programs recorded at once: starting torch costs seconds, so each snippet is a function of one program.

A snippet is code that sees `step` and `torch`; all of them run in each step, in order. What a snippet executed is what
has its name as the function of its Python line, so snippets must not depend on each other.
"""

import textwrap
import unittest

from support import LOOP, RecorderTest, Trace, why_not_on_device

# For BEFORE: a subclass that holds another tensor and has every op run on that.
WRAPPED = """
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

PROGRAM = LOOP.replace("for step in range(10):",
                       "{definitions}\nfor step in range({steps}):").replace("    loss.backward()\n",
                                                                             "{calls}    loss.backward()\n")
PROGRAM = PROGRAM.replace("import torch\n", "import crucible\nimport torch\n",
                          1) + "    crucible.step()\n"  # snippets may have optimizers of their own


def program(snippets, before="", steps=10):
    """The text of a training program that runs each snippet once per step, before backward."""
    definitions = textwrap.dedent(before)
    calls = ""
    for name, code in snippets.items():
        definitions += f"\ndef {name}(step):\n" + textwrap.indent(textwrap.dedent(code).strip("\n"), "    ") + "\n"
        calls += f"    {name}(step)\n"
    return PROGRAM.format(definitions=definitions, calls=calls, steps=steps)


class SnippetTest(RecorderTest):
    """Records SNIPPETS once for all tests of a class; `self.ops("name")` are those of one snippet."""

    SNIPPETS = {}
    BEFORE = ""
    OPTIONS = ("--iterations", "2")

    @classmethod
    def setUpClass(cls):
        if reason := why_not_on_device(cls):
            raise unittest.SkipTest(reason)
        test = cls("record_once")
        test.setUp()
        cls.addClassCleanup(test.doCleanups)
        cls.shared, cls.printed = test.record_once()

    def record_once(self):
        done = self.record(program(self.SNIPPETS, self.BEFORE), options=self.OPTIONS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return Recorded(self.trace().document), done.stdout

    def ops(self, snippet, iteration=0):
        return self.shared.ops_of(snippet, iteration)

    def one(self, snippet, name, iteration=0):
        found = [op for op in self.ops(snippet, iteration) if op["name"] == name]
        self.assertEqual(len(found), 1, (name, [op["name"] for op in self.ops(snippet, iteration)]))
        return found[0]

    def names(self, snippet, iteration=0):
        return [op["name"] for op in self.ops(snippet, iteration)]


class Recorded(Trace):
    def ops_of(self, snippet, iteration=0):
        """Ops whose line lies in the function `snippet`, or in one inside it."""
        return [op for op in self.iteration_ops(iteration) if op["function"].split(".")[0] == snippet]

    def tensors_in(self, argument):
        """Every tensor in an argument, lists and compound tensors opened."""
        if isinstance(argument, list):
            return [tensor for element in argument for tensor in self.tensors_in(element)]
        if not isinstance(argument, dict) or "tensor" not in argument:
            return []
        compound = self.compound(argument)
        if compound is None:
            return [argument["tensor"]]
        return [tensor for part in compound["parts"].values() for tensor in self.tensors_in(part)]

    def compound(self, argument):
        """What a tensor consists of, or None for an ordinary one."""
        return self.compounds_by_tensor().get(argument["tensor"])

    def compounds_by_tensor(self):
        """{"kind", "parts": by name} of each compound tensor."""
        return {
            compound["tensor"]: {
                "kind": compound["kind"], "parts": {part["name"]: part["value"] for part in compound["parts"]}
            } for compound in self.compounds
        }

    def unexplained_reads(self):
        """Ops that read a storage which neither an op before them made nor the outside gave: always empty."""
        known, found = set(), []
        entering = {}
        for external in self.externals:
            entering.setdefault(external["op"], set()).add(external["storage"])
        for index, op in enumerate(self.ops):
            known |= entering.get(index, set())
            for tensor in self.tensors_in(op["args"]):
                storage = self.tensors[tensor]["storage"]
                if storage is not None and storage not in known:
                    found.append((index, op["name"], storage))
            for tensor in self.tensors_in(op["outputs"]):
                known.add(self.tensors[tensor]["storage"])
        return found
