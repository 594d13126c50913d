"""Executes a recorded iteration again, op by op, from the file alone: python reexecute.py FILE... [--iteration N]
[--json]

Each op is called through torch.ops with the arguments of the file; tensors are views of storages that are rebuilt from
the external bytes where they enter and from what the ops before returned. After every op its results are compared with
the file: element type, sizes, strides, offset, which storage they share, numbers that left, and the hashes of their
content (`crucible record --snapshot ops`). What is equal to the last op had every argument that it needed.
"""

import argparse
import json
import sys

import torch

import crtrace
from codecs_of_c import xxh3, xxh3_at

DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
    "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "c64": torch.complex64,
    "c128": torch.complex128
}
LAYOUTS = {0: torch.strided, 1: torch.sparse_coo, 2: torch.sparse_csr}
MEMORY_FORMATS = {
    0: torch.contiguous_format, 1: torch.preserve_format, 2: torch.channels_last, 3: torch.channels_last_3d
}


class Differs(Exception):
    """The first op that cannot be executed from the file, or whose result is another one."""


def content_hash(tensor):
    """XXH3-64 of the elements, dense and row-major."""
    if tensor.numel() == 0:
        return xxh3(b"")
    plain = tensor.detach().contiguous()
    return xxh3_at(plain.data_ptr(), plain.numel() * plain.element_size())


def tensors_of(args):
    """The tensors and undefined tensors among arguments or results, lists flattened."""
    for arg in args:
        if arg.kind in ("tensor", "undefined"):
            yield arg
        elif arg.kind == "list":
            yield from tensors_of(arg.value)


