"""Cases of the rarer ops: special functions, parts of numbers, margin losses, products, ranges between tensors."""

import torch

from case_support import BF16, F32, F64, aten, b, case, f, i, simple
from cases_elementwise import awkward, awkward_pairs, name, numbers, whole

INF, NAN = float("inf"), float("nan")


def bordered(dtype, *borders):
    """Numbers around the places where a formula changes, awkward ones among them."""
    near = [border + step for border in borders for step in (-0.25, -1e-3, 0.0, 1e-3, 0.25)]
    values = [*near, 0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-30, 1e-6, 1.0, -1.0, 30.0, -30.0]
    return lambda d: d.keep(lambda: torch.tensor(values, dtype=torch.float64).to(dtype))


# Special functions of one number: on both sides of each border of their formulas
SPECIAL = {
    "i0": (8, -8), "special_i0e": (8, -8), "special_i1": (8, -8), "special_i1e": (8, -8), "special_modified_bessel_i0":
        (8, -8), "special_modified_bessel_i1": (8, -8), "special_modified_bessel_k0": (2, 8),
    "special_modified_bessel_k1": (2, 8), "special_scaled_modified_bessel_k0": (2, 8),
    "special_scaled_modified_bessel_k1": (2, 8), "special_bessel_j0": (5, -5), "special_bessel_j1": (5, -5),
    "special_bessel_y0": (5, 0.5), "special_bessel_y1": (5, 0.5), "special_spherical_bessel_j0":
        (0.5, -0.5), "special_airy_ai": (2.09, -2.09, 8.32), "special_erfcx": (0, -6.1, 10), "special_log_ndtr":
            (-1, 4), "special_ndtri": (0.1353, 0.8647, 0.5)
}
for op, borders in SPECIAL.items():
    simple(op, bordered(F64, *borders), variant="float64")
    inner = (0.02, 0.98) if op == "special_ndtri" else (0.1, 9)
    simple(op, numbers(F32, *inner), variant="float32")
    simple(op, numbers(F64, *inner), variant="float64 inner")
    if op.startswith(("i0", "special_i")):
        simple(op, numbers(BF16, *inner), variant="bfloat16")
    simple(op, i(8, low=1, high=7), variant="int64")

# Zeta, polygamma and gamma of several numbers
simple("special_zeta", numbers(F32, 1.2, 9), numbers(F32, 0.1, 9))
simple("special_zeta", numbers(F64, 1.2, 9), numbers(F64, 0.1, 9), variant="float64")
simple("special_zeta", *awkward_pairs(F64), variant="awkward")
simple("special_zeta", lambda d: d.keep(lambda: torch.tensor([2.0, 3.0, 4.0, 5.0, 2.5, 3.0], dtype=F64)),
       lambda d: d.keep(lambda: torch.tensor([-0.5, -3.25, -7.5, -8.75, -1.5, -2.0], dtype=F64)), variant="below zero")
simple("special_zeta.other_scalar", numbers(F32, 1.2, 9), 2.5)
simple("special_zeta.self_scalar", 3.0, numbers(F32, 0.1, 9))
for order in range(5):
    simple("polygamma", order, numbers(F64, -6, 6), variant=f"{order} float64")
    simple("polygamma", order, numbers(F32, 0.5, 9), variant=f"{order}")
simple("polygamma", 1, i(8, low=1), variant="int64")
simple("mvlgamma", numbers(F32, 3, 9), 3)
simple("mvlgamma", numbers(F64, 0.1, 4), 1, variant="one")
simple("mvlgamma", i(8, low=4), 4, variant="int64")

# Parts of numbers
TINY = [
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -0.75, 1e-40, -1e-45, 1e-38, 3e38, -3.4028234663852886e38,
    float("inf"), -float("inf"), 7.999999
]
for dtype in (F32, F64, BF16):
    simple("frexp.Tensor", lambda d, dtype=dtype: d.keep(lambda: torch.tensor(TINY, dtype=F64).to(dtype)),
           variant=name(dtype))
    left = lambda d, dtype=dtype: d.keep(lambda: torch.tensor(TINY, dtype=F64).to(dtype).repeat_interleave(4))
    right = lambda d, dtype=dtype: d.keep(lambda: torch.tensor([0.0, 9.0, -float("inf"),
                                                                float("inf")], dtype=dtype).repeat(len(TINY)))
    simple("nextafter", left, right, variant=name(dtype))
simple("frexp.Tensor", lambda d: d.keep(lambda: torch.tensor([5e-324, 2.2e-308, 1.7e308, -1e-310], dtype=F64)),
       variant="extremes")
