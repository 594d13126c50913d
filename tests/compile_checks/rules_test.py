"""The rules see what they are for: planted flags and functions, compiled by the real compilers where they are, and
texts where not."""

import base64
import pathlib
import tempfile
import unittest

import compilers
import rules
from compile_checks import CANARY, CANARY_NAME, KERNEL_WORD

NVRTC_FLAGS = ["--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"]
CUDA = """
#define __builtin_sqrtf(a) sqrtf(a)
#define __builtin_sqrt(a) sqrt(a)
"""
HIP_FLAGS = ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-O3", "-w"]
SPIRV = """OpCapability Addresses
OpCapability Kernel
OpMemoryModel Physical64 OpenCL
OpEntryPoint Kernel %1 "k"
OpExecutionMode %1 ContractionOff
"""


def words_of(found):
    return " ".join(sentence for sentences in found.values() for sentence in sentences)


class Texts(unittest.TestCase):
    """What is seen in a text, without a compiler."""

    def test_a_kernel_fuses_when_a_function_that_it_calls_does(self):
        text = 'int used(float a) { return fmaf(a, a, a); } int between(float a) { return used(a); } extern "C" void k(float a) { between(a); } void other() {}'
        self.assertEqual(rules.kernels_that_fuse(text, ["k", "other"]), {"k"})

    def test_ptx(self):
        for line, words in {
                "add.ftz.f32": "flushes", "div.full.f32": "approximation", "ex2.approx.f32": "approximation",
                "mul.f32": "may be fused", "add.rz.f64": "not rounded to nearest", "fma.rn.f32": "fuses nothing",
                "red.global.add.f32": "threads arrive",
                "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32": "order of its own"
        }.items():
            found = rules.scan_ptx(f".visible .entry k(\n{{\n\t{line} \t%f1, %f2;\n}}", set())
            self.assertIn(words, words_of(found), line)
            self.assertIn("k", found)
        good = ".visible .entry k(\n\tadd.rn.f32 %f1;\n\t@%p1 mul.rn.f64 %d1;\n\tfma.rn.f32 %f3;\n\tadd.s32 %r1;\n\tmad.lo.s32 %r2;\n\tdiv.rn.f32 %f4;\n\tcvt.rn.f32.s32 %f5;"
        self.assertEqual(rules.scan_ptx(good, {"k"}), {"k": []})

    def test_assembly_of_amd(self):
        for line, words in {
                "v_exp_f32_e32 v0, v1": "approximation", "v_mad_f32 v0, v1, v2, v3": "flushes",
                "v_rcp_f32_e32 v0, v1": "1 of v_rcp_f32", "v_fma_f32 v0, v1, v2, v3": "fuses nothing",
                "v_dual_fmac_f32 v0, v1, v2 :: v_dual_mul_f32 v3, v4, v5": "fuses nothing",
                "s_denorm_mode 0": "changes how",
                "v_mfma_f32_32x32x8_bf16_1k a[0:15], v[0:1], v[2:3], a[0:15]": "order of its own",
                "global_atomic_add_f32 v0, v1, s[0:1]": "threads arrive", "v_sqrt_f32_e32 v0, v1": "1 of v_sqrt_f32"
        }.items():
            found = rules.scan_amdgcn(f"\t.type\tk,@function\nk:\n\t{line}\n\t.amdhsa_kernel k\n", set())
            self.assertIn(words, words_of(found), line)
        for mode in ("float_round_mode_32 1", "float_denorm_mode_32 0", "float_denorm_mode_16_64 0"):
            self.assertTrue(words_of(rules.scan_amdgcn(f"\t.amdhsa_kernel k\n\t\t.amdhsa_{mode}\n", set())), mode)
        guess = [
            "v_madmk_f32 v4, v5, 0x4f800000, v4", "v_rcp_f32_e32 v4, v4", "v_mul_f32_e32 v4, 0x5f7ffffc, v4",
            "v_madmk_f32 v4, v5, 0xcf800000, v4"
        ]
        kept = "v_mac_f32_e32 v4, s7, v5"  # the second of two divisions has one of the numbers in a register
        for lines, is_division in ((guess, True), (guess[:2], False), ([*guess,
                                                                        "v_madmk_f32 v4, v5, 0x3f800000, v4"], False),
                                   ([kept, *guess[1:]], True), ([kept, *guess], False), ([kept], False)):
            found = rules.scan_amdgcn(
                "\t.type\tk,@function\n" + "".join(f"\t{line}\n" for line in lines) + "\t.amdhsa_kernel k\n", set())
            self.assertEqual(words_of(found) == "", is_division, lines)
        # A division of short integers.
        rest = ["v_rcp_iflag_f32_e32 v3, s28", "v_trunc_f32_e32 v6, v6", "v_mad_f32 v5, -v6, s28, v5"]
        for lines, is_division in ((rest, True), ([*rest, *rest[1:]], True), (rest[1:], False),
                                   ([*rest, rest[2]], False), ([*rest[:2], "v_mad_f32 v5, v6, s28, v5"], False)):
            found = rules.scan_amdgcn(
                "\t.type\tk,@function\n" + "".join(f"\t{line}\n" for line in lines) + "\t.amdhsa_kernel k\n", set())
            self.assertEqual(words_of(found) == "", is_division, lines)
        self.assertEqual(
            rules.scan_amdgcn(
                "\t.type\tk,@function\n\tv_mad_u64_u32 v[0:1], s0, v1\n"
                "\tv_fma_f32 v0, v1, v2, v3\n\t.amdhsa_kernel k\n",
                {"k"}), {"k": []})

    def test_machine_code_of_nvidia(self):
        head = "//--------------------- .text.k   ----\n"
        for line, words in {
                "MUFU.EX2 R1, R2": "approximation", "MUFU.RCP R1, R2": "1 of MUFU.RCP",
                "FMUL.FTZ R1, R2, R3": "1 of .FTZ", "HMMA.16816.F32 R1": "order of its own"
        }.items():
            self.assertIn(words, words_of(rules.scan_sass(head + f"        /*0010*/                   {line} ;")), line)
        divided = head + "        /*0010*/   MUFU.RCP R7, R8 ;\n        /*0020*/   FCHK P0, R3, R8 ;\n$__internal_0_$__cuda_div:\n        /*0030*/  FADD.FTZ R3, R0, 1 ;"
        self.assertEqual(rules.scan_sass(divided), {"k": []})

    def test_spirv(self):
        self.assertEqual(rules.scan_spirv(SPIRV), {"k": []})
        self.assertIn("no execution mode ContractionOff",
                      words_of(rules.scan_spirv(SPIRV.replace("ContractionOff", "ContractionOn"))))
        self.assertIn("reorder", words_of(rules.scan_spirv(SPIRV + "OpDecorate %9 FPFastMathMode AllowRecip\n")))
        self.assertIn("native_exp is an approximation",
                      words_of(rules.scan_spirv(SPIRV + "%9 = OpExtInst %2 %3 native_exp %4\n")))
        self.assertEqual(rules.scan_spirv("OpCapability Float64\n" + SPIRV), {"k": []})
        self.assertIn("asks for Float64",
                      words_of(rules.scan_spirv("OpCapability Float64\n" + SPIRV, computes_in_f64=False)))
        self.assertEqual(rules.scan_spirv(SPIRV + "%9 = OpExtInst %2 %3 vload_half %4\n%8 = OpExtInst %2 %3 fma %4\n"),
                         {"k": []})


