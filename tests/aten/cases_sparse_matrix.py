"""Cases of sparse matrices: products with dense ones, their gradients, and what is done with adjacency matrices around
them, in lists of places and in compressed rows and columns. Results are dense, or the parts of sparse ones."""

import torch

from cases_sparse import coo, parts
from case_support import F32, F64, aten, case

INFINITY = float("inf")


square = coo(6, 5, sparse_dims=2, n=14)


def compressed(d, dtype=F32, index=torch.int64, columns=False):
    """A matrix with rows and columns that have no elements."""
    def make():
        x = torch.randn(6, 5, generator=d._generator).to(dtype)
        x[2], x[5], x[:, 1] = 0, 0, 0
        x = x * (torch.rand(6, 5, generator=d._generator) < 0.6)
        s = x.to_sparse_csc() if columns else x.to_sparse_csr()
        begins = (s.ccol_indices() if columns else s.crow_indices()).to(index)
        plain = (s.row_indices() if columns else s.col_indices()).to(index)
        make_it = torch.sparse_csc_tensor if columns else torch.sparse_csr_tensor
        return make_it(begins, plain, s.values().clone(), (6, 5), check_invariants=False)
    return d.keep(make)


MATRICES = {
    "places": square, "places once": coo(6, 5, sparse_dims=2, n=14, coalesced=True),
    "places, f64": coo(6, 5, sparse_dims=2, n=14, dtype=F64),
    "no places": coo(6, 5, sparse_dims=2, n=0), "rows": compressed,
    "rows, f64": lambda d: compressed(d, dtype=F64), "rows, i32": lambda d: compressed(d, index=torch.int32),
    "columns": lambda d: compressed(d, columns=True)
}


def dense(d, *sizes, like):
    return d.f(*sizes, dtype=like.dtype)


def products(word, make):
    @case("mm", f"sparse, {word}")
    def product(d):
        x = make(d)
        return aten.mm(x, dense(d, 5, 3, like=x))

    @case("mm", f"transposed sparse, {word}")
    def transposed(d):
        x = make(d)
        return aten.mm(aten.t(x), dense(d, 6, 3, like=x))

    @case("mm", f"dense and sparse, {word}")
    def other_way(d):
        x = make(d)
        return aten.mm(dense(d, 4, 6, like=x), x)

    @case("mv", f"sparse, {word}")
    def vector(d):
        x = make(d)
        return aten.mv(x, dense(d, 5, like=x))

    for beta, alpha in ((1, 1), (0.5, 2), (0, -1.5)):
        for op in ("addmm", "_sparse_addmm"):
            @case(op, f"sparse, {word} {beta} {alpha}")
            def sum_of_products(d, op=op, beta=beta, alpha=alpha):
                x = make(d)
                return getattr(aten, op)(dense(d, 6, 3, like=x), x, dense(d, 5, 3, like=x), beta=beta, alpha=alpha)

    @case("_to_dense", f"matrix, {word}")
    def whole(d):
        return aten._to_dense(make(d))

    @case("sparse_mask", f"matrix, {word}")
    def masked(d):
        x = make(d)
        return aten._to_dense(aten.sparse_mask(dense(d, 6, 5, like=x), x))

    @case("mul.Tensor", f"sparse, matrix, {word}")
    def scaled(d):
        return aten._to_dense(aten.mul.Tensor(make(d), d.keep(lambda: torch.tensor(0.25))))


for name, maker in MATRICES.items():
    products(name, maker)


@case("mm", "sparse, infinities that meet nothing")
def awkward(d):
    x = d.f(5, 3).clone()
    x[1] = INFINITY
    x[3, 0] = float("nan")
    return aten.mm(compressed(d), x)


@case("mm", "sparse, into nothing")
def into_nothing(d):
    x = aten.mm(square(d), d.f(5, 0))
    return torch.cat([x.flatten(), torch.ones(1)])


@case("mm", "sparse, integers")
def integers(d):
    x = d.keep(lambda: torch.sparse_coo_tensor(torch.tensor([[0, 2, 2], [1, 0, 1]]), torch.tensor([3, -4, 5]), (3, 2)))
    return aten.mm(x, d.i(2, 4))


@case("bmm", "sparse")
def batches(d):
    x = coo(3, 4, 5, sparse_dims=3, n=20)(d)
    return aten.bmm(x, d.f(3, 5, 2))


@case("transpose.int", "sparse, batches")
def batches_transposed(d):
    x = coo(3, 4, 5, sparse_dims=3, n=20)(d)
    return aten.bmm(aten.transpose.int(x, 1, -1), d.f(3, 4, 2))


