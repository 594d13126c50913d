"""Cases of memory that tensors of different dtypes share: views of another dtype, storages that a tensor is set to."""

import torch

from case_support import aten, case, simple

F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
I8, U8, I16, I32, I64 = torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64
DTYPES = (F32, F64, F16, BF16, I8, U8, I16, I32, I64)
NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES}


def numbers(d, dtype, *sizes, beside=None):
    """Both signs, and what has more bits set than small whole numbers. Nothing that a float of 16 bits beside it takes
    for a NaN: what the other bits of one are after it was moved as a float, nobody promises."""
    mask = {F16: ~(1 << 10), BF16: ~(1 << 7)}.get(beside)

    def make():
        x = (torch.randn(sizes, generator=d._generator, dtype=F64) * 40).to(dtype)
        if mask is not None:
            x.view(I16).bitwise_and_(mask)
        return x
    return d.keep(make)


def as_integers(x):
    """Bits in a form that every comparison sees: floats that came from arbitrary bits may be NaN."""
    return x.view({1: I8, 2: I16, 4: I32, 8: I64}[x.element_size()]) if x.dtype.is_floating_point else x


for source in DTYPES:
    for target in DTYPES:
        if source == target:
            continue

        @case("view.dtype", f"{NAMES[source]} read as {NAMES[target]}")
        def read(d, source=source, target=target):
            x = numbers(d, source, 3, 8, beside=target)
            return [as_integers(x.view(target).clone()), as_integers(x[1:, :].view(target)[:, 1:].clone())]

        @case("view.dtype", f"{NAMES[source]} written as {NAMES[target]}")
        def written(d, source=source, target=target):
            x, y = numbers(d, source, 3, 8, beside=target).clone(), numbers(d, target, 3, 8, beside=source)
            seen = x.view(target)
            width = min(seen.shape[1], 8)
            seen[1:, :width] = y[1:, :width]
            seen[0, width // 2] = 3
            # both ways of reading it, and once more written where it was first
            before = as_integers(x).clone()
            x[2] = 1
            return [before, as_integers(x), as_integers(seen.clone()), as_integers(x.flip(0).view(target).clone())]


@case("view.dtype", "of bools")
def bools(d):
    x = numbers(d, F32, 6) > 0
    y = x.clone()
    y.view(U8)[1:3] = 1
    return [x.view(U8) + 1, y, x.view(U8).view(torch.bool).logical_not()]


@case("view.dtype", "of complex numbers")
def complex_bits(d):
    x = torch.complex(numbers(d, F32, 4), numbers(d, F32, 4))
    y = x.clone()
    y.view(I32)[2] = 0x40490FDB
    return [x.view(F32) * 2, x.view(I32) + 0, y * 2, x.view(F64).view(I64) + 0]


def canonical(*values):
    """Integers that arithmetic left in floats, as integers: what is NaN is the canonical one, whatever the processor
    makes."""
    return [
        torch.where(x.isnan(), torch.full_like(x, float("nan")), x).view({2: I16, 4: I32, 8: I64}[x.element_size()])
        for x in values
    ]


for source in (F16, BF16, F32, F64):
    @case("view.dtype", f"NaN that {NAMES[source]} computed")
    def computed_nans(d, source=source):
        x = numbers(d, source, 3, 8)
        zero = x - x
        return canonical(zero / zero, -(zero / zero), (zero - 1).sqrt(), torch.where(x > 0, x / zero - 1 / zero, x))


@case("view.dtype", "elsewhere in each iteration")
def moving(d):
    x = numbers(d, F32, 9).clone()
    at = d.step % 3
    x.view(I32)[at] = 0x40490FDB
    x.view(I16)[2 * at + 5] = 7
    return [x, x.view(I32)[at + 1] + 0]


@case("view.dtype", "all of it written")
def whole(d):
    x = torch.empty(4, 6)
    x.view(I32).copy_(numbers(d, I32, 4, 6))
    y = torch.empty(6, 4, dtype=I32).t()
    y.view(F32).copy_(numbers(d, F32, 4, 6))
    return [x.view(I32) + 1, y + 1, y.view(F32) + 1]


@case("set_.source_Storage_storage_offset")
def set_to_storage(d):
    x, bytes_ = numbers(d, F32, 12), numbers(d, U8, 48).clone()
    a = torch.empty(0).set_(x.untyped_storage(), 2, (2, 3), (1, 2))
    b = torch.empty(0, dtype=I32).set_(bytes_.untyped_storage(), 1, (4,), (2,))
    b.add_(1)
    return [a * 2, b + 0, bytes_]


@case("set_.source_Storage")
def set_to_whole_storage(d):
    return torch.empty(0, dtype=I16).set_(numbers(d, F32, 6).untyped_storage()) + 0


@case("set_.source_Tensor")
def set_to_tensor(d):
    x = numbers(d, F32, 3, 4).clone()
    y = torch.empty(0).set_(x[1])
    y.mul_(2)
    return [x, y + 0]


@case("set_.source_Storage_storage_offset", "of a tensor")
def set_to_part(d):
    return aten.set_.source_Tensor_storage_offset(torch.empty(0), numbers(d, F32, 12), 1, [2, 2], [3, 1]) * 3


@case("set_")
def set_to_nothing(d):
    x = numbers(d, F32, 3)
    y = x.clone()
    y.set_()
    return x + 1


simple("view_copy.dtype", lambda d: numbers(d, F32, 3, 4), I16)
simple("view_copy.dtype", lambda d: numbers(d, I16, 3, 4), I32, variant="wider")
