"""The rules of the tree that a compiler does not check: python tidy.py ROOT [--self-test]

Which folder may include which, where foreign headers may appear, how long a file may get, how it must open, how long a line may get. Prints one
line per broken rule and exits 1 if there is any.
"""

import io
import pathlib
import re
import sys
import tokenize

# folder -> folders of ours that it may include. Unit tests (x_test.cpp) are free: they may use what they test with.
MAY_INCLUDE = {
    "core/base": ["core/base", "plugins/kernel_ir"], "core/hardware": ["core/base",
                                                                       "core/hardware"], "hwprofiles": ["hwprofiles"],
    "core/trace": ["core/base",
                   "core/trace"], "core/graph": ["core/base", "core/trace",
                                                 "core/graph"], "core/merkle": ["core/base", "core/graph",
                                                                                   "core/merkle"], "core/memory": [
                                                                                       "core/base", "core/memory"
                                                                                   ],
    "core/kernel": ["core/base", "core/graph", "core/kernel",
                    "plugins/kernel_ir"], "core/budget": ["core/base", "core/graph", "core/kernel", "core/budget"],
    "runtime": ["core", "runtime", "plugins/loader", "plugins/abi",
                "plugins/kernel_ir", "store"], "plugins/abi": ["plugins/abi"], "plugins/kernel_ir": [
                    "plugins/kernel_ir"
                ],
    "plugins/loader": ["core/base", "plugins/abi", "plugins/layers",
                       "plugins/loader", "store"], "plugins/sdk": ["plugins/abi", "plugins/kernel_ir", "plugins/sdk"],
    "plugins/spirv": ["plugins/abi", "plugins/kernel_ir", "plugins/sdk",
                      "plugins/spirv"], "plugins/fuzz": ["plugins/abi", "plugins/kernel_ir", "plugins/layers", "plugins/fuzz"
                                                        ], "plugins/template": ["core/base", "plugins/template"],
    "plugins/layers": ["plugins/abi", "plugins/layers"], "plugins/conformance": [
        "core", "runtime", "plugins/abi", "plugins/kernel_ir", "plugins/layers", "plugins/loader", "plugins/conformance"
    ], "backends/amd": ["plugins/abi", "plugins/sdk",
                        "backends/amd"], "backends/cpu": ["plugins/abi", "plugins/sdk", "backends/cpu"],
    "backends/intel": ["plugins/abi", "plugins/sdk", "plugins/spirv",
                       "backends/intel"], "backends/torch": ["plugins/abi", "plugins/sdk", "backends/torch"],
    "backends/null": ["plugins/abi", "plugins/sdk",
                      "backends/null"], "backends/nvidia": ["plugins/abi", "plugins/sdk", "backends/nvidia"],
    "backends/opencl": ["plugins/abi", "plugins/sdk", "plugins/spirv", "backends/opencl"
                       ], "frontends/aten": ["core/base", "core/trace", "core/graph", "frontends/aten"
                                            ], "frontends/torch": ["core/base", "core/trace", "frontends/torch"],
    "frontends/accelerate": ["core", "runtime", "plugins/loader", "frontends/aten", "frontends/replay", "frontends/accelerate"],
    "frontends/config": ["core/base", "core/hardware", "hwprofiles", "plugins/loader", "frontends/config"],
    "frontends/replay": ["core", "runtime", "plugins/loader", "frontends/aten", "frontends/config",
                         "frontends/replay", "store"], "frontends/runlog": [
                             "core", "runtime", "frontends/aten", "frontends/replay", "frontends/runlog", "store"
                         ], "frontends/cli": [
                             "core", "runtime", "plugins/kernel_ir", "plugins/loader", "plugins/conformance",
                             "plugins/sdk", "plugins/template", "frontends/aten", "frontends/config",
                             "frontends/replay", "frontends/runlog", "frontends/cli", "store"
                         ], "store": ["core/base", "store"],
}
# foreign header prefix -> the only folders in which it may appear
FOREIGN = {
    "torch/": ("frontends/torch", "frontends/accelerate", "backends/torch"),
    "ATen/": ("frontends/torch", "frontends/accelerate", "backends/torch"),
    "c10/": ("frontends/torch", "frontends/accelerate", "backends/torch"),
    "Python.h": ("frontends/torch", "frontends/accelerate"), "oneapi/": ("backends/cpu",),
    "dnnl": ("backends/cpu",), "sqlite3.h": ("store",), "curl/": ("store/remote",), "CL/": ("backends/opencl",), "level_zero/": ("backends/intel",),
    "CLI/": ("frontends/cli",), "boost/dll":
        ("plugins/loader",), "boost/graph": ("core/kernel",), "toml++/": ("frontends/config",),
}
COLUMNS = 120
LINES = {".hpp": 300, ".h": 300, ".cpp": 600, ".c": 600, ".py": 600}
GENERATED = {"crucible_plugin.h", "stubs.hpp"}  # by plugins/abi/gen: whole in one file, so that it can be read at once
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
OPTIONS = re.compile(r"OptionSpec \w+\[\] = \{(.*?)\n\};", re.S)
# Words of a file, a plugin or a driver reach a person through core/base/terminal.hpp and core/base/words.hpp alone,
# which take away what a terminal or a page would obey. What each of the others is for:
PRINTS = re.compile(
    r"\bfmt::print\b|\bstd::(?:cout|cerr|clog|puts|printf|print|println|perror)\b|\b(?:fputs|fprintf|vfprintf|dprintf)\s*\(|\bstderr\b|\bstdout\b|\bwrite\((?:1|2|STD(?:OUT|ERR)_FILENO)\b"
)
COMMANDS = re.compile(r"\\033\[|\\x1b\[|\\e\[")
STREAMS = re.compile(r'"(?:\\.|[^"\\])*"|\b(?:fflush|ferror|clearerr)\(std(?:out|err)\)')  # which print nothing
MAY_PRINT = {
    "core/base/terminal.cpp": "is the way",
    "frontends/cli/standard_output.cpp": "looks after the streams",
    "frontends/cli/text_sink.cpp": "is the way of what may be a file",
    "core/kernel/math/write_native_math.cpp": "is a tool of the build, which reads our own files",
    "runtime/run/kernel_faults.cpp": "writes in a signal handler what was cleaned before",
    "plugins/fuzz/fuzz_plugin.cpp": "is a tool for developers that lives without the core",
}
MARKUP = re.compile(r'"&(?:amp|lt|gt|quot|#39);')
NESTED = re.compile(r"^( +)struct (\w+) \{\n(.*?)^\1\};", re.MULTILINE | re.DOTALL)
INITIAL = re.compile(r"^ +[\w:<>, *&]+ \w+ ?(?:= ?[^;()]+|\{[^;]*\});", re.MULTILINE)
# Files of ours that a comment or a page names, by their ending; by a path where they are of another kind.
NAMED = re.compile(
    r"(?<![\w./<*-])(?:\.\./)*((?:[\w.-]+/)*[\w-]+\.(?:cpp|hpp|inc)|"
    r"(?:core|plugins|backends|frontends|hwprofiles|tests|cmake|ci)/[\w./-]+\.(?:c|h|py|toml|cmake|md))\b(?!/)")
