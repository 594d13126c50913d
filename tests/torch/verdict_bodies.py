"""Small functions with the verdict that test_bytecode.py expects of each, and the objects that they use."""

import collections
import contextlib
import copy
import dataclasses
import functools
import itertools
import logging
import math
import operator
import os
import random
import sys
import time
import types

BUILD = os.environ.get("CRUCIBLE_BUILD") or sys.exit("set CRUCIBLE_BUILD to the build folder")
sys.path.insert(0, os.path.join(BUILD, "python"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.Linear(4, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
scaler = torch.amp.GradScaler("cpu")
many_lists = [[] for _ in range(30)]
log, table, counter = [], {}, 0
config = types.SimpleNamespace(width=4, deep={"scale": 2.0}, verbose=False, layers=[1, 2, 3])
source = iter([torch.ones(4)])
stream = logging.getLogger("test")
scale = torch.ones(4)


class Net(nn.Module):
    def __init__(self, depth=2, verbose=False):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(depth))
        self.verbose, self.calls, self.seen = verbose, 0, []

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = F.relu(layer(x))
        if self.verbose:
            print(x)
        if mask is not None:
            x = x * mask
        return x


class Counting(Net):
    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class Keeping(Net):
    def forward(self, x):
        x = super().forward(x)
        self.seen.append(x)
        return x


class Property(Net):
    @property
    def width(self):
        return 4

    def forward(self, x):
        return x * self.width


class Square(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        context.factor = 2
        return x * x

    @staticmethod
    def backward(context, gradient):
        x, = context.saved_tensors
        return context.factor * x * gradient


class Loud(Square):
    @staticmethod
    def backward(context, gradient):
        print("backward")
        return gradient


@dataclasses.dataclass
class Output:
    loss: object
    logits: object = None


class Memo:
    def __init__(self, x):
        self.values = [x]

    def add(self, x):
        self.values.append(x)
        return self

    def total(self):
        return sum(self.values)

    def __len__(self):
        return len(self.values)

    @property
    def first(self):
        return self.values[0]

    @first.setter
    def first(self, x):
        self.values[0] = x


class Setter:
    @property
    def value(self):
        return 1

    @value.setter
    def value(self, x):
        print(x)


class Watching:
    def __getattribute__(self, name):
        return 1


class Falsy:
    def __len__(self):
        print("asked")
        return 0


Pair = collections.namedtuple("Pair", "first second")


class Making:
    def __new__(cls):
        log.append(1)
        return super().__new__(cls)


class MakingPair(Pair):
    def __new__(cls, first, second):
        log.append(1)
        return super().__new__(cls, first, second)


class Odd:
    def __hash__(self):
        return len(log)

    def __index__(self):
        return len(log)

    def __str__(self):
        return str(len(log))


class Halved(nn.Linear):
    def forward(self, x):
        return super().forward(x) / 2


class Shout(nn.Module):
    def forward(self, x):
        print(x)
        return x


odd, falsy, halved, defaults = Odd(), Falsy(), Halved(4, 4), collections.defaultdict(list)
normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
loudly_parametrized = nn.Linear(4, 4)
nn.utils.parametrize.register_parametrization(loudly_parametrized, "weight", Shout(), unsafe=True)
net, loud, counting, keeping = Net(), Net(verbose=True), Counting(), Keeping()
nested = nn.Sequential(nn.Linear(4, 4), Counting())
quiet_nested = nn.Sequential(nn.Linear(4, 4), Net())


# Allowed, each as the body of a function of x, y (tensors), n (a number), flag (a bool) and batch (a dict of tensors).
FINE = {
    "a whole step": """
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()""",
    "autocast": "with torch.autocast('cpu', dtype=torch.bfloat16):\n    return model(x)",
    "no_grad":
    "with torch.no_grad():\n    for p, q in zip(model.parameters(), net.parameters()):\n        p.lerp_(q, 0.1)",
    "a user's module": "return net(x)",
    "a mask that is a tensor": "return net(x, mask=y)",
    "a module below torch's": "return quiet_nested(x)",
    "arithmetic": "return x * 2 + y / 3 - x @ y",
    "math": "return x * math.sqrt(4) * math.pi",
    "shapes": "b = x.shape[0]\nreturn x.view(b, -1).sum(dim=-1)",
    "a branch on a flag": "return x if flag else print(x)",
    "a branch on config": "if config.verbose:\n    print(x)\nreturn x * config.width * config.deep['scale']",
    "a branch on training": "if not model.training:\n    print(x)\nreturn x",
    "a branch on grad mode": "return x if torch.is_grad_enabled() else y",
    "a branch on a shape": "if x.shape[0] > 2:\n    return x\nreturn y",
    "a local list": "parts = []\nfor i in range(3):\n    parts.append(x * i)\nreturn torch.stack(parts)",
    "a local dict": "parts = {'a': x}\nparts['b'] = y\nparts.update(c=x)\nreturn sum(parts.values())",
    "a local set": "s = set()\ns.add(3)\nreturn x * len(s)",
    "comprehensions": "return torch.cat([part * 2 for part in x.split(2)] + [v for v in {'a': y}.values()])",
    "a generator expression": "return sum(part.sum() for part in x.split(2))",
    "a dict of tensors": "return batch['x'] * batch['y'] + batch.get('x')",
    "unpacking": "first, *rest = x.split(1)\nreturn first + rest[0]",
    "a local function": "def double(t):\n    return t * factor\nfactor = 2\nreturn double(x)",
    "a nonlocal of its own":
    "total = 0\ndef add(t):\n    nonlocal total\n    total = total + t\nadd(x)\nadd(y)\nreturn total",
    "a lambda": "return (lambda t: t + 1)(x)",
    "map and sorted": "return sum(map(torch.relu, [x, y])) * sorted([3, 1])[0]",
    "zip and enumerate": "return sum(i * a * b for i, (a, b) in enumerate(zip(x, y)))",
    "itertools": "return sum(a for a in itertools.chain([x], [y]))",
    "isinstance": "return x if isinstance(x, torch.Tensor) else print(x)",
    "getattr": "return x * getattr(config, 'width') * getattr(config, 'missing', 2)",
    "hasattr": "return x if hasattr(config, 'width') else print(x)",
    "formats": "assert flag, f'no {config.width}'\nreturn x",
    "an import of torch":
    "import torch.nn.functional as G\nfrom torch.nn.functional import gelu\nreturn gelu(G.relu(x))",
    "an object of its own": "return Memo(x).add(y).total()",
    "a dataclass": "out = Output(loss=x.sum())\nout.logits = x\nreturn out",
    "a named tuple": "pair = Pair(x, y)\nreturn pair.first + pair.second",
    "an autograd function": "return Square.apply(x)",
    "writes into tensors": "x[0] = 1\nx += y\nscale.mul_(2)\nreturn x",
    "gradients to None": "for p in model.parameters():\n    p.grad = None\nreturn x",
    "model.train() that changes nothing": "model.train()\nreturn model(x)",
    "partial": "return functools.partial(torch.add, x)(y)",
    "nullcontext": "with contextlib.nullcontext():\n    return x + 1",
    "autograd.grad": "return torch.autograd.grad(model(x).sum(), list(model.parameters()))",
    "checkpoint": "return torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False)",
    "try without a surprise": "try:\n    return x + 1\nfinally:\n    y = x",
    "while on a local number": "i = 0\nwhile i < 3:\n    x = x + 1\n    i += 1\nreturn x",
    "starred arguments": "def f(*a, **k):\n    return a[0] + k['b']\nreturn f(*(x, y), **{'b': y})",
    "keyword-only": "def f(a, *, b=1):\n    return a * b\nreturn f(x, b=2)",
    "a next of its own": "it = iter([x, y])\nreturn next(it) + next(it)",
    "torch's constructors": "return x + torch.zeros(4) + torch.arange(4) + torch.full((4,), 2.0) + torch.randn(4)",
    "match": "match flag:\n    case True:\n        return x\n    case _:\n        return y",
    "state of the optimizer": "return x * optimizer.param_groups[0]['lr']",
    "chained comparison": "if 0 < x.shape[0] <= 8:\n    return x\nreturn y",
    "modules by name": "return sum(p.abs().sum() for name, p in model.named_parameters() if 'bias' not in name)",
    "submodules": "for m in model.modules():\n    if isinstance(m, nn.Linear):\n        x = m(x)\nreturn x",
    "slices of a ModuleList": "for layer in net.layers[:1]:\n    x = layer(x)\nreturn x",
    "super().forward of torch": "return halved(x)",
    "an unbound method": "return torch.Tensor.add(x, y) + nn.Linear.forward(model[0], x)",
    "operators": "return operator.add(x, y) * operator.neg(3)",
    "an own length": "return x * len(Memo(x))",
    "a setter": "m = Memo(x)\nm.first = y\nreturn m.total()",
    "a parametrized weight": "return F.linear(x, normed.weight)",
    "a mode that is entered": "with torch.set_grad_enabled(flag):\n    return model(x)",
    "default dict of its own": "d = collections.defaultdict(list)\nd['a'].append(x)\nreturn sum(d['a'])",
}

# Refused: (body, what the first refusal says, its kind).
REFUSED = {
    "print": ("print(x)", "calls print", "refused"),
    "print in a module": ("return loud(x)", "calls print", "refused"),
    "input": ("input()", "calls input", "refused"),
    "open": ("open('/dev/null')", "calls open", "refused"),
    "next": ("return next(source)", "takes the next of source", "refused"),
    "iterating an iterator": ("for x in source:\n    y = x\nreturn y", "goes through source", "refused"),
    "random": ("return x * random.random()", "Python's random numbers", "refused"),
    "time": ("return x * time.time()", "reads the clock", "refused"),
    "environ": ("return x if os.environ.get('A') else y", "outside of the process", "refused"),
    "getenv": ("return x if os.getenv('A') else y", "outside of the process", "refused"),
    "logging": ("stream.info('x')\nreturn x", "writes a log", "refused"),
    "a global counter": ("global counter\ncounter += 1\nreturn x", "stores the global counter", "refused"),
    "an outer variable": ("def_outer", "stores the outer variable total", "refused"),
    "an outer list": ("log.append(x)\nreturn x", "changes log by append", "refused"),
    "an outer list through a name": ("a = [log]\na[0].append(x)\nreturn x", "changes log by append", "refused"),
    "an outer list through a function": ("def f(where):\n    where.append(x)\nf(log)\nreturn x",
                                         "changes log by append", "refused"),
    "an outer list by +=": ("a = log\na += [x]\nreturn x", "changes log", "refused"),
    "one of many outer lists": ("for one in many_lists:\n    one.append(x)\nreturn x", "by append", "refused"),
    "a branch on one of many numbers":
    ("for one in batch['many']:\n    if one > 3:\n        return x\nreturn y", "branches on argument",
     "number decides"),
    "an outer dict": ("table['a'] = x\nreturn x", "writes into table", "refused"),
    "an outer dict by update": ("table.update(a=x)\nreturn x", "changes table by update", "refused"),
    "an argument's dict": ("batch['z'] = x\nreturn x", "writes into argument batch", "refused"),
    "deleting an element": ("del batch['x']\nreturn x", "writes into argument batch", "refused"),
    "an attribute": ("config.width = 3\nreturn x", "stores config.width", "refused"),
    "setattr": ("setattr(config, 'width', 3)\nreturn x", "stores config.width", "refused"),
    "a deleted attribute": ("del config.width\nreturn x", "deletes config.width", "refused"),
    "an attribute of the module": ("return counting(x)", "stores counting.calls", "refused"),
    "a list of the module": ("return keeping(x)", "changes keeping.seen by append", "refused"),
    "below torch's module": ("return nested(x)", "stores", "refused"),
    "p.data": ("for p in model.parameters():\n    p.data = p.data * 2\nreturn x", "stores a tensor.data", "refused"),
    "an attribute of a tensor": ("x.note = None\nreturn x", "stores argument x.note", "refused"),
    "an outer list that was put into one": ("parts = []\nparts.extend([log])\nparts[0].append(x)\nreturn x",
                                            "changes log by append", "refused"),
    "an outer list that was put into a dict": ("parts = {}\nparts.update({'a': log})\nparts['a'].append(x)\nreturn x",
                                               "changes log by append", "refused"),
    "requires_grad": ("for p in model.parameters():\n    p.requires_grad = False\nreturn x", "requires_grad",
                      "refused"),
    "model.eval()": ("model.eval()\nreturn model(x)", "switches model by eval()", "refused"),
    "exec": ("exec('x = 1')\nreturn x", "made at run time", "refused"),
    "eval": ("return eval('x')", "made at run time", "refused"),
    "getattr of a moving name": ("return getattr(config, str(n))", "name that is not a constant", "refused"),
    "a seed": ("torch.manual_seed(0)\nreturn x", "torch.manual_seed", "refused"),
    "torch.save": ("torch.save(x, '/dev/null')", "torch.save", "refused"),
    "torch.load": ("return torch.load('/dev/null')", "torch.load", "refused"),
    "torch.compile": ("return torch.compile(model)(x)", "torch.compile", "refused"),
    "the default dtype": ("torch.set_default_dtype(torch.float64)\nreturn x", "torch.set_default_dtype", "refused"),
    "torch.cuda": ("torch.cuda.synchronize()\nreturn x", "torch.cuda", "refused"),
    "a hook": ("x.register_hook(print)\nreturn x", ".register_hook()", "refused"),
    "a module's hook": ("model.register_forward_hook(lambda *a: None)\nreturn x", "register_forward_hook", "refused"),
    "load_state_dict": ("model.load_state_dict({})\nreturn x", "load_state_dict", "refused"),
    "grad mode by a call": ("torch.set_grad_enabled(False)\nreturn x", "sets torch's mode", "refused"),
    "a generator": ("yield x", "generator", "refused"),
    "a coroutine": ("def_coroutine", "coroutine", "refused"),
    "an unknown argument": ("return batch['missing'](x)", "cannot be known", "refused"),
    "an import": ("import json\nreturn x", "imports json", "refused"),
    "a copy": ("return copy.deepcopy(x)", "copies objects", "refused"),
    "a class": ("class A:\n    pass\nreturn x", "makes a class", "refused"),
    "an except with a print": ("try:\n    return x + 1\nexcept ValueError:\n    print('no')\nreturn y", "calls print",
                               "refused"),
    "a print in a lambda for torch": ("return torch.utils.checkpoint.checkpoint(lambda t: print(t), x)", "calls print",
                                      "refused"),
    "a loud backward": ("return Loud.apply(x)", "calls print", "refused"),
    "a cache": ("return cached(4) * x", "whose cache lives longer", "refused"),
    "recursion": ("return recursive(x)", "calls itself", "refused"),
    "a property": ("return with_property(x)", "which is a property", "refused"),
    "an optimizer made inside": ("torch.optim.SGD(model.parameters(), lr=1.0).step()\nreturn x", "makes a SGD",
                                 "refused"),
    "add_param_group": ("optimizer.add_param_group({'params': []})\nreturn x", "cannot be known", "refused"),
    "a scripted function": ("return scripted(x)", "compiled by torch", "refused"),
    "a function in a list for torch": ("return torch.utils.checkpoint.checkpoint_sequential([net, loud], 2, x)",
                                       "calls print", "refused"),
    "a key of max": ("max([1, 2], key=log.append)\nreturn x", "changes log by append", "refused"),
    "a method for torch":
    ("return torch.utils.checkpoint.checkpoint(log.append, x)", "changes log by append", "refused"),
    "a class with its own making": ("Making()\nreturn x", "cannot be known", "refused"),
    "a named tuple with its own making": ("MakingPair(1, 2)\nreturn x", "cannot be known", "refused"),
    "a key with its own hash": ("return x, {odd: 1}", "uses odd as a key", "refused"),
    "an index of its own": ("return [x, y][odd]", "uses odd as a key", "refused"),
    "text of an object": ("return x, f'{odd}'", "makes text of odd", "refused"),
    "torch.backends": ("torch.backends.mkldnn.set_flags(False)\nreturn x", "set_flags", "refused"),
    "a mode that is entered by hand": ("torch.no_grad().__enter__()\nreturn x", "outlasts the call", "refused"),
    "truth of an object": ("return x if falsy else y", "asks whether falsy is true", "refused"),
    "a loud length": ("return x * len(falsy)", "calls print", "refused"),
    "a loud setter": ("m = Setter()\nm.value = x\nreturn x", "calls print", "refused"),
    "a loud parametrization": ("return F.linear(x, loudly_parametrized.weight)", "calls print", "refused"),
    "a default dict": ("return x * len(defaults['a'])", "made by reading it", "refused"),
    "operator.setitem": ("operator.setitem(table, 'a', x)\nreturn x", "writes into table", "refused"),
    "operator.iadd": ("operator.iadd(log, [x])\nreturn x", "changes log", "refused"),
    "list.append": ("list.append(log, x)\nreturn x", "changes log by append", "refused"),
    "dict.__setitem__": ("dict.__setitem__(table, 'a', x)\nreturn x", "cannot be known", "refused"),
    "object.__setattr__": ("object.__setattr__(config, 'width', 3)\nreturn x", "cannot be known", "refused"),
    "torch.Tensor.register_hook": ("torch.Tensor.register_hook(x, print)\nreturn x", ".register_hook()", "refused"),
    "nn.Module.train": ("nn.Module.train(model, False)\nreturn x", "switches model by train()", "refused"),
    "Optimizer.add_param_group": ("torch.optim.Optimizer.add_param_group(optimizer, {})\nreturn x", "cannot be known",
                                  "refused"),
    "vector_to_parameters": ("nn.utils.vector_to_parameters(x, model.parameters())\nreturn x", "vector_to_parameters",
                             "refused"),
    "an own attribute access": ("return x * Watching().value", "its own __getattribute__", "refused"),
    "item": ("return x.sum().item()", ".item()", "value leaves"),
    "tolist": ("return x.tolist()", ".tolist()", "value leaves"),
    "numpy of a tensor": ("return x.numpy()", ".numpy()", "value leaves"),
    "a branch on a tensor": ("if x.sum() > 0:\n    return x\nreturn y", "branches on a tensor", "value leaves"),
    "while on a tensor": ("while x.any():\n    x = x - 1\nreturn x", "branches on a tensor", "value leaves"),
    "not of a tensor": ("return not x.any()", "branches on a tensor", "value leaves"),
    "float of a tensor": ("return float(x.sum())", "makes a float of a tensor", "value leaves"),
    "text of a tensor": ("return f'{x}'", "makes text of a tensor", "value leaves"),
    "math of a tensor": ("return math.isnan(x.sum())", "of a tensor", "value leaves"),
    "max of tensors": ("return max(x.sum(), y.sum())", "min or max", "value leaves"),
    "torch.equal": ("return torch.equal(x, y)", "Python value", "value leaves"),
    "any over tensors": ("return any(t.sum() for t in [x, y])", "branches on a tensor", "value leaves"),
    "assert on a tensor": ("assert torch.isfinite(x).all()\nreturn x", "branches on a tensor", "value leaves"),
    "a branch on a number": ("return x if n > 3 else y", "branches on argument n", "number decides"),
    "a loop by a number": ("for _ in range(n):\n    x = x + 1\nreturn x", "as often as argument n", "number decides"),
    "an element by a number": ("return x * config.layers[n]", "picks an element of config.layers by argument n",
                               "number decides"),
    "a tensor of a number": ("return x * torch.tensor(n)", "makes a tensor of argument n", "number decides"),
    "a branch on lr": ("if optimizer.param_groups[0]['lr'] < 1:\n    return x\nreturn y", "branches on",
                       "number decides"),
    "the scheduler": ("scheduler.step()\nreturn x", "steps the scheduler scheduler", "scheduler"),
    "the scaler": ("scaler.scale(x.sum()).backward()", "uses the scaler scaler by scale", "scaler"),
}


@functools.lru_cache
def cached(n):
    return n


def recursive(x):
    return recursive(x) if x.shape[0] > 3 else x


def outer():
    total = 0

    def inner(x, y, n, flag, batch):
        nonlocal total
        total += 1
        return x
    return inner


def flag_of(x):
    return x.dim()


def model_step(x):
    for _ in range(3):
        x = net(net(x))
    return x


async def coroutine(x, y, n, flag, batch):
    return x


with_property = Property()


def function_of(body):
    """A function of x, y, n, flag and batch with the lines of `body`, in this module's globals."""
    if body.startswith("def_"):
        return outer() if body == "def_outer" else coroutine
    lines = "".join(f"    {line}\n" for line in __import__("textwrap").dedent(body).strip("\n").splitlines())
    made = {}
    exec(compile(f"def program(x, y, n, flag, batch):\n{lines}", f"<{body[:30]}>", "exec"), globals(), made)
    return made["program"]


def arguments():
    x = torch.ones(4, 4)
    return x, torch.ones(4, 4), 3, True, {"x": x, "y": x, "many": list(range(30))}


@torch.jit.script
def scripted(x):
    return x + 1
