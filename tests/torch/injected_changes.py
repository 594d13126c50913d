"""What test_accelerate.py changes between two calls of a training step, or about a call."""

import contextlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

import crucible

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

    def __init__(self, kind, accelerated, **options):
        torch.manual_seed(kind)
        self.net = Net()
        self.optimizer = OPTIMIZERS[kind % len(OPTIMIZERS)](self.net.parameters())
        self.config = {"factor": 1.0, "smooth": 0.0, "use_square": False}
        self.clip = 1.0
        net, optimizer, config, world = self.net, self.optimizer, self.config, self

        def step(x, y, weight=1.0):
            optimizer.zero_grad()
            logits = net(x)
            loss = F.cross_entropy(logits, y, label_smoothing=config["smooth"]) * config["factor"] * weight
            if config["use_square"]:
                loss = loss + logits.square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), world.clip)
            optimizer.step()
            return loss, logits.detach()

        self.step = crucible.accelerate(step, max_variants=256, **options) if accelerated else step

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
        self.add = lambda world, number: ()
        self.around = contextlib.nullcontext

    def arguments(self, world):
        torch.default_generator.manual_seed(self.seed)
        x, y = torch.randn(self.rows, WIDTH), torch.randint(0, CLASSES, (self.rows, ))
        return *self.arrange(x, y), *self.add(world, self.seed % 7)


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


def tie_parameters(world):
    block = world.net.blocks[1]
    before = block.first.weight
    block.first.weight = world.net.blocks[0].first.weight
    return lambda: setattr(block.first, "weight", before)


def share_memory(world):
    """A parameter and a buffer lie in one memory."""
    before = world.net.head.bias.data
    world.net.head.bias.data = world.net.shift[:CLASSES]
    return lambda: setattr(world.net.head.bias, "data", before)


def turn_strides(world):
    weight = world.net.blocks[0].second.weight
    weight.data = weight.data.t().contiguous().t()


def widen_buffer(world):
    before = world.net.shift
    world.net.shift = before.double()
    return lambda: setattr(world.net, "shift", before)


def widen_head(world):
    world.net.head.double()
    return lambda: world.net.head.float()


def train_buffer(world):
    world.net.shift.requires_grad_(True)

    def undo():
        world.net.shift.requires_grad_(False)
        world.net.shift.grad = None

    return undo


def fail_in_hook(world):

    def fail(module, args, output):
        raise ArithmeticError("a hook's own")

    return world.net.norm.register_forward_hook(fail).remove


def draw_in_hook(world):
    return world.net.norm.register_forward_hook(lambda module, args, output: output + 0 * torch.rand(3)[0]).remove


def seed_in_hook(world):

    def seed(module, args):
        torch.manual_seed(7)

    return world.net.blocks[1].register_forward_pre_hook(seed).remove


def hook_after_gradient(world):
    weight = world.net.head.weight
    return weight.register_post_accumulate_grad_hook(lambda parameter: parameter.grad.mul_(0.5)).remove


def lose_setting(world):
    before = world.config.pop("factor")
    return lambda: world.config.__setitem__("factor", before)


def forget_one_state(world):
    world.optimizer.state.pop(world.net.head.bias, None)


def spread_gradients(world):
    """Gradients that lie in one memory, or are one element."""
    whole = torch.zeros(world.net.head.weight.numel() + CLASSES)
    world.net.head.weight.grad = whole[CLASSES:].view_as(world.net.head.weight)
    world.net.head.bias.grad = whole[:CLASSES]
    world.net.blocks[0].first.bias.grad = torch.ones(1).expand(2 * WIDTH)


def train_in_place(world):
    world.net.blocks[0].drop.inplace = True
    return lambda: setattr(world.net.blocks[0].drop, "inplace", False)


def remove_module(world):
    before = world.net.blocks[1].drop
    del world.net.blocks[1].drop
    return lambda: setattr(world.net.blocks[1], "drop", before)