@case("add.Tensor", "sparse and sparse")
def both(d):
    return aten._to_dense(aten.add.Tensor(coo(5, 3)(d), coo(5, 3)(d), alpha=-0.5 * (d.step + 1)))


@case("add.Tensor", "sparse and sparse, joined")
def joined(d):
    return parts(aten.add.Tensor(coo(6, 4, sparse_dims=2, n=9, coalesced=True)(d),
                                 coo(6, 4, sparse_dims=2, n=9, coalesced=True)(d)))


@case("mul.Tensor", "sparse and dense")
def with_dense(d):
    return aten._to_dense(aten.mul.Tensor(square(d), d.f(6, 5)))


@case("mul.Tensor", "sparse and dense, rows of values")
def with_dense_rows(d):
    return aten._to_dense(aten.mul.Tensor(coo(5, 3, coalesced=True)(d), d.f(5, 3)))


@case("div.Tensor", "sparse")
def divided(d):
    return aten._to_dense(aten.div.Tensor(square(d), d.keep(lambda: torch.tensor(0.3))))


for op in ("neg", "abs", "sqrt", "tanh"):
    case(op, "sparse")(
        lambda d, op=op: aten._to_dense(getattr(aten, op)(coo(6, 5, sparse_dims=2, n=9, coalesced=True)(d))))
case("clone", "sparse")(lambda d: aten._to_dense(aten.clone(square(d))))
case("_to_copy", "sparse")(lambda d: aten._to_dense(aten._to_copy(square(d), dtype=F64)))


def half_zero(d, *sizes):
    """As many zeros in each run, at the same places."""
    mask = d.keep(lambda: torch.rand(sizes, generator=d._generator) < 0.5)
    return torch.where(mask, d.f(*sizes) * (d.step + 1), torch.zeros(()))


@case("_to_sparse")
def to_places(d):
    return parts(aten._to_sparse(half_zero(d, 4, 5)))


@case("_to_sparse.sparse_dim")
def to_places_of_rows(d):
    return parts(aten._to_sparse.sparse_dim(half_zero(d, 6, 2), 1))


@case("_to_sparse_csr")
def to_rows(d):
    x = aten._to_sparse_csr(half_zero(d, 4, 5))
    return aten.crow_indices(x).clone(), aten.col_indices(x).clone(), aten.values(x).clone()


@case("_to_sparse_csc")
def to_columns(d):
    x = aten._to_sparse_csc(half_zero(d, 4, 5))
    return aten.ccol_indices(x).clone(), aten.row_indices(x).clone(), aten.values(x).clone()


case("crow_indices")(lambda d: aten.crow_indices(compressed(d)) + 1)
case("col_indices")(lambda d: aten.col_indices(compressed(d)) + 1)
case("ccol_indices")(lambda d: aten.ccol_indices(compressed(d, columns=True)) + 1)
case("row_indices")(lambda d: aten.row_indices(compressed(d, columns=True)) + 1)


@case("sparse_compressed_tensor.comp_plain_value_size")
def from_compressed(d):
    begins = d.keep(lambda: torch.tensor([0, 2, 2, 5]))
    columns = d.keep(lambda: torch.tensor([0, 3, 1, 2, 3]))
    x = aten.sparse_compressed_tensor.comp_plain_value_size(begins, columns, d.f(5) * 2, [3, 4],
                                                            layout=torch.sparse_csr)
    return aten.mm(x, d.f(4, 3))


for dims in ([0], [1], [-1], [0, 1], [2], [0, 2], [0, 1, 2]):
    def total(d, dims=dims):
        x = coo(4, 3, 2, sparse_dims=2, n=9)(d)
        made = aten._sparse_sum.dim(x, dims)
        return made if made.layout == torch.strided else aten._to_dense(made)

    def gradient(d, dims=dims):
        x = coo(4, 3, 2, sparse_dims=2, n=9)(d)
        made = aten._sparse_sum.dim(x, dims)
        grad = made * 2 if made.layout == torch.strided else aten.mul.Tensor(made, d.keep(lambda: torch.tensor(2.0)))
        return aten._to_dense(aten._sparse_sum_backward(grad, x, dims))
    case("_sparse_sum.dim", f"{dims}")(total)
    case("_sparse_sum_backward", f"{dims}")(gradient)


@case("sparse_mask", "of a sparse one")
def sparse_of_sparse(d):
    return parts(aten.sparse_mask(square(d), coo(6, 5, sparse_dims=2, n=9, coalesced=True)(d)))
