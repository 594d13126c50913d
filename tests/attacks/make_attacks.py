#!/usr/bin/env python3
"""Makes the files of this folder: `python3 make_attacks.py [FOLDER]`. Each attack is a function; what must happen to it
is said beside it and written to attacks.tsv (README.md has the columns)."""

import pathlib
import sys

import bombs  # noqa: F401, it adds its own
from attack_list import *

EMBEDDING = "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor"


# ids: numbers in a tensor that say where to read or write. The framework refuses each of these calls with IndexError,
# as the reference interpreter does; what is also let pass is a loss to which nothing outside has come.
JSON = "replay {f} --json"
IDS = (JSON, JSON + " --numerics strict", JSON + " --backend reference")


def embedding(ids, rows=4, width=8):
    t = Recording()
    table = t.tensor([rows, width], external=floats(*range(rows * width)), role=PARAMETER, name="weight")
    places = t.tensor([len(ids)], "i64", external=longs(*ids))
    found = t.tensor([len(ids), width])
    t.op(EMBEDDING, [T(table), T(places), I(-1), B(False), B(False)], [T(found)])
    t.loss(t.sum(found))
    return t.data()


@attack("ids", "loss=28", *IDS)
def embedding_far():
    return embedding([1 << 40, 0])


@attack("ids", "loss=92", *IDS)
def embedding_negative():
    return embedding([-(1 << 36), 1])


@attack("ids", "loss=0", *IDS)
def embedding_next():
    return embedding([4, 5, 6, 7])


POOL_BACKWARD = (
    "aten::max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, "
    "int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor")


def pool_backward(places):
    t = Recording()
    x = t.tensor([1, 1, 4, 4], external=floats(*range(16)))
    g = t.tensor([1, 1, 2, 2], external=floats(1, 2, 3, 4))
    where = t.tensor([1, 1, 2, 2], "i64", external=longs(*places))
    dx = t.tensor([1, 1, 4, 4])
    two, none, one = L(I(2), I(2)), L(I(0), I(0)), L(I(1), I(1))
    t.op(POOL_BACKWARD, [T(g), T(x), two, two, none, one, B(False), T(where)], [T(dx)], phase=BACKWARD)
    t.loss(t.sum(dx))
    return t.data()


@attack("ids", "loss=9", *IDS)
def pool_backward_far():
    """A write, at a place and of a number that the file chooses."""
    return pool_backward([1 << 38, 0, 5, 15])


@attack("ids", "loss=9", *IDS)
def pool_backward_before():
    return pool_backward([-(1 << 33), 0, 5, 15])


def pool_of_nothing(planes, height, width, kernel, stride, padding, dilation, sizes):
    """Windows whose taps all lie in the padding: the place of their maximum is outside the plane, and the gradient goes
    there."""
    t = Recording()
    x = t.tensor([1, planes, height, width], external=floats(*range(planes * height * width)))
    y, where = t.tensor([1, planes, *sizes]), t.tensor([1, planes, *sizes], "i64")
    pairs = [L(*map(I, pair)) for pair in (kernel, stride, padding, dilation)]
    t.op(POOL, [T(x), *pairs, B(False)], [T(y), T(where)])
    dx = t.tensor([1, planes, height, width])
    t.op(POOL_BACKWARD,
         [T(x if sizes == [height, width] else y),
          T(x), *pairs, B(False), T(where)], [T(dx)], phase=BACKWARD)
    t.loss(t.sum(dx))
    return t.data()


@attack("ids", "survive", REPLAY, REPLAY + " --numerics strict",
        "compare {f} --backends reference,cpu --numerics strict")
def pool_windows_without_elements():
    return pool_of_nothing(4, 7, 8, (2, 1), (1, 1), (1 << 29, 0), ((1 << 30) + 6, 1), [1, 8])


