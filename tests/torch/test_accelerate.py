"""crucible.accelerate against eager twins: whatever is changed between two calls, the next ones do what eager does.

CRUCIBLE_INJECTIONS=10000 makes the full count of changes; the suite makes fewer."""

import contextlib
import gc
import os
import random
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["CRUCIBLE_BUILD"], "python"))

import torch
from torch import nn
from torch.nn import functional as F

import crucible

INJECTIONS = int(os.environ.get("CRUCIBLE_INJECTIONS", "300"))
WIDTH, CLASSES = 12, 5


class Block(nn.Module):

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.first = nn.Linear(WIDTH, 2 * WIDTH)
        self.second = nn.Linear(2 * WIDTH, WIDTH)
        self.drop = nn.Dropout(0.25)
        self.scale = 1.0
        self.deep = True

    def forward(self, x):
        h = self.second(F.gelu(self.first(self.norm(x))))
        if self.deep:
            h = torch.tanh(h)
        return x + self.drop(h) * self.scale


class Net(nn.Module):

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.BatchNorm1d(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)
        self.register_buffer("shift", torch.zeros(WIDTH))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x) + self.shift)


OPTIMIZERS = [
    lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    lambda p: torch.optim.RMSprop(p, lr=0.005, momentum=0.5),
]


class World:
    """A model, its optimizer, settings, and a training step over them: one of two twins."""

    def __init__(self, kind, accelerated):
        torch.manual_seed(kind)
        self.net = Net()
        self.optimizer = OPTIMIZERS[kind % len(OPTIMIZERS)](self.net.parameters())
        self.config = {"factor": 1.0, "smooth": 0.0, "use_square": False}
        self.clip = 1.0
        net, optimizer, config, world = self.net, self.optimizer, self.config, self

        def step(x, y):
            optimizer.zero_grad()
            logits = net(x)
            loss = F.cross_entropy(logits, y, label_smoothing=config["smooth"]) * config["factor"]
            if config["use_square"]:
                loss = loss + logits.square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), world.clip)
            optimizer.step()
            return loss, logits.detach()

        self.step = crucible.accelerate(step, max_variants=256) if accelerated else step

    def tensors(self):
        found = dict(self.net.state_dict(keep_vars=True))
        for group in self.optimizer.param_groups:
            for number, parameter in enumerate(group["params"]):
                for key, value in self.optimizer.state.get(parameter, {}).items():
                    if isinstance(value, torch.Tensor):
                        found[f"{key} of {number}"] = value
        return found

    def gradients(self):
        return {name: parameter.grad for name, parameter in self.net.named_parameters()}


class Call:
    """How the next call is made: its arguments and what is around it."""

    def __init__(self, random_source):
        self.rows = 8
        self.seed = random_source.randrange(1 << 30)
        self.arrange = lambda x, y: (x, y)
        self.around = contextlib.nullcontext

    def arguments(self):
        torch.manual_seed(self.seed)
        x, y = torch.randn(self.rows, WIDTH), torch.randint(0, CLASSES, (self.rows, ))
        return self.arrange(x, y)


def set_item(owner, key):
    """A change of owner(world)[key]; gives (change, undo)."""

    def make(value):

        def change(world):
            before = owner(world)[key]
            owner(world)[key] = value
            return lambda: owner(world).__setitem__(key, before)

        return change

    return make


def set_attribute(owner, name, value):

    def change(world):
        before = getattr(owner(world), name)
        setattr(owner(world), name, value)
        return lambda: setattr(owner(world), name, before)

    return change


def group(world):
    return world.optimizer.param_groups[0]


def replace_parameter(world):
    block = world.net.blocks[0]
    old = block.first.bias
    new = nn.Parameter(old.detach() + 0.5)
    block.first.bias = new
    params = group(world)["params"]
    place = next(k for k, each in enumerate(params) if each is old)
    params[place] = new
    if old in world.optimizer.state:
        world.optimizer.state[new] = world.optimizer.state.pop(old)
    return None


def other_memory(world):
    world.net.head.bias.data = world.net.head.bias.data.clone() * 1.5


def grow_memory(world):
    parameter = world.net.head.weight
    parameter.data = torch.cat([parameter.data, parameter.data * 0.5])[:CLASSES]


