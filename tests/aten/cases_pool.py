"""Cases of pools: average and maximum, over one to three dimensions."""

import torch

from case_support import BF16, F32, F64, aten, case, like

for variant, size, window, dtype in (
        ("halved", (2, 3, 6, 8), ([2, 2],), F32),
        ("overlapping", (2, 3, 7, 8), ([3, 3], [2, 2], [1, 1]), F32),
        ("margin not counted", (2, 3, 7, 8), ([3, 2], [2, 1], [1, 1], False, False), F64),
        ("rounded up", (3, 7, 8), ([3, 3], [2, 3], [1, 0], True), F32),
        ("rounded up, margin not counted", (1, 2, 7, 8), ([3, 3], [2, 3], [1, 0], True, False), F64),
        ("own divisor", (2, 3, 6, 6), ([2, 3], [1, 2], [0, 0], False, True, 5), F32),
        ("whole image", (2, 3, 6, 5), ([6, 5],), F32),
        ("gaps", (2, 3, 9, 8), ([2, 2], [3, 3]), F32),
        # where windows overlap, the framework's CPU gradient rounds after each addition, the program once
        ("bf16", (2, 3, 6, 6), ([3, 2], [3, 2], [1, 1]), BF16),
        ("volume", (2, 3, 5, 6, 4), ([2, 3, 2], [2, 1, 1], [1, 1, 0], True, False), F32),
        ("one volume", (3, 4, 6, 4), ([2, 2, 2],), F64),
        ("integers", (2, 3, 9, 8), ([3, 2], [2, 2], [1, 1], True), torch.int64),
        ("integers, divisor", (2, 3, 9, 8), ([2, 2], [2, 2], [0, 0], False, True, 3), torch.int64),
        ("volume of integers", (2, 3, 5, 6, 4), ([2, 3, 2], [2, 1, 1], [1, 1, 0], True, False), torch.int64)):
    name = f"avg_pool{len(window[0])}d"

    def forward(d, op=getattr(aten, name).default, size=size, window=window, dtype=dtype):
        return op(d.f(*size, dtype=dtype) if dtype.is_floating_point else d.i(*size, low=-40, high=40), *window)

    def backward(d, name=name, size=size, window=window, dtype=dtype):
        x = d.f(*size, dtype=dtype)
        g = like(d, getattr(aten, name).default(x, *window))
        zeros = [0] * len(window[0])
        full = [*window, *[window[0], zeros, False, True, None][len(window) - 1:]]
        return getattr(aten, name + "_backward").default(g, x, *full)

    case(name, variant)(forward)
    if dtype.is_floating_point:
        case(name + "_backward", variant)(backward)

for variant, size, window, dtype in (
        ("plain", (2, 3, 4, 6, 4), ([2, 2, 2],), F32),
        ("padded", (1, 2, 5, 7, 6), ([3, 3, 2], [2, 1, 2], [1, 1, 0]), F64),
        ("dilated, rounded up", (2, 6, 7, 7), ([2, 3, 2], [2, 2, 1], [1, 0, 1], [2, 1, 2], True), F32)):
    def pool3d(d, size=size, window=window, dtype=dtype):
        return aten.max_pool3d_with_indices.default(d.f(*size, dtype=dtype), *window)

    def pool3d_backward(d, size=size, window=window, dtype=dtype):
        x = d.f(*size, dtype=dtype)
        y, index = aten.max_pool3d_with_indices.default(x, *window)
        full = [*window, *[window[0], [0, 0, 0], [1, 1, 1], False][len(window) - 1:]]
        return aten.max_pool3d_with_indices_backward.default(like(d, y), x, *full, index)

    case("max_pool3d_with_indices", variant)(pool3d)
    case("max_pool3d_with_indices_backward", variant)(pool3d_backward)


for variant, size, window, dtype in (
        ("plain", (2, 3, 9), ([2],), F32),
        ("one line per channel, padded, dilated", (3, 14), ([3], [2], [1], [2]), F64),
        ("rounded up", (2, 3, 13), ([4], [3], [2], [1], True), F32),
        ("bf16", (2, 3, 8), ([3], [1], [1]), BF16)):
    def pool1d(d, size=size, window=window, dtype=dtype):
        return aten.max_pool1d.default(d.f(*size, dtype=dtype), *window)

    case("max_pool1d", variant)(pool1d)


