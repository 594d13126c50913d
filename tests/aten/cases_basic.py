"""Cases of the ops that the first recorded models needed; newer families have files of their own."""

import torch

from case_support import aten, b, case, f, halves, i, pos, simple, special, t

# Arithmetic
for suffix in ("", "_"):
    simple(f"add{suffix}.Tensor", f(3, 4), f(4), alpha=2.5)
    simple(f"add{suffix}.Scalar", f(3, 4), 1.5, 2)
    simple(f"sub{suffix}.Tensor", f(3, 4), f(3, 1), alpha=0.5)
    simple(f"sub{suffix}.Scalar", i(3, 4), 3, 2)
    simple(f"mul{suffix}.Tensor", f(3, 4), t(4, 3))
    simple(f"mul{suffix}.Scalar", f(3, 4), 0.1)
    simple(f"div{suffix}.Tensor", f(3, 4), pos(4))
    simple(f"div{suffix}.Scalar", f(3, 4), 0.3)
    simple(f"neg{suffix}", f(5))
    simple(f"abs{suffix}", f(5))
    for op in ("reciprocal", "sqrt", "rsqrt", "exp", "log", "tanh", "sigmoid"):
        simple(f"{op}{suffix}", pos(3, 5))
    simple(f"relu{suffix}", f(3, 5))
    simple(f"silu{suffix}", f(3, 5))
    simple(f"clamp{suffix}", f(3, 5), -0.5, 0.5)
    simple(f"clamp{suffix}", f(3, 5), None, 0.5, variant="max")
    simple(f"clamp_min{suffix}", f(3, 5), 0.25)
    simple(f"clamp_max{suffix}", i(3, 5), 4)
    simple(f"masked_fill{suffix}.Scalar", f(3, 5), b(5), -1.5)
    simple(f"masked_fill{suffix}.Tensor", f(3, 5), b(3, 5), f())
    simple(f"lerp{suffix}.Scalar", f(3, 5), f(3, 5), 0.1)
    simple(f"lerp{suffix}.Scalar", f(3, 5), f(3, 5), 0.9, variant="large")
    simple(f"lerp{suffix}.Tensor", f(3, 5), f(3, 5), lambda d: d.pos(3, 5))
    simple(f"addcmul{suffix}", f(3, 5), f(3, 5), f(5), value=0.3)
    simple(f"addcdiv{suffix}", f(3, 5), f(3, 5), pos(5), value=-0.3)
    simple(f"tril{suffix}", f(2, 4, 5), 1)
    simple(f"triu{suffix}", f(4, 5), -1)
# 32 elements: the framework's vector loops round once, the loop for the rest of a row after each operation.
for variant, operand in halves(8, 4):
    simple("add.Tensor", operand, operand, variant=variant, alpha=0.3)
    simple("sub.Tensor", operand, operand, variant=variant, alpha=0.3)
    simple("add.Scalar", operand, 0.3, variant=variant)
    simple("mul.Tensor", operand, operand, variant=variant)
    simple("mul.Scalar", operand, 0.3, variant=variant)
    simple("div.Scalar", operand, 0.3, variant=variant)
    simple("addcmul", operand, operand, operand, variant=variant, value=0.3)
    simple("addcdiv", operand, operand, lambda d, operand=operand: operand(d).abs() + 1, variant=variant, value=0.3)
    simple("lerp.Scalar", operand, operand, 0.3, variant=variant)
    simple("lt.Scalar", operand, 0.3, variant=variant)
    simple("gelu", operand, variant=variant)
    simple("native_layer_norm", operand, [4], None, None, 1e-5, variant=variant)
    simple("_softmax", operand, 1, False, variant=variant)
    simple("linalg_vector_norm", operand, 2, variant=variant)
    simple("mm", operand, lambda d, dtype=variant: d.f(4, 8, dtype=torch.float16
                                                       if dtype == "f16" else torch.bfloat16), variant=variant)
    simple("_foreach_add_.Scalar", lambda d, operand=operand: [operand(d)], 0.3, variant=variant)
    simple("sigmoid", operand, variant=variant)
