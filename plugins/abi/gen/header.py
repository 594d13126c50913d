"""crucible_plugin.h: the C header, and the C spelling of every type."""

from spec import NUMBERS

PREAMBLE = """/* The boundary between Crucible and a backend plugin: a C ABI, version {major}.{minor}. It is not frozen before 1.0.
 * Generated from abi.toml by gen/generate.py: change that. The reference with every rule is docs/abi-reference.md.
 *
 * A plugin is one shared object with one exported function, crucible_plugin_query. The host and the plugin exchange
 * tables of functions; neither links the other. This header compiles as C11 and as C++.
 *
 * Rules: fixed-width integers only; every struct that may grow begins with struct_size and grows at its end only; a NULL
 * crucible_status is success, anything else is an error object that the receiver destroys; out-parameters are written
 * only on success; no exception, longjmp, abort or exit crosses the boundary.
 * Thread tags: [ANY] any thread at any time; [OBJ] the caller serialises calls on the first handle; [CB] also from a
 * callback of the host; [NB] never waits for the device. */
#ifndef CRUCIBLE_PLUGIN_H_
#define CRUCIBLE_PLUGIN_H_
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

#define CRUCIBLE_ABI_MAJOR {major}u
#define CRUCIBLE_ABI_MINOR {minor}u
#define CRUCIBLE_ABI_OLDEST_MINOR {oldest}u /* the oldest minor whose hosts and plugins work with this one's */
#define CRUCIBLE_MAGIC {magic:#010x}u
#define CRUCIBLE_EXPORT __attribute__((visibility("default")))
"""


def c_type(argument):
    """The C type of an argument or field, with const and stars, without an array's length."""
    base = NUMBERS.get(argument.type, f"crucible_{argument.type}")
    if argument.type == "op_id":
        base = "uint32_t"
    stars = argument.stars
    if argument.out:
        return f"{base}{'*' * (stars + 1)}"
    if argument.array and not argument.array.isdigit():
        stars += 1
    elif argument.const and argument.stars == 0 and argument.kind in ("struct", "table"):
        stars += 1
    return f"{'const ' if argument.const else ''}{base}{'*' * stars}"


def declared(argument):
    """A parameter or field in C: "const crucible_op* ops", "int64_t sizes[8]"."""
    length = f"[{argument.array}]" if argument.array.isdigit() else ""
    name = f"out_{argument.name}" if argument.out else argument.name
    return f"{c_type(argument)} {name}{length}"


def return_type(entry):
    if entry.ret in ("status", "str"):
        return f"crucible_{entry.ret}"
    return entry.ret.replace("u32", "uint32_t").replace("u64", "uint64_t")


def parameters(table, entry):
    context = ["void* ctx"] if table.kind == "host" else []
    return ", ".join(context + [declared(argument) for argument in entry.arguments]) or "void"


def comment(*parts):
    text = "; ".join(part for part in parts if part)
    return f" /* {text} */" if text else ""


def constants(spec):
    lines = []
    for group in spec.constants:
        lines += ["", f"/* {group['doc']} */"]
        suffix = "" if group["type"] == "crucible_code" else "u"
        if group["type"] == "crucible_code":
            lines.append("typedef int32_t crucible_code;")
        for name, value, doc in group["values"]:
            number = f"{value:#x}" if value > 0xffff else str(value)
            lines.append(f"#define {group['prefix']}{name} {number}{suffix}{comment(doc)}")
    return lines


def struct(name, doc, sized, fields, first=()):
    lines = ["", f"/* {doc} */", f"typedef struct crucible_{name} {{"]
    if sized:
        lines.append("  uint32_t struct_size;")
    lines += [f"  {field};" for field in first]
    for field in fields:
        since = comment(f"since 0.{field.since}") if field.since > 1 else ""
        lines.append(f"  {declared(field)};{since}")
    return lines + [f"}} crucible_{name};"]


def table(spec, item):
    lines = ["", f"/* {item.doc}{f' Since 0.{item.since}.' if item.since > 1 else ''} */"]
    if item.kind == "interface":
        lines.append(
            f"#define CRUCIBLE_IF_{item.name.upper()} {item.id:#06x}u /* {'mandatory' if item.mandatory else 'optional'} */"
        )
    lines.append(f"typedef struct {item.c_name} {{")
    second = {"object": "reserved", "interface": "if_minor"}.get(item.kind, "abi_minor")
    lines.append(f"  uint32_t struct_size, {second};")
    if item.kind == "host":
        lines.append("  void* ctx; /* the first argument of every service */")
    for entry in item.entries:
        tags = "".join(f"[{tag.upper()}]" for tag in entry.tags)
        since = f"since 0.{entry.since}" if entry.since > item.since else ""
        lines.append(
            f"  {return_type(entry)} (*{entry.name})({parameters(item, entry)});{comment(tags + (' ' + entry.doc if entry.doc else ''), since)}"
        )
    return lines + [f"}} {item.c_name};"]


def header(spec):
    lines = [PREAMBLE.format(major=spec.major, minor=spec.minor, oldest=spec.oldest, magic=spec.magic)]
    lines += constants(spec)
    lines += ["", "/* Objects; the plugin defines what they are. */"]
    lines += [f"typedef struct crucible_{name} crucible_{name};{comment(doc)}" for name, doc in spec.handles.items()]
    by_name = {item.name: item for item in spec.structs}
    done = set()

    def emit(name):
        if name in done:
            return
        done.add(name)
        item = by_name[name]
        for field in item.fields:
            if field.kind == "struct":
                emit(field.type)
        lines.extend(struct(item.name, item.doc, item.sized, item.fields))

    emit("str")
    lines += ["", "typedef struct crucible_error crucible_error;"]
    for item in spec.tables:
        if item.kind == "object":
            lines += table(spec, item)
            lines += [
                f"struct crucible_{item.object} {{ const {item.c_name}* table; }};",
                "typedef crucible_error* crucible_status;"
            ]
    for item in spec.structs:
        emit(item.name)
    for name, arguments, doc in spec.callbacks:
        lines += [
            "", f"/* {doc} */",
            f"typedef void (*crucible_{name})({', '.join(declared(argument) for argument in arguments)});"
        ]
    for kind in ("host", "interface", "plugin"):
        for item in spec.tables:
            if item.kind == kind:
                lines += table(spec, item)
    lines += [""] + [
        f"#define CRUCIBLE_IF_{name.upper()} {number:#06x}u /* reserved: no table yet */"
        for name, number in spec.reserved.items()
    ]
    lines += struct("query_in", "What the host says of itself.", True, spec.query["in"])
    lines += struct("query_out", "What the plugin answers; it writes no more than the first struct_size bytes.", True,
                    spec.query["out"])
    lines += [
        "",
        "/* The only exported symbol. Touches no vendor library, allocates nothing, starts no thread, reads no environment.",
        " * 0: `out` is filled; anything else: reject_reason says why not. */",
        "typedef int32_t (*crucible_plugin_query_fn)(const crucible_query_in*, crucible_query_out*);",
        '#define CRUCIBLE_QUERY_SYMBOL "crucible_plugin_query"',
        "CRUCIBLE_EXPORT int32_t crucible_plugin_query(const crucible_query_in*, crucible_query_out*);", "",
        "#ifdef __cplusplus", "}", "#endif", "#endif /* CRUCIBLE_PLUGIN_H_ */"
    ]
    return "\n".join(lines) + "\n"
