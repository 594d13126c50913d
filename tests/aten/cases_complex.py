"""Cases of complex numbers and of Fourier transforms: operands are complex in every op here, whatever its name."""

import torch

from case_support import aten, case, simple


def z(*sizes, dtype=torch.complex64):
    """Complex operands, with zeros and numbers of very different sizes among them."""
    def make(d):
        def build():
            x = torch.complex(torch.randn(sizes, generator=d._generator), torch.randn(sizes,
                                                                                      generator=d._generator)).to(dtype)
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
    made = [
        torch.zeros(3, dtype=torch.complex64),
        torch.ones(2, dtype=torch.complex128),
        torch.full((2,), 1 + 3j),
        torch.full_like(z(3)(d), 2j)
    ]
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


# Every part by itself: what moves elements, or adds and scales them.
INDEX = lambda d: d.keep(lambda: torch.tensor([2, 0, 2]))  # noqa: E731
SOME = lambda d: d.keep(lambda: torch.tensor([1, 0]))  # noqa: E731
MASK = lambda d: d.keep(lambda: torch.tensor([[True, False, True, False]] * 3))  # noqa: E731


@case("cat", "complex")
def joined(d):
    a, b = z(3, 4)(d), d.f(2, 4)
    return [torch.cat([a, b, a.conj()]), torch.stack([a, 2 * a], 1), torch.cat([a, d.i(1, 4)])]


@case("index.Tensor", "complex")
def indexed(d):
    x = z(3, 4)(d)
    return [
        x[INDEX(d)], x[:, INDEX(d)], x[MASK(d)],
        x.conj()[INDEX(d)].clone(),
        x.index_select(1, INDEX(d)),
        x.take(INDEX(d)),
        torch.gather(x, 1,
                     INDEX(d)[:, None]),
        torch.nn.functional.embedding(INDEX(d), x)
    ]


@case("index_put_", "complex")
def index_written(d):
    x, y = z(3, 4)(d), z(2, 4)(d)
    a, b, c, e = x.clone(), x.clone(), x.clone(), x.clone()
    a[SOME(d)] = y
    b[MASK(d)] = 2 - 1j
    c.index_put_((SOME(d),), y, accumulate=True)
    e[:, SOME(d)] = 1.5
    return [a, b, c, e]


@case("index_copy_", "complex")
def rows_written(d):
    x, y = z(3, 4)(d), z(2, 4)(d)
    made = [
        x.clone().index_copy_(0, SOME(d), y),
        x.clone().index_add_(0, SOME(d), y, alpha=-2),
        x.clone().index_fill_(0, SOME(d), 1j)
    ]
    place = SOME(d)[:, None].expand(2, 4)
    return [
        *made,
        x.scatter(0, place, y),
        x.scatter_add(0, place, y),
        x.masked_fill(MASK(d), 3j),
        x.masked_fill(MASK(d), 2.0)
    ]


@case("flip", "complex")
def moved(d):
    x = z(3, 4)(d)
    return [
        x.flip(0),
        x.roll(1, 1),
        x.repeat(2, 1),
        x.tril(),
        x.triu(1),
        x.rot90(),
        torch.diag_embed(x),
        x.cumsum(1), x[:3, :3].trace(),
        torch.where(MASK(d), x, 2 * x),
        x.masked_select(MASK(d)),
        x.t().contiguous(),
        x.expand(2, 3, 4).clone()
    ]


@case("select_backward", "complex")
def gradients_of_views(d):
    aten = torch.ops.aten
    g = z(4)(d)
    return [
        aten.select_backward(g, [3, 4], 0, 1),
        aten.diagonal_backward(g, [4, 5], 0, 0, 1),
        aten.slice_backward(z(2, 2)(d), [2, 5], 1, 1, 5, 2),
        aten.select_scatter(z(3, 4)(d), g, 0, 2),
        aten.slice_scatter(z(3, 4)(d),
                           z(1, 4)(d), 0, 1, 2)
    ]


@case("select.int", "complex, elsewhere in each iteration")
def moving(d):
    x = z(5, 4)(d)
    y = x.clone()
    y[d.step % 3] = 2 * x[d.step % 3 + 1]
    return [x.narrow(0, d.step % 3, 2) * 2, y]


@case("mul_.Tensor", "through a lazy view")
def written_conjugate(d):
    x = z(3, 4)(d).clone()
    x.conj().mul_(1 + 2j)
    x.conj().imag.add_(1)
    return x


@case("_foreach_add_.List", "complex")
def lists(d):
    a, b = [z(3)(d).clone(), z(2, 2)(d).clone()], [z(3)(d), z(2, 2)(d)]
    torch._foreach_mul_(a, 0.9)
    torch._foreach_add_(a, b, alpha=-0.1)
    return a


@case("normal_", "complex")
def drawn(d):
    return torch.randn(3, 4, dtype=torch.complex64) * 2