simple("add.Tensor", i(3, 4), f(3, 4), variant="promotes")
simple("add.Tensor", i(3), i(3), variant="integers", alpha=3)
simple("add.Tensor", b(6), b(6), variant="bools")
simple("add.Tensor", f(3), lambda d: d.d(), variant="0-dim f64")
simple("mul.Tensor", b(6), b(6), variant="bools")
simple("mul.Tensor", i(4), 2.5, variant="integer by number")
simple("mul.Tensor", special, 0.0, variant="special")
simple("div.Tensor", i(4), i(4, low=1), variant="integers")
simple("div.Tensor", lambda d: d.d(), i(4, low=1), variant="f64 without dimensions by integers")
simple("pow.Tensor_Tensor", i(4, low=1), lambda d: d.d(), variant="integers to an f64 without dimensions")
simple("div_.Tensor", f(4), lambda d: d.d(4), variant="f64 operand")
simple("rsub.Tensor", f(3), f(3), alpha=2)
simple("rsub.Scalar", f(3), 1, 2)
simple("exp", i(3), variant="integers")
simple("relu", special, variant="special")
simple("clamp", special, -1, 1, variant="special")
for op in ("erf", "sin", "cos", "floor", "isnan", "logical_not"):
    simple(op, special if op in ("isnan", "logical_not") else f(7))
simple("logical_and", f(5), b(5))
simple("logical_or", i(5, high=2), b(5))
simple("bitwise_not", b(5))
simple("bitwise_and.Tensor", b(5), b(5))
simple("bitwise_or.Tensor", b(5), b(5))
simple("maximum", f(4, 3), f(3))
simple("minimum", special, lambda d: d.f(7))
for op in ("lt", "le", "gt", "ge", "eq", "ne"):
    simple(f"{op}.Tensor", i(6, high=3), i(6, high=3))
    simple(f"{op}.Scalar", i(6, high=3), 1)
    simple(f"{op}.Scalar", i(6, high=3), 1.5, variant="integer by number")
    simple(f"{op}.Tensor", i(6, high=3), lambda d: d.f(6), variant="promotes")
for exponent in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5):
    simple("pow.Tensor_Scalar", pos(5), exponent, variant=str(exponent))
simple("pow.Tensor_Scalar", i(5), 2, variant="integers")
simple("pow.Tensor_Tensor", pos(5), f(5))
simple("pow.Scalar", 2.5, f(5))
simple("pow_.Scalar", pos(5), 2)
simple("threshold_backward", f(4, 3), f(4, 3), 0)
simple("threshold_backward", lambda d: d.f(7), special, 0, variant="special")
simple("sigmoid_backward", f(5), pos(5))
simple("tanh_backward", f(5), f(5))
for approximate in ("none", "tanh"):
    simple("gelu", f(4, 6), variant=approximate, approximate=approximate)
    simple("gelu_backward", f(4, 6), f(4, 6), variant=approximate, approximate=approximate)
simple("silu_backward", f(5), f(5))
simple("where.self", b(3, 4), f(4), f(3, 1))
simple("where.self", b(4), i(4), f(4), variant="promotes")

# Variants that the table derives from functional ops: the argument that is written is the result
for op, operands in {
        "maximum": [f(4, 3), f(3)], "add": [f(4, 3), f(3)], "neg": [f(4, 3)], "gelu_backward": [f(3), f(3)]
}.items():
    overload = "grad_input" if op.endswith("_backward") else "out"
    simple(f"{op}.{overload}", *operands, **{overload: lambda d, op=op: d.f(3) if "_b" in op else d.f(4, 3)})
simple("lt.Scalar_out", f(4), 0.0, out=b(4))
simple("eq_.Tensor", f(4), f(4))
simple("_foreach_add.Scalar_out", lambda d: [d.f(3), d.f(2)], 0.5, out=lambda d: [d.f(3), d.f(2)])

# Reductions and products
for variant, operand in [("", f(3, 4, 5)), ("strided", lambda d: d.f(5, 4, 3).permute(2, 1, 0)), *halves(3, 4, 5)]:
    simple("sum", operand, variant=variant)
    simple("sum.dim_IntList", operand, [0, 2], True, variant=variant)
    simple("mean", operand, variant=variant)
    simple("mean.dim", operand, [-1, -2], True, variant=variant)
    simple("amax", operand, [1], variant=variant)
    simple("max", operand, variant=variant)
