"""Attacks of the kinds bombs and empties: small files that ask for much memory or time."""

import struct

from attack_list import *


@attack("bombs", "bounded", INFO, REPLAY, "trace check {f}", "trace optimize {f} -o {o}")
def table_of_2_to_the_29_empty_names():
    """Half a gibibyte of records of one byte each, 16 KiB in the file, 32 bytes each in memory."""
    t = Recording()
    t.loss(t.filled([]))
    count = (1 << 29) - 5
    content = varint(count)
    frame = frame_of_head_and_zeros(content, count)
    t.raw["modules"] = (1, frame, len(content) + count)
    return t.data()


@attack("bombs", "bounded", REPLAY, GRAPH, PLAN)
def pooling_of_2_to_the_40_windows():
    t = Recording()
    x = t.expanded([1, 1, 1, 1 << 40])
    y = t.tensor([1, 1, 1, 1 << 40])
    t.op("aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
         "bool count_include_pad=True, int? divisor_override=None) -> Tensor",
         [T(x), L(I(1), I(1)), L(I(1), I(1)), L(I(0), I(0)), B(False), B(True), NONE], [T(y)])
    t.loss(t.sum(y))
    return t.data()


@attack("bombs", "bounded", REPLAY, KERNELS)
def pooling_with_a_million_taps():
    """Each tap of a window is a loop of its own in the kernel's text."""
    t = Recording()
    width = 3 << 20
    x = t.filled([1, 1, 1, width])
    sizes = [1, 1, 1, width - (1 << 20) + 1]
    y, places = t.tensor(sizes), t.tensor(sizes, "i64")
    t.op(POOL, [T(x), L(I(1), I(1 << 20)), L(I(1), I(1)), L(I(0), I(0)), L(I(1), I(1)), B(False)], [T(y), T(places)])
    t.loss(t.sum(y))
    return t.data()


@attack("bombs", "bounded", INFO, INFO + " --json", OPS, "trace diff {f} {f}")
def many_outputs_with_names_of_their_own():
    t = Recording()
    t.loss(t.filled([]))
    blob, made = t.blob(floats(0)), 0
    for number in range(19_000):  # distinct at their end alone
        t.add("outputs", varint(0) + text(bytes(1500) + struct.pack("<H", number)) + ident(made) + ident(blob))
    return t.data()


@attack("bombs", "bounded", OPS, INFO, "trace export {f} --format jsonl -o {o}")
def many_compounds_and_many_uses():
    """To print a tensor of several parts its record is looked for from the front."""
    t = Recording()
    t.loss(t.filled([]))
    count = 20_000
    first = len(t.tables["tensors"])
    for _ in range(count):
        t.view(None, [1])
    for number in range(count):
        t.add("compounds", ident(first + number) + text("zero") + listing([]))
    schema = "aten::neg(Tensor self) -> Tensor"
    uses = L(*[T(first + count - 1)] * 1000)
    for number in range(500):
        t.op(schema, [uses], [uses])
    return t.data()


EVERY_USE = (OPS, OPS + " --json", INFO, INFO + " --private", "trace export {f} --format jsonl -o {o}",
             "trace export {f} --format chrome -o {o}", "trace diff {f} {f}", "trace optimize {f} -o {o}",
             "trace trim {f} -o {o} --iterations 0", REPLAY)


def compounds_of_compounds(height, parts, uses):
    t = Recording()
    t.loss(t.filled([]))
    levels = [t.view(None, [1]) for _ in range(height)]
    for number, tensor in enumerate(levels):
        t.add(
            "compounds",
            ident(tensor) + text("zero") +
            listing([text(f"part{part}") + T(levels[number - 1]) for part in range(parts if number else 0)]))
    for _ in range(uses):
        t.op("aten::neg(Tensor self) -> Tensor", [T(levels[-1])], [T(levels[-1])])
    return t.data()


@attack("bombs", "refuse", *EVERY_USE)
def compounds_within_compounds():
    """Unfolded it has 12^15 parts."""
    return compounds_of_compounds(15, 12, 1)


@attack("bombs", "refuse", *EVERY_USE)
def a_wide_compound_used_often():
    """Each is small, and printed a thousand times."""
    return compounds_of_compounds(5, 30, 1000)


@attack("bombs", "bounded", *EVERY_USE)
def a_wide_compound():
    """The largest that is taken, nearly."""
    return compounds_of_compounds(5, 13, 1)


