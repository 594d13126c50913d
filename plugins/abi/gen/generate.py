"""Writes every file that is made from abi.toml: generate.py [--check]

--check writes nothing and names each file that is not what it would write (exit code 1).
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import fuzz  # noqa: E402
import header  # noqa: E402
import layers  # noqa: E402
import layout  # noqa: E402
import reference  # noqa: E402
import spec  # noqa: E402
import stubs  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]


def files(description):
    return {
        "plugins/abi/crucible_plugin.h": header.header(description),
        "plugins/abi/layout_rows.inc": layout.layout_rows(description),
        "docs/abi-reference.md": reference.reference(description),
        "plugins/fuzz/random_calls.inc": fuzz.random_calls(description),
        "plugins/fuzz/random_call_count.hpp": fuzz.call_count(description),
        "plugins/abi/stubs.hpp": stubs.stubs(description),
        "plugins/layers/wrapped_tables.inc": layers.wrapped(description),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    try:
        description = spec.Spec(ROOT / "plugins/abi/abi.toml")
    except spec.SpecError as error:
        sys.exit(f"abi.toml: {error}")
    stale = []
    for name, text in files(description).items():
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in stale:
        print(f"{'differs from abi.toml' if check else 'wrote'}: {name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