simple("sum", i(4, 3), variant="integers")
simple("sum", b(4, 3), variant="bools")
simple("sum.dim_IntList", f(3, 4), [], variant="all dims")
simple("sum.dim_IntList", f(3, 4), [1], variant="to f64", dtype=torch.float64)
simple("sum", f(), variant="0-dim")
simple("mean.dim", f(3, 4), [0], variant="drops")
for order in (1, 2, float("inf")):
    simple("linalg_vector_norm", f(3, 4), order, variant=str(order))
simple("linalg_vector_norm", f(3, 4), 2, [1], True, variant="dim")
simple("var.correction", f(3, 7), [1], correction=1)
simple("std.correction", f(3, 7), None, correction=0, keepdim=True)
simple("mm", f(3, 4), t(5, 4))
simple("bmm", f(2, 3, 4), lambda d: d.f(2, 5, 4).transpose(1, 2))
simple("addmm", f(5), f(3, 4), f(4, 5))
simple("addmm", f(3, 5), f(3, 4), f(4, 5), variant="scaled", beta=0.5, alpha=2)
simple("baddbmm", f(2, 3, 5), f(2, 3, 4), f(2, 4, 5), beta=1, alpha=0.25)
simple("mv", f(3, 4), f(4))
simple("dot", f(6), f(6))

# Softmax and losses
for dim in (1, 0, -1):
    simple("_log_softmax", f(4, 6, 3), dim, False, variant=str(dim))
    simple("_log_softmax_backward_data", f(4, 6, 3), f(4, 6, 3), dim, torch.float32, variant=str(dim))
    simple("_softmax", f(4, 6, 3), dim, False, variant=str(dim))
    for op in ("_softmax", "_log_softmax"):
        case(op, f"nothing {dim}")(lambda d, op=op, dim=dim: d.f(3) + getattr(aten, op)(d.f(0, 2, 3), dim, False).sum(
            (0, 1)))
    simple("_softmax_backward_data", f(4, 6, 3), pos(4, 6, 3), dim, torch.float32, variant=str(dim))
for name, reduction in (("none", 0), ("mean", 1), ("sum", 2)):
    for ignore in (-100, 2):
        def forward(d, reduction=reduction, ignore=ignore):
            loss, weight = aten.nll_loss_forward.default(d.f(6, 5), d.i(6, high=5), None, reduction, ignore)
            return (loss,) if reduction == 0 else (loss, weight)

        def backward(d, reduction=reduction, ignore=ignore):
            x, target = d.f(6, 5), d.i(6, high=5)
            gradient = d.f(6) if reduction == 0 else d.f()
            total = (target != ignore).sum().float()
            return aten.nll_loss_backward.default(gradient, x, target, None, reduction, ignore, total)

        case("nll_loss_forward", f"{name} {ignore}")(forward)
        case("nll_loss_backward", f"{name} {ignore}")(backward)
    simple("mse_loss", f(4, 3), f(4, 3), reduction, variant=name)
    simple("mse_loss_backward", f(4, 3) if reduction == 0 else f(), f(4, 3), f(4, 3), reduction, variant=name)
simple("nll_loss_forward", f(5), i(high=5), None, 1, -100, variant="one sample")


