"""Linear algebra: factorizations, triangular systems, inverses, determinants, least squares.

Eigenvectors and singular vectors are unique up to their sign: their magnitudes are compared, and what they multiply out
to.
"""

from case_support import F32, F64, aten, case, f, simple, torch

BATCHES = ((), (2,), (2, 3))


def square(d, *batch, n=5, dtype=F32):
    """Matrices that have an inverse, and not a small one."""
    return d.keep(lambda: torch.randn(*batch, n, n, generator=torch.Generator().manual_seed(n)).to(dtype) + 3 * torch.
                  eye(n, dtype=dtype))


def positive(d, *batch, n=5, dtype=F32):
    x = square(d, *batch, n=n, dtype=dtype)
    return d.keep(lambda: (x @ x.mT + torch.eye(n, dtype=dtype)).contiguous())


def by_columns(x):
    return x.mT.contiguous().mT


for upper in (False, True):
    for batch in BATCHES:
        simple("linalg_cholesky_ex", lambda d, b=batch: positive(d, *b), upper=upper, variant=f"{upper} {batch}")
    simple("cholesky", lambda d: positive(d, 2), upper, variant=f"{upper}")
    simple("linalg_cholesky_ex", lambda d: by_columns(positive(d, 2, dtype=F64)), upper=upper,
           variant=f"{upper} columns")
    for name in ("cholesky_solve", "_cholesky_solve_helper"):
        simple(name, f(2, 5, 3), lambda d: square(d, 2), upper, variant=f"{upper}")
    simple("cholesky_inverse", lambda d: square(d, 3), upper, variant=f"{upper}")
    for left in (False, True):
        for unit in (False, True):
            sizes = (2, 5, 3) if left else (2, 3, 5)
            simple("linalg_solve_triangular", lambda d: square(d, 2), f(*sizes), upper=upper, left=left,
                   unitriangular=unit, variant=f"{upper} {left} {unit}")
    for transpose in (False, True):
        simple("triangular_solve", f(2, 5, 3), lambda d: square(d, 2), upper, transpose, False,
               variant=f"{upper} {transpose}")
simple("linalg_solve_triangular", lambda d: square(d), f(2, 3, 5, 4), upper=True, variant="broadcast")
simple("linalg_solve_triangular", lambda d: square(d, 2, 1), f(3, 5, 4), upper=False, variant="broadcast both")
simple("linalg_cholesky_ex", lambda d: d.keep(lambda: torch.tensor([[4.0, 2.0], [2.0, 3.0]])), variant="by hand")

for sizes in ((5, 5), (2, 5, 5), (6, 3), (2, 3, 7), (1, 1)):
    simple("linalg_lu_factor_ex", f(*sizes), variant=f"{sizes}")
    simple("linalg_lu", f(*sizes), variant=f"{sizes}")

    @case("lu_unpack", f"{sizes}")
    def lu_unpack(d, sizes=sizes):
        factors, pivots, _ = aten.linalg_lu_factor_ex.default(d.f(*sizes))
        return aten.lu_unpack.default(factors, pivots)


simple("linalg_lu_factor_ex", lambda d: by_columns(d.d(2, 4, 4)), variant="columns")
simple("linalg_lu_factor_ex", lambda d: d.keep(lambda: torch.tensor([[0.0, 1.0], [0.0, 2.0]])), variant="singular")
for data in (False, True):
    for pivots in (False, True):

        if not data and not pivots:
            continue  # nothing to compare

        @case("lu_unpack", f"parts {data} {pivots}")
        def lu_unpack_parts(d, data=data, pivots=pivots):
            factors, steps, _ = aten.linalg_lu_factor_ex.default(d.f(4, 4))
            return aten.lu_unpack.default(factors, steps, data, pivots)


for left in (False, True):
    for adjoint in (False, True):

        @case("linalg_lu_solve", f"{left} {adjoint}")
        def lu_solve(d, left=left, adjoint=adjoint):
            factors, pivots, _ = aten.linalg_lu_factor_ex.default(square(d, 2))
            return aten.linalg_lu_solve.default(factors, pivots, d.f(*((2, 5, 3) if left else (2, 3, 5))), left=left,
                                                adjoint=adjoint)


for turned in (False, True):
    for name in ("_linalg_det", "_linalg_slogdet"):
        for batch in BATCHES:
            simple(name, lambda d, b=batch, t=turned: by_columns(square(d, *b))
                   if t else square(d, *b), variant=f"{turned} {batch}")
        simple(name, lambda d, t=turned: by_columns(d.d(3, 6, 6)) if t else d.d(3, 6, 6), variant=f"{turned} f64")
    for left in (False, True):
        sizes = (2, 5, 3) if left else (2, 3, 5)
        simple("_linalg_solve_ex", lambda d, t=turned: by_columns(square(d, 2))
               if t else square(d, 2), f(*sizes), left=left, variant=f"{turned} {left}")
simple("_linalg_det", f(2, 0, 0), variant="of nothing")
simple("_linalg_det", lambda d: d.keep(lambda: torch.tensor([[1.0, 2.0], [2.0, 4.0]])), variant="singular")
simple("_linalg_slogdet", lambda d: d.keep(lambda: torch.tensor([[1.0, 2.0], [2.0, 4.0]])), variant="singular")
simple("_linalg_solve_ex", lambda d: square(d), f(5), variant="list")
simple("_linalg_solve_ex", lambda d: square(d, 2, 3), f(2, 3, 5), variant="lists")
simple("_linalg_solve_ex", lambda d: square(d), f(2, 5, 4), variant="broadcast")
for batch in BATCHES:
    simple("linalg_inv_ex", lambda d, b=batch: square(d, *b), variant=f"{batch}")