def add_hook(world):
    handle = world.net.blocks[1].register_forward_hook(lambda module, args, output: output * 1.25)
    return handle.remove


def add_pre_hook(world):
    handle = world.net.head.register_forward_pre_hook(lambda module, args: (args[0] * 0.5, ))
    return handle.remove


def add_tensor_hook(world):
    handle = world.net.head.weight.register_hook(lambda grad: grad * 3)
    return handle.remove


def add_optimizer_hook(world):
    handle = world.optimizer.register_step_post_hook(lambda *_: world.net.shift.add_(0.01))
    return handle.remove


def patch_forward(world):
    block = world.net.blocks[0]
    block.forward = lambda x: x * 0.5
    return lambda: block.__dict__.pop("forward")


def patch_class(world):
    original = Block.forward
    Block.forward = lambda self, x: x * 0.25 + self.drop(x)
    return lambda: setattr(Block, "forward", original)


def patch_function(world):
    original = F.gelu
    F.gelu = F.relu
    return lambda: setattr(F, "gelu", original)


def replace_module(world):
    before = world.net.blocks[1].drop
    world.net.blocks[1].drop = nn.Identity()
    return lambda: setattr(world.net.blocks[1], "drop", before)


def replace_buffer(world):
    before = world.net.shift
    world.net.shift = torch.full((WIDTH, ), 0.25)
    return lambda: setattr(world.net, "shift", before)


def edit_weights(world):
    with torch.no_grad():
        for parameter in world.net.parameters():
            parameter.mul_(0.99)


def edit_by_numpy(world):
    world.net.head.bias.detach().numpy()[0] += 0.125


def edit_buffer(world):
    world.net.shift.add_(0.125)


def load_again(world):
    state = {name: value.clone() for name, value in world.net.state_dict().items()}
    state["head.bias"] += 0.25
    world.net.load_state_dict(state)


def load_optimizer(world):
    world.optimizer.load_state_dict(world.optimizer.state_dict())


def forget_state(world):
    world.optimizer.state.clear()


def set_gradients(world):
    for parameter in world.net.parameters():
        parameter.grad = torch.ones_like(parameter)


def drop_gradients(world):
    for parameter in world.net.parameters():
        parameter.grad = None


def freeze(world):
    world.net.head.weight.requires_grad_(False)
    return lambda: world.net.head.weight.requires_grad_(True)


def evaluate(world):
    world.net.eval()
    return lambda: world.net.train()


def evaluate_part(world):
    world.net.norm.eval()
    return lambda: world.net.norm.train()


def add_group(world):
    extra = nn.Parameter(torch.ones(3))
    world.optimizer.add_param_group({"params": [extra], "lr": 0.5})
    return lambda: world.optimizer.param_groups.pop()


def tensor_rate(world):
    before = group(world)["lr"]
    group(world)["lr"] = torch.tensor(0.02)
    return lambda: group(world).__setitem__("lr", before)


def move_betas(world):
    key = "betas" if "betas" in group(world) else "momentum"
    before = group(world)[key]
    group(world)[key] = (0.8, 0.95) if key == "betas" else 0.7
    return lambda: group(world).__setitem__(key, before)


def shadow_global(world):
    original = globals()["F"]
    globals()["F"] = sys.modules["torch.nn.functional"]  # the same: nothing may be noticed
    return lambda: globals().__setitem__("F", original)