# Normalisation
for affine in (True, False):
    variant = "affine" if affine else "plain"

    @case("native_layer_norm", variant)
    def layer_norm(d, affine=affine):
        weight, bias = (d.f(3, 5), d.f(3, 5)) if affine else (None, None)
        return aten.native_layer_norm.default(d.f(4, 2, 3, 5), [3, 5], weight, bias, 1e-5)

    @case("native_layer_norm_backward", variant)
    def layer_norm_backward(d, affine=affine):
        x, g = d.f(4, 2, 5), d.f(4, 2, 5)
        weight, bias = (d.f(5), d.f(5)) if affine else (None, None)
        _, mean, scale = aten.native_layer_norm.default(x, [5], weight, bias, 1e-5)
        mask = [True, affine, affine]
        return [
            r for r in aten.native_layer_norm_backward.default(g, x, [5], mean, scale, weight, bias, mask)
            if r is not None
        ]

    for training in (True, False):
        def batch_norm(d, affine=affine, training=training):
            weight, bias = (d.f(3), d.f(3)) if affine else (None, None)
            mean, var = d.f(3).clone(), d.pos(3).clone()
            y, save_mean, save_scale = aten.native_batch_norm.default(d.f(4, 3, 2, 5), weight, bias, mean, var,
                                                                      training, 0.1, 1e-5)
            return [y, mean, var] + ([save_mean, save_scale] if training else [])

        def batch_norm_backward(d, affine=affine, training=training):
            x, g = d.f(4, 3, 2, 5), d.f(4, 3, 2, 5)
            weight = d.f(3) if affine else None
            mean, var = d.f(3).clone(), d.pos(3).clone()
            _, save_mean, save_scale = aten.native_batch_norm.default(x, weight, None, mean, var, training, 0.1, 1e-5)
            mask = [True, affine, affine]
            results = aten.native_batch_norm_backward.default(g, x, weight, mean, var, save_mean, save_scale, training,
                                                              1e-5, mask)
            return [r for r in results if r is not None]

        mode = variant + (" training" if training else " evaluation")
        case("native_batch_norm", mode)(batch_norm)
        case("native_batch_norm_backward", mode)(batch_norm_backward)


@case("_native_batch_norm_legit")
def batch_norm_legit(d):
    mean, var = d.f(3).clone(), d.pos(3).clone()
    y, save_mean, save_scale = aten._native_batch_norm_legit.default(d.f(4, 3), d.f(3), d.f(3), mean, var, True, 0.1,
                                                                     1e-5)
    return y, mean, var, save_mean, save_scale


# Attention
for causal in (True, False):
    for masked in (False, True):
        if causal and masked:
            continue

        def operands(d, masked):
            q, k, v = (d.f(2, 7, 3, 8).transpose(1, 2) for _ in range(3))
            return q, k, v, (d.f(7, 7) if masked else None)

        def attention(d, causal=causal, masked=masked):
            q, k, v, mask = operands(d, masked)
            return aten._scaled_dot_product_flash_attention_for_cpu.default(q, k, v, 0.0, causal, attn_mask=mask)

        def attention_backward(d, causal=causal, masked=masked):
            q, k, v, mask = operands(d, masked)
            g = d.f(2, 7, 3, 8).transpose(1, 2)
            y, log_sum = aten._scaled_dot_product_flash_attention_for_cpu.default(q, k, v, 0.0, causal, attn_mask=mask,
                                                                                  scale=0.4)
            return aten._scaled_dot_product_flash_attention_for_cpu_backward.default(
                g, q, k, v, y, log_sum, 0.0, causal, attn_mask=mask, scale=0.4)

        mode = "causal" if causal else "masked" if masked else "full"
        case("_scaled_dot_product_flash_attention_for_cpu", mode)(attention)
        case("_scaled_dot_product_flash_attention_for_cpu_backward", mode)(attention_backward)

# Convolution and pooling
for variant, x, w, stride, padding, dilation, groups in (
        ("plain", (2, 3, 6, 7), (4, 3, 3, 3), [1, 1], [0, 0], [1, 1], 1),
        ("strided", (2, 4, 8, 7), (6, 4, 3, 2), [2, 1], [1, 2], [1, 1], 1),
        ("dilated groups", (1, 4, 9, 9), (6, 2, 3, 3), [1, 2], [2, 2], [2, 2], 2),
        ("depthwise", (2, 3, 5, 5), (3, 1, 3, 3), [1, 1], [1, 1], [1, 1], 3)):
    rest = (stride, padding, dilation, False, [0, 0], groups)
    simple("convolution", f(*x), f(*w), f(w[0]), *rest, variant=variant)
    simple("convolution", f(*x), f(*w), None, *rest, variant=variant + " without bias")

    def convolution_backward(d, x=x, w=w, rest=rest):
        y = aten.convolution.default(d.f(*x), d.f(*w), None, *rest)
        g = d.keep(lambda: torch.randn(y.shape, generator=torch.Generator().manual_seed(1)))
        return aten.convolution_backward.default(g, d.f(*x), d.f(*w), [w[0]], *rest, [True, True, True])

    case("convolution_backward", variant)(convolution_backward)
