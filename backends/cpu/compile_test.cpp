// From kernel IR to running kernels, and the cache on disk: what hits, what must not be trusted, what a user is told
// when clang is missing or does not like the text. Each case has a cache folder of its own.
#include <gmock/gmock.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "backends/cpu/testing.hpp"
#include "core/kernel/ir/ir_builder.hpp"

namespace crucible::backend {
namespace {

using testing::HasSubstr;

/// A kernel that adds `number` to every float.
KernelSource adder(const std::string& name, double number) {
  kernel::IrBuilder b;
  b.add_buffer(DType::kF32, true);
  const kernel::ExprId item = b.open_grid(kernel::LoopMode::kSerial);
  b.store(0, item, b.add(b.let(b.load(0, item)), b.real(number, DType::kF32)));
  b.close();
  return {name, "", kernel::serialize_ir(b.finish())};
}

class CpuCompile : public CpuTest {
 protected:
  void SetUp() override {
    if (!has_clang()) GTEST_SKIP() << "no clang on this machine";
  }
  /// What the kernel makes of zero.
  static float run(const std::shared_ptr<Device>& device, const Module& module, const std::string& name) {
    Buffer buffer = make_buffer(device, 4);
    OpList list;
    list.launch(take(module.kernel(name)), {buffer.address()}, 1);
    Plan plan = take(Plan::build(device, list.ops(), 0));
    EXPECT_TRUE(static_cast<bool>(plan.replay()));
    return download<float>(buffer, 1)[0];
  }
  std::filesystem::path cache() const { return folder_.path() / "cache"; }
};

TEST_F(CpuCompile, RunsWhatTheKernelSays) {
  const auto device = open();
  const std::vector<KernelSource> kernels = {adder("k_one", 1), adder("k_two", 2), adder("k_three", 3),
                                             adder("k_four", 4), adder("k_five", 5)};
  const Module module = take(Module::compile(device, kernels));
  EXPECT_FALSE(module.from_cache());
  EXPECT_GT(module.compile_ns(), 0u);
  EXPECT_EQ(run(device, module, "k_one"), 1);
  EXPECT_EQ(run(device, module, "k_five"), 5);
}

TEST_F(CpuCompile, TakesTheSecondTimeFromTheCache) {
  const auto device = open();
  const std::vector<KernelSource> kernels = {adder("k_a", 1), adder("k_b", 2), adder("k_c", 3), adder("k_d", 4)};
  (void)take(Module::compile(device, kernels));
  const Module again = take(Module::compile(device, kernels));
  EXPECT_TRUE(again.from_cache());
  EXPECT_EQ(run(device, again, "k_d"), 4);
  const std::vector<KernelSource> two = {kernels[2], kernels[0]};  // another batch of the same kernels
  EXPECT_TRUE(take(Module::compile(device, two)).from_cache());
}

TEST_F(CpuCompile, CompilesAnewWhatDiffersInAnyPart) {
  const auto device = open();
  const std::vector<KernelSource> before = {adder("k_a", 1)};
  (void)take(Module::compile(device, before));
  const std::vector<KernelSource> another = {adder("k_a", 2)};
  const Module other = take(Module::compile(device, another));
  EXPECT_FALSE(other.from_cache());
  EXPECT_EQ(run(device, other, "k_a"), 2);
  const Module careful = take(Module::compile(device, before, nullptr, true));
  EXPECT_FALSE(careful.from_cache());
  EXPECT_EQ(run(device, careful, "k_a"), 1);
  EXPECT_TRUE(take(Module::compile(device, before, nullptr, true)).from_cache());
  EXPECT_TRUE(take(Module::compile(device, before)).from_cache());
}

/// Replaces every `before` in a file by `after`, of equal length; how often.
int patch(const std::filesystem::path& path, const std::string& before, const std::string& after) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  int count = 0;
  for (std::size_t at = 0; (at = bytes.find(before, at)) != std::string::npos; ++count) {
    bytes.replace(at, before.size(), after);
  }
  std::ofstream(path, std::ios::binary) << bytes;
  return count;
}

std::string bytes_of(float value) { return {reinterpret_cast<const char*>(&value), sizeof(value)}; }

TEST_F(CpuCompile, DoesNotTrustADamagedObject) {
  const auto device = open();
  const std::vector<KernelSource> kernels = {adder("k_damage", 3.140625)};
  (void)take(Module::compile(device, kernels));
  int patched = 0;  // it still loads and runs, and adds 100
  for (const auto& entry : std::filesystem::directory_iterator(cache() / "objects")) {
    patched += patch(entry.path(), bytes_of(3.140625f), bytes_of(100));
  }
  ASSERT_GE(patched, 1);
  const Module module = take(Module::compile(device, kernels));
  EXPECT_FALSE(module.from_cache());
  EXPECT_EQ(run(device, module, "k_damage"), 3.140625f);
  EXPECT_TRUE(take(Module::compile(device, kernels)).from_cache()) << "it was not repaired";
}

TEST_F(CpuCompile, DoesNotTrustADamagedEntry) {
  const auto device = open();
  const std::vector<KernelSource> kernels = {adder("k_damage", 5)};
  for (const std::string damage : {"", "../../x", "0", "zz"}) {
    (void)take(Module::compile(device, kernels));
    for (const auto& entry : std::filesystem::directory_iterator(cache() / "kernels")) {
      std::ofstream(entry.path()) << damage << "\n";
    }
    const Module module = take(Module::compile(device, kernels));
    EXPECT_FALSE(module.from_cache()) << damage;
    EXPECT_EQ(run(device, module, "k_damage"), 5);
    EXPECT_TRUE(take(Module::compile(device, kernels)).from_cache()) << "it was not repaired";
  }
}

TEST_F(CpuCompile, DoesNotTrustAnObjectWithoutTheKernel) {
  const auto device = open();
  const std::vector<KernelSource> one = {adder("k_one", 1)}, two = {adder("k_two", 2)};
  (void)take(Module::compile(device, one));
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(cache() / "kernels")) files.push_back(entry.path());
  (void)take(Module::compile(device, two));
  for (const auto& entry : std::filesystem::directory_iterator(cache() / "kernels")) {
    if (entry.path() != files[0]) {
      std::filesystem::copy_file(entry.path(), files[0], std::filesystem::copy_options::overwrite_existing);
    }
  }
  const Module module = take(Module::compile(device, one));
  EXPECT_FALSE(module.from_cache());
  EXPECT_EQ(run(device, module, "k_one"), 1);
}