CHANGES = {
    "factor": set_item(lambda w: w.config, "factor")(2.5),
    "factor back": set_item(lambda w: w.config, "factor")(1.0),
    "factor zero": set_item(lambda w: w.config, "factor")(0.0),
    "factor whole": set_item(lambda w: w.config, "factor")(2),
    "smoothing": set_item(lambda w: w.config, "smooth")(0.1),
    "branch": set_item(lambda w: w.config, "use_square")(True),
    "new key": set_item(lambda w: w.config, "factor")(1.5),
    "clip": lambda w: set_attribute(lambda v: v, "clip", 0.01)(w),
    "no deep": set_attribute(lambda w: w.net.blocks[0], "deep", False),
    "scale": set_attribute(lambda w: w.net.blocks[1], "scale", 0.5),
    "dropout": set_attribute(lambda w: w.net.blocks[0].drop, "p", 0.6),
    "no dropout": set_attribute(lambda w: w.net.blocks[1].drop, "p", 0.0),
    "eps": set_attribute(lambda w: w.net.blocks[1].norm, "eps", 0.1),
    "momentum of norm": set_attribute(lambda w: w.net.norm, "momentum", 0.5),
    "rate": set_item(group, "lr")(0.002),
    "rate zero": set_item(group, "lr")(0.0),
    "rate whole": set_item(group, "lr")(0),
    "decay": set_item(group, "weight_decay")(0.05),
    "no decay": set_item(group, "weight_decay")(0),
    "betas": move_betas,
    "tensor rate": tensor_rate,
    "eval": evaluate,
    "eval of a part": evaluate_part,
    "frozen": freeze,
    "parameter replaced": replace_parameter,
    "other memory": other_memory,
    "grown memory": grow_memory,
    "hook": add_hook,
    "pre hook": add_pre_hook,
    "hook of a tensor": add_tensor_hook,
    "hook of the optimizer": add_optimizer_hook,
    "forward patched": patch_forward,
    "class patched": patch_class,
    "function patched": patch_function,
    "module replaced": replace_module,
    "buffer replaced": replace_buffer,
    "weights edited": edit_weights,
    "weights edited by numpy": edit_by_numpy,
    "buffer edited": edit_buffer,
    "state dict loaded": load_again,
    "optimizer loaded": load_optimizer,
    "state forgotten": forget_state,
    "gradients set": set_gradients,
    "gradients dropped": drop_gradients,
    "group added": add_group,
    "the same global": shadow_global,
}


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def with_rows(rows):
    return lambda call: setattr(call, "rows", rows)


def arranged(arrange):
    return lambda call: setattr(call, "arrange", arrange)


def inside(around):
    return lambda call: setattr(call, "around", around)


def base_of(x):
    return torch.cat([x, x])[:x.shape[0]]


CALLS = {
    "tail": with_rows(5),
    "one row": with_rows(1),
    "large": with_rows(16),
    "columns first": arranged(lambda x, y: (x.t().contiguous().t(), y)),
    "part of a larger one": arranged(lambda x, y: (base_of(x), y)),
    "every second row": arranged(lambda x, y: (x.repeat_interleave(2, 0)[::2], y)),
    "unaligned": arranged(lambda x, y: (torch.cat([x.reshape(-1)[:1], x.reshape(-1)])[1:].view_as(x), y)),
    "expanded": arranged(lambda x, y: (x[:1].expand(x.shape[0], -1), y)),
    "double": arranged(lambda x, y: (x.double(), y)),
    "whole labels": arranged(lambda x, y: (x, y.int())),
    "label out of range": arranged(lambda x, y: (x, y + CLASSES)),
    "negative label": arranged(lambda x, y: (x, y - 7)),
    "wrong width": arranged(lambda x, y: (x[:, 1:], y)),
    "too few labels": arranged(lambda x, y: (x, y[1:])),
    "ignored labels": arranged(lambda x, y: (x, torch.where(y == 0, -100, y))),
    "with a gradient": arranged(lambda x, y: (x.requires_grad_(), y)),
    "no tensor": arranged(lambda x, y: (x, "labels")),
    "infinite": arranged(lambda x, y: (x * float("inf"), y)),
    "no gradients": inside(torch.no_grad),
    "inference": inside(torch.inference_mode),
    "autocast": inside(lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    "double by default": inside(default_dtype),
    "deterministic": inside(deterministic),
    "anomalies looked for": inside(torch.autograd.detect_anomaly),
    "saved on the side": inside(lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)),
}


def is_near(a, b, share=1e-3):
    if a is None or b is None:
        return a is None and b is None
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = a.detach().double(), b.detach().double()
    if not torch.equal(a.isfinite(), b.isfinite()):
        return False
    finite = b.isfinite()
    gap = torch.where(finite, (a - b).abs(), 0.0)
    return bool((gap <= share * torch.where(finite, b.abs(), 0.0).max().clamp_min(1e-3)).all()) if b.numel() else True