simple(
    "nextafter", lambda d: d.keep(lambda: torch.tensor(
        [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1e-310], dtype=F64)),
    lambda d: d.keep(lambda: torch.tensor([-1.0, 0.0, float("inf"), 0.0], dtype=F64)), variant="extremes")
simple("nextafter", awkward(F32), awkward(F32), variant="NaN")
for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
    simple("gcd", *whole(dtype), variant=name(dtype))
    simple("lcm", numbers(dtype, 1, 11), numbers(dtype, 1, 11), variant=name(dtype))
simple("gcd", i(6, low=-90, high=90), i(4, 1, low=-90, high=90), variant="broadcast")
simple("lcm", lambda d: d.keep(lambda: torch.tensor([0, -4, 6, 0])),
       lambda d: d.keep(lambda: torch.tensor([3, 6, -9, 0])), variant="signs")

# Chebyshev polynomials: orders as data
for letter in "tuvw":
    for prefix in ("special_chebyshev_polynomial_", "special_shifted_chebyshev_polynomial_"):
        op = prefix + letter
        orders = i(8, 1, low=-1, high=12)
        simple(op, numbers(F64, -1.5, 1.5), orders, variant="float64")
        simple(op, lambda d: d.keep(lambda: torch.tensor([1.0, -1.0, 0.0, 0.999], dtype=F64)), orders,
               variant="edges")  # of NaN the framework gives what the memory held
        simple(f"{op}.n_scalar", numbers(F64, -1.1, 1.1), 5)
        simple(f"{op}.x_scalar", 0.7, orders)

# Polynomials by recurrence: orders that are data, fractions and negative ones among them; high ones with a fixed order
for op, high in (("special_hermite_polynomial_h", 40), ("special_hermite_polynomial_he", 90),
                 ("special_laguerre_polynomial_l", 300), ("special_legendre_polynomial_p", 700)):
    orders = lambda d: d.keep(lambda: torch.tensor([[-3.0], [-0.5], [0.0], [1.0], [1.9], [2.0], [3.0], [7.5], [15.0],
                                                    [NAN], [INF], [-INF]], dtype=F64))
    at = lambda d: d.keep(lambda: torch.tensor([0.5, 1.0, -1.0, 0.0, -0.0, 2.25, -1.75, 0.999, 1e-30], dtype=F64))
    simple(op, at, orders, variant="float64")
    simple(op, lambda d, at=at: at(d).float(), lambda d, o=orders: o(d).float(), variant="float32")
    simple(op, i(9, low=-3, high=4), i(9, 1, low=-1, high=9), variant="integers")
    simple(op, lambda d: d.keep(lambda: torch.tensor([NAN, INF, -INF])), i(3, 1, low=0, high=2), variant="awkward")
    simple(f"{op}.n_scalar", numbers(F64, -1.1, 1.1), high)
    simple(f"{op}.n_scalar", numbers(F32, -1.1, 1.1), -1, variant="negative")
    simple(f"{op}.x_scalar", 0.7, orders)
for op in ("special_hermite_polynomial_h", "special_hermite_polynomial_he"):
    beyond = lambda d: d.keep(lambda: torch.tensor([127.0, 128.0, 129.0, 1e6]))
    simple(op, numbers(F32, -0.1, 0.1), beyond, variant="the highest orders")
    simple(f"{op}.n_scalar", numbers(F32, -0.1, 0.1), 129, variant="too high")

# Incomplete gamma functions: around the borders of their formulas, far into both tails
for op in ("igamma", "igammac"):
    left = lambda d: d.keep(lambda: torch.tensor(
        [0.0, 1e-8, 0.3, 1.0, 1.1, 1.3, 4.0, 9.9, 10.1, 19.9, 150.0, 230.0, 5000.0], dtype=F64)[:, None])
    right = lambda d: d.keep(lambda: torch.tensor(
        [0.0, 1e-5, 0.4, 0.6, 1.0, 1.09, 1.11, 3.0, 10.0, 12.0, 20.0, 160.0, 240.0, 4900.0, 5100.0], dtype=F64))
    # of large numbers that are nearly equal the framework's series has ten digits: in f64 they are kept apart
    apart = lambda d: d.keep(lambda: torch.tensor(
        [0.0, 1e-5, 0.4, 0.6, 1.0, 1.09, 1.11, 3.0, 10.0, 12.0, 20.0, 60.0, 400.0, 9000.0], dtype=F64))
    simple(op, left, apart, variant="float64")
    simple(op, lambda d, left=left: left(d).float(), lambda d, right=right: right(d).float(), variant="float32")
    simple(op, lambda d: d.keep(lambda: torch.tensor([-1.0, -0.0, 0.5, NAN, INF, -INF, 0.0])[:, None]),
           lambda d: d.keep(lambda: torch.tensor([-1.0, -0.0, 0.5, NAN, INF, -INF, 2.0])), variant="awkward")
    simple(op, lambda d: d.pos(40).to(BF16) * 5, lambda d: d.pos(40).to(BF16) * 4, variant="bfloat16")
    simple(f"{op}_", lambda d: d.pos(3, 2), lambda d: d.pos(2))

