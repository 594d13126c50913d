// What warps would do, on kernels whose counts are known exactly: sectors, wavefronts, the clock of a warp.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/emulators/core/grid.hpp"
#include "tests/emulators/core/memory.hpp"
#include "tests/emulators/ptx/load.hpp"
#include "tests/emulators/ptx/ptxas.hpp"
#include "tests/emulators/ptx/warp_model.hpp"

namespace crucible::emulators::ptx {
namespace {

constexpr std::uint64_t kBytes = 1 << 20;

/// A kernel of these instructions: %p the buffer, %i the thread, %b the block, %a the buffer and 4 bytes a thread.
std::string kernel_of(const std::string& body) {
  return R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{
  .reg .pred %q<8>; .reg .b16 %h<8>; .reg .b32 %t<16>, %i, %b; .reg .b64 %p, %a, %d<8>;
  .shared .align 16 .b8 inner[8192]; .local .align 4 .b8 own[64];
  ld.param.u64 %p, [p]; mov.u32 %i, %tid.x; mov.u32 %b, %ctaid.x; mul.wide.u32 %a, %i, 4; add.u64 %a, %a, %p;
)" + body +
         "\n  ret;\n}\n";
}

struct Shape {
  std::uint32_t blocks = 1, threads = 32;
};

/// Of the blocks that are sampled, in their order.
std::vector<BlockCounts> count(const std::string& body, Shape shape = {}) {
  auto library = Library::load(translate(kernel_of(body), {.warps = true}));
  EXPECT_TRUE(library) << library.error();
  emulator::Memory memory(1, 1ull << 30, false);
  const std::uint64_t argument = memory.allocate(0, kBytes).value();
  std::memset(emulator::host_address(argument), 0, kBytes);
  std::map<std::uint64_t, BlockCounts> counted;
  const emulator::Launch launch = {
      {shape.blocks, 1, 1}, {shape.threads, 1, 1}, 0, reinterpret_cast<const char*>(&argument)};
  const emulator::KernelCode code = library->code(0);
  const emulator::Sampling sampling = {code, sampled_blocks(shape.blocks), true,
                                       [&](std::uint64_t block, const emulator::LaneWords& words) {
                                         counted[block] = count_block(library->translation().kernels[0].warps, words);
                                       }};
  EXPECT_EQ(emulator::run_grid(code, launch, nullptr, nullptr, &sampling), emulator::Outcome::kDone) << body;
  std::vector<BlockCounts> all;
  for (auto& [block, counts] : counted) {
    EXPECT_TRUE(counts.complete);
    all.push_back(std::move(counts));
  }
  return all;
}

WarpCounts counts_of(const std::string& body, Shape shape = {}) { return count(body, shape).at(0).counts; }
double l2_cycles(const std::string& body, Shape shape = {}) { return count(body, shape).at(0).cycles[0]; }

TEST(PtxWarps, SectorsOfARequest) {
  EXPECT_EQ(counts_of("ld.global.f32 %t1, [%a];").load_sectors, 4) << "side by side";
  EXPECT_EQ(counts_of("ld.global.f32 %t1, [%p];").load_sectors, 1) << "all the same";
  EXPECT_EQ(counts_of("mad.wide.u32 %a, %i, 8, %p; ld.global.f32 %t1, [%a];").load_sectors, 8) << "every other one";
  EXPECT_EQ(counts_of("mad.wide.u32 %a, %i, 128, %p; ld.global.f32 %t1, [%a];").load_sectors, 32) << "a line each";
  EXPECT_EQ(counts_of("mad.wide.u32 %a, %i, 2, %p; ld.global.b16 %h1, [%a];").load_sectors, 2) << "halves";
  EXPECT_EQ(counts_of("ld.global.f32 %t1, [%a+16];").load_sectors, 5) << "not at a sector's begin";
  const WarpCounts wide =
      counts_of("mad.wide.u32 %a, %i, 16, %p; ld.global.v4.f32 {%t1, %t2, %t3, %t4}, [%a]; st.global.u8 [%p], %h1;");
  EXPECT_EQ(wide.load_sectors, 16);
  EXPECT_EQ(wide.load_requests, 1);
  EXPECT_EQ(wide.wide_requests, 1);
  EXPECT_EQ(wide.load_bytes, 512);
  EXPECT_EQ(wide.store_sectors, 1);
  EXPECT_EQ(wide.store_bytes, 32);
}

TEST(PtxWarps, GuardsAndBranchesCountWhoIsThere) {
  const std::string few = "setp.lt.u32 %q1, %i, 8; ";
  EXPECT_EQ(counts_of(few + "@%q1 ld.global.f32 %t1, [%a];").load_sectors, 1);
  EXPECT_EQ(counts_of(few + "@!%q1 ld.global.f32 %t1, [%a];").load_sectors, 3);
  EXPECT_EQ(counts_of(few + "@!%q1 bra L; ld.global.f32 %t1, [%a]; L: st.global.f32 [%a], %t1;").load_sectors, 1);
  const WarpCounts behind = counts_of(few + "@%q1 ld.global.f32 %t1, [%a]; st.global.f32 [%a+512], %t1;");
  EXPECT_EQ(behind.load_sectors, 1) << "a lane that does not load is not out of step";
  EXPECT_EQ(behind.store_sectors, 4);
  EXPECT_EQ(counts_of("setp.lt.u32 %q1, %i, 99; @!%q1 ld.global.f32 %t1, [%a];").load_requests, 0);
  const WarpCounts apart = counts_of(few +
                                     "@%q1 bra L; ld.global.f32 %t1, [%a]; bra M; L: ld.global.f32 %t1, [%a+512]; "
                                     "M: st.global.f32 [%a], %t1;");
  EXPECT_EQ(apart.load_requests, 2) << "one after the other";
  EXPECT_EQ(apart.store_requests, 1) << "and together again";
  EXPECT_EQ(apart.store_sectors, 4);
}

TEST(PtxWarps, LoopsCountEachTurn) {
  // Lane i goes round i % 4 + 1 times.
  const WarpCounts loop = counts_of(
      "and.b32 %t1, %i, 3; L: ld.global.f32 %t2, [%a]; setp.eq.u32 %q1, %t1, 0; sub.u32 %t1, %t1, 1; @!%q1 bra L;");
  EXPECT_EQ(loop.load_requests, 4);
  EXPECT_EQ(loop.load_bytes, 4.0 * (32 + 24 + 16 + 8));
  EXPECT_EQ(loop.l1_sectors, 12) << "the line was here";
}

TEST(PtxWarps, BanksOfSharedMemory) {
  const auto wavefronts = [](const std::string& stride) {
    return counts_of("mul.lo.u32 %t1, %i, " + stride +
                     "; mov.u32 %t2, inner; add.u32 %t1, %t1, %t2; ld.shared.u32 "
                     "%t3, [%t1];")
        .shared_wavefronts;
  };
  EXPECT_EQ(wavefronts("0"), 1);
  EXPECT_EQ(wavefronts("4"), 1);
  EXPECT_EQ(wavefronts("8"), 2);
  EXPECT_EQ(wavefronts("128"), 32);
  EXPECT_EQ(wavefronts("132"), 1);
  EXPECT_EQ(counts_of("mul.lo.u32 %t1, %i, 16; mov.u32 %t2, inner; add.u32 %t1, %t1, %t2; ld.shared.v4.u32 {%t3, %t4, "
                      "%t5, %t6}, [%t1];")
                .shared_wavefronts,
            4);
  const WarpCounts generic = counts_of("cvta.shared.u64 %d1, 0; ld.u32 %t1, [%d1]; st.local.u32 [own], %i;");
  EXPECT_EQ(generic.shared_requests, 1) << "wherever the address leads";
  EXPECT_EQ(generic.load_requests, 0);
  EXPECT_EQ(generic.local_requests, 1);
  EXPECT_EQ(generic.local_sectors, 4);
}

TEST(PtxWarps, ExchangeAndBarriers) {
  const WarpCounts counts = counts_of(
      "shfl.sync.bfly.b32 %t1, %i, 1, 31, -1; bar.warp.sync -1; bar.sync 0; bar.sync 0;", {.blocks = 1, .threads = 96});
  EXPECT_EQ(counts.shuffles, 3);
  EXPECT_EQ(counts.warp_barriers, 3);
  EXPECT_EQ(counts.barriers, 6);
  const WarpCounts atomic = counts_of("red.global.add.u32 [%a], 1;");
  EXPECT_EQ(atomic.atomic_requests, 1);
  EXPECT_EQ(atomic.atomic_sectors, 4);
}

TEST(PtxWarps, TheClockOfAWarp) {
  std::string chain;
  for (int i = 0; i < 100; ++i) chain += "add.u32 %t1, %t1, 1; ";
  const double none = l2_cycles("st.global.u32 [%a], %t1;");
  EXPECT_DOUBLE_EQ(l2_cycles("mov.u32 %t1, 0; " + chain + "st.global.u32 [%p], %t1;"), 450) << "4.5 cycles each";
  EXPECT_LT(none, 20);
  const auto with = [&](const std::string& body) {
    return l2_cycles(body) - l2_cycles("ld.global.f32 %t1, [%p]; st.global.f32 [%p+512], %t1;");
  };
  EXPECT_DOUBLE_EQ(l2_cycles("ld.global.f32 %t1, [%p]; st.global.f32 [%p+512], %t1;"), 270);
  EXPECT_LT(
      with(
          "ld.global.f32 %t1, [%p]; ld.global.f32 %t2, [%p+1024]; add.u32 %t1, %t1, %t2; st.global.f32 [%p+512], %t1;"),
      10)
      << "two loads take as long as one";
  EXPECT_GE(with("ld.global.f32 %t1, [%p]; st.global.f32 [%p+512], %t1; ld.global.f32 %t2, [%p+1024]; st.global.f32 "
                 "[%p+512], %t2;"),
            270)
      << "a store between them";
  EXPECT_GE(
      with(
          "ld.global.u64 %d1, [%p]; add.u64 %d1, %d1, %p; ld.global.u32 %t1, [%d1+1024]; st.global.f32 [%p+512], %t1;"),
      270)
      << "the second needs the first";
  EXPECT_EQ(count("ld.global.f32 %t1, [%p]; st.global.f32 [%p+512], %t1;").at(0).cycles[1], 800) << "from memory";
}

TEST(PtxWarps, ABarrierWaitsForTheLastWarp) {
  const std::string late =
      "setp.lt.u32 %q1, %i, 32; @!%q1 bra L; ld.global.f32 %t1, [%p]; st.global.f32 [%p+512], %t1; L: ";
  const std::string early =
      "setp.lt.u32 %q1, %i, 32; @%q1 bra M; ld.global.f32 %t2, [%p+1024]; st.global.f32 [%p+512], %t2; M: ";
  const Shape two = {.blocks = 1, .threads = 64};
  EXPECT_LT(l2_cycles(late + early, two), 2 * 270) << "each warp one load";
  EXPECT_GE(l2_cycles(late + "bar.sync 0; " + early, two), 2 * 270) << "one after the other";
}

TEST(PtxWarps, AGridIsItsSampledBlocks) {
  EXPECT_EQ(sampled_blocks(1), (std::vector<std::uint64_t>{0}));
  EXPECT_EQ(sampled_blocks(2), (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(sampled_blocks(101), (std::vector<std::uint64_t>{0, 50, 100}));
  // Block b reads its own 256 bytes and all but the last, which has a warp less, the buffer's first.
  const std::string body =
      "setp.eq.u32 %q1, %b, 99; setp.ge.u32 %q2, %i, 32; and.pred %q1, %q1, %q2; @%q1 ret; mad.wide.u32 %a, %b, 256, "
      "%a; "
      "ld.global.f32 %t1, [%a+1024]; setp.lt.u32 %q3, %b, 99; @%q3 ld.global.f32 %t2, [%p];";
  const LaunchCounts whole =
      extrapolate({.blocks = 100, .threads = 64, .registers = 32}, count(body, {.blocks = 100, .threads = 64}));
  EXPECT_TRUE(whole.complete);
  EXPECT_DOUBLE_EQ(whole.counts.load_requests, 199 + 2 * 99);
  EXPECT_DOUBLE_EQ(whole.distinct_bytes, 199 * 128 + 32);
  EXPECT_EQ(whole.warps, 200u);
  EXPECT_DOUBLE_EQ(whole.bytes_per_lane(), 4);
  EXPECT_EQ(whole.rounds, 1);
  const LaunchCounts full = extrapolate({.blocks = 132 * 8 + 1, .threads = 256, .registers = 33}, {});
  EXPECT_FALSE(full.complete) << "nobody looked";
  EXPECT_EQ(full.rounds, 2) << "40 registers: 48 warps, six blocks";
  EXPECT_EQ(full.warps_per_multiprocessor, 48);
}

TEST(PtxWarps, TheLongestTermIsTheTime) {
  LaunchCounts launch = extrapolate({.blocks = 132, .threads = 1024, .registers = 32}, {});
  launch.cycles = {1755, 17550};
  launch.distinct_bytes = 3.35e6;
  EXPECT_DOUBLE_EQ(launch.time(MemoryLevel::kL2).us, 3) << "a microsecond of cycles, and the launch";
  EXPECT_STREQ(launch.time(MemoryLevel::kDram).longest, "latency");
  EXPECT_DOUBLE_EQ(launch.time(MemoryLevel::kDram).factor, 10);
  launch.counts.instructions = 132.0 * 4 * 1755 * 20;
  EXPECT_STREQ(launch.time(MemoryLevel::kDram).longest, "issue");
  EXPECT_DOUBLE_EQ(launch.time(MemoryLevel::kDram).us, 22);
  EXPECT_DOUBLE_EQ(launch.time(MemoryLevel::kDram, 335e6).bound_us, 100);
  EXPECT_STREQ(launch.time(MemoryLevel::kDram, 335e6).longest, "memory");
  launch.counts.shared_wavefronts = 132.0 * 1755 * 30;
  EXPECT_STREQ(launch.time(MemoryLevel::kL2).longest, "shared");
  launch.counts.load_sectors = 5.5e6 / 32 * 40;
  EXPECT_DOUBLE_EQ(launch.time(MemoryLevel::kL2).us, 42);
}

TEST(PtxWarps, WhatPtxasSaysIsRead) {
  const auto numbers = read_ptxas(
      "info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90'\n"
      "ptxas info    : Function properties for a\n"
      "ptxas         .     384 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads\n"
      "ptxas info    : Used 46 registers, used 0 barriers\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90'\n"
      "ptxas info    : Used 8 registers, used 1 barriers, 4096 bytes smem\n");
  ASSERT_EQ(numbers.size(), 2u);
  EXPECT_EQ(numbers.at("a").registers, 46u);
  EXPECT_EQ(numbers.at("a").spilled_bytes, 24u);
  EXPECT_EQ(numbers.at("b").registers, 8u);
  EXPECT_FALSE(ask_ptxas("", "/nowhere/libnvJitLink.so.13"));
}

TEST(PtxWarps, TextsThatDoNotTellSayNothing) {
  EXPECT_EQ(translate(kernel_of("ld.global.f32 %t1, [%a];")).text.find("tell("), std::string::npos);
}

}  // namespace
}  // namespace crucible::emulators::ptx
