// Texts that tell of themselves: what is counted, exactly, and that nothing is left of it where it was not asked for.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/emulators/core/grid.hpp"
#include "tests/emulators/core/memory.hpp"
#include "tests/emulators/ptx/load.hpp"

namespace crucible::emulators::ptx {
namespace {

constexpr std::uint32_t kBlocks = 3, kThreads = 64;

/// A kernel of these instructions, with the block's first bytes of `p` in %p and of the next KiB for each thread in %m.
std::string kernel_of(const std::string& body, const std::string& outside = "") {
  return ".version 8.0\n.target sm_90\n.address_size 64\n" + outside + R"(
.visible .entry k(.param .u64 p)
{
  .reg .pred %q<4>; .reg .b16 %h<4>; .reg .b32 %t<8>, %i; .reg .b64 %p, %m, %d<4>;
  .shared .align 4 .b8 inner[256]; .local .align 4 .b8 own[16];
  ld.param.u64 %p, [p]; mov.u32 %i, %ctaid.x; mul.wide.u32 %m, %i, 1048576; add.u64 %p, %p, %m;
  mov.u32 %i, %tid.x; mul.wide.u32 %m, %i, 1024; add.u64 %m, %m, %p;
)" + body + "\n  ret;\n}\n";
}

emulator::Work work_of(const std::string& body, const std::string& outside = "", Telling telling = {.work = true}) {
  auto library = Library::load(translate(kernel_of(body, outside), telling));
  EXPECT_TRUE(library) << library.error();
  emulator::Memory memory(1, 1ull << 30, false);
  const std::uint64_t argument = memory.allocate(0, kBlocks << 20).value();
  emulator::Observed observed;
  const emulator::Launch launch = {{kBlocks, 1, 1}, {kThreads, 1, 1}, 0, reinterpret_cast<const char*>(&argument)};
  EXPECT_EQ(emulator::run_grid(library->code(0), launch, nullptr, &observed), emulator::Outcome::kDone) << body;
  return observed.work;
}

/// Bytes by one block.
std::uint64_t bytes_of(const std::string& body) { return work_of(body).memory_bytes / kBlocks; }

/// Operations by one thread.
std::array<std::uint64_t, emulator::kUnits> operations_of(const std::string& body, const std::string& outside = "") {
  auto operations = work_of(body, outside).operations;
  for (std::uint64_t& count : operations) count /= std::uint64_t{kBlocks} * kThreads;
  return operations;
}

constexpr std::array<std::uint64_t, emulator::kUnits> per_thread(std::uint64_t f64, std::uint64_t f32,
                                                                 std::uint64_t f16, std::uint64_t bf16) {
  return {f64, f32, f16, bf16};
}

std::array<std::uint64_t, emulator::kUnits> of_matrix_unit(emulator::Unit unit, std::uint64_t operations) {
  std::array<std::uint64_t, emulator::kUnits> all = {};
  all[static_cast<std::size_t>(unit)] = operations;
  return all;
}

TEST(PtxObservation, DistinctLinesOfABlock) {
  EXPECT_EQ(bytes_of("ld.global.u32 %t1, [%p];"), 128u) << "all threads the same";
  EXPECT_EQ(bytes_of("ld.global.u32 %t1, [%m];"), 128u * kThreads) << "each its own";
  EXPECT_EQ(bytes_of("ld.global.u32 %t1, [%m]; ld.global.u32 %t1, [%m+64];"), 128u * kThreads) << "a line is read once";
  EXPECT_EQ(bytes_of("ld.global.u32 %t1, [%m]; st.global.u32 [%m], %t1;"), 256u * kThreads)
      << "reading and writing are two";
  EXPECT_EQ(
      bytes_of("ld.global.v4.u32 {%t1, %t2, %t3, %t4}, [%p+112]; ld.global.v4.u32 {%t1, %t2, %t3, %t4}, [%p+128];"),
      256u);
  EXPECT_EQ(bytes_of("ld.u32 %t1, [%m];"), 128u * kThreads) << "a generic address";
  EXPECT_EQ(bytes_of("red.global.add.u32 [%p], 1;"), 256u) << "an atomic operation does both";
}

TEST(PtxObservation, AGuardedInstructionCountsWhereItRuns) {
  EXPECT_EQ(bytes_of("setp.lt.u32 %q1, %i, 5; @%q1 ld.global.u32 %t1, [%m]; @!%q1 mul.f32 %t2, %t1, %t1;"), 5u * 128);
}

TEST(PtxObservation, MemoryInsideABlockIsNoTraffic) {
  EXPECT_EQ(bytes_of("st.shared.u32 [inner+4], %i; ld.shared.u32 %t1, [inner+4]; st.local.u32 [own], %i; ld.local.u32 "
                     "%t1, [own];"),
            0u);
  EXPECT_EQ(
      bytes_of(
          "cvta.shared.u64 %d1, 8; st.u32 [%d1], %i; mov.u64 %d2, own; cvta.local.u64 %d2, %d2; ld.u32 %t1, [%d2];"),
      0u)
      << "behind generic addresses";
}

TEST(PtxObservation, AsynchronousCopiesReadTheOuterSide) {
  EXPECT_EQ(bytes_of("cp.async.ca.shared.global [inner], [%m], 16; cp.async.wait_all;"), 128u * kThreads);
}

TEST(PtxObservation, AsynchronousCopiesOfAFunctionThatIsCalled) {
  const std::string function = R"(
.func copy(.param .b64 from)
{
  .reg .b64 %x; .reg .b32 %to; ld.param.b64 %x, [from]; mov.u32 %to, 0; cp.async.ca.shared.global [%to], [%x], 4; cp.async.wait_all; ret;
})";
  const std::string call = "{ .param .b64 in; st.param.b64 [in], %m; call copy, (in); }";
  EXPECT_EQ(work_of(call, function).memory_bytes, 128u * kThreads * kBlocks);
}