# Margin losses
for reduction in range(3):
    simple("multi_margin_loss", f(5, 4), i(5, high=4), 1, 1, None, reduction, variant=f"reduction {reduction}")
    simple("multi_margin_loss_backward",
           f(5) if reduction == 0 else f(), f(5, 4), i(5, high=4), 2, 0.5, f(4), reduction,
           variant=f"reduction {reduction}")
    simple("multilabel_margin_loss_backward",
           f(3) if reduction == 0 else f(), f(3, 4),
           lambda d: d.keep(lambda: torch.tensor([[3, 0, -1, 1], [-1, 1, 2, 3], [2, 2, 1, -1]])), reduction,
           lambda d: d.keep(lambda: torch.tensor([[1.0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]])),
           variant=f"reduction {reduction}")
    simple("multilabel_margin_loss_forward", f(3, 4),
           lambda d: d.keep(lambda: torch.tensor([[3, 0, -1, 1], [-1, 1, 2, 3], [2, 0, 1, 3]])), reduction,
           variant=f"reduction {reduction}")
simple("multi_margin_loss", f(4), i(high=4), 2, 0.3, f(4), variant="one row")
simple("multilabel_margin_loss_forward", f(4), lambda d: d.keep(lambda: torch.tensor([1, 3, -1, 0])), 1,
       variant="one row")
simple("rrelu_with_noise_backward", f(6, 4), f(6, 4), f(6, 4), 0.1, 0.3, False, False, variant="inference")

# Products
simple("addbmm", f(3, 5), f(4, 3, 2), f(4, 2, 5))
simple("addbmm", f(5), f(4, 3, 2), f(4, 2, 5), beta=0.5, alpha=-2, variant="factors")
for use_gelu in (False, True):
    variant = " gelu" if use_gelu else ""
    simple("_addmm_activation", f(3, 5), f(3, 4), f(4, 5), beta=0.5, alpha=-2, use_gelu=use_gelu, variant=f"f32{variant}")
    simple("_addmm_activation", lambda d: d.bf(5), lambda d: d.bf(3, 4), lambda d: d.bf(4, 5), use_gelu=use_gelu,
           variant=f"bf16{variant}")
simple("_int_mm", lambda d: d.i(3, 8, low=-128, high=128).to(torch.int8),
       lambda d: d.i(8, 16, low=-128, high=128).to(torch.int8))
simple("conv_tbc", f(6, 2, 3), f(3, 3, 4), f(4), 0)
simple("conv_tbc", f(6, 2, 3), f(2, 3, 4), f(4), 2, variant="padded")
for order in (0.5, 1, 2, 3):
    simple("linalg__powsum", f(3, 5), order, variant=f"of order {order}")
    simple("linalg__powsum", f(3, 5), order, [1], True, variant=f"of order {order} by rows")
simple("_is_all_true", b(3, 4))
simple("_is_all_true", lambda d: d.b(3, 4) | True, variant="all")
simple("_is_any_true", b(3, 4))
simple("_is_any_true", lambda d: d.b(3, 4) & False, variant="none")
simple("addmv", f(3), f(3, 4), f(4), beta=0.5, alpha=-2)
simple("addmv", i(3), i(3, 4), i(4), variant="int64")
simple("addmv", i(3), i(3, 4), i(4), variant="int64 factors", beta=2, alpha=-3)
simple("mm", i(3, 4), i(4, 5), variant="int64")
simple("bmm", i(2, 3, 4), i(2, 4, 5), variant="int64")
simple("addmm", i(5), i(3, 4), i(4, 5), variant="int64", beta=2, alpha=3)
simple("addr", f(3, 4), f(3), f(4), beta=0.5, alpha=-2)
simple("addr", f(4), f(3), f(4), beta=0, variant="without self")
simple("addr", b(3, 4), b(3), b(4), variant="bool")
simple("vdot", f(7), f(7))
simple("linalg_cross", f(4, 3), f(4, 3))
simple("linalg_cross", f(3, 1, 5), f(3, 4, 5), dim=0, variant="broadcast")
simple("_trilinear", f(2, 3), f(4, 3, 5), f(2, 5), [1, 3], [0], [1, 2], [2, 3])