@attack("ids", "loss=-2", *IDS)
def nll_class_far():
    t = Recording()
    scores = t.tensor([2, 3], external=floats(*range(6)))
    classes = t.tensor([2], "i64", external=longs(1 << 40, 1))
    loss, weight = t.tensor([]), t.tensor([])
    t.op(
        "aten::nll_loss_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) -> (Tensor output, Tensor total_weight)",
        [T(scores), T(classes), NONE, I(2), I(-100)], [T(loss), T(weight)])
    t.loss(loss)
    return t.data()


@attack("ids", "loss=0", *IDS)
def index_select_computed():
    """Ids that an op computes: no look at the file's bytes finds them."""
    t = Recording()
    x = t.tensor([4, 2], external=floats(*range(8)))
    ids = t.filled([2], float(1 << 42), "i64")
    found = t.tensor([2, 2])
    t.op("aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", [T(x), I(0), T(ids)], [T(found)])
    t.loss(t.sum(found))
    return t.data()


def one_op(schema, arguments, result, dtype="f32"):
    """A recording of one op; `arguments` gets the recording and gives the arguments."""
    t = Recording()
    x = t.tensor(result, dtype)
    given = arguments(t)
    t.op(schema, given, [T(x)], module=t.module("net.part"), site=t.site("loop.py", 7))
    t.loss(t.sum(x))
    return t.data()


def table(t):
    return T(t.tensor([4, 2], external=floats(*range(8)), role=PARAMETER, name="w"))


def ids(t, *numbers, sizes=None, dtype="i64"):
    data = longs(*numbers) if dtype == "i64" else b"".join(
        number.to_bytes(4, "little", signed=True) for number in numbers)
    return T(t.tensor(sizes or [len(numbers)], dtype, external=data))


@attack("ids", "refuse", *IDS)
def index_of_the_next_row():
    return one_op("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
                  lambda t: [table(t), L(ids(t, 0, 4))], [2, 2])


@attack("ids", "refuse", *IDS)
def index_beyond_a_row():
    """The column lies outside, its place in the table does not."""
    return one_op("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
                  lambda t: [table(t), L(ids(t, 0, 1), ids(t, 1, 3))], [2])


@attack("ids", "refuse", *IDS)
def index_before_the_first_row():
    return one_op("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
                  lambda t: [table(t), L(ids(t, -4, -5))], [2, 2])


@attack("ids", "refuse", *IDS)
def index_whose_place_wraps():
    return one_op("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
                  lambda t: [table(t), L(ids(t, 1 << 62, 0), ids(t, 0, 1))], [2])


@attack("ids", "refuse", *IDS)
def gather_negative():
    return one_op("aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor",
                  lambda t: [table(t), I(0), ids(t, 0, -1, sizes=[1, 2]), B(False)], [1, 2])


@attack("ids", "refuse", *IDS)
def scatter_add_far():
    return one_op(
        "aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
        lambda t: [table(t),
                   I(0), ids(t, 1 << 40, 3, sizes=[1, 2]),
                   T(t.tensor([1, 2], external=floats(1, 2)))], [4, 2])


@attack("ids", "refuse", *IDS)
def index_add_next():
    return one_op("aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor",
                  lambda t: [table(t), I(0), ids(t, 4), T(t.tensor([1, 2], external=floats(1, 2))), I(1)], [4, 2])


@attack("ids", "refuse", *IDS)
def take_far():
    return one_op("aten::take(Tensor self, Tensor index) -> Tensor", lambda t: [table(t), ids(t, 7, 8)], [2])


@attack("ids", "refuse", *IDS)
def put_far():
    return one_op("aten::put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
                  lambda t: [table(t), ids(t, 7, -9), T(t.tensor([2], external=floats(1, 2))), B(True)], [4, 2])


@attack("ids", "refuse", *IDS)
def narrow_ids_next():
    return one_op(EMBEDDING, lambda t: [table(t), ids(t, 0, 4, dtype="i32"), I(-1), B(False), B(False)], [2, 2])


@attack("ids", "refuse", *IDS)
def rows_of_an_empty_table():
    return one_op(EMBEDDING,
                  lambda t: [T(t.tensor([0, 2], external=b"")),
                             ids(t, 0, 1), I(-1),
                             B(False), B(False)], [2, 2])


