"""Cases of ops that read or write at places that data decides, or move elements to fixed places."""

import torch

from case_support import b, case, f, i, like, simple

aten = torch.ops.aten
NAN = float("nan")


def h(*sizes):
    return lambda d: d.h(*sizes)


def bf(*sizes):
    return lambda d: d.bf(*sizes)


def numbers(*values, dtype=torch.int64):
    return lambda d: d.keep(lambda: torch.tensor(values, dtype=dtype))


def distinct(*sizes, high):
    """Different indices along the last dimension."""
    return lambda d: d.keep(lambda: torch.rand(*sizes[:-1], high, generator=d._generator).argsort(-1)[..., :sizes[-1]].
                            contiguous())


def with_nan(*sizes):
    def make(d):
        x = d.f(*sizes)
        return d.keep(lambda: torch.where(torch.rand(x.shape, generator=d._generator) < 0.2, NAN, x))
    return make


def picks(*makers):
    """A list of indices; None stays None."""
    return lambda d: [make(d) if callable(make) else make for make in makers]


# x[indices]
simple("index.Tensor", f(7, 4), picks(i(5, low=-7, high=7)))
simple("index.Tensor", f(7, 4), picks(i(2, 3, low=-7, high=7)), variant="rows of two dimensions")
simple("index.Tensor", f(7), picks(i(2, 3, low=-7, high=7)), variant="vector")
simple("index.Tensor", f(3, 7, 4), picks(None, i(5, low=-7, high=7)), variant="middle")
simple("index.Tensor", f(3, 7, 4, 2), picks(None, i(5, high=7), i(2, 1, high=4)), variant="neighbours")
simple("index.Tensor", f(3, 7, 4, 2), picks(i(5, high=3), None, i(2, 5, high=4)), variant="apart")
simple("index.Tensor", f(3, 7, 4), picks(None, i(5, high=7), None), variant="trailing none")
simple("index.Tensor", f(2, 3, 5, 4), picks(None, i(6, high=3), None, i(6, high=4)), variant="apart, behind a none")
simple("index.Tensor", lambda d: d.f(4, 6, 3).transpose(0, 1), picks(i(5, high=6), i(5, high=4)), variant="strided")
simple("index.Tensor", f(5, 4), picks(lambda d: d.keep(lambda: torch.tensor([False, True, True, False, True]))),
       variant="mask of rows")
simple("index.Tensor", f(5, 4), picks(b(5, 4)), variant="mask of all")
simple("index.Tensor", f(3, 5, 4), picks(None, b(5, 4)), variant="mask behind")
simple("index.Tensor", f(4, 5), picks(numbers(True, False, True, True, dtype=torch.bool), numbers(0, 2, 4)),
       variant="mask and index")
simple("index.Tensor", i(6, 4), picks(i(3, high=6)), variant="integers")
simple("index.Tensor", b(6, 4), picks(i(3, high=6), i(3, high=4)), variant="bools")
simple("index.Tensor", bf(6, 4), picks(i(3, high=6)), variant="bf16")
simple("index.Tensor", f(6, 4), picks(lambda d: d.i(3, high=6).int()), variant="i32")
simple("index.Tensor", f(6, 4), picks(i(high=6)), variant="0-dim")
simple("_unsafe_index.Tensor", f(3, 6, 5), picks(None, i(4, 1, high=6), i(5, high=5)))
for accumulate in (False, True):
    word = "add" if accumulate else "set"
    rows = i(9, low=-7, high=7) if accumulate else distinct(5, high=7)
    count = 9 if accumulate else 5
    simple("index_put", f(7, 4), picks(rows), f(count, 4), accumulate, variant=word)
    simple("index_put", f(7, 4), picks(rows), f(), accumulate, variant=f"{word} one")
    simple("index_put", h(7, 4), picks(rows), h(count, 4), accumulate, variant=f"{word} f16")
    simple("index_put", i(7, 4), picks(rows), i(count, 1), accumulate, variant=f"{word} integers")
    simple("index_put", f(3, 7, 4), picks(None, rows), f(count, 4), accumulate, variant=f"{word} middle")
    simple("index_put", f(3, 5, 4), picks(distinct(3, high=3), None, distinct(3, high=4)), f(3, 5), accumulate,
           variant=f"{word} apart")
    simple("index_put", f(2, 3, 5, 4), picks(None, distinct(3, high=3), None, distinct(3, high=4)), f(3, 2, 5),
           accumulate, variant=f"{word} apart, behind a none")
    simple("index_put", f(5, 4), picks(b(5)), f(4), accumulate, variant=f"{word} mask, broadcast")
    simple("index_put", f(5, 4), picks(b(5, 4)), f(), accumulate, variant=f"{word} mask, one")
    simple("index_put", f(2, 4, 3), picks(None, numbers(True, False, True, True, dtype=torch.bool)), f(2, 3, 3),
           accumulate, variant=f"{word} mask, each")
    simple("index_put_", lambda d: d.f(4, 7).t(), picks(rows), f(count, 4), accumulate, variant=f"{word} strided")
    simple("_index_put_impl_", lambda d: torch.zeros(7, 4), picks(rows), f(count, 4), accumulate,
           variant=f"{word} zeros")
    simple("_unsafe_index_put", f(7, 4), picks(rows), f(count, 4), accumulate, variant=word)
    simple("put", f(3, 4), numbers(3, -1, 3 if accumulate else 5), f(3), accumulate, variant=word)
