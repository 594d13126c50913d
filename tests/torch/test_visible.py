"""What crucible.accelerate's guards notice (crucible_torch/accelerate/visible.py and
crucible_torch._accelerate.Guards): every change of what a function can see, and nothing that an ordinary training
loop does.
"""

import collections
import functools
import gc
import random
import sys
import unittest
import weakref

from seen_world import CHANGES, World, call, cell, hook, put, put_data, put_item  # first: it knows the build

import torch
from torch import nn

from crucible_torch._accelerate import Guards
from crucible_torch.accelerate import visible
from crucible_torch.accelerate.bytecode import check
from crucible_torch.accelerate.visible import look


class Changes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.found = cls.world.look()
        cls.guards = cls.found.guards()

    def test_nothing_is_refused(self):
        self.assertEqual([str(refusal) for refusal in self.found.refusals], [])
        self.assertEqual([str(refusal) for refusal in check(self.world.module.step, self.world.x, self.world.y)], [])

    def test_each_change_is_noticed_and_undone(self):
        for name, (change, says) in CHANGES.items():
            with self.subTest(name):
                self.assertIsNone(self.guards.check())
                undo = change(self.world)
                try:
                    found = self.guards.check()
                    again = self.guards.check()
                finally:
                    undo()
                self.assertIsNotNone(found, "not noticed")
                self.assertIn(says, found)
                self.assertEqual(again, found)
                self.assertIsNone(self.guards.check(), "not silent after it was undone")

    def test_functorch_levels(self):
        seen = []
        torch.func.vmap(lambda x: (seen.append(self.guards.check()), x)[1])(torch.ones(2))
        self.assertIsNotNone(seen[0])
        self.assertIsNone(self.guards.check())

    def test_what_the_function_does_not_read_may_change(self):
        for change in (lambda w: put(w.config, "unread", 4), lambda w: put(w.module, "unread", 6),
                       lambda w: put(w.settings, "name", "b"), lambda w: put(w.module, "new_global", 1),
                       lambda w: put(w.model, "never_read", 3)):
            undo = change(self.world)
            self.assertIsNone(self.guards.check())
            undo()

    def test_a_hook_that_is_removed_is_no_difference(self):
        weight = self.world.model.head.weight
        for _ in range(2):
            weight.register_hook(lambda g: g).remove()
            weight.register_post_accumulate_grad_hook(lambda p: None).remove()
            self.assertIsNone(self.guards.check())

    def test_memory_that_is_given_back(self):
        tensor = torch.ones(4)
        guards = Guards()
        guards.watch_tensor(tensor, "tensor")
        tensor.untyped_storage().resize_(0)
        self.assertIn("tensor: lies in other memory", guards.check())

    def test_memory_that_is_shared_with_others_moves(self):
        tensor = torch.ones(1024)
        storage, bytes_ = tensor.untyped_storage()._cdata, tensor.untyped_storage().nbytes()
        guards = Guards()
        guards.watch_tensor(tensor, "tensor")
        tensor.share_memory_()
        self.assertEqual((tensor.untyped_storage()._cdata, tensor.untyped_storage().nbytes()), (storage, bytes_))
        self.assertIn("tensor: lies in other memory", guards.check())

    def test_the_order_of_hooks(self):
        made = collections.OrderedDict(a=1, b=2)
        guards = Guards()
        guards.watch_keys(made, "hooks")
        made.move_to_end("a")
        self.assertIn("hooks", guards.check())
        made.move_to_end("b")
        self.assertIsNone(guards.check())