simple("linalg_inv_ex", lambda d: by_columns(square(d, 2, dtype=F64)), variant="columns")

for sizes in ((5, 5), (2, 6, 3), (3, 7), (2, 1, 1), (4, 1)):
    for mode in ("reduced", "complete", "r"):
        simple("linalg_qr", f(*sizes), mode, variant=f"{sizes} {mode}")
    simple("geqrf", f(*sizes), variant=f"{sizes}")
simple("linalg_qr", lambda d: by_columns(d.d(2, 6, 4)), variant="columns")


def reflectors(d, *sizes):
    """What geqrf makes, not made by it: so that the op alone is looked at."""
    return d.keep(lambda: torch.randn(*sizes, generator=torch.Generator().manual_seed(2)) * 0.3)


simple("linalg_householder_product", lambda d: reflectors(d, 2, 6, 4), lambda d: reflectors(d, 2, 4))
simple("linalg_householder_product", lambda d: reflectors(d, 6, 4), lambda d: reflectors(d, 2), variant="fewer factors")
for transpose in (False, True):
    simple("ormqr", lambda d: reflectors(d, 2, 6, 4), lambda d: reflectors(d, 2, 4), f(2, 6, 3), True, transpose,
           variant=f"left {transpose}")
    simple("ormqr", lambda d: reflectors(d, 2, 6, 4), lambda d: reflectors(d, 2, 4), f(2, 3, 6), False, transpose,
           variant=f"right {transpose}")

for which in ("L", "U"):
    for batch in ((), (2,)):
        for dtype in (F32, F64):

            @case("_linalg_eigh", f"{which} {batch} {dtype}")
            def eigh(d, which=which, batch=batch, dtype=dtype):
                # Eigenvalues that stand apart: beside a near one, rounding turns a vector.
                x = d.keep(lambda: torch.randn(*batch, 6, 6, generator=torch.Generator().manual_seed(6), dtype=dtype) +
                           torch.diag(torch.arange(6, dtype=dtype) * 4))
                values, vectors = aten._linalg_eigh.default(x, which)
                return values, vectors.abs(), (vectors * values.unsqueeze(-2)) @ vectors.mT


simple("_linalg_eigh", f(2, 4, 4), "L", False, variant="values")
simple("_linalg_eigh", lambda d: d.keep(lambda: torch.diag(torch.tensor([3.0, -1.0, 0.0, 3.0]))), "L", False,
       variant="equal values")
for sizes in ((5, 5), (2, 6, 3), (3, 7), (4, 1), (1, 1)):
    for dtype in (F32, F64):

        @case("_linalg_svd", f"{sizes} {dtype}")
        def svd(d, sizes=sizes, dtype=dtype):
            # Singular values that stand apart, as the eigenvalues above.
            spread = torch.diag(torch.arange(1, 8) * 4)[:sizes[-2], :sizes[-1]].to(dtype)
            x = d.keep(lambda: torch.randn(*sizes, generator=torch.Generator().manual_seed(7), dtype=dtype) + spread)
            u, s, vh = aten._linalg_svd.default(x)
            return s, u.abs(), vh.abs(), (u * s.unsqueeze(-2)) @ vh

    @case("_linalg_svd", f"{sizes} full")
    def full_svd(d, sizes=sizes):
        u, s, vh = aten._linalg_svd.default(d.f(*sizes), True)
        k = s.shape[-1]
        return s, u @ u.mT, vh.mT @ vh, u.mT @ u, (u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :]


simple("_linalg_svd", f(2, 4, 3), False, False, variant="values")

for hermitian in (False, True):
    for sizes in ((4, 4),) if hermitian else ((4, 4), (2, 6, 3), (3, 5)):
        simple("linalg_pinv.atol_rtol_tensor", f(*sizes), hermitian=hermitian, variant=f"{hermitian} {sizes}")
simple("linalg_pinv.atol_rtol_tensor", lambda d: d.d(5, 3), atol=lambda d: d.keep(lambda: torch.tensor(1.5, dtype=F64)),
       variant="atol")
simple("linalg_pinv.atol_rtol_tensor", f(2, 5, 3), rtol=lambda d: d.keep(lambda: torch.tensor([0.5, 0.01])),
       variant="rtol")
# Not gelsy, the default: it starts from pivots that the framework leaves as they lie in memory, so that its roundings
# differ from run to run.
for driver in ("gels", "gelsd", "gelss"):
    simple("linalg_lstsq", f(6, 3), f(6, 2), driver=driver, variant=f"{driver}")
    simple("linalg_lstsq", f(2, 6, 3), f(2, 6, 2), driver=driver, variant=f"{driver} batch")
simple("linalg_lstsq", f(3, 6), f(3, 2), driver="gelsd", variant="wide")
for scale in (0.01, 1.0, 6.0):
    simple("linalg_matrix_exp", lambda d, s=scale: d.d(2, 5, 5) * s, variant=f"{scale}")
simple("linalg_matrix_exp", lambda d: d.small(4, 4), variant="f32")
simple("linalg_matrix_exp", lambda d: d.keep(lambda: torch.zeros(3, 3)), variant="zeros")
