"""Scheduling by layers: python stamping_bench.py --crucible PATH --bench PATH [--layers 4,12,48,96] [--keep FOLDER] [--json]

Records examples/gpt_adamw.py, small, with 4, 12, 48 and 96 layers (two iterations each) and hands the recordings to
stamping_bench, which prints what is found out once and what is done for each layer.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "gpt_adamw.py"
SIZES = re.compile(r"^VOCABULARY, WIDTH, LAYERS, HEADS, BATCH, LENGTH, DROPOUT = .*$", re.M)


def script_of(layers):
    """The example with so many layers, small in everything else."""
    sizes = f"VOCABULARY, WIDTH, LAYERS, HEADS, BATCH, LENGTH, DROPOUT = 64, 32, {layers}, 4, 2, 16, 0.1"
    text, found = SIZES.subn(sizes, EXAMPLE.read_text())
    if found != 1:
        sys.exit(f"error: {EXAMPLE}: no line with its sizes; change SIZES in {__file__}")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crucible", required=True)
    parser.add_argument("--bench", required=True, help="the program stamping_bench")
    parser.add_argument("--layers", default="4,12,48,96")
    parser.add_argument("--keep", type=pathlib.Path, help="where recordings are kept, and found again")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crucible-stamping-") as folder:
        place = arguments.keep or pathlib.Path(folder)
        place.mkdir(exist_ok=True)
        recordings = []
        for layers in map(int, arguments.layers.split(",")):
            recording, script = place / f"gpt{layers}.crtrace", pathlib.Path(folder) / f"gpt{layers}.py"
            recordings.append(str(recording))
            if recording.exists():
                continue
            script.write_text(script_of(layers))
            made = subprocess.run([arguments.crucible, "record", "-o", recording, "--iterations", "2", "--",
                                   sys.executable, script, "--steps", "5"], capture_output=True, text=True)
            if made.returncode != 0:
                sys.exit(f"error: recording {layers} layers: {made.stderr[-2000:]}")
        sys.exit(subprocess.run([arguments.bench, *recordings, *(["--json"] if arguments.json else [])]).returncode)


if __name__ == "__main__":
    main()