@attack("ids", "refuse", *IDS)
def embedding_backward_far():
    return one_op(
        "aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
        lambda t: [T(t.tensor([2, 2], external=floats(1, 2, 3, 4))),
                   ids(t, 3, 1 << 33),
                   I(4), I(-1),
                   B(False)], [4, 2])


@attack("ids", "refuse", *IDS)
def unpool_far():
    return one_op(
        "aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor",
        lambda t: [T(t.tensor([1, 1, 1, 2], external=floats(1, 2))),
                   ids(t, 0, 16, sizes=[1, 1, 1, 2]),
                   L(I(4), I(4))], [1, 1, 4, 4])


# views: what a tensor says of its memory.
def wrapped_number(offset, dtype="i64"):
    t = Recording()
    x = t.tensor([2], external=floats(1, 2))
    one = t.tensor([], dtype, external=longs(3) if dtype == "i64" else doubles(3), flags=2, offset=offset)
    y = t.tensor([2])
    t.op("aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", [T(x), T(one)], [T(y)])
    t.loss(t.sum(y))
    return t.data()


@attack("views", "refuse", REPLAY, GRAPH, PLAN)
def number_before_its_bytes():
    """Offset -1 of a number of the language: the 8 bytes before the heap block."""
    return wrapped_number(-1)


@attack("views", "refuse", REPLAY, GRAPH)
def number_behind_everything():
    return wrapped_number((1 << 61) - 1, "f64")


@attack("views", "refuse", REPLAY, GRAPH, PLAN, KERNELS)
def result_larger_than_its_storage():
    t = Recording()
    x = t.tensor([4], external=floats(1, 2, 3, 4))
    y = t.tensor([4], storage_bytes=8)
    t.op("aten::neg(Tensor self) -> Tensor", [T(x)], [T(y)])
    t.loss(t.sum(y))
    return t.data()


@attack("views", "refuse", REPLAY, GRAPH, PLAN, KERNELS)
def sizes_whose_product_wraps():
    t = Recording()
    storage = t.storage(16)
    t.external(storage, floats(1, 2, 3, 4))
    x = t.view(storage, [1 << 32, 1 << 32], [0, 0])
    t.loss(t.sum(x))
    return t.data()


@attack("views", "bounded", REPLAY, GRAPH, PLAN, KERNELS)
def storage_of_2_to_the_63():
    t = Recording()
    storage = t.storage((1 << 63) - 8)
    x = t.view(storage, [4])
    t.op("aten::zero_(Tensor(a!) self) -> Tensor(a!)", [T(x)], [T(x)])
    t.loss(t.sum(x))
    return t.data()


# schemas: the text of an operator's schema comes from the file.
def with_schema(words):
    t = Recording()
    x = t.tensor([2], external=floats(1, 2))
    y = t.tensor([2])
    t.op(words, [T(x)], [T(y)])
    t.loss(t.sum(y))
    return t.data()


@attack("schemas", "refuse", REPLAY, GRAPH)
def schema_with_a_bracket_alone():
    return with_schema("aten::neg(] self) -> Tensor")


@attack("schemas", "bounded", REPLAY, GRAPH)
def schema_that_ends_before_it_begins():
    return with_schema("aten::neg -> (Tensor")


@attack("schemas", "bounded", REPLAY, GRAPH)
def schema_that_lets_a_window_be_any_number():
    """Only what the schema called an int was held against what any memory has."""
    t = Recording()
    x, y = t.filled([1, 1, 4, 4]), t.tensor([1, 1, 4, 4])
    most = (1 << 63) - 1
    t.op(
        "aten::avg_pool2d(Tensor self, Scalar[] kernel_size, Scalar[] stride=[], Scalar[] padding=0, bool ceil_mode=False, bool count_include_pad=True, "
        "Scalar? divisor_override=None) -> Tensor",
        [T(x), L(I(most), I(most)),
         L(I(1), I(1)), L(I(most), I(most)),
         B(True), B(True), NONE], [T(y)])
    t.loss(t.sum(y))
    return t.data()


