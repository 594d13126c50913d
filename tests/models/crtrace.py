"""An independent reader of .crtrace files: written from docs/crtrace.md alone, for tests only.

`read(path)` decodes the whole file, checks every checksum and range on the way and returns a Trace of plain Python
values.
It shares no line with core/trace, so that a fault in the page or in the writer shows as a difference.
"""

import dataclasses
import hashlib
import struct

from codecs_of_c import unzstd, xxh3

SECTIONS = {
    1: "metadata", 2: "schemas", 3: "sites", 4: "modules", 5: "storages", 6: "tensors", 7: "ops", 8: "iterations",
    9: "externals", 10: "draws", 11: "final_states", 12: "not_recorded", 13: "blob_index", 14: "blobs"
}
LATER_SECTIONS = {15: "generators", 16: "outputs", 17: "compounds", 18: "op_hashes"}
DTYPES = {0: "bool", 1: "u8", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 6: "f16", 7: "bf16", 8: "f32", 9: "f64", 10: "c64",
          11: "c128", 255: "other"}
DTYPE_BYTES = {
    "bool": 1, "u8": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "c64": 8,
    "c128": 16, "other": 0
}
ROLES = ("unknown", "parameter", "buffer", "optimizer state", "input")
PHASES = ("forward", "backward", "optimizer")
KINDS = ("none", "bool", "int", "double", "complex", "string", "dtype", "device", "layout", "memory_format",
         "generator", "tensor", "undefined", "list", "opaque")
DEEPEST_LIST = 16
NO_ID = None


class BadFile(Exception):
    """The file breaks a rule of the page; the message says which."""


@dataclasses.dataclass(frozen=True)
class Arg:
    """One argument or result. `value`: a number, a text, a tensor's id, a tuple of Args, or None."""
    kind: str
    value: object = None


@dataclasses.dataclass(frozen=True)
class Tensor:
    storage: object  # id or None
    dtype: str
    requires_grad: bool
    is_wrapped_number: bool
    offset: int
    sizes: tuple
    strides: tuple


@dataclasses.dataclass
class Op:
    schema: int
    site: object
    module: object
    phase: str
    thread: int
    args: list
    outputs: list


@dataclasses.dataclass
class Trace:
    version: tuple
    metadata: dict
    tables: dict  # section name -> list of records, each a tuple in the order of the page, but Tensor and Op
    blobs: list   # (sha256 in hexadecimal, size in bytes)
    _load: object

    def __getattr__(self, name):
        try:
            return self.__dict__["tables"][name]
        except KeyError:
            raise AttributeError(name) from None

    def blob(self, number):
        """The uncompressed bytes, compared with their SHA-256."""
        data = self._load(number)
        if hashlib.sha256(data).hexdigest() != self.blobs[number][0]:
            raise BadFile(f"blob {number} is not what its SHA-256 says")
        return data

    def op_name(self, op):
        name, overload, _ = self.schemas[op.schema]
        return f"{name}.{overload}" if overload else name

    def site_text(self, site):
        return "?" if site is None else f"{self.sites[site][0]}:{self.sites[site][1]}"


