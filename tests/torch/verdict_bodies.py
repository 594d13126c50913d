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
log, table, counter, tallies = [], {}, 0, {'a': 0}
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
        print(name)
        return 1


class Renamed:
    """Attributes by other names, as configurations have them."""
    names = {"size": "width"}

    def __init__(self):
        self.width = 4

    def __getattribute__(self, name):
        if name != "names" and name in super().__getattribute__("names"):
            name = super().__getattribute__("names")[name]
        return super().__getattribute__(name)

    def read(self, name):
        return getattr(self, name)


class Fallback:
    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Noisy:
    count = 0

    @property
    def width(self):
        print("width")
        return 4

    @property
    def counted(self):
        self.count += 1
        return self.count

    def keep(self, x):
        super().__setattr__("kept", x)


class Keeper:
    def __setattr__(self, name, value):
        log.append(value)


class Named(collections.OrderedDict):
    def __init__(self, **given):
        super().__init__(**given)


def call_end(a, end=None):
    if end is not None:
        end(a)
    return a


ending = functools.partial(call_end, end=print)


class Late:
    """An attribute that the class has until the object has its own."""
    ready = False

    def get(self, x):
        if not self.ready:
            print("not yet")
            self.ready = True
        return x


class Valued:
    def __init__(self, value):
        self.value = value

    def __bool__(self):
        return self.value > 0


class Full:
    def __len__(self):
        return 3


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


noisy, renamed, fallback = Noisy(), Renamed(), Fallback(config)
odd, falsy, full, halved, defaults = Odd(), Falsy(), Full(), Halved(4, 4), collections.defaultdict(list)
normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
loudly_parametrized = nn.Linear(4, 4)
nn.utils.parametrize.register_parametrization(loudly_parametrized, "weight", Shout(), unsafe=True)
net, loud, counting, keeping = Net(), Net(verbose=True), Counting(), Keeping()
nested = nn.Sequential(nn.Linear(4, 4), Counting())
quiet_nested = nn.Sequential(nn.Linear(4, 4), Net())


# Allowed, each as the body of a function of x, y (tensors), n (a number), flag (a bool) and batch (a dict of tensors).

