"""Cases of ops on sparse tensors: what gradients of embeddings meet in optimizers. Results are dense, or the parts of
sparse ones."""

import torch

from case_support import BF16, F32, F64, aten, case

NAN = float("nan")


def coo(*sizes, n=7, sparse_dims=1, dtype=F32, coalesced=False):
    """A sparse tensor of `n` places, some of them twice."""
    def make(d):
        indices = torch.stack([torch.randint(0, size, (n,), generator=d._generator) for size in sizes[:sparse_dims]])
        values = torch.randn(n, *sizes[sparse_dims:], generator=d._generator).to(dtype)
        x = torch.sparse_coo_tensor(indices, values, sizes, check_invariants=False)
        if not coalesced:
            return x
        # In memory of their own: coalesce() leaves what it does not need of its buffers as it lies in memory.
        once = x.coalesce()
        return torch.sparse_coo_tensor(once.indices().clone(),
                                       once.values().clone(), sizes, is_coalesced=True, check_invariants=False)
    return lambda d: d.keep(lambda: make(d))


def dense(d, x):
    return d.f(*x.shape, dtype=x.dtype)


def parts(x):
    return aten._indices(x), aten._values(x)


KINDS = {
    "rows": coo(5, 3), "elements": coo(4, 6, sparse_dims=2, n=12), "planes": coo(3, 4, 2, 3, sparse_dims=2, n=9),
    "one row": coo(1, 4, n=3), "nothing": coo(5, 3, n=0), "f64": coo(5, 3, dtype=F64),
    "bf16": coo(9, 3, dtype=BF16, n=4), "each once": coo(5, 3, coalesced=True)
}


def cases_of(kind, make):
    if kind not in ("nothing", "each once"):
        case("_coalesce", kind)(lambda d: parts(aten._coalesce(make(d))))

    @case("_to_dense", kind)
    def whole(d):
        return aten._to_dense(make(d))

    @case("add.Tensor", f"sparse, {kind}")
    def total(d):
        x = make(d)
        return aten.add.Tensor(dense(d, x), x, alpha=1 if kind == "rows" else -0.5 * (d.step + 1))

    @case("add_.Tensor", f"sparse, {kind}")
    def total_in_place(d):
        x = make(d)
        return aten.add_.Tensor(dense(d, x).clone(), x, alpha=-1)

    if kind == "nothing":
        case("sparse_mask", kind)(lambda d: aten._to_dense(aten.sparse_mask(dense(d, make(d)), make(d))))
        return

    @case("_indices", kind)
    def indices(d):
        return aten._indices(make(d)).clone()

    @case("_values", kind)
    def values(d):
        return aten._values(make(d)) * 2

    @case("sparse_mask", kind)
    def mask(d):
        x = make(d)
        return parts(aten.sparse_mask(dense(d, x), x))

    @case("mul.Tensor", f"sparse, {kind}")
    def product(d):
        return parts(aten.mul.Tensor(aten.detach(make(d)), d.keep(lambda: torch.tensor(0.25))))


for name, maker in KINDS.items():
    cases_of(name, maker)


@case("_sparse_coo_tensor_with_dims_and_tensors")
def from_parts(d):
    places, values = d.i(1, 6, high=4), d.f(6, 3) * 2
    x = aten._sparse_coo_tensor_with_dims_and_tensors(1, 1, [4, 3], places, values, layout=torch.sparse_coo)
    return aten.add.Tensor(d.f(4, 3), x)


@case("add.Tensor", "sparse, awkward")
def awkward_sum(d):
    values = d.keep(lambda: torch.tensor([NAN, float("inf"), -float("inf"), -0.0, 1e38, 3e38]))
    x = aten._sparse_coo_tensor_with_dims_and_tensors(1, 0, [5], d.i(1, 6, high=5), values, layout=torch.sparse_coo)
    return aten.add.Tensor(d.f(5), x)


@case("indices")
def places_of(d):
    return aten.indices(KINDS["each once"](d)) + 1


@case("values")
def values_of(d):
    return aten.values(KINDS["each once"](d)) + 1


# Tensors that have no memory: all elements are 0
@case("_efficientzerotensor")
def zero_tensor(d):
    return d.f(3, 4) + aten._efficientzerotensor([4])


@case("_efficientzerotensor", "complex")
def complex_zero_tensor(d):
    return d.f(3, 2).view(3, 2) + torch.view_as_real(aten._efficientzerotensor([3], dtype=torch.complex64).clone())
