"""Random numbers of our own (docs/numerics.md): that they are Philox's, where each comes from, how they are distributed,
that they are the same bits wherever they are drawn, and that a program draws them by itself."""

import json
import math
import os
import subprocess
import sys
import threading
import unittest
from unittest import mock

from support import BUILD, CRUCIBLE, RecorderTest

sys.path.insert(0, os.path.join(BUILD, "python"))
import torch  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import crucible  # noqa: E402
from crucible_torch.accelerate import distributions, philox  # noqa: E402
from crucible_torch.accelerate.philox import Drawing, Philox, Source, rounds  # noqa: E402

CPU = torch.device("cpu")
# Counter, key and words. The first three are those of Random123's kat_vectors (philox4x32 10), the others of its
# philox.h 1.14.0.
KNOWN = """
00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8
ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd
243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1
e099ec6d 85e7bb0e 491718de cb435c8f 6775dc77 9afcd44c 0d8cd0d9 8baafe2b cbb9bc6e 3ea6f1f1
51adca83 6cc857df f77e0dcc e77e5d53 60ede0f3 7706e091 7f313293 0a0baee6 5bb24378 e15f20f5
9fcbba09 00e31ca6 f7059b95 c7f01a7f dfeb9461 de8a19ec 427529a3 16a02183 093b64e2 24f46aa0
5c58cb41 74512754 1cb38f02 a3c44430 994ec3ad c9151bef 0fb90267 8f2e800d 0fc98c24 c82d1363
"""


def known():
    for line in KNOWN.split("\n"):
        if line:
            numbers = [int(word, 16) for word in line.split()]
            yield numbers[:4], numbers[4] | numbers[5] << 32, numbers[6:]


def by_ops():
    """As while something is recorded: words come from ops."""
    return mock.patch.object(philox, "native", None)


def words(source, count, op=0, wanted=4):
    return [word.tolist() for word in source.words(count, op, CPU, wanted)]


def drawn(draw, seed=5, stream=0, call=0):
    """What draw() gives inside of a block."""
    source = Source(seed, stream)
    source.begin(call)
    with Philox(source):
        return draw()


class Words(unittest.TestCase):

    def test_known_answers(self):
        for counter, key, expected in known():
            table = Source(key).table
            for wanted in (1, 2, 3, 4):
                found = rounds(tuple(torch.tensor([word]) for word in counter), table, wanted)
                self.assertEqual([int(word) for word in found], expected[:wanted])

    def test_the_counter_is_element_stream_call_and_op(self):
        source = Source(0x0123456789ABCDEF, stream=513)
        source.begin(0xFEDCBA98)
        found = words(source, 40, op=0x89ABCDEF)
        for i in (0, 1, 39):
            counter = (i, 513 << 16, 0xFEDCBA98, 0x89ABCDEF)
            expected = rounds(tuple(torch.tensor([word]) for word in counter), source.table)
            self.assertEqual([word[i] for word in found], [int(word) for word in expected])

    def test_an_element_depends_on_nothing_else(self):
        source = Source(3)
        self.assertEqual(words(source, 7), [word[:7] for word in words(source, 100_003)])
        first = words(source, 50, wanted=1)
        for other, op in ((Source(4), 0), (Source(3 | 1 << 32), 0), (Source(3, stream=1), 0), (source, 1)):
            self.assertFalse(set(words(other, 50, op, 1)[0]) & set(first[0]))
        source.begin(1)
        self.assertFalse(set(words(source, 50, wanted=1)[0]) & set(first[0]))

    def test_the_loop_and_the_ops_give_the_same_words(self):
        generator = torch.Generator().manual_seed(1)
        for count in (0, 1, 15, 16, 17, 70_001):
            seed, stream, call, op = torch.randint(0, 1 << 16, (4, ), generator=generator).tolist()
            source = Source(seed << 40 | seed, stream)
            source.begin(call << 16 | call)
            for wanted in (1, 2, 4):
                loop = words(source, count, op << 15, wanted)
                with by_ops():
                    self.assertEqual(words(source, count, op << 15, wanted), loop)

    def test_what_the_loop_refuses(self):
        table = Source(1).table
        for arguments in ((table[:5], 0, torch.empty(1, 3, dtype=torch.int64)), (table, 0, torch.empty(1, 3)),
                          (table, 0, torch.empty(5, 3, dtype=torch.int64)), (table, 0, None),
                          (table, 0, torch.empty(3, 2, dtype=torch.int64).t())):
            with self.assertRaisesRegex(ValueError, "two tensors of i64"):
                philox.native.philox_words(*arguments)

    def test_streams_are_numbers_below_2_16(self):
        for stream in (-1, 1 << 16):
            with self.assertRaisesRegex(ValueError, "a number below 65536"):
                Source(1, stream)


