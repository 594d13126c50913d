"""What of a function's bytecode lets a call be answered without its Python (crucible_torch/accelerate/bytecode.py):
small functions, each with the verdict that is expected of it (verdict_bodies.py)."""

import dis
import functools
import os
import random
import types
import unittest

import verdict_bodies as bodies  # first: it knows the build
from verdict_bodies import REFUSED, SET, Net, arguments, config, counting, flag_of, function_of, log, loud, model, net
from verdict_fine import COUNTED, FINE, STORED

import torch
from torch import nn

from crucible_torch.accelerate.bytecode import check, follow
from crucible_torch.accelerate.visible import look

os.environ["CRUCIBLE_ACCELERATE_RAISE"] = "1"  # what cannot be followed for a reason of ours fails here

try:
    import numpy
except ImportError:
    numpy = None


class Verdicts(unittest.TestCase):
    def test_what_is_fine(self):
        for name, body in FINE.items():
            with self.subTest(name):
                self.assertEqual([str(found) for found in check(function_of(body), *arguments())], [])

    def test_what_is_fine_changes_nothing_that_is_seen(self):
        """The other half of the verdict: when it runs, guards over what it can see stay silent."""
        for name, body in FINE.items():
            with self.subTest(name):
                function = function_of(body)
                for _ in range(2):
                    function(*arguments())
                guards = look(function, arguments=arguments()).guards()
                function(*arguments())
                self.assertIsNone(guards.check())

    def test_what_is_counted(self):
        for name, (body, path) in COUNTED.items():
            with self.subTest(name):
                refusals, reach = follow(function_of(body), arguments())
                self.assertEqual([str(found) for found in refusals], [])
                self.assertEqual([counter.path for counter in reach.counters.values()], [path])

    def test_what_is_stored(self):
        for name, (body, path, is_number) in STORED.items():
            with self.subTest(name):
                refusals, reach = follow(function_of(body), arguments())
                self.assertEqual([str(found) for found in refusals], [])
                self.assertEqual([(each.path, each.is_number) for each in reach.stored.values()], [(path, is_number)])
                self.assertFalse(reach.counters)

    def test_what_is_set(self):
        for name, (body, paths) in SET.items():
            with self.subTest(name):
                refusals, reach = follow(function_of(body), arguments())
                self.assertEqual([str(found) for found in refusals], [])
                self.assertEqual([put.path for put in reach.puts.values()], paths)

    def test_what_is_refused(self):
        for name, (body, says, kind) in REFUSED.items():
            with self.subTest(name):
                found = check(function_of(body), *arguments())
                self.assertTrue(found, "nothing was refused")
                matching = [refusal for refusal in found if says in refusal.what or says in str(refusal)]
                self.assertTrue(matching, [str(refusal) for refusal in found])
                self.assertIn(kind, {refusal.kind for refusal in matching or found})
                self.assertTrue(all(refusal.advice for refusal in found))

    def test_nothing_else_is_refused_where_a_value_leaves(self):
        for name, (body, _, kind) in REFUSED.items():
            if kind != "refused":
                with self.subTest(name):
                    self.assertEqual({refusal.kind for refusal in check(function_of(body), *arguments())}, {kind})

    @unittest.skipIf(numpy is None, "NumPy is not here")
    def test_numpy(self):
        bodies.numpy = numpy
        for body in ("return x * numpy.random.rand()", "return x * numpy.sqrt(n)"):
            self.assertIn("NumPy", str(check(function_of(body), *arguments())[0]))

    def test_place_is_file_and_line(self):
        def program(x):
            y = x + 1
            print(y)
            return y
        refusal, = check(program, torch.ones(2))
        self.assertEqual((refusal.file, refusal.line), (__file__, program.__code__.co_firstlineno + 2))
        self.assertIn("move the print behind the call", refusal.advice)

    def test_modules_methods_and_partials(self):
        x = torch.ones(4, 4)
        self.assertEqual(check(net, x), [])
        self.assertEqual(check(net.forward, x), [])
        self.assertEqual(check(functools.partial(net, mask=x), x), [])
        self.assertEqual(check(model, x), [])
        self.assertTrue(check(loud, x))
        self.assertEqual(check(counting, x), [])
        self.assertTrue(check(torch.no_grad()(loud.forward), x))
        self.assertEqual(check(torch.no_grad()(net.forward), x), [])
        self.assertTrue(check(print, x))
        self.assertTrue(check(log.append, x))

    def test_a_patched_forward_is_followed(self):
        patched = Net()
        patched.forward = lambda x: print(x)
        self.assertIn("print", check(patched, torch.ones(4, 4))[0].what)

    def test_hooks_are_followed(self):
        hooked = Net()
        hooked.layers[0].register_forward_hook(lambda module, inputs, output: log.append(output))
        self.assertIn("log", check(hooked, torch.ones(4, 4))[0].what)
        hooked = Net()
        hooked.layers[0].register_forward_hook(lambda module, inputs, output: output * 2)
        self.assertEqual(check(hooked, torch.ones(4, 4)), [])

    def test_wrapped_models(self):
        compiled = torch.compile(Net())
        self.assertIn("torch.compile", check(compiled, torch.ones(4, 4))[0].what)
        self.assertIn("ScriptModule", check(torch.jit.script(nn.Linear(4, 4)), torch.ones(4, 4))[0].what)
        self.assertIn("DataParallel", check(nn.DataParallel(nn.Linear(4, 4)), torch.ones(4, 4))[0].what)

    def test_a_container_that_grows_late_is_looked_at_again(self):
        def program(x):
            parts = [x]
            for _ in range(3):
                for part in parts:
                    if isinstance(part, list):
                        part.append(x)
                parts.append(log)
            return x
        self.assertTrue(any("log" in refusal.what for refusal in check(program, torch.ones(2))))

    def test_values_that_nest_without_end(self):
        def program(x):
            nested = [x]
            while x.shape[0] > flag_of(x):
                nested = zip(nested, [x])
            return nested
        self.assertIsInstance(check(program, torch.ones(2)), list)

        def harmful(x):
            nested = (log,)
            for _ in range(100):
                nested = (nested, x)
            nested[0].append(x)
        self.assertTrue(check(harmful, torch.ones(2)))

    def test_it_ends_where_much_is_refused_or_all_is_too_large(self):
        from crucible_torch.accelerate import bytecode
        many = "\n".join(f"print({at})" for at in range(200))
        self.assertEqual(len(check(function_of(many), *arguments())), bytecode.MOST_REFUSALS)
        before, bytecode.MOST_STEPS = bytecode.MOST_STEPS, 20
        try:
            found = check(bodies.model_step, *arguments()[:1])
        finally:
            bytecode.MOST_STEPS = before
        self.assertIn("too large to be followed", found[0].what)
        self.assertEqual(check(bodies.model_step, *arguments()[:1]), [])

    def test_names_that_are_read(self):
        def program(x):
            return x * config.width * getattr(config, "scale", 1)
        _, reach = follow(program, (torch.ones(2),))
        self.assertLessEqual({"width", "scale"}, reach.names)
        self.assertNotIn("verbose", reach.names)

    def test_any_bytes_of_instructions_end_in_a_verdict(self):
        """Functions with shuffled instructions are never run; following them ends and raises nothing."""
        os.environ.pop("CRUCIBLE_ACCELERATE_RAISE")
        generator = random.Random(5)
        texts = list(FINE.values()) + [body for body, _, _ in REFUSED.values() if not body.startswith("def_")]
        for _ in range(400):
            function = function_of(generator.choice(texts))
            whole = function.__code__.co_code
            starts = [item.offset for item in dis.get_instructions(function)] + [len(whole)]
            parts = [whole[start:end]
                     for start, end in zip(starts, starts[1:])]  # with their caches: Python itself relies on them
            for _ in range(generator.randint(1, 3)):
                at, other = generator.randrange(len(parts)), generator.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            changed = types.FunctionType(function.__code__.replace(co_code=b"".join(parts)), vars(bodies))
            self.assertIsInstance(check(changed, *arguments()), list)
        os.environ["CRUCIBLE_ACCELERATE_RAISE"] = "1"


if __name__ == "__main__":
    unittest.main()
