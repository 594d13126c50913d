"""What the classes of torch.optim compute in Python from their numbers, in the order of their own operations, so that
the same bits come out. Read from torch/optim/*.py of torch 2.11; another torch is no danger, because a formula counts
only where it gave every observed number bit for bit (rules.py).

Of each family: names of numbers in param_groups and in the state, intermediates, what is handed to ops, and conditions
that decide which ops run. Formulas of the forms foreach, single and fused stand side by side. `step` is the count that
the step uses."""

import dataclasses
import inspect
import math


@dataclasses.dataclass(frozen=True, eq=False)
class Family:
    names: dict  # name in formulas: key of param_groups, or key and index
    gives: tuple  # formulas of the numbers that ops get
    states: tuple = ()  # keys of numbers in the state, beside which the formulas stand
    helpers: dict = dataclasses.field(default_factory=dict)  # name: formula over names, states and helpers before it
    conditions: tuple = ()  # that decide in Python which ops run
    by_shape: bool = False  # `ratio` is a function of a parameter's shape: adjusted_ratio()
    values: str = ""  # what it reads from tensors to make numbers, in words; "" where it reads nothing


_COMMON = {"lr": "lr", "weight_decay": "weight_decay"}
_BETAS = {"beta1": ("betas", 0), "beta2": ("betas", 1)}
_CORRECTIONS = {"correction1": "1 - beta1 ** step", "correction2": "1 - beta2 ** step"}
_MOMENTS = ("1 - beta1", "beta2", "1 - beta2", "beta1", "eps", "weight_decay")

ADAM = Family(
    names=_COMMON | _BETAS | {"eps": "eps"}, states=("step",), helpers=_CORRECTIONS,
    gives=("-(lr / correction1)", "correction2 ** 0.5", "1 - lr * weight_decay", "lr", *_MOMENTS), conditions=("weight_decay != 0",))

ADAMAX = Family(names=_COMMON | _BETAS | {"eps": "eps"}, states=("step",), helpers=_CORRECTIONS,
                gives=("-(lr / correction1)", "1 - beta1", "beta2", "beta1", "lr", "eps", "weight_decay"),
                conditions=("weight_decay != 0",))

NADAM = Family(
    names=_COMMON | _BETAS | {"eps": "eps", "momentum_decay": "momentum_decay"}, states=("step", "mu_product"),
    helpers=_CORRECTIONS | {
        "mu": "beta1 * (1.0 - 0.5 * (0.96 ** (step * momentum_decay)))",
        "next": "beta1 * (1.0 - 0.5 * (0.96 ** ((step + 1) * momentum_decay)))",
        "product": "kept(mu_product * kept(mu))",  # mu_product *= mu, in the tensor's precision
    },
    gives=("-lr * (1.0 - mu) / (1.0 - product)", "(-lr * next) / (1.0 - product * next)", "mu", "correction2 ** 0.5",
           "correction2", "1 - lr * weight_decay", "lr", "momentum_decay", *_MOMENTS),
    conditions=("weight_decay != 0",))

RADAM = Family(
    names=_COMMON | _BETAS | {"eps": "eps"}, states=("step",),
    helpers=_CORRECTIONS | {
        "rho_inf": "2 / (1 - beta2) - 1",
        "rho": "rho_inf - 2 * step * (beta2 ** step) / correction2",
        "rect": "((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)) ** 0.5 if rho > 5 else 0",
        "unrectified": "0 if rect > 0 else 1.0",
    },
    gives=("rect", "correction2 ** 0.5", "correction1", "lr", "(correction2 ** 0.5) * (lr * rect / correction1) * -1",
           "(lr * unrectified / correction1) * -1", "1 - lr * weight_decay", *_MOMENTS, "rho_inf",
           "(rho_inf - 4) * (rho_inf - 2)"), conditions=("weight_decay != 0", "rho > 5.0"))

ADADELTA = Family(names=_COMMON | {"rho": "rho", "eps": "eps"},
                  gives=("-lr", "rho", "1 - rho", "eps", "weight_decay"), conditions=("weight_decay != 0",))

ADAGRAD = Family(names=_COMMON | {"lr_decay": "lr_decay", "eps": "eps"}, states=("step",),
                 gives=("-lr / (1 + (step - 1) * lr_decay)", "lr", "lr_decay", "eps", "weight_decay"),
                 conditions=("weight_decay != 0",))