class Ordinary(unittest.TestCase):
    """Nothing is reported after what training loops do all the time."""

    def test_training(self):
        world = World()
        guards = world.look().guards()
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(world.x, world.y), batch_size=1)
        own = vars(world.module)
        for epoch in range(3):
            own["epoch"] = epoch  # as a loop at module level does
            for at, (own["x"], own["y"]) in enumerate(data):
                own["at"], own["loss"] = at, world.module.step(own["x"], own["y"])
                self.assertIsNone(guards.check())

    def test_between_the_steps(self):
        world = World()
        guards = world.look().guards()
        twin = {name: value.clone() for name, value in world.model.state_dict().items()}
        world.step()
        world.model.load_state_dict(twin)
        self.assertIsNone(guards.check())
        with torch.no_grad():
            for p in world.model.parameters():
                p.mul_(0.9)
                p.data.add_(0.1)
                p.data.copy_(torch.ones_like(p))
        self.assertIsNone(guards.check())
        world.model.eval()
        self.assertIsNotNone(guards.check())
        with torch.no_grad():
            world.model(world.x)
        world.model.train()
        self.assertIsNone(guards.check())
        nn.utils.clip_grad_norm_(world.model.parameters(), 1.0)
        world.optimizer.zero_grad(set_to_none=False)
        world.optimizer.zero_grad()
        loss = world.model(world.x, world.y)  # a graph that is alive
        self.assertIsNone(guards.check())
        loss.backward()
        str(world.model), world.model.state_dict(), world.optimizer.state_dict(), __import__("copy").deepcopy(
            world.model)
        isinstance(world.config, Guards), world.Config.__doc__, world.Attention.__annotations__
        gc.collect()
        self.assertIsNone(guards.check())

    def test_each_optimizer_and_scheduler(self):
        for make in (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), torch.optim.Adam, torch.optim.RMSprop,
                     torch.optim.Adagrad, lambda p: torch.optim.AdamW(p, foreach=False),
                     lambda p: torch.optim.AdamW(p, fused=True)):
            model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
            optimizer = make(model.parameters())
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)

            def step(x):
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            for _ in range(3):
                step(torch.ones(2, 4))
            found = look(step, arguments=(torch.ones(2, 4),))
            self.assertEqual(found.refusals, [])
            skip = {path for path in found.values if path.endswith("['lr']")}
            self.assertTrue(skip)
            guards, strict = found.guards(skip), found.guards()
            for _ in range(3):
                step(torch.ones(2, 4))
                self.assertIsNone(strict.check())
                self.assertIsNone(guards.check())
            scheduler.step()
            self.assertIsNone(guards.check())
            self.assertIn("['lr']", strict.check())


class Hyperparameters(unittest.TestCase):
    def guarded(self, **options):
        model = nn.Linear(2, 2)
        self.optimizer = torch.optim.SGD(model.parameters(), **{"lr": 0.1, "momentum": 0.9, **options})
        optimizer = self.optimizer
        found = look(lambda: optimizer.step())
        return found, found.guards({path for path in found.values if "param_groups" in path})

    def test_numbers_that_are_slots_move(self):
        _, guards = self.guarded()
        group = self.optimizer.param_groups[0]
        group["lr"] = 0.5
        group["momentum"] = 0.8
        self.assertIsNone(guards.check())
        group["lr"] = 0
        self.assertIsNone(guards.check(), "a learning rate of zero is no other variant")
        group["momentum"] = 0.0
        self.assertIn("optimizer[0].param_groups[0]['momentum']: was 0.9, is 0.0", guards.check())

    def test_other_kinds_are_noticed(self):
        _, guards = self.guarded()
        group = self.optimizer.param_groups[0]
        for key, value in (("lr", torch.tensor(0.1)), ("lr", None), ("momentum", True), ("nesterov", True),
                           ("weight_decay", 0.1)):
            undo = put_item(group, key, value)
            self.assertIn(f"['{key}']", guards.check(), (key, value))
            undo()
            self.assertIsNone(guards.check())

    def test_elements_of_betas(self):
        model = nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters())
        found = look(lambda: optimizer.step())
        path = "optimizer[0].param_groups[0]['betas']"
        self.assertEqual((found.values[path], found.values[path + "[0]"]), ((0.9, 0.999), 0.9))
        guards = found.guards({path + "[0]"})
        optimizer.param_groups[0]["betas"] = (0.8, 0.999)
        self.assertIsNone(guards.check())
        optimizer.param_groups[0]["betas"] = (0.0, 0.999)
        self.assertIn("betas", guards.check())
        optimizer.param_groups[0]["betas"] = (0.8, 0.99)
        self.assertIn("betas", guards.check())
        optimizer.param_groups[0]["betas"] = (0.8,)
        self.assertIn("betas", guards.check())