# Every op that has an answer, by a call of it.
CALLS = {
    "uniform_": lambda: torch.empty(30).uniform_(-1, 3),
    "uniform_ f64": lambda: torch.empty(30, dtype=torch.float64).uniform_(),
    "uniform_ f16": lambda: torch.empty(30, dtype=torch.float16).uniform_(),
    "uniform_ bf16": lambda: torch.empty(30, dtype=torch.bfloat16).uniform_(),
    "uniform_ transposed": lambda: torch.empty(5, 6).t().uniform_(),
    "rand": lambda: torch.rand(3, 10),
    "rand_like": lambda: torch.rand_like(torch.empty(3, 10), dtype=torch.float64),
    "normal_": lambda: torch.empty(30).normal_(2, 3),
    "normal_ f64": lambda: torch.empty(30, dtype=torch.float64).normal_(),
    "randn": lambda: torch.randn(30),
    "randn_like": lambda: torch.randn_like(torch.empty(30, dtype=torch.bfloat16)),
    "normal": lambda: torch.normal(1.0, 2.0, (30, )),
    "normal of tensors": lambda: torch.normal(torch.arange(30.0), torch.full((1, ), 0.5)),
    "normal of a tensor and a number": lambda: torch.normal(torch.arange(30.0), 2.0),
    "normal of a number and a tensor": lambda: torch.normal(1.0, torch.arange(30.0)),
    "exponential_": lambda: torch.empty(30).exponential_(3.0),
    "exponential_ f64": lambda: torch.empty(30, dtype=torch.float64).exponential_(),
    "cauchy_": lambda: torch.empty(30).cauchy_(1, 2),
    "log_normal_": lambda: torch.empty(30).log_normal_(0, 0.5),
    "geometric_": lambda: torch.empty(30).geometric_(0.2),
    "geometric_ of i64": lambda: torch.empty(30, dtype=torch.int64).geometric_(0.2),
    "bernoulli_": lambda: torch.empty(30).bernoulli_(0.3),
    "bernoulli_ of tensor": lambda: torch.empty(30).bernoulli_(torch.full((30, ), 0.4)),
    "bernoulli": lambda: torch.bernoulli(torch.full((30, ), 0.4)),
    "bernoulli p": lambda: torch.bernoulli(torch.empty(30), 0.6),
    "dropout": lambda: torch.nn.functional.dropout(torch.ones(30), 0.5),
    "native_dropout": lambda: torch.native_dropout(torch.ones(30), 0.5, True)[0],
    "randint": lambda: torch.randint(10, (30, )),
    "randint low": lambda: torch.randint(-5, 1 << 40, (30, )),
    "randint_like": lambda: torch.randint_like(torch.empty(30), 100),
    "randint_like low": lambda: torch.randint_like(torch.empty(30), 50, 100),
    "random_": lambda: torch.empty(30, dtype=torch.int64).random_(),
    "random_ f32": lambda: torch.empty(30).random_(),
    "random_ u8": lambda: torch.empty(30, dtype=torch.uint8).random_(),
    "random_ to": lambda: torch.empty(30, dtype=torch.int64).random_(1 << 63 - 1),
    "random_ from": lambda: torch.empty(30, dtype=torch.int32).random_(-8, 8),
    "random_ all": lambda: torch.empty(30, dtype=torch.int64).random_(-(1 << 63), None),
    "randperm": lambda: torch.randperm(30),
    "multinomial": lambda: torch.multinomial(torch.arange(200.0), 30),
    "multinomial of 1": lambda: torch.multinomial(torch.ones(30, 9), 1),
    "multinomial again": lambda: torch.multinomial(torch.arange(9.0), 30, replacement=True),
}