ADAFACTOR = Family(
    names=_COMMON | {"beta2_decay": "beta2_decay", "eps1": ("eps", 0), "eps2": ("eps", 1), "d": "d"}, states=("step",),
    gives=("step ** beta2_decay", "1 - lr * weight_decay", "eps1", "eps1 * eps1", "eps2"),
    conditions=("weight_decay != 0", "lr < 1 / (step ** 0.5)"),
    values="the norms of parameters and updates, by .item(), for its step sizes")

ASGD = Family(
    names=_COMMON | {"lambd": "lambd", "alpha": "alpha", "t0": "t0"}, states=("step", "eta", "mu"),
    helpers={"rate": "lr / ((1 + lambd * lr * step) ** alpha)", "average": "1 / max(1, step - t0)"},
    gives=("1 - lambd * eta", "-eta", "rate", "kept(rate)", "average", "kept(average)", "lr", "lambd * lr", "lambd",
           "alpha", "weight_decay", "t0"), conditions=("weight_decay != 0", "mu == 1"))

RMSPROP = Family(names=_COMMON | {"alpha": "alpha", "eps": "eps", "momentum": "momentum"},
                 gives=("-lr", "alpha", "1 - alpha", "eps", "momentum", "weight_decay"),
                 conditions=("weight_decay != 0", "momentum > 0"))

RPROP = Family(
    names={"eta1": ("etas", 0), "eta2": ("etas", 1), "least": ("step_sizes", 0), "most": ("step_sizes", 1)},
    gives=("eta1", "eta2", "least", "most"))

SGD = Family(names=_COMMON | {"momentum": "momentum", "dampening": "dampening"},
             gives=("-lr", "lr", "momentum", "1 - dampening", "weight_decay", "dampening"),
             conditions=("weight_decay != 0", "momentum != 0"))

MUON = Family(names=_COMMON | {"momentum": "momentum", "eps": "eps"}, by_shape=True,
              gives=("1 - momentum", "momentum", "1 - lr * weight_decay", "-(lr * ratio)", "eps"))

# Of optimizers that are not torch's: what they mostly compute.
LIKE_ADAM = Family(
    names={"lr": "lr"} | _BETAS, states=("step",), helpers=_CORRECTIONS,
    gives=("-(lr * correction2 ** 0.5 / correction1)", "-(lr / correction1)", "lr / correction1",
           "lr * correction2 ** 0.5 / correction1", "lr * (correction2 ** 0.5 / correction1)", "correction2 ** 0.5",
           "correction1", "correction2"))

FAMILIES = {
    "Adadelta": ADADELTA, "Adafactor": ADAFACTOR, "Adagrad": ADAGRAD, "Adam": ADAM, "AdamW": ADAM, "Adamax": ADAMAX,
    "ASGD": ASGD, "Muon": MUON, "NAdam": NADAM, "RAdam": RADAM, "RMSprop": RMSPROP, "Rprop": RPROP, "SGD": SGD,
}

REFUSED = {
    "SparseAdam": "its gradients are sparse and have other places in each call",
    "LBFGS": "it calls its closure as often as the losses' values ask for",
}

STATE_KEYS = ("step", "mu_product", "eta", "mu")  # numbers in tensors of one element on the CPU


def class_of(optimizer):
    """The name of the class of torch.optim whose step() the optimizer has, or None: it is of somebody else's class.
    torch wraps the step() of each class once it makes one of it, and schedulers do."""
    step = inspect.unwrap(type(optimizer).step)
    name, _, method = getattr(step, "__qualname__", "").partition(".")
    is_torchs = getattr(step, "__module__", "").split(".")[:2] == ["torch", "optim"] and method == "step"
    return name if is_torchs and (name in FAMILIES or name in REFUSED) else None


def adjusted_ratio(shape, adjust):
    """What Muon multiplies the learning rate with for a matrix of that shape."""
    rows, columns = shape[:2]
    if adjust is None or adjust == "original":
        return math.sqrt(max(1, rows / columns))
    return 0.2 * math.sqrt(max(rows, columns)) if adjust == "match_rms_adamw" else 1.0
