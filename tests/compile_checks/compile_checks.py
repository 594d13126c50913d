"""Every kernel of recordings through the compilers of the devices that are not here: compile_checks.py --build BUILD
[FILE.crtrace...]

NVRTC makes PTX and machine code for three generations of NVIDIA's devices, clang code objects for three of AMD's, and
the intel plugin's
SPIR-V goes before its validator. What they make is looked through by rules.py. Without FILE the three examples are
recorded.
Exit code: 1 when a kernel breaks a rule or is refused, 4 when a compiler is missing and all else is well.
"""

import argparse
import base64
import concurrent.futures
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import compilers
import rules

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import recordings  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ("mlp_sgd", "gpt_adamw", "resnet18_sgd")
TARGETS = {"nvidia": ("sm_80", "sm_90", "sm_100"), "amd": ("gfx90a", "gfx942", "gfx1100")}
# Behind each text, so that a flag which fuses, flushes or approximates shows even where no kernel of the text would.
CANARY = """
extern "C" {kernel} void crucible_canary(float* f, double* d) {{
  f[0] = f[1] * f[2] + f[3];
  d[0] = d[1] * d[2] + d[3];
  f[4] = f[5] / f[6] + __builtin_sqrtf(f[7]);
  d[4] = d[5] / d[6] + __builtin_sqrt(d[7]);
}}
"""
CANARY_NAME = "crucible_canary"
KERNEL_WORD = {"nvidia": "__global__", "amd": "__attribute__((global))"}


def text_of(vendor, document, batch):
    """As the plugin's compiler gets it, with the canary."""
    return document[vendor].get("preamble", "") + batch["text"] + CANARY.format(kernel=KERNEL_WORD[vendor])


class Tools:
    """The compilers that are here; `missing` says what to install for those that are not."""

    def __init__(self, kept):
        self.kept, self.missing = kept, {}
        nvrtc, clang, self.nvdisasm = compilers.find_nvrtc(), compilers.find_clang(), compilers.find_nvdisasm()
        self.nvrtc = compilers.Nvrtc(nvrtc) if nvrtc else None
        self.clang = compilers.Clang(clang) if clang else None
        if not nvrtc:
            self.missing["nvidia"] = "no NVRTC: PyPI's nvidia-cuda-nvrtc, which torch brings, or CRUCIBLE_NVRTC"
        if not clang:
            self.missing["amd"] = "no clang of version 18 or newer: apt-get install clang-19 lld-19"
        if not shutil.which("spirv-val"):
            self.missing["intel"] = "no spirv-val: apt-get install spirv-tools"

    def fusing(self, vendor, text, names):
        """The kernels whose text fuses. Without clang there is no preprocessor, and nothing is known: all may."""
        if not self.clang:
            return set(names)
        language = ["-fdeclspec"] if vendor == "amd" else []
        key = ["fuses 1", self.clang.version, text]
        whole = self.kept.get(key, lambda: self.clang.preprocess(text, language))
        return rules.kernels_that_fuse(whole, names)

    def nvidia(self, text, flags, names, architecture):
        """{kernel: numbers}, {kernel: sentences}, seconds of one text for one architecture."""
        flags = [*flags, f"--gpu-architecture={architecture}", "--ptxas-options=-v"]
        key = [self.nvrtc.version, compilers.identity(self.nvrtc.file), flags, text]
        made = self.kept.get(key, lambda: self.nvrtc.compile(text, flags))
        cubin, fusing = base64.b64decode(made["cubin"]), self.fusing("nvidia", text, names)
        numbers, found = compilers.nvidia_numbers(made["log"]), rules.scan_ptx(made["ptx"], fusing)
        sizes = compilers.sections_of(cubin)
        for name in numbers:
            numbers[name]["code_bytes"] = sizes.get(f".text.{name}", 0)
        if self.nvdisasm:
            sass = self.kept.get(["sass", compilers.identity(self.nvdisasm), key],
                                 lambda: compilers.disassemble_cubin(self.nvdisasm, cubin))
            for name, sentences in rules.scan_sass(sass).items():
                found[name] = found.get(name, []) + sentences
        return numbers, found, made["seconds"]

    def amd(self, text, flags, names, architecture):
        flags = [flag.replace("ARCH", architecture) for flag in flags]
        key = [self.clang.version, compilers.identity(self.clang.program), flags, text]
        made = self.kept.get(key, lambda: self.clang.compile(text, flags, architecture))
        found = rules.scan_amdgcn(made["assembly"], self.fusing("amd", text, names))
        return compilers.amd_numbers(made["assembly"]), found, made["seconds"]