class Walk(unittest.TestCase):
    def test_what_is_found(self):
        world = World()
        found = world.look()
        tensors = dict(found.tensors)
        self.assertEqual(len({id(tensor) for tensor in tensors.values()}), len(tensors))
        self.assertIs(tensors["model.blocks.0.attention.qkv.weight"], world.model.blocks[0].attention.qkv.weight)
        self.assertIs(tensors["model.norm.running_mean"], world.model.norm.running_mean)
        self.assertIs(tensors["weights[0]"], cell(world, "weights").cell_contents[0])
        self.assertIs(tensors["average['head.bias']"], world.average["head.bias"])
        self.assertIs(tensors["optimizer[0].state[1][2]['exp_avg']"], world.optimizer.state[world.plain[2]]["exp_avg"])
        for parameter in world.model.parameters():
            self.assertTrue(any(parameter is tensor for tensor in tensors.values()))
        self.assertEqual(len(found.modules), len(list(world.model.modules())))
        self.assertEqual(found.optimizers, [("optimizer[0]", world.optimizer)])
        self.assertEqual(found.values["optimizer[0].param_groups[0]['lr']"], 0.001)
        self.assertEqual((found.values["offset"], found.values["config.extra.more"]), (0.0, 0.0))
        self.assertNotIn("config.unread", found.values)
        self.assertEqual([path for path, _ in world.look().tensors], [path for path, _ in found.tensors])

    def test_state_that_is_made_late(self):
        model = nn.Linear(2, 2)
        optimizer = torch.optim.AdamW(model.parameters())

        def step():
            model(torch.ones(2, 2)).sum().backward()
            optimizer.step()
        before = look(step)
        guards = before.guards()
        step()
        self.assertIn("optimizer[0].state", guards.check())
        self.assertEqual(len(look(step).tensors), len(before.tensors) + 6)

    def test_schedulers_and_scalers(self):
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        scaler = torch.amp.GradScaler("cpu")

        def step():
            scaler.scale(model(torch.ones(2, 2)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
        step()
        found = look(step)
        self.assertEqual(found.schedulers, [("scheduler", scheduler)])
        self.assertEqual(found.scalers, [("scaler", scaler)])
        self.assertIn("scaler._scale", dict(found.tensors))
        guards = found.guards({path for path in found.values if path.endswith("['lr']")})
        for _ in range(4):
            step()
            self.assertIsNone(guards.check())

    def test_what_cannot_be_watched(self):
        import numpy

        class Slotted:
            __slots__ = ("value",)

        slotted = Slotted()
        slotted.value = 2.0
        own = torch.Tensor._make_subclass(type("Own", (torch.Tensor,), {}), torch.ones(2))
        leaf = torch.ones(2, requires_grad=True)
        hooked = torch.ones(2, requires_grad=True)
        hooked.register_hook(lambda g: g)
        for obj, says in ((own, "class of its own"), (torch.ones(2).to_sparse(), "sparse"),
                          (torch.ones(2, dtype=torch.complex64), "complex"), (torch.ones(2, device="meta"), "meta"),
                          (leaf * 2, "built before"), (hooked, "hook"), (numpy.ones(2), "ndarray"),
                          (torch.Generator(), "generator"), (torch.compile(nn.Linear(2, 2)), "torch.compile"),
                          (torch.jit.trace(nn.Linear(2, 2), torch.ones(2, 2)),
                           "ScriptModule"), (nn.DataParallel(nn.Linear(2, 2)),
                                             "DataParallel"), (slotted, "__slots__"),
                          (nn.LazyLinear(2), "not made yet"), (bytearray(3), "bytearray"), (collections.deque([1]),
                                                                                            "deque")):
            found = look(functools.partial(reader, obj), arguments=(torch.ones(2),))
            self.assertTrue(any(says in refusal.what for refusal in found.refusals),
                            (says, [str(refusal) for refusal in found.refusals]))

    def test_parametrized_weights_are_torchs_own(self):
        model = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
        found = look(model, arguments=(torch.ones(2, 2),))
        self.assertEqual(found.refusals, [])
        self.assertIsNone(found.guards().check())

    def test_too_many_objects(self):
        table = [[at] for at in range(300)]
        before, visible.MOST_OBJECTS = visible.MOST_OBJECTS, 200
        try:
            found = look(lambda: table)
        finally:
            visible.MOST_OBJECTS = before
        self.assertEqual(sum("more than 200 objects" in refusal.what for refusal in found.refusals), 1)
        self.assertEqual(look(lambda: table).refusals, [])

    def test_arguments_that_are_modules(self):
        def step(model, optimizer, x):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        found = look(step, arguments=(model, optimizer), keywords={"x": torch.ones(2, 2)})
        self.assertEqual([str(refusal) for refusal in check(step, model, optimizer, torch.ones(2, 2))], [])
        self.assertIn("argument model.0.weight", dict(found.tensors))
        self.assertEqual(len(found.tensors), 2)
        guards = found.guards()
        self.assertIsNone(guards.check())
        model[1].eval()
        self.assertIn("argument model.1.training", guards.check())

    def test_methods_modules_and_partials(self):
        class Trainer:
            def __init__(self):
                self.model, self.rate, self.unread = nn.Linear(2, 2), 0.1, 0

            def step(self, x):
                return self.model(x) * self.rate
        trainer = Trainer()
        guards = look(trainer.step, arguments=(torch.ones(2, 2),)).guards()
        trainer.unread = 1
        self.assertIsNone(guards.check())
        trainer.rate = 0.2
        self.assertIn("self.rate: was 0.1, is 0.2", guards.check())
        model = nn.Linear(2, 2)
        for function in (model, functools.partial(model)):
            guards = look(function, arguments=(torch.ones(2, 2),)).guards()
            self.assertIsNone(guards.check())
            model.in_features = 3
            self.assertIn("in_features", guards.check())
            model.in_features = 2


def reader(obj, x):
    return obj.value if hasattr(obj, "value") else obj


class Native(unittest.TestCase):
    def test_wrong_arguments(self):
        guards = Guards()
        for method, arguments in (("watch_dict", ([], "a", {})), ("watch_dict", ({}, "a", {"b": "no mode"})),
                                  ("watch_keys", ([], "a")), ("watch_list", ((), "a")), ("watch_list", ([], "a", 3)),
                                  ("watch_set", ([], "a")), ("watch_cell", (1, "a")), ("watch_function", (len, "a")),
                                  ("watch_class", (1, "a", [])), ("watch_tensor", ("t", "a")), ("watch_dict", ({}, "a",
                                                                                                               [])),
                                  ("watch_class", (int, "a", 1)), ("watch_dict", ({}, "a", {"b": ("is", 1)}))):
            with self.assertRaises((TypeError, ValueError), msg=(method, arguments)):
                getattr(guards, method)(*arguments)
        self.assertIsNone(guards.check())

    def test_values(self):
        nan = float("nan")
        same = [(1, 1), (1.5, float("1.5")), (nan, float("nan")), ("ab", "".join(["a", "b"])),
                ((1, (2.0, )), (1, (float("2"), ))), (b"a", bytes([97])), (torch.device("cpu"), torch.device("cpu")),
                (torch.Size([2]), torch.Size([2])), (10**30, 10**30 + 0), (1 + 2j, complex(1, 2)),
                (slice(1, 2), slice(1, 2)), (range(3), range(3))]
        other = [(1, 2), (1, 1.0), (1, True), (0.0, -0.0), (nan, 1.0), ("a", "b"), ((1, ), (1, 2)), ((1, ), (1.0, )),
                 (None, 0), (torch.float32, torch.float64), ([], []), (torch.ones(1), torch.ones(1)),
                 (1j, complex(-0.0, 1)), (slice(1, 2), slice(1, 3))]
        for pairs, expected in ((same, True), (other, False)):
            for then, now in pairs:
                table = {"a": then}
                guards = Guards()
                guards.watch_dict(table, "table", {"a": "value"})
                table["a"] = now
                self.assertEqual(guards.check() is None, expected, (then, now))
                strict = Guards()
                table["a"] = then
                strict.watch_dict(table, "table", {"a": "is", "b": "skip"})
                table["b"] = 1
                self.assertIsNone(strict.check())
                table["a"] = object()
                self.assertEqual(strict.check()[:12], "table['a']: ")

    def test_nothing_is_kept_in_a_cycle(self):
        class Node:
            pass
        node = Node()
        node.guards = Guards()
        node.guards.watch_type(node, "node")
        node.guards.watch_dict(vars(node), "node.__dict__", {"guards": "is", "next": "value"})
        node.guards.watch_list([node], "list")
        gone = weakref.ref(node)
        del node
        gc.collect()
        self.assertIsNone(gone())

    def test_use_counts_stay(self):
        weight = nn.Parameter(torch.ones(2))
        before = weight.data_ptr(), torch._C._autograd._saved_tensors_hooks_is_enabled(), weight.untyped_storage(
        )._cdata
        count = sys.getrefcount(weight)
        guards = Guards()
        guards.watch_tensor(weight, "weight")
        self.assertEqual(sys.getrefcount(weight), count + 1)
        self.assertEqual(
            torch._C._storage_Use_Count(weight.untyped_storage()._cdata)
            if hasattr(torch._C, "_storage_Use_Count") else 0,
            torch._C._storage_Use_Count(before[2]) if hasattr(torch._C, "_storage_Use_Count") else 0)
        gradient = torch.ones(2)
        address = gradient.data_ptr()
        (weight * 1).backward(gradient)
        self.assertIsNone(guards.check())
        del guards
        self.assertEqual(sys.getrefcount(weight), count)
        self.assertTrue(address)


class Mutations(unittest.TestCase):
    """Random changes of random objects that the function can see: each is noticed, and silent when it is undone."""

    COUNT = 2000

    def places(self, world, found):
        """Every place that can be changed: (name, function that changes it and gives back what undoes it)."""
        places = []
        for path, module in found.modules:
            own = vars(module)
            for name, value in own.items():
                if name in ("training", "p", "eps", "in_features", "heads", "momentum",
                            "approximate") and not isinstance(value, dict):
                    places.append((f"{path}.{name}", functools.partial(put, module, name, ("changed", value))))
            for table in ("_parameters", "_buffers", "_modules"):
                for name, value in own[table].items():
                    for replacement in (None,
                                        value.detach().clone() if isinstance(value, torch.Tensor) else nn.Identity()):
                        places.append((f"{path}.{name}", functools.partial(put_item, own[table], name, replacement)))
                places.append((f"{path} gains", functools.partial(put_item, own[table], "gained", None)))
            places.append((f"{path}.forward", functools.partial(put, module, "forward", len)))
            places.append((f"{path} hook", lambda module=module: hook(module.register_forward_hook(len))))
            places.append(
                (f"{path} backward hook", lambda module=module: hook(module.register_full_backward_pre_hook(len))))
        for path, tensor in found.tensors:
            places.append((f"{path}.data", lambda tensor=tensor: put_data(tensor, tensor.data.clone())))
            if tensor.is_floating_point() and tensor.is_leaf:
                places.append(
                    (f"{path}.requires_grad",
                     lambda tensor=tensor: call(tensor.requires_grad_, not tensor.requires_grad, tensor.requires_grad)))
            if tensor.requires_grad:
                places.append((f"{path} hook", lambda tensor=tensor: hook(tensor.register_hook(lambda g: g))))
        for group in world.optimizer.param_groups:
            for key, value in group.items():
                places.append((f"group {key}",
                               functools.partial(put_item, group, key,
                                                 ("changed", key) if key != "params" else list(value))))
            places.append(("group gains", functools.partial(put_item, group, "gained", 1)))
        for state in world.optimizer.state.values():
            for key, value in state.items():
                places.append(
                    (f"state {key}", lambda state=state, key=key, value=value: put_item(state, key, value.clone())))
        for name, (change, _) in CHANGES.items():
            places.append((name, functools.partial(change, world)))
        return places

    def test_random_changes(self):
        world = World(depth=3)
        found = world.look()
        guards = found.guards()
        places = self.places(world, found)
        self.assertGreater(len(places), 500)
        generator = random.Random(11)
        missed = []
        for at in range(self.COUNT):
            name, change = places[at] if at < len(places) else generator.choice(places)
            undo = change()
            try:
                noticed = guards.check()
            finally:
                undo()
            if noticed is None:
                missed.append(f"not noticed: {name}")
            if (still := guards.check()) is not None:
                self.fail(f"{name} is reported after it was undone: {still}")
        self.assertEqual(missed, [])


if __name__ == "__main__":
    unittest.main()