simple("index_put", b(6), picks(numbers(0, 2, 0)), b(3), True, variant="add bools")
simple("take", f(3, 4), i(2, 5, low=-12, high=12))
simple("masked_select", f(4, 5), b(5))
simple("masked_select", i(3, 1), b(3, 4), variant="broadcast")
simple("masked_scatter", f(4, 5), b(4, 5), f(25))
simple("masked_scatter_backward", f(3, 4), b(3, 4), [20])
simple("nonzero", lambda d: d.b(4, 5).float() * d.f(4, 5))
simple("nonzero", b(2, 3, 4), variant="bool")
simple("nonzero_static", b(4, 5), size=25, fill_value=-7)
simple("nonzero_static", b(4, 5), size=3, variant="fewer")

# Along one dimension
for dim in (0, 1, -1):
    simple("gather", f(5, 6, 4), dim, i(3, 6, 2, high=4), variant=str(dim))
    simple("scatter_add", f(5, 6, 4), dim, i(3, 4, 2, high=4), f(3, 5, 4), variant=str(dim))
    simple("index_add", f(5, 6, 4), dim, i(3, high=4), lambda d, dim=dim: d.f(5, 6, 4).narrow(dim, 0, 3),
           variant=str(dim))
    simple("index_copy", f(5, 6, 4), dim, distinct(3, high=4), lambda d, dim=dim: d.f(5, 6, 4).narrow(dim, 0, 3),
           variant=str(dim))
    simple("index_fill.int_Scalar", f(5, 6, 4), dim, numbers(1, -1), 2.5, variant=str(dim))
simple("gather", f(), 0, numbers(0, 0), variant="0-dim")
simple("gather", lambda d: d.f(6, 5).t(), 1, i(5, 3, high=6), variant="strided")
simple("scatter.src", f(5, 4), 1, distinct(5, 3, high=4), f(5, 4))
simple("scatter.value", f(5, 4), 0, i(2, 4, high=5), 1.5)
simple("scatter.reduce", f(5, 4), 0, i(6, 4, high=5), f(6, 4), reduce="add")
simple("scatter.value_reduce", f(5, 4), 0, i(2, 4, high=5), 1.5, reduce="multiply")
simple("scatter_.src", f(5, 4), 1, distinct(5, 3, high=4), f(5, 4))
simple("scatter_add_", h(5, 4), 1, i(5, 9, high=4), h(5, 9), variant="f16")
simple("index_add", bf(5, 4), 0, i(9, high=5), bf(9, 4), alpha=0.5, variant="bf16")
simple("index_add", f(5), 0, i(9, high=5), f(9), alpha=-2, variant="vector")
simple("index_fill.int_Tensor", i(5, 4), 1, numbers(1, 3), lambda d: d.keep(lambda: torch.tensor(7)))
for how in ("sum", "prod", "mean", "amax", "amin"):
    for keep in (True, False):
        variant = f"{how} {keep}"
        simple("scatter_reduce.two", f(5, 4), 1, i(5, 9, high=4), f(5, 9), how, include_self=keep, variant=variant)
        simple("scatter_reduce.two", i(5, 4), 0, i(9, 4, high=5), i(9, 4), how, include_self=keep,
               variant=f"{variant} integers")
        if how != "sum":
            simple("index_reduce", f(5, 4), 0, i(7, high=5), f(7, 4), how, include_self=keep, variant=variant)
simple("scatter_reduce.two", f(3, 4), 1, i(3, 9, high=4), with_nan(3, 9), "amax", variant="nan")

