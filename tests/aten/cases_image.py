"""Cases of ops that resample, unfold or reorder images."""

import torch

from case_support import BF16, F32, F64, aten, case, f, like, simple

# Resampling by the nearest element
for variant, size, output, scales, dtype in (
        ("1d doubled", (2, 3, 5), [10], [None], F32),
        ("1d tripled", (2, 3, 4), [12], [3.0], F64),
        ("2d doubled", (2, 3, 4, 5), [8, 10], [2.0, 2.0], F32),
        ("2d by three and one", (2, 3, 4, 5), [12, 5], [None, None], F32),
        ("2d down", (1, 2, 6, 9), [3, 3], [None, None], F32),
        ("2d bf16", (1, 2, 3, 3), [9, 6], [None, None], BF16),
        ("3d", (1, 2, 2, 3, 4), [4, 3, 12], [None, 1.0, 3.0], F32),
        ("1d uneven", (2, 3, 5), [13], [2.7], F32),
        ("2d uneven", (1, 2, 5, 7), [8, 4], [None, 0.6], F64),
        ("3d uneven", (1, 2, 2, 3, 4), [3, 7, 6], [None, 2.4, 1.5], F32)):
    for exact in (False, True):
        stem = f"_upsample_nearest_exact{len(output)}d" if exact else f"upsample_nearest{len(output)}d"

        def nearest(d, op=getattr(aten, stem).default, size=size, output=output, scales=scales, dtype=dtype):
            return op(d.f(*size, dtype=dtype), output, *scales)

        def nearest_backward(d, op=getattr(aten, stem + "_backward").default, size=size, output=output, scales=scales,
                             dtype=dtype):
            return op(d.f(*size[:2], *output, dtype=dtype), output, list(size), *scales)

        case(stem, variant)(nearest)
        case(stem + "_backward", variant)(nearest_backward)

# Resampling by weights
for stem, variant, size, output, scales, dtype in (
        ("upsample_linear1d", "doubled", (2, 3, 5), [10], [2.0], F32),
        ("upsample_linear1d", "uneven", (2, 3, 5), [7], [1.5], F64),
        ("upsample_bilinear2d", "doubled", (2, 3, 4, 5), [8, 10], [None, None], F32),
        ("upsample_bilinear2d", "uneven", (1, 2, 5, 7), [3, 12], [None, 1.7], F64),
        ("upsample_bilinear2d", "one side", (1, 2, 5, 4), [5, 9], [None, None], F32),
        ("upsample_bilinear2d", "bf16", (1, 2, 4, 4), [6, 8], [None, None], BF16),
        ("upsample_trilinear3d", "uneven", (1, 2, 3, 4, 2), [5, 7, 4], [None, None, 2.0], F32),
        ("upsample_bicubic2d", "doubled", (1, 2, 4, 5), [8, 10], [2.0, 2.0], F64),
        ("_upsample_bilinear2d_aa", "down", (1, 2, 7, 9), [3, 4], [None, None], F32),
        ("_upsample_bilinear2d_aa", "up", (1, 2, 4, 5), [7, 5], [None, None], F64),
        ("_upsample_bicubic2d_aa", "down", (1, 2, 9, 8), [4, 3], [None, 0.4], F64),
        ("_upsample_bicubic2d_aa", "up", (1, 2, 4, 5), [9, 6], [None, None], F64),
        ("upsample_bicubic2d", "uneven", (1, 2, 6, 5), [4, 11], [None, 2.3], F64)):
    for corners in (False, True):
        def resampled(d, op=getattr(aten, stem).default, size=size, output=output, scales=scales, dtype=dtype,
                      corners=corners):
            return op(d.f(*size, dtype=dtype), output, corners, *scales)

        def resampled_backward(d, op=getattr(aten, stem + "_backward").default, size=size, output=output, scales=scales,
                               dtype=dtype, corners=corners):
            return op(d.f(*size[:2], *output, dtype=dtype), output, list(size), corners, *scales)

        case(stem, f"{variant} {corners}")(resampled)
        if dtype != BF16:  # the framework's CPU gradient rounds after each addition
            case(stem + "_backward", f"{variant} {corners}")(resampled_backward)

# Paddings that repeat the tensor
for variant, size, padding, dtype in (
        ("1d", (2, 3, 5), [2, 4], F32), ("1d one row", (3, 5), [1, 0], F64), ("2d", (2, 3, 5, 4), [1, 3, 2, 0], F32),
        ("2d bf16", (1, 2, 4, 4), [3, 2, 1, 1], BF16), ("3d", (1, 2, 3, 4, 5), [2, 1, 0, 3, 1, 2], F64)):
    for kind in ("reflection", "replication"):
        name = f"{kind}_pad{len(padding) // 2}d"

        def pad(d, op=getattr(aten, name).default, size=size, padding=padding, dtype=dtype):
            return op(d.f(*size, dtype=dtype), padding)

        def pad_backward(d, name=name, size=size, padding=padding, dtype=dtype):
            x = d.f(*size, dtype=dtype)
            g = like(d, getattr(aten, name).default(x, padding))
            return getattr(aten, name + "_backward").default(g, x, padding)

        case(name, variant)(pad)
        if dtype != BF16:  # the framework's CPU gradient rounds after each addition
            case(name + "_backward", variant)(pad_backward)

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

# Sampling at the places of a grid: some lie outside, some on pixels
for sides, modes in ((2, 3), (3, 2)):
    for mode in range(modes):
        for margin in range(3):
            for corners in (False, True):
                size = (2, 3, 4, 5)[:1 + sides] + (6,)
                name = f"grid_sampler_{sides}d"

                def operands(d, size=size, sides=sides):
                    def grid():
                        places = torch.rand(2, *[3, 4, 2][:sides], sides, dtype=F64,
                                            generator=torch.Generator().manual_seed(2))
                        places = places * 3.4 - 1.7
                        places.view(-1)[:4] = torch.tensor([-1.0, 1.0, 0.0, 2.9], dtype=F64)
                        return places
                    return d.f(*size, dtype=F64), d.keep(grid)

                def sample(d, op=getattr(aten, name).default, operands=operands, rest=(mode, margin, corners)):
                    return op(*operands(d), *rest)

                def sample_backward(d, name=name, operands=operands, rest=(mode, margin, corners)):
                    x, grid = operands(d)
                    g = like(d, getattr(aten, name).default(x, grid, *rest))
                    return getattr(aten, name + "_backward").default(g, x, grid, *rest, [True, True])

                case(name, f"{mode} {margin} {corners}")(sample)
                case(name + "_backward", f"{mode} {margin} {corners}")(sample_backward)
simple("grid_sampler_2d", f(1, 2, 4, 5), f(1, 3, 3, 2), 0, 0, False, variant="f32")
simple("_grid_sampler_2d_cpu_fallback", f(1, 2, 4, 5), f(1, 3, 3, 2), 0, 1, True)
for corners in (False, True):
    simple("affine_grid_generator", f(2, 2, 3), [2, 1, 4, 5], corners, variant=f"2d {corners}")
    simple("affine_grid_generator", f(2, 3, 4), [2, 1, 3, 1, 4], corners, variant=f"3d {corners}")
