"""Cases of reductions, running totals, sorting, statistics, distances, group norm and recurrent layers."""

import torch

from case_support import aten, b, case, f, i, pos, simple, special

NAN, INF = float("nan"), float("inf")


def fixed(values, dtype=torch.float32):
    return lambda d: d.keep(lambda: torch.tensor(values, dtype=dtype))


def typed(dtype, *sizes):
    """Distinct numbers that every dtype holds."""
    def make(d):
        count = 1
        for size in sizes:
            count *= size
        return d.keep(lambda: (torch.randperm(count, generator=d._generator) -
                               (0 if dtype == torch.uint8 else count // 2)).reshape(sizes).to(dtype))
    return make


def turned(*sizes):
    return lambda d: d.f(*sizes[::-1]).permute(*range(len(sizes) - 1, -1, -1))


# NaN, infinities, equal elements, zeros of both signs, in lines of their own.
AWKWARD = fixed([[1.0, NAN, 3.0, NAN, 2.0], [INF, 1.0, -INF, INF, 0.0], [-INF] * 5, [0.0, -0.0, 0.0, -0.0, 0.0],
                 [2.0, 2.0, 1.0, 1.0, 2.0], [NAN] * 5, [1e-42, -1e-42, 0.0, 3e38, -3e38]])
NUMBERS = [("f64", torch.float64), ("bf16", torch.bfloat16), ("f16", torch.float16), ("i64", torch.int64),
           ("i32", torch.int32), ("i16", torch.int16), ("i8", torch.int8), ("u8", torch.uint8)]
FLOATS = NUMBERS[:3]

# Extrema
for op in ("amax", "amin"):
    simple(op, f(3, 4, 5), [1])
    simple(op, turned(3, 4, 5), [0, -1], True, variant="kept")
    simple(op, f(3, 4), variant="all")
    simple(op, f(), variant="0-dim")
    simple(op, AWKWARD, [1], variant="awkward")
    simple(op, AWKWARD, [0], variant="awkward columns")
    simple(op, b(4, 6), [1], variant="bool")
    for name, dtype in NUMBERS:
        simple(op, typed(dtype, 6, 9), [1], variant=name)
for op in ("max", "min"):
    simple(op, f(3, 4))
    simple(op, b(7), variant="bool")
    simple(f"{op}.dim", f(3, 4, 5), 1)
    simple(f"{op}.dim", turned(3, 4, 5), -3, True, variant="kept")
    simple(f"{op}.dim", AWKWARD, 1, variant="awkward")
    simple(f"{op}.dim", b(4, 6), 0, variant="bool")
    simple(f"{op}.dim", f(), 0, variant="0-dim")
    for name, dtype in NUMBERS:
        simple(f"{op}.dim", typed(dtype, 6, 9), 1, variant=name)
    simple(f"arg{op}", f(3, 4))
    simple(f"arg{op}", f(3, 4), None, True, variant="all kept")
    simple(f"arg{op}", turned(3, 4, 5), -1, variant="dim")
    simple(f"arg{op}", f(3, 4, 5), 0, True, variant="kept")
    simple(f"arg{op}", AWKWARD, 1, variant="awkward")
    simple(f"arg{op}", AWKWARD, variant="awkward all")
    simple(f"arg{op}", f(), 0, variant="0-dim")
    for name, dtype in NUMBERS:
        simple(f"arg{op}", typed(dtype, 6, 9), 1, variant=name)
simple("aminmax", f(3, 4))
simple("aminmax", AWKWARD, dim=1, keepdim=True, variant="awkward")
simple("_aminmax", f(3, 4))
simple("_aminmax.dim", f(3, 4), 0)

# Truth
for op in ("all", "any"):
    simple(op, b(3, 4))
    simple(op, lambda d: d.keep(lambda: torch.ones(3, dtype=torch.bool)), variant="true")
    simple(op, i(3, 4, high=2), variant="integers")
    simple(op, lambda d: d.keep(lambda: torch.ones(3, dtype=torch.uint8)), variant="u8")
    simple(op, fixed([0.0, NAN, -0.0]), variant="floats")
    simple(op, f(0), variant="of nothing")
    simple(f"{op}.dim", b(3, 4, 2), 1)
    simple(f"{op}.dim", b(3, 4, 2), -1, True, variant="kept")
    simple(f"{op}.dim", f(2, 0), 1, variant="of nothing")
    simple(f"{op}.dims", b(3, 2, 2), [0, 2])
    simple(f"{op}.dims", b(3, 2, 2), None, variant="all")
    simple(f"{op}.dims", b(3, 2, 2), [], variant="none")

# Sums and products
simple("nansum", AWKWARD, [1])
simple("nansum", f(3, 4))
simple("nansum", i(3, 4), [0], True, variant="integers")
simple("prod", pos(3, 4))
simple("prod", i(3, 3, low=-3, high=4), variant="integers")
simple("prod", b(5), variant="bool")
simple("prod", f(0), variant="of nothing")
simple("prod", i(4), dtype=torch.float32, variant="dtype")
simple("prod.dim_int", pos(3, 4, 5), 1)
simple("prod.dim_int", b(6, 2), 1, variant="bools", dtype=torch.bool)
simple("prod.dim_int", AWKWARD, 1, True, variant="awkward")
simple("prod.dim_int", typed(torch.int32, 3, 3), 0, variant="i32")
simple("prod.dim_int", fixed([[1.5, 2.0, 0.5, 1.25], [3.0, -0.5, 4.0, 1.0]], torch.bfloat16), 1,
       variant="bf16")  # exact in any order
simple("count_nonzero", AWKWARD)
simple("count_nonzero", i(3, 4, high=2), 1, variant="dim")
simple("count_nonzero.dim_IntList", b(3, 4, 2), [0, 2])
simple("trace", f(4, 4))
simple("trace", i(3, 5), variant="integers")
simple("trace", turned(5, 3), variant="turned")
simple("sum.dim_IntList", f(3, 0), [1], variant="of nothing")
simple("mean", f(0), variant="of nothing")

# Running totals and extrema
for op in ("cumsum", "cumprod"):
    simple(op, f(3, 7), 1)
    simple(op, turned(3, 4, 5), 0, variant="turned")
    simple(op, f(), 0, variant="0-dim")
    simple(op, AWKWARD, 1, variant="awkward")
    simple(op, b(9), 0, variant="bool")
    simple(op, i(4, 5), 1, dtype=torch.float64, variant="dtype")
    simple(f"{op}_", f(3, 5), 0)
    for name, dtype in NUMBERS:
        simple(op, typed(dtype, 3, 4) if op == "cumsum" else typed(dtype, 2, 2), 1, variant=name)
simple("cumsum", f(2, 5000), 1, variant="long")
for op in ("cummax", "cummin"):
    simple(op, f(3, 7), 1)
    simple(op, turned(3, 4, 5), -2, variant="turned")
    simple(op, AWKWARD, 1, variant="awkward")
    simple(op, b(9), 0, variant="bool")
    simple(op, f(), 0, variant="0-dim")
    for name, dtype in NUMBERS:
        simple(op, typed(dtype, 4, 5), 1, variant=name)
for op in ("logcumsumexp",):
    simple(op, f(3, 7), 1)
    simple(op, turned(3, 4, 5), 0, variant="turned")
    simple(op, AWKWARD, 1, variant="awkward")
    simple(op, f(), 0, variant="0-dim")
    simple(op, lambda d: d.d(3, 5), -1, variant="f64")
simple("_logcumsumexp", f(3, 7), 1)

# Sorting and order statistics
for descending in (False, True):
    way = "descending" if descending else ""
    simple("sort", f(3, 17), -1, descending, variant=way)
    simple("sort", turned(3, 4, 9), 0, descending, variant=f"{way} turned")
    simple("sort", AWKWARD, 1, descending, variant=f"{way} awkward")
    simple("sort", b(9), 0, descending, variant=f"{way} bool")
    simple("sort", f(), 0, descending, variant=f"{way} 0-dim")
    simple("sort.stable", i(4, 40, high=5), stable=True, dim=1, descending=descending, variant=way)
    for name, dtype in NUMBERS:
        simple("sort", typed(dtype, 3, 11), 1, descending, variant=f"{way} {name}")
for largest in (True, False):
    way = "largest" if largest else "smallest"
    simple("topk", f(3, 17), 4, -1, largest, True, variant=way)
    simple("topk", turned(5, 4), 2, 0, largest, True, variant=f"{way} turned")
    simple("topk", f(3, 5), 5, 1, largest, True, variant=f"{way} all")
    simple("topk", fixed([[1.0, NAN, 3.0, INF, -INF]]), 3, 1, largest, True, variant=f"{way} awkward")
    for name, dtype in NUMBERS:
        simple("topk", typed(dtype, 3, 11), 3, 1, largest, True, variant=f"{way} {name}")
simple("kthvalue", f(3, 9), 3, 1)
simple("kthvalue", f(3, 9), 2, 0, True, variant="kept")
simple("kthvalue", fixed([[1.0, NAN, 3.0, INF, -INF]]), 5, 1, variant="awkward")
simple("kthvalue", f(), 1, 0, variant="0-dim")
for op in ("median", "nanmedian"):
    simple(op, f(3, 6))
    simple(op, f(7), variant="odd")
    simple(op, i(2, 4), variant="integers")
    simple(op, fixed([[1.0, NAN, 3.0, 2.0], [5.0, 6.0, 7.0, NAN]]), variant="awkward")
    simple(op, f(), variant="0-dim")
    simple(op, f(0), variant="of nothing")
    simple(f"{op}.dim", f(3, 6), 1)
    simple(f"{op}.dim", turned(3, 5, 7), 0, True, variant="kept")
    simple(f"{op}.dim", fixed([[1.0, NAN, 3.0, 2.0, NAN], [5.0, 6.0, 7.0, 1.0, -INF]]), 1, variant="awkward")
    simple(f"{op}.dim", fixed([[NAN, NAN], [NAN, 1.0]]), 1, variant="NaN alone")
    simple(f"{op}.dim", typed(torch.int32, 3, 5), 1, variant="i32")
simple("mode", i(4, 12, high=4), 1)
simple("mode", f(3, 4), 0, True, variant="all different")
simple("mode", b(3, 9), 1, variant="bool")
simple("mode", fixed([[2.0, 2.0, 1.0, 1.0, 3.0]]), 1, variant="equal counts")
simple("histc", lambda d: d.f(500), 20, -1.5, 1.5)
simple("histc", lambda d: d.f(40, 9), variant="range of the data")
simple("histc", fixed([1.0, NAN, 2.0, 3.0, 5.0]), 4, 1, 3, variant="awkward")
simple("histc", fixed([2.0, 2.0]), 3, variant="one number")
for dtype in (torch.float32, torch.float64):
    data = lambda d, dtype=dtype: d.f(40, 9, dtype=dtype)
    simple("histogram.bin_ct", data, 7, variant=f"{dtype}")
    simple("histogram.bin_ct", data, 20, variant=f"{dtype} range", range=[-1.5, 1.0], density=True)
    simple("histogram.bin_ct", data, 5, variant=f"{dtype} weights",
           weight=lambda d, dtype=dtype: d.f(40, 9, dtype=dtype).abs())
    simple(
        "histogram.bins_tensor", data,
        fixed([-2.0, -0.5, -0.25, 0.0, 1.5])
        if dtype == torch.float32 else lambda d: d.keep(lambda: torch.tensor([-2.0, -0.5, 1.5], dtype=torch.float64)),
        variant=f"{dtype}", density=True)
simple("histogram.bin_ct", fixed([1.0, NAN, 2.0, 3.0, 5.0, 1.5,
                                  float("inf"), -float("inf"), -0.0]), 4, variant="awkward", range=[0.0, 3.0])
simple("histogram.bin_ct", fixed([2.0, 2.0]), 3, variant="one number")
simple("histogram.bin_ct", fixed([2.0, 1.0, 3.0]), 2, variant="equal ends", range=[2.0, 2.0])
simple("histogram.bin_ct", f(0), 3, variant="nothing")
simple("histogram.bins_tensor", fixed([0.0, 1.0, 1.0, 2.0, NAN, 3.0, 4.0]), fixed([0.0, 1.0, 1.0, 3.0]),
       variant="an empty bin")
points = lambda d: d.f(5, 8, 3)
simple("_histogramdd_bin_edges", points, [2, 3, 4])
simple("_histogramdd_bin_edges", points, [2, 3, 4], variant="range", range=[0.0, 0.5, -1.0, 1.0, -0.25, 3.0])
simple("_histogramdd_from_bin_cts", points, [2, 3, 4], weight=lambda d: d.f(5, 8))
simple("_histogramdd_from_bin_cts", points, [2, 3, 2], variant="density", range=[-1.0, 0.5, -1.0, 1.0, -2.0, 3.0],
       density=True)
simple("_histogramdd_from_bin_tensors", points,
       lambda d: [fixed([-1.0, 0.0, 1.0])
                  (d), fixed([-2.0, 0.5, 0.75, 2.0])
                  (d), fixed([-9.0, 9.0])(d)], density=True)
simple("bincount", i(30))
simple("bincount", i(30), None, 15, variant="minlength")
simple("bincount", i(30), f(30), variant="weights")
simple("bincount", lambda d: d.i(20).to(torch.uint8), lambda d: d.i(20), variant="integer weights")
for right in (False, True):
    simple("searchsorted.Tensor", fixed([1.0, 2.0, 2.0, 3.5]), fixed([[0.5, 2.0, 4.0], [NAN, INF, -INF]]), right=right,
           variant="right" if right else "")
    simple("bucketize.Tensor", i(3, 4), fixed([1, 3, 3, 7], torch.int64), right=right, variant="right" if right else "")
simple("searchsorted.Tensor", lambda d: d.keep(lambda: torch.arange(12.0).reshape(2, 6)),
       lambda d: d.keep(lambda: torch.rand(2, 3) * 12), out_int32=True, side="right", variant="rows")
simple("searchsorted.Scalar", fixed([1, 3, 5], torch.int64), 3)
simple("searchsorted.Scalar", fixed([5, 1, 3], torch.int64), 4, variant="sorter", sorter=fixed([1, 2, 0], torch.int64))
for right in (False, True):
    simple("searchsorted.Tensor", fixed([[3.0, 1.0, 2.0], [9.0, 8.0, 7.0]]), fixed([[1.0, 2.5], [8.0, INF]]),
           variant=f"sorter {right}", right=right, sorter=fixed([[1, 2, 0], [2, 1, 0]], torch.int64))
simple("bucketize.Scalar", 2.5, fixed([1.0, 3.0, 5.0]))

# Statistics
for op in ("var", "std", "var_mean", "std_mean"):
    simple(f"{op}.correction", f(3, 4, 5), [1])
    simple(f"{op}.correction", f(3, 4, 5), [0, 2], correction=0, keepdim=True, variant="kept")
    simple(f"{op}.correction", f(3, 4), variant="all")
    simple(f"{op}.correction", f(3, 4), [1], correction=1.5, variant="fraction")
    simple(f"{op}.correction", f(3, 1), [1], variant="one element")
    simple(f"{op}.correction", fixed([[1.0, NAN, 3.0], [2.0, 2.0, 2.0]]), [1], correction=0, variant="awkward")
    for name, dtype in FLOATS:
        simple(f"{op}.correction", typed(dtype, 4, 8), [1], variant=name)
for order in (0, 0.5, 1, 2, 3, INF, -INF, -1.5):
    simple("linalg_vector_norm", f(3, 4), order, variant=f"order {order}")
    simple("linalg_vector_norm", lambda d: d.d(3, 4, 2), order, [0, -1], True, variant=f"order {order} dims")
    simple("norm.ScalarOpt_dim", f(3, 4), order, [1], variant=f"order {order}")
simple("linalg_vector_norm", fixed([[0.0, 0.0], [NAN, 1.0], [INF, -INF]]), 0, [1], variant="awkward 0")
simple("linalg_vector_norm", fixed([[0.0, 0.0], [NAN, 1.0], [INF, -INF]]), -INF, [1], variant="awkward -inf")
simple("linalg_vector_norm", lambda d: d.bf(4, 8), 3, [1], dtype=torch.float32, variant="dtype")
simple("norm.Scalar", f(3, 4), 3)
simple("norm.ScalarOpt_dim", f(3, 4), None, [0], True, variant="None")
simple("norm.ScalarOpt_dtype", f(3, 4), 1, dtype=torch.float64)
simple("norm.ScalarOpt_dim_dtype", lambda d: d.bf(3, 4), 2, [1], False, dtype=torch.float32)
simple("logsumexp", f(3, 4), [1])
simple("logsumexp", turned(3, 4, 5), [0, 2], True, variant="kept")
simple("logsumexp", AWKWARD, [1], variant="awkward")
simple("logsumexp", i(3, 4), [1], variant="integers")
simple("logsumexp", f(3, 0), [1], variant="of nothing")
simple("renorm", lambda d: d.f(3, 4, 5) * 3, 2, 1, 2.5)
simple("renorm_", f(6, 4), 1, 0, 3)
simple("renorm", f(6, 4), INF, -1, 0.5, variant="inf")
simple("_safe_softmax", AWKWARD, 1)
simple("_safe_softmax", f(3, 4, 5), 0, variant="dim")
simple("_safe_softmax", lambda d: d.bf(4, 8), -1, torch.float32, variant="dtype")
for dim in (0, 2):
    simple("_weight_norm_interface", f(3, 4, 5),
           lambda d, dim=dim: d.pos(*[s if k == dim else 1 for k, s in enumerate((3, 4, 5))]), dim,
           variant=f"dim {dim}")

    @case("_weight_norm_interface_backward", f"dim {dim}")
    def weight_norm_backward(d, dim=dim):
        v, g = d.f(3, 4, 5), d.pos(*[s if k == dim else 1 for k, s in enumerate((3, 4, 5))])
        norms = v.norm(2, [k for k in range(3) if k != dim], keepdim=True)
        return aten._weight_norm_interface_backward.default(d.f(3, 4, 5), v, g, norms, dim)

# Distances
for order in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF):
    simple("_cdist_forward", f(5, 3), f(4, 3), order, None, variant=f"order {order}")
    simple("_pdist_forward", f(5, 3), order, variant=f"order {order}")
    simple("dist", f(4, 3), f(3), order, variant=f"order {order}")

    @case("_cdist_backward", f"order {order}")
    def cdist_backward(d, order=order):
        a, c = d.f(2, 5, 3), d.f(2, 4, 3)
        return aten._cdist_backward.default(d.f(2, 5, 4), a, c, order, aten._cdist_forward.default(a, c, order, None))

    @case("_pdist_backward", f"order {order}")
    def pdist_backward(d, order=order):
        x = d.f(5, 3)
        return aten._pdist_backward.default(d.f(10), x, order, aten._pdist_forward.default(x, order))
simple("_cdist_forward", f(2, 5, 3), f(2, 4, 3), 2.0, 2, variant="batches")


@case("_cdist_backward", "equal rows")
def cdist_backward_of_equal(d):
    a = d.f(3, 4)
    return aten._cdist_backward.default(d.f(3, 3), a, a, 2.0, aten._cdist_forward.default(a, a, 2.0, 2))


@case("_cdist_backward", "no batch")
def cdist_backward_of_nothing(d):
    a, c = d.f(4, 5), d.f(0, 3, 5)
    return aten._cdist_backward.default(d.f(0, 4, 3), a, c, 1.0, aten._cdist_forward.default(a, c, 1.0, None))


simple("_euclidean_dist", f(2, 5, 3), f(2, 4, 3))
simple("_euclidean_dist", lambda d: d.f(30, 7).double(), lambda d: d.f(26, 7).double(), variant="float64")


# Group norm
def group_norm(d, channels_last=False, affine=True, groups=3):
    x = d.f(2, 6, 4, 5)
    if channels_last:
        x = d.keep(lambda: x.contiguous(memory_format=torch.channels_last))
    return aten.native_group_norm.default(x,
                                          d.f(6) if affine else None,
                                          d.f(6) if affine else None, 2, 6, 20, groups, 1e-5)


def group_norm_backward(d, affine=True, mask=(True, True, True)):
    x, weight = d.f(2, 6, 4, 5), d.f(6)
    _, mean, rstd = aten.native_group_norm.default(x, None, None, 2, 6, 20, 3, 1e-5)
    results = aten.native_group_norm_backward.default(d.f(2, 6, 4, 5), x, mean, rstd, weight if affine else None, 2, 6,
                                                      20, 3, list(mask))
    return [r for r, wanted in zip(results, mask) if wanted]


case("native_group_norm")(group_norm)
case("native_group_norm", "channels last")(lambda d: group_norm(d, channels_last=True))
case("native_group_norm", "plain")(lambda d: group_norm(d, affine=False, groups=6))
case("native_group_norm",
     "f64")(lambda d: aten.native_group_norm.default(d.d(2, 4, 3), d.d(4), d.d(4), 2, 4, 3, 2, 1e-3))
case("native_group_norm_backward")(group_norm_backward)
case("native_group_norm_backward", "plain")(lambda d: group_norm_backward(d, False, (True, False, False)))


# Recurrent layers: an LSTM, one layer in one direction
def lstm_operands(d, biases=True):
    h = 5
    weights = [d.small(4 * h, 3), d.small(4 * h, h), d.small(4 * h), d.small(4 * h)]
    if not biases:
        weights[2:] = [d.keep(lambda: torch.zeros(4 * h)), d.keep(lambda: torch.zeros(4 * h))]
    return d.f(7, 2, 3), weights, d.f(2, h), d.f(2, h)


def lstm_forward(d, reverse=False, biases=True):
    x, weights, h, c = lstm_operands(d, biases)
    with torch.enable_grad():  # without it nothing is kept for the gradient
        results = aten.mkldnn_rnn_layer.default(x, *weights, h, c, reverse, [], 2, 5, 1, biases, False, False, True)
    return results, x, weights, h, c


@case("mkldnn_rnn_layer")
def lstm(d):
    return lstm_forward(d)[0][:3]


@case("mkldnn_rnn_layer", "reverse")
def lstm_reverse(d):
    return lstm_forward(d, reverse=True)[0][:3]


def lstm_backward(d, reverse=False, states=True):
    (y, hy, cy, workspace), x, weights, h, c = lstm_forward(d, reverse)
    dy, dh, dc = d.f(7, 2, 5), d.f(2, 5), d.f(2, 5)
    return aten.mkldnn_rnn_layer_backward.default(x, *weights, h, c, y, hy, cy, dy, dh if states else None,
                                                  dc if states else None, reverse, 2, 5, 1, True, True, False, [],
                                                  False, workspace)


case("mkldnn_rnn_layer_backward")(lstm_backward)
case("mkldnn_rnn_layer_backward", "reverse")(lambda d: lstm_backward(d, reverse=True))
case("mkldnn_rnn_layer_backward", "output alone")(lambda d: lstm_backward(d, states=False))

simple("nansum", special, variant="special")