# Fixed places
simple("constant_pad_nd", f(2, 3, 4), [1, 2, 0, 3], -1.5)
simple("constant_pad_nd", f(5, 6), [-1, 2, 3, -2], 0, variant="cropped")
simple("constant_pad_nd", i(5), [1, 1], 7, variant="integers")
simple("constant_pad_nd", f(0, 3), [1, 1, 2, 0], 2.0, variant="empty")
simple("repeat", f(2, 3), [2, 1, 3])
simple("repeat", f(), [4], variant="0-dim")
simple("repeat", lambda d: d.f(2, 3).t(), [1, 2], variant="strided")
simple("roll", f(4, 5), [1, -7], [0, 1])
simple("roll", f(4, 5), [3], variant="flat")
simple("flip", f(3, 4, 2), [0, -1])
for k in (-1, 0, 1, 2):
    simple("rot90", f(3, 4, 2), k, [0, 1], variant=str(k))
simple("diagonal_backward", f(3, 2), [3, 4, 2], -1, 1, 2)
simple("diagonal_backward", f(2, 3), [3, 4, 2], 1, 0, 1, variant="above")
simple("select_scatter", f(3, 4, 2), f(3, 2), 1, -1)
simple("slice_scatter", f(3, 7), f(3, 2), 1, -5, 6, 2)
simple("diagonal_scatter", f(4, 5), f(4), 1)
simple("as_strided_scatter", f(4, 5), f(2, 3), [2, 3], [6, 2], 1)
simple("diag_embed", f(2, 3), 1, 0, 2)
simple("select_copy.int", f(3, 4), 1, -2)
simple("slice_copy.Tensor", f(3, 7), 1, 1, 6, 2)
simple("diagonal_copy", f(3, 4), -1)
simple("unfold_copy", f(3, 7), 1, 3, 2)
simple("as_strided_copy", f(4, 5), [2, 3], [5, 1], 2)
simple("permute_copy", f(2, 3, 4), [2, 0, 1])
simple("transpose_copy.int", f(2, 3, 4), 0, 2)
simple("transpose_copy.int", f(), 0, 0, variant="no dimensions")
simple("t_copy", f(3, 4))
simple("expand_copy", f(3, 1), [2, 3, 4])
simple("view_copy", f(3, 4), [2, 6])
simple("squeeze_copy", f(1, 3, 1))
simple("squeeze_copy.dim", f(1, 3, 1), 0)
simple("squeeze_copy.dims", f(1, 3, 1), [0, 2])
simple("unsqueeze_copy", f(3), 1)
simple("alias_copy", f(3))
simple("split_copy.Tensor", f(5, 4), 2)
simple("split_with_sizes_copy", f(5, 4), [1, 3], 1)
simple("unbind_copy.int", f(3, 4), 1)


def reshaped_in_place(op, make, *arguments):
    packet, _, overload = op.partition(".")
    function = getattr(getattr(aten, packet), overload or "default")
    case(op)(lambda d: function(make(d).clone(), *arguments) * 2)


reshaped_in_place("as_strided_", f(4, 5), [2, 3], [5, 1], 2)
reshaped_in_place("t_", f(4, 5))
reshaped_in_place("transpose_", f(4, 5, 2), 0, 2)
reshaped_in_place("squeeze_", f(4, 1))
reshaped_in_place("squeeze_.dim", f(4, 1), 1)
reshaped_in_place("squeeze_.dims", f(4, 1, 1), [1, 2])
reshaped_in_place("unsqueeze_", f(4), 0)


# Patterns and counts
simple("eye", 3)
simple("eye.m", 3, 5, dtype=torch.int64)
simple("linspace", -1.5, 2.25, 7)
simple("linspace", 0, 10, 4, dtype=torch.int64, variant="integers")
simple("linspace", 2, 10, 1, dtype=torch.float64, variant="one")
simple("linspace", 0.7, 9.6, 4, dtype=torch.int64, variant="integers from numbers that are none")
simple("logspace", 2.9, 1.2, 3, dtype=torch.int64, variant="integers from numbers that are none")
simple("tril_indices", 4, 3, -1)
simple("triu_indices", 3, 5, 1)
simple("block_diag", lambda d: [d.f(2, 3), d.f(4), d.f(), d.f(1, 2)])
simple("repeat_interleave.Tensor", numbers(2, 0, 3, 1))
simple("unsafe_split.Tensor", f(5, 4), 2)
simple("unsafe_split_with_sizes", f(5, 4), [1, 3], 1)


