"""Cases of convolutions: one to three dimensions, plain and transposed."""

from case_support import BF16, F32, F64, aten, case, f, like, simple

for variant, x, w, stride, padding, dilation, transposed, extra, groups, dtype in (
        ("1d", (2, 4, 9), (6, 2, 3), [2], [1], [2], False, [0], 2, F32),
        ("1d f64", (2, 4, 9), (6, 4, 3), [1], [1], [1], False, [0], 1, F64),
        ("3d", (2, 4, 5, 6, 7), (6, 2, 3, 2, 3), [2, 1, 2], [1, 0, 1], [1, 2, 1], False, [0, 0, 0], 2, F32),
        ("3d dilated", (1, 2, 7, 5, 5), (3, 2, 3, 3, 3), [1, 1, 1], [2, 1, 1], [2, 1, 1], False, [0, 0, 0], 1, F64),
        ("3d bf16", (1, 2, 4, 5, 5), (3, 2, 2, 3, 3), [2, 1, 1], [0, 1, 1], [1, 1, 1], False, [0, 0, 0], 1, BF16),
        ("transposed 1d", (2, 4, 5), (4, 3, 3), [2], [1], [1], True, [1], 1, F32),
        ("transposed 2d", (2, 4, 5, 4), (4, 3, 3, 2), [2, 3], [1, 0], [1, 2], True, [1, 2], 2, F32),
        ("transposed, wide output padding", (1, 2, 4, 4), (2, 3, 3, 3), [1, 2], [1, 1], [3, 3], True, [2, 2], 1, F64),
        ("transposed 3d", (1, 4, 3, 4, 3), (4, 2, 3, 2, 2), [2, 1, 2], [1, 0, 0], [1, 1, 1], True, [1, 0, 1], 2, F32),
        ("bf16", (2, 3, 6, 7), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1, BF16),
        ("no images", (0, 3, 6, 7), (4, 3, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1, F32)):
    rest = (stride, padding, dilation, transposed, extra, groups)
    outputs = w[1] * groups if transposed else w[0]

    def forward(d, x=x, w=w, rest=rest, outputs=outputs, dtype=dtype):
        # bf16 without a bias: the framework's CPU kernel rounds the sum once, its GPU kernels and the program twice.
        bias = None if dtype == BF16 else d.f(outputs, dtype=dtype)
        return aten.convolution.default(d.f(*x, dtype=dtype), d.f(*w, dtype=dtype), bias, *rest)

    def backward(d, x=x, w=w, rest=rest, outputs=outputs, dtype=dtype):
        operands = d.f(*x, dtype=dtype), d.f(*w, dtype=dtype)
        g = like(d, aten.convolution.default(*operands, None, *rest))
        return aten.convolution_backward.default(g, *operands, [outputs], *rest, [True, True, True])

    if x[0] > 0:  # else the result has no elements to compare
        case("convolution", variant)(forward)
    case("convolution_backward", variant)(backward)

simple("_convolution", f(2, 4, 6, 5), f(4, 2, 3, 3), f(4), [1, 2], [1, 1], [1, 1], False, [0, 0], 2,
       False, False, False, False)
simple("mkldnn_convolution", f(2, 3, 6, 5), f(4, 3, 3, 2), f(4), [1, 0], [2, 1], [1, 2], 1)
simple("_slow_conv2d_forward", f(2, 3, 6, 5), f(4, 3, 3, 2), [3, 2], f(4), [2, 1], [1, 1])
simple("_slow_conv2d_backward.output_mask", f(2, 4, 3, 6), f(2, 3, 6, 5), f(4, 3, 3, 2), [3, 2], [2, 1], [1, 1],
       [True, True, True])
simple("slow_conv_dilated2d", f(2, 3, 6, 7), f(4, 3, 3, 2), [3, 2], f(4), [2, 1], [1, 1], [2, 1])
simple("slow_conv_dilated2d", f(3, 6, 7), f(4, 3, 3, 2), [3, 2], None, [2, 1], [1, 1], [2, 1], variant="one image")
simple("slow_conv_dilated3d", f(1, 3, 6, 7, 5), f(4, 3, 3, 2, 2), [3, 2, 2], f(4), [2, 1, 1], [1, 1, 0], [2, 1, 1])
simple("slow_conv_transpose2d", f(2, 3, 4, 5), f(3, 4, 3, 2), [3, 2], f(4), [2, 1], [1, 1], [1, 0], [1, 1])
simple("slow_conv_transpose3d", f(1, 3, 4, 3, 3), f(3, 2, 3, 2, 2), [3, 2, 2], f(2), [2, 1, 2], [1, 1, 0], [1, 0, 0],
       [1, 1, 1])
simple("slow_conv3d_forward", f(1, 3, 4, 5, 6), f(2, 3, 3, 2, 2), [3, 2, 2], f(2), [2, 1, 1], [1, 0, 1])