class Row:
    """One target in one mode."""

    def __init__(self, vendor, target, mode):
        self.vendor, self.target, self.mode = vendor, target, mode
        self.numbers, self.problems, self.seconds, self.of = {}, [], 0.0, 0

    def add(self, names, numbers, found, seconds):
        """Takes one batch's results. What the compiler did not make is a problem too."""
        self.seconds += seconds
        for name in [*names, CANARY_NAME]:
            if name not in numbers or name not in found:
                self.problems.append((name, "is not in what the compiler made"))
            self.problems += [(name, sentence) for sentence in found.get(name, [])]
        for name in set(found) - set(names) - {CANARY_NAME}:  # functions that stayed functions
            self.problems += [(name, sentence) for sentence in found[name] if not name.startswith("$")]
        self.numbers.update({name: numbers[name] for name in names if name in numbers})

    def cells(self):
        values = self.numbers.values()
        if not values:
            return [self.target, self.mode, f"0 of {self.of}", "", "", "", "", ""]
        registers = [value["registers"] for value in values]
        spilling = [value["spill_bytes"] for value in values if value["spill_bytes"]]
        return [self.target, self.mode, f"{len(self.numbers)} of {self.of}", f"{self.seconds:.1f}",
                f"{statistics.median(registers):.0f}, {max(registers)}",
                f"{len(spilling)}, {sum(spilling)}", f"{max(value['stack_bytes'] for value in values)}",
                f"{sum(value.get('code_bytes', 0) for value in values) / 1024:.0f}"]


def jobs_of(document, tools, everything):
    """(row, batch) of all that is compiled, and the rows. Strict kernels for every target; those that only fast
    numerics have for every target with `everything`, else each batch for one of its vendor's."""
    rows, jobs = [], []
    for vendor, targets in TARGETS.items():
        if vendor in tools.missing:
            continue
        for mode in ("strict", "fast"):
            batches = document[vendor][mode]
            for index, target in enumerate(targets):
                if vendor == "nvidia" and target not in tools.nvrtc.architectures:
                    continue
                row = Row(vendor, target, mode)
                row.of = sum(len(batch["names"]) for batch in batches)
                rows.append(row)
                jobs += [(row, batch)
                         for number, batch in enumerate(batches)
                         if mode == "strict" or everything or number % len(targets) == index]
    return rows, jobs


def compile_all(document, tools, everything, workers):
    rows, jobs = jobs_of(document, tools, everything)

    def work(job):
        row, batch = job
        compile_one = tools.nvidia if row.vendor == "nvidia" else tools.amd
        try:
            return compile_one(text_of(row.vendor, document, batch), document[row.vendor]["flags"],
                               [*batch["names"], CANARY_NAME], row.target)
        except compilers.CompileError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for (row, batch), result in zip(jobs, pool.map(work, jobs)):
            if isinstance(result, compilers.CompileError):
                row.problems.append((", ".join(batch["names"]), str(result)))
            else:
                row.add(batch["names"], *result)
    return rows


def check_modules(document, tools):
    """Rows of the SPIR-V: the same module for every device of Intel's."""
    rows = []
    for mode in ("strict", "fast") if "intel" not in tools.missing else ():
        row = Row("intel", "SPIR-V", mode)
        row.of = len(document["intel"][mode])
        for module in document["intel"][mode]:
            (name,), words = module["names"], module["words"]
            said, text = tools.kept.get(["spirv 2", words], lambda: compilers.check_spirv(words))
            row.problems += [(name, sentence) for sentence in [said] if sentence]
            found = rules.scan_spirv(text, module["computes_in_f64"])
            row.problems += [(name, sentence) for sentence in found.get(name, ["has no entry point"])]
            row.numbers[name] = {"registers": 0, "spill_bytes": 0, "stack_bytes": 0, "code_bytes": 4 * len(words)}
        rows.append(row)
    return rows


