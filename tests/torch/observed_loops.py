"""Training loops for test_rules.py: optimizers of every class under every schedule, the numbers that they hand to ops,
and what a policy does with rules: it observes calls, finds the rules, answers further calls with them, observes again where
they have no numbers."""

import random

import torch
from torch.optim import lr_scheduler
from torch.utils._python_dispatch import TorchDispatchMode

from crucible_torch.accelerate.expressions import bits
from crucible_torch.accelerate.rules import Snapshot, find

FORMS = {
    "Adadelta": ("foreach", "single"),
    "Adagrad": ("foreach", "single", "fused"),
    "Adam": ("foreach", "single", "fused"),
    "AdamW": ("foreach", "single", "fused"),
    "Adamax": ("foreach", "single"),
    "ASGD": ("foreach", "single"),
    "Muon": ("single",),
    "NAdam": ("foreach", "single"),
    "RAdam": ("foreach", "single"),
    "RMSprop": ("foreach", "single"),
    "Rprop": ("foreach", "single"),
    "SGD": ("foreach", "single", "fused"),
}


def form_of(form):
    return {"foreach": {"foreach": True}, "single": {"foreach": False}, "fused": {"fused": True}}[form]


def _cycles(optimizer):
    return "betas" in optimizer.param_groups[0] or "momentum" in optimizer.param_groups[0]


SCHEDULES = {
    "none": lambda o: None,
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.95**epoch * (1 + epoch % 3)),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.9 + 0.01 * epoch),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 4, 0.3),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [2, 3, 9], 0.3),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, 0.5, 6),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, 0.1, 1.0, 8),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 10, 2.0),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 9),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 1e-4, 1e-2, step_size_up=5, cycle_momentum=_cycles(o)),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 1e-2, total_steps=40, cycle_momentum=_cycles(o)),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, 1.0, 4), lr_scheduler.ExponentialLR(o, 0.9)], [4]),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(o, 0.1, 1.0, 4), lr_scheduler.ExponentialLR(o, 0.9)]),
    "SWALR": lambda o: torch.optim.swa_utils.SWALR(o, swa_lr=0.05, anneal_epochs=5),
}


def advance(schedule, call):
    if isinstance(schedule, lr_scheduler.ReduceLROnPlateau):
        schedule.step(1.0 + call % 4)
    elif schedule is not None:
        schedule.step()


class Numbers(TorchDispatchMode):
    """The ops of a block, and the numbers that they got: (where in the block, op and argument) and number of each."""

    def __init__(self):
        super().__init__()
        self.ops, self.found, self.left = [], [], []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = [argument.name for argument in function._schema.arguments]
        for key, value in [*zip(schema, args), *kwargs.items()]:
            for i, item in enumerate(value if isinstance(value, (list, tuple)) else [value]):
                if type(item) in (int, float):
                    self.found.append((f"{function._schema.name}.{key} [{len(self.ops)}, {i}]", item))
        self.ops.append(str(function))
        result = function(*args, **kwargs)
        if isinstance(result, (int, float)):
            self.left.append(result)
        return result


class Call:
    """What one observed call did."""

    def __init__(self, snapshot, seen):
        self.snapshot, self.left = snapshot, seen.left
        self.numbers = [value for _, value in seen.found]
        self.names = [name for name, _ in seen.found]
        self.kind = (tuple(seen.ops), tuple(self.names), tuple(map(type, self.numbers)))


def slots_of(calls):
    """As the lowering makes them: what differs between the calls; equal names and numbers are one slot."""
    slots, places = [], {}
    for at, name in enumerate(calls[0].names):
        values = [call.numbers[at] for call in calls]
        if len(set(map(bits, values))) > 1:
            key = (name.split(" ")[0], tuple(map(bits, values)))
            if key not in places:
                places[key] = (len(slots), [])
                slots.append((key[0], all(type(value) is int for value in values), values))
            places[key][1].append(at)
    return slots, dict(places.values())


class Policy:
    """Answers calls by rule. `answered`, `observed`: how many calls; `wrong`: what rules gave that eager did not."""

    def __init__(self, optimizers, observe=3):
        self.optimizers, self._observe = optimizers, observe
        self.rules, self._calls, self._baked, self._places = None, [], {}, {}
        self.answered, self.observed, self.wrong, self.refused = 0, 0, [], None
        self.asked = None  # called where there are rules, before each call

    def call(self, run, arguments=None):
        arguments = arguments or {}
        snapshot = Snapshot.take(self.optimizers, arguments)
        values = self.rules.values(self.optimizers, arguments) if self.rules is not None else None
        if values is not None and any(not _same(snapshot.numbers.get(path), old) for path, old in self._baked.items()):
            values = None  # a guard says so
        with Numbers() as seen:
            run()
        call = Call(snapshot, seen)
        if values is None:
            self.observed += 1
            self._learn(call)
            return None
        self.answered += 1
        self._compare(call, values)
        return values

    def _compare(self, call, values):
        last = self._calls[-1]
        if call.kind != last.kind:
            self.wrong.append("other ops or other types of numbers than in the observed calls")
            return
        expected = list(last.numbers)
        for slot, places in self._places.items():
            for at in places:
                expected[at] = values[slot]
        for name, got, eager in zip(call.names, expected, call.numbers):
            if not _same(got, eager) and bits(float(got)) != bits(float(eager)):
                self.wrong.append(f"{name}: {got!r} by rule, {eager!r} of eager")

    def _learn(self, call):
        if self.rules is not None:
            self.rules.recheck()
        self._calls = [*(old for old in self._calls if old.kind == call.kind), call][-self._observe:]
        if len(self._calls) < self._observe:
            self.rules = None
            return
        slots, self._places = slots_of(self._calls)
        self.rules = find(slots, [old.snapshot for old in self._calls], [old.left for old in self._calls])
        self._baked = {path: call.snapshot.numbers[path] for path in self.rules.baked(self.optimizers)}


