"""Writes the sources of the typed kernels: resolve_ops.py all|OPS_TXT OUT_PREFIX PARTS

Writes OUT_PREFIX0.cpp ... and OUT_PREFIXall.cpp. Operators of one C++ signature share one instantiation of the template
in typed_kernel.hpp, so a part holds signatures, each with the operators that have it. With `all` every ATen operator of
the installed torch gets a typed kernel that is not composite and not an `out` variant; with a file only those listed in
it that this torch has. The boxed fallback records the rest: `out` variants are rare, and composite operators appear
below autograd only in inference mode, where the fallback runs them again with the key on.
"""

import os
import re
import sys

import torch

STRUCT = re.compile(r"struct TORCH_API (\w+) \{\s*using schema = (.*?);")


def signatures():
    """The C++ signature of each struct in at::_ops."""
    folder = os.path.join(os.path.dirname(torch.__file__), "include", "ATen", "ops")
    found = {}
    for name in os.listdir(folder):
        if name.endswith("_ops.h"):
            with open(os.path.join(folder, name)) as source:
                found.update(STRUCT.findall(source.read()))
    return found


def names(choice):
    """Names with overloads, "add.Tensor", of the operators that are wanted."""
    if choice == "all":
        everything = torch._C._dispatch_get_all_op_names()
        wanted = [name for name in everything if name.startswith("aten::") and "out" not in name.partition(".")[2]]
    else:
        with open(choice) as source:
            wanted = [line.strip() for line in source if line.strip() and not line.startswith("#")]
    return sorted(name.removeprefix("aten::").removesuffix(".") for name in wanted)


def is_composite(name):
    """True, too, for an operator that this torch does not have."""
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key("aten::" + name, "CompositeImplicitAutograd")
    except RuntimeError:
        return True


def resolve(choice):
    """{C++ signature: [names]}"""
    known = signatures()
    found = {}
    for name in names(choice):
        signature = known.get(name.replace(".", "_"))
        if signature is not None and not is_composite(name):
            found.setdefault(signature, []).append(name)
    return found


def write_part(path, index, resolved):
    with open(path, "w") as out:
        out.write("// Written by resolve_ops.py: signatures, and the operators that have them.\n")
        out.write('#include "frontends/torch/typed_kernel.hpp"\n\nnamespace crucible::recorder {\n\n')
        out.write(f"void register_typed_part_{index}(TypedKernels& kernels) {{\n")
        for signature, operators in resolved:
            listed = ", ".join(f'"{name}"' for name in operators)
            out.write(f"  kernels.add<{signature}>({{{listed}}});\n")
        out.write("}\n\n}  // namespace crucible::recorder\n")


def write_index(path, parts):
    functions = [f"register_typed_part_{index}" for index in range(parts)]
    with open(path, "w") as out:
        out.write("// Written by resolve_ops.py: calls the parts.\n")
        out.write('#include "frontends/torch/typed_kernel.hpp"\n\nnamespace crucible::recorder {\n\n')
        out.writelines(f"void {name}(TypedKernels& kernels);\n" for name in functions)
        out.write("\nvoid register_typed_kernels(TypedKernels& kernels) {\n")
        out.writelines(f"  {name}(kernels);\n" for name in functions)
        out.write("}\n\n}  // namespace crucible::recorder\n")


def main():
    choice, prefix, parts = sys.argv[1], sys.argv[2], int(sys.argv[3])
    resolved = sorted(resolve(choice).items())
    for index in range(parts):
        write_part(f"{prefix}{index}.cpp", index, resolved[index::parts])
    write_index(f"{prefix}all.cpp", parts)
    print(
        f"{sum(len(ops) for _, ops in resolved)} typed kernels of {len(resolved)} signatures for torch {torch.__version__}"
    )


if __name__ == "__main__":
    main()
