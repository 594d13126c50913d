"""plugins/layers/wrapped_tables.inc: one function per table entry that checks, traces and counts a call before and
after it reaches the plugin. What checking and tracing mean is in plugins/layers/call.cpp."""

from header import declared, return_type

PREAMBLE = """// Every entry of every interface table, wrapped: generated from abi.toml by gen/generate.py; included by wrap.cpp, where
// Wrapped is a template over the slot that says which plugin's state to use.
"""


def c_name(argument):
    return f"out_{argument.name}" if argument.out else argument.name


def checks(entry):
    """Statements that refuse what the spec does not allow."""
    for argument in entry.arguments:
        name = c_name(argument)
        if argument.array and not argument.array.isdigit():
            yield f'call.array("{argument.name}", {name}, {argument.array});'
        elif argument.out:
            if not argument.optional:
                yield f'call.pointer("{argument.name}", {name});'
        elif argument.kind == "handle" and argument.stars:
            yield f'call.handle("{argument.name}", "{argument.type}", {name});'
        elif argument.type == "str":
            yield f'call.text("{argument.name}", {name});'
        elif argument.power_of_two:
            yield f'call.power_of_two("{argument.name}", {name});'
        elif argument.kind == "callback":
            yield f'call.pointer("{argument.name}", reinterpret_cast<const void*>({name}));'
        elif argument.kind == "struct" and argument.const:
            yield f'call.pointer("{argument.name}", {name});'
            yield f'call.sized("{argument.name}", {name});'
        elif argument.type == "void" and argument.stars and not argument.optional:
            yield f'call.pointer("{argument.name}", {name});'
    if "obj" in entry.tags:
        first = next((argument for argument in entry.arguments
                      if argument.kind == "handle" and argument.stars and not argument.out), None)
        if first:
            yield f'call.alone({first.name});'
    if entry.destroys:
        yield f'call.childless("{entry.destroys}", {entry.arguments[0].name});'


def notes(entry):
    """Statements that write the arguments into the trace."""
    for argument in entry.arguments:
        if argument.out or argument.kind == "callback" or argument.name == "user":
            continue
        name = c_name(argument)
        if argument.array and not argument.array.isdigit():
            continue  # its length is an argument of its own
        if argument.kind == "handle" and argument.stars:
            yield f'call.note_object("{argument.name}", {name});'
        elif argument.type == "str":
            yield f'call.note("{argument.name}", {name});'
        elif argument.kind == "number" and not argument.stars:
            yield f'call.note("{argument.name}", static_cast<std::uint64_t>({name}));'


def effects(entry):
    """Statements after a success: what began and what ended."""
    parent = next((argument.name
                   for argument in entry.arguments
                   if argument.kind == "handle" and argument.stars and not argument.out), "nullptr")
    for argument in entry.arguments:
        if argument.out and argument.kind == "handle" and argument.stars:
            yield f'call.created("{argument.type}", *{c_name(argument)}, {parent});'
        elif argument.out and argument.kind == "number" and not argument.array:
            yield f'call.note("{argument.name}", static_cast<std::uint64_t>(*{c_name(argument)}));'
        elif argument.out and argument.type == "str":
            yield f'call.note("{argument.name}", *{c_name(argument)});'


def wrapped(spec):
    lines = [PREAMBLE]
    for table in spec.interfaces():
        for entry in table.entries:
            parameters = ", ".join(declared(argument) for argument in entry.arguments)
            arguments = ", ".join(c_name(argument) for argument in entry.arguments)
            lines.append(f"static {return_type(entry)} {table.name}_{entry.name}({parameters}) {{")
            lines.append(f'  Call call(state(), "{table.name}.{entry.name}");')
            body = list(checks(entry))
            if body:
                lines.append("  if (call.validates()) {")
                lines += [f"    {line}" for line in body]
                lines += ["    if (call.is_refused()) return call.refusal();", "  }"]
            body = list(notes(entry))
            if body:
                lines.append("  if (call.traces()) {")
                lines += [f"    {line}" for line in body]
                lines.append("  }")
            if entry.destroys:
                lines.append(
                    f'  call.ends("{entry.destroys}", {entry.arguments[0].name});  // before: its address may be used again at once'
                )
            lines.append(
                f"  crucible_status status = call.guarded([&] {{ return state().next.{table.name}.{entry.name}({arguments}); }});"
            )
            body = list(effects(entry))
            if body:
                lines.append("  if (status == nullptr) {")
                lines += [f"    {line}" for line in body]
                lines.append("  }")
            lines += ["  return call.finish(status);", "}", ""]
    lines.append("static abi::Tables tables() {")
    lines.append("  abi::Tables tables = abi::unimplemented_tables();")
    for table in spec.interfaces():
        lines += [f"  tables.{table.name}.{entry.name} = {table.name}_{entry.name};" for entry in table.entries]
    lines += ["  return tables;", "}"]
    return "\n".join(lines) + "\n"