@attack("bombs", "bounded", INFO + " --json", "trace export {f} --format jsonl -o {o}")
def many_names_for_an_object():
    """Of kinds, of schemas and of parts: an object of JSON was searched from the front for each."""
    t = Recording()
    t.loss(t.filled([]))
    for number in range(40_000):
        t.add("compounds", ident(t.view(None, [1])) + text(f"kind{number}") + listing([]))
        t.schema(f"my::op{number}(Tensor self) -> Tensor")
    whole = t.view(None, [1])
    part = t.view(None, [1])
    t.add("compounds",
          ident(whole) + text("whole") + listing([text(f"part{number}") + T(part) for number in range(30_000)]))
    t.op("my::op0(Tensor self) -> Tensor", [T(whole)], [T(part)])
    return t.data()


@attack("bombs", "bounded", REPLAY)
def many_losses_and_outputs():
    """To judge one, those before it were counted."""
    t = Recording()
    made = t.filled([])
    for number in range(60_000):
        t.loss(made)
        t.add("outputs",
              varint(0) + text(f"out{number}") + ident(made) + ident(t.blob(floats(0)) if number == 0 else 0))
    return t.data()


@attack("bombs", "bounded", REPLAY)
def many_outputs_of_one_tensor():
    """Each of them was read, kept by each of the runs that a difference asks for, and compared: 60 GB."""
    t = Recording()
    made = t.filled([1 << 18])
    zeros = t.blob(floats(*[0] * (1 << 18)))
    t.loss(t.sum(made), float(1 << 18))
    for number in range(60_000):
        t.add("outputs", varint(0) + text(f"out{number}") + ident(made) + ident(zeros))
    return t.data()


@attack("bombs", "bounded", REPLAY)
def many_states_of_one_element():
    """Each was written and read by itself, in each of the runs that a difference asks for."""
    t = Recording()
    one = t.blob(floats(1.5))
    states = [t.tensor([1], external=one, role=PARAMETER, name=f"p{number}") for number in range(10_000)]
    t.op("aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()", [L(*map(T, states)), D(1.0)], [])
    t.loss(t.filled([1]), 5.0)
    return t.data()


CAT = "aten::cat(Tensor[] tensors, int dim=0) -> Tensor"


@attack("bombs", "bounded", REPLAY, GRAPH, PLAN)
def many_pieces_in_one_op():
    """Each piece was a buffer, and a branch, of one kernel: compilers take time by their square."""
    t = Recording()
    one = t.blob(floats(1))
    pieces = [t.tensor([1], external=one, name=f"p{number}") for number in range(1_500)]
    joined = t.tensor([len(pieces)])
    t.op(CAT, [L(*map(T, pieces)), I(0)], [T(joined)])
    t.loss(t.sum(joined))
    return t.data()


@attack("bombs", "bounded", REPLAY, GRAPH, PLAN)
def a_chain_of_20000_ops():
    t = Recording()
    x, y = t.tensor([2], external=floats(1, 2)), t.tensor([2])
    for _ in range(20_000):
        t.op("aten::neg(Tensor self) -> Tensor", [T(x)], [T(y)])
        x, y = y, x
    t.loss(t.sum(x))
    return t.data()


@attack("bombs", "bounded", REPLAY + " --numerics strict", KERNELS)
def transposed_convolution_with_a_wide_stride():
    """Each phase of the stride is a product of its own in the kernel's text."""
    t = Recording()
    stride = 1 << 20
    x, w, y = t.filled([1, 16, 1, 1]), t.filled([16, 16, 1, 1]), t.tensor([1, 16, 1, stride])
    t.op(CONVOLUTION,
         [T(x),
          T(w), NONE,
          L(I(1), I(stride)),
          L(I(0), I(0)),
          L(I(1), I(1)),
          B(True),
          L(I(0), I(stride - 1)),
          I(1)], [T(y)])
    t.loss(t.sum(y))
    return t.data()


CONVOLUTION = (
    "aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
    "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor")


@attack("bombs", "bounded", REPLAY, REPLAY + " --numerics strict", PLAN)
def sum_of_2_to_the_40_times_one_element():
    """A view shows the same element as often as its sizes say: a file of a few bytes asks for any work."""
    t = Recording()
    t.loss(t.sum(t.expanded([1 << 40])))
    return t.data()


