"""Cases of pools: average and maximum, over one to three dimensions."""

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
        ("one volume", (3, 4, 6, 4), ([2, 2, 2],), F64)):
    name = f"avg_pool{len(window[0])}d"

    def forward(d, op=getattr(aten, name).default, size=size, window=window, dtype=dtype):
        return op(d.f(*size, dtype=dtype), *window)

    def backward(d, name=name, size=size, window=window, dtype=dtype):
        x = d.f(*size, dtype=dtype)
        g = like(d, getattr(aten, name).default(x, *window))
        zeros = [0] * len(window[0])
        full = [*window, *[window[0], zeros, False, True, None][len(window) - 1:]]
        return getattr(aten, name + "_backward").default(g, x, *full)

    case(name, variant)(forward)
    case(name + "_backward", variant)(backward)