# Views whose place differs between iterations
@case("select.int", "moving")
def moving_select(d):
    return d.f(6, 4).select(0, d.step) * 2


@case("slice.Tensor", "moving")
def moving_slice(d):
    return d.f(6, 9)[:, d.step : d.step + 3] + 1


@case("select_backward", "moving")
def moving_select_backward(d):
    return aten.select_backward(d.f(6, 4), [6, 5, 4], 1, d.step)


@case("slice_backward", "moving")
def moving_slice_backward(d):
    return aten.slice_backward(d.f(6, 3), [6, 11], 1, d.step - 11, d.step + 6, 2)


@case("copy_", "moving")
def moving_copy(d):
    x = d.f(6, 4).clone()
    x[d.step + 1].copy_(d.f(4))
    return x


# Embeddings
simple("embedding_dense_backward", f(7, 3), i(7, high=5), 5, 2, True, variant="by frequency")
OFFSETS = numbers(0, 2, 2, 7)
for mode, word in ((0, "sum"), (1, "mean"), (2, "max")):
    for padding in (-1, 3):
        def bag(d, mode=mode, padding=padding):
            return aten._embedding_bag(d.f(8, 3), d.i(10, high=8), OFFSETS(d), False, mode, False, None, False,
                                       padding)[0]
        case("_embedding_bag", f"{word} {padding}")(bag)
        case("_embedding_bag_forward_only", f"{word} {padding}")(
            lambda d, mode=mode, padding=padding: aten._embedding_bag_forward_only(
                d.f(8, 3), d.i(10, high=8), OFFSETS(d), False, mode, False, None, False, padding)[0])

        def bag_gradient(d, mode=mode, padding=padding):
            ids, offsets = d.i(10, high=8), OFFSETS(d)
            made = aten._embedding_bag(d.f(8, 3), ids, offsets, False, mode, False, None, False, padding)
            return aten._embedding_bag_backward(
                d.f(4, 3), ids, offsets, made[1], made[2], made[3], 8, False, mode, False, None, padding)
        case("_embedding_bag_backward", f"{word} {padding}")(bag_gradient)


@case("_embedding_bag", "weights, last offset")
def weighted_bag(d):
    return aten._embedding_bag(d.f(8, 3), d.i(10, high=8),
                               numbers(0, 2, 7, 10)(d), False, 0, False, d.f(10), True, -1)[0]


@case("_embedding_bag_dense_backward")
def dense_bag_gradient(d):
    bags, counts = numbers(0, 0, 1, 1, 1, 1, 1, 2, 2, 2)(d), numbers(2, 5, 3)(d)
    return aten._embedding_bag_dense_backward(d.f(3, 3), d.i(10, high=8), bags, counts, counts, 8, False, 0, None, -1)


@case("_embedding_bag_per_sample_weights_backward")
def bag_weights(d):
    ids, offsets = d.i(10, high=8), OFFSETS(d)
    made = aten._embedding_bag(d.f(8, 3), ids, offsets, False, 0, False, d.f(10), False, -1)
    return aten._embedding_bag_per_sample_weights_backward(d.f(4, 3), d.f(8, 3), ids, offsets, made[1], 0, -1)


# Products over groups
ENDS = numbers(3, 3, 8, 10, dtype=torch.int32)
simple("_grouped_mm", bf(10, 16), bf(4, 16, 8), ENDS)
simple("_grouped_mm", lambda d: d.bf(16, 8).t(), bf(16, 8), numbers(8, 8, 16, dtype=torch.int32),
       variant="groups of terms")
simple("_grouped_mm", bf(4, 16, 8), bf(4, 8, 16), variant="batches")

# Segments of a dimension
AWKWARD = [1.0, 3.0, 3.0, 0.0, NAN, NAN, 0.0, 0.0, 4.0, -2.0, 5.0, float("inf"), float("-inf"), 0.0]
LENGTHS = numbers(3, 0, 4, 2, 1, 3, 1)


def lengths_of(d):
    return d.keep(lambda: torch.tensor([[1, 5, 0], [2, 2, 2]]))


