"""plugins/fuzz/random_calls.inc: one random call per table entry. How random arguments are made is in
plugins/fuzz/random_arguments.hpp."""

PREAMBLE = """// One random call of each entry of each interface table. Generated from abi.toml by gen/generate.py; included by
// fuzz_plugin.cpp, inside a function that has `RandomArguments& r` and `const abi::Tables& tables`, as the cases of a switch.
"""


def argument(item, entry, lines):
    """Adds the statements that make one argument; returns its expression."""
    name = f"out_{item.name}" if item.out else item.name
    if item.array and not item.array.isdigit():
        if item.out:
            lines.append(f"auto {item.name}_array = r.out_array<std::uint64_t>();")
        else:
            element = {"double": "double", "u64": "std::uint64_t"}.get(item.type, f"crucible_{item.type}")
            same = next(other for other in entry.arguments if other.array == item.array)  # one count, one length
            length = "" if same is item else f"{same.name}_array.size()"
            lines.append(f"auto {item.name}_array = r.array<{element}>({length});")
        return f"{item.name}_array.data()"
    counted = next((other for other in entry.arguments if other.array == item.name), None)
    if counted:
        return f"static_cast<std::uint32_t>({counted.name}_array.size())"
    if item.out:
        if item.kind == "handle":
            lines.append(f"crucible_{item.type}* {name} = nullptr;")
        elif item.kind == "struct" and item.type == "compile_info":
            lines += [f"crucible_{item.type} {name} = {{}};", f"{name}.struct_size = sizeof({name});"]
        else:
            base = {"u32": "std::uint32_t", "u64": "std::uint64_t"}.get(item.type, f"crucible_{item.type}")
            lines.append(f"{base} {name} = {{}};")
        return f"r.maybe_null(&{name})" if item.kind != "handle" else f"&{name}"
    if item.kind == "handle" and item.stars:
        return f'r.handle<crucible_{item.type}>("{item.type}")'
    if item.kind == "callback":
        return "r.sink()"
    if item.name == "user":
        return "nullptr"
    if item.type == "str":
        return "r.text()"
    if item.kind == "struct":
        lines.append(f"const auto {item.name} = r.value<crucible_{item.type}>();")
        return f"r.maybe_null(&{item.name})"
    if item.type == "void":
        return "r.bytes()"  # as long as r.size() may be
    if item.name == "size" and any(other.type == "void" for other in entry.arguments):
        return "r.size()"
    if item.name == "timeout_ns":
        return "r.time()"
    return {"u8": "r.number<std::uint8_t>()", "u32": "r.number<std::uint32_t>()",
            "u64": "r.number<std::uint64_t>()"}[item.type]


def calls(spec):
    lines = [PREAMBLE]
    number = 0
    for table in spec.interfaces():
        for entry in table.entries:
            made = []
            # arrays first: their counts refer to them
            expressions = {}
            for item in sorted(entry.arguments, key=lambda item: 0 if item.array else 1):
                expressions[item.name] = argument(item, entry, made)
            # evaluated one by one, so that a seed means the same calls with every compiler
            for item in entry.arguments:
                if expressions[item.name].startswith("r."):
                    made.append(f"const auto a_{item.name} = {expressions[item.name]};")
                    expressions[item.name] = f"a_{item.name}"
            arguments = ", ".join(expressions[item.name] for item in entry.arguments)
            lines.append(f"case {number}: {{")
            lines += [f"  {line}" for line in made]
            lines.append(f'  crucible_status status = tables.{table.name}.{entry.name}({arguments});')
            born = next((item for item in entry.arguments if item.out and item.kind == "handle"), None)
            if born:
                lines.append(f'  if (status == nullptr) r.born("{born.type}", out_{born.name});')
            if entry.destroys:
                first = entry.arguments[0]
                lines.append(f'  if (status == nullptr) r.died("{entry.destroys}", {expressions[first.name]});')
            lines += [f'  return r.done("{table.name}.{entry.name}", status);', "}"]
            number += 1
    lines.append(f"default: return; // {number} entries")
    text = "\n".join(lines) + "\n"
    return text, number


def random_calls(spec):
    return calls(spec)[0]


def call_count(spec):
    return f"// Generated from abi.toml by gen/generate.py.\n#pragma once\n\ninline constexpr int kRandomCalls = {calls(spec)[1]};  // entries of all interface tables\n"