def markdown(rows, document):
    heads = [
        "target", "numerics", "kernels", "compile s", "registers: median, most", "spilling: kernels, bytes",
        "stack, most", "code KiB"
    ]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = row.cells()
        if row.vendor == "intel":
            cells[3:7] = ["-"] * 4
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "", "The kernels with the most registers and spills of each target, strict:", "",
        "| target | kernel | of | computes | registers | spilled bytes | stack | code bytes |",
        "|---|---|---|---|---|---|---|---|"
    ]
    for row in rows:
        if row.mode != "strict" or row.vendor == "intel":
            continue
        worst = sorted(row.numbers.items(), key=lambda item:
                       (-item[1]["spill_bytes"], -item[1]["registers"], item[0]))[:3]
        for name, value in worst:
            about = document[row.vendor]["kernels"][name]
            ops = about["ops"] if len(about["ops"]) <= 50 else about["ops"][:47] + "..."
            lines.append(
                f"| {row.target} | {name} | {', '.join(about['recordings'])} | {ops} | {value['registers']} | {value['spill_bytes']} | "
                f"{value['stack_bytes']} | {value.get('code_bytes', 0)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build's folder")
    parser.add_argument("--all", action="store_true",
                        help="fast kernels for every target too, not each for one of its vendor's")
    parser.add_argument(
        "--keep", default=os.path.join(
            os.environ.get("CRUCIBLE_CACHE") or os.path.expanduser("~/.cache/crucible"), "compile-checks"),
        help="where what was compiled is kept; '' keeps nothing (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(),
                        help="compilations side by side (default %(default)s)")
    parser.add_argument("--json", type=pathlib.Path, help="write every kernel's numbers there")
    options = parser.parse_args()
    start = time.monotonic()
    tools = Tools(compilers.Kept(options.keep))
    files = options.files or [recordings.recorded(options.build / "crucible", example, 2) for example in EXAMPLES]
    printed = subprocess.run([str(options.build / "print_kernels"), *map(str, files)], check=True,
                             stdout=subprocess.PIPE)
    document = json.loads(printed.stdout)
    rows = compile_all(document, tools, options.all, options.jobs) + check_modules(document, tools)
    print(markdown(rows, document))
    print(f"\nKernels that fast numerics share with strict ones: " +
          ", ".join(f"{vendor} {document[vendor]['shared']}" for vendor in document))
    print(
        f"Compilers: {tools.nvrtc.version if tools.nvrtc else 'no NVRTC'}, {tools.clang.version if tools.clang else 'no clang'}; "
        f"machine code of NVIDIA's {'looked through by nvdisasm' if tools.nvdisasm else 'not looked through: no nvdisasm'}. "
        f"{tools.kept.misses} results made, {tools.kept.hits} kept from before; {time.monotonic() - start:.0f} s in all."
    )
    problems = [(row, name, sentence) for row in rows for name, sentence in row.problems]
    for row, name, sentence in problems:
        about = document[row.vendor]["kernels"].get(name, {})
        print(f"WRONG {row.target} {row.mode} {name} ({about.get('ops', '')}): {sentence}")
    for vendor, reason in tools.missing.items():
        print(f"NOT COMPILED for {vendor}: {reason}")
    if options.json:
        options.json.write_text(
            json.dumps([{"target": row.target, "numerics": row.mode, "seconds": row.seconds, "kernels": row.numbers}
                        for row in rows], indent=1))
    print(
        f"{sum(len(row.numbers) for row in rows)} kernels for {len({row.target for row in rows})} targets, {len(problems)} things wrong"
    )
    return 1 if problems else 4 if tools.missing else 0


if __name__ == "__main__":
    sys.exit(main())