class Ops(unittest.TestCase):

    def test_the_same_numbers_each_time_and_by_ops(self):
        for name, call in CALLS.items():
            with self.subTest(name):
                torch.manual_seed(1)
                first = drawn(call)
                torch.manual_seed(2)
                self.assertTrue(torch.equal(drawn(call), first))
                with by_ops():
                    self.assertTrue(torch.equal(drawn(call), first))

    def test_other_numbers_in_each_call_and_op(self):
        for name, call in CALLS.items():
            with self.subTest(name):
                first, second = drawn(lambda: (call(), call()))
                self.assertFalse(torch.equal(first, second))
                self.assertFalse(torch.equal(drawn(call, call=1), first))

    def test_what_they_look_like(self):
        for name, call in CALLS.items():
            with self.subTest(name):
                ours, torchs = drawn(call), call()
                self.assertEqual((ours.shape, ours.stride(), ours.dtype), (torchs.shape, torchs.stride(), torchs.dtype))

    def test_all_answers_are_called(self):
        called = set()
        with mock.patch.object(philox, "ANSWERS", {
                op: (lambda *rest, op=op, answer=answer, **options: called.add(op) or answer(*rest, **options))
                for op, answer in distributions.ANSWERS.items()
        }):
            for call in CALLS.values():
                drawn(call)
        self.assertEqual({str(op) for op in distributions.ANSWERS} - {str(op) for op in called}, set())

    def test_probabilities_of_0_and_1(self):
        self.assertTrue(drawn(lambda: torch.empty(1000).bernoulli_(1.0)).all())
        self.assertFalse(drawn(lambda: torch.empty(1000).bernoulli_(0.0)).any())
        self.assertTrue(drawn(lambda: torch.bernoulli(torch.ones(1000))).all())
        self.assertFalse(drawn(lambda: torch.bernoulli(torch.zeros(1000))).any())

    def test_bounds(self):
        """Of the lowest and the highest words."""
        for word, low in ((0, True), (philox.WORD, False)):
            with mock.patch.object(Source, "words", lambda self, count, op, device, wanted: [torch.full((count, ), word)
                                                                                           ] * wanted):
                for p in (0.0, 1.0):
                    self.assertEqual(drawn(lambda: torch.empty(3).bernoulli_(p)).tolist(), [p] * 3)
                    self.assertEqual(drawn(lambda: torch.bernoulli(torch.full((3, ), p))).tolist(), [p] * 3)
                for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
                    value = drawn(lambda: torch.rand(3, dtype=dtype))[0].item()
                    self.assertTrue(value == 0 if low else 0.99 < value < 1, (dtype, value))
                    if dtype in (torch.float64, torch.float32):
                        value = drawn(lambda: torch.empty(3, dtype=dtype).exponential_())[0].item()
                        self.assertTrue(22 < value < 40 if low else 0 < value < 1e-7, (dtype, value))
                        value = drawn(lambda: torch.randn(3, dtype=dtype))[0].item()
                        self.assertTrue(math.isfinite(value) and abs(value) < 9, (dtype, value))
                for count in (1, 3, 1 << 31, (1 << 31) + 1, (1 << 63) - 1):
                    value = drawn(lambda: torch.randint(-3, count - 3, (3, )))[0].item()
                    self.assertTrue(-3 <= value < count - 3, (count, value))

    def test_errors_are_torchs(self):
        for call, text in ((lambda: torch.empty(3).bernoulli_(2.0), "p"), (lambda: torch.randperm(-1), "negative"),
                           (lambda: torch.multinomial(torch.tensor([-1.0, 1.0]), 1), "prob"),
                           (lambda: torch.multinomial(torch.ones(3), 4), "cannot sample"),
                           (lambda: torch.empty(3).uniform_(2, 1), "from"), (lambda: torch.empty(3).normal_(0, -1), "std")):
            with self.assertRaisesRegex(RuntimeError, text):
                drawn(call)