class Reader:
    """Bytes of one section, from the front."""

    def __init__(self, data, where):
        self.data, self.at, self.where = data, 0, where

    def fail(self, reason):
        raise BadFile(f"section '{self.where}', byte {self.at}: {reason}")

    def take(self, count):
        if count > len(self.data) - self.at:
            self.fail(f"{count} bytes are wanted and {len(self.data) - self.at} are left")
        piece = self.data[self.at:self.at + count]
        self.at += count
        return piece

    def u8(self):
        return self.take(1)[0]

    def varint(self):
        value = 0
        for index in range(10):
            byte = self.u8()
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if value >= 1 << 64:
                    self.fail("a number above 64 bits")
                return value
        self.fail("a number of more than ten bytes")

    def zigzag(self):
        coded = self.varint()
        return coded // 2 if coded % 2 == 0 else -(coded // 2) - 1

    def id(self):
        coded = self.varint()
        return NO_ID if coded == 0 else coded - 1

    def f64(self):
        return struct.unpack("<d", self.take(8))[0]

    def text(self):
        return self.take(self.varint()).decode("utf-8", "surrogateescape")

    def list(self, record):
        count = self.varint()
        if count > len(self.data) - self.at:
            self.fail(f"{count} records cannot be in the {len(self.data) - self.at} bytes that are left")
        return [record() for _ in range(count)]

    def enumerator(self, names, number):
        try:
            return names[number]
        except (KeyError, IndexError):
            self.fail(f"unknown enumerator {number}")

    def arg(self, depth=0):
        kind = self.enumerator(KINDS, self.u8())
        if kind in ("none", "undefined"):
            return Arg(kind)
        if kind == "bool":
            return Arg(kind, self.zigzag() != 0)
        if kind in ("int", "layout", "memory_format"):
            return Arg(kind, self.zigzag())
        if kind == "dtype":
            return Arg(kind, self.enumerator(DTYPES, self.zigzag()))
        if kind == "double":
            return Arg(kind, self.f64())
        if kind == "complex":
            return Arg(kind, complex(self.f64(), self.f64()))
        if kind in ("string", "device", "generator", "opaque"):
            return Arg(kind, self.text())
        if kind == "tensor":
            return Arg(kind, self.id())
        if depth >= DEEPEST_LIST:
            self.fail(f"lists nested deeper than {DEEPEST_LIST}")
        return Arg(kind, tuple(self.list(lambda: self.arg(depth + 1))))


def _tensor(r):
    storage, dtype, flags = r.id(), r.enumerator(DTYPES, r.u8()), r.u8()
    offset, rank = r.zigzag(), r.varint()
    if rank > len(r.data) - r.at:
        r.fail(f"rank {rank}")
    sizes = tuple(r.zigzag() for _ in range(rank))
    strides = tuple(r.zigzag() for _ in range(rank))
    return Tensor(storage, dtype, bool(flags & 1), bool(flags & 2), offset, sizes, strides)


def _op(r):
    return Op(r.id(), r.id(), r.id(), r.enumerator(PHASES, r.u8()), r.varint(), r.list(r.arg), r.list(r.arg))


RECORDS = {
    "metadata": lambda r: (r.text(), r.text()),
    "schemas": lambda r: (r.text(), r.text(), r.text()),
    "sites": lambda r: (r.text(), r.varint(), r.text()),
    "modules": lambda r: r.text(),
    "storages": lambda r: (r.varint(), r.text()),
    "tensors": _tensor,
    "ops": _op,
    "iterations": lambda r: (r.varint(), r.varint(), r.u8() != 0, r.list(lambda: (r.id(), r.f64()))),
    "externals": lambda r: (r.id(), r.varint(), r.varint(), r.enumerator(ROLES, r.u8()), r.text(), r.id()),
    "draws": lambda r: (r.varint(), r.varint(), r.id()),
    "final_states": lambda r: (r.id(), r.enumerator(ROLES, r.u8()), r.text(), r.id()),
    "not_recorded": lambda r: (r.text(), r.varint(), r.id()),
    "blob_index": lambda r: (r.take(32), r.varint(), r.varint(), r.varint(), r.u8(), struct.unpack("<Q", r.take(8))[0]),
    "generators": lambda r: (r.varint(), r.text(), r.id()),
    "outputs": lambda r: (r.varint(), r.text(), r.id(), r.id()),
    "compounds": lambda r: (r.id(), r.text(), r.list(lambda: (r.text(), r.arg()))),
    "op_hashes": lambda r: r.list(lambda: struct.unpack("<Q", r.take(8))[0]),
}


def _checked(data, checksum, what):
    if xxh3(data) != checksum:
        raise BadFile(f"{what}: the checksum does not match")
    return data


def _unpacked(data, codec, size, what):
    if codec == 0:
        plain = data
    elif codec == 1:
        plain = unzstd(data, size)
    else:
        raise BadFile(f"{what}: unknown codec {codec}")
    if plain is None or len(plain) != size:
        raise BadFile(f"{what}: it does not unpack to {size} bytes")
    return plain