TEST_F(CpuCompile, LeavesNoTemporaryFiles) {
  const auto device = open();
  const std::vector<KernelSource> kernels = {adder("k_a", 1)};
  (void)take(Module::compile(device, kernels));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(cache()))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, testing::UnorderedElementsAre("kernels", "lock", "objects"));
}

TEST_F(CpuCompile, CompilesAKernelOnceThoughTwoThreadsAsk) {
  const std::vector<KernelSource> kernels = {adder("k_a", 1), adder("k_b", 2)};
  const auto devices = {open(), open()};
  std::atomic<int> compiled = 0;
  {
    std::vector<std::jthread> threads;
    for (const auto& device : devices) {
      threads.emplace_back([&, device] {
        const Module module = take(Module::compile(device, kernels));
        compiled += static_cast<int>(module.counts().value().compiled);
        EXPECT_EQ(module.from_cache(), module.counts().value().compiled == 0);
      });
    }
  }
  EXPECT_EQ(compiled, 2);
}

TEST_F(CpuCompile, WorksWithoutACacheThatCanBeUsed) {
  std::filesystem::create_directory(cache());
  std::filesystem::permissions(cache(), std::filesystem::perms::all);  // others could put objects there
  const auto device = open();
  const std::vector<KernelSource> kernels = {adder("k_a", 7)};
  testing::internal::CaptureStderr();
  const Module module = take(Module::compile(device, kernels));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("can be written by other users"));
  EXPECT_EQ(run(device, module, "k_a"), 7);
  EXPECT_TRUE(std::filesystem::is_empty(cache()));
}

TEST_F(CpuCompile, NamesTheErrorOfTheText) {
  const KernelsInC in_c(folder_.path());
  const auto device = open({{"compiler", in_c.compiler()}});
  const std::vector<KernelSource> kernels = {in_c.add("k_bad", "void k_bad(void) { nonsense; }")};
  const auto module = Module::compile(device, kernels);
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code, ErrorCode::kInternal);
  EXPECT_THAT(module.error().message, HasSubstr("use of undeclared identifier 'nonsense'"));
  const std::string& message = module.error().message;
  const std::size_t start = message.find(" on /") + 4;
  const std::string kept = message.substr(start, message.find(" (kept)") - start);
  EXPECT_TRUE(std::filesystem::exists(kept)) << message;
  std::filesystem::remove_all(std::filesystem::path(kept).parent_path());
}

