"""Writes the sources of the typed kernels: resolve_ops.py OPS_TXT OUT_PREFIX PARTS

Writes OUT_PREFIX0.cpp ... and OUT_PREFIXall.cpp. Each operator of the list that the installed torch has, and that is not composite, becomes one line in one of PARTS
sources. Operators that this torch lacks are left out: the boxed fallback records them. Composite operators are left
out too: below autograd they appear only in inference mode, where the fallback runs them again with the key on.
"""

import os
import sys

import torch


def cpp_struct(name, overload):
    """The name of the operator's struct in at::_ops."""
    return f"{name}_{overload}" if overload else name


def header_of(include, name, struct):
    """The header that declares at::_ops::struct, or None; in-place operators share the header of the others."""
    for base in dict.fromkeys([name, name.rstrip("_")]):
        path = os.path.join(include, "ATen", "ops", f"{base}_ops.h")
        if os.path.exists(path) and f"struct TORCH_API {struct} {{" in open(path).read():
            return f"ATen/ops/{base}_ops.h"
    return None


def resolve(lines):
    include = os.path.join(os.path.dirname(torch.__file__), "include")
    found = []
    for line in lines:
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, overload = line.removeprefix("aten::").partition(".")
        qualified = f"aten::{name}" + (f".{overload}" if overload else "")
        try:
            composite = torch._C._dispatch_has_kernel_for_dispatch_key(qualified, "CompositeImplicitAutograd")
        except RuntimeError:
            continue
        struct = cpp_struct(name, overload)
        header = header_of(include, name, struct)
        if header and not composite:
            found.append((line, name + (f".{overload}" if overload else ""), struct, header))
    return found


def write_part(path, index, ops):
    with open(path, "w") as out:
        out.write("// Written by resolve_ops.py from ops.txt; one typed kernel per line.\n")
        out.write('#include "frontends/torch/typed_kernel.hpp"\n\n')  # first: the others count on its includes
        for header in sorted({op[3] for op in ops}):
            out.write(f"#include <{header}>\n")
        out.write("\nnamespace crucible::recorder {\n\n")
        out.write(f"void register_typed_part_{index}(torch::Library& library) {{\n")
        for _, name, struct, _ in ops:
            out.write(f'  register_typed<at::_ops::{struct}>(library, "{name}");\n')
        out.write("}\n\n}  // namespace crucible::recorder\n")


def write_index(path, parts):
    names = [f"register_typed_part_{index}" for index in range(parts)]
    with open(path, "w") as out:
        out.write("// Written by resolve_ops.py: calls the parts.\n")
        out.write('#include "frontends/torch/typed_kernel.hpp"\n\nnamespace crucible::recorder {\n\n')
        out.writelines(f"void {name}(torch::Library& library);\n" for name in names)
        out.write("\nvoid register_typed_kernels(torch::Library& library) {\n")
        out.writelines(f"  {name}(library);\n" for name in names)
        out.write("}\n\n}  // namespace crucible::recorder\n")


def main():
    list_path, prefix, parts = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(list_path) as source:
        ops = resolve(source)
    for index in range(parts):
        write_part(f"{prefix}{index}.cpp", index, ops[index::parts])
    write_index(f"{prefix}all.cpp", parts)
    print(f"{len(ops)} typed kernels for torch {torch.__version__}")


if __name__ == "__main__":
    main()