def _header(data):
    if len(data) < 64 or data[:8] != b"CRTRACE\0":
        raise BadFile("not a .crtrace file")
    major, minor, order, sections, header_bytes, file_bytes, table_checksum = struct.unpack_from("<HHIIIQQ", data, 8)
    if major != 1:
        raise BadFile(f"major version {major}")
    _checked(data[:56], struct.unpack_from("<Q", data, 56)[0], "header")
    if order != 0x01020304 or header_bytes != 64 or file_bytes != len(data) or sections > 1024 or data[40:56] != bytes(
            16):
        raise BadFile("the header contradicts itself or the file")
    return (major, minor), _checked(data[64:64 + 48 * sections], table_checksum, "section table")


def read(path):
    """Decodes the file at `path`. Raises BadFile, OSError."""
    with open(path, "rb") as file:
        data = file.read()
    version, section_table = _header(data)
    tables, area, ranges = {}, None, [(0, 64 + len(section_table))]
    for at in range(0, len(section_table), 48):
        number, codec, offset, stored, size, checksum, zero = struct.unpack_from("<IIQQQQQ", section_table, at)
        name = SECTIONS.get(number) or LATER_SECTIONS.get(number)
        ranges.append((offset, offset + stored))
        if offset % 64 or offset + stored > len(data) or zero:
            raise BadFile(f"section {number}: its place in the file is wrong")
        if name is None:
            continue
        if name in tables or (name == "blobs" and area is not None):
            raise BadFile(f"section '{name}' is there twice")
        piece = data[offset:offset + stored]
        if name == "blobs":
            area = piece
            if codec != 2 or checksum != 0:
                raise BadFile("section 'blobs': codec or checksum")
            continue
        reader = Reader(_unpacked(_checked(piece, checksum, name), codec, size, name), name)
        tables[name] = reader.list(lambda record=RECORDS[name], reader=reader: record(reader))
        if reader.at != len(reader.data):
            reader.fail("bytes after the last record")
    missing = [name for name in SECTIONS.values() if name not in tables and name != "blobs"]
    if missing or area is None:
        raise BadFile(f"sections are missing: {missing or 'blobs'}")
    _check_gaps(data, ranges)
    for name in LATER_SECTIONS.values():
        tables.setdefault(name, [])
    index = tables.pop("blob_index")

    def load(number):
        _, size, offset, stored, codec, checksum = index[number]
        return _unpacked(_checked(area[offset:offset + stored], checksum, f"blob {number}"), codec, size,
                         f"blob {number}")

    blobs = [(record[0].hex(), record[1]) for record in index]
    trace = Trace(version, dict(tables.pop("metadata")), tables, blobs, load)
    _check_ids(trace)
    return trace


def _check_gaps(data, ranges):
    """Sections do not overlap, and what lies between them is zero."""
    end = 0
    for start, stop in sorted(ranges):
        if start < end:
            raise BadFile(f"sections overlap at byte {start}")
        if data[end:start].strip(b"\0"):
            raise BadFile(f"bytes {end} to {start} are not zero")
        end = stop
    if end != len(data):
        raise BadFile("the file is longer than its sections")


def _check_ids(trace):
    """Ids count the records of their table."""
    def check(table, number, optional=True):
        if (number is None and not optional) or (number is not None and number >= len(table)):
            raise BadFile(f"id {number} outside a table of {len(table)}")

    def check_args(args):
        for arg in args:
            if arg.kind == "tensor":
                check(trace.tensors, arg.value, False)
            elif arg.kind == "list":
                check_args(arg.value)

    for tensor in trace.tensors:
        check(trace.storages, tensor.storage)
    for op in trace.ops:
        check(trace.schemas, op.schema, False)
        check(trace.sites, op.site)
        check(trace.modules, op.module)
        check_args(op.args + op.outputs)
    end = 0
    for first, count, _, losses in trace.iterations:
        if first < end or first + count > len(trace.ops):
            raise BadFile("iterations overlap, or have ops that do not exist")
        end = first + count
        for tensor, _ in losses:
            check(trace.tensors, tensor, False)
    for storage, iteration, op, _, _, blob in trace.externals:
        check(trace.storages, storage, False)
        check(trace.iterations, iteration, False)
        check(trace.ops, op, False)
        check(trace.blobs, blob, False)
    for op, _, blob in trace.draws:
        check(trace.ops, op, False)
        check(trace.blobs, blob, False)
    if trace.op_hashes and len(trace.op_hashes) != len(trace.ops):
        raise BadFile(f"{len(trace.op_hashes)} records of hashes for {len(trace.ops)} ops")
