"""Cases of torchvision's ops on boxes; none where it is not installed."""

import importlib.util

import torch

from case_support import F64, case


def boxes(d, n, size=20.0, dtype=torch.float32):
    """Corners of boxes, many of which overlap."""
    def make():
        corner = torch.rand(n, 2, generator=d._generator) * size
        return torch.cat([corner, corner + torch.rand(n, 2, generator=d._generator) * size / 2], 1).to(dtype)
    return d.keep(make)


def regions(d, images, dtype=torch.float32):
    """Boxes of images, also beyond their edges, thin ones and ones without any size."""
    def make():
        n = 9
        x = torch.cat([torch.randint(0, images, (n, 1), generator=d._generator).float(),
                       torch.randn(n, 4, generator=d._generator) * 8 + 6], 1)
        x[:5, 3:] = x[:5, 1:3] + torch.rand(5, 2, generator=d._generator) * 12
        x[5, 3:] = x[5, 1:3]
        x[6] = torch.tensor([0.0, -30.0, -30.0, -20.0, -20.0])
        x[7] = torch.tensor([0.0, 0.0, 0.0, 15.0, 11.0])
        return x.to(dtype)
    return d.keep(make)


def cases():
    import torchvision  # noqa: F401: its operators

    ops = torch.ops.torchvision
    for n in (1, 2, 30, 120):
        for threshold in (0.0, 0.3, 0.7):
            case("torchvision::nms", f"{n} {threshold}")(
                lambda d, n=n, t=threshold: ops.nms(boxes(d, n), d.f(n), t))
    case("torchvision::nms", "f64")(lambda d: ops.nms(boxes(d, 30, dtype=F64), d.f(30, dtype=F64), 0.4))
    case("torchvision::nms", "equal scores, equal boxes")(
        lambda d: ops.nms(boxes(d, 12).repeat(3, 1), d.i(36, high=3).float(), 0.5))
    case("torchvision::nms", "a row in which each meets its neighbours")(
        lambda d: ops.nms(d.keep(lambda: torch.stack([torch.arange(40.0), torch.zeros(40), torch.arange(40.0) + 1.8,
                                                      torch.ones(40)], 1)), -d.keep(lambda: torch.arange(40.0)), 0.1))
    case("torchvision::nms", "without size")(lambda d: ops.nms(boxes(d, 20, size=0.0), d.f(20), 0.5))
    case("torchvision::nms", "nothing")(
        lambda d: torch.cat([ops.nms(d.f(0, 4), d.f(0), 0.5), d.keep(lambda: torch.ones(1, dtype=torch.int64))]))
    for aligned in (False, True):
        for ratio, (down, across) in ((1, (2, 2)), (2, (7, 7)), (3, (1, 4))):
            for dtype in (torch.float32, F64):
                def forward(d, a=(0.5, down, across, ratio, aligned), dtype=dtype):
                    return ops.roi_align(d.f(2, 3, 12, 16, dtype=dtype), regions(d, 2, dtype), *a)

                def backward(d, a=(0.5, down, across), b=(ratio, aligned), dtype=dtype):
                    gradient = d.f(9, 3, a[1], a[2], dtype=dtype)
                    return ops._roi_align_backward(gradient, regions(d, 2, dtype), *a, 2, 3, 12, 16, *b)

                case("torchvision::roi_align", f"{aligned} {ratio} {dtype}")(forward)
                case("torchvision::_roi_align_backward", f"{aligned} {ratio} {dtype}")(backward)
    case("torchvision::roi_align", "no boxes")(
        lambda d: torch.cat([ops.roi_align(d.f(1, 2, 5, 5), d.f(0, 5), 1.0, 2, 2, 2, False).flatten(), torch.ones(1)]))
    case("torchvision::_roi_align_backward", "no boxes")(
        lambda d: ops._roi_align_backward(d.f(0, 2, 2, 2), d.f(0, 5), 1.0, 2, 2, 1, 2, 5, 5, 2, False))


if importlib.util.find_spec("torchvision") is not None:
    cases()