for variant, size, window in (
        ("plain", (2, 3, 6, 8), ([2, 2],)),
        ("padded", (2, 3, 7, 8), ([3, 3], [2, 2], [1, 1])),
        ("dilated", (1, 2, 9, 9), ([3, 2], [1, 2], [1, 0], [2, 1])),
        ("ceil", (1, 2, 7, 7), ([2, 2], [2, 2], [0, 0], [1, 1], True)),
        ("one image", (3, 6, 6), ([2, 2],))):
    simple("max_pool2d_with_indices", f(*size), *window, variant=variant)

    def pool_backward(d, size=size, window=window):
        x = d.f(*size)
        y, index = aten.max_pool2d_with_indices.default(x, *window)
        g = d.keep(lambda: torch.randn(y.shape, generator=torch.Generator().manual_seed(1)))
        kernel, stride, padding, dilation, ceil = (list(window) + [window[0], [0, 0], [1, 1], False][len(window) - 1:])
        return aten.max_pool2d_with_indices_backward.default(g, x, kernel, stride, padding, dilation, ceil, index)

    case("max_pool2d_with_indices_backward", variant)(pool_backward)

# Indexing
simple("embedding", f(9, 4), i(3, 5, high=9))
simple("embedding_renorm_", f(9, 4), i(3, 5, high=9), 1.2, 2)
simple("embedding_renorm_", lambda d: d.d(9, 4), i(12, high=9), 2.5, 1, variant="of order 1, f64")
simple("embedding_renorm_", lambda d: d.f(4, 9).t(), i(5, high=9), 0.5, float("inf"), variant="strided")
simple("embedding_renorm", f(9, 4), i(5, high=9), 0.9, 2)
simple("embedding_dense_backward", f(3, 5, 4), i(3, 5, high=9), 9, -1, False)
simple("embedding_dense_backward", f(15, 4), i(15, high=9), 9, 3, False, variant="padding")
simple("index_select", f(4, 5, 3), 1, i(7, high=5))
simple("index_select", f(4, 5), 0, i(2, high=4), variant="rows")
simple("index_select", f(), 0, i(1, high=1), variant="0-dim")

# Views, copies, joins
def viewed(op, function, variant=""):
    """A view op is seen through what is read from it and what is written through it."""
    @case(op, variant)
    def run(d):
        base = d.f(4, 6).clone()
        views = function(base)
        views = views if isinstance(views, (list, tuple)) else [views]
        results = [view * 2 for view in views]
        views[0].add_(1)
        return [base, *results]


viewed("t", lambda x: aten.t.default(x))
viewed("transpose.int", lambda x: aten.transpose.int(x, 0, 1))
viewed("permute", lambda x: aten.permute.default(x.view(2, 2, 6), [2, 0, 1]))
viewed("detach", lambda x: aten.detach.default(x))
viewed("alias", lambda x: aten.alias.default(x))
viewed("select.int", lambda x: aten.select.int(x, 1, -2))
viewed("slice.Tensor", lambda x: aten.slice.Tensor(x, 1, 1, 6, 2))
viewed("split.Tensor", lambda x: aten.split.Tensor(x, 4, 1))
viewed("split_with_sizes", lambda x: aten.split_with_sizes.default(x, [1, 3], 0))
viewed("unbind.int", lambda x: aten.unbind.int(x, 0))
viewed("squeeze", lambda x: aten.squeeze.default(x.view(4, 1, 6)))
viewed("squeeze.dim", lambda x: aten.squeeze.dim(x.view(4, 1, 6), 1))
viewed("squeeze.dims", lambda x: aten.squeeze.dims(x.view(4, 1, 6, 1), [1, 3]))
viewed("unsqueeze", lambda x: aten.unsqueeze.default(x, 1))
viewed("as_strided", lambda x: aten.as_strided.default(x, [3, 2], [7, 2], 1))
viewed("diagonal", lambda x: aten.diagonal.default(x))
viewed("unfold", lambda x: aten.unfold.default(x, 1, 2, 2))
viewed("view", lambda x: aten.view.default(x, [3, 8]))
viewed("view", lambda x: aten.view.default(aten.t.default(x), [2, 3, 4]), "transposed")
viewed("_unsafe_view", lambda x: aten._unsafe_view.default(x, [24]))
viewed("_reshape_alias", lambda x: aten._reshape_alias.default(x, [2, 12], [12, 1]))
viewed("lift_fresh", lambda x: aten.lift_fresh.default(x))
simple("expand", f(3, 1), [2, 3, 4])
simple("clone", t(3, 4))
simple("clone", t(3, 4), variant="contiguous", memory_format=torch.contiguous_format)
simple("lift_fresh_copy", f(3))
simple("detach_copy", f(3))
for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool):
    simple("_to_copy", pos(3, 4), variant=str(dtype), dtype=dtype)