# Ranges between tensors, membership, copies
for kind, start, end in (("Tensor_Tensor", f(), f()), ("Tensor_Scalar", f(), 2.5), ("Scalar_Tensor", -1.5, f())):
    simple(f"linspace.{kind}", start, end, 7)
    simple(f"logspace.{kind}", start, end, 7, 2.0)
simple("linspace.Tensor_Tensor", lambda d: d.keep(lambda: torch.tensor(2)), lambda d: d.keep(lambda: torch.tensor(9)),
       5, variant="int64", dtype=torch.int64)
simple("logspace", -1, 2, 6)
simple("logspace", 0, 3, 4, 2.0, variant="base")
simple("logspace", 1, 3, 1, variant="one step")
simple("isin.Tensor_Tensor", i(4, 5), i(6))
simple("isin.Tensor_Tensor", awkward(F32), awkward(F32), variant="invert", invert=True)
simple("isin.Tensor_Scalar", i(4, 5), 3)
simple("isin.Scalar_Tensor", 3, i(6))
simple("_chunk_cat", lambda d: [d.f(5, 2), d.f(3, 4), d.f(4)], 0, 2)
simple("_chunk_cat", lambda d: [d.f(2, 3, 2), d.f(2, 4)], 1, 2, variant="second dimension")
simple("copy", f(3, 4), f(4))
simple("copy", i(3, 4), f(3, 4), variant="dtype")
simple("narrow_copy", f(3, 6), 1, 2, 3)
simple("narrow_copy", f(3, 6), -1, -4, 2, variant="from the end")
simple("_unsafe_masked_index", f(5, 6), b(3, 4), lambda d: [d.i(3, 1, high=5), d.i(3, 4, high=6)], 7.5)
simple("_unsafe_masked_index_put_accumulate", f(5, 6), b(3, 4),
       lambda d: [d.i(3, 1, high=5), d.i(3, 4, high=6)], f(3, 4))


for op, arguments in (("resize_", ([2, 3],)), ("resize_as_", (torch.zeros(2, 3),))):
    simple(op, f(3, 4), *arguments, variant="smaller")
    simple(op, f(2, 3), *arguments, variant="as it is")


@case("lerp.Scalar", "weight crosses a half")
def lerp_across(d):
    return aten.lerp.Scalar(d.f(3, 5), d.f(3, 5), 0.25 * d.step)


# Connectionist temporal classification: what forward keeps beyond a sample's lengths is what the memory held
def scores(d):
    return d.keep(lambda: torch.randn(6, 3, 5, generator=d._generator).log_softmax(2))


TARGETS = torch.tensor([[1, 1, 2], [3, 2, 4], [4, 0, 0]])
CTC = {
    "padded": (TARGETS, [6, 5, 4], [3, 2, 1], 0), "concatenated":
        (torch.tensor([1, 1, 2, 3, 4, 2]), [6, 6, 6], [3, 2, 1], 0), "too short": (TARGETS, [3, 6, 6], [3, 3, 1], 0),
    "last class blank": (torch.tensor([[1, 1], [3, 2], [0, 0]]), [6, 3, 6], [2, 2, 0], 4)
}
for variant, (targets, inputs, labels, blank) in CTC.items():
    for as_tensors in (False, True):
        suffix = ".Tensor" if as_tensors else ""
        overload = "Tensor" if as_tensors else "default"
        sizes = [torch.tensor(n) if as_tensors else n for n in (inputs, labels)]

        def loss(d, targets=targets, sizes=sizes, blank=blank, overload=overload):
            return getattr(aten._ctc_loss, overload)(scores(d), targets, *sizes, blank)[0]

        def gradient(d, targets=targets, sizes=sizes, blank=blank, overload=overload, zeroed=variant == "too short"):
            x = scores(d)
            lost, kept = getattr(aten._ctc_loss, overload)(x, targets, *sizes, blank)
            return getattr(aten._ctc_loss_backward, overload)(d.f(3), x, targets, *sizes, lost, kept, blank, zeroed)

        case(f"_ctc_loss{suffix}", variant)(loss)
        case(f"_ctc_loss_backward{suffix}", variant)(gradient)


@case("_ctc_loss", "mean over targets")
def ctc_mean(d):
    """C++ makes the tensor of the targets' lengths that the mean divides by: memory that no op fills."""
    return torch.nn.functional.ctc_loss(scores(d), TARGETS, [6, 5, 4], [3, 2, 1])