NAMED_OF_OTHERS = {"dialect.cpp", "LossCTC.cpp"}  # of a project made by `crucible plugin new`, of PyTorch
COMMENT = re.compile(r"//.*|#.*")
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.S)
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


FOLDERS = ("core", "runtime", "store", "hwprofiles", "plugins", "backends", "frontends", "tests", "examples", "ci",
           "cmake", "docs")


def is_test(path):
    return path.stem.endswith("_test") or path.parts[0] == "tests" or bool({"testing", "bench"} &
                                                                           {path.stem, *path.parts})


def check_includes(path, text):
    folder = next((name for name in MAY_INCLUDE if str(path).startswith(name + "/")), None)
    for kind, header in INCLUDE.findall(text):
        for prefix, homes in FOREIGN.items():
            at_home = any(str(path).startswith(home + "/") for home in homes)
            if kind == "<" and header.startswith(prefix) and not at_home and not is_test(path):
                yield f"{path}: includes <{header}>, which belongs in {' and '.join(homes)} alone"
        if kind == "<" and header.startswith("CLI/") and path.suffix == ".hpp":
            yield f"{path}: includes <{header}>, seconds in each file that includes it: declare CLI::App instead"
        if folder == "frontends/replay" and header == "core/base/terminal.hpp":
            yield f"{path}: {folder} is a library and prints nothing: frontends/replay/observer.hpp"
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