SET = {  # what a call sets to values that are guarded, by paths
    "an attribute": ("config.width = 3\nreturn x", ["config.width"]),
    "setattr": ("setattr(config, 'width', 3)\nreturn x", ["config.width"]),
    "object.__setattr__": ("object.__setattr__(config, 'width', 3)\nreturn x", ["config.width"]),
    "an entry": ("tallies['a'] = 3\nreturn x", ["tallies['a']"]),
    "a mode": ("model.eval()\nreturn model(x)",
               ["model.training", "model.0.training", "model.1.training", "model.2.training"]),
    "what is there": ("config.width = 4\nmodel.train()\nreturn model(x)", []),
}
REFUSED = {
    "print": ("print(x)", "calls print", "refused"),
    "print in a module": ("return loud(x)", "calls print", "refused"),
    "input": ("input()", "calls input", "refused"),
    "open": ("open('/dev/null')", "calls open", "refused"),
    "next": ("return next(source)", "takes the next of source", "refused"),
    "iterating an iterator": ("for x in source:\n    y = x\nreturn y", "goes through source", "refused"),
    "random": ("return x * random.random()", "Python's random numbers", "refused"),
    "time": ("return x * time.time()", "reads the clock", "refused"),
    "environ": ("os.environ['A'] = 'b'\nreturn x", "lives longer", "refused"),
    "a variable of a moving name": ("return x if os.getenv(str(n)) else y", "whose name is not a constant", "refused"),
    "other files": ("return x if os.path.exists('/a') else y", "may have effects", "refused"),
    "logging": ("stream.info('x')\nreturn x", "writes a log", "refused"),
    "a global module": ("global counter\ncounter = model\nreturn x", "stores the global counter", "refused"),
    "a global counter that is computed with":
    ("global counter\ncounter += 1\nreturn x * counter", "a tensor and a number that it reads from a tensor or keeps (counter)",
     "value leaves"),
    "a global counter in a key": ("global counter\ncounter += 1\nreturn {}[counter]", "or keeps (counter)", "value leaves"),
    "a count of what moves": ("global counter\ncounter += n\nreturn x", "computes with argument n", "number decides"),
    "an element of an argument": ("batch['x'] = y\nreturn x", "writes into argument batch", "refused"),
    "a count in an argument": ("batch['n'] += 1\nreturn x", "writes into argument batch", "refused"),
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
    "an attribute": ("config.width = [3]\nreturn x", "stores config.width", "refused"),
    "setattr": ("setattr(config, 'width', [3])\nreturn x", "stores config.width", "refused"),
    "a deleted attribute": ("del config.width\nreturn x", "deletes config.width", "refused"),
    "a list of the module": ("return keeping(x)", "changes keeping.seen by append", "refused"),
    "p.data": ("for p in model.parameters():\n    p.data = p.data * 2\nreturn x", "stores a tensor.data", "refused"),
    "an attribute of a tensor": ("x.note = None\nreturn x", "stores argument x.note", "refused"),
    "an outer list that was put into one": ("parts = []\nparts.extend([log])\nparts[0].append(x)\nreturn x",
                                            "changes log by append", "refused"),
    "an outer list that was put into a dict": ("parts = {}\nparts.update({'a': log})\nparts['a'].append(x)\nreturn x",
                                               "changes log by append", "refused"),
    "requires_grad": ("for p in model.parameters():\n    p.requires_grad = x\nreturn x", "requires_grad", "refused"),
    "a mode that is a tensor": ("model.train(x.sum() > 0)\nreturn model(x)", "switches model by train()", "refused"),
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
    "a cache of lists": ("return cached_list(4)[0] * x", "whose cache lives longer", "refused"),
    "recursion": ("return recursive(x)", "calls itself", "refused"),
    "a loud property": ("return x * Noisy().width", "calls print", "refused"),
    "a loud property of an outer object": ("return x * noisy.width", "calls print", "refused"),
    "a property that stores": ("return x * noisy.counted", "stores noisy.count", "refused"),
    "super().__setattr__ of an outer object": ("noisy.keep(x)\nreturn x", "stores noisy.kept", "refused"),
    "an own __setattr__ that keeps": ("k = Keeper()\nk.value = x\nreturn x", "changes log by append", "refused"),
    "an own access of a moving name": ("return x * Renamed().read(str(n))", "name that is not a constant", "refused"),
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
    "a dict of its own class that may be empty":
    ("d = Named(a=x)\nd.pop('a')\nif not d:\n    print(x)\nreturn x", "calls print", "refused"),
    "a keyword of a partial that may be overridden":
    ("d = {}\nif x.shape[0] > flag_of(x):\n    d['end'] = None\n"
     "return ending(x, **d)", "which prints", "refused"),
    "an attribute that its class has at first": ("return Late().get(x)", "calls print", "refused"),
    "a factor of what was filled with a tensor":
    ("m = torch.zeros(4, 4)\nm[0] = x[0]\nreturn y * m.sum().item()", "computes with a tensor and a number", "value leaves"),
    "a factor of what was written through a view":
    ("m = torch.zeros(4, 4)\nm.view(-1)[:4].copy_(x[0])\nreturn y * m.sum().item()", "computes with a tensor and a number",
     "value leaves"),
    "a factor of what was written through .data":
    ("m = torch.zeros(4, 4)\nm.data.add_(x)\nreturn y * m.sum().item()", "computes with a tensor and a number",
     "value leaves"),
    "a factor of what was written by +=":
    ("m = torch.zeros(4, 4)\nv = m[0]\nv += x[0]\nreturn y * m.sum().item()", "computes with a tensor and a number",
     "value leaves"),
    "a factor of what an op wrote into":
    ("m = torch.zeros(4, 4)\ntorch.add(x, y, out=m)\nreturn y * m.sum().item()", "computes with a tensor and a number",
     "value leaves"),
    "a factor of what a function may write into":
    ("m = torch.zeros(4, 4)\ndef f(t):\n    t.add_(x)\n    return t\ntorch.utils.checkpoint.checkpoint(f, m)\n"
     "return y * m.sum().item()", "computes with a tensor and a number", "value leaves"),
    "a factor of what a moving number fills":
    ("return y * torch.full((4,), n).sum().item()", "computes with a tensor and a number", "value leaves"),
    "a factor of drawn numbers": ("return y * torch.rand(4).sum().item()", "computes with a tensor and a number",
                                  "value leaves"),
    "a keyword that may be there": ("d = {}\nif x.shape[0] > 2:\n    d['end'] = print\ndef f(a, end=None):\n"
                                    "    if end is not None:\n        end(a)\n    return a\nreturn f(x, **d)",
                                    "calls print", "refused"),
    "a named tuple with its own making": ("MakingPair(1, 2)\nreturn x", "cannot be known", "refused"),
    "a key with its own hash": ("return x, {odd: 1}", "uses odd as a key", "refused"),
    "an index of its own": ("return [x, y][odd]", "uses odd as a key", "refused"),
    "text of an object": ("return x, f'{odd}'", "makes text of odd", "refused"),
    "torch.backends": ("torch.backends.mkldnn.set_flags(False)\nreturn x", "set_flags", "refused"),
    "a mode that is entered by hand": ("torch.no_grad().__enter__()\nreturn x", "outlasts the call", "refused"),
    "truth of an object that is loud": ("return x if falsy else y", "calls print", "refused"),
    "truth of an object by a number": ("return x if Valued(x.sum().item()) else y", "its class answers by a value", "refused"),
    "a loud length": ("return x * len(falsy)", "calls print", "refused"),
    "a loud setter": ("m = Setter()\nm.value = x\nreturn x", "calls print", "refused"),
    "a loud parametrization": ("return F.linear(x, loudly_parametrized.weight)", "calls print", "refused"),
    "a default dict": ("return x * len(defaults['a'])", "made by reading it", "refused"),
    "operator.setitem": ("operator.setitem(table, 'a', x)\nreturn x", "writes into table", "refused"),
    "operator.iadd": ("operator.iadd(log, [x])\nreturn x", "changes log", "refused"),
    "list.append": ("list.append(log, x)\nreturn x", "changes log by append", "refused"),
    "dict.__setitem__": ("dict.__setitem__(table, 'a', x)\nreturn x", "cannot be known", "refused"),
    "object.__setattr__": ("object.__setattr__(config, 'width', [3])\nreturn x", "stores config.width", "refused"),
    "torch.Tensor.register_hook": ("torch.Tensor.register_hook(x, print)\nreturn x", ".register_hook()", "refused"),
    "nn.Module.train": ("nn.Module.train(model, x)\nreturn x", "switches model by train()", "refused"),
    "Optimizer.add_param_group": ("torch.optim.Optimizer.add_param_group(optimizer, {})\nreturn x", "cannot be known",
                                  "refused"),
    "vector_to_parameters": ("nn.utils.vector_to_parameters(x, model.parameters())\nreturn x", "vector_to_parameters",
                             "refused"),
    "a loud attribute access": ("return x * Watching().value", "calls print", "refused"),
    "an index that is read": ("return batch['many'][int(x.sum())]", "picks an element by a number", "value leaves"),
    "a slice that is read": ("return x[:int(x.sum())]", "slices by a number", "value leaves"),
    "an element of a tensor": ("return x[x.argmax().item()]", "picks an element by a number", "value leaves"),
    "a key that is read": ("return {x.sum().item(): 1}", "picks an element by a number", "value leaves"),
    "a set of what is read": ("return {x.sum().item()}", "picks an element by a number", "value leaves"),
    "keys that are read": ("return {v: 1 for v in x.tolist()}", "picks an element by a number", "value leaves"),
    "a count that is read": ("return [x for _ in range(int(x.sum()))]", "calls range with a number", "value leaves"),
    "an argument that is read": ("return torch.full((2,), x.sum().item())", "calls torch.full with a number", "value leaves"),
    "a factor that is read": ("return y * x.sum().item()", "computes with a tensor and a number", "value leaves"),
    "a store that is read": ("y = y.clone()\ny[0] = x.sum().item()\nreturn y", "writes into a tensor a number",
                             "value leaves"),
    "a method's argument that is read": ("return y.clamp(x.sum().item())", "calls .clamp() with a number",
                                         "value leaves"),
    "a module's argument that is read": ("return nn.Linear.forward(model, x.sum().item())", "a number",
                                         "value leaves"),
    "an exception that is read": ("raise ValueError(x.sum().item())", "calls ValueError with a number",
                                  "value leaves"),
    "text of what is read": ("return '%f' % x.sum().item()", "makes text of a number", "value leaves"),
    "text of more that is read": ("return '%f %f' % (1.0, x.sum().item())", "makes text of a number", "value leaves"),
    "an identity that is read": ("return (x.sum().item() > 3) is True", "compares by `is` a number", "value leaves"),
    "a type that is read": ("return isinstance(x.sum().item(), float)", "calls isinstance with a number",
                            "value leaves"),
    "an attribute that is read": ("return x.sum().item().real", "uses .real of a number", "value leaves"),
    "a sum of both": ("return sum([1.0, x.sum().item()])", "adds by sum()", "value leaves"),
    "within what is read": ("return 3 in x.tolist()", "looks for a number", "value leaves"),
    "an object of what is read": ("m = Memo(x.sum().item())\nreturn m", "returns a Memo with a number",
                                  "value leaves"),
    "pairs that are compared": ("return (1, x.sum().item()) < (1, 2)", "compares a number", "value leaves"),
    "a closure of what is read": ("v = x.sum().item()\nreturn lambda: v", "returns", "value leaves"),
    "hex of what is read": ("return hex(int(x.sum()))", "calls hex with a number", "value leaves"),
    "an operator of what is read": ("return operator.index(int(x.sum()))", "with a number", "value leaves"),
    "math that is not followed": ("return math.fsum(x.tolist())", "with a number", "value leaves"),
    "a number with a rate": ("return x.sum().item() * optimizer.param_groups[0]['lr']", "computes with",
                             "number decides"),
    "the scaler's scale": ("scaler.update(2.0)\nreturn x", "sets the scale of scaler", "scaler"),
    "numpy of a tensor": ("return x.numpy()", ".numpy()", "value leaves"),
    "text of a tensor": ("return f'{x}'", "makes text of a tensor", "value leaves"),
    "max of tensors": ("return max(x.sum(), y.sum())", "min or max", "value leaves"),
    "torch.equal": ("return torch.equal(x, y)", "Python value", "value leaves"),
    "a branch on a number": ("return x if n > 3 else y", "branches on argument n", "number decides"),
    "a loop by a number": ("for _ in range(n):\n    x = x + 1\nreturn x", "as often as argument n", "number decides"),
    "an element by a number": ("return x * config.layers[n]", "picks an element of config.layers by argument n",
                               "number decides"),
    "a tensor of a number": ("return x * torch.tensor(n)", "makes a tensor of argument n", "number decides"),
    "a branch on lr": ("if optimizer.param_groups[0]['lr'] < 1:\n    return x\nreturn y", "branches on",
                       "number decides"),
    "the scheduler": ("scheduler.step()\nreturn x", "steps the scheduler scheduler", "scheduler"),
}


@functools.lru_cache
def cached(n):
    return n


@functools.lru_cache
def cached_list(n):
    return [n]


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