TEST(PtxObservation, AMatrixInstructionCountsALanesPart) {
  const std::string four = "{%t1,%t2,%t3,%t4}", two = "{%t5,%t6}";
  EXPECT_EQ(operations_of("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " + four + "," + four + "," + two + "," +
                          four + ";"),
            of_matrix_unit(emulator::Unit::kMatrixBF16, 128));
  EXPECT_EQ(
      operations_of("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 " + two + "," + two + ",{%t1}," + two + ";"),
      of_matrix_unit(emulator::Unit::kMatrixF16, 64));
  EXPECT_EQ(operations_of("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 " + four + "," + four + "," + two + "," +
                          four + ";"),
            of_matrix_unit(emulator::Unit::kMatrixTF32, 64));
  EXPECT_EQ(operations_of("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 " + four + "," + four + "," + two + "," +
                          four + ";"),
            per_thread(0, 0, 0, 0));
  EXPECT_EQ(bytes_of("ldmatrix.sync.aligned.m8n8.x4.shared.b16 " + four + ", [inner];"), 0u);
}

TEST(PtxObservation, OperationsByFormat) {
  EXPECT_EQ(operations_of("add.f32 %t1, %t2, %t3; mul.rn.f32 %t1, %t1, %t1; fma.rn.f32 %t1, %t1, %t1, %t2;"),
            per_thread(0, 4, 0, 0));
  EXPECT_EQ(operations_of("fma.rn.f64 %d1, %d1, %d1, %d2; div.rn.f64 %d1, %d1, %d1;"), per_thread(3, 0, 0, 0));
  EXPECT_EQ(operations_of("fma.rn.f16x2 %t1, %t1, %t1, %t2; add.f16 %h1, %h1, %h1;"), per_thread(0, 0, 5, 0));
  EXPECT_EQ(operations_of("fma.rn.bf16x2 %t1, %t1, %t1, %t2;"), per_thread(0, 0, 0, 4));
  EXPECT_EQ(operations_of(
                "ex2.approx.ftz.f32 %t1, %t1; sqrt.rn.f32 %t1, %t1; rcp.rn.f32 %t1, %t1; div.full.f32 %t1, %t1, %t1;"),
            per_thread(0, 4, 0, 0));
  EXPECT_EQ(operations_of("red.global.add.f32 [%m], %t1;"), per_thread(0, 1, 0, 0));
}

TEST(PtxObservation, WhatIsNoArithmeticOfFloatsIsNotCounted) {
  EXPECT_EQ(
      operations_of(
          "add.u32 %t1, %t1, %t2; mad.lo.s32 %t1, %t1, %t1, %t2; setp.lt.f32 %q1, %t1, %t2; max.f32 %t1, %t1, %t2; "
          "neg.f32 %t1, %t1; cvt.rn.f32.s32 %t1, %t1; mov.f32 %t1, %t2;"),
      per_thread(0, 0, 0, 0));
}

TEST(PtxObservation, KernelsThatMeetAndFunctionsThatAreCalledCountToo) {
  EXPECT_EQ(operations_of("add.f32 %t1, %t1, %t1; bar.sync 0; add.f32 %t1, %t1, %t1;"), per_thread(0, 2, 0, 0));
  const std::string function = R"(
.func (.param .b32 r) twice(.param .b32 a)
{
  .reg .b32 %x; ld.param.b32 %x, [a]; add.f32 %x, %x, %x; st.param.b32 [r], %x; ret;
})";
  EXPECT_EQ(operations_of("{ .param .b32 in; .param .b32 out; st.param.b32 [in], %t1; call (out), twice, (in); "
                          "ld.param.b32 %t1, [out]; }",
                          function),
            per_thread(0, 1, 0, 0));
}

TEST(PtxObservation, NothingIsLeftOfItUnlessItIsAskedFor) {
  const std::string body = "ld.global.f32 %t1, [%m]; add.f32 %t1, %t1, %t1; st.global.f32 [%m], %t1;";
  const std::string plain = translate(kernel_of(body)).text, telling = translate(kernel_of(body), {.work = true}).text;
  EXPECT_EQ(plain.find("observe("), std::string::npos);
  EXPECT_EQ(plain.find("b->observer"), std::string::npos);
  EXPECT_NE(telling.find("observe("), std::string::npos);
  const emulator::Work none = work_of(body, "", {});
  EXPECT_EQ(none.memory_bytes, 0u);
  EXPECT_EQ(none.operations, (per_thread(0, 0, 0, 0)));
}

}  // namespace
}  // namespace crucible::emulators::ptx
