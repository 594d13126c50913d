"""The program whose guards test_visible.py tests, and the changes of it that they must notice."""

import os
import sys
import types

BUILD = os.environ.get("CRUCIBLE_BUILD") or sys.exit("set CRUCIBLE_BUILD to the build folder")
sys.path.insert(0, os.path.join(BUILD, "python"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from crucible_torch.accelerate.visible import look  # noqa: E402

PROGRAM = """
import dataclasses
import types
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    slope = 1.0

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True) * self.slope
        return self.dropout(self.proj(y.transpose(1, 2).reshape(b, t, c)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class GPT(nn.Module):
    def __init__(self, depth, width=8, heads=2, words=11):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, words)
        self.register_buffer("scale", torch.ones(1))
        self.options = {"factor": 1.0, "unused": [1, 2]}
        self.never_read = 0

    def forward(self, x, y=None):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        logits = self.head(x) * self.scale * self.options["factor"]
        return logits if y is None else F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))


@dataclasses.dataclass
class Config:
    clip: float = 1.0
    name: str = "a"


def smooth(value, by=0.0, *, more=0.0):
    return value * (1 + by + more)


def make(offset):
    weights = [torch.ones(1)]

    def step(x, y):
        optimizer.zero_grad()
        given = dict(x=x, y=y)
        loss = smooth(model(**given), more=config.extra.more) + offset
        for weight in weights:
            loss = loss * weight
        for way in ways:
            loss = loss + (way == "a")
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        with torch.no_grad():
            for name in names:
                average[name].lerp_(parameters[name], 0.1)
        optimizer.step()
        return loss.detach() * table["factor"]
    return step


torch.manual_seed(0)
model = GPT(DEPTH)
decay = [p for p in model.parameters() if p.dim() > 1]
plain = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
                              lr=0.001)
parameters = dict(model.named_parameters())
names = list(parameters)
average = {name: p.detach().clone() for name, p in parameters.items()}
config = types.SimpleNamespace(extra=types.SimpleNamespace(more=0.0), unread=3)
settings, table, ways, unread = Config(), {"factor": 2.0}, {"a", "b"}, 5
step = make(0.0)
x, y = torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.long)
"""


class World:
    """The program above after two steps; `globals_` are its names."""

    def __init__(self, depth=2):
        self.module = types.ModuleType("program")
        sys.modules["program"] = self.module  # what a dataclass asks for
        vars(self.module)["DEPTH"] = depth
        exec(compile(PROGRAM, "program.py", "exec"), vars(self.module))
        for _ in range(2):
            self.step()

    def __getattr__(self, name):
        return getattr(self.module, name)

    def step(self):
        self.module.step(self.module.x, self.module.y)

    def look(self):
        return look(self.module.step, arguments=(self.module.x, self.module.y))


def put(owner, name, value):
    """Sets an attribute and gives back what takes that back."""
    own = vars(owner)
    before = own.get(name, own)
    setattr(owner, name, value)
    return (lambda: delattr(owner, name)) if before is own else (lambda: setattr(owner, name, before))


def put_item(owner, key, value):
    absent = isinstance(owner, dict) and key not in owner
    before = None if absent else owner[key]
    owner[key] = value
    return (lambda: owner.pop(key)) if absent else (lambda: owner.__setitem__(key, before))


def put_data(tensor, data):
    before = tensor.data
    tensor.data = data
    return lambda: setattr(tensor, "data", before)


def append(owner, value):
    owner.append(value)
    return owner.pop


def enter(context):
    context.__enter__()
    return lambda: context.__exit__(None, None, None)


def resize(tensor):
    size = tensor.size()
    tensor.resize_(4)
    return lambda: tensor.resize_(size)


def hook(handle):
    return handle.remove


def call(function, now, before):
    function(now)
    return lambda: function(before)


def rename(owner, key):
    """Takes a key out and puts it back at the end."""
    before = dict(owner)
    owner[key] = owner.pop(key)
    return lambda: (owner.clear(), owner.update(before))


class Modes(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, classes, arguments=(), keywords=None):
        return function(*arguments, **(keywords or {}))


# name: (what is done, which gives back what undoes it; what the difference says)
CHANGES = {
    "attribute of a module": (lambda w: put(w.model.blocks[0].attention, "heads", 4),
                              "model.blocks.0.attention.heads: was 2, is 4"),
    "training flag": (lambda w: put(w.model.blocks[1].attention.dropout, "training", False),
                      "dropout.training: was True, is False"),
    "attribute of torch's module": (lambda w: put(w.model.blocks[0].norm, "eps", 0.1), "norm.eps"),
    "attribute that a module gains": (lambda w: put(w.model, "forward", lambda *a: None), "model.forward"),
    "value in a module's dict": (lambda w: put_item(w.model.options, "factor", 2.0), "model.options['factor']"),
    "element of a module's list": (lambda w: append(w.model.options["unused"], 3), "model.options['unused']"),
    "replaced parameter": (
        lambda w: put_item(w.model.head._parameters, "weight", nn.Parameter(w.model.head.weight.data)), "head.weight"),
    "p.data": (lambda w: put_data(w.model.head.weight, torch.ones(11, 8)), "head.weight: lies in other memory"),
    "p.data of another dtype": (lambda w: put_data(w.model.head.weight,
                                                   torch.ones(11, 8).double()), "head.weight"),
    "resized": (lambda w: resize(w.model.norm.running_mean), "norm.running_mean: has other sizes"),
    "transposed": (
        lambda w: put_data(w.model.blocks[0].attention.proj.weight, w.model.blocks[0].attention.proj.weight.data.t()),
        "proj.weight"),
    "frozen": (lambda w: call(w.model.embed.weight.requires_grad_, False, True), "embed.weight: requires no gradient"),
    "hook on a parameter": (lambda w: hook(w.model.embed.weight.register_hook(lambda g: g)),
                            "embed.weight: has a hook"),
    "hook after the gradient": (lambda w: hook(w.model.embed.weight.register_post_accumulate_grad_hook(lambda p: None)),
                                "embed.weight: has a hook"),
    "forward hook": (lambda w: hook(w.model.head.register_forward_hook(lambda *a: None)), "head._forward_hooks"),
    "pre-hook": (lambda w: hook(w.model.head.register_forward_pre_hook(lambda *a: None)), "head._forward_pre_hooks"),
    "backward hook": (lambda w: hook(w.model.head.register_full_backward_hook(lambda *a: None)),
                      "head._backward_hooks"),
    "hook for all modules": (lambda w: hook(nn.modules.module.register_module_forward_hook(lambda *a: None)),
                             "_global_forward_hooks"),
    "hook of the optimizer": (lambda w: hook(w.optimizer.register_step_pre_hook(lambda *a: None)),
                              "_optimizer_step_pre_hooks"),
    "forward of an instance": (lambda w: put(w.model.blocks[0], "forward", lambda x: x), "blocks.0.forward"),
    "forward of a class": (lambda w: put(type(w.model.blocks[0]), "forward", lambda self, x: x), "Block.forward"),
    "forward of torch's class": (lambda w: put(nn.GELU, "forward", lambda self, x: x), "GELU.forward"),
    "call of all modules": (lambda w: put(nn.Module, "__call__", lambda self, *a: None), "__call__"),
    "torch's function": (lambda w: put(F, "cross_entropy", lambda *a: None), "torch.nn.functional.cross_entropy"),
    "torch's function below its modules":
    (lambda w: put(F, "gelu", lambda *a, **k: None), "torch.nn.functional.gelu: was"),
    "a tensor's method": (lambda w: put(torch.Tensor, "split", lambda *a, **k: None), "torch.Tensor.split"),
    "an optimizer's step": (lambda w: put(torch.optim.AdamW, "step", lambda self: None), "step"),
    "an instance's step": (lambda w: put(w.optimizer, "step", lambda: None), "optimizer[0].step"),
    "class attribute": (lambda w: put(w.Attention, "slope", 2.0), "Attention.slope: was 1.0, is 2.0"),
    "class of an object": (
        lambda w: call(lambda c: setattr(w.model.blocks[0].mlp[1], "__class__", c), nn.SiLU, nn.GELU), "__class__"),
    "dict of an object": (
        lambda w: call(lambda d: setattr(w.settings, "__dict__", d), dict(vars(w.settings)), vars(w.settings)),
        "__dict__"),
    "list element": (lambda w: put_item(w.names, 0, "other"), "names[0]"),
    "longer list": (lambda w: append(w.names, "head.bias"), "names"),
    "dict value": (lambda w: put_item(w.table, "factor", 2.5), "table['factor']: was 2.0, is 2.5"),
    "dict key": (lambda w: put_item(w.table, "other", 1), "table['other']"),
    "order of a dict": (lambda w: rename(w.average, "embed.weight"), "average"),
    "type of a value": (lambda w: put_item(w.table, "factor", 2), "table['factor']: was 2.0, is 2"),
    "zero's sign": (lambda w: put(w.config.extra, "more", -0.0), "config.extra.more: was 0.0, is -0.0"),
    "set": (lambda w: (w.ways.add("c"), lambda: w.ways.discard("c"))[1], "ways"),
    "namespace": (lambda w: put(w.config.extra, "more", 1.0), "config.extra.more"),
    "namespace replaced": (lambda w: put(w.config, "extra", types.SimpleNamespace(more=0.0)), "config.extra"),
    "dataclass": (lambda w: put(w.settings, "clip", 2.0), "settings.clip"),
    "global rebound": (lambda w: put(w.module, "settings", w.Config()), "program.settings"),
    "global function": (lambda w: put(w.module, "smooth", lambda value, more: value), "program.smooth"),
    "global over a builtin": (lambda w: put(w.module, "dict", None), "program.dict"),
    "closure cell": (lambda w: call(lambda v: setattr(cell(w, "offset"), "cell_contents", v), 1.0, 0.0),
                     "offset: was 0.0, is 1.0"),
    "tensor in a closure's list": (lambda w: put_item(cell(w, "weights").cell_contents, 0, torch.ones(1)),
                                   "weights[0]"),
    "default argument": (lambda w: call(lambda d: setattr(w.smooth, "__defaults__", d), (1.0, ),
                                        (0.0, )), "smooth.__defaults__"),
    "keyword default": (lambda w: put_item(w.smooth.__kwdefaults__, "more", 1.0), "smooth.__kwdefaults__"),
    "code": (lambda w: call(lambda c: setattr(w.smooth, "__code__", c),
                            (lambda value, by=0.0, *, more=0.0: value).__code__, w.smooth.__code__), "smooth.__code__"),
    "param group added": (
        lambda w:
        (w.optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]}), w.optimizer.param_groups.pop)[1],
        "param_groups"),
    "parameter of a group": (lambda w: append(w.optimizer.param_groups[0]["params"], nn.Parameter(torch.ones(1))),
                             "param_groups[0]['params']"),
    "lr": (lambda w: put_item(w.optimizer.param_groups[0], "lr", 0.5), "optimizer[0].param_groups[0]['lr']"),
    "betas": (lambda w: put_item(w.optimizer.param_groups[1], "betas",
                                 (0.5, 0.999)), "optimizer[0].param_groups[1]['betas']"),
    "weight decay": (lambda w: put_item(w.optimizer.param_groups[0], "weight_decay", 0.0),
                     "param_groups[0]['weight_decay']"),
    "foreach": (lambda w: put_item(w.optimizer.param_groups[0], "foreach", False), "param_groups[0]['foreach']"),
    "key of a group": (lambda w: put_item(w.optimizer.param_groups[0], "extra", 1), "param_groups[0]['extra']"),
    "optimizer's state": (lambda w: put_item(w.optimizer.state[w.decay[0]], "exp_avg", torch.zeros_like(w.decay[0])),
                          "state[0][0]['exp_avg']"),
    "optimizer's state gone": (lambda w: put_item(w.optimizer.state, w.decay[0], {}), "optimizer[0].state"),
    "optimizer's moments moved": (
        lambda w: put_data(w.optimizer.state[w.decay[0]]["exp_avg"], torch.zeros_like(w.decay[0])), "['exp_avg']"),
    "buffer replaced": (lambda w: put_item(w.model._buffers, "scale", torch.ones(1)), "model.scale"),
    "buffer added": (lambda w: put_item(w.model._buffers, "other", torch.ones(1)), "model.other"),
    "module replaced": (lambda w: put_item(w.model.blocks[0].mlp._modules, "1", nn.SiLU()), "blocks.0.mlp.1"),
    "module appended": (lambda w: (w.model.blocks.append(w.Block(8, 2)), w.model.blocks._modules.popitem)[1], "blocks"),
    "module made None": (lambda w: put_item(w.model._modules, "head", None), "model.head"),
    "grad mode": (lambda w: enter(torch.no_grad()), "grad mode"),
    "inference mode": (lambda w: enter(torch.inference_mode()), "mode"),
    "autocast": (lambda w: enter(torch.autocast("cpu", dtype=torch.bfloat16)), "autocast"),
    "autocast's dtype": (lambda w: call(lambda d: torch.set_autocast_dtype("cpu", d), torch.float16, torch.bfloat16),
                         "autocast's dtype"),
    "default dtype": (lambda w: call(torch.set_default_dtype, torch.float64, torch.float32), "the default dtype"),
    "function mode": (lambda w: enter(Modes()), "function modes"),
    "default device": (lambda w: enter(torch.device("meta")), "function modes"),
    "dispatch mode": (lambda w: enter(torch.utils._python_dispatch.TorchDispatchMode()), "dispatch modes"),
    "saved tensors' hooks": (lambda w: enter(torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)),
                             "saved_tensors_hooks"),
    "anomaly mode": (lambda w: enter(torch.autograd.detect_anomaly(check_nan=False)), "anomaly"),
    "deterministic": (lambda w: call(torch.use_deterministic_algorithms, True, False), "deterministic"),
    "precision": (lambda w: call(torch.set_float32_matmul_precision, "medium", "highest"), "precision"),
    "denormals": (lambda w: call(torch.set_flush_denormal, True, False), "denormals"),
    "attention's kernel": (lambda w: call(torch.backends.cuda.enable_math_sdp, False, True), "math kernel"),
}


def cell(world, name):
    function = world.module.step
    return function.__closure__[function.__code__.co_freevars.index(name)]