for how in ("sum", "mean", "max", "min", "prod"):
    for start in (None, 1.5, NAN):
        simple("segment_reduce", numbers(*AWKWARD, dtype=torch.float32), how, variant=f"{how} awkward from {start}",
               lengths=LENGTHS, initial=start)
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        simple("segment_reduce", lambda d, dtype=dtype: d.f(7, 3, 2, dtype=dtype), how,
               variant=f"{how} {dtype} offsets", offsets=numbers(0, 2, 2, 6, 7))
    simple("segment_reduce", f(2, 6, 3), how, variant=f"{how} of rows", lengths=lengths_of, axis=1)
    simple("segment_reduce", f(9), how, variant=f"{how}, not all", offsets=numbers(1, 4, 7), unsafe=True)

    def segment_gradient(d, how=how, start=None, awkward=False):
        x = numbers(*AWKWARD, dtype=torch.float32)(d) if awkward else d.f(2, 6, 3)
        at = {"lengths": LENGTHS(d)} if awkward else {"lengths": lengths_of(d), "axis": 1}
        made = aten.segment_reduce(x, how, initial=start, **at)
        return aten._segment_reduce_backward(like(d, made), made, x, how, initial=start, **at)
    case("_segment_reduce_backward", how)(segment_gradient)
    case("_segment_reduce_backward", f"{how} from 2")(lambda d, g=segment_gradient: g(d, start=2.0))
    case("_segment_reduce_backward", f"{how} awkward")(lambda d, g=segment_gradient: g(d, awkward=True))
simple("segment_reduce", f(0, 3), "mean", variant="of nothing", lengths=numbers(0, 0))

# Distinct elements: how many there are does not change between runs
FEW = [
    lambda d: d.i(40, high=6), lambda d: d.i(5, 8, high=4).float(), lambda d: d.b(12),
    lambda d: d.i(20, high=9, low=-9).to(torch.int8),
    numbers(NAN, 0.0, 2.0, NAN, -0.0, -1.0, 2.0, dtype=torch.float64),
    numbers(3.5, dtype=torch.float32)
]
for number, make in enumerate(FEW):
    simple("_unique", make, True, True, variant=f"{number}")
    simple("unique_consecutive", make, True, True, variant=f"{number}")
    for flags in ((True, True), (False, True), (False, False)):
        simple("_unique2", make, True, *flags, variant=f"{number} {flags}")
simple("_unique2", lambda d: d.keep(lambda: torch.tensor(4)), True, True, True, variant="a number")
for dim in (0, 1, -1):
    rows = lambda d: d.keep(lambda: torch.randint(0, 2, (6, 5, 3), generator=d._generator).repeat(2, 2, 2)[:9, :7])
    for op in ("unique_dim", "unique_dim_consecutive", "unique_consecutive"):
        flags = (True, True, True) if op == "unique_dim" else (True, True)
        arguments = (*flags, dim) if op == "unique_consecutive" else (dim, *flags)
        simple(op, rows, *arguments, variant=f"{dim}")
        same = lambda d, rows=rows: rows(d).float().sort(0).values
        simple(op, same, *arguments, variant=f"{dim}, sorted")
simple("unique_dim", lambda d: d.i(9, 1, high=3), 0, True, True, True, variant="one column")
simple("unique_dim", lambda d: d.b(9, 4), 1, False, False, True, variant="bools")


def of_nothing(op, run):
    """Results without elements leave nothing to compare: they are joined with one that has some."""
    case(op, "nothing")(lambda d: torch.cat([*(r.flatten().float() for r in run(d)), torch.ones(1)]))


of_nothing("gather", lambda d: [aten.gather(d.f(4), 0, d.i(3, 0, high=4))])
of_nothing("scatter_add", lambda d: [aten.scatter_add(d.f(4), 0, d.i(3, 0, high=4), d.f(3, 0))])
of_nothing("_unique2", lambda d: aten._unique2(d.f(0), True, True, True))
of_nothing("unique_consecutive", lambda d: aten.unique_consecutive(d.f(2, 0), True, True))
of_nothing("unique_dim", lambda d: aten.unique_dim(d.f(3, 0, 2), 1, True, True, True))
simple("unique_dim_consecutive", lambda d: d.i(1, 4), 0, True, True, variant="one row")

# Sequences of different lengths
LENGTHS_DOWN = numbers(6, 4, 4, 1)
simple("_pack_padded_sequence", f(6, 4, 3), LENGTHS_DOWN, False)
simple("_pack_padded_sequence", f(4, 6, 3, 2), LENGTHS_DOWN, True, variant="batch first")
simple("_pack_padded_sequence", f(9, 4), LENGTHS_DOWN, False, variant="steps behind the longest one")
simple("_pack_padded_sequence", lambda d: d.bf(4, 6, 3).transpose(0, 1), LENGTHS_DOWN, False, variant="strided bf16")
