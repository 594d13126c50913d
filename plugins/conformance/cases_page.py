"""How many cases the kit has, in docs/write-a-plugin.md, as the command counts them: cases_page.py CRUCIBLE PLUGIN
[--check]"""

import collections
import json
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/write-a-plugin.md"
START, END = "<!-- cases: plugins/conformance/cases_page.py writes this line -->\n", "<!-- end of cases -->\n"


def line(crucible, plugin):
    listed = subprocess.run([crucible, "plugin", "check", "--list", "--json", plugin], capture_output=True, text=True,
                            check=True)
    cases = json.loads(listed.stdout)["cases"]
    quick = sum(case["quick"] for case in cases)
    tiers = collections.Counter(case["tier"] for case in cases)
    each = ", ".join(f"{tier} {count}" for tier, count in tiers.items())
    return f"The whole kit has {len(cases)} cases ({each}), of which `--quick` runs {quick}.\n"


def main():
    words = line(sys.argv[1], sys.argv[2])
    before, rest = PAGE.read_text().split(START)
    old, after = rest.split(END)
    if "--check" not in sys.argv[3:]:
        PAGE.write_text(before + START + words + END + after)
    elif old != words:
        sys.exit(
            f"docs/write-a-plugin.md says: {old}the kit says: {words}run plugins/conformance/cases_page.py CRUCIBLE PLUGIN"
        )


if __name__ == "__main__":
    main()
