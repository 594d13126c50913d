"""docs/abi-reference.md: every constant, struct and function of the ABI, for people who write a plugin."""

from header import declared, parameters, return_type

HEAD = """# ABI reference, {major}.{minor}

Generated from `plugins/abi/abi.toml`; what it is all about stands in [plugin-abi.md](plugin-abi.md). A struct or table may
grow at its end in a later minor; `since` says which minor brought what. Everything without `since` is of 0.1. Hosts and plugins
from 0.{oldest} on work with each other.

Thread tags: **any**, any thread at any time; **obj**, the caller serialises calls on the first handle; **cb**, also from a
callback of the host; **nb**, never waits for the device.

Rules of every call: NULL is success; an error object is destroyed by whoever receives it; out-parameters are written on
success only; borrowed texts and arrays live until the call returns; no exception, abort or exit leaves the plugin.
"""


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def since(minor, base=1):
    return f"0.{minor}" if minor > base else ""


def table_of(spec, item):
    title = {
        "interface": f"Table `{item.name}` ({item.id:#06x}, {'mandatory' if item.mandatory else 'optional'})",
        "host": "The host's services", "plugin": "The plugin's own functions", "object": "Functions of an error object"
    }[item.kind]
    lines = [
        "", f"## {title}", "", f"`{item.c_name}`. {item.doc}{f' Since 0.{item.since}.' if item.since > 1 else ''}", "",
        "| function | tags | since | |", "|---|---|---|---|"
    ]
    for entry in item.entries:
        ends = f"ends the {entry.destroys}" if entry.destroys else ""
        doc = "; ".join(part for part in (entry.doc, ends) if part)
        signature = f"{return_type(entry)} {entry.name}({parameters(item, entry)})".replace("crucible_", "")
        lines.append(
            f"| `{cell(signature)}` | {' '.join(entry.tags)} | {since(entry.since, item.since)} | {cell(doc)} |")
    return lines


def reference(spec):
    lines = [HEAD.format(major=spec.major, minor=spec.minor, oldest=spec.oldest)]
    lines += [
        "## The query", "",
        "`int32_t crucible_plugin_query(const crucible_query_in*, crucible_query_out*)`, the only exported symbol.", ""
    ]
    for side in ("in", "out"):
        lines += [f"| `crucible_query_{side}` | since |", "|---|---|", "| `uint32_t struct_size` | |"]
        lines += [f"| `{cell(declared(field))}` | {since(field.since)} |" for field in spec.query[side]] + [""]
    lines += ["## Objects", "", "| | |", "|---|---|"]
    lines += [f"| `crucible_{name}` | {cell(doc)} |" for name, doc in spec.handles.items()]
    lines += ["", "## Constants"]
    for group in spec.constants:
        lines += ["", cell(group["doc"]), "", "| | | |", "|---|---|---|"]
        lines += [
            f"| `{group['prefix']}{name}` | {value if value < 65536 else hex(value)} | {cell(doc)} |"
            for name, value, doc in group["values"]
        ]
    lines += ["", "## Structs"]
    for item in spec.structs:
        lines += [
            "",
            f"`crucible_{item.name}`{' (sized: begins with `uint32_t struct_size`)' if item.sized else ''}. {item.doc}"
            f"{f' Since 0.{item.since}.' if item.since > 1 else ''}", "", "| field | since |", "|---|---|"
        ]
        lines += [f"| `{cell(declared(field))}` | {since(field.since, item.since)} |" for field in item.fields]
    for name, arguments, doc in spec.callbacks:
        lines += ["", f"`crucible_{name}(" + ", ".join(declared(argument) for argument in arguments) + f")`: {doc}"]
    for kind in ("object", "host", "plugin", "interface"):
        for item in spec.tables:
            if item.kind == kind:
                lines += table_of(spec, item)
    lines += ["", "## Reserved", ""] + [
        f"- `{number:#06x}` {name}: no table yet; `interface_table` answers NULL"
        for name, number in spec.reserved.items()
    ]
    return "\n".join(lines) + "\n"
