"""Cases of complex numbers and of Fourier transforms: operands are complex in every op here, whatever its name."""

import torch

from case_support import aten, case, simple


def z(*sizes, dtype=torch.complex64):
    """Complex operands, with zeros and numbers of very different sizes among them."""
    def make(d):
        def build():
            x = torch.complex(torch.randn(sizes, generator=d._generator), torch.randn(sizes, generator=d._generator)).to(dtype)
            if x.numel() > 3:
                flat = x.view(-1)
                flat[0], flat[1], flat[2] = 0, complex(0, -3e-5), 2e4
            return x
        return d.keep(build)
    return make


def zd(*sizes):
    return z(*sizes, dtype=torch.complex128)


for variant, make in (("c64", z), ("c128", zd)):
    for op in ("neg", "reciprocal", "_conj_physical", "abs", "angle", "sgn", "exp", "clone", "zeros_like", "ones_like"):
        simple(op, make(3, 1) if op == "exp" else make(3, 4), variant=variant)  # few: none that exp makes infinite
    for op in ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor"):
        simple(op, make(3, 4), make(4), variant=variant)
        simple(op, make(3, 4), lambda d: d.f(3, 1), variant=f"{variant} and real")
    simple("mul_.Tensor", make(2, 3), make(2, 3), variant=variant)
    simple("add_.Tensor", make(2, 3), make(3), variant=variant, alpha=0.5 - 2j)
    simple("sum", make(3, 4), variant=variant)
    simple("sum.dim_IntList", make(3, 4), [0], True, variant=variant)
    simple("mean", make(3, 4), variant=variant)
    simple("mean.dim", make(3, 4), [1], variant=variant)
    simple("mm", make(3, 4), make(4, 2), variant=variant)
    simple("bmm", make(2, 3, 4), make(2, 4, 2), variant=variant)

simple("add.Tensor", z(3), z(3), variant="alpha", alpha=2)
simple("mul.Scalar", z(3), 1.5 - 0.5j, variant="complex")
simple("add.Scalar", z(3), 2.5j, variant="complex")
simple("sub.Scalar", z(3), 2.5, variant="complex")
simple("div.Scalar", z(3), 1 + 2j, variant="complex")
simple("where.self", lambda d: d.b(4), z(4), z(4), variant="complex")
simple("constant_pad_nd", z(2, 3), [1, 2, -1, 1], 1.5, variant="complex")
simple("slice_backward", z(2, 2), [2, 5], 1, 1, 5, 2, variant="complex")
simple("_to_copy", lambda d: d.f(3), variant="to complex", dtype=torch.complex64)
simple("_to_copy", z(3), variant="complex to wider", dtype=torch.complex128)
simple("complex", lambda d: d.f(3, 4), lambda d: d.f(3, 4))
simple("polar", lambda d: d.pos(3, 4), lambda d: d.f(3, 4))


@case("mul.Tensor", "a Python number that is complex")
def times_number(d):
    return z(3)(d) * (0.25 - d.step * 0j)


@case("view_as_real")
def parts(d):
    return aten.view_as_real.default(z(3, 4)(d)).mul(2)


@case("view_as_complex")
def pairs(d):
    return aten.view_as_complex.default(d.f(3, 4, 2)).mul(2)


@case("view_as_real", "written through")
def written_parts(d):
    x = z(3, 4)(d).clone()
    aten.view_as_real.default(x).select(-1, 1).mul_(3)
    return x


@case("view", "complex")
def reshaped(d):
    x = z(3, 4)(d)
    return [x.view(2, 6), x.t().reshape(12), x[1:, ::2].clone()]


@case("fill_.Scalar", "complex")
def filled(d):
    return aten.fill_.Scalar(torch.empty(3, dtype=torch.complex64), 1 - 2j)


@case("zeros", "complex")
def created(d):
    made = [torch.zeros(3, dtype=torch.complex64), torch.ones(2, dtype=torch.complex128), torch.full((2,), 1 + 3j), torch.full_like(z(3)(d), 2j)]
    return [x + 1 for x in made]


for n in (1, 2, 5, 8, 12):
    for mode in (0, 1, 2):
        simple("_fft_r2c", lambda d, n=n: d.f(3, n), [1], mode, True, variant=f"{n}, {mode}")
        simple("_fft_c2c", z(3, n), [1], mode, mode != 1, variant=f"{n}, {mode}")
        simple("_fft_c2r", z(3, n // 2 + 1), [1], mode, n, variant=f"{n}, {mode}")
simple("_fft_r2c", lambda d: d.f(4, 6), [0], 0, False, variant="both sides, another dimension")
simple("_fft_r2c", lambda d: d.d(4, 6), [0, 1], 2, True, variant="two dimensions, f64")
simple("_fft_c2c", z(4, 3, 6), [0, 2], 1, False, variant="two dimensions")
simple("_fft_c2c", zd(64), [0], 0, True, variant="c128")
simple("_fft_c2r", z(4, 5, 4), [0, 2], 0, 7, variant="two dimensions, odd")
simple("_fft_r2c", lambda d: d.f(2, 400), [1], 0, True, variant="a window of speech")


@case("_fft_r2c", "power of a short-time transform")
def spectrogram(d):
    window = d.keep(lambda: torch.hann_window(32))
    spectrum = torch.stft(d.f(256), 32, hop_length=16, window=window, return_complex=True)
    return torch.view_as_real(spectrum).square().sum(-1)


@case("_conj")
def conjugated(d):
    x, y, m = z(3, 4)(d), z(4)(d), z(4, 2)(d)
    return [x.conj() * y, x.conj() @ m, x.conj().clone(), x.conj()[:, 1:3].sum(), x.conj().t().mm(x)]


@case("_neg_view")
def negated(d):
    x = z(3, 4)(d)
    return [x.conj().imag + 1, x.conj().imag[1].clone(), torch.view_as_real(x.conj().resolve_conj())]
