"""What observing and checking take beside eager: copies, gradients that are held, verdicts that are made for nothing."""

import dataclasses
import gc
import os
import unittest
import weakref

from accelerated import AccelerateTest, Twins, batch, crucible, torch

from crucible_torch.accelerate import bytecode, checking
from crucible_torch.accelerate.observed import GradPattern
from crucible_torch.accelerate.taken import OWN_FOLDERS, Taken


class Checks(AccelerateTest):
    def test_what_the_program_has_is_not_written(self):
        """The compiled call works on copies; while eager runs there is one of each state."""
        twins = Twins(self).settle()
        variant = twins.step._every_variant()[0]
        right, copied, seen = variant.run_beside, [], []
        copy_of = checking.copy_of

        def counted(tensor):
            copied.append(tensor)
            return copy_of(tensor)

        def run_beside(leaves, numbers, beside):
            before = [(tensor.clone(), tensor._version) for tensor in variant._written]
            answer = right(leaves, numbers, beside)
            for tensor, (value, version), (_, copy) in zip(variant._written, before, beside):
                seen.append(torch.equal(tensor, value) and tensor._version == version and
                            copy.data_ptr() != tensor.data_ptr())
            return answer

        called, while_eager = twins.step._called, []
        twins.step._called = lambda *args: (while_eager.append(len(copied)), called(*args))[1]
        checking.copy_of, variant.run_beside = counted, run_beside
        self.addCleanup(setattr, checking, "copy_of", copy_of)
        variant.next_check = variant.compiled_calls + 1
        twins.call(*batch())
        twins.step._called = called
        self.assertEqual(while_eager, [len(variant._written)])
        self.assertGreater(len(seen), 0)
        self.assertTrue(all(seen), "what eager has made was written")
        for _ in range(4):  # compiled calls are bound to the program's own again
            twins.call(*batch())
        self.assertEqual(twins.step.report().mismatches, [])

    def test_the_arena_may_go_between_two_calls(self):
        twins = Twins(self).settle()
        program = twins.step._every_variant()[0]._program
        for _ in range(3):
            program.give_back_arena()
            twins.call(*batch())
        self.assertEqual(twins.step.report().tier, "compiled")

    def test_why_a_run_would_be_left_to_eager(self):
        twins = Twins(self).settle()
        variant = twins.step._every_variant()[0]
        inputs = tuple(batch()[k] for k in variant._input_leaves)
        self.assertIsNone(variant._program.why_not(inputs))
        self.assertRegex(variant._program.why_not(tuple(each[:1] for each in inputs)), "another size")
        with self.assertRaises(TypeError):
            variant._program.why_not(())


class Gradients(unittest.TestCase):
    def test_they_are_told_apart_and_not_held(self):
        a, b, c, d, e = parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(5)]
        for parameter in (a, b, c, d):
            parameter.grad = torch.ones(2)
        first = weakref.ref(b.grad)
        pattern = GradPattern(parameters)
        b.grad = None
        gc.collect()
        self.assertIsNone(first(), "a gradient that the call lets go of is held")
        c.grad = None
        c.grad = torch.ones(2)
        d.grad.add_(1)
        self.assertEqual(pattern.after(), ["kept", "cleared", "new", "written", "kept"])
        e.grad = torch.ones(2)
        self.assertEqual(pattern.after()[4], "new")


class Verdicts(AccelerateTest):
    def test_what_the_recorder_asks_is_no_way(self):
        """Python's own functions, called by our code; called by the user's they are."""
        scope = {"dataclasses": dataclasses}
        text = "def ask(value):\n    return dataclasses.is_dataclass(value)\n"
        asked = dataclasses.is_dataclass.__code__
        for folder, is_noted in ((OWN_FOLDERS[1], False), ("/nowhere/", True)):
            exec(compile(text, os.path.join(folder, "asks.py"), "exec"), scope)
            with Taken() as taken:
                scope["ask"](1)
            self.assertEqual(asked in taken.offsets, is_noted, folder)

    def test_one_is_made_when_calls_go_no_new_ways(self):
        """The second call goes another way than the first one; a verdict on the first one's ways is of no use."""
        asked, follow = [], bytecode.follow

        def counted(*arguments):
            asked.append(1)
            return follow(*arguments)

        bytecode.follow = counted
        self.addCleanup(setattr, bytecode, "follow", follow)
        settings = {"name": "a"}

        def step(x):
            if len("%s" % settings) > 99:
                print("never")
            if "%s" % settings == "{'name': 'a'}":
                return x * 2
            return x * 3

        step = crucible.accelerate(step)
        with torch.no_grad():
            step(torch.ones(3))
            settings["name"] = "b"
            for _ in range(12):
                self.assertEqual(step(torch.ones(3)).tolist(), [3.0, 3.0, 3.0])
                step.wait(60)
        self.assertEqual(step.report().tier, "compiled", str(step.report()))
        self.assertEqual(len(asked), 2, "verdicts")


if __name__ == "__main__":
    unittest.main()