class TorchsGenerator(unittest.TestCase):

    def test_it_is_left_as_it_was(self):
        torch.manual_seed(3)
        torch.rand(5)
        before = torch.get_rng_state()
        drawn(lambda: [call() for call in CALLS.values()])
        self.assertTrue(torch.equal(torch.get_rng_state(), before))
        with self.assertRaises(ZeroDivisionError):
            drawn(lambda: torch.rand(3) + 1 // 0)
        self.assertTrue(torch.equal(torch.get_rng_state(), before))

    def test_a_generator_of_its_own_draws(self):
        for call in (lambda generator: torch.rand(5, generator=generator),
                     lambda generator: torch.empty(5).uniform_(generator=generator)):
            expected = call(torch.Generator().manual_seed(4))
            self.assertTrue(torch.equal(drawn(lambda: call(torch.Generator().manual_seed(4))), expected))

    def test_a_block_that_seeds_draws_as_without(self):
        torch.manual_seed(9)
        expected = torch.rand(5), torch.rand(5)

        def call():
            torch.rand(3)
            torch.manual_seed(9)
            return torch.rand(5)

        self.assertTrue(torch.equal(drawn(call), expected[0]))
        self.assertTrue(torch.equal(torch.rand(5), expected[1]))

    def test_what_has_no_answer_depends_on_the_same(self):
        call = lambda: torch.poisson(torch.full((20, ), 5.0))  # noqa: E731
        torch.manual_seed(1)
        first = drawn(call)
        torch.manual_seed(2)
        self.assertTrue(torch.equal(drawn(call), first))
        self.assertFalse(torch.equal(drawn(call, call=1), first))
        self.assertFalse(torch.equal(drawn(call, seed=6), first))
        first, second = drawn(lambda: (call(), call()))
        self.assertFalse(torch.equal(first, second))

    def test_a_checkpoint_draws_again_what_it_drew(self):
        masks = []

        def part(x):
            masks.append(torch.nn.functional.dropout(torch.ones(50), 0.5))
            return x * masks[-1]

        def call(is_again):
            x = torch.ones(50, requires_grad=True)
            torch.rand(1)
            checkpoint(part, x, use_reentrant=is_again).sum().backward()
            return x.grad

        for is_again in (False, True):
            masks.clear()
            gradient = drawn(lambda: call(is_again))
            self.assertTrue(torch.equal(masks[0], masks[1]))
            self.assertTrue(torch.equal(gradient, masks[0]))

    def test_fork_rng(self):

        def call():
            with torch.random.fork_rng(devices=[]):
                inside = torch.rand(5)
            return inside, torch.rand(5)

        inside, after = drawn(call)
        self.assertTrue(torch.equal(inside, after))


class Functions(unittest.TestCase):

    def test_functions_and_calls_have_streams_of_their_own(self):
        torch.manual_seed(5)
        one, other = Drawing(lambda: torch.rand(5).tolist()), Drawing(lambda: torch.rand(5).tolist())
        seen = set()
        for call in range(3):
            for drawing in (one, other):
                drawing.begin(call)
                drawing.begin_shared()
                seen.update(drawing())
        self.assertEqual(len(seen), 30)
        self.assertEqual(one.source.seed, 5)

    def test_inside_of_another_one_it_draws_as_that(self):
        inner = Drawing(lambda: torch.rand(5))

        def call():
            inner.begin(0)
            inner.begin_shared()
            return inner()

        self.assertTrue(torch.equal(drawn(call), drawn(lambda: torch.rand(5))))
        self.assertIsNone(inner.source)

    def test_calls_of_threads(self):
        """Each by its number, whichever thread makes it."""
        torch.manual_seed(8)
        drawing = Drawing(lambda: torch.rand(5))
        found = {}

        def run(call):
            drawing.begin(call)
            found[call] = drawing()

        threads = [threading.Thread(target=run, args=(call, )) for call in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for call in range(4):
            expected = drawn(lambda: torch.rand(5), seed=8, stream=drawing.source.stream, call=call)
            self.assertTrue(torch.equal(found[call], expected))


N = 200_000


class Distributions(unittest.TestCase):
    """By chi-square with a fixed seed: within five standard deviations of what it is on average."""

    def chi_square(self, counts, probabilities):
        total = sum(counts)
        self.assertAlmostEqual(sum(probabilities), 1)
        self.assertGreater(min(probabilities) * total, 20)
        value = sum((count - total * p)**2 / (total * p) for count, p in zip(counts, probabilities))
        freedom = len(counts) - 1
        self.assertLess(value, freedom + 5 * math.sqrt(2 * freedom))
        self.assertGreater(value, freedom - 5 * math.sqrt(2 * freedom))

    def continuous(self, values, distribution):
        """By what the distribution's function makes of the values: equally many in each of 64 parts of [0, 1]."""
        self.chi_square(torch.histc(distribution(values.double()), 64, 0, 1).tolist(), [1 / 64] * 64)
        pairs = (distribution(values.double()) * 8).long().clamp(0, 7)  # neighbours do not depend on each other
        self.chi_square(torch.bincount(pairs[0::2] * 8 + pairs[1::2], minlength=64).tolist(), [1 / 64] * 64)

    def discrete(self, values, probabilities):
        self.chi_square(torch.bincount(values.long(), minlength=len(probabilities)).tolist(), probabilities)

    def test_continuous_ones(self):
        for dtype in (torch.float32, torch.float64):
            with self.subTest(dtype):
                make = lambda: torch.empty(N, dtype=dtype)  # noqa: E731
                self.continuous(drawn(lambda: torch.rand(N, dtype=dtype)), lambda x: x)
                self.continuous(drawn(lambda: make().uniform_(-3, 5)), lambda x: (x + 3) / 8)
                self.continuous(drawn(lambda: torch.randn(N, dtype=dtype)), torch.special.ndtr)
                self.continuous(drawn(lambda: make().normal_(3, 2)), lambda x: torch.special.ndtr((x - 3) / 2))
                self.continuous(drawn(lambda: make().exponential_(2)), lambda x: 1 - torch.exp(-2 * x))
                self.continuous(drawn(lambda: make().cauchy_(1, 2)), lambda x: torch.atan((x - 1) / 2) / math.pi + 0.5)
                self.continuous(drawn(lambda: make().log_normal_(1, 0.5)),
                                lambda x: torch.special.ndtr((x.log() - 1) / 0.5))
        self.continuous(drawn(lambda: torch.randn(N, dtype=torch.float32))[:1 << 14], torch.special.ndtr)

    def test_narrow_ones(self):
        for dtype, digits in ((torch.float16, 11), (torch.bfloat16, 8)):
            values = drawn(lambda: torch.rand(N, dtype=dtype)).float() * 2**digits
            self.assertTrue(torch.equal(values, values.floor()))
            self.discrete(values, [2**-digits] * 2**digits)

    def test_discrete_ones(self):
        for p in (0.1, 0.5, 0.97):
            self.discrete(drawn(lambda: torch.empty(N).bernoulli_(p)), [1 - p, p])
            self.discrete(drawn(lambda: torch.bernoulli(torch.full((N, ), p))), [1 - p, p])
            self.discrete(drawn(lambda: torch.nn.functional.dropout(torch.ones(N), p) != 0), [p, 1 - p])
        for count in (2, 7, 100):
            self.discrete(drawn(lambda: torch.randint(count, (N, ))), [1 / count] * count)
        self.discrete(drawn(lambda: torch.randint(-(1 << 62), 1 << 62, (N, ))) // (1 << 60) + 4, [1 / 8] * 8)
        self.discrete(drawn(lambda: torch.randint(3 << 60, (N, ))) % 7, [1 / 7] * 7)
        self.discrete(drawn(lambda: torch.empty(N, dtype=torch.uint8).random_()), [1 / 256] * 256)
        values = drawn(lambda: torch.empty(N).geometric_(0.3)).clamp(max=12) - 1
        self.discrete(values, [0.3 * 0.7**k for k in range(11)] + [0.7**11])

    def test_chosen_ones(self):
        weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
        self.discrete(drawn(lambda: torch.multinomial(weights.expand(N, 4), 1)).view(-1), weights.tolist())
        self.discrete(drawn(lambda: torch.multinomial(weights * 5, N, replacement=True)), weights.tolist())
        pairs = drawn(lambda: torch.multinomial(weights.expand(N, 4), 2))
        expected = [0.0 if i == j else float(weights[i] * weights[j] / (1 - weights[i]))
                    for i in range(4) for j in range(4)]
        counts = torch.bincount(pairs[:, 0] * 4 + pairs[:, 1], minlength=16).tolist()
        self.assertEqual([count for count, p in zip(counts, expected) if not p], [0] * 4)
        self.chi_square([count for count, p in zip(counts, expected) if p], [p for p in expected if p])

    def test_permutations(self):
        orders = drawn(lambda: [tuple(torch.randperm(4).tolist()) for _ in range(2400)])
        self.assertEqual(len(set(orders)), 24)
        self.chi_square([orders.count(order) for order in sorted(set(orders))], [1 / 24] * 24)


class Recorded(RecorderTest):

    def replayed(self, backend):
        done = self.run_command([CRUCIBLE, "replay", self.output, "--verify", "--numerics", "strict", "--json",
                                 "--backend", backend])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def record_calls(self, names):
        states = {name: torch.zeros_like(CALLS[name]()) for name in names}
        counters = [torch.zeros(1, 4, dtype=torch.int64) for _ in known()]
        tables = [Source(key).table for _, key, _ in known()]
        inputs = [tuple(torch.tensor([word]) for word in counter) for counter, _, _ in known()]
        source = Source(11)
        with crucible.record(self.output, iterations=2):
            for call in range(6):
                source.begin(call)
                with Philox(source):
                    for name, state in states.items():
                        state.copy_(CALLS[name]())
                    for state, counter, table in zip(counters, inputs, tables):
                        state.copy_(torch.stack(rounds(counter, table), 1))
                crucible.step()
        for state, (_, _, expected) in zip(counters, known()):
            self.assertEqual(state[0].tolist(), expected)
        return len(states) + len(counters)

    def test_programs_draw_the_same_bits_everywhere(self):
        """Of functions (log, cos) each framework has its own, so that there devices are compared with each other."""
        whole = [name for name in CALLS if not any(part in name for part in (
            "norm", "randn", "exponential", "cauchy", "geometric", "multinomial"))]
        done = self.run_command([CRUCIBLE, "devices", "--json"])
        backends = ["cpu", "reference"] + (["opencl"] if '"opencl:0"' in done.stdout else [])
        for names, is_whole in ((whole, True), ([name for name in CALLS if name not in whole], False)):
            states = self.record_calls(names)
            self.assertEqual(self.trace().draws, [])
            hashes = set()
            for backend in backends:
                report = self.replayed(backend)
                hashes.add(report["result_sha256"])
                if is_whole:
                    self.assertEqual(report["state"]["bit_equal"], report["state"]["tensors"], report["state"])
                    self.assertGreaterEqual(report["state"]["tensors"], states)
            self.assertEqual(len(hashes), 1, backends)


class Net(torch.nn.Module):

    def __init__(self):
        super().__init__()
        self.first, self.second, self.dropout = torch.nn.Linear(8, 32), torch.nn.Linear(32, 4), torch.nn.Dropout(0.3)
        self.register_buffer("mask", torch.zeros(16, 32))

    def forward(self, x):
        hidden = self.dropout(torch.relu(self.first(x)) + 1)
        self.mask.copy_((hidden != 0).float())
        return self.second(hidden)


def loop():
    torch.manual_seed(1)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return net, step


class Accelerated(unittest.TestCase):

    def test_compiled_calls_draw_what_eager_ones_do(self):
        net, step = loop()
        twin_net, twin_step = loop()
        generator = torch.Generator().manual_seed(2)
        x, y = torch.randn(16, 8, generator=generator), torch.randint(4, (16, ), generator=generator)
        accelerated = crucible.accelerate(step, rng="philox")
        twin = None
        for call in range(200):
            loss = accelerated(x, y)
            if twin is None:
                source = accelerated._drawing.source
                twin = Drawing(twin_step)
                twin.source = Source(source.seed, source.stream)
            twin.begin(call)
            expected = twin(x, y)
            self.assertTrue(torch.equal(net.mask, twin_net.mask), call)
            self.assertLess(abs(loss - expected), 1e-5 * abs(expected), call)
            if call == 8:
                self.assertTrue(accelerated.wait(300))
        report = accelerated.report()
        self.assertGreater(report.compiled_calls, 150, str(report))
        self.assertEqual(report.mismatches, [])

    def test_draws_without_an_answer_are_refused_by_name(self):
        accelerated = crucible.accelerate(lambda x: x + torch.poisson(torch.full((4, ), 3.0)), rng="philox")
        for _ in range(8):
            accelerated(torch.ones(4))
            accelerated.wait(300)
        report = accelerated.report()
        self.assertEqual(report.compiled_calls, 0)
        self.assertRegex(report.variants[0].reason, r"poisson draws by itself.*rng=.torch")

    def test_outside_of_the_function_torch_draws(self):
        accelerated = crucible.accelerate(lambda x: x + torch.rand(4), rng="philox")
        torch.manual_seed(3)
        expected = [torch.rand(2).tolist() for _ in range(10)]
        torch.manual_seed(3)
        found = []
        for _ in range(10):
            accelerated(torch.ones(4))
            accelerated.wait(300)
            found.append(torch.rand(2).tolist())
        self.assertEqual(found, expected)
        self.assertGreater(accelerated.report().compiled_calls, 0)

    def test_every_call_has_its_number_whoever_makes_it(self):
        """Calls without gradients, of a module with them, and of a method."""
        torch.manual_seed(4)
        module = crucible.accelerate(torch.nn.Dropout(0.5), rng="philox")
        with torch.no_grad():
            first = module(torch.ones(50))
        second = module(torch.ones(50))
        stream = module._accelerated._drawing.source.stream
        for call, found in enumerate((first, second)):
            expected = drawn(lambda: torch.nn.functional.dropout(torch.ones(50), 0.5), 4, stream, call)
            self.assertTrue(torch.equal(found, expected))

        class Holder:
            method = crucible.accelerate(lambda self: torch.rand(3), rng="philox")

        holder = Holder()
        found = holder.method()
        self.assertTrue(torch.equal(found, drawn(lambda: torch.rand(3), 4, holder.method._drawing.source.stream, 0)))

    def test_the_option(self):
        with self.assertRaisesRegex(ValueError, "rng is 'torch' or 'philox', not 'mine'"):
            crucible.accelerate(lambda: None, rng="mine")


if __name__ == "__main__":
    unittest.main()
