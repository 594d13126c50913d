# Every op of the framework that takes a number, with a tensor of whole numbers near 2^60 and a whole number of as many
# digits that differs from step to step: what a double does not hold must not be lost anywhere (kind:
# 24c_time_stamps.py).
# `whole_numbers.py constant`: the same number in every step.
import sys

import torch

CONSTANT = "constant" in sys.argv
BASE = 1_790_000_000_000_000_001  # nanoseconds since 1970, above 2^60
SHAPE = 6
# The ops with an argument of the schema's type Scalar that work on whole numbers; `torch._C._jit_get_all_schemas()` has
# all.
OPS = """add.Scalar add.Tensor add_.Scalar sub.Scalar sub.Tensor sub_.Scalar rsub.Scalar rsub.Tensor mul.Scalar mul_.Scalar div.Scalar floor_divide.Scalar
remainder.Scalar remainder.Scalar_Tensor fmod.Scalar pow.Tensor_Scalar pow.Scalar addcmul addr clamp clamp_min clamp_max clamp_ copysign.Scalar
eq.Scalar ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar lt_.Scalar bitwise_and.Scalar bitwise_and.Scalar_Tensor bitwise_or.Scalar bitwise_xor.Scalar
bitwise_xor_.Scalar bitwise_left_shift.Tensor_Scalar bitwise_left_shift.Scalar_Tensor bitwise_right_shift.Tensor_Scalar bitwise_right_shift.Scalar_Tensor
__lshift__.Scalar __rshift__.Scalar __and__.Scalar __or__.Scalar __xor__.Scalar where.ScalarOther where.ScalarSelf where.Scalar masked_fill.Scalar
masked_fill_.Scalar index_fill.int_Scalar index_fill_.int_Scalar index_add scatter.value scatter_.value fill.Scalar fill_.Scalar full_like threshold hardtanh
isin.Tensor_Scalar isin.Scalar_Tensor bucketize.Scalar float_power.Scalar xlogy.Scalar_Other""".split()


def numbers(step):
    """The number of a step by the argument's name; small where a large one would leave nothing."""
    step = 3 if CONSTANT else step
    return {
        "exponent": 1 + step % 4, "now": BASE + 3 * step, "factor": (1 << 53) + 1 + 2 * step, "shift": 1 + step % 5,
        "step": 1 + step % 2
    }


def tensors():
    events = torch.tensor([0, 1, -1, 77, -1000, 1 << 40]) + BASE
    return {
        "self": events, "small": torch.tensor([3, -5, 7, 11, -13, 2]),
        "mask": torch.tensor([True, False, True, True, False, False]), "index": torch.tensor([0, 2, 4, 1, 3, 5])
    }


def argument(name, kind, base, given, scalars):
    """What to call with, or KeyError."""
    if kind in ("Tensor", "Optional[Tensor]"):
        if name in ("mask", "condition"):
            return given["mask"]
        if name == "index":
            return given["index"]
        if name in ("exponent",) or "shift" in base:
            return given["index"] if name != "self" else given["self"]
        return given["self"] if name in ("self", "input", "src", "source") else given["small"]
    if kind in ("number", "Optional[number]"):
        if "shift" in base:
            return scalars["shift"] if name == "other" else scalars["now"]
        return scalars["exponent" if name == "exponent" or base == "pow" else "factor" if name in (
            "alpha", "value") and base.startswith("a") else "step" if name == "step" else "now"]
    if kind == "int" and name == "dim":
        return 0
    raise KeyError(name)


def call_of(full):
    """A function of tensors and numbers that runs the op."""
    base, _, overload_name = full.partition(".")
    overload = getattr(getattr(torch.ops.aten, base), overload_name or "default")
    kinds = [(a.name, str(a.type), a.has_default_value()) for a in overload._schema.arguments]

    def call(given, scalars):
        values = {}
        for name, kind, has_default in kinds:
            try:
                values[name] = argument(name, kind, base, given, scalars)
            except KeyError:
                if not has_default:
                    raise
        if base.endswith("_") and not base.startswith("__"):
            values["self"] = values["self"].clone()
        return overload(**values)

    return call


class EveryOp(torch.nn.Module):
    @torch.no_grad()
    def forward(self, given, scalars):
        results = {name: call(given, scalars) for name, call in CALLS.items()}
        now, step, factor = scalars["now"], scalars["step"], scalars["factor"]
        events = given["self"]
        results["arange"] = torch.arange(now, now + 6 * step, step)
        results["arange_start"] = torch.arange(now, now + 6)
        results["linspace"] = torch.linspace(now, now + 100, 6, dtype=torch.int64)
        results["full"] = torch.full((3,), now)
        results["new_full"] = events.new_full((3,), now)
        results["full_like"] = torch.full_like(events, now) - events
        results["where"] = torch.where(given["mask"], events, now)
        results["where_both"] = torch.where(given["mask"], now, now + 1)
        results["setitem"] = events.clone().index_put_((given["index"][:2],), torch.tensor(now))
        filled = events.clone()
        filled[1] = now
        results["setitem_number"] = filled
        results["age"] = now - events
        results["young"] = now - events < 100
        results["floor"] = now // given["small"]
        results["rest"] = events % factor
        results["as_f32"] = (events * 1.0) + now
        results["as_f64"] = events.double() - now
        results["bits"] = (events & factor) | (now ^ events)
        results["powers"] = torch.pow(scalars["exponent"] + 1, given["index"] + 22)
        results["foreach"] = torch._foreach_add([events], now)[0]
        results["foreach_list"] = torch._foreach_mul([events, events], [now, factor])[1]
        return results


CALLS = {name: call_of(name) for name in OPS}
if __name__ == "__main__":
    model = EveryOp()
    for step in range(7):
        model(tensors(), numbers(step))
