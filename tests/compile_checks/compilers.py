"""The vendors' compilers, as programs and libraries that are found here, and what each makes of a text: code,
registers, spills, time.

What a compiler made is kept by its content - compiler, flags, text - in a folder outside the tree, so that a second run
only looks it through again. Times are those of the processor, of the thread or process that compiled, so that other
work on the machine matters little.
"""

import base64
import ctypes
import glob
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import tempfile
import threading
import time
import zlib


class CompileError(Exception):
    """What the compiler said."""


class Kept:
    """Results by key, in files of one folder; a damaged one is made again."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder) if folder else None
        self.hits = self.misses = 0
        self.lock = threading.Lock()
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, key, make):
        digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()
        file = self.folder / f"{digest[:32]}.json.z" if self.folder else None
        if file and file.exists():
            try:
                made = json.loads(zlib.decompress(file.read_bytes()))
                with self.lock:
                    self.hits += 1
                return made
            except (ValueError, zlib.error):
                pass
        made = make()
        with self.lock:
            self.misses += 1
        if file:
            temporary = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
            temporary.write_bytes(zlib.compress(json.dumps(made).encode()))
            temporary.replace(file)
        return made


def run(words, **options):
    """Exit status, both streams, and seconds of the processor that the program and its children took."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, **options)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        return process.returncode, output.read().decode(errors="replace"), usage.ru_utime + usage.ru_stime


def identity(program):
    """Of a file: another version in its place has another one."""
    status = os.stat(program)
    return f"{os.path.basename(program)} {status.st_size} {int(status.st_mtime)}"


# ---- NVIDIA

def packages():
    """Where Python's packages are, torch's among them."""
    folders = [sysconfig.get_path("purelib"), *glob.glob(sysconfig.get_path("purelib") + "/*.pth")]
    more = [pathlib.Path(file).read_text().split() for file in folders[1:]]
    return [folders[0], *[folder for lines in more for folder in lines if os.path.isdir(folder)]]


def find_nvrtc():
    """CRUCIBLE_NVRTC, a file or a folder, or torch's; "" when there is none."""
    named = os.environ.get("CRUCIBLE_NVRTC", "")
    if os.path.isfile(named):
        return named
    patterns = [named] if named else [f"{folder}/nvidia/*/lib" for folder in packages()]
    found = [file for pattern in patterns for file in sorted(glob.glob(pattern + "/libnvrtc.so.*"))]
    return found[0] if found else ""


def find_nvdisasm():
    """The toolkit's, or that which torch's triton has; "" when there is none."""
    found = [shutil.which("nvdisasm"), *glob.glob("/usr/local/cuda*/bin/nvdisasm"),
             *[file for folder in packages() for file in glob.glob(f"{folder}/triton/backends/nvidia/bin/nvdisasm")]]
    return next((file for file in found if file and os.access(file, os.X_OK)), "")


