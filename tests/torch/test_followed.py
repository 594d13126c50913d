"""Models written as the libraries of models are - configurations with their own attribute access, outputs that are dicts
with fields, caches, tables of attention functions, decorators, hints that are shown once - are followed and compiled
(crucible_torch/accelerate/attributes.py, taken.py, folding.py), and what would be wrong of them is not."""

import collections
import collections.abc
import dataclasses
import functools
import os
import sys
import unittest

BUILD = os.environ.get("CRUCIBLE_BUILD") or sys.exit("set CRUCIBLE_BUILD to the build folder")
sys.path.insert(0, os.path.join(BUILD, "python"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import crucible  # noqa: E402
from crucible_torch.accelerate.bytecode import check, follow  # noqa: E402
from crucible_torch.accelerate.taken import Taken  # noqa: E402
from crucible_torch.accelerate.visible import look  # noqa: E402

os.environ["CRUCIBLE_ACCELERATE_RAISE"] = "1"
shown, settings = [], {"loud": False}


class Config:
    attribute_map = {"hidden_size": "width", "layers": "depth"}

    def __init__(self, **given):
        self.width, self.depth, self.heads, self.attention, self.use_cache = 16, 2, 2, "fused", True
        self.scale_ = 1.0
        for name, value in given.items():
            setattr(self, name, value)

    def __setattr__(self, key, value):
        if key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        super().__setattr__(key, value)

    def __getattribute__(self, key):
        if key != "attribute_map" and key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        return super().__getattribute__(key)

    @property
    def scale(self):
        return self.scale_ * self.hidden_size**-0.5


class ModelOutput(collections.OrderedDict):
    def __post_init__(self):
        fields = dataclasses.fields(self)
        first = getattr(self, fields[0].name)
        if first is not None and not isinstance(first, torch.Tensor):
            raise ValueError("a tensor is meant")
        for field in fields:
            value = self.__dict__.get(field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in {field.name for field in dataclasses.fields(self)} and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


@dataclasses.dataclass
class Hidden(ModelOutput):
    last: object = None
    cache: object = None


@dataclasses.dataclass
class WithLoss(ModelOutput):
    loss: object = None
    logits: object = None
    cache: object = None


class Layer:
    def __init__(self):
        self.keys = self.values = None
        self.is_filled = False

    def update(self, keys, values):
        if not self.is_filled:
            self.keys, self.values = keys[..., :0, :], values[..., :0, :]
            self.is_filled = True
        self.keys = torch.cat([self.keys, keys], dim=-2)
        self.values = torch.cat([self.values, values], dim=-2)
        return self.keys, self.values


class Cache:
    def __init__(self, config):
        self.layers = [Layer() for _ in range(config.layers)]

    def update(self, keys, values, at):
        return self.layers[at].update(keys, values)


def fused(module, query, key, value, mask=None, scaling=None, **more):
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling, is_causal=mask is None)


def noisy_attention(module, query, key, value, **more):
    print(end="")
    return value


class Table(collections.abc.MutableMapping):
    shared = {"fused": fused, "noisy": noisy_attention}

    def __init__(self):
        self.own = {}

    def __getitem__(self, key):
        return self.own[key] if key in self.own else self.shared[key]

    def __setitem__(self, key, value):
        self.own.update({key: value})

    def __delitem__(self, key):
        del self.own[key]

    def __iter__(self):
        return iter({**self.shared, **self.own})

    def __len__(self):
        return len(self.shared.keys() | self.own.keys())


ATTENTION = Table()


@functools.lru_cache(None)
def hint(text):
    shown.append(text)


def with_defaults(function):
    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        for name in ("use_cache", "missing"):
            at = None
            if name in function.__code__.co_varnames:
                at = function.__code__.co_varnames.index(name) - 1
            if at is not None and len(args) > at and args[at] is not None:
                value = args[at]
            elif kwargs.get(name) is not None:
                value = kwargs[name]
            else:
                value = getattr(self.config, name, None)
            if value is not None:
                kwargs[name] = value
        return function(self, *args, **kwargs)
    return wrapper


def captured(function):
    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        wanted = {f"output_{key}": kwargs.get(f"output_{key}", getattr(self.config, f"output_{key}", False))
                  for key in self.can_record}
        collected = {key.replace("output_", ""): [] for key, value in wanted.items() if value}
        outputs = function(self, *args, **kwargs)
        for key in collected:
            outputs[key] = tuple(collected[key])
        return outputs
    return wrapper


class Holder:
    def __init__(self, factor):
        self.factor = factor


class Attention(nn.Module):
    def __init__(self, config, at):
        super().__init__()
        self.config, self.at = config, at
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x, cache=None, mask=None, **more):
        heads = self.config.heads
        query, key, value = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if cache is not None:
            key, value = cache.update(key, value, self.at)
        attend = ATTENTION.get(self.config.attention, fused)
        x = attend(self, query, key, value, mask=mask, scaling=self.config.scale, **more)
        return self.out(x.transpose(1, 2).flatten(-2))


class Block(nn.Module):
    checkpointing = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        forward = cls.forward

        @functools.wraps(forward)
        def wrapped(self, *args, **kwargs):
            if self.checkpointing and self.training:
                return self.checkpointed(functools.partial(forward, self, **kwargs), *args)
            return forward(self, *args, **kwargs)

        cls.forward = wrapped


class TextBlock(Block):
    def __init__(self, config, at):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(config.hidden_size), Attention(config, at)

    def forward(self, x, cache=None, mask=None, **more):
        return x + self.attention(self.norm(x), cache=cache, mask=mask, **more)


class Body(nn.Module):
    can_record = {"states": TextBlock}

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.words, self.places = nn.Embedding(32, config.hidden_size), nn.Embedding(32, config.hidden_size)
        self.blocks = nn.ModuleList(TextBlock(config, at) for at in range(config.layers))

    @with_defaults
    @captured
    def forward(self, ids, places=None, use_cache=None, **more):
        more.pop("output_states", None)
        cache = Cache(self.config) if use_cache else None
        if places is None:
            places = torch.arange(ids.shape[1]).unsqueeze(0)
        steps = torch.diff(places, prepend=places[:, :1] - 1, dim=-1)
        if (steps != 1).any():
            raise ValueError("packed")
        x = self.words(ids) + self.places(places)
        for at, block in enumerate(self.blocks):
            x = block(x, cache, None, **more)
        return Hidden(last=x, cache=cache)


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.body, self.head = config, Body(config), nn.Linear(config.hidden_size, 32)

    @property
    def loss_function(self):
        if hasattr(self, "own_loss"):
            return self.own_loss
        hint("the usual loss is used")
        return F.cross_entropy

    def forward(self, ids, labels=None, use_cache=None, **more):
        found = self.body(ids, use_cache=use_cache, **more)
        logits = self.head(found.last)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits.flatten(0, 1), labels.flatten())
        return WithLoss(loss=loss, logits=logits, cache=found.cache)