def check_words(path, text):
    """Nobody prints past the one function (a line comment is no code)."""
    code = re.sub(r"//.*", "", text)
    found = [*COMMANDS.finditer(code), *PRINTS.finditer(STREAMS.sub(lambda gap: "\n" * gap.group().count("\n"), code))]
    for match in found if str(path) not in MAY_PRINT else ():
        yield f"{path}: {match.group()} goes past core/base/terminal.hpp, which shows what a terminal would obey"
    if MARKUP.search(code) and str(path) != "core/base/words.cpp":
        yield f"{path}: escapes markup by itself: crucible::escape_markup of core/base/words.hpp"


def check_nested(path, text):
    """Clang 19 refuses an optional of a nested class with initial values inside of the class around it (the fuzzers are
    built with it)."""
    for _, nested, body in NESTED.findall(text):
        if INITIAL.search(body) and re.search(rf"optional<{nested}> \w+(?:;| =)", text):
            yield f"{path}: an optional of the nested {nested}, whose members have initial values, is refused by clang: put {nested} outside"


def check_names(path, text, endings):
    """A comment or a page that names a file of ours names one that is there. `endings`: all that files may be
    called."""
    for line, words in enumerate(text.splitlines(), 1):
        code = re.sub(r'^\s*#\s*include.*|"(?:\\.|[^"\\])*"', "", words)
        comment = words if path.suffix == ".md" else "".join(COMMENT.findall(code))
        for name in NAMED.findall(comment):
            known = name in endings or name.rpartition("/")[2] in NAMED_OF_OTHERS or "NAME" in name
            if not known:
                yield f"{path}:{line}: names {name}, which is not there"


def check_columns(path, text):
    """Lines fit beside each other on a screen. What stands in a long string may be longer: a word in it that somebody
    looks for stays in one piece."""
    lines = text.splitlines()
    if all(len(line) <= COLUMNS for line in lines):
        return
    free = set()
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            (first, begin), (last, end) = token.start, token.end
            if token.type == tokenize.STRING and (first < last or begin < COLUMNS < end):
                free |= set(range(first, last + 1))
    else:
        for found in RAW_STRING.finditer(text):
            free |= set(range(text.count("\n", 0, found.start()) + 1, text.count("\n", 0, found.end()) + 2))
    for line, words in enumerate(lines, 1):
        if len(words) > COLUMNS and line not in free:
            yield f"{path}:{line}: {len(words)} columns, the limit is {COLUMNS}: .clang-format has the style"


def check_built(path, lists):
    """Each source stands in a list of CMake's. `lists`: their words; some name tests and fuzzers without the ending."""
    names = {path.name, path.stem, path.stem.removesuffix("_test"), path.stem.removesuffix("_fuzzer")}
    if path.suffix == ".cpp" and not lists & names:
        yield f"{path}: no CMakeLists.txt names it, so nothing is built of it"