class Iteration:
    """One iteration of a trace being executed."""

    def __init__(self, trace, number):
        self.trace = trace
        first, count, complete, self.losses = trace.iterations[number]
        if not complete:
            raise Differs(f"iteration {number} is not complete")
        self.ops = range(first, first + count)
        self.storages = {}  # id in the file -> UntypedStorage
        self.owners = {}    # address of a StorageImpl -> id in the file
        self.externals, self.draws = {}, {}
        for storage, iteration, op, _, _, blob in trace.externals:
            if iteration == number:
                self.externals.setdefault(op, []).append((storage, blob))
            elif iteration < number:
                raise Differs("only the first iteration has all of its bytes in the file")
        for op, output, blob in trace.draws:
            self.draws.setdefault(op, []).append((output, blob))
        self.last_use = {}
        for index in self.ops:
            op = trace.ops[index]
            for arg in tensors_of(op.args + op.outputs):
                if arg.kind == "tensor":
                    self.last_use[trace.tensors[arg.value].storage] = index
        self.ends = {}
        for storage, index in self.last_use.items():
            self.ends.setdefault(index, []).append(storage)
        self.unfilled = set()  # storages of `empty` that nothing has touched yet
        self.hashed = 0    # results compared by content
        self.unhashed = 0  # results with a hash of 0: nothing to compare
        self.unmarked = 0  # wrapped numbers that were passed as plain tensors
        self.values_left = sum(any(arg.kind in ("bool", "int", "double", "complex") for arg in trace.ops[index].outputs)
                               for index in self.ops)

    # From the file to arguments

    def storage(self, number, index):
        if number not in self.storages:
            raise Differs(f"storage {number} is read and nothing has filled it")
        return self.storages[number]

    def view(self, number, index):
        known = self.trace.tensors[number]
        if known.storage is None:
            raise Differs(f"tensor {number} has no storage in the file")
        if known.dtype not in DTYPES:
            raise Differs(f"tensor {number} is of a type that the file does not name")
        tensor = torch.empty(0, dtype=DTYPES[known.dtype])
        return tensor.set_(self.storage(known.storage, index), known.offset, known.sizes, known.strides)

    def tensor(self, number, index, accepts_numbers):
        known = self.trace.tensors[number]
        tensor = self.view(number, index)
        if known.is_wrapped_number and accepts_numbers:
            return tensor.item()  # torch makes a wrapped number of it again
        if known.requires_grad:
            tensor.requires_grad_(True)
        return tensor

    def argument(self, arg, type_text, index, accepts_numbers):
        kind, value = arg.kind, arg.value
        if kind in ("none", "undefined"):
            return None
        if kind in ("bool", "int", "double", "complex", "string"):
            return value
        if kind == "tensor":
            tensor = self.tensor(value, index, accepts_numbers)
            return tensor.untyped_storage() if type_text == "Storage" else tensor
        if kind == "list":
            return [self.argument(element, type_text, index, accepts_numbers) for element in value]
        if kind == "dtype" and value in DTYPES:
            return DTYPES[value]
        if kind == "device":
            return torch.device(value)
        if kind == "layout" and value in LAYOUTS:
            return LAYOUTS[value]
        if kind == "memory_format":
            return MEMORY_FORMATS[value]
        if kind == "generator" and value == "default cpu":
            return torch.default_generator
        raise Differs(f"an argument cannot be made from the file: {kind} {value}")

    # Execution

    def run(self):
        # Below autograd, as the ops were recorded: the derivative formulas are in the file as ops of their own. Few
        # kernels ask for the gradient mode themselves (a recurrent layer keeps a workspace): it was on where training
        # went forward.
        trains = any(self.trace.ops[index].phase == "backward" for index in self.ops)
        with torch._C._AutoDispatchBelowAutograd():
            for index in self.ops:
                op = self.trace.ops[index]
                try:
                    with torch.set_grad_enabled(trains and op.phase == "forward"):
                        self.step(index, op)
                except Differs as problem:
                    raise Differs(
                        f"op {index} {self.trace.op_name(op)} at {self.trace.site_text(op.site)}: {problem}") from None
        return self

    def enter(self, index):
        for number, blob in self.externals.get(index, ()):
            content = self.trace.blob(blob)
            size = self.trace.storages[number][0]
            if len(content) not in (0, size):
                raise Differs(f"storage {number} has {size} bytes and {len(content)} enter")
            storage = self.storages.get(number)
            if storage is None:
                storage = torch.UntypedStorage(size)
                self.bind(number, storage)
            if content:
                target = torch.empty(0, dtype=torch.uint8).set_(storage)
                target.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
                self.unfilled.discard(number)

    def bind(self, number, storage):
        owner = self.owners.get(storage._cdata)
        if owner is not None and owner != number:
            raise Differs(f"a result is in storage {owner}, the file says {number}")
        self.storages[number] = storage
        self.owners[storage._cdata] = number

    def operator(self, op):
        name, overload, text = self.trace.schemas[op.schema]
        namespace, _, short = name.partition("::")
        try:
            found = getattr(getattr(getattr(torch.ops, namespace), short), overload or "default")
        except AttributeError:
            raise Differs("torch has no such operator") from None
        if str(found._schema) != text:
            raise Differs(f"torch's schema is {found._schema}, the file's is {text}")
        return found

    def step(self, index, op):
        self.enter(index)
        name = self.trace.op_name(op)
        if name.startswith("python::"):
            # What memory of `empty` holds before anything is in it is another thing in each run.
            if self.unfilled.isdisjoint(self.storages_of(op.args)):
                self.compare_left(index, op)
        else:
            self.execute(index, op)
            if name.startswith("aten::empty"):
                self.unfilled.update(self.storages_of(op.outputs))
            else:
                self.unfilled.difference_update(self.storages_of([*op.args, *op.outputs]))
        for number in self.ends.get(index, ()):
            if number in self.storages:
                self.owners.pop(self.storages.pop(number)._cdata)

    def storages_of(self, values):
        """Of the tensors among arguments or results, in lists too."""
        for value in values:
            if value.kind == "tensor":
                yield self.trace.tensors[value.value].storage
            elif isinstance(value.value, list):
                yield from self.storages_of(value.value)

    def compare_left(self, index, op):
        """What left by a way that is no operator: the elements, where they are in the file."""
        wanted = [value.value for value in op.outputs[0].value]
        if not wanted or op.args[0].kind != "tensor":
            return
        found = self.view(op.args[0].value, index).reshape(-1).tolist()
        if repr([type(value)(element) for value, element in zip(wanted, found)
                ]) != repr(wanted) or len(found) != len(wanted):
            raise Differs(f"{found} leaves, the file has {wanted}")

    def execute(self, index, op):
        operator = self.operator(op)
        declared = operator._schema.arguments
        if len(declared) != len(op.args):
            raise Differs(f"{len(op.args)} arguments, the schema has {len(declared)}")
        # Binary operators make a wrapped number of a Python number; for the others a 0-dim tensor is as near as one
        # comes.
        results, passed = self.call(operator, declared, op, index, accepts_numbers=True)
        returns = operator._schema.returns
        if not returns:
            results = []
        elif len(returns) == 1:
            results = [results]
        if len(results) != len(op.outputs):
            raise Differs(f"{len(results)} results, the file has {len(op.outputs)}")
        for result, recorded in zip(results, op.outputs):
            self.compare(result, recorded)
        for output, blob in self.draws.get(index, ()):
            self.put_draw(results[output], self.trace.blob(blob))
        self.compare_content(index, op, declared, passed)

    def call(self, operator, declared, op, index, accepts_numbers):
        """The op's results, and the arguments as they were passed."""
        passed = [self.argument(arg, str(known.type), index, accepts_numbers) for known, arg in zip(declared, op.args)]
        positional = [value for known, value in zip(declared, passed) if not known.kwarg_only]
        named = {known.name: value for known, value in zip(declared, passed) if known.kwarg_only}
        try:
            return operator(*positional, **named), passed
        except Exception as error:  # any op may refuse: that is a difference, too
            numbers = any(
                arg.kind == "tensor" and self.trace.tensors[arg.value].is_wrapped_number for arg in tensors_of(op.args))
            if accepts_numbers and numbers:
                self.unmarked += 1
                return self.call(operator, declared, op, index, accepts_numbers=False)
            raise Differs(f"it refuses the arguments of the file: {str(error).splitlines()[0]}") from None

    def put_draw(self, tensor, content):
        if tensor.numel() == 0:
            return
        drawn = torch.frombuffer(bytearray(content), dtype=tensor.dtype).view(tensor.shape)
        torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape,
                                                tensor.stride()).copy_(drawn)

    # Results

    def compare(self, result, recorded):
        if recorded.kind == "list":
            if not isinstance(result, (list, tuple)) or len(result) != len(recorded.value):
                raise Differs("a list of results has another length")
            for element, known in zip(result, recorded.value):
                self.compare(element, known)
        elif recorded.kind == "tensor":
            self.compare_tensor(result, self.trace.tensors[recorded.value])
        elif recorded.kind in ("undefined", "none"):
            if result is not None and not (isinstance(result, torch.Tensor) and result.numel() == 0):
                raise Differs(f"a result is {type(result).__name__}, the file has none")
        elif type(result) is not type(recorded.value) or repr(result) != repr(recorded.value):
            raise Differs(f"the result is {result!r}, the file has {recorded.value!r}")

    def compare_tensor(self, result, known):
        if known.storage is None:
            raise Differs("a result has no storage in the file")
        if not isinstance(result, torch.Tensor):
            raise Differs(f"a result is {type(result).__name__} and no tensor")
        seen = (result.dtype, tuple(result.shape), tuple(result.stride()), result.storage_offset())
        wanted = (DTYPES.get(known.dtype), known.sizes, known.strides, known.offset)
        if seen != wanted:
            raise Differs(f"a result is {seen}, the file has {wanted}")
        storage = result.untyped_storage()
        if known.storage in self.storages:
            if self.storages[known.storage]._cdata != storage._cdata:
                raise Differs(f"a result is not in storage {known.storage}, where the file has it")
        else:
            self.bind(known.storage, storage)

    def compare_content(self, index, op, declared, passed):
        if not self.trace.op_hashes:
            return
        wanted = self.trace.op_hashes[index]
        # Results as the file has them; what was written as it is now: the op may have changed its sizes or strides.
        holders = [
            (arg, self.view(arg.value, index) if arg.kind == "tensor" else None) for arg in tensors_of(op.outputs)
        ]
        for known, arg, value in zip(declared, op.args, passed):
            if known.alias_info is not None and known.alias_info.is_write:
                values = value if isinstance(value, list) else [value]
                holders += list(
                    zip(tensors_of([arg]), [each for each in values if each is not None or arg.kind == "undefined"]))
        if len(wanted) != len(holders):
            raise Differs(f"{len(wanted)} hashes in the file for {len(holders)} tensors")
        for place, ((_, tensor), expected) in enumerate(zip(holders, wanted)):
            if expected == 0:
                self.unhashed += 1
            else:
                self.hashed += 1
                if content_hash(tensor) != expected:
                    raise Differs(
                        f"the content of tensor {place} among its results and written arguments is another one")


def reexecute(path, iteration=0):
    """Executes one iteration of a file. Returns a dict: equal, ops, hashed, unhashed, difference."""
    trace = crtrace.read(path)
    run = None
    try:
        run = Iteration(trace, iteration)
        run.run()
        difference = "" if trace.op_hashes else "the file has no hashes: record it with --snapshot ops"
    except Differs as problem:
        difference = str(problem)
    return {"equal": difference == "", "ops": len(run.ops) if run else 0, "hashed": run.hashed if run else 0,
            "unhashed": run.unhashed if run else 0, "unmarked": run.unmarked if run else 0,
            "values_left": run.values_left if run else 0, "difference": difference}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--iteration", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="as many as the recording had (default 1)")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    found = {path: reexecute(path, arguments.iteration) for path in arguments.files}
    if arguments.json:
        print(json.dumps(found, indent=2))
    else:
        for path, result in found.items():
            print(
                f"{path}: {result['difference'] or 'equal'} ({result['ops']} ops, {result['hashed']} results compared, "
                f"{result['unhashed']} without content)")
    return 0 if all(result["equal"] for result in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