def _same(a, b):
    return type(a) is type(b) and bits(a) == bits(b)


def parameters(generator, dtype=torch.float32, count=2, square=False):
    shapes = [(3, 2), (2, 4), (4, 4)] if square else [(3, 2), (4,), (2, 2)]
    return [torch.nn.Parameter(torch.randn(shapes[i % 3], generator=generator, dtype=torch.float32).to(dtype))
            for i in range(count)]


def step(optimizer, generator):
    """One step on gradients by chance."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
    optimizer.step()


def random_optimizer(draw: random.Random, generator):
    """An optimizer of a class, form and hyperparameters by chance, in words with it."""
    name = draw.choice(sorted(FORMS))
    form = draw.choice(FORMS[name])
    some = lambda *choices: draw.choice(choices)  # noqa: E731
    rate = lambda: some(10**draw.uniform(-6, 0), 0.1, 0.01, 1, 0.3)  # noqa: E731
    options = {"lr": rate(), **({} if name == "Muon" else form_of(form))}
    if name != "Rprop":
        options["weight_decay"] = some(0, 0.0, 0.01, 10**draw.uniform(-8, -1))
    if name in ("Adam", "AdamW", "Adamax", "NAdam", "RAdam"):
        options["betas"] = (draw.uniform(0.5, 0.99), some(0.999, 0.99, draw.uniform(0.9, 0.9999)))
    if name in ("Adam", "AdamW"):
        options["amsgrad"] = some(True, False)
    if name in ("NAdam", "RAdam"):
        options["decoupled_weight_decay"] = some(True, False)
    if name == "NAdam":
        options["momentum_decay"] = some(0.004, draw.uniform(0, 0.1))
    if name in ("SGD", "RMSprop"):
        options["momentum"] = some(0, 0.9, draw.random())
    if name == "SGD":
        options["nesterov"] = options["momentum"] > 0 and some(True, False)
        options["dampening"] = 0 if options["nesterov"] else some(0, 0.1, draw.random())
    if name == "RMSprop":
        options |= {"alpha": draw.uniform(0.8, 0.999), "centered": some(True, False)}
    if name == "Adagrad":
        options["lr_decay"] = some(0, 0.1, draw.random())
    if name == "Adadelta":
        options["rho"] = draw.uniform(0.5, 0.99)
    if name == "ASGD":
        options |= {"lambd": 10**draw.uniform(-5, -2), "t0": some(1e6, 7), "alpha": draw.uniform(0.3, 1)}
    if name == "Muon":
        options |= {"momentum": draw.uniform(0.5, 0.99), "adjust_lr_fn": some(None, "match_rms_adamw"), "ns_steps": 1}
    if name != "Muon":
        options["maximize"] = some(True, False)
    dtype = some(torch.float32, torch.float32, torch.bfloat16, torch.float64) if form != "fused" else torch.float32
    groups = []
    for _ in range(draw.randint(1, 3)):
        group = {"params": parameters(generator, dtype, draw.randint(1, 3), name == "Muon")}
        if draw.random() < 0.5:
            group["lr"] = rate()
        groups.append(group)
    return getattr(torch.optim, name)(groups, **options), f"{name} {form} {options} {len(groups)} groups"


class Lion(torch.optim.Optimizer):
    """An optimizer of somebody's own."""

    def __init__(self, some, lr, betas=(0.9, 0.99), weight_decay=0.1):
        super().__init__(some, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["step"], state["average"] = 0, torch.zeros_like(parameter)
                state["step"] += 1
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                state["average"].lerp_(parameter.grad, 1 - group["betas"][1])
                first, second = (1 - beta**state["step"] for beta in group["betas"])
                size = group["lr"] * second**0.5 / first
                parameter.add_(state["average"].sign(), alpha=-size)


class Patient(torch.optim.SGD):
    """Of torch's class, but with a step of its own."""

    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data.add_(parameter.grad, alpha=-group["lr"])


class Named(torch.optim.SGD):
    """Torch's in all but the name."""


class SGD(torch.optim.Optimizer):
    """Somebody's own class, of the name of one of torch's."""

    def __init__(self, some, lr, momentum=0.0, dampening=0.0, weight_decay=0.0):
        super().__init__(some, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad, alpha=-group["lr"])


Own = SGD