class Nvidia(unittest.TestCase):
    """NVRTC with planted flags: what it makes is caught."""

    @classmethod
    def setUpClass(cls):
        if not compilers.find_nvrtc():
            raise unittest.SkipTest("no NVRTC: PyPI's nvidia-cuda-nvrtc")
        cls.nvrtc = compilers.Nvrtc(compilers.find_nvrtc())

    def scan(self, flags, text="", architecture="sm_90"):
        made = self.nvrtc.compile(CUDA + text + CANARY.format(kernel=KERNEL_WORD["nvidia"]),
                                  [*flags, f"--gpu-architecture={architecture}", "--ptxas-options=-v"])
        self.assertIn(CANARY_NAME, compilers.nvidia_numbers(made["log"]))
        found = rules.scan_ptx(made["ptx"], set())
        self.assertIn(CANARY_NAME, found)
        sass = {}
        if compilers.find_nvdisasm():
            sass = rules.scan_sass(
                compilers.disassemble_cubin(compilers.find_nvdisasm(), base64.b64decode(made["cubin"])))
            self.assertIn(CANARY_NAME, sass)
        return words_of(found), words_of(sass)

    def test_the_plugins_flags_break_no_rule(self):
        for architecture in ("sm_80", "sm_90", "sm_100"):
            self.assertEqual(self.scan(NVRTC_FLAGS, architecture=architecture), ("", ""))

    def test_fmad(self):
        self.assertIn("the kernel's text fuses nothing", self.scan(["--fmad=true", *NVRTC_FLAGS[1:]])[0])

    def test_ftz(self):
        self.assertIn("flushes subnormal numbers", self.scan(["--fmad=false", "--ftz=true"])[0])

    def test_fast_division_and_square_root(self):
        ptx, sass = self.scan(["--fmad=false", "--prec-div=false", "--prec-sqrt=false"])
        self.assertIn("is an approximation", ptx)
        if sass:
            self.assertIn("MUFU", sass)

    def test_an_intrinsic(self):
        for call in ("__expf(a[1])", "__fdividef(a[1], a[2])", "__fadd_rz(a[1], a[2])", "__fmaf_rn(a[1], a[2], a[3])"):
            self.assertTrue(
                self.scan(NVRTC_FLAGS, f'extern "C" __global__ void k(float* a) {{ a[0] = {call}; }}')[0], call)


