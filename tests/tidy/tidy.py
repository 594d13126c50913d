"""The rules of the tree that a compiler does not check: python tidy.py ROOT [--self-test]

Which folder may include which, where foreign headers may appear, how long a file may get, how it must open. Prints one
line per broken rule and exits 1 if there is any.
"""

import pathlib
import re
import sys

# folder -> folders of ours that it may include. Unit tests (x_test.cpp) are free: they may use what they test with.
MAY_INCLUDE = {
    "core/base": ["core/base"],
    "core/hardware": ["core/base", "core/hardware"],
    "hwprofiles": ["hwprofiles"],
    "core/trace": ["core/base", "core/trace"],
    "core/graph": ["core/base", "core/trace", "core/graph"],
    "core/memory": ["core/base", "core/memory"],
    "core/kernel": ["core/base", "core/graph", "core/kernel"],
    "core/budget": ["core/base", "core/graph", "core/kernel", "core/budget"],
    "core/runtime": ["core", "plugins/loader", "plugins/abi"],
    "plugins/abi": ["plugins/abi"],
    "plugins/loader": ["core/base", "plugins/abi", "plugins/layers", "plugins/loader"],
    "plugins/sdk": ["plugins/abi", "plugins/sdk"],
    "plugins/spirv": ["plugins/abi", "plugins/sdk", "plugins/spirv"],
    "plugins/fuzz": ["plugins/abi", "plugins/layers", "plugins/fuzz"],
    "plugins/template": ["core/base", "plugins/template"],
    "plugins/layers": ["plugins/abi", "plugins/layers"],
    "plugins/conformance": ["core", "plugins/abi", "plugins/layers", "plugins/loader", "plugins/conformance"],
    "backends/amd": ["plugins/abi", "plugins/sdk", "backends/amd"],
    "backends/cpu": ["plugins/abi", "plugins/sdk", "backends/cpu"],
    "backends/intel": ["plugins/abi", "plugins/sdk", "plugins/spirv", "backends/intel"],
    "backends/torch": ["plugins/abi", "plugins/sdk", "backends/torch"],
    "backends/null": ["plugins/abi", "plugins/sdk", "backends/null"],
    "backends/nvidia": ["plugins/abi", "plugins/sdk", "backends/nvidia"],
    "backends/opencl": ["plugins/abi", "plugins/sdk", "plugins/spirv", "backends/opencl"],
    "frontends/aten": ["core/base", "core/trace", "core/graph", "frontends/aten"],
    "frontends/torch": ["core/base", "core/trace", "frontends/torch"],
    "frontends/config": ["core/base", "core/hardware", "hwprofiles", "plugins/loader", "frontends/config"],
    "frontends/cli": ["core", "plugins/loader", "plugins/conformance", "plugins/template", "frontends/aten", "frontends/config", "frontends/cli"],
}
# foreign header prefix -> the only folders in which it may appear
FOREIGN = {
    "torch/": ("frontends/torch", "backends/torch"), "ATen/": ("frontends/torch", "backends/torch"),
    "c10/": ("frontends/torch", "backends/torch"), "Python.h": ("frontends/torch",), "oneapi/": ("backends/cpu",),
    "dnnl": ("backends/cpu",), "CL/": ("backends/opencl",), "CLI/": ("frontends/cli",), "boost/dll": ("plugins/loader",), "boost/graph": ("core/kernel",), "toml++/": ("frontends/config",),
}
LINES = {".hpp": 300, ".h": 300, ".cpp": 600, ".c": 600, ".py": 600}
GENERATED = {"crucible_plugin.h", "stubs.hpp"}  # by plugins/abi/gen: whole in one file, so that it can be read at once
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
OPTIONS = re.compile(r"OptionSpec \w+\[\] = \{(.*?)\n\};", re.S)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def is_test(path):
    return path.stem.endswith("_test") or path.parts[0] == "tests" or bool({"testing", "bench"} & {path.stem, *path.parts})


def check_includes(path, text):
    folder = next((name for name in MAY_INCLUDE if str(path).startswith(name + "/")), None)
    for kind, header in INCLUDE.findall(text):
        for prefix, homes in FOREIGN.items():
            at_home = any(str(path).startswith(home + "/") for home in homes)
            if kind == "<" and header.startswith(prefix) and not at_home and not is_test(path):
                yield f"{path}: includes <{header}>, which belongs in {' and '.join(homes)} alone"
        if kind == "<" or folder is None or is_test(path):
            continue
        if "/" not in header:
            yield f'{path}: includes "{header}": write the path from the root'
        elif not any(header.startswith(allowed + "/") for allowed in MAY_INCLUDE[folder]):
            yield f'{path}: {folder} may not include "{header}"'


def check_options(path, text):
    """Whether a folder's file may set an option is decided where the option is declared (docs/configuration.md)."""
    for options in OPTIONS.findall(text):
        for option in re.split(r"\n    \{(?=\.name = )", "\n" + options.lstrip("\n"))[1:]:
            if ".from_folder = " not in option:
                yield f"{path}: the option {option.split(chr(34))[1]} does not say whether a folder's file may set it (from_folder)"


def check(path, text):
    """Yields one sentence per rule that the file breaks. `path` is relative to the root."""
    lines = text.count("\n")
    limit = None if path.name in GENERATED else LINES.get(path.suffix)
    if limit and lines > limit:
        yield f"{path}: {lines} lines, the limit is {limit}: split it where the concept splits"
    if UNFINISHED.search(text) and path.name != "tidy.py":
        yield f"{path}: has a mark of unfinished work"
    if path.parts[0] == "backends" and path.suffix == ".cpp":
        yield from check_options(path, text)
    if path.suffix in (".hpp", ".h", ".cpp", ".c"):
        if not str(path).startswith("plugins/template/files/"):  # a project of its own, with its own root
            yield from check_includes(path, text)
        if path.suffix in (".hpp", ".h") and not text.startswith(("//", "/*")):
            yield f"{path}: does not open with what it is for"


def self_test():
    """Each rule catches a file that breaks it."""
    def broken(name, text):
        return list(check(pathlib.Path(name), text))

    assert broken("core/trace/a.cpp", '#include "core/graph/program.hpp"\n')
    assert broken("core/graph/a.cpp", "#include <torch/library.h>\n")
    assert broken("core/graph/a.cpp", '#include "a.hpp"\n')
    assert broken("core/graph/a.hpp", "#pragma once\n")
    assert broken("core/graph/a.cpp", "\n" * 601)
    option = 'constexpr OptionSpec kSpecs[] = {\n    {.name = "a", .from_folder = FromFolder::kHarmless},\n    {.name = "b"%s},\n};\n'
    assert broken("backends/cpu/a.cpp", option % "") and not broken("backends/cpu/a.cpp", option % ", .from_folder = FromFolder::kNeedsTrust")
    assert not broken("core/trace/a_test.cpp", '#include "core/graph/program.hpp"\n')
    assert not broken("frontends/torch/a.cpp", '#include <torch/library.h>\n#include "core/trace/trace.hpp"\n')


def main():
    root = pathlib.Path(sys.argv[1])
    self_test()
    problems, files = [], 0
    for folder in ("core", "hwprofiles", "plugins", "backends", "frontends", "tests", "examples", "ci"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in LINES and path.is_file():
                files += 1
                problems += check(path.relative_to(root), path.read_text(encoding="utf-8"))
    print("\n".join(problems) or f"{files} files keep the rules")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