simple("_to_copy", i(5, high=70000), variant="i64 to f16", dtype=torch.float16)
simple("_to_copy", i(5, high=70000), variant="i64 to i16", dtype=torch.int16)
simple("copy_", f(3, 4), f(4))
simple("copy_", f(3, 4), lambda d: d.i(3, 4), variant="converts")
simple("cat", lambda d: [d.f(2, 3), d.f(2, 1), d.f(3, 2).t()], 1)
simple("cat", lambda d: [d.f(3), d.i(2)], variant="promotes")
simple("cat", lambda d: [d.f(2, 0), d.f(3, 2).t(), d.f(2, 0)], 1, variant="of one that has elements")
simple("cat", lambda d: [d.f(2, 0), d.i(2, 3)], 1, variant="of one that is promoted")
simple("stack", lambda d: [d.f(3, 4), d.f(3, 4)], 1)
simple("stack", lambda d: [d.f(), d.f(), d.f()], variant="0-dim")
simple("select_backward", f(4, 3), [4, 5, 3], 1, -2)
simple("slice_backward", f(4, 2, 3), [4, 5, 3], 1, 1, 5, 2)
simple("slice_backward", f(4, 2), [4, 5], 1, -2, 9223372036854775807, 1, variant="from the end")

# Creation
for name, arguments in (("zeros", [[2, 3]]), ("ones", [[2, 3]]), ("full", [[2, 3], 2.5]), ("scalar_tensor", [1.5])):
    simple(name, *arguments)
simple("zeros_like", f(2, 3))
simple("ones_like", i(2, 3))
simple("full_like", f(2, 3), 0.3)
simple("new_zeros", f(2), [3])
simple("new_ones", f(2), [3])
simple("new_full", f(2), [3], 0.7)
simple("zero_", f(2, 3))
simple("fill_.Scalar", f(2, 3), 0.1)
simple("fill_.Tensor", f(2, 3), f())
simple("fill.Scalar", f(2, 3), 0.1)
simple("fill.Tensor", f(2, 3), f())
for name, arguments in (("empty.memory_format", [[2, 3]]), ("empty_like", [f(2, 3)]),
                        ("empty_strided", [[2, 3], [1, 2]]), ("empty_permuted", [[2, 3], [1, 0]]),
                        ("new_empty", [f(2), [3]]),
                        ("new_empty_strided", [f(2), [2, 3], [3, 1]])):
    packet, _, overload = name.partition(".")

    @case(name)
    def empty(d, function=getattr(getattr(aten, packet), overload or "default"), arguments=arguments):
        return function(*[a(d) if callable(a) else a for a in arguments]).fill_(2.0)

simple("arange", 5)
simple("range", 2, 7.5, dtype=torch.float32)
simple("range.step", 0.5, 2, 0.25, dtype=torch.float32)
simple("fft_fftfreq", 7, 0.25)
simple("fft_fftfreq", 8, 3.0, dtype=torch.float64, variant="even")
simple("fft_rfftfreq", 7, 0.25)
simple("arange.start", 2, 7.5, dtype=torch.float32)
simple("arange.start_step", 10, 1, -2)
simple("arange.start_step", 0.5, 2, 0.25, variant="floating")
simple("arange.start_step", 0.1, -7.9, -4.0, variant="integers from numbers that are none", dtype=torch.int64)
simple("arange.start_step", False, True, True, variant="bools", dtype=torch.float32)