class Amd(unittest.TestCase):
    """clang for AMD's devices with planted flags."""

    @classmethod
    def setUpClass(cls):
        if not compilers.find_clang():
            raise unittest.SkipTest("no clang of version 18 or newer: apt-get install clang-19 lld-19")
        cls.clang = compilers.Clang(compilers.find_clang())

    def scan(self, flags, text="", architectures=("gfx90a", "gfx942", "gfx1100")):
        words = ""
        for architecture in architectures:
            made = self.clang.compile(text + CANARY.format(kernel=KERNEL_WORD["amd"]),
                                      [*HIP_FLAGS, f"--offload-arch={architecture}", *flags], architecture)
            self.assertIn(CANARY_NAME, compilers.amd_numbers(made["assembly"]))
            found = rules.scan_amdgcn(made["assembly"], set())
            self.assertIn(CANARY_NAME, found)
            words += f"{architecture}: {words_of(found)}\n" if words_of(found) else ""
        return words

    def test_the_plugins_flags_break_no_rule(self):
        self.assertEqual(self.scan(["-ffp-contract=off"]), "")

    def test_planted_flags(self):
        for flags, words in ((["-ffp-contract=fast"], "fuses nothing"),
                             (["-ffp-contract=off", "-fgpu-flush-denormals-to-zero"], "flushes subnormal numbers"),
                             (["-ffp-contract=off", "-fno-hip-fp32-correctly-rounded-divide-sqrt"],
                              "rounded"), (["-ffp-contract=off", "-ffast-math", "-ffp-contract=off"], "rounded")):
            found = self.scan(flags)
            for architecture in ("gfx90a", "gfx942", "gfx1100"):
                self.assertIn(architecture, found, flags)
            self.assertIn(words, found, flags)

    def test_an_intrinsic(self):
        for call in ("__builtin_amdgcn_exp2f(a[1])", "__builtin_amdgcn_rcpf(a[1])", "__builtin_amdgcn_sqrtf(a[1])",
                     "__builtin_fmaf(a[1], a[2], a[3])"):
            text = f'extern "C" __attribute__((global)) void k(float* a) {{ a[0] = {call}; }}'
            self.assertTrue(self.scan(["-ffp-contract=off"], text, ["gfx942"]), call)


class Keeping(unittest.TestCase):
    def test_a_damaged_result_is_made_again(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = compilers.Kept(folder)
            self.assertEqual(kept.get(["a"], lambda: 1), 1)
            self.assertEqual(kept.get(["a"], lambda: 2), 1)
            self.assertEqual(kept.get(["b"], lambda: 2), 2)
            for file in pathlib.Path(folder).iterdir():
                file.write_bytes(b"no")
            self.assertEqual(kept.get(["a"], lambda: 3), 3)
            self.assertEqual((kept.hits, kept.misses), (1, 3))


if __name__ == "__main__":
    unittest.main(verbosity=2)
