"""Cases of element-wise ops: mathematics, remainders, bits, activations, and what they do with awkward numbers."""

import torch

from case_support import aten, b, case, f, i, pos, simple

FLOATS = [torch.float32, torch.float64, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def name(dtype):
    return str(dtype).removeprefix("torch.")


def numbers(dtype, low=-3.0, high=3.0):
    """32 numbers in a range; for integers whole ones, for bool both."""

    def make(d):
        x = torch.rand((8, 4), generator=d._generator, dtype=torch.float64) * (high - low) + low
        if dtype == torch.bool:
            return x > 0
        return x.abs().to(dtype) if dtype == torch.uint8 else x.to(dtype)

    return lambda d: d.keep(lambda: make(d))


def awkward(dtype):
    values = [
        0.0, -0.0,
        float("inf"), -float("inf"),
        float("nan"), 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 1e-30, 20.0
    ] * 8  # whole vectors: the loop for the rest of a row treats some NaN otherwise
    return lambda d: d.keep(lambda: torch.tensor(values, dtype=dtype))


def awkward_pairs(dtype):
    """Every awkward number beside every other."""
    values = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0, -1.5, 2.5, -7.0]
    left = lambda d: d.keep(lambda: torch.tensor(values, dtype=dtype).repeat_interleave(len(values)))
    right = lambda d: d.keep(lambda: torch.tensor(values, dtype=dtype).repeat(len(values)))
    return left, right


def whole(dtype, nonzero=False):
    """Integers with their extremes, the second operand of each pair never 0 when asked."""
    info = torch.iinfo(dtype)
    values = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1] + ([-1, -2, -7] if info.min < 0 else [])
    right = [v for v in values if v != 0 and not (v == -1)] if nonzero else values
    a = lambda d: d.keep(lambda: torch.tensor(values, dtype=dtype).repeat_interleave(len(right)))
    c = lambda d: d.keep(lambda: torch.tensor(right, dtype=dtype).repeat(len(values)))
    return a, c


# Functions of one number: a range where each is smooth, every float dtype, integers, and awkward numbers
RANGES = {
    "acos": (-1, 1), "asin": (-1, 1), "atanh": (-0.99, 0.99), "acosh": (1, 9), "log1p": (-0.9, 5), "log2": (0.1, 9),
    "log10": (0.1, 9), "erfinv": (-0.99, 0.99), "lgamma": (0.1, 9), "digamma": (0.5, 9), "tan": (-1.4, 1.4),
    "logit": (0.05, 0.95)
}
for op in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "digamma", "erfc", "erfinv", "exp2", "expm1",
           "lgamma", "log10", "log1p", "log2", "sinc", "sinh", "tan", "logit", "deg2rad", "rad2deg", "angle",
           "special_entr", "ceil", "floor", "trunc", "round", "frac", "sign", "sgn", "signbit", "isinf", "isposinf",
           "isneginf", "nan_to_num"):
    for dtype in FLOATS:
        simple(op, numbers(dtype, *RANGES.get(op, (-3, 3))), variant=name(dtype))
    values = awkward(torch.float32)
    if op == "signbit":
        values = lambda d: d.keep(lambda: torch.tensor([0.0, -0.0, float("inf"), -float("inf"), 1.0, -1.0]))
    simple(op, values, variant="awkward")
    if op not in ("frac", "logit"):
        simple(op, numbers(torch.int64, 1, 9) if op in RANGES else numbers(torch.int64, -9, 9), variant="int64")
    if op in ("sign", "sgn", "signbit", "expm1", "isinf"):
        simple(op, b(6), variant="bool")
simple("logit", awkward(torch.float32), 0.1, variant="eps")
simple("logit", numbers(torch.float64), 0.2, variant="eps float64")
simple("logit_backward", f(128), awkward(torch.float32))
simple("logit_backward", f(8, 4), numbers(torch.float32, -0.2, 1.2), 0.1, variant="eps")
simple("nan_to_num", awkward(torch.bfloat16), variant="bfloat16 awkward")
simple("nan_to_num", awkward(torch.float32), 1.5, 2.5, -3.5, variant="numbers")
simple("round.decimals", f(20), decimals=2)
simple("round.decimals", lambda d: d.f(20) * 100, decimals=-1, variant="tens")
for dtype in [*INTEGERS, torch.bool]:
    simple("bitwise_not", numbers(dtype, -90, 90), variant=name(dtype))