@attack("bombs", "bounded", REPLAY)
def sum_of_2_to_the_32_times_one_element():
    """As much fits in memory that nobody wants to give."""
    t = Recording()
    t.loss(t.sum(t.expanded([1 << 32])))
    return t.data()


@attack("bombs", "bounded", REPLAY)
def rows_of_a_table_of_2_to_the_32_times_one_element():
    t = Recording()
    table, ids, rows = t.expanded([1 << 32]), t.filled([4], 1.0, "i64"), t.tensor([4])
    t.op("aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", [T(table), I(0), T(ids)], [T(rows)])
    t.loss(t.sum(rows))
    return t.data()


@attack("bombs", "bounded", REPLAY)
def product_of_2_to_the_36_times_one_element():
    t = Recording()
    x, w, y = t.expanded([1, 1 << 36]), t.expanded([1 << 36, 1]), t.tensor([1, 1])
    t.op("aten::mm(Tensor self, Tensor mat2) -> Tensor", [T(x), T(w)], [T(y)])
    t.loss(t.sum(y))
    return t.data()


MANY = 1 << 40  # an extent beside one of 0: a loop over it turns as often, and there is nothing to compute


def without_elements(name, sizes, result, schema, arguments, dtypes=("f32",)):
    """An op on a tensor of `sizes`, whose results have `result` and these dtypes; `arguments` stand behind the
    tensor."""
    def make():
        t = Recording()
        x, results = t.filled(sizes), [t.tensor(result, dtype) for dtype in dtypes]
        t.op(schema, [T(x), *arguments], [T(made) for made in results])
        t.loss(t.sum(results[0]))
        return t.data()
    make.__name__ = f"{name}_without_elements"
    attack("empties", "bounded", REPLAY, REPLAY + " --numerics strict")(make)


without_elements("pooling", [MANY, 1, 4, 0], [MANY, 1, 4, 0], POOL,
                 [L(I(1), I(1)), L(I(1), I(1)), L(I(0), I(0)),
                  L(I(1), I(1)), B(False)], ("f32", "i64"))
without_elements("running_sum", [MANY, 3, 0], [MANY, 3, 0],
                 "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", [I(1), NONE])
without_elements("sort", [MANY, 3, 0], [MANY, 3, 0],
                 "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
                 [I(1), B(False)], ("f32", "i64"))
without_elements("softmax", [MANY, 3, 0], [MANY, 3, 0],
                 "aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", [I(1), B(False)])
without_elements(
    "sum", [MANY, 0, 3], [MANY, 0],
    "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    [L(I(2)), B(False), NONE])


@attack("empties", "bounded", REPLAY, REPLAY + " --numerics strict")
def convolution_without_elements():
    t = Recording()
    x, w, y = t.filled([MANY, 1, 0, 3]), t.filled([2, 1, 1, 1]), t.tensor([MANY, 2, 0, 3])
    t.op(CONVOLUTION,
         [T(x), T(w), NONE,
          L(I(1), I(1)), L(I(0), I(0)),
          L(I(1), I(1)), B(False),
          L(I(0), I(0)), I(1)], [T(y)])
    t.loss(t.sum(y))
    return t.data()


@attack("empties", "bounded", REPLAY, REPLAY + " --numerics strict")
def products_without_elements():
    t = Recording()
    x, w, y = t.filled([MANY, 3, 0]), t.filled([MANY, 0, 0]), t.tensor([MANY, 3, 0])
    t.op("aten::bmm(Tensor self, Tensor mat2) -> Tensor", [T(x), T(w)], [T(y)])
    t.loss(t.sum(y))
    return t.data()


@attack("empties", "bounded", REPLAY, REPLAY + " --numerics strict")
def pieces_without_elements():
    t = Recording()
    x, y = t.filled([MANY, 3, 0]), t.tensor([MANY, 6, 0])
    t.op("aten::cat(Tensor[] tensors, int dim=0) -> Tensor", [L(T(x), T(x)), I(1)], [T(y)])
    t.loss(t.sum(y))
    return t.data()


@attack("empties", "bounded", REPLAY, REPLAY + " --numerics strict")
def factors_without_elements():
    t = Recording()
    x, q, r = t.filled([MANY, 0, 3]), t.tensor([MANY, 0, 0]), t.tensor([MANY, 0, 3])
    t.op("aten::linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)", [T(x), S("reduced")], [T(q), T(r)])
    t.loss(t.sum(q))
    return t.data()
