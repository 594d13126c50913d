"""Cases of op_cases.py for ops over images: convolutions, pools, resampling, paddings, folding."""

import torch

aten = torch.ops.aten
F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16

# Ops of the table that only a device's build of the framework runs; frontends/aten's own test has them by hand.
DEVICE_ONLY = {
    "aten::convolution_overrideable", "aten::convolution_backward_overrideable",
    "aten::cudnn_convolution", "aten::cudnn_convolution_transpose", "aten::cudnn_convolution_relu",
    "aten::cudnn_convolution_add_relu", "aten::miopen_convolution", "aten::miopen_convolution_transpose",
    "aten::miopen_depthwise_convolution", "aten::miopen_convolution_relu", "aten::miopen_convolution_add_relu",
    "aten::_conv_depthwise2d", "aten::conv_depthwise3d",
}


def like(d, y, dtype=None):
    """A gradient of y's sizes, the same in every run."""
    return d.keep(lambda: torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).to(dtype or y.dtype))


def convolutions(case, simple):
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

    def f(*sizes):
        return lambda d: d.f(*sizes)

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


def add_cases(case, simple):
    convolutions(case, simple)
