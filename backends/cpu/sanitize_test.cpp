// Kernels that check themselves: what each of them does wrong is found and named, nothing is written, and the device
// goes on; what is right runs as it does without.
#include <gmock/gmock.h>

#include "backends/cpu/testing.hpp"
#include "plugins/abi/sized_launch.hpp"

namespace crucible::backend {
namespace {

using testing::HasSubstr;

/// Buffer 0 may be written, buffer 1 only read; s[0] is an index or a number.
constexpr const char* kTexts[][2] = {
    {"k_store", "*(float*)((float*)b[0] + (long)s[0]) = 1;"},
    {"k_load", "((float*)b[0])[0] = ((const float*)b[1])[(long)s[0]];"},
    {"k_store_to_operand", "((float*)b[1])[0] = 1;"},
    {"k_wide", "for (long i = 0; i < (long)s[0]; ++i) ((float*)b[0])[i] = ((const float*)b[1])[i] + 1;"},
    {"k_copy", "__builtin_memcpy(b[0], b[1], (unsigned long)s[0]);"},
    {"k_set", "__builtin_memset(b[0], 7, (unsigned long)s[0]);"},
    {"k_scratch",
     "float t[16]; for (long i = 0; i < 16; ++i) t[i] = ((const float*)b[1])[i]; ((float*)b[0])[0] = t[(long)s[0]];"},
    {"k_shift", "((int*)b[0])[0] = 1 << (int)s[0];"},
    {"k_add", "((int*)b[0])[0] = 2147483647 + (int)s[0];"},
    {"k_divide", "((int*)b[0])[0] = 6 / (int)s[0];"},
    {"k_scalar", "((double*)b[0])[0] = s[1];"},
    {"k_table", "static const float table[] = {1, 2, 4, 8}; ((float*)b[0])[0] = table[(long)s[0] & 3];"},
};

/// Where the kernel's body has s and b.
std::string text_of(const std::string& name, const std::string& body) {
  return "void " + name +
         "(void* const* b, const double* s, long begin, long end) {\n  for (long item = begin; item < end; ++item) {" +
         body + "}\n}\n";
}

class Sanitize : public CpuTest {
 protected:
  void SetUp() override {
    if (!has_clang()) GTEST_SKIP() << "no clang on this machine";
    if (shared_cache_ == nullptr) shared_cache_ = std::make_unique<TemporaryFolder>();
    in_c_.emplace(shared_cache_->path());
    device_ = open({{"sanitize", "true"}, {"threads", "2"}, {"compiler", in_c_->compiler()}},
                   keep_in(shared_cache_->path() / "store"));
    std::vector<KernelSource> kernels;
    for (const auto& [name, body] : kTexts) kernels.push_back(in_c_->add(name, text_of(name, body)));
    module_.emplace(take(Module::compile(device_, kernels)));
    // Both lie in one allocation, as in an arena, with something between them that belongs to neither.
    arena_.emplace(make_buffer(device_, 4096));
    const std::vector<float> threes(1024, 3.0F);
    CRUCIBLE_ASSERT_OK(arena_->write(0, std::as_bytes(std::span(threes))));
  }
  static void TearDownTestSuite() { shared_cache_.reset(); }

  /// Before another device is opened with other options.
  void close() {
    module_.reset();
    arena_.reset();
    device_.reset();
  }

  static constexpr std::uint64_t kBytes = 64, kOperand = 1024;

  /// "" or the error's words.
  std::string run(const char* name, double number, std::int64_t grid = 1, bool has_sizes = true) {
    OpList list;
    std::vector<crucible_scalar> scalars = {fixed(number)};
    if (has_sizes) {
      scalars.push_back({abi::buffer_bits(kBytes, true), abi::kBufferBytesSlot, CRUCIBLE_SCALAR_I64});
      scalars.push_back({abi::buffer_bits(kBytes, false), abi::kBufferBytesSlot, CRUCIBLE_SCALAR_I64});
    }
    list.launch(take(module_->kernel(name)), {arena_->address(), arena_->address() + kOperand}, grid, 1, scalars);
    Plan plan = take(Plan::build(device_, list.ops(), 0));
    const auto ran = plan.replay();
    return ran ? "" : ran.error().message;
  }
  float at(std::size_t index) const { return download<float>(*arena_, 1024)[index]; }