# Functions. Away from zero and from where they grow beyond all bounds.
def zu(*sizes, dtype=torch.complex64):
    return lambda d: d.keep(lambda: torch.complex(torch.randn(sizes, generator=d._generator),
                                                  torch.randn(sizes, generator=d._generator)).to(dtype))


for op in ("log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sigmoid", "exp2"):
    simple(op, zu(3, 4), variant="c64")
    simple(op, zu(3, 4, dtype=torch.complex128), variant="c128")
for op in ("expm1", "log1p"):
    simple(op, zu(3, 4, dtype=torch.complex128), variant="c128")
for exponent in (2, 3, 0.5, -0.5, -1, -2, 1.7, 0, 1.5 - 0.5j):
    simple("pow.Tensor_Scalar", zu(3, 4), exponent, variant=f"complex, {exponent}")
simple("pow.Tensor_Tensor", zu(3, 4), zu(4), variant="complex")
simple("pow.Scalar", 1.5 + 1j, zu(3, 4), variant="complex")
for op, sizes in (("addmm", ((3, 2), (3, 4), (4, 2))), ("baddbmm", ((2, 3, 2), (2, 3, 4), (2, 4, 2))),
                  ("addbmm", ((3, 2), (2, 3, 4), (2, 4, 2))), ("addmv", ((3,), (3, 4), (4,))), ("addr", ((3, 4), (3,),
                                                                                                         (4,)))):
    simple(op, *(zu(*s) for s in sizes), variant="complex")
    simple(op, *(zu(*s) for s in sizes), variant="complex, scaled", beta=0.5 - 1j, alpha=2j)
simple("mv", zu(3, 4), zu(4), variant="complex")
simple("dot", zu(5), zu(5), variant="complex")
simple("vdot", zu(5), zu(5), variant="complex")
simple("rsub.Scalar", zu(3), 2 - 1j, variant="complex")
simple("addcmul", zu(3), zu(3), zu(3), variant="complex", value=0.5)
simple("addcdiv", zu(3), zu(3), zu(3), variant="complex", value=1j)
simple("lerp.Scalar", zu(3), zu(3), 0.25, variant="complex")
simple("prod", zu(7), variant="complex")
simple("prod.dim_int", zu(3, 6), 1, variant="complex")
simple("linalg_vector_norm", zu(3, 4), variant="complex")
simple("linalg_vector_norm", zu(3, 4), 1, [1], variant="complex, of order 1")
for op in ("eq.Tensor", "ne.Tensor"):
    simple(op, z(3, 4), lambda d: z(3, 4)(d).real * torch.ones((), dtype=torch.complex64), variant="complex")
simple("eq.Scalar", z(3, 4), 0, variant="complex")
simple("nonzero", z(3, 4), variant="complex")
simple("logical_not", z(3, 4), variant="complex")
simple("_to_copy", z(3, 4), variant="complex to bool", dtype=torch.bool)


@case("mm", "einsum of complex numbers")
def contracted(d):
    a, b = zu(2, 3, 4)(d), zu(4, 3)(d)
    return [torch.einsum("bij,jk->bik", a, b), torch.einsum("bij,ji->b", a, b.conj()), a @ b, (a.mH @ a)]


for op in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "silu"):
    simple(op, zu(3, 4), variant="c64")
    simple(op, zu(3, 4, dtype=torch.complex128), variant="c128")
for op in ("tanh_backward", "sigmoid_backward", "logaddexp"):
    simple(op, zu(3, 4), zu(3, 4), variant="complex")
simple("cumprod", zu(3, 7), 1, variant="complex")
for op in ("var", "std"):
    simple(f"{op}.correction", zu(3, 4), [1], variant="complex", correction=1)


@case("eye", "complex")
def more_created(d):
    x = zu(2, 3)(d)
    made = [
        torch.eye(3, dtype=torch.complex64),
        torch.eye(2, 3, dtype=torch.complex128),
        x.new_ones(2),
        x.new_full((2,), 1j),
        torch.scalar_tensor(2j, dtype=torch.complex64),
        torch.linspace(1j, 2, 5, dtype=torch.complex64), *torch.var_mean(x, 1)
    ]
    return [y * 2 for y in made]


@case("reflection_pad2d", "complex")
def images(d):
    x = zu(1, 4, 4, 4)(d)
    return [
        torch.nn.functional.pad(x, (1, 2, 1, 0), mode="reflect"),
        torch.nn.functional.pad(x, (1, 2, 1, 0), mode="replicate"),
        torch.nn.functional.pixel_shuffle(x, 2),
        torch.nn.functional.unfold(x, 2),
        x.norm(dim=1),
        x.isinf().logical_not()
    ]


for n in (1, 3, 6):
    for component in (torch.float32, torch.float64):
        @case("linalg_inv_ex", f"complex, {n} {component}")
        def inverted(d, n=n, component=component):
            x = torch.complex(d.f(2, n, n, dtype=component), d.f(2, n, n, dtype=component))
            made = aten.linalg_inv_ex(x + 3 * torch.eye(n, dtype=x.dtype))
            return torch.view_as_real(made[0]), made[1]