TEST_F(CpuCompile, NamesASymbolThatNobodyHas) {
  const KernelsInC in_c(folder_.path());
  const auto device = open({{"compiler", in_c.compiler()}});
  const std::vector<KernelSource> kernels = {
      in_c.add("k_call", "void absent_function(void); void k_call(void) { absent_function(); }")};
  const auto module = Module::compile(device, kernels);
  ASSERT_FALSE(module);
  EXPECT_THAT(module.error().message, HasSubstr("absent_function"));
}

TEST_F(CpuCompile, NamesAKernelThatTheTextLacks) {
  const KernelsInC in_c(folder_.path());
  const auto device = open({{"compiler", in_c.compiler()}});
  const std::vector<KernelSource> kernels = {in_c.add("k_gone", "int another;")};
  const auto module = Module::compile(device, kernels);
  ASSERT_FALSE(module);
  EXPECT_THAT(module.error().message, HasSubstr("it has no function k_gone"));
}

TEST_F(CpuCompile, RefusesNamesThatAreNotC) {
  const auto device = open();
  const std::vector<KernelSource> kernels = {adder("k-bad", 1)}, twice = {adder("k_a", 1), adder("k_a", 2)};
  EXPECT_FALSE(Module::compile(device, kernels));
  const auto module = Module::compile(device, twice);
  ASSERT_FALSE(module);
  EXPECT_THAT(module.error().message, HasSubstr("two different kernels are named k_a"));
}

TEST_F(CpuCompile, RefusesOpaqueOpsByName) {
  const std::vector<KernelSource> kernels = {adder("k_a", 1), {"o_op", "{}"}};
  CompileRefusal refusal;
  const auto module = Module::compile(open(), kernels, &refusal);
  ASSERT_FALSE(module);
  EXPECT_THAT(module.error().message, HasSubstr("kernel o_op is an opaque op, and the device runs kernel IR alone"));
  EXPECT_TRUE(refusal.unsupported);
  EXPECT_EQ(refusal.kernel, "o_op");
}

TEST_F(CpuCompile, NamesAKernelThatTheModuleLacks) {
  const auto device = open();
  const std::vector<KernelSource> kernels = {adder("k_a", 1)};
  const Module module = take(Module::compile(device, kernels));
  const auto kernel = module.kernel("k_b");
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr("none named k_b"));
}

TEST_F(CpuCompile, SaysWhatToInstallWithoutClang) {
  const std::vector<KernelSource> kernels = {adder("k_a", 1)};
  {
    const auto device = open({{"compiler", (folder_.path() / "no-clang").string()}});
    const auto module = Module::compile(device, kernels);
    ASSERT_FALSE(module);
    EXPECT_EQ(module.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(module.error().message, HasSubstr("no-clang"));
    EXPECT_THAT(module.error().message, HasSubstr("install the package clang-19, or set CRUCIBLE_CLANG"));
  }
  const char* const path = std::getenv("PATH");
  const std::string before = path == nullptr ? "" : path;
  setenv("PATH", folder_.path().c_str(), 1);
  const auto module = Module::compile(open(), kernels);
  setenv("PATH", before.c_str(), 1);
  ASSERT_FALSE(module);
  EXPECT_THAT(module.error().message, HasSubstr("looked for clang-19, "));
}

TEST_F(CpuCompile, RoundsEachOperationByItself) {
  const auto device = open();
  kernel::IrBuilder b;  // x[3 i] = x[3 i + 1] * x[3 i + 1] + x[3 i + 2]
  b.add_buffer(DType::kF32, true);
  const kernel::ExprId at = b.multiply(b.open_grid(kernel::LoopMode::kSerial), 3);
  const kernel::ExprId factor = b.let(b.load(0, b.add(at, b.integer(1))));
  const kernel::ExprId product = b.binary(kernel::Operation::kMultiply, factor, factor);
  b.store(0, at, b.add(product, b.let(b.load(0, b.add(at, b.integer(2))))));
  b.close();
  const std::vector<KernelSource> kernels = {{"k_fma", "", kernel::serialize_ir(b.finish())}};
  const Module module = take(Module::compile(device, kernels));
  const float a = 1.0f + 0x1p-12f;
  Buffer buffer = upload<float>(device, {0, a, -1.0f});
  OpList list;
  list.launch(take(module.kernel("k_fma")), {buffer.address()}, 1);
  Plan plan = take(Plan::build(device, list.ops(), 0));
  CRUCIBLE_ASSERT_OK(plan.replay());
  EXPECT_EQ(download<float>(buffer, 1)[0], 0x1p-11f);  // a fused operation would keep 2^-24
}

}  // namespace
}  // namespace crucible::backend
