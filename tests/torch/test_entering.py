"""Everything that enters a recording without an op, and every value that leaves it: what the file says of each."""

import os
import struct
import unittest

from snippets import SnippetTest
from support import BUILD, LOOP, RecorderTest, floats, real

LIBRARY = os.path.join(BUILD, "tests", "torch", "crucible_test_ops.so")


class Entering(SnippetTest):
    BEFORE = f"""
        import ctypes
        import numpy
        torch.ops.load_library({LIBRARY!r})
        outside = [torch.full((3,), float(i)) for i in range(20)]
        steady = torch.ones(3)
        written_by_numpy = torch.zeros(3)
        state_of_numpy = torch.zeros(3)
        array_of_state = state_of_numpy.numpy()
        growing = torch.zeros(2)
        saved = torch.get_rng_state()
        memory = (ctypes.c_float * 3)()
    """
    SNIPPETS = {
        "data_is_replaced": """
            with torch.no_grad():
                p = torch.nn.Parameter(torch.zeros(3))
                p.data = outside[step]
                p.tan()
        """,
        "gradient_is_set": """
            p = torch.nn.Parameter(torch.zeros(3))
            p.grad = outside[step + 1]
            p.grad.tan()
        """,
        "numpy_array": "torch.from_numpy(numpy.array([step, 1.5], dtype=numpy.float32)).tan()",
        "own_memory": """
            for i in range(3):
                memory[i] = step + i
            torch.frombuffer(memory, dtype=torch.float32).tan()
        """,
        "memory_from_an_operator": "torch.ops.crucible_test.from_memory(float(step)).tan()",
        "numpy_writes_an_input": """
            written_by_numpy.tan()
            written_by_numpy.numpy()[1] += 1
        """,
        "numpy_writes_a_state": """
            array_of_state[0] = 7 * step
            with torch.no_grad():
                state_of_numpy.add_(1)
        """,
        "storage_grows": """
            with torch.no_grad():
                t = torch.ones(2)
                t.untyped_storage().resize_(400)
                torch.empty(0).set_(t.untyped_storage(), 0, (50,), (1,)).zero_().tan()
        """,
        "storage_is_freed_and_filled": """
            with torch.no_grad():
                t = torch.ones(4)
                t.untyped_storage().resize_(0)
                t.untyped_storage().resize_(16)
                t.copy_(outside[3].new_ones(4)).tan()
        """,
        "set_to_another": """
            with torch.no_grad():
                torch.empty(0).set_(outside[5]).tan()
                torch.empty(7).resize_(2, 2).fill_(1).sin()
        """,
        "rng_state": """
            torch.set_rng_state(saved)
            print('drawn', torch.rand(2).tolist())
            torch.manual_seed(step)
            torch.rand(1)
        """,
    }

    def bytes_read_by(self, snippet, name="aten::tan", iteration=0):
        """The latest bytes that the storage of an op's argument entered with, up to that op."""
        op = self.one(snippet, name, iteration)
        index = self.shared.index_of(op)
        entered = [e for e in self.shared.externals_of(self.shared.storage(op["args"][0])) if e["op"] <= index]
        self.assertTrue(entered, f"{snippet}: nothing entered")
        return floats(entered[-1]["blob"])

    def test_data_is_replaced(self):
        for iteration in range(2):
            self.assertEqual(self.bytes_read_by("data_is_replaced", iteration=iteration), [2.0 + iteration] * 3)

    def test_gradient_is_set(self):
        for iteration in range(2):
            self.assertEqual(self.bytes_read_by("gradient_is_set", iteration=iteration), [3.0 + iteration] * 3)

    def test_foreign_memory(self):
        for iteration in range(2):
            self.assertEqual(self.bytes_read_by("numpy_array", iteration=iteration), [2.0 + iteration, 1.5])
            self.assertEqual(self.bytes_read_by("own_memory", iteration=iteration),
                             [2.0 + iteration, 3.0 + iteration, 4.0 + iteration])

    def test_memory_of_an_extension(self):
        # The operator has no kernel for a device: it is taken apart, and nothing in it made the memory.
        for iteration in range(2):
            self.assertEqual(self.bytes_read_by("memory_from_an_operator", iteration=iteration),
                             [2.0 + iteration, 3.0 + iteration, 4.0 + iteration])

    def test_numpy_writes_an_input(self):
        self.assertEqual(self.bytes_read_by("numpy_writes_an_input")[1], 2.0)
        self.assertEqual(self.bytes_read_by("numpy_writes_an_input", iteration=1)[1], 3.0)

    def test_numpy_writes_a_state(self):
        self.assertEqual(self.bytes_read_by("numpy_writes_a_state", "aten::add_.Tensor")[0], 14.0)
        self.assertEqual(self.bytes_read_by("numpy_writes_a_state", "aten::add_.Tensor", 1)[0], 21.0)

    def test_outside_changes_are_counted(self):
        self.assertTrue(
            any("something that is not an op" in item["what"] and item["count"] >= 2
                for item in self.shared.not_recorded), self.shared.not_recorded)

    def test_sizes_of_storages(self):
        grown = self.shared.storage(self.one("storage_grows", "aten::tan")["args"][0])
        self.assertEqual(self.shared.storages[grown]["size"], 400)
        self.assertEqual(self.shared.storage(self.one("storage_grows", "aten::ones")["outputs"][0]), grown)
        refilled = self.shared.storage(self.one("storage_is_freed_and_filled", "aten::tan")["args"][0])
        self.assertEqual(self.shared.storages[refilled]["size"], 16)

    def test_set_and_resize(self):
        self.assertEqual(self.bytes_read_by("set_to_another"), [5.0] * 3)
        shaped = self.one("set_to_another", "aten::resize_")
        self.assertEqual((shaped["args"][1], self.shared.tensor(shaped["outputs"][0])["sizes"]), ([2, 2], [2, 2]))

    def test_generator_state_is_set(self):
        first = [line.split(" ", 1)[1] for line in self.printed.splitlines() if line.startswith("drawn")]
        self.assertEqual(len(set(first)), 1, "the same state draws the same numbers")
        for iteration in range(2):
            draws = [floats(draw["blob"]) for draw in self.shared.draws
                     if self.shared.ops[draw["op"]] is self.ops("rng_state", iteration)[0]]
            self.assertEqual(str(draws[0]), str([struct.unpack("<f", struct.pack("<f", x))[0] for x in eval(first[0])]))
        states = [state["blob"]["hash"] for state in self.shared.generators]
        self.assertEqual(len(states), 2, "one at the start of each iteration")
        self.assertNotEqual(states[0], states[1], "manual_seed(step) left another state behind")

    def test_all_reads_are_explained(self):
        self.assertEqual(self.shared.unexplained_reads(), [])


