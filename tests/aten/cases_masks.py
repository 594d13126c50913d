"""Cases of masks among other indices: read, assigned and added to, in every order, with what broadcasts beside them."""

import torch

from case_support import BF16, F32, aten, case

SIZES = (3, 4, 2, 5)


def mask(count, *sizes):
    """A mask that holds `count` elements."""
    def make(d):
        places = torch.randperm(torch.Size(sizes).numel(), generator=d._generator)[:count]
        truth = torch.zeros(torch.Size(sizes).numel(), dtype=torch.bool)
        truth[places] = True
        return truth.view(sizes)
    return lambda d: d.keep(lambda: make(d))


def rows(high, *sizes):
    return lambda d: d.i(*sizes, high=high, low=-high)


def nothing(_):
    return None


def bytes_of(make):
    return lambda d: make(d).to(torch.uint8)


# What stands in x[...].
INDICES = {
    "mask, index": (mask(2, 3), rows(4, 2)),
    "index, mask": (rows(3, 3), mask(3, 4)),
    "mask, none, index": (mask(2, 3), nothing, rows(2, 2)),
    "none, mask, index": (nothing, mask(3, 4), rows(2, 3)),
    "mask of two, index": (mask(5, 3, 4), rows(2, 5)),
    "index, mask of two": (rows(3, 4), mask(4, 4, 2)),
    "mask, mask": (mask(3, 3), mask(3, 4)),
    "mask, none, mask": (mask(2, 3), nothing, mask(2, 2)),
    "none, mask, none, mask": (nothing, mask(4, 4), nothing, mask(4, 5)),
    "mask, one index": (mask(2, 3), rows(4, 1)),
    "one of the mask, indices": (mask(1, 3), rows(4, 6)),
    "one of the mask, mask": (mask(1, 3), mask(3, 4)),
    "mask, index of two": (mask(3, 3), rows(4, 2, 3)),
    "mask, index, mask": (mask(2, 3), rows(4, 2), mask(2, 2)),
    "nothing in the mask": (mask(0, 3), rows(4, 0)),
    "nothing in masks": (mask(0, 3), mask(0, 4)),
    "nothing in the mask, one index": (mask(0, 3), rows(4, 1)),
    "bytes, index": (bytes_of(mask(2, 3)), rows(4, 2)),
}


def chosen(d, dtype=F32):
    return d.f(*SIZES, dtype=dtype)


def cases_of(word, makers):
    def indices(d):
        return [make(d) for make in makers]

    @case("index.Tensor", word)
    def read(d):
        found = aten.index.Tensor(chosen(d), indices(d))
        return torch.cat([found.flatten(), torch.ones(1)])  # what has no elements leaves nothing to compare

    def values_of(d, how, dtype):
        x = chosen(d, dtype)
        at = indices(d)
        whole = d.keep(lambda: torch.randn(x[tuple(slice(None) if i is None else i for i in at)].shape,
                                           generator=d._generator).to(dtype))
        if how == "each":
            return whole
        return d.f(1, dtype=dtype) if how == "one" else d.f(*whole.shape[-1:], dtype=dtype)

    # Where two indices name one element, which of different values it gets is not specified, but their sum is.
    for accumulate, how in ((False, "one"), (True, "each"), (True, "one"), (True, "last dimension")):
        @case("index_put", f"{word}, {how} {accumulate}")
        def put(d, accumulate=accumulate, how=how):
            return aten.index_put(chosen(d), indices(d), values_of(d, how, F32), accumulate)

    @case("_index_put_impl_", word)
    def in_place(d):
        x = chosen(d, BF16).clone()
        return aten._index_put_impl_(x, indices(d), values_of(d, "one", BF16), False)


for name, given in INDICES.items():
    cases_of(name, given)


@case("index_put", "target of a classification")
def target(d):
    labels, some = d.i(8, high=3), mask(5, 8)(d)
    x = torch.zeros(8, 3)
    x[some, labels[some]] = 1.0
    return x


@case("index_put", "each with values of its own")
def distinct_values(d):
    x, some = d.f(8, 5).clone(), mask(5, 8)(d)
    x[some, d.keep(lambda: torch.randperm(5, generator=d._generator))] = d.f(5)
    return x


@case("index_put", "complex")
def of_complex_numbers(d):
    x = torch.complex(d.f(3, 4), d.f(3, 4))
    x[mask(2, 3)(d), d.i(2, high=4)] = torch.complex(d.f(2), d.f(2))
    return torch.view_as_real(x)
