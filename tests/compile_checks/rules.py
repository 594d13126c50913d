"""What machine code may hold whose results are to be the same everywhere: the rules for PTX, SASS, AMD's assembly and
SPIR-V.

Each function takes a text and gives {kernel: [sentence, ...]}, a sentence per thing that is wrong. The rules are those
of docs/numerics.md: every operation rounded to nearest by itself, nothing flushed to zero, nothing approximated, fused
only what the kernel's own text fuses. Division and square root are instructions in PTX, and sequences of approximations
and corrections in machine code: there an approximation is allowed where the rest of its sequence is.
"""

import collections
import re

FUSED = {"fma", "fmaf", "__builtin_fma", "__builtin_fmaf", "__builtin_elementwise_fma"}


# ---- what a text asks for

def functions_of(text):
    """{name: body} of the functions that a preprocessed C++ text defines at its outermost level."""
    bodies, depth, start, name = {}, 0, 0, None
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|[{}]|[A-Za-z_]\w*(?=\s*\()|;', text):
        word = token.group()
        if word == "{":
            if depth == 0:
                start = token.start()
            depth += 1
        elif word == "}":
            depth -= 1
            if depth == 0 and name:
                bodies[name] = text[start:token.end()]
                name = None
        elif depth == 0 and word == ";":
            name = None
        elif depth == 0 and not word.startswith('"') and word not in ("__attribute__", "__declspec",
                                                                      "__launch_bounds__", "aligned", "vector_size"):
            name = word
    return bodies


def kernels_that_fuse(text, kernels):
    """Those of `kernels` whose preprocessed text calls a fused multiply-add, by itself or in a function that it
    calls."""
    bodies = functions_of(text)
    calls = {name: set(re.findall(r"[A-Za-z_]\w*(?=\s*\()", body)) for name, body in bodies.items()}
    fusing = set()
    for kernel in kernels:
        seen, left = set(), [kernel]
        while left:
            name = left.pop()
            if name in FUSED:
                fusing.add(kernel)
                break
            if name not in seen:
                seen.add(name)
                left.extend(calls.get(name, ()))
    return fusing


# ---- NVIDIA

PTX_ROUNDED = {"add", "sub", "mul", "fma", "mad", "div", "sqrt", "rcp"}
PTX_APPROXIMATE = {"ex2", "lg2", "sin", "cos", "tanh", "rsqrt"}
PTX_MATRIX = re.compile(r"^(wmma|mma|wgmma|tcgen05)\b")


def scan_ptx(text, fusing):
    """PTX as NVRTC writes it; `fusing` names the kernels whose text fuses."""
    found, kernel = collections.defaultdict(list), "(no kernel)"
    for line in text.splitlines():
        entry = re.search(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", line)
        if entry:
            kernel = entry.group(1)
            found[kernel] += []
            continue
        instruction = re.match(r"\s*(?:@!?%\w+\s+)?([a-z][\w.]*)\s", line)
        if not instruction:
            continue
        whole = instruction.group(1)
        name, *words = whole.split(".")
        is_float = any(re.fullmatch(r"f(16|32|64)(x2)?|bf16(x2)?|tf32", word) for word in words)
        if "ftz" in words:
            found[kernel].append(f"{whole} flushes subnormal numbers to zero")
        elif "approx" in words or "full" in words or name in PTX_APPROXIMATE:
            found[kernel].append(f"{whole} is an approximation")
        elif PTX_MATRIX.match(whole) and not any(word in ("s8", "u8", "s4", "u4", "b1") for word in words):
            found[kernel].append(f"{whole} adds products in an order of its own")
        elif is_float and name in PTX_ROUNDED and "rn" not in words:
            found[kernel].append(f"{whole} may be fused with another, or is not rounded to nearest")
        elif is_float and name in ("fma", "mad") and kernel not in fusing:
            found[kernel].append(f"{whole}, and the kernel's text fuses nothing")
        elif name in ("red", "atom") and is_float:
            found[kernel].append(f"{whole} adds in the order in which threads arrive")
    return dict(found)


def scan_sass(text):
    """Machine code as nvdisasm -c writes it. The slow paths of division and square root are functions of NVIDIA's own,
    behind each kernel; they are passed over. .FTZ is on the steps that cannot meet a subnormal number: two of a square
    root, one of a reciprocal."""
    found, kernel, is_inner = collections.defaultdict(list), None, False
    counts = collections.Counter()

    def close():
        if kernel is None:
            return
        reciprocals = counts["FCHK"] + counts["I2F.RP"] + counts["CALL rcp"] + counts["CALL div"]
        for name, most in (("MUFU.RCP", reciprocals), ("MUFU.RSQ", counts["CALL sqrt"]),
                           ("MUFU.RCP64H", counts["CALL rcp"] + counts["CALL div"]),
                           ("MUFU.RSQ64H", counts["CALL sqrt"]), (".FTZ", 2 * counts["MUFU.RSQ"] + counts["MUFU.RCP"])):
            if counts[name] > most:
                found[kernel].append(
                    f"{counts[name]} of {name}, and {most} of them belong to a division or square root that is rounded")

    for line in text.splitlines():
        section = re.match(r"//-+ \.text\.(\S+)", line)
        if section:
            close()
            kernel, is_inner = section.group(1), False
            counts.clear()
            found[kernel] += []
            continue
        if re.match(r"\$__internal_", line):
            is_inner = True
        instruction = re.search(r"/\*[0-9a-f]+\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[\w]+)*)(.*)", line)
        if not instruction or kernel is None or is_inner:
            continue
        name, rest = instruction.groups()
        if name.startswith("MUFU."):
            if name.split(".")[1] not in ("RCP", "RSQ", "RCP64H", "RSQ64H"):
                found[kernel].append(f"{name} is an approximation")
            counts[name] += 1
        elif name.startswith("I2F") and ".RP" in name:
            counts["I2F.RP"] += 1
        elif name == "FCHK":
            counts["FCHK"] += 1
        elif name.startswith("CALL"):
            for word in ("rcp", "div", "sqrt"):
                counts[f"CALL {word}"] += word in rest
        elif ".FTZ" in name and name.split(".")[0] in ("FADD", "FMUL", "FFMA"):
            counts[".FTZ"] += 1
        elif name.split(".")[0] in ("HMMA", "DMMA", "QGMMA", "HGMMA", "UTCHMMA"):
            found[kernel].append(f"{name} adds products in an order of its own")
    close()
    return dict(found)


# ---- AMD

AMD_MODE = {
    "float_round_mode_32": ("0", "rounds otherwise than to nearest"), "float_round_mode_16_64":
        ("0", "rounds otherwise than to nearest"), "float_denorm_mode_32": ("3", "flushes subnormal numbers to zero"),
    "float_denorm_mode_16_64": ("3", "flushes subnormal numbers to zero")
}
AMD_APPROXIMATE = re.compile(
    r"v_(exp|log|sin|cos|rsq)_(legacy_)?f(16|32)|v_(rcp|rsq|log|exp)_(clamp|legacy)_f\d+|v_s_(exp|log|rcp|rsq|sqrt)_f\d+"
)
AMD_UNFUSED = re.compile(
    r"v_(mad|mac|madak|madmk|mad_mix|mad_mixlo|mad_mixhi)(_legacy)?_f(16|32)|v_mul_legacy_f32|v_fma_legacy_f32|v_fmac_legacy_f32"
)
AMD_MATRIX = re.compile(r"v_(mfma|smfmac|wmma|swmmac)_\w*f(8|16|32|64)\w*|v_dot\w*_f(16|32)\w*")
AMD_FUSED = re.compile(r"v_(pk_)?(fma|fmac|fmaak|fmamk)_f(16|32|64)|v_fma_mix\w*")
AMD_WIDE_DIVISION = "0x5f7ffffc"  # a bit less than 2^64: the first guess of a division of 64-bit integers
AMD_WIDE_PARTS = re.compile(
    r"0x[4c]f800000")  # 2^32 and -2^32: the divisor from its halves for that guess, and the guess to its halves
# Division of integers of at most 24 bits: the dividend less the guess, which was cut to a whole number, times the
# divisor. Several divisions by one number share its reciprocal.
AMD_NARROW_REST = re.compile(r"v_mad_f32(_e64)? v\d+, -v\d+, [vs]\d+, [vs]\d+$")


def scan_amdgcn(text, fusing):
    """Assembly as clang -S writes it for one architecture."""
    found, counts, kernel = collections.defaultdict(list), collections.defaultdict(collections.Counter), None
    for line in text.splitlines():
        begin = re.match(r"\s*\.type\s+([\w$.]+),@function", line)
        if begin:
            kernel = begin.group(1)
            continue
        descriptor = re.match(r"\s*\.amdhsa_kernel\s+(\S+)", line)
        if descriptor:
            kernel = descriptor.group(1)
            found[kernel] += []
            continue
        mode = re.match(r"\s*\.amdhsa_(\w+)\s+(\S+)", line)
        if mode and mode.group(1) in AMD_MODE and mode.group(2) != AMD_MODE[mode.group(1)][0]:
            found[kernel].append(f"its {mode.group(1)} is {mode.group(2)}: it {AMD_MODE[mode.group(1)][1]}")
        if not re.match(r"\s+[a-z]+_", line) or kernel is None:
            continue
        for part in line.split(";")[0].split("::"):  # two in one on RDNA 3
            count_amd(part.strip(), found[kernel], counts[kernel])
    for name, counter in counts.items():
        found[name] += amd_sequences(counter, name in fusing)
    return dict(found)


def count_amd(instruction, problems, counter):
    name = re.sub(r"_(e32|e64|dpp|sdwa|e64_dpp)$", "", instruction.split()[0]).replace("v_dual_", "v_")
    if name in ("s_denorm_mode", "s_round_mode") or (name.startswith("s_setreg") and "HW_REG_MODE" in instruction):
        problems.append(f"{name} changes how numbers are rounded or flushed")
    elif AMD_APPROXIMATE.fullmatch(name):
        problems.append(f"{name} is an approximation")
    elif AMD_UNFUSED.fullmatch(name) and (AMD_WIDE_PARTS.search(instruction)
                                          or name == "v_mac_f32"):  # the number may be in a register
        counter["parts"] += 1
    elif AMD_NARROW_REST.match(instruction):
        counter["rests"] += 1
    elif AMD_UNFUSED.fullmatch(name):
        problems.append(f"{name} flushes subnormal numbers, or is no operation of the text")
    elif AMD_MATRIX.fullmatch(name):
        problems.append(f"{name} adds products in an order of its own")
    elif re.fullmatch(r"(global|flat|buffer|ds)_(atomic_)?(pk_)?add_(rtn_)?f\d+", name):
        problems.append(f"{name} adds in the order in which threads arrive")
    counter["fused"] += bool(AMD_FUSED.fullmatch(name))
    for counted in ("v_rcp_f32", "v_rcp_f64", "v_rcp_iflag_f32", "v_sqrt_f32", "v_sqrt_f64", "v_rsq_f64",
                    "v_div_fmas_f32", "v_div_fmas_f64", "v_cmp_class_f32", "v_cmp_class_f64", "v_trunc_f32"):
        counter[counted] += name == counted
    counter["wide"] += AMD_WIDE_DIVISION in instruction


def amd_sequences(counter, may_fuse):
    """Divisions and square roots whose rounding steps are missing, and fused operations that are in none of them."""
    limits = {
        "v_rcp_f32": counter["v_div_fmas_f32"] + counter["wide"], "v_rcp_f64": counter["v_div_fmas_f64"],
        "v_sqrt_f32": counter["v_cmp_class_f32"], "v_rsq_f64": counter["v_cmp_class_f64"], "v_sqrt_f64": 0,
        "parts": 2 * counter["wide"], "rests": counter["v_trunc_f32"] if counter["v_rcp_iflag_f32"] else 0
    }
    problems = [f"{counter[name]} of {name}, and {most} of them belong to a division or square root that is rounded"
                for name, most in limits.items() if counter[name] > most]
    most = (5 * (counter["v_div_fmas_f32"] + counter["v_div_fmas_f64"]) + 2 * counter["v_sqrt_f32"] +
            7 * counter["v_rsq_f64"] + 2 * counter["wide"] + counter["v_rcp_iflag_f32"])
    if not may_fuse and counter["fused"] > most:
        problems.append(
            f"{counter['fused']} fused multiply-adds, {most} of them of divisions and square roots, and the kernel's text fuses nothing"
        )
    return problems


# ---- SPIR-V

def scan_spirv(disassembly, computes_in_f64=True):
    """A module as spirv-dis writes it. Fused is what OpenCL's fma is called for alone, so that the mode of each entry
    point is enough. One whose kernels compute nothing in f64 must run on devices that have none."""
    names = dict(re.findall(r"OpEntryPoint Kernel (%\w+) \"([^\"]+)\"", disassembly))
    found = {name: [] for name in names.values()}
    modes = collections.defaultdict(set)
    for entry, mode in re.findall(r"OpExecutionMode (%\w+) (\w+)", disassembly):
        modes[entry].add(mode)
    for entry, name in names.items():
        if "ContractionOff" not in modes[entry]:
            found[name].append("has no execution mode ContractionOff: products and sums may be fused")
        for mode in modes[entry] & {"DenormFlushToZero", "RoundingModeRTZ"}:
            found[name].append(f"has execution mode {mode}")
    everywhere = [
        f"{line.strip()} lets the driver reorder or approximate"
        for line in re.findall(r"^.*FPFastMathMode.*$", disassembly, re.M)
    ]
    everywhere += [
        f"{word} is an approximation"
        for word in re.findall(r"OpExtInst %\w+ %\w+ ((?:native|half)_\w+|mad)\b", disassembly)
    ]
    if not computes_in_f64 and "OpCapability Float64" in disassembly:
        everywhere.append("asks for Float64 and computes nothing in it")
    for problems in found.values():
        problems += everywhere
    return found if found else {"(module)": ["has no kernel"]}