ADAM = (
    "aten::_fused_adam_(Tensor(a!)[] self, Tensor(b!)[] grads, Tensor(c!)[] exp_avgs, Tensor(d!)[] exp_avg_sqs, Tensor(e!)[] max_exp_avg_sqs, "
    "Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, float eps, bool amsgrad, bool maximize, "
    "Tensor? grad_scale=None, Tensor? found_inf=None) -> ()")


def optimizer_step(schema, *lengths):
    """A fused step of three parameters, its other lists of these lengths."""
    t = Recording()
    all_of = [t.filled([3]) for _ in range(3)]
    lists = [L(*map(T, all_of[:length])) for length in (3, *lengths)]
    t.op(schema, lists + [D(0.1), D(0.9), D(0.9), D(0), D(1e-8), B(False), B(False), NONE, NONE], [])
    t.loss(t.sum(all_of[0]))
    return t.data()


@attack("schemas", "bounded", REPLAY, GRAPH)
def optimizer_with_a_step_for_no_parameter():
    return optimizer_step(ADAM, 3, 3, 3, 0, 0)


@attack("schemas", "bounded", REPLAY, GRAPH)
def optimizer_whose_schema_calls_its_steps_otherwise():
    """The lists that the schema leaves out were read all the same, one item for each parameter."""
    return optimizer_step(ADAM.replace("state_steps", "steps"), 3, 3, 3, 0, 3)


@attack("schemas", "refuse", REPLAY)
def optimizer_whose_schema_begins_with_a_number():
    """Lists are held against each other where the first argument is one."""
    t = Recording()
    x = [t.filled([3]) for _ in range(3)]
    lists = [L(*map(T, x))] * 4 + [L(), L(T(x[0]))]
    t.op(ADAM.replace("float lr, ", "").replace("_(Tensor(a!)", "_(float lr, Tensor(a!)"),
         [D(0.1), *lists, D(0.9), D(0.9), D(0), D(1e-8), B(False), B(False), NONE, NONE], [])
    t.loss(t.sum(x[0]))
    return t.data()


@attack("schemas", "bounded", REPLAY, GRAPH)
def optimizer_whose_schema_calls_its_gradients_otherwise():
    return optimizer_step(ADAM.replace("grads", "gradients"), 3, 3, 3, 0, 3)


@attack("empties", "bounded", REPLAY + " --numerics strict", KERNELS,
        "compare {f} --backends reference,cpu --numerics strict")
def gradient_of_a_convolution_without_results():
    """A padded filter that reaches beyond its picture gives no result, and its gradient reads a tensor of no
    elements."""
    t = Recording()
    g, x, w, dx = t.tensor([2, 1, 0, 8], external=b""), t.filled([2, 1, 4, 8]), t.filled([1, 1, 5,
                                                                                          1]), t.tensor([2, 1, 4, 8])
    one, none = L(I(1), I(1)), L(I(0), I(0))
    t.op(
        "aten::convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, SymInt[] padding, "
        "SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
        [T(g), T(x), T(w), NONE, one, none, one,
         B(False), none, I(1),
         L(B(True), B(False), B(False))], [T(dx), UNDEFINED, UNDEFINED], phase=BACKWARD)
    t.loss(t.sum(dx))
    return t.data()