# Remainders, division by mode
for dtype in FLOATS:
    left, right = awkward_pairs(dtype)
    for op in ("fmod.Tensor", "remainder.Tensor", "floor_divide", "atan2", "copysign.Tensor", "hypot", "fmax", "fmin",
               "maximum", "minimum", "logaddexp", "logaddexp2", "heaviside", "xlogy.Tensor", "special_xlog1py",
               "ldexp.Tensor"):
        if op == "copysign.Tensor":
            finite = lambda d, right=right: torch.nan_to_num(right(d))
            simple(op, left, finite, variant=name(dtype))
        elif op not in ("fmod.Tensor", "remainder.Tensor", "floor_divide") or dtype != torch.bfloat16:
            simple(op, left, right, variant=f"{name(dtype)} awkward")
        if op != "heaviside":
            simple(op, numbers(dtype, 0.5, 5), numbers(dtype, 0.5, 3), variant=name(dtype))
    for mode in ("floor", "trunc", None):
        simple("div.Tensor_mode", numbers(dtype, -9, 9), numbers(dtype, 0.5, 3), variant=f"{name(dtype)} {mode}",
               rounding_mode=mode)
        if dtype != torch.bfloat16:
            simple("div.Tensor_mode", left, right, variant=f"{name(dtype)} {mode} awkward", rounding_mode=mode)
for dtype in INTEGERS:
    left, right = whole(dtype, nonzero=True)
    for op in ("fmod.Tensor", "remainder.Tensor", "floor_divide"):
        simple(op, left, right, variant=name(dtype))
    for mode in ("floor", "trunc"):
        simple("div.Tensor_mode", left, right, variant=f"{name(dtype)} {mode}", rounding_mode=mode)
    left, right = whole(dtype)
    for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        simple(f"{op}.Tensor", left, right, variant=name(dtype))
    simple("maximum", left, right, variant=name(dtype))
    simple("fmin", left, right, variant=name(dtype))
    simple("pow.Tensor_Tensor", left, lambda d, right=right: right(d).abs() % 9, variant=name(dtype))
    for op in ("bitwise_left_shift", "bitwise_right_shift"):
        count = 81 if dtype == torch.uint8 else 144  # of `whole`
        simple(f"{op}.Tensor", left, lambda d, dtype=dtype, n=count: d.keep(lambda: (torch.arange(n) % 8).to(dtype)),
               variant=name(dtype))
for op in ("fmod", "remainder", "floor_divide"):
    simple(f"{op}.Scalar", i(12, high=9, low=-9), 4)
    simple(f"{op}.Scalar", f(12), -0.75, variant="floats")
    simple(f"{op}.Scalar", i(12, high=9, low=-9), 2.5, variant="integer by number")
simple("remainder.Scalar_Tensor", 7, i(12, high=9, low=1))
simple("div.Scalar_mode", f(12), 0.3, rounding_mode="floor")
simple("div.Scalar_mode", i(12, high=90), 7, variant="integers", rounding_mode="trunc")
simple("floor_divide_.Tensor", i(12, high=90), i(12, low=1))
for op in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    simple(f"{op}.Scalar", i(12, high=90, low=-90), 13)
    simple(f"{op}.Scalar_Tensor", 13, i(12, high=90, low=-90))
    simple(f"{op}.Tensor", b(12), b(12), variant="bool")
simple("bitwise_left_shift.Tensor_Scalar", i(12), 3)
simple("bitwise_left_shift.Scalar_Tensor", 3, i(12))
simple("bitwise_right_shift.Tensor_Scalar", i(12, high=900, low=-900), 3)
simple("bitwise_right_shift.Scalar_Tensor", 900, i(12))
simple("__lshift__.Scalar", i(12), 2)
simple("__lshift__.Tensor", i(12), i(12))
simple("__rshift__.Scalar", i(12, high=900), 2)
simple("__rshift__.Tensor", i(12, high=900), i(12))
simple("logical_xor", f(5), b(5))
simple("maximum", b(6), b(6), variant="bool")
simple("copysign.Scalar", f(6), -0.0)
simple("xlogy.Scalar_Other", awkward(torch.float32), 2.5)
simple("xlogy.Scalar_Self", 0.0, awkward(torch.float32))
simple("xlogy.Tensor", i(6), i(6), variant="integers")
simple("special_xlog1py.other_scalar", f(6), 0.5)
simple("special_xlog1py.self_scalar", 0.5, pos(6))
simple("ldexp.Tensor", f(6), i(6), variant="integer exponents")
simple("atan2", i(6), i(6), variant="integers")
simple("clamp.Tensor", awkward(torch.float32), f(128), pos(128))
simple("clamp.Tensor", f(3, 5), f(5), None, variant="min only")
simple("clamp_min.Tensor", f(3, 5), f(5))
for op in ("clamp_min.Tensor", "clamp_max.Tensor"):
    simple(op, b(4, 6), b(6), variant="bool")