@case("max_pool3d_with_indices", "special")
def pool_special(d):
    x = d.f(1, 1, 4, 6, 6).clone()
    x[0, 0, 1, 2, 3] = x[0, 0, 3, 3, 3] = x[0, 0, 0, 0, 1] = float("nan")
    x[0, 0, :2, :2, 4:] = -float("inf")
    return aten.max_pool3d_with_indices.default(x, [2, 2, 2])


for variant, size, output, dtype in (("regular", (2, 3, 6, 8), [3, 2], F32), ("uneven", (2, 3, 7, 5), [3, 4], F64),
                                     ("larger", (1, 2, 3, 4), [5, 4], F32), ("one image", (3, 7, 5), [2, 5], F32),
                                     ("bf16", (1, 2, 6, 6), [3, 2], BF16), ("volume", (2, 2, 5, 4, 6), [2, 3, 6], F32),
                                     ("regular volume", (2, 4, 4, 6), [2, 2, 3], F64)):
    name = f"_adaptive_avg_pool{len(output)}d"

    def average(d, op=getattr(aten, name).default, size=size, output=output, dtype=dtype):
        return op(d.f(*size, dtype=dtype), output)

    def average_backward(d, op=getattr(aten, name + "_backward").default, size=size, output=output, dtype=dtype):
        return op(d.f(*size[:-len(output)], *output, dtype=dtype), d.f(*size, dtype=dtype))

    case(name, variant)(average)
    case(name + "_backward", variant)(average_backward)
    name = f"adaptive_max_pool{len(output)}d"

    def maximum(d, op=getattr(aten, name).default, size=size, output=output, dtype=dtype):
        return op(d.f(*size, dtype=dtype), output)

    def maximum_backward(d, name=name, size=size, output=output, dtype=dtype):
        x = d.f(*size, dtype=dtype)
        y, index = getattr(aten, name).default(x, output)
        return getattr(aten, name + "_backward").default(like(d, y), x, index)

    case(name, variant)(maximum)
    case(name + "_backward", variant)(maximum_backward)


@case("adaptive_max_pool2d", "special")
def adaptive_special(d):
    x = d.f(1, 1, 7, 7).clone()
    x[0, 0, 1, 2] = x[0, 0, 1, 3] = x[0, 0, 4, 4] = float("nan")
    x[0, 0, :2, 4:] = -float("inf")
    return aten.adaptive_max_pool2d.default(x, [3, 3])


for variant, size, kernel, output in (("2d", (2, 3, 9, 8), [2, 3], [4, 3]), ("3d", (1, 2, 7, 8, 6), [2, 2,
                                                                                                     2], [3, 4, 1])):
    sides = len(kernel)
    name = f"fractional_max_pool{sides}d"

    def samples(d, size=size, sides=sides):
        return d.keep(lambda: torch.rand(size[0], size[1], sides, generator=torch.Generator().manual_seed(5)))

    def fractional(d, name=name, size=size, kernel=kernel, output=output, samples=samples):
        return getattr(aten, name).default(d.f(*size), kernel, output, samples(d))

    def fractional_backward(d, name=name, size=size, kernel=kernel, output=output, samples=samples):
        x = d.f(*size)
        y, index = getattr(aten, name).default(x, kernel, output, samples(d))
        return getattr(aten, name + "_backward").default(like(d, y), x, kernel, output, index)

    case(name, variant)(fractional)
    case(name + "_backward", variant)(fractional_backward)


@case("max_unpool2d")
def unpool(d):
    y, index = aten.max_pool2d_with_indices.default(d.f(2, 3, 7, 6), [2, 2])
    return aten.max_unpool2d.default(y, index, [7, 6])


@case("max_unpool3d")
def unpool3d(d):
    y, index = aten.max_pool3d_with_indices.default(d.f(2, 4, 6, 4), [2, 2, 2])
    return aten.max_unpool3d.default(y, index, [4, 6, 4], [2, 2, 2], [0, 0, 0])
