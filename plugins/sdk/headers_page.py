"""The table of the SDK's headers in docs/write-a-plugin.md, made of the first sentence of each: headers_page.py
[--check]

The headers are those of plugins/sdk/CMakeLists.txt, so that one that is installed is in the table.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/write-a-plugin.md"
START, END = "<!-- headers: plugins/sdk/headers_page.py writes this table -->\n", "<!-- end of headers -->\n"


def first_sentence(header):
    words = []
    for line in (ROOT / "plugins/sdk" / header).read_text().splitlines():
        if not line.startswith("// "):
            break
        words.append(line[3:])
    found = re.match(r"(.+?[a-z0-9)`])(?:[.:;](?=\s|$)|$)", " ".join(words))
    if found is None:
        sys.exit(f"plugins/sdk/{header} does not open with a sentence that says what it is")
    return found.group(1).replace("|", "\\|")


def table():
    listed = re.search(r"set\(CRUCIBLE_SDK_HEADERS(.*?)\)", (ROOT / "plugins/sdk/CMakeLists.txt").read_text(),
                       re.S).group(1).split()
    rows = [f"| `{header}` | {first_sentence(header)} |\n" for header in sorted(listed)]
    return "| header | what |\n|---|---|\n" + "".join(rows)


def main():
    text = PAGE.read_text()
    before, rest = text.split(START)
    old, after = rest.split(END)
    if "--check" in sys.argv[1:]:
        if old != table():
            sys.exit(
                "docs/write-a-plugin.md has another table of headers than plugins/sdk: run plugins/sdk/headers_page.py")
    else:
        PAGE.write_text(before + START + table() + END + after)


if __name__ == "__main__":
    main()