class Nvrtc:
    """NVRTC: CUDA C++ to PTX and machine code in one go. Threads: any."""

    def __init__(self, file):
        self.file = file
        self.library = ctypes.CDLL(file)
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"NVRTC {major.value}.{minor.value}"
        count = ctypes.c_int()
        self.library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        known = (ctypes.c_int * count.value)()
        self.library.nvrtcGetSupportedArchs(known)
        self.architectures = {f"sm_{number}" for number in known}

    def compile(self, text, flags):
        """{ptx, cubin, log, seconds}. Errors: CompileError with NVRTC's words."""
        library, program = self.library, ctypes.c_void_p()
        self.check(library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"crucible.cu", 0, None, None))
        try:
            words = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
            start = time.thread_time()
            status = library.nvrtcCompileProgram(program, len(flags), words)
            seconds = time.thread_time() - start
            log = self.take(program, "ProgramLog").decode(errors="replace").strip("\0\n ")
            if status != 0:
                raise CompileError(f"{self.version} refuses the text with {' '.join(flags)}: {log[:2000]}")
            return {
                "ptx": self.take(program, "PTX").decode().strip("\0"),
                "cubin": base64.b64encode(self.take(program, "CUBIN")).decode(), "log": log, "seconds": seconds
            }
        finally:
            library.nvrtcDestroyProgram(ctypes.byref(program))

    def take(self, program, what):
        size = ctypes.c_size_t()
        self.check(getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        self.check(getattr(self.library, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw[:size.value]

    def check(self, status):
        if status != 0:
            raise CompileError(f"{self.version}: {self.library.nvrtcGetErrorString(status).decode()}")


def nvidia_numbers(log):
    """{kernel: {registers, spill_bytes, stack_bytes, shared_bytes}} of what ptxas says with -v."""
    numbers, kernel = {}, None
    for line in log.splitlines():
        entry = re.search(r"Compiling entry function '([^']+)'", line)
        stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        used = re.search(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?", line)
        if entry:
            kernel = entry.group(1)
            numbers[kernel] = {"registers": 0, "spill_bytes": 0, "stack_bytes": 0, "shared_bytes": 0}
        elif stack and kernel:
            numbers[kernel]["stack_bytes"] = int(stack.group(1))
            numbers[kernel]["spill_bytes"] = int(stack.group(2)) + int(stack.group(3))
        elif used and kernel:
            numbers[kernel]["registers"], numbers[kernel]["shared_bytes"] = int(used.group(1)), int(used.group(2) or 0)
    return numbers


def sections_of(elf):
    """{name: size} of a 64-bit ELF file's sections."""
    def number(at, size):
        return int.from_bytes(elf[at:at + size], "little")

    table, size, count, names = number(0x28, 8), number(0x3A, 2), number(0x3C, 2), number(0x3E, 2)
    texts = number(table + names * size + 0x18, 8)
    found = {}
    for index in range(count):
        head = table + index * size
        begin = texts + number(head, 4)
        found[elf[begin:elf.index(b"\0", begin)].decode()] = number(head + 0x20, 8)
    return found


def disassemble_cubin(nvdisasm, cubin):
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        status, output, _ = run([nvdisasm, "-c", file.name])
    if status != 0:
        raise CompileError(f"{nvdisasm} cannot read a cubin: {output[:500]}")
    return output


# ---- AMD and SPIR-V

def find_clang():
    """A clang of version 18 or newer; "" when there is none."""
    for name in ("clang-19", "clang-20", "clang-21", "clang-22", "clang-18"):
        if shutil.which(name):
            return shutil.which(name)
    return ""


class Clang:
    """clang's amdgcn target: HIP C++ to assembly, and that to a code object. Threads: any."""

    def __init__(self, program):
        self.program = program
        self.version = re.search(r"clang version [\d.]+", run([program, "--version"])[1]).group()

    def compile(self, text, flags, architecture):
        """{assembly, object_bytes, seconds}. Errors: CompileError with clang's words. `flags` are those of a code
        object."""
        with tempfile.TemporaryDirectory() as folder:
            source, assembly, code = (os.path.join(folder, name) for name in ("kernels.hip", "kernels.s", "kernels.co"))
            pathlib.Path(source).write_text(text)
            status, said, seconds = run([
                self.program, *[flag for flag in flags if flag != "--no-gpu-bundle-output"], "-S", source, "-o",
                assembly
            ])
            if status != 0:
                raise CompileError(f"{self.version} refuses the text for {architecture}: {said[:2000]}")
            status, said, more = run(
                [self.program, "-target", "amdgcn-amd-amdhsa", f"-mcpu={architecture}", assembly, "-o", code])
            if status != 0:
                raise CompileError(f"{self.version} makes no code object for {architecture}: {said[:2000]}")
            head = pathlib.Path(code).read_bytes()[:20]
            if head[:4] != b"\x7fELF" or int.from_bytes(head[18:20], "little") != 224:
                raise CompileError(f"{self.version} made no code object for {architecture}")
            return {
                "assembly": pathlib.Path(assembly).read_text(), "object_bytes": os.path.getsize(code),
                "seconds": seconds + more
            }

    def preprocess(self, text, language):
        """The text after its macros, without lines about where it is from."""
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
            file.write(text)
            file.flush()
            status, output, _ = run([self.program, "-E", "-P", "-nostdinc", "-x", "c++", *language, file.name])
        if status != 0:
            raise CompileError(output[:2000])
        return output


def amd_numbers(assembly):
    """{kernel: {registers, spilled, stack_bytes, shared_bytes, code_bytes, waves}} of the metadata and of what clang
    notes."""
    numbers = {}
    for block in re.split(r"\n  - (?=\.a(?:gpr_count|rgs):)", assembly.partition("amdhsa.kernels:")[2])[1:]:
        def value(key, text=block):
            found = re.search(rf"^\s*\.?{key}:\s+(\S+)", text, re.M)
            return found.group(1) if found else "0"

        numbers[value(r"name")] = {
            "registers": int(value("vgpr_count")), "spill_bytes": 4 * int(value("vgpr_spill_count")),
            "spilled_scalars": int(value("sgpr_spill_count")), "stack_bytes": int(value("private_segment_fixed_size")),
            "shared_bytes": int(value("group_segment_fixed_size"))
        }
    for name, notes in re.findall(r"\.size\s+([\w$]+), \.Lfunc_end\d+-\1\n(.*?)(?=\n\s*\.(?:text|section\s+\.rodata))",
                                  assembly, re.S):
        found = re.search(r"; codeLenInByte = (\d+)", notes)
        if name in numbers and found:
            numbers[name]["code_bytes"] = int(found.group(1))
            numbers[name]["waves"] = int((re.search(r"; Occupancy: (\d+)", notes) or [0, 0])[1])
    return numbers


def check_spirv(words):
    """(sentence or "", disassembly) of a module by spirv-val and spirv-dis."""
    with tempfile.NamedTemporaryFile(suffix=".spv") as file:
        file.write(b"".join(word.to_bytes(4, "little") for word in words))
        file.flush()
        # What OpenCL 2.1 takes is SPIR-V 1.0; kernels that demand the size of their sub-groups are newer.
        environment = "opencl2.1" if words[1] <= 0x10000 else "opencl2.2"
        status, said, _ = run(["spirv-val", "--target-env", environment, file.name])
        text = run(["spirv-dis", "--no-color", file.name])[1]
    return ("" if status == 0 else f"spirv-val refuses it: {said.strip()[:500]}"), text