@case("native_dropout_backward")
def dropout_backward(d):
    return aten.native_dropout_backward.default(d.f(4, 5), d.b(4, 5), 1.25)


@case("native_dropout")
def dropout(d):
    return aten.native_dropout.default(d.f(40, 5), 0.3, True)


# Random ops: what they drew is recorded
@case("bernoulli_.float")
def bernoulli(d):
    return aten.bernoulli_.float(torch.empty_like(d.f(4, 5)), 0.3)


@case("randn")
def randn(d):
    return aten.randn.default([4, 5])


@case("normal_", "transposed")
def normal(d):
    return aten.normal_.default(d.f(4, 5).t().clone())


# Lists
def lists(d, count=3):
    return [d.f(2, 3), d.f(4), d.f()][:count]


def positive(d):
    return [d.pos(2, 3), d.pos(4), d.pos()]


for suffix in ("", "_"):
    for op in ("add", "sub", "mul", "div"):
        alpha = {"alpha": 0.5} if op in ("add", "sub") else {}
        simple(f"_foreach_{op}{suffix}.Scalar", lists, 1.5)
        simple(f"_foreach_{op}{suffix}.List", lists, positive, **alpha)
        simple(f"_foreach_{op}{suffix}.ScalarList", lists, [0.5, 2.0, 3.0])
        if op != "sub":
            simple(f"_foreach_{op}{suffix}.Tensor", lists, pos(), **({"alpha": 0.5} if op == "add" else {}))
    for op in ("sqrt", "reciprocal", "neg", "abs"):
        simple(f"_foreach_{op}{suffix}", positive)
    for op in ("addcmul", "addcdiv"):
        simple(f"_foreach_{op}{suffix}.Scalar", lists, lists, positive, 0.3)
        simple(f"_foreach_{op}{suffix}.ScalarList", lists, lists, positive, [0.3, 0.4, 0.5])
    simple(f"_foreach_lerp{suffix}.Scalar", lists, positive, 0.2)
    simple(f"_foreach_lerp{suffix}.List", lists, positive, positive)
    simple(f"_foreach_maximum{suffix}.List", lists, positive)
    simple(f"_foreach_lerp{suffix}.ScalarList", lists, positive, [0.1, 0.6, 0.5])
    simple(f"_foreach_maximum{suffix}.Scalar", lists, 0.5)
    simple(f"_foreach_minimum{suffix}.List", lists, positive)
    simple(f"_foreach_zero{suffix}", lists)
    simple(f"_foreach_copy{suffix}", lists, positive)
simple("_foreach_pow.Scalar", positive, 2.5)
simple("_foreach_pow.List", positive, lists)
simple("_foreach_pow_.Scalar", positive, 2)
simple("_foreach_pow.ScalarAndTensor", 0.9, lists)
simple("_foreach_norm.Scalar", lists, 2)


# Numbers that differ between iterations
@case("mul_.Tensor", "slot")
def slot_number(d):
    return d.f(3).clone().mul_(0.5 + 0.25 * d.step)


@case("add_.Tensor", "slot alpha")
def slot_alpha(d):
    return d.f(3).clone().add_(d.f(3), alpha=-0.1 * (d.step + 1))


@case("_foreach_addcdiv_.ScalarList", "slots")
def slot_list(d):
    x = [t.clone() for t in lists(d)]
    torch._foreach_addcdiv_(x, lists(d), positive(d), [-0.1 * (d.step + k) for k in range(3)])
    return x


@case("lerp_.Scalar", "slot")
def slot_weight(d):
    return d.f(3).clone().lerp_(d.f(3), 0.6 + 0.1 * d.step)


@case("addmm", "slot alpha")
def slot_matrix(d):
    return aten.addmm.default(d.f(5), d.f(3, 4), d.f(4, 5), beta=1.5 + d.step, alpha=0.5 + d.step)


@case("fill_.Scalar", "integer slot")
def slot_fill(d):
    return d.i(4).clone().fill_(d.step)