def check(path, text):
    """Yields one sentence per rule that the file breaks. `path` is relative to the root."""
    lines = text.count("\n")
    limit = None if path.name in GENERATED else LINES.get(path.suffix)
    if limit and lines > limit:
        yield f"{path}: {lines} lines, the limit is {limit}: split it where the concept splits"
    if path.suffix in (".hpp", ".h", ".cpp", ".c", ".py") and path.name not in GENERATED:
        yield from check_columns(path, text)
    if UNFINISHED.search(text) and path.name != "tidy.py":
        yield f"{path}: has a mark of unfinished work"
    if path.parts[0] == "backends" and path.suffix == ".cpp":
        yield from check_options(path, text)
    if path.suffix in (".hpp", ".h", ".cpp", ".c") and path.parts[0] in ("core", "runtime", "plugins", "store",
                                                                         "frontends") and not is_test(path):
        if not str(path).startswith("plugins/template/files/"):
            yield from check_words(path, text)
    if path.suffix in (".hpp", ".h", ".cpp", ".c"):
        yield from check_nested(path, text)
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
    assert broken("frontends/cli/a.hpp", "// A.\n#include <CLI/CLI.hpp>\n")
    assert not broken("frontends/cli/a.cpp", "#include <CLI/CLI.hpp>\n")
    assert broken("frontends/replay/a.cpp", '#include "core/base/terminal.hpp"\n')
    assert broken("core/graph/a.hpp", "#pragma once\n")
    assert broken("core/graph/a.cpp", "\n" * 601)
    assert broken("core/graph/a.cpp", "int " + 117 * "a" + ";\n") and broken("tests/a.py", 121 * "a" + "\n")
    assert not broken("core/graph/a.cpp", 'R"(' + 121 * "a" + ')";\n') and not broken("tests/a.py", f"'{121 * 'a'}'\n")
    for line in ('fmt::print("{}", a);', "std::cerr << a;", 'std::fputs(a, stderr);', 'f("\\033[31m");',
                 "::write(2, a, n);", 'a += "&amp;";'):
        assert broken("frontends/cli/a.cpp", line + "\n") and not broken("frontends/cli/a_test.cpp", line + "\n"), line
    assert not broken("frontends/cli/a.cpp", 'tell("{}", a);  // not fmt::print\n')
    option = 'constexpr OptionSpec kSpecs[] = {\n    {.name = "a", .from_folder = FromFolder::kHarmless},\n    {.name = "b"%s},\n};\n'
    assert broken("backends/cpu/a.cpp",
                  option % "") and not broken("backends/cpu/a.cpp", option % ", .from_folder = FromFolder::kNeedsTrust")
    nested = "struct A {\n  struct B {\n    int b%s;\n  };\n  std::optional<B> c;\n};\n"
    assert broken("core/graph/a.cpp", nested % " = 0") and not broken("core/graph/a.cpp", nested % "")
    assert not broken("core/trace/a_test.cpp", '#include "core/graph/program.hpp"\n')
    gone = {"gone.cpp", "core/gone.hpp", "tests/gone.py"}
    source = pathlib.Path("core/base/a.cpp")
    for page, words in (("docs/a.md", "see `gone.cpp`"), (source, "int a;  // as in core/gone.hpp"),
                        ("ci/a.py", "# tests/gone.py")):
        assert list(check_names(pathlib.Path(page), words, {"here.cpp"})), page
        assert not list(check_names(pathlib.Path(page), words, gone)), page
    assert not list(check_names(source, '#include "core/gone.hpp"\nf("gone.cpp");  // here.cpp', {"here.cpp"}))
    assert list(check_built(source, {"b.cpp"})) and not list(check_built(source.with_name("a_test.cpp"), {"a"}))
    assert not broken("frontends/torch/a.cpp", '#include <torch/library.h>\n#include "core/trace/trace.hpp"\n')


def main():
    root = pathlib.Path(sys.argv[1])
    self_test()
    problems, files = [], 0
    sources = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.is_file()]
    sources.append(root / "README.md")
    parts = [path.relative_to(root).parts for path in sources]
    endings = {"/".join(part[first:]) for part in parts for first in range(len(part))}
    texts = [path.read_text(encoding="utf-8") for path in sources if path.name == "CMakeLists.txt"]
    lists = {word for text in texts for word in re.findall(r"[\w.]+", text)}
    for path in sources:
        problems += check_built(path.relative_to(root), lists)
        if path.suffix in LINES:
            files += 1
            problems += check(path.relative_to(root), path.read_text(encoding="utf-8"))
        if path.suffix in (*LINES, ".md", ".inc", ".cmake") and path.name != "tidy.py":
            problems += check_names(path.relative_to(root), path.read_text(encoding="utf-8"), endings)
    print("\n".join(problems) or f"{files} files keep the rules")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
