// What the translator says of texts that it does not take, and what it finds in those that it does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/emulators/ptx/instructions.hpp"
#include "tests/emulators/ptx/ptx.hpp"

namespace crucible::emulators::ptx {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    translate(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// What is wrong with a kernel of this body; its first line is line 2.
std::string refusal_of_body(const std::string& body) {
  return refusal(
      ".version 8.0 .target sm_90 .address_size 64 .visible .entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .b64 "
      "%rd<9>; .reg .pred %q;\n" +
      body + "\n}");
}

TEST(PtxRefusals, NameTheInstructionAndItsLine) {
  EXPECT_EQ(refusal_of_body("ret;\nfrobnicate.u32 %r1, %r2;"),
            "PTX line 3: the emulator has no instruction frobnicate.u32");
  EXPECT_EQ(refusal_of_body("add.rx.f32 %r1, %r2, %r3;"),
            "PTX line 2: the emulator has no instruction add.rx.f32 (it has others of that name)");
  EXPECT_EQ(refusal_of_body("add.u32 %r1, %r2;"), "PTX line 2: add.u32 takes 3 operands, not 2");
  EXPECT_EQ(refusal_of_body("wgmma.fence.sync.aligned;"),
            "PTX line 2: the emulator has no instruction wgmma.fence.sync.aligned");
  EXPECT_EQ(refusal_of_body("tex.1d.v4.f32.s32 {%r1,%r2,%r3,%r4}, [%rd1, {%r5}];"),
            "PTX line 2: the emulator has no textures, surfaces and tensors");
}

TEST(PtxRefusals, NameTheOperand) {
  EXPECT_EQ(refusal_of_body("add.u32 %r1, %r2, %x7;"), "PTX line 2: add.u32: unknown operand %x7");
  EXPECT_EQ(refusal_of_body("add.u32 %r11, %r2, 1;"), "PTX line 2: add.u32: %r11 is no register");
  EXPECT_EQ(refusal_of_body("bra nowhere;"), "PTX line 2: there is no label nowhere");
  EXPECT_EQ(refusal_of_body("ld.global.u32 %r1, %rd1;"), "PTX line 2: ld.global.u32: an operand is no address");
  EXPECT_EQ(refusal_of_body("add.u32 %r1, {%r2}, 1;"),
            "PTX line 2: add.u32: an operand is a list or an address where a value is wanted");
  EXPECT_EQ(refusal_of_body("mov.b32 %r1, 12q4;"), "PTX line 2: '12q4' is no number");
}

TEST(PtxRefusals, NameWhatWasExpected) {
  EXPECT_EQ(refusal_of_body("add.u32 %r1, %r2, %r3"), "PTX line 3: expected ',', found '}'");
  EXPECT_EQ(refusal(".version 8.0\n.target sm_90\n.visible .entry k("),
            "PTX line 3: expected a parameter, found 'the end of the text'");
  EXPECT_EQ(refusal("\n?"), "PTX line 2: the character '?' is not PTX");
  EXPECT_EQ(refusal(".version 8.0\n.alias a, b;"), "PTX line 2: the emulator does not know the directive .alias");
  EXPECT_EQ(refusal(".global .u64 p[1] = {q};"),
            "PTX line 1: the emulator takes numbers alone as first values; p has 'q'");
  EXPECT_EQ(refusal(".extern .global .u32 other;"), "PTX line 1: the variable other is in another module");
}

TEST(PtxRefusals, CallsThatCannotBe) {
  EXPECT_EQ(refusal(".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
                    ".visible .entry k() { { .param .b64 p0; .param .b64 p1; .param .b32 r0; call.uni (r0), vprintf, "
                    "(p0, p1); } ret; }"),
            "PTX line 2: the kernel calls vprintf (printf), which the emulator does not have");
  EXPECT_THAT(refusal(".func f() { bar.sync 0; ret; }\n.visible .entry k() { call.uni f; ret; }"),
              HasSubstr("threads meet in f, which is called"));
}

TEST(PtxFacts, OfAKernel) {
  const Translation made = translate(R"(
.version 8.0
.target sm_90a, texmode_independent
.address_size 64
.const .align 4 .f32 table[2] = {0f3F800000, 0f40000000};
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u32 a, .param .u64 .ptr .global .align 16 b, .param .align 4 .b8 c[12], .param .u8 d)
.maxntid 64, 2, 1
.minnctapersm 2
{
  .local .align 8 .b8 depot[40];
  .shared .align 4 .b8 own[100];
  .reg .b32 %r<5>; .reg .pred %p;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, own;
  .loc 1 2 3, function_name $L, inlined_at 1 2 3
  { .reg .b32 %r1; mov.u32 %r1, dynamic; st.shared.u32 [%r1+4], 7; }
  bar.sync 0;
  st.shared.u32 [%r2], %r1;
  ret;
}
.visible .entry required() .reqntid 32 { ret; })");
  EXPECT_EQ(made.target, "sm_90a");
  ASSERT_EQ(made.kernels.size(), 2u);
  const Kernel& kernel = made.kernels[0];
  EXPECT_EQ(kernel.name, "k");
  ASSERT_EQ(kernel.parameters.size(), 4u);
  EXPECT_EQ(kernel.parameters[1].offset, 8u);
  EXPECT_EQ(kernel.parameters[2].offset, 16u);
  EXPECT_EQ(kernel.parameters[2].size, 12u);
  EXPECT_EQ(kernel.parameters[3].offset, 28u);
  EXPECT_EQ(kernel.parameter_bytes, 29u);
  EXPECT_EQ(kernel.shared_bytes, 112u) << "the dynamic part begins at a multiple of 16";
  EXPECT_EQ(kernel.local_bytes, 48u);
  EXPECT_EQ(kernel.max_threads, 128u);
  EXPECT_EQ(kernel.meetings, 1u);
  EXPECT_EQ(kernel.save_words, 2u) << "%r1 and %r2 live over the barrier, the inner %r1 does not";
  EXPECT_EQ(made.kernels[1].required_block[0], 32u);
  ASSERT_EQ(made.globals.size(), 1u);
  EXPECT_EQ(made.globals[0].name, "table");
  EXPECT_EQ(made.globals[0].bytes, 8u);
}

TEST(PtxTable, MatchesModifiersInOrder) {
  Instruction instruction;
  instruction.opcode = "ld.global.nc.L1::no_allocate.L2::128B.v4.f32";
  instruction.modifiers = {"ld", "global", "nc", "L1::no_allocate", "L2::128B", "v4", "f32"};
  instruction.operands.resize(2);
  const Match match = match_instruction(instruction);
  EXPECT_EQ(match.type, "f32");
  EXPECT_EQ(match.classes.at("VEC"), "v4");
  std::swap(instruction.modifiers[1], instruction.modifiers[5]);
  EXPECT_THROW(match_instruction(instruction), Error);
}

}  // namespace
}  // namespace crucible::emulators::ptx