  std::optional<KernelsInC> in_c_;
  std::shared_ptr<Device> device_;
  std::optional<Module> module_;
  std::optional<Buffer> arena_;
  static inline std::unique_ptr<TemporaryFolder> shared_cache_;
};

TEST_F(Sanitize, WhatIsRightRuns) {
  EXPECT_EQ(run("k_store", 15), "");
  EXPECT_EQ(at(15), 1);
  for (const char* name : {"k_load", "k_wide", "k_copy", "k_set", "k_scratch", "k_shift", "k_divide", "k_table"})
    EXPECT_EQ(run(name, 3), "") << name;
  EXPECT_EQ(run("k_wide", 16), "");
  EXPECT_EQ(run("k_copy", 64), "");
}

TEST_F(Sanitize, AnAccessBesideItsBufferIsFoundAndDoesNotHappen) {
  EXPECT_THAT(
      run("k_store", 16),
      HasSubstr("sanitize: kernel k_store writes 4 bytes, 64 bytes behind the start of its buffer 0 of 64 bytes"));
  EXPECT_EQ(at(16), 3);
  EXPECT_THAT(run("k_store", 100), HasSubstr("writes 4 bytes"));  // inside of the arena
  EXPECT_THAT(run("k_store", -1), HasSubstr("4 bytes before its buffer 0"));
  EXPECT_THAT(run("k_store", 1 << 20), HasSubstr("writes 4 bytes"));  // outside of it
  EXPECT_THAT(run("k_load", 16), HasSubstr("k_load reads 4 bytes, 64 bytes behind the start of its buffer 1"));
  EXPECT_THAT(run("k_wide", 17), HasSubstr("k_wide "));
  EXPECT_THAT(run("k_wide", 64), HasSubstr("k_wide "));
  EXPECT_THAT(run("k_copy", 65), HasSubstr("k_copy reads 65 bytes"));
  EXPECT_THAT(run("k_set", 65), HasSubstr("k_set writes 65 bytes"));
  for (std::size_t i = 17; i < 256; ++i) EXPECT_EQ(at(i), 3) << i;
  EXPECT_EQ(run("k_store", 15), "");  // the device goes on
}

TEST_F(Sanitize, WhatMayOnlyBeReadIsNotWritten) {
  EXPECT_THAT(run("k_store_to_operand", 0),
              HasSubstr("writes 4 bytes at byte 0 of its buffer 1, which it may only read"));
  EXPECT_EQ(at(kOperand / 4), 3);
}

TEST_F(Sanitize, ScratchAndScalarsHaveBoundsToo) {
  EXPECT_THAT(run("k_scratch", 16), HasSubstr("k_scratch indexes an array outside of it"));
  EXPECT_THAT(run("k_scalar", 0), HasSubstr("k_scalar reads 8 bytes"));
}

TEST_F(Sanitize, WhatCLeavesUndefinedIsNamed) {
  EXPECT_THAT(run("k_shift", 32), HasSubstr("k_shift shifts by less than zero or by all bits"));
  EXPECT_THAT(run("k_add", 1), HasSubstr("k_add adds signed integers beyond their range"));
  EXPECT_THAT(run("k_divide", 0), HasSubstr("k_divide divides integers by zero"));
  EXPECT_THAT(run("k_shift", 1e300), HasSubstr("k_shift converts a float to an integer that cannot hold it"));
}

TEST_F(Sanitize, EachThreadIsWatched) {
  EXPECT_THAT(run("k_store", 16, 64), HasSubstr("k_store writes 4 bytes"));
  EXPECT_EQ(run("k_store", 15, 64), "");
}

TEST_F(Sanitize, AHostThatGivesNoSizesHasUndefinedOperationsFound) {
  EXPECT_EQ(run("k_store", 16, 1, false), "");
  EXPECT_THAT(run("k_shift", 32, 1, false), HasSubstr("k_shift shifts"));
}

TEST_F(Sanitize, KernelsThatDoNotCheckAreOthers) {
  close();
  const auto plain = open({{"compiler", in_c_->compiler()}}, keep_in(shared_cache_->path() / "store"));
  const std::vector<KernelSource> kernels = {in_c_->add("k_store", text_of("k_store", kTexts[0][1]))};
  const Module module = take(Module::compile(plain, kernels));
  const Buffer buffer = make_buffer(plain, 4096);
  OpList list;
  list.launch(take(module.kernel("k_store")), {buffer.address()}, 1, 1, {fixed(100)});
  Plan plan = take(Plan::build(plain, list.ops(), 0));
  CRUCIBLE_ASSERT_OK(plan.replay());
  EXPECT_EQ(download<float>(buffer, 1024)[100], 1);
}

TEST_F(Sanitize, NeedsClang) {
  if (access("/usr/bin/gcc", X_OK) != 0) GTEST_SKIP() << "no gcc on this machine";
  close();
  const auto device = open({{"sanitize", "true"}, {"compiler", "/usr/bin/gcc"}});
  const std::vector<KernelSource> kernels = {in_c_->add("k_store", text_of("k_store", kTexts[0][1]))};
  const auto compiled = Module::compile(device, kernels);
  ASSERT_FALSE(compiled);
  EXPECT_THAT(compiled.error().message, HasSubstr("backend.cpu.sanitize"));
}

}  // namespace
}  // namespace crucible::backend
