"""Cases of fake quantization: grids by number, by tensor, by channel, and observers that are on and off."""

import torch

from case_support import F32, F64, aten, case

NAN, INFINITY = float("nan"), float("inf")


def wide(d, *sizes, dtype=F32):
    """Most of it on the grid, some of it outside, a few halves between two steps."""
    return d.keep(lambda: torch.cat([torch.randn(sizes, generator=d._generator).flatten() * 3,
                                     torch.tensor([0.0, 0.05, 0.15, -0.25, 1e6, -1e6])]).to(dtype))


def awkward(d):
    return d.keep(lambda: torch.tensor([NAN, INFINITY, -INFINITY, 1e30, -1e30, -0.0, 12.75, -12.85]))


def one(d, value, dtype):
    return d.keep(lambda: torch.tensor([value], dtype=dtype))


for word, make in {"": wide, "awkward": lambda d, *_: awkward(d), "f64": lambda d, n: wide(d, n, dtype=F64)}.items():
    for least, most, zero in ((0, 255, 128), (-128, 127, 0), (0, 15, 3)):
        case("fake_quantize_per_tensor_affine_cachemask", f"{word} {most}")(
            lambda d, make=make, g=(zero, least, most):
            aten.fake_quantize_per_tensor_affine_cachemask(make(d, 40), 0.1, *g))
        for on in (0, 1):
            case("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", f"{word} {most} {on}")(
                lambda d, make=make, zero=zero, g=(least, most), on=on:
                aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
                    make(d, 40), one(d, 0.1, F32), one(d, zero, torch.int32), one(d, on, torch.int64), *g))

for axis in (0, 1, 2):
    for zero in (torch.int32, torch.float32):
        @case("fake_quantize_per_channel_affine_cachemask", f"{axis} {zero}")
        def per_channel(d, axis=axis, zero=zero):
            scale = d.keep(lambda: torch.rand(3, generator=d._generator) + 0.01)
            offset = d.keep(lambda: torch.tensor([0, 3, -7], dtype=zero))
            x = (d.f(3, 3, 3) * 9).clone()
            x.view(-1)[4:12] = awkward(d)
            return aten.fake_quantize_per_channel_affine_cachemask(x, scale, offset, axis, -50, 50)


def observer(d, x, start, on, **options):
    """Its results, and what the observer has become."""
    rows = x.shape[options["ch_axis"]] if options["per_row_fake_quant"] else 1
    low = torch.full((rows,), start if abs(start) == INFINITY else -start)
    high = torch.full((rows,), -start if abs(start) == INFINITY else start)
    scale, zero = torch.full((rows,), 0.5), torch.full((rows,), 2, dtype=torch.int32)
    output, mask = aten._fused_moving_avg_obs_fq_helper(
        x, one(d, on[0], torch.int64), one(d, on[1], torch.int64), low, high, scale, zero, 0.01, **options)
    return output, mask, low, high, scale, zero


RANGES = {"bytes": (0, 255), "signed": (-128, 127), "nibbles": (0, 15)}
DATA = {
    "": lambda d: d.f(4, 3, 5), "positive": lambda d: d.pos(4, 3, 5) * (d.step + 1),
    "negative": lambda d: -d.pos(4, 3, 5), "zeros": lambda d: d.f(4, 3, 5) * 0,
    "tiny": lambda d: d.f(4, 3, 5) * 1e-7, "tiny, positive": lambda d: d.pos(4, 3, 5) * 1e-6,
    "denormal": lambda d: d.f(4, 3, 5) * 1e-39, "matrix": lambda d: d.f(4, 7)
}
for word, make in DATA.items():
    for name, (least, most) in RANGES.items():
        for rows in (False, True):
            for symmetric in (False, True):
                @case("_fused_moving_avg_obs_fq_helper", f"{word} {name} {rows} {symmetric}")
                def moving(d, make=make, g=(least, most), rows=rows, symmetric=symmetric):
                    return observer(d, make(d), INFINITY, (1, 1), quant_min=g[0], quant_max=g[1], ch_axis=0,
                                    per_row_fake_quant=rows, symmetric_quant=symmetric)
for on in ((0, 0), (0, 1), (1, 0), (1, 1)):
    for rows in (False, True):
        @case("_fused_moving_avg_obs_fq_helper", f"{on} {rows}")
        def switched(d, on=on, rows=rows):
            return observer(d, d.f(4, 3, 5), 1.5, on, quant_min=0, quant_max=127, ch_axis=0, per_row_fake_quant=rows,
                            symmetric_quant=False)