class Injected(unittest.TestCase):

    def make_call(self, world, call):
        """(what it returned or the type of its error, torch's random state afterwards)."""
        arguments = call.arguments()
        torch.manual_seed(call.seed + 1)
        with call.around():
            try:
                result = world.step(*arguments)
            except Exception as error:
                return type(error), torch.get_rng_state()
        return result, torch.get_rng_state()

    def compare(self, eager, ours, call, what):
        ours.step.wait(60)
        share = 0.05 if "autocast" in what else 1e-3  # computed in bf16: roundings of eight bits, handed on

        def near(a, b):
            return is_near(a, b, share)

        theirs, their_state = self.make_call(eager, call)
        mine, my_state = self.make_call(ours, call)
        if isinstance(theirs, type):
            self.assertEqual(mine, theirs, what)
        else:
            self.assertNotIsInstance(mine, type, f"{what}: raised {mine}")
            for a, b in zip(mine, theirs):
                self.assertTrue(near(a, b), f"{what}: {a} is returned, eager returns {b}")
                self.assertEqual(a.requires_grad and a.grad_fn is None, b.requires_grad and b.grad_fn is None, what)
        self.assertTrue(torch.equal(my_state, their_state), f"{what}: other random numbers were drawn")
        mine, theirs = ours.tensors(), eager.tensors()
        self.assertEqual(mine.keys(), theirs.keys(), what)
        noisy = isinstance(eager.optimizer, (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop))
        for name, value in theirs.items():
            is_close = near(mine[name], value)
            if not is_close and noisy and name in dict(eager.net.named_parameters()):
                # A gradient that is rounding noise moves by the rate in either direction; it is judged itself.
                is_close = bool(((mine[name] - value).abs() <= 0.05).all())
            self.assertTrue(is_close, f"{what}: {name} is {mine[name]}, eager's is {value}")
        mine, theirs = ours.gradients(), eager.gradients()
        finite = [g for g in theirs.values() if g is not None and g.isfinite().all()]
        largest = max((float(g.abs().max()) for g in finite), default=0)
        for name, value in theirs.items():
            is_close = near(mine[name], value)
            if not is_close and value is not None and mine[name] is not None:
                is_close = bool(((mine[name] - value).abs() <= 1e-5 * largest).all())
            self.assertTrue(is_close, f"{what}: the gradient of {name} is {mine[name]}, eager's is {value}")
        with torch.no_grad():  # from the same start again
            for name, value in eager.tensors().items():
                ours.tensors()[name].copy_(value)

    def run_world(self, number, injections, source):
        eager, ours = World(number, False), World(number, True)
        for _ in range(8):
            self.compare(eager, ours, Call(source), "at first")
        # A few of the changes, again and again in any order: their variants come back, compiled.
        changes, calls = source.sample(sorted(CHANGES), 6), source.sample(sorted(CALLS), 4)
        for count in range(injections):
            call, undos, what = Call(source), [], ""
            kind = source.random()
            if kind < 0.6:
                name = source.choice(changes)
                what = f"world {number}, injection {count}, {name}"
                for world in (eager, ours):
                    undo = CHANGES[name](world)
                    if undo is not None:
                        undos.append(undo)
            elif kind < 0.9:
                name = source.choice(calls)
                what = f"world {number}, injection {count}, {name}"
                CALLS[name](call)
            else:
                what = f"world {number}, injection {count}, nothing"
            for repeat in range(source.choice((1, 1, 2, 6))):
                call.seed += 2
                self.compare(eager, ours, call, f"{what}, call {repeat}")
            for undo in reversed(undos):
                undo()
            self.compare(eager, ours, Call(source), f"{what}, undone")
        report = ours.step.report()
        self.assertFalse(report.mismatches, str(report))
        return report

    def test_whatever_changes(self):
        source = random.Random(int(os.environ.get("CRUCIBLE_SEED", "1")))
        torch.set_num_threads(1)
        left, number, compiled, calls = INJECTIONS, 0, 0, 0
        while left > 0:
            report = self.run_world(number, min(left, 100), source)
            compiled, calls = compiled + report.compiled_calls, calls + report.calls
            left, number = left - 100, number + 1
            if "CRUCIBLE_SHOW" in os.environ:
                print(report, flush=True)
            gc.collect()
        print(f"{INJECTIONS} changes, {compiled} of {calls} calls compiled", file=sys.stderr)
        self.assertGreater(compiled, calls // 5)


if __name__ == "__main__":
    unittest.main()
