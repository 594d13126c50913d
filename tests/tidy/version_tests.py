"""No version of the ABI is tested by hand anywhere: version_tests.py ROOT

A received table is copied and filled (plugins/abi/stubs.hpp), so a comparison with a minor version, or with the size of
a table, is a mistake. Allowed: the query, where major versions meet.
"""

import pathlib
import re
import sys

PATTERN = re.compile(
    r"(abi_minor|if_minor|host_minor|ABI_MINOR)\s*(==|!=|<=?|>=?)|(==|!=|<=?|(?<!-)>=?)\s*(\w+(\.|->))*(abi_minor|if_minor|host_minor|CRUCIBLE_ABI_MINOR)"
)
FOLDERS = ("core", "runtime", "plugins", "backends", "frontends")


def main(root):
    found = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".hpp", ".cpp", ".h",
                                   ".c") or path.stem.endswith("_test") or "testing" in path.parts:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if PATTERN.search(line):
                    found.append(f"{path.relative_to(root)}:{number}: tests a minor version by hand: {line.strip()}")
    assert PATTERN.search("if (out.abi_minor >= 2) {") and PATTERN.search(
        "2 <= table->if_minor"), "the pattern finds nothing"
    print("\n".join(found) if found else "no version is tested by hand")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
