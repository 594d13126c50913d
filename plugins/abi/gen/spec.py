"""Reads abi.toml into objects, and refuses what it does not understand.

Source of every generated file. Knows the notation, not what is made of it.
"""

import dataclasses
import re
import tomllib

NUMBERS = {
    "u8": "uint8_t", "u32": "uint32_t", "i32": "int32_t", "u64": "uint64_t", "i64": "int64_t", "double": "double",
    "char": "char", "void": "void", "crucible_code": "crucible_code"
}
SIZES = {"u8": 1, "char": 1, "u32": 4, "i32": 4, "crucible_code": 4, "u64": 8, "i64": 8, "double": 8}


class SpecError(Exception):
    pass


@dataclasses.dataclass
class Argument:
    """One argument or field. `type` is the spec's word; `stars` how many addresses; `array` a length or the name of
    one."""
    type: str
    name: str
    stars: int = 0
    const: bool = False
    out: bool = False
    array: str = ""
    optional: bool = False
    power_of_two: bool = False
    since: int = 1
    kind: str = ""  # number, struct, handle, callback, table, set by Spec


@dataclasses.dataclass
class Entry:
    name: str
    arguments: list
    ret: str
    tags: list
    since: int
    doc: str
    destroys: str


@dataclasses.dataclass
class Table:
    name: str
    kind: str  # object, host, interface, plugin
    doc: str
    entries: list
    id: int
    mandatory: bool
    since: int
    object: str

    @property
    def c_name(self):
        return f"crucible_if_{self.name}" if self.kind == "interface" else f"crucible_{self.name}"


@dataclasses.dataclass
class Struct:
    name: str
    doc: str
    sized: bool
    since: int
    fields: list


PATTERN = re.compile(
    r"^(?:@(?P<since>\d+) )?(?P<mode>in |out )?(?P<const>const )?(?P<type>\w+)(?P<stars>\**) (?P<name>\w+)"
    r"(?:\[(?P<array>\w+)\])?(?P<marks>[?^]*)$")
ALLOWED = {
    "constants": {"prefix", "type", "doc", "values"},
    "structs": {"name", "doc", "sized", "since", "fields"},
    "callbacks": {"name", "doc", "args"},
    "tables": {"name", "kind", "id", "mandatory", "since", "object", "doc", "entries"},
    "entries": {"name", "ret", "args", "tags", "since", "doc", "destroys"},
}
TAGS = {"any", "obj", "cb", "nb"}


def parse_argument(text):
    match = PATTERN.match(text)
    if match is None:
        raise SpecError(f"'{text}' is not TYPE NAME")
    mode = (match["mode"] or "").strip()
    return Argument(type=match["type"], name=match["name"], stars=len(match["stars"]), const=bool(match["const"])
                    or mode == "in", out=mode == "out", array=match["array"] or "", optional="?" in match["marks"],
                    power_of_two="^" in match["marks"], since=int(match["since"] or 1))


class Spec:
    """major, minor, magic, constants, handles, structs, callbacks, tables (in the order of the file), reserved,
    query."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = tomllib.load(file)
        known = {"abi", "constants", "handles", "structs", "callbacks", "tables", "reserved", "query"}
        if set(data) - known:
            raise SpecError(f"unknown sections: {sorted(set(data) - known)}")
        for section in ("constants", "structs", "callbacks", "tables"):
            for item in data[section]:
                if set(item) - ALLOWED[section]:
                    raise SpecError(
                        f"{section} {item.get('name')}: unknown keys {sorted(set(item) - ALLOWED[section])}")
        self.major, self.minor, self.oldest, self.magic = (data["abi"][key]
                                                           for key in ("major", "minor", "oldest", "magic"))
        self.constants = data["constants"]
        self.handles = data["handles"]
        self.reserved = data["reserved"]
        self.callbacks = [
            (item["name"], [parse_argument(text) for text in item["args"]], item["doc"]) for item in data["callbacks"]
        ]
        self.structs = [Struct(item["name"], item["doc"], item.get("sized", False), item.get("since", 1),
                               [parse_argument(text) for text in item["fields"]]) for item in data["structs"]]
        self.query = {side: [parse_argument(text) for text in data["query"][side]] for side in ("in", "out")}
        self.tables = [self._table(item) for item in data["tables"]]
        self._check()

    def _table(self, item):
        entries = []
        for entry in item["entries"]:
            if set(entry) - ALLOWED["entries"]:
                raise SpecError(
                    f"{item['name']}.{entry.get('name')}: unknown keys {sorted(set(entry) - ALLOWED['entries'])}")
            tags = entry["tags"].split()
            if set(tags) - TAGS:
                raise SpecError(f"{item['name']}.{entry['name']}: unknown tags {sorted(set(tags) - TAGS)}")
            entries.append(
                Entry(entry["name"], [parse_argument(text) for text in entry["args"]], entry.get("ret", "status"), tags,
                      max(entry.get("since", 1), item.get("since", 1)), entry.get("doc", ""), entry.get("destroys",
                                                                                                        "")))
        return Table(item["name"], item["kind"], item["doc"], entries, item.get("id", 0), item.get("mandatory", False),
                     item.get("since", 1), item.get("object", ""))

    def interfaces(self):
        return [table for table in self.tables if table.kind == "interface"]

    def _check(self):
        kinds = dict.fromkeys(NUMBERS, "number") | dict.fromkeys(self.handles, "handle")
        kinds |= {struct.name: "struct" for struct in self.structs
                 } | {name: "callback" for name, _, _ in self.callbacks}
        kinds |= {table.name: "table" for table in self.tables if table.kind in ("host", "plugin")
                 } | {"error": "handle"}
        kinds |= {table.object: "handle" for table in self.tables if table.object}
        groups = [(struct.name, struct.fields) for struct in self.structs
                 ] + [(name, args) for name, args, _ in self.callbacks]
        groups += [(f"query.{side}", fields) for side, fields in self.query.items()]
        groups += [(f"{table.name}.{entry.name}", entry.arguments) for table in self.tables for entry in table.entries]
        for where, arguments in groups:
            names = [argument.name for argument in arguments]
            if len(set(names)) != len(names):
                raise SpecError(f"{where}: a name stands twice")
            for argument in arguments:
                if argument.type not in kinds:
                    raise SpecError(f"{where}: unknown type '{argument.type}'")
                argument.kind = kinds[argument.type]
                if not (1 <= argument.since <= self.minor):
                    raise SpecError(f"{where}.{argument.name}: since {argument.since} of {self.minor}")
            minors = [argument.since for argument in arguments]
            if minors != sorted(minors):
                raise SpecError(f"{where}: fields are appended, so 'since' may not go back")
        for table in self.tables:
            minors = [entry.since for entry in table.entries]
            if minors != sorted(minors):
                raise SpecError(f"{table.name}: entries are appended, so 'since' may not go back")