def made(**given):
    torch.manual_seed(0)
    model = Model(Config(**given))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(ids):
        optimizer.zero_grad()
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, step


IDS = torch.arange(16).reshape(2, 8)


def verdict(step, *arguments):
    """The serious refusals of a call like one that was made, and what is reached by it."""
    step(*arguments)
    taken = Taken()
    with taken:
        step(*arguments)
    return follow(step, arguments, taken=taken)


class Shapes(unittest.TestCase):
    def test_a_training_step_is_followed(self):
        _, step = made()
        self.assertEqual([str(each) for each in verdict(step, IDS)[0]], [])

    def test_a_training_step_is_compiled(self):
        (_, eager), (model, step) = made(), made()
        fast = crucible.accelerate(step)
        losses = []
        for number in range(20):
            losses.append((fast(IDS).item(), eager(IDS).item()))
            if number == 6:
                self.assertTrue(fast.wait(120))
        report = fast.report()
        self.assertEqual(report.tier, "compiled", str(report))
        self.assertGreater(report.compiled_calls, 5)
        for compiled, expected in losses:
            self.assertAlmostEqual(compiled, expected, delta=1e-4)

    def test_what_is_changed_is_noticed(self):
        model, step = made()
        refusals, reach = verdict(step, IDS)
        self.assertEqual(refusals, [])
        guards = look(step, reach, (IDS,)).guards()
        config = model.config
        changes = {
            "a value": (lambda: setattr(config, "heads", 4), lambda: setattr(config, "heads", 2)),
            "a mapped value": (lambda: setattr(config, "hidden_size", 8), lambda: setattr(config, "hidden_size", 16)),
            "what a property reads": (lambda: setattr(config, "scale_", 2.0), lambda: setattr(config, "scale_", 1.0)),
            "the map": (lambda: Config.attribute_map.update(heads="depth"), lambda: Config.attribute_map.pop("heads")),
            "a value of the map": (lambda: Config.attribute_map.update(hidden_size="depth"),
                                   lambda: Config.attribute_map.update(hidden_size="width")),
            "which attention": (lambda: setattr(config, "attention", "noisy"),
                                lambda: setattr(config, "attention", "fused")),
            "an attention of its own": (lambda: ATTENTION.update(fused=noisy_attention), lambda: ATTENTION.clear()),
            "another shared attention": (lambda: Table.shared.update(fused=noisy_attention),
                                         lambda: Table.shared.update(fused=fused)),
            "a value that was not there": (lambda: setattr(config, "output_states", True),
                                           lambda: delattr(config, "output_states")),
            "a loss of its own": (lambda: setattr(model, "own_loss", print), lambda: delattr(model, "own_loss")),
        }
        for name, (change, undo) in changes.items():
            with self.subTest(name):
                self.assertIsNone(guards.check())
                change()
                found = guards.check()
                undo()
                self.assertIsNotNone(found)
                self.assertIsNone(guards.check(), "not silent after it was undone")

    def test_a_property_that_is_exchanged_is_noticed(self):
        model, step = made()
        guards = look(step, verdict(step, IDS)[1], (IDS,)).guards()
        before = Config.scale
        Config.scale = property(lambda self: 3.0)
        try:
            self.assertIsNotNone(guards.check())
        finally:
            Config.scale = before
        self.assertIsNone(guards.check())

    def test_variables_of_the_environment(self):
        def program(x):
            return x * 2 if os.environ.get("CRUCIBLE_TEST_SHAPES") == "1" else x
        os.environ.pop("CRUCIBLE_TEST_SHAPES", None)
        guards = look(program, arguments=(torch.ones(2),)).guards()
        self.assertIsNone(guards.check())
        os.environ["CRUCIBLE_TEST_SHAPES"] = "1"
        self.assertIsNotNone(guards.check())
        del os.environ["CRUCIBLE_TEST_SHAPES"]
        self.assertIsNone(guards.check())

    def test_attributes_that_are_read_as_a_dict(self):
        holder = Holder(2.0)

        def program(x):
            return x * holder.__dict__["factor"]
        self.assertEqual(check(program, torch.ones(2)), [])
        guards = look(program, arguments=(torch.ones(2),)).guards()
        self.assertIsNone(guards.check())
        holder.factor = 3.0
        self.assertIsNotNone(guards.check())

    def test_what_is_read_of_torchs_own_objects(self):
        model = nn.Linear(2, 2)
        scheduler = torch.optim.lr_scheduler.StepLR(torch.optim.SGD(model.parameters(), lr=0.1), 3)
        spread = torch.distributions.Normal(0.0, 1.0, validate_args=False)

        def program(x):
            return x * scheduler.last_epoch * (2 if spread._validate_args else 1)
        self.assertEqual(check(program, torch.ones(2)), [])
        guards = look(program, arguments=(torch.ones(2),)).guards()
        self.assertIsNone(guards.check())
        scheduler.last_epoch += 1
        self.assertIn("last_epoch", guards.check())
        scheduler.last_epoch -= 1
        self.assertIsNone(guards.check())
        spread._validate_args = True
        self.assertIn("_validate_args", guards.check())

    def test_effects_on_the_way_are_refused(self):
        for given, says in (({"attention": "noisy"}, "print"),):
            _, step = made(**given)
            refusals, _ = verdict(step, IDS)
            self.assertTrue(any(says in str(each) for each in refusals), [str(each) for each in refusals])

    def test_places_that_are_given_decide_by_their_values(self):
        """Each call looks which way they decide, as it does of any tensor."""
        model, _ = made()
        step = crucible.accelerate(lambda ids, places: model(ids, places=places).logits)
        places = torch.arange(8).unsqueeze(0)
        with torch.no_grad():
            for number in range(16):
                if number % 5 == 4:
                    self.assertRaisesRegex(ValueError, "packed", step, IDS, places // 2)
                torch.testing.assert_close(step(IDS, places), model(IDS, places=places).logits, rtol=1e-4, atol=1e-5)
                self.assertTrue(step.wait(120))
        self.assertGreaterEqual(step.report().compiled_calls, 8, str(step.report()))
        self.assertFalse(step.report().mismatches)


def counted(x):
    if settings.get("loud"):
        shown.append(1)
    return x * 2


class Ways(unittest.TestCase):
    """Ways that calls did not go need no verdict, as long as what decides is guarded."""

    def test_what_is_not_gone_is_left_out(self):
        def program(x):
            try:
                if x.sum(0).shape[0] > 3:
                    print(end="")
                for _ in range(x.dim() - 2):
                    print(end="")
                return x if x.shape[0] < 3 else print(end="")
            except ValueError:
                print(end="")
        self.assertTrue(check(program, torch.ones(2, 2)))
        self.assertEqual(verdict(program, torch.ones(2, 2))[0], [])
        self.assertTrue(verdict(program, torch.ones(2, 4))[0])
        self.assertTrue(verdict(program, torch.ones(2, 2, 2))[0])

    def test_handlers_that_ran_are_followed(self):
        def program(x):
            try:
                x.no_such_thing
            except AttributeError:
                print(end="")
            return x
        self.assertTrue(any("print" in each.what for each in verdict(program, torch.ones(2))[0]))

    def test_numbers_that_move_decide_both_ways(self):
        def program(x, n):
            if n > 3:
                print(end="")
            return x
        self.assertTrue(any("print" in each.what for each in verdict(program, torch.ones(2), 1)[0]))

    def test_a_debugger_is_left_alone(self):
        events = []

        def tracer(frame, event, argument):
            events.append(event)
            return None

        def program(x):
            return print(end="") if x.sum(0).dim() > 3 else x
        taken, before = Taken(), sys.gettrace()
        sys.settrace(tracer)
        try:
            with taken:
                program(torch.ones(2))
            self.assertEqual(sys.gettrace(), tracer)
        finally:
            sys.settrace(before)
        self.assertTrue(events)
        self.assertTrue(follow(program, (torch.ones(2),), taken=taken)[0])

    def test_other_ways_later_are_not_compiled(self):
        """What decides changes between the calls, behind what is compiled: each call does what eager does."""
        settings["loud"] = False
        fast, before = crucible.accelerate(counted), len(shown)
        x = torch.ones(64)
        for number in range(12):
            fast(x)
            if number == 6:
                fast.wait(120)
        self.assertEqual(fast.report().tier, "compiled", str(fast.report()))
        settings["loud"] = True
        fast(x)
        fast(x)
        self.assertEqual(len(shown) - before, 2)
        settings["loud"] = False
        fast(x)
        self.assertEqual(len(shown) - before, 2)

    def test_another_way_while_it_is_observed(self):
        for at in range(6):
            fast = crucible.accelerate(counted)
            for number in range(20):
                settings["loud"] = number >= at
                before = len(shown)
                fast(torch.ones(64))
                self.assertEqual(len(shown) - before, settings["loud"], (at, number))
                if number in (5, 10):
                    fast.wait(120)

    def test_calls_are_not_traced_again_for_what_is_in_the_way_still(self):
        traced = []
        before, Taken.__enter__ = Taken.__enter__, lambda self: (traced.append(1), before(self))[1]

        def program(x):
            print(end="")
            return x
        try:
            fast = crucible.accelerate(program)
            for _ in range(400):
                fast(torch.ones(4))
        finally:
            Taken.__enter__ = before
        self.assertEqual(len(traced), 3)  # until the first of them goes no new way
        self.assertIn("print", fast.report().reason)

    def test_what_a_first_call_makes(self):
        class Holder:
            def __init__(self):
                self.table = None
        holder = Holder()

        def program(x):
            if holder.table is None:
                holder.table = torch.arange(64.0)
            return x * holder.table
        fast = crucible.accelerate(program)
        for number in range(12):
            self.assertEqual(fast(torch.ones(64))[3].item(), 3.0)
            if number == 7:
                fast.wait(120)
        self.assertEqual(fast.report().tier, "compiled", str(fast.report()))
        holder.table = None
        self.assertEqual(fast(torch.ones(64))[3].item(), 3.0)
        self.assertIsNotNone(holder.table)


if __name__ == "__main__":
    unittest.main()
