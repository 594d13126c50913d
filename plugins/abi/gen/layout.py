"""layout_rows.inc: one line per struct and field, for the layout test to measure and compare with golden/*.tsv."""


def layout_rows(spec):
    lines = ["/* Every struct and field of crucible_plugin.h. Generated from abi.toml by gen/generate.py. */"]

    def struct(name, fields):
        lines.append(f"CRUCIBLE_STRUCT({name})")
        lines.extend(f"CRUCIBLE_FIELD({name}, {field})" for field in fields)

    for item in spec.structs:
        struct(f"crucible_{item.name}", (["struct_size"] if item.sized else []) + [field.name for field in item.fields])
    for item in spec.tables:
        second = {"object": "reserved", "interface": "if_minor"}.get(item.kind, "abi_minor")
        first = ["struct_size", second] + (["ctx"] if item.kind == "host" else [])
        struct(item.c_name, first + [entry.name for entry in item.entries])
        if item.object:
            struct(f"crucible_{item.object}", ["table"])
    for side, fields in spec.query.items():
        struct(f"crucible_query_{side}", ["struct_size"] + [field.name for field in fields])
    return "\n".join(lines) + "\n"
