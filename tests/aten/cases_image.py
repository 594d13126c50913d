"""Cases of ops that resample, unfold or reorder images."""

from case_support import BF16, F32, F64, aten, case, f, like, simple

# Resampling by the nearest element
for variant, size, output, scales, dtype in (
        ("1d doubled", (2, 3, 5), [10], [None], F32),
        ("1d tripled", (2, 3, 4), [12], [3.0], F64),
        ("2d doubled", (2, 3, 4, 5), [8, 10], [2.0, 2.0], F32),
        ("2d by three and one", (2, 3, 4, 5), [12, 5], [None, None], F32),
        ("2d down", (1, 2, 6, 9), [3, 3], [None, None], F32),
        ("2d bf16", (1, 2, 3, 3), [9, 6], [None, None], BF16),
        ("3d", (1, 2, 2, 3, 4), [4, 3, 12], [None, 1.0, 3.0], F32)):
    for exact in (False, True):
        stem = f"_upsample_nearest_exact{len(output)}d" if exact else f"upsample_nearest{len(output)}d"

        def nearest(d, op=getattr(aten, stem).default, size=size, output=output, scales=scales, dtype=dtype):
            return op(d.f(*size, dtype=dtype), output, *scales)

        def nearest_backward(d, op=getattr(aten, stem + "_backward").default, size=size, output=output, scales=scales,
                             dtype=dtype):
            return op(d.f(*size[:2], *output, dtype=dtype), output, list(size), *scales)

        case(stem, variant)(nearest)
        case(stem + "_backward", variant)(nearest_backward)

# Windows as columns
for variant, size, kernel, dilation, padding, stride, dtype in (
        ("overlapping", (2, 3, 6, 5), [3, 2], [1, 1], [1, 0], [1, 2], F32),
        ("dilated", (2, 3, 7, 8), [3, 3], [2, 1], [1, 1], [1, 1], F64),
        ("patches", (3, 6, 8), [2, 4], [1, 1], [0, 0], [2, 4], F32),
        ("gaps", (1, 2, 9, 8), [2, 2], [1, 2], [1, 0], [3, 5], F32)):

    def columns(d, size=size, rest=(kernel, dilation, padding, stride), dtype=dtype):
        return aten.im2col.default(d.f(*size, dtype=dtype), *rest)

    def image(d, size=size, rest=(kernel, dilation, padding, stride), dtype=dtype):
        shape = aten.im2col.default(d.f(*size, dtype=dtype), *rest)
        return aten.col2im.default(like(d, shape), list(size[-2:]), *rest)

    case("im2col", variant)(columns)
    case("col2im", variant)(image)
simple("unfold_backward", f(2, 4, 3, 5), [2, 9, 3], 1, 5, 1, variant="overlapping")
simple("unfold_backward", f(2, 3, 3, 2), [2, 9, 3], 1, 2, 3, variant="gaps")
simple("unfold_backward", f(2, 3, 4), [2, 7], -1, 4, 1, variant="last")

# Elements in another order
simple("pixel_shuffle", f(2, 12, 3, 4), 2)
simple("pixel_shuffle", f(9, 2, 3), 3, variant="one image")
simple("pixel_unshuffle", f(2, 3, 4, 6), 2)
simple("channel_shuffle", f(2, 6, 3, 4), 3)
simple("native_channel_shuffle", f(2, 6, 3, 4), 2)