# frames: what generated code keeps on a thread's stack.
@attack("frames", "survive", REPLAY, REPLAY + " --threads 1")
def pooling_over_a_long_row():
    """A row of 2 million elements, 8 MB: as any minute of sound has."""
    t = Recording()
    width = 2 << 20
    x = t.filled([1, 1, 1, width])
    y, places = t.tensor([1, 1, 1, width // 2]), t.tensor([1, 1, 1, width // 2], "i64")
    t.op(POOL, [T(x), L(I(1), I(2)), L(I(1), I(2)), L(I(0), I(0)), L(I(1), I(1)), B(False)], [T(y), T(places)])
    t.loss(t.sum(y))
    return t.data()


# words: names that a terminal, a page or a compiler would read as something else.
ESCAPE = "\x1b]0;owned\x07\x1b[2J\x1b[31mverified  yes\x1b[0m\r\nFORGED verified  yes"
MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'`${7*7}"
SHELL = "`touch OWNED`$(touch OWNED);touch OWNED|*/\n#include \"/etc/passwd\"\nint x;/*"


def with_words(words, known=True):
    t = Recording(command=f"python {words}", device=words, framework=words, frontend=words, incomplete_reason=words)
    site = t.site(words, 7, words)
    module = t.module(words)
    x = t.tensor([64], external=floats(*range(64)), role=PARAMETER, name=words)
    y = t.tensor([64])
    name = "aten::neg" if known else "aten::" + words.replace("(", "[").replace(".", "-")
    t.op(t.raw_schema(name, "", name + "(Tensor self) -> Tensor"), [T(x)], [T(y)], module=module, site=site)
    total = t.sum(y, module=module)
    t.loss(total, 1e9)
    t.add("not_recorded", text(words) + varint(3) + ident(site))
    t.add("outputs", varint(0) + text(words) + ident(y) + ident(t.blob(floats(*range(64)))))
    return t.data()


@attack("words", "clean", INFO, OPS, REPLAY, REPLAY + " --profile", GRAPH, GRAPH + " --phase forward", PLAN,
        PLAN + " --depth 9", KERNELS, KERNELS + " --why 0", KERNELS + " --show 0",
        "trace export {f} --format chrome -o {o}", "compare {f} --backends reference,cpu",
        "bench {f} --backends cpu --peers eager")
def names_for_a_terminal():
    return with_words(ESCAPE)


@attack("words", "clean", INFO, REPLAY, GRAPH, OPS)
def an_unknown_op_for_a_terminal():
    return with_words(ESCAPE, known=False)


@attack("words", "page", PLAN + " --html {o}", PLAN + " --svg {o}", GRAPH + " --format svg -o {o}")
def names_for_a_page():
    return with_words(MARKUP)


@attack("words", "inert", REPLAY, PLAN + " --html {o}", GRAPH, "trace optimize {f} -o {o}")
def names_for_a_shell_and_a_compiler():
    return with_words(SHELL)


# capsules: a program that no lowering has looked at.
def capsule(make):
    program = Program()
    make(program)
    return program.capsule()


@attack("capsules", "survive", REPLAY, REPLAY + " --backend reference", "compare {f} --backends reference,cpu")
def capsule_with_ids_far():
    def make(p):
        table, ids = p.input("f32", 8, floats(*range(8))), p.input("i64", 2, longs(1 << 40, -5))
        found, = p.op("gather_rows", [p.tensor(table, [4, 2]), p.tensor(ids, [2])], [("f32", 4, [2, 2])])
        p.output(found, [2, 2], floats(0, 0, 0, 0))
    return capsule(make)


@attack("capsules", "bounded", REPLAY, KERNELS)
def capsule_of_a_sort_of_2_to_the_40():
    def make(p):
        x = p.input("f32", 1, floats(1))
        made = p.op("sort_ascending", [p.tensor(x, [1 << 40], [0])], [("f32", 1 << 40, [1 << 40]),
                                                                      ("i64", 1 << 40, [1 << 40])], dims=[0])
        total, = p.op("reduce_sum", [p.tensor(made[0], [1 << 40])], [("f32", 1, [1], [0])], dims=[0])
        p.output(total, [1], floats(0))
    return capsule(make)


# blobs: bytes that lie elsewhere.
@attack("blobs", "refuse", REPLAY, "trace check {f}", "trace optimize {f} --embed -o {o}")
def blob_folder_of_the_system():
    t = Recording(blob_folder="/proc/self")
    storage = t.storage(16)
    blob = t.blob(b"", stored=b"", size=16, digest=bytes.fromhex("fd" * 32), codec=3)
    t.external(storage, blob)
    t.loss(t.sum(t.view(storage, [4])))
    return t.data()


# opaque: ops that the plugin `torch` runs by the name that the file gives them.
FROM_FILE = (
    "aten::from_file(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor")
TORCH = "replay {f} --fallback warn --set plugins.folders={torch}"


def from_file(name, shared, size):
    t = Recording()
    made = t.tensor([size], "u8")
    t.op(FROM_FILE, [S(name), B(shared), I(size), DT("u8"), NONE, DEVICE(), NONE], [T(made)])
    t.loss(t.sum(made))
    return t.data()


@attack("opaque", "inert", TORCH)
def op_that_makes_a_file():
    return from_file("OWNED", True, 4096)


@attack("opaque", "refuse", TORCH)
def op_that_reads_a_file():
    return from_file("/etc/passwd", False, 16)


@attack("opaque", "refuse", TORCH)
def list_where_an_op_takes_a_number():
    t = Recording()
    x, y = t.tensor([2, 2], external=floats(1, 2, 3, 4)), t.tensor([2, 2])
    t.op("aten::tril(Tensor self, int diagonal=0) -> Tensor", [T(x), L(L(I(1)), NONE)], [T(y)])
    t.loss(t.sum(y))
    return t.data()


# folders: what is found in the working folder, which somebody else has made (a repository, an archive).
TOLD = ("project_inline", "project_dotted", "project_quoted", "project_dots_in_quotes", "project_escaped",
        "project_link")
FOLDERS = [(name, "projects", "told" if name in TOLD else "inert", command) for name, commands in {
    "project_compiler": ("replay {good} --verify", "kernels {good}",
                         "bench {good} --backends cpu --rounds 1"), "project_plugin": ("replay {good} --verify",
                                                                                       "config --explain", "devices",
                                                                                       "plugin list", "doctor",
                                                                                       "health"),
    "project_driver": ("replay {good} --fallback warn", "devices",
                       "health"), "project_decisions": ("replay {good}", "devices",
                                                        "config"), "project_trace": ("replay {good}", "devices"),
    "lock_link": ("record -- true", "record -o trace.crtrace -- true"), "project_inline": ("replay {good} --verify",),
    "project_dotted": ("replay {good} --verify",), "project_quoted": ("replay {good} --verify",),
    "project_dots_in_quotes": ("replay {good} --verify",), "project_escaped": ("replay {good} --verify",),
    "project_link": ("replay {good} --verify",), "project_above": ("cd=a/b replay {good} --verify", "cd=a config"),
    "project_own_plugin": ("replay {good}", "config --explain", "config --probe",
                           "config trust", "config trust --json", "devices", "plugin list", "plugin list --no-probe",
                           "plugin explain acme",
                           "doctor"), "project_libraries": ("replay {good}", "devices", "health",
                                                            "doctor"), "project_python": ("doctor",),
    "outputs_are_links": ("plan {good} --svg plan.svg", "plan {good} --html plan.html",
                          "replay {good} --receipt receipt.json",
                          "bench {good} --backends cpu --rounds 1 --csv bench.csv --html bench.html",
                          "replay {good} --profile-trace profile.json", "plugin list --decisions decisions.jsonl",
                          "health -o health.json", "graph {good} -o graph.txt", "trace recover trace.crtrace"),
}.items() for command in commands]
FOLDERS += [("project_deep_keys", "projects", "bounded", command) for command in ("replay {good}", "config", "devices")]


def write_all(folder, attacks=ATTACKS, folders=FOLDERS):
    rows = ["\t".join(row) for row in folders]
    for name, kind, demand, commands, make in attacks:
        data = make()
        name += ".capsule" if kind == "capsules" else ".crtrace"
        (folder / name).write_bytes(data)
        print(f"{len(data):7} {name}")
        rows += [f"{name}\t{kind}\t{demand}\t{command}" for command in commands]
    return rows


if __name__ == "__main__":
    here = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    (here / "attacks.tsv").write_text("\n".join(write_all(here)) + "\n")