def shuffle_blocks(world):
    blocks = world.net.blocks
    blocks[0], blocks[1] = blocks[1], blocks[0]

    def undo():
        blocks[0], blocks[1] = blocks[1], blocks[0]

    return undo


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
    "factor true": set_item(lambda w: w.config, "factor")(True),
    "factor NaN": set_item(lambda w: w.config, "factor")(float("nan")),
    "factor minus zero": set_item(lambda w: w.config, "factor")(-0.0),
    "factor text": set_item(lambda w: w.config, "factor")("2"),
    "factor in a tensor": lambda w: set_item(lambda v: v.config, "factor")(torch.tensor(1.5))(w),
    "factor lost": lose_setting,
    "clip whole": lambda w: set_attribute(lambda v: v, "clip", 1)(w),
    "clip infinite": lambda w: set_attribute(lambda v: v, "clip", float("inf"))(w),
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
    "maximized": set_item(group, "maximize")(True),
    "by lists": set_item(group, "foreach")(True),
    "not by lists": set_item(group, "foreach")(False),
    "rate NaN": set_item(group, "lr")(float("nan")),
    "rate negative": set_item(group, "lr")(-0.001),
    "tied": tie_parameters,
    "memory shared": share_memory,
    "strides turned": turn_strides,
    "buffer wider": widen_buffer,
    "head wider": widen_head,
    "buffer trained": train_buffer,
    "failing hook": fail_in_hook,
    "drawing hook": draw_in_hook,
    "seeding hook": seed_in_hook,
    "hook after a gradient": hook_after_gradient,
    "one state forgotten": forget_one_state,
    "gradients spread": spread_gradients,
    "dropout in place": train_in_place,
    "module removed": remove_module,
    "blocks changed about": shuffle_blocks,
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


def added(add):
    return lambda call: setattr(call, "add", add)


def in_one_memory(x, y):
    """Both arguments are parts of one memory."""
    whole = torch.empty(x.numel() * 4 + y.numel() * 8, dtype=torch.uint8)
    mine = whole[:x.numel() * 4].view(torch.float32).view(x.shape)
    labels = whole[x.numel() * 4:].view(torch.int64)
    return mine.copy_(x), labels.copy_(y)


def of_inference(x, y):
    with torch.inference_mode():
        return x.clone(), y


class Marked(torch.Tensor):
    pass


class Watching(torch.overrides.TorchFunctionMode):

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def drawn_before(count=3):
    torch.randn(count)  # an odd number: the generator holds half a pair of normal numbers back
    yield


@contextlib.contextmanager
def hooked_everywhere():
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, args, output: output * 0.5 if isinstance(module, nn.LayerNorm) else None)
    try:
        yield
    finally:
        handle.remove()


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
    "NaN": arranged(lambda x, y: (x * float("nan"), y)),
    "no rows": with_rows(0),
    "half as wide": arranged(lambda x, y: (x.bfloat16(), y)),
    "complex": arranged(lambda x, y: (x.to(torch.complex64), y)),
    "negative view": arranged(lambda x, y: (torch._neg_view(x), y)),
    "turned about": arranged(lambda x, y: (x.flip(0).t().contiguous().t(), y.flip(0))),
    "in one memory": arranged(in_one_memory),
    "one thing twice": arranged(lambda x, y: (x, x)),
    "probabilities": arranged(lambda x, y: (x, F.one_hot(y, CLASSES).float())),
    "of a subclass": arranged(lambda x, y: (x.as_subclass(Marked), y)),
    "a parameter": arranged(lambda x, y: (nn.Parameter(x), y)),
    "of inference": arranged(of_inference),
    "a list": arranged(lambda x, y: (x.tolist(), y)),
    "weighted": added(lambda world, number: (0.5 + number / 8, )),
    "weighted at last": added(lambda world, number: (1.0 if number < 4 else 2.0, )),
    "weight whole": added(lambda world, number: (number, )),
    "weight true": added(lambda world, number: (number < 3, )),
    "weight NaN": added(lambda world, number: (float("nan") if number < 3 else -0.0, )),
    "weight in a tensor": added(lambda world, number: (torch.tensor(0.5 + number / 8), )),
    "weight of the function's own memory": added(lambda world, number: (world.net.head.bias.detach()[0], )),
    "weight text": added(lambda world, number: ("2", )),
    "one argument too many": added(lambda world, number: (1.0, 2.0)),
    "drawn before": inside(drawn_before),
    "hooked everywhere": inside(hooked_everywhere),
    "under a mode": inside(Watching),
    "without oneDNN": inside(lambda: torch.backends.mkldnn.flags(enabled=False)),
    "gradients on": inside(torch.enable_grad),
    "no gradients": inside(torch.no_grad),
    "inference": inside(torch.inference_mode),
    "autocast": inside(lambda: torch.autocast("cpu", dtype=torch.bfloat16)),
    "double by default": inside(default_dtype),
    "deterministic": inside(deterministic),
    "anomalies looked for": inside(torch.autograd.detect_anomaly),
    "saved on the side": inside(lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)),
}
