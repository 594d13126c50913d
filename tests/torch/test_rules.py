"""Slots by rule (crucible_torch.accelerate.rules): the numbers of recorded steps, computed for calls that were not
observed, bit for bit, for every class of torch.optim in every form under every schedule; and the calls in which rules
must say that they do not know."""

import itertools
import json
import math
import random
import struct
import unittest
import warnings

from in_process import CRUCIBLE, InProcessTest, crucible, torch

from crucible_torch.accelerate import expressions
from crucible_torch.accelerate.rules import NoRule, Rules, Snapshot, baked, find
from observed_loops import (FORMS, SCHEDULES, Lion, Named, Own, Patient, Policy, advance, form_of, parameters,
                            random_optimizer, step)

warnings.filterwarnings("ignore", module="torch.optim.*")
LR = "optimizer[0].param_groups[0]['lr']"


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


class Recorded(InProcessTest):
    """Of a recording by the recorder: three iterations show the rules, which then give the numbers of the others."""

    WARM, SHOWN, ITERATIONS = 8, 3, 12

    def loop(self, name, form, schedule, before):
        """Trains; `before(call, optimizer)` is called before each call."""
        torch.manual_seed(0)
        layers = [torch.nn.Linear(4, 3, bias=name != "Muon" and i == 0) for i in (0, 1)]
        layers[1] = torch.nn.Linear(3, 4, bias=False)
        if name == "Muon":
            layers[0] = torch.nn.Linear(4, 3, bias=False)
        options = {} if name == "Muon" else form_of(form)
        optimizer = getattr(torch.optim, name)(
            [{"params": layers[0].parameters()}, {"params": layers[1].parameters(), "lr": 0.003}], lr=0.01, **options)
        plan = SCHEDULES[schedule](optimizer)
        for call in range(self.WARM + self.ITERATIONS + 1):
            before(call, optimizer)
            optimizer.zero_grad()
            layers[1](torch.tanh(layers[0](torch.randn(5, 4)))).square().mean().backward()
            optimizer.step()
            advance(plan, call)
            crucible.step()

    def slots(self, name, form, schedule):
        snapshots = []
        with self.block(iterations=self.ITERATIONS, warmup=self.WARM, end_of_iteration="step"):
            self.loop(name, form, schedule, lambda _, optimizer: snapshots.append(Snapshot.take([optimizer], {})))
        done = self.run_command([CRUCIBLE, "graph", self.output, "--stage", "lowered", "--format", "json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        program = json.loads(done.stdout)
        self.assertEqual(program["iterations"], self.ITERATIONS)
        slots = [(slot["name"], slot["is_integer"], slot["values"]) for slot in program["slots"]]
        return slots, snapshots[self.WARM:self.WARM + self.ITERATIONS]

    def shown(self, slots):
        """Those that differ in the first iterations, as a recording of these alone would have them."""
        return [(name, whole, values[:self.SHOWN]) for name, whole, values in slots
                if len({struct.pack("<d", value) for value in values[:self.SHOWN]}) > 1]

    def check(self, name, form, schedule):
        slots, snapshots = self.slots(name, form, schedule)
        rules = find(self.shown(slots), snapshots[:self.SHOWN])
        answered = []

        def before(call, optimizer):
            at = call - self.WARM
            if not self.SHOWN <= at < self.ITERATIONS:
                return
            last, now = snapshots[self.SHOWN - 1].numbers, Snapshot.take([optimizer], {}).numbers
            self.assertEqual(now, snapshots[at].numbers, "the loop is the same one")
            values = rules.values([optimizer], {})
            self.assertEqual(values is None, rules.why_not([optimizer], {}) is not None)
            if values is None or any(now[path] != last[path] for path in rules.baked([optimizer])):
                return
            answered.append(at)
            values = iter(values)
            for slot, _, recorded in slots:
                differs = len({struct.pack("<d", value) for value in recorded[:self.SHOWN]}) > 1
                given = next(values) if differs else recorded[0]
                self.assertEqual(struct.pack("<d", given), struct.pack("<d", recorded[at]), (slot, rules.in_words()))

        self.loop(name, form, schedule, before)
        return rules, len(answered)

    def test_every_class_form_and_schedule(self):
        schedules = itertools.cycle(sorted(SCHEDULES))
        for name, forms in FORMS.items():
            for form in forms:
                for schedule in ("ExponentialLR", *itertools.islice(schedules, 3)):
                    with self.subTest(name=name, form=form, schedule=schedule):
                        rules, answered = self.check(name, form, schedule)
                        self.assertEqual(rules.guessed, [])
                        if schedule in ("ExponentialLR", "none", "CosineAnnealingLR", "OneCycleLR"):
                            self.assertEqual(answered, self.ITERATIONS - self.SHOWN, rules.in_words())

    def test_words(self):
        slots, snapshots = self.slots("AdamW", "foreach", "none")
        rules = find(slots, snapshots)
        line = "optimizer[0].param_groups[{}]"
        self.assertEqual([words.partition(" = ")[2] for words in rules.in_words()], [
            f"(1 - beta2 ** step) ** 0.5 of {line.format(0)}", f"-(lr / (1 - beta1 ** step)) of {line.format(0)}",
            f"-(lr / (1 - beta1 ** step)) of {line.format(1)}"])
        self.assertRegex(rules.in_words()[0], r'^slot "aten::_foreach_div_.scalars at .*test_rules.py:\d+" = ')
        self.assertNotIn(LR, rules.sources, "a rate that was the same is in constants, too")
        self.assertIn(LR, rules.baked([torch.optim.AdamW(parameters(seeded()))]))

    def test_adafactor_reads_tensors(self):
        slots, snapshots = self.slots("Adafactor", "single", "none")
        with self.assertRaises(NoRule) as raised:
            find(slots, snapshots)
        self.assertIn("torch.optim.Adafactor reads the norms of parameters and updates, by .item()",
                      str(raised.exception))
        self.assertIn("alpha", raised.exception.name)
        self.assertEqual(len(raised.exception.values), self.ITERATIONS)

    def test_numbers_of_low_precision_are_rounded(self):
        """bfloat16: the lowering rounds what is handed over (slots "rounded of ...")."""
        torch.manual_seed(0)
        weight, snapshots = torch.nn.Parameter(torch.randn(4, 4, dtype=torch.bfloat16)), []
        optimizer = torch.optim.SGD([weight], lr=0.01, foreach=False)
        plan = SCHEDULES["ExponentialLR"](optimizer)
        with self.block(iterations=6, warmup=1, end_of_iteration="step"):
            for call in range(8):
                snapshots.append(Snapshot.take([optimizer], {}))
                optimizer.zero_grad()
                (weight @ weight).square().mean().backward()
                optimizer.step()
                advance(plan, call)
                crucible.step()
        done = self.run_command([CRUCIBLE, "graph", self.output, "--stage", "lowered", "--format", "json"])
        slots = [(slot["name"], slot["is_integer"], slot["values"]) for slot in json.loads(done.stdout)["slots"]]
        self.assertTrue(any(name.startswith("rounded of (") for name, _, _ in slots), slots)
        rules = find(slots, snapshots[1:7])
        self.assertIn("bf16(", " ".join(rules.in_words()))


class EveryClass(unittest.TestCase):
    """What optimizers hand to ops, caught on the way there."""

    def test_random_loops(self):
        """500 optimizers of hyperparameters, groups and types by chance: never a wrong number or another op."""
        answered = observed = 0
        for seed in range(500):
            draw, generator = random.Random(seed), seeded(seed)
            optimizer, words = random_optimizer(draw, generator)
            schedule = draw.choice(sorted(SCHEDULES))
            with self.subTest(seed=seed, optimizer=words, schedule=schedule):
                plan = SCHEDULES[schedule](optimizer)
                for _ in range(draw.choice([1, 1, 2, 20])):
                    step(optimizer, generator)
                policy = Policy([optimizer])
                for call in range(16):
                    policy.call(lambda: step(optimizer, generator))
                    advance(plan, call)
                self.assertEqual(policy.wrong, [])
                answered, observed = answered + policy.answered, observed + policy.observed
        self.assertGreater(answered, 3 * observed, "most calls are answered")

    def test_several_optimizers_and_steps_in_a_call(self):
        for seed in range(60):
            draw, generator = random.Random(1000 + seed), seeded(seed)
            made = [random_optimizer(draw, generator) for _ in range(draw.randint(2, 3))]
            steps = [draw.randint(1, 3) if "NAdam" not in words and "ASGD" not in words else 1 for _, words in made]
            with self.subTest(seed=seed, optimizers=[words for _, words in made], steps=steps):
                optimizers = [optimizer for optimizer, _ in made]
                plans = [SCHEDULES[draw.choice(["none", "ExponentialLR"])](optimizer) for optimizer in optimizers]

                def run():
                    for optimizer, count in zip(optimizers, steps):
                        for _ in range(count):
                            step(optimizer, generator)

                run()
                policy = Policy(optimizers)
                for call in range(10):
                    policy.call(run)
                    for plan in plans:
                        advance(plan, call)
                self.assertEqual(policy.wrong, [])
                self.assertGreaterEqual(policy.answered, 2)


    def test_accumulation_clipping_and_scaling(self):
        """Their numbers stay in tensors."""
        for form in FORMS["AdamW"]:
            with self.subTest(form=form):
                generator = seeded()
                weight = parameters(generator)[0]
                optimizer = torch.optim.AdamW([weight], lr=0.01, **form_of(form))
                plan, scaler = SCHEDULES["OneCycleLR"](optimizer), torch.amp.GradScaler("cpu")

                def run():
                    optimizer.zero_grad()
                    for _ in range(2):
                        scaler.scale((torch.randn(5, 3, generator=generator) @ weight).square().mean() / 2).backward()
                    scaler.unscale_(optimizer)
                    torch.nn.utils.clip_grad_norm_([weight], 1.0)
                    scaler.step(optimizer)
                    scaler.update()

                run()
                policy = Policy([optimizer])
                for _ in range(10):
                    policy.call(run)
                    plan.step()
                self.assertEqual((policy.wrong, policy.answered), ([], 7))


class Changes(unittest.TestCase):
    """Calls that are not like the observed ones."""

    def start(self, optimizer, calls=3, change=lambda call: None):
        self.generator = seeded()
        step(optimizer, self.generator)
        policy = Policy([optimizer])
        for call in range(calls):
            self.go(policy, optimizer)
            change(call)
        self.assertIsNotNone(policy.rules)
        return policy

    def go(self, policy, optimizer, count=1):
        for _ in range(count):
            policy.call(lambda: step(optimizer, self.generator))
        self.assertEqual(policy.wrong, [])

    def adam(self, name="Adam", **options):
        some = parameters(seeded(), count=3)
        return getattr(torch.optim, name)([{"params": some[:2]}, {"params": some[2:]}], lr=0.01, **options)

    def test_groups_that_part(self):
        """Two groups had one rate while they were observed: one slot. Then they do not."""
        optimizer = self.adam(foreach=True)
        plan = SCHEDULES["ExponentialLR"](optimizer)
        policy = self.start(optimizer, change=lambda call: plan.step())
        self.assertEqual(len(policy.rules.in_words()), 2)
        self.assertIn(("aten::_foreach_addcdiv_.scalars", [
            f"-(lr / (1 - beta1 ** step)) of optimizer[0].param_groups[{g}]" for g in (0, 1)]), policy.rules.ambiguous)
        self.go(policy, optimizer)
        optimizer.param_groups[1]["lr"] = 0.5
        self.assertIsNone(policy.rules.values([optimizer], {}))
        self.assertIn(f"{LR} and optimizer[0].param_groups[1]['lr'] were equal", policy.rules.why_not([optimizer], {}))
        self.go(policy, optimizer, 6)
        self.assertEqual((policy.answered, policy.observed), (6, 4))
        self.assertEqual(len(policy.rules.in_words()), 3, "one for each group now")

    def test_zeros_of_another_sign_or_type_are_other_numbers(self):
        optimizer = torch.optim.SGD(parameters(seeded()), lr=0.1, foreach=False)
        policy = self.start(optimizer, change=lambda call: optimizer.param_groups[0].update(lr=0.1 + call))
        for zero in (0.0, 0, -0.0):
            optimizer.param_groups[0]["lr"] = zero
            value, = policy.rules.values([optimizer], {})
            self.assertEqual(struct.pack("<d", value), struct.pack("<d", float(-zero)), zero)
        self.go(policy, optimizer)

    def test_groups_that_part_by_the_sign_of_zero(self):
        some = parameters(seeded(), count=2)
        optimizer = torch.optim.SGD([{"params": [parameter]} for parameter in some], lr=0.1, foreach=False)
        policy = self.start(optimizer, change=lambda call: [g.update(lr=0.1 + call) for g in optimizer.param_groups])
        for rates, same in (((0.0, 0.0), True), ((0.0, -0.0), False), ((0, 0.0), False), ((0.5, 0.5), True)):
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate
            self.assertEqual(policy.rules.valid([optimizer], {}), same, rates)

    def test_a_constant_that_depends_on_a_rate_by_chance(self):
        """1 - lr * weight_decay rounds to 1 while a warmup begins."""
        optimizer = self.adam("AdamW", foreach=False, weight_decay=1e-4)

        def warm(call):
            for group in optimizer.param_groups:
                group["lr"] = 1e-14 * (call + 2)

        optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = 1e-14
        policy = self.start(optimizer, change=warm)
        self.assertIn(LR, policy.rules.sources)
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        self.assertIn("1 - lr * weight_decay of optimizer[0].param_groups[0] was 1.0 in all observed calls",
                      policy.rules.why_not([optimizer], {}))
        self.go(policy, optimizer, 4)
        self.assertEqual((policy.answered, policy.observed), (3, 4))

    def test_rectification_begins(self):
        """RAdam: other ops where they are single, constants that begin to move where they are foreach."""
        for form, again in (("single", 3), ("foreach", 1)):
            with self.subTest(form=form):
                optimizer = torch.optim.RAdam(parameters(seeded()), **form_of(form))
                policy = self.start(optimizer, 4)  # step 1 was before; 2 to 4 showed; 5 is by rule
                self.assertEqual((policy.answered, policy.observed), (1, 3))
                self.assertIn("rho > 5.0 of optimizer[0].param_groups[0] was False in the observed calls",
                              policy.rules.why_not([optimizer], {}))
                self.go(policy, optimizer, 12)
                self.assertEqual((policy.answered, policy.observed), (1 + 12 - again, 3 + again))

    def test_averaging_begins(self):
        optimizer = torch.optim.ASGD(parameters(seeded()), t0=7, foreach=False)
        policy = self.start(optimizer, 14)
        self.assertGreater(policy.answered, 3)

    def test_a_number_that_becomes_zero(self):
        for key in ("momentum", "weight_decay"):
            with self.subTest(key=key):
                optimizer = torch.optim.SGD(parameters(seeded()), lr=0.1, momentum=0.9, weight_decay=0.1)
                group = optimizer.param_groups[0]
                policy = self.start(optimizer, change=lambda call: group.update({key: 0.5 / (call + 1)}))
                self.go(policy, optimizer)
                optimizer.param_groups[0][key] = 0.0
                self.assertIn(f"{key} != 0 of optimizer[0].param_groups[0] was True",
                              policy.rules.why_not([optimizer], {}))
                self.go(policy, optimizer, 4)

    def test_lerp_has_two_sides(self):
        """1 - beta1 goes past 0.5: the program computes on one side of it."""
        optimizer = torch.optim.Adam(parameters(seeded()), betas=(0.9, 0.999), foreach=False)
        group = optimizer.param_groups[0]
        policy = self.start(optimizer, change=lambda call: group.update(betas=(0.9 - 0.1 * call, 0.999)))
        group["betas"] = (0.55, 0.999)
        self.go(policy, optimizer)
        self.assertEqual(policy.answered, 1)
        optimizer.param_groups[0]["betas"] = (0.45, 0.999)
        self.assertIn("was on the other side of 0.5", policy.rules.why_not([optimizer], {}))
        optimizer.param_groups[0]["betas"] = (0.5, 0.999)
        self.assertIsNone(policy.rules.values([optimizer], {}))

    def test_counts_that_part(self):
        """Something trains some of the parameters alone, by another variant."""
        optimizer = self.adam(foreach=True)
        policy = self.start(optimizer)
        self.go(policy, optimizer, 2)
        state = optimizer.state[optimizer.param_groups[0]["params"][1]]
        state["step"] += 1
        policy.rules.recheck()
        self.assertIsNone(policy.rules.values([optimizer], {}))
        self.assertIn("optimizer[0].step[0]: its parameters had one value", policy.rules.why_not([optimizer], {}))
        self.go(policy, optimizer, 6)
        self.assertEqual(policy.observed, 3 + 1)
        self.assertTrue(any(path.startswith("optimizer[0].state[0][1]['step']") for path in policy.rules.sources),
                        policy.rules.sources)

    def test_a_count_that_jumps_is_compared_again(self):
        optimizer = torch.optim.Adam(parameters(seeded(), count=2))
        policy = self.start(optimizer)
        self.go(policy, optimizer)
        for parameter, jump in zip(optimizer.param_groups[0]["params"], (10, 11)):
            optimizer.state[parameter]["step"] += jump
        self.assertIsNone(policy.rules.values([optimizer], {}), "no recheck() was needed")
        optimizer.state[optimizer.param_groups[0]["params"][0]]["step"] += 1
        self.go(policy, optimizer)
        self.assertEqual(policy.answered, 2, "equal again, and right")

    def test_a_counter_of_32_bits_ends(self):
        optimizer = torch.optim.Adam(parameters(seeded()))
        policy = self.start(optimizer)
        for parameter in optimizer.param_groups[0]["params"]:
            optimizer.state[parameter]["step"].fill_(1 << 24)
        self.assertIn("does not rise any more", policy.rules.why_not([optimizer], {}))

    def test_what_is_not_there_any_more(self):
        for change in (lambda o: o.param_groups[0].pop("lr"), lambda o: o.param_groups[0].update(lr=torch.tensor(0.1)),
                       lambda o: o.param_groups[0].update(lr=True), lambda o: o.state.clear(),
                       lambda o: o.param_groups[0].update(lr="0.1"), lambda o: o.param_groups[0].update(betas=(0.9,)),
                       lambda o: o.param_groups[0]["params"].clear(),
                       lambda o: o.state[o.param_groups[0]["params"][0]].update(step=torch.ones(2))):
            optimizer = torch.optim.Adam(parameters(seeded()))
            policy = self.start(optimizer)
            change(optimizer)
            self.assertIsNone(policy.rules.values([optimizer], {}))
            self.assertFalse(policy.rules.valid([optimizer], {}))
            self.assertIn("not there any more, or no number", policy.rules.why_not([optimizer], {}))

    def test_a_rate_that_is_constant_is_guarded(self):
        optimizer = self.adam("AdamW", foreach=True)
        policy = self.start(optimizer)
        self.assertEqual(policy.rules.baked([optimizer]), baked([optimizer]))
        self.assertIn(LR, baked([optimizer]))
        optimizer.param_groups[0]["lr"] = 0.5
        self.go(policy, optimizer, 4)
        self.assertEqual((policy.answered, policy.observed), (3, 4))
        self.assertIn(LR, policy.rules.sources)

    def test_numbers_that_nothing_uses(self):
        optimizer = torch.optim.Rprop(parameters(seeded()))
        plan = SCHEDULES["ExponentialLR"](optimizer)
        policy = self.start(optimizer, 6, lambda call: plan.step())
        self.assertEqual((policy.rules.sources, policy.rules.idle), (frozenset(), {LR}))
        self.assertEqual(policy.answered, 3)

    def test_numbers_of_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy")
        optimizer = torch.optim.AdamW(parameters(seeded()), lr=numpy.float64(0.01), foreach=False)
        rate, group = numpy.float64(0.01), optimizer.param_groups[0]
        policy = self.start(optimizer, 6, lambda call: group.update(lr=rate * (call + 1)))
        self.assertEqual(policy.answered, 3)

    def test_a_rate_in_a_tensor_is_no_source(self):
        optimizer = torch.optim.AdamW(parameters(seeded()), lr=torch.tensor(0.01), foreach=False)
        step(optimizer, seeded())
        self.assertNotIn(LR, Snapshot.take([optimizer], {}).numbers)


class Guesses(unittest.TestCase):
    """Where no class's formula fits."""

    def test_optimizers_of_other_classes(self):
        for kind, count in ((Lion, 2), (Patient, 1), (Own, 1), (Named, 0)):
            with self.subTest(kind=kind):
                generator = seeded()
                optimizer = kind(parameters(generator), lr=0.01)
                plan = SCHEDULES["ExponentialLR"](optimizer)
                step(optimizer, generator)
                policy = Policy([optimizer])
                for call in range(8):
                    policy.call(lambda: step(optimizer, generator))
                    advance(plan, call)
                self.assertEqual((policy.wrong, policy.answered), ([], 5), policy.rules.in_words())
                self.assertEqual(len(policy.rules.guessed), count)
                self.assertEqual(sum(words.endswith("(guessed)") for words in policy.rules.in_words()), count)

    def test_an_optimizer_of_another_class_beside_one_of_torchs(self):
        """Both hand over the same numbers, from the same line: one slot. Then they part."""
        generator = seeded()
        optimizers = [kind(parameters(generator), lr=0.01, foreach=False) for kind in (torch.optim.SGD, Patient)]
        policy = Policy(optimizers)
        for call in range(10):
            for optimizer, rate in zip(optimizers, (0.1, 0.1 if call < 5 else 0.2)):
                optimizer.param_groups[0]["lr"] = rate / (call + 1)
            policy.call(lambda: [step(optimizer, generator) for optimizer in optimizers])
        self.assertEqual((policy.wrong, policy.answered, policy.observed), ([], 6, 4))

    def test_arguments(self):
        """Numbers that are handed over, as they are and in short expressions; truth values and texts are not."""
        weight = torch.ones(3)

        def run(a):
            weight.mul(a["scale"]).add(a["options"][0]["shift"]).div(1 - a["scale"]).mul(a["scale"] * a["options"][1])

        policy = Policy([])
        for call in range(8):
            a = {"scale": 0.1 + call / 7, "options": [{"shift": call * 3 + 2}, 0.3], "on": bool(call % 2), "name": "x"}
            policy.call(lambda: run(a), a)
        self.assertEqual((policy.wrong, policy.answered), ([], 5))
        self.assertEqual(policy.rules.sources, {"arguments['scale']", "arguments['options'][0]['shift']"})
        self.assertEqual(len(policy.rules.guessed), 4)
        a["options"][0]["shift"] = 0.5
        self.assertIn("is a whole number of 64 bits", policy.rules.why_not([], a))
        del a["scale"]
        self.assertIn("KeyError('scale')", policy.rules.why_not([], a))

    def test_a_real_number_that_becomes_whole(self):
        policy = Policy([])
        for call in range(4):
            policy.call(lambda: torch.ones(3, dtype=torch.int32).mul(call + 0.5), {"x": call + 0.5})
        self.assertEqual(policy.answered, 1)
        self.assertIn("was a real number", policy.rules.why_not([], {"x": 3}))

    def test_zero_has_a_sign(self):
        snapshots = [Snapshot.take([], {"x": x}) for x in (0.0, -1.5, -2.5)]
        self.assertEqual(find([("a", False, [-0.0, 1.5, 2.5])], snapshots).in_words(),
                         ['slot "a" = -arguments[\'x\'] (guessed)'])
        with self.assertRaises(NoRule):
            find([("a", False, [0.0, 1.5, 2.5])], snapshots)

    def test_two_numbers_that_were_equal(self):
        policy, given = Policy([]), [(1.5, 1.5), (2.5, 2.5), (4.5, 4.5), (6.5, 6.5), (7.5, 1.0)]
        for x, y in given:
            policy.call(lambda: torch.ones(3).mul(y), {"x": x, "y": y})
        self.assertEqual((policy.wrong, policy.answered, policy.observed), ([], 1, 4))
        self.assertEqual(policy.rules.sources, {"arguments['y']"}, "then they can be told apart")

    def test_expressions_that_all_fit(self):
        """2 to 4 is i + 1 and more than that: what differs later is not answered."""
        snapshots = [Snapshot.take([], {"i": i, "j": 1, "k": i + 1}) for i in (1, 2, 3)]
        rules = find([("n", True, [2, 3, 4])], snapshots)
        self.assertEqual(rules.values([], {"i": 4, "j": 1, "k": 5}), [5])
        rules = find([("n", True, [2, 4, 6])], [Snapshot.take([], {"i": i, "j": 2}) for i in (1, 2, 3)])
        self.assertEqual(rules.ambiguous,
                         [("n", ["arguments['i'] * arguments['j']", "arguments['i'] + arguments['i']"])])
        self.assertIn('which both gave "n"', rules.why_not([], {"i": 4, "j": 3}))
        with self.assertRaisesRegex(NoRule, r"\d+ expressions gave them, .* more calls"):
            many = [{f"m{k}": i * 2 - k for k in range(1, 11)} | {f"k{k}": k for k in range(1, 11)} for i in (1, 2, 3)]
            find([("n", True, [2, 4, 6])], [Snapshot.take([], arguments) for arguments in many])

    def test_an_argument_in_place_of_what_the_optimizer_has(self):
        generator = seeded()
        optimizer = torch.optim.SGD(parameters(generator), lr=1.0, foreach=False)
        policy = Policy([optimizer])
        for call in range(3):
            optimizer.param_groups[0]["lr"] = 0.5 / (call + 1)
            policy.call(lambda: step(optimizer, generator), {"x": -0.5 / (call + 1)})
        self.assertIsNotNone(policy.rules.values([optimizer], {"x": -0.5 / 3}))
        self.assertIn("arguments['x']", policy.rules.why_not([optimizer], {"x": 2.0}))


class Refusals(unittest.TestCase):

    def refused(self, reason, *arguments, **options):
        with self.assertRaises(NoRule) as raised:
            find(*arguments, **options)
        self.assertRegex(str(raised.exception), reason)
        self.assertRegex(raised.exception.reason, reason.partition(": ")[2] or reason)
        return raised.exception

    def test_reasons(self):
        adam = torch.optim.Adam(parameters(seeded()))
        step(adam, seeded())
        taken = [Snapshot.take([adam], {})] * 3
        self.refused('slot "alpha" .1.0, 2.0, 4.0.: no formula of torch.optim.Adam and no short expression', [
            ("alpha", False, [1.0, 2.0, 4.0])], taken)
        self.refused(r"tensor's values .*\.item\(\).* has no rule", [("alpha", False, [1.0, 2.0, 4.0])], taken)
        self.refused("^slot .*, ...[)]: no short expression", [("a", False, [1.5, 2.0, 4.0, 5.0, 6.5])],
                     [Snapshot.take([], {})] * 5)
        self.refused("it is what a tensor's values gave Python", [("a", False, [1.5, 2.0, 4.0])], taken,
                     left=[[1.5], [3.0, 2.0], [4.0]])
        self.refused("it is minus what a tensor's values gave Python", [("a", False, [1.5, 2.0, 4.0])], taken,
                     left=[[-1.5], [3.0, -2.0], [-4.0]])
        self.refused("it has 2 numbers for 3 observed calls", [("a", False, [1.5, 2.0])], taken)
        self.refused("are not of the slot's type", [("a", True, [1, 2.5, 3])], taken)
        self.refused("are not of the slot's type", [("a", False, [1, (1 << 53) + 1, 3])], taken)

    def test_optimizers(self):
        some = parameters(seeded())
        for name, reason in (("SparseAdam", "sparse"), ("LBFGS", "closure")):
            snapshot = Snapshot.take([getattr(torch.optim, name)(some)], {})
            error = self.refused(reason, [], [snapshot] * 3)
            self.assertEqual((error.name, error.values), (f"torch.optim.{name}", []))
        optimizer = torch.optim.SGD(some, lr=0.1)
        before = Snapshot.take([optimizer], {})
        optimizer.add_param_group({"params": parameters(seeded())})
        error = self.refused("its groups of parameters changed", [], [before, Snapshot.take([optimizer], {})])
        self.assertEqual(error.name, "optimizer[0]")

    def test_a_value_that_left(self):
        """A rate of a loss, as plateaus by hand do it."""
        generator = seeded()
        weight, policy = torch.randn(4, generator=generator), Policy([])
        with self.assertRaisesRegex(NoRule, "what a tensor's values gave Python"):
            for _ in range(3):
                policy.call(lambda: torch.ones(3).mul(torch.randn(4, generator=generator).sum().item()))
        self.assertEqual(weight.shape, (4,))


class Parts(unittest.TestCase):

    def test_roundings_are_torchs(self):
        draw = random.Random(0)
        numbers = [draw.choice([-1, 1]) * 2.0**draw.uniform(-160, 130) for _ in range(3000)]
        numbers += [0.0, -0.0, math.inf, -math.inf, 65504.0, 65520.0, 1e-8, 3.3895314e38, 1 + 2**-8, 1 + 3 * 2**-8]
        for function, dtype in ((expressions.f32, torch.float32), (expressions.f16, torch.float16),
                                (expressions.bf16, torch.bfloat16)):
            for number in numbers:
                expected = torch.tensor(number, dtype=torch.float64).to(torch.float32).to(dtype).item()
                if dtype == torch.float16:
                    expected = torch.tensor(number, dtype=torch.float64).to(dtype).item()
                self.assertEqual(struct.pack("<d", function(number)), struct.pack("<d", expected), (dtype, number))
        self.assertTrue(math.isnan(expressions.bf16(math.nan)))

    def test_snapshot(self):
        groups = [{"params": parameters(seeded())}, {"params": parameters(seeded()), "lr": 1}]
        optimizer = torch.optim.AdamW(groups, lr=0.1)
        paths = Snapshot.take([optimizer], {"scale": 2, "on": True, "x": torch.ones(())}).numbers
        self.assertEqual((paths[LR], paths["optimizer[0].param_groups[1]['lr']"]), (0.1, 1))
        self.assertEqual(paths["optimizer[0].param_groups[0]['betas'][1]"], 0.999)
        self.assertEqual((paths["optimizer[0].step[0]"], paths["optimizer[0].step[1]"]), (1, 1), "absent: 0 before")
        self.assertEqual([path for path in paths if path.startswith("arguments")], ["arguments['scale']"])
        self.assertEqual(len(optimizer.state), 0, "nothing is made by looking")
        step(optimizer, seeded())
        self.assertEqual(Snapshot.take([optimizer], {}).numbers["optimizer[0].step[1]"], 2.0)
        optimizer.state[optimizer.param_groups[1]["params"][1]]["step"] += 5
        paths = Snapshot.take([optimizer], {}).numbers
        self.assertEqual((paths["optimizer[0].state[1][0]['step']"], paths["optimizer[0].state[1][1]['step']"]), (2, 7))
        self.assertNotIn("optimizer[0].step[1]", paths)
        self.assertEqual(len(optimizer.state), 4)

    def test_rules_of_nothing(self):
        rules = find([], [Snapshot.take([], {})])
        self.assertIsInstance(rules, Rules)
        self.assertEqual((rules.values([], {}), rules.in_words(), rules.sources), ([], [], frozenset()))


if __name__ == "__main__":
    unittest.main()