simple("clamp_max.Tensor", i(3, 5), i(5))

# Activations: smooth numbers in every dtype, and the kinks
for dtype in FLOATS:
    for make, variant in ((numbers(dtype, -8, 8), name(dtype)), (awkward(dtype), f"{name(dtype)} awkward")):
        g = (lambda d, dtype=dtype: d.f(8, 4, dtype=dtype)) if variant == name(dtype) else (
            lambda d, dtype=dtype: d.f(128, dtype=dtype))
        simple("hardtanh", make, -1, 2, variant=variant)
        simple("hardtanh_backward", g, make, -1, 2, variant=variant)
        for op in ("hardsigmoid", "hardswish", "mish"):
            simple(op, make, variant=variant)
            if op != "mish" or "awkward" not in variant:
                simple(f"{op}_backward", g, make, variant=variant)
        simple("leaky_relu", make, 0.1, variant=variant)
        simple("leaky_relu_backward", g, make, 0.1, False, variant=variant)
        simple("elu", make, 1.25, 1.5, 0.75, variant=variant)
        simple("elu_backward", g, 1.25, 1.5, 0.75, False, make, variant=variant)
        simple("elu_backward", g, 1.25, 1.5, 0.75, True, make, variant=f"{variant} of the result")
        simple("hardshrink", make, 0.5, variant=variant)
        simple("hardshrink_backward", g, make, 0.5, variant=variant)
        simple("softshrink", make, 0.5, variant=variant)
        simple("softshrink_backward", g, make, 0.5, variant=variant)
        simple("threshold", make, 0.5, -2.5, variant=variant)
        simple("softplus", make, 1.5, 5, variant=variant)
        if "awkward" not in variant:
            simple("softplus_backward", g, make, 1.5, 5, variant=variant)
        simple("_prelu_kernel", make, lambda d, dtype=dtype: d.f(1, dtype=dtype), variant=variant)
        simple("_prelu_kernel_backward", g, make, lambda d, dtype=dtype: d.f(1, dtype=dtype), variant=variant)
    simple("glu", numbers(dtype), 1, variant=name(dtype))
    simple("glu", numbers(dtype), -2, variant=f"{name(dtype)} first")
    simple("glu_backward", lambda d, dtype=dtype: d.f(8, 2, dtype=dtype), numbers(dtype), 1, variant=name(dtype))
    simple("log_sigmoid_forward", numbers(dtype, -8, 8), variant=name(dtype))


for op, operands in {
        "hardswish_": [], "hardtanh_": [-1, 2], "leaky_relu_": [0.1], "elu_": [], "hardsigmoid_": [], "mish_": [],
        "threshold_": [0.1, 2.0], "ceil_": [], "sign_": [], "log1p_": [], "nan_to_num_": []
}.items():
    simple(op, pos(3, 5), *operands)
simple("celu", f(12), 1.5)
simple("celu_", f(12), 1.5)


@case("log_sigmoid_backward")
def log_sigmoid_backward(d):
    x = d.f(32)
    _, buffer = aten.log_sigmoid_forward.default(x)
    return aten.log_sigmoid_backward.default(d.f(32), x, buffer)


# Lists
def lists(d):
    return [d.f(2, 3), d.f(4), d.f()]


def positive(d):
    return [d.pos(2, 3), d.pos(4), d.pos()]


for op in ("exp", "expm1", "log", "log10", "log1p", "log2", "atan", "cos", "cosh", "sin", "sinh", "tan", "tanh", "erf",
           "erfc", "lgamma", "sigmoid", "rsqrt", "ceil", "floor", "round", "trunc", "frac", "sign"):
    simple(f"_foreach_{op}", positive)
    simple(f"_foreach_{op}_", positive)
for op in ("acos", "asin"):
    simple(f"_foreach_{op}", lambda d: [d.f(5).tanh(), d.f(2, 2).tanh()])
for op in ("maximum", "minimum", "clamp_min", "clamp_max"):
    simple(f"_foreach_{op}.List", lists, positive)
    simple(f"_foreach_{op}.Scalar", lists, 0.25)
    simple(f"_foreach_{op}.ScalarList", lists, [0.1, 0.6, -0.5])
simple("_foreach_pow.ScalarList", positive, [2.0, 0.5, 3.0])
simple("_foreach_sign", lambda d: [d.i(5, high=3, low=-3), d.f(2, 2)], variant="integers")
for op in ("addcmul", "addcdiv"):
    simple(f"_foreach_{op}.Tensor", lists, lists, positive, lambda d: d.f(3).cpu())
simple("_foreach_max", lists)