class Leaving(SnippetTest):
    BEFORE = "steady = torch.full((2,), 4.0)"
    SNIPPETS = {
        "item": "value = torch.full((), 2.5).item()",
        "number": "int(torch.full((), 3))",
        "condition": """
            if steady.sum() > 7:
                steady.tan()
        """,
        "as_list": "steady.mul(2).tolist()",
        "equal": "torch.equal(steady, steady.clone())",
        "shape_from_values": "torch.nonzero(steady)",
        "formatted": "str(steady)",
        "as_numpy": "(steady * 3).numpy().sum()",
    }

    def leaving(self, snippet):
        return [
            op for op in self.ops(snippet)
            if any(not isinstance(o, dict) or "tensor" not in o for o in op["outputs"]) and op["outputs"]
        ]

    def test_numbers(self):
        self.assertEqual(real(self.one("item", "aten::_local_scalar_dense")["outputs"][0]), 2.5)
        self.assertEqual(self.one("number", "aten::_local_scalar_dense")["outputs"][0], 3)
        self.assertEqual(self.leaving("equal")[0]["outputs"][0], True)

    def test_conditions(self):
        condition = self.leaving("condition")
        self.assertEqual([op["name"] for op in condition], ["aten::_local_scalar_dense"])
        self.assertEqual(condition[0]["outputs"][0], True)

    def test_every_one_has_its_line(self):
        for snippet in ("item", "number", "condition", "equal", "formatted"):
            left = self.leaving(snippet)
            self.assertTrue(left, snippet)
            for op in left:
                self.assertIn("program.py:", op["site"], snippet)
                self.assertEqual(op["function"], snippet)

    def test_sizes_that_depend_on_values(self):
        self.assertEqual(
            self.shared.tensor(self.one("shape_from_values", "aten::nonzero")["outputs"][0])["sizes"], [2, 1])

    def test_the_op_sequence_did_not_depend_on_them(self):
        first, second = ([op["name"] for op in self.shared.iteration_ops(i)] for i in range(2))
        self.assertEqual(first, second)


class Depending(RecorderTest):
    def test_a_sequence_that_depends_on_a_value_shows_in_the_second_iteration(self):
        trace = self.recorded(
            LOOP.replace(
                "    loss.backward()\n",
                "    loss.backward()\n    if torch.full((), float(step % 2)).item() > 0.5:\n        torch.ones(2).tan()\n"
            ))
        self.assertEqual([len(trace.ops_named("aten::tan", iteration)) for iteration in range(2)], [0, 1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
