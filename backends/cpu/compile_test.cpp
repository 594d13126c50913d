// From kernel IR to running kernels, and what is kept of them: what hits, what must not be trusted, what a user is told
// when clang is missing or does not like the text. Each case has a store of its own.
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
  std::filesystem::path store() const { return folder_.path() / "store"; }
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

TEST_F(CpuCompile, TakesTheSecondTimeFromTheStore) {
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

/// The blobs or the entries of the store.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& room) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(room))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

TEST_F(CpuCompile, DoesNotTrustABlobThatIsDamagedOrAnothers) {
  const auto device = open();
  const std::vector<KernelSource> kernels = {adder("k_damage", 3.140625)}, others = {adder("k_damage", 100)};
  (void)take(Module::compile(device, kernels));
  const std::filesystem::path blob = files_in(store() / "cas").at(0);
  (void)take(Module::compile(device, others));
  std::filesystem::path other;  // it loads and runs, and adds 100
  for (const auto& file : files_in(store() / "cas"))
    if (file != blob) other = file;
  testing::internal::CaptureStderr();
  std::filesystem::copy_file(other, blob, std::filesystem::copy_options::overwrite_existing);
  const Module module = take(Module::compile(device, kernels));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("moved to quarantine"));
  EXPECT_FALSE(module.from_cache());
  EXPECT_EQ(run(device, module, "k_damage"), 3.140625f);
  EXPECT_TRUE(take(Module::compile(device, kernels)).from_cache()) << "it was not repaired";
}

TEST_F(CpuCompile, DoesNotTrustAnEntryThatIsDamagedOrAnothers) {
  const auto device = open();
  const std::vector<KernelSource> kernels = {adder("k_damage", 5)}, others = {adder("k_damage", 6)};
  (void)take(Module::compile(device, kernels));
  const std::filesystem::path entry = files_in(store() / "ac").at(0);
  (void)take(Module::compile(device, others));
  std::filesystem::path other;
  for (const auto& file : files_in(store() / "ac"))
    if (file != entry) other = file;
  testing::internal::CaptureStderr();
  for (const bool is_copied : {true, false}) {
    if (is_copied) {
      std::filesystem::copy_file(other, entry, std::filesystem::copy_options::overwrite_existing);
    } else {
      std::ofstream(entry) << "../../x\n";
    }
    const Module module = take(Module::compile(device, kernels));
    EXPECT_FALSE(module.from_cache()) << is_copied;
    EXPECT_EQ(run(device, module, "k_damage"), 5);
    EXPECT_TRUE(take(Module::compile(device, kernels)).from_cache()) << "it was not repaired";
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("it is the entry of another key"));
}

TEST_F(CpuCompile, DoesNotTrustAnObjectWithoutTheKernel) {
  const auto device = open();
  const std::vector<KernelSource> one = {adder("k_one", 1)};
  const auto kept = keep_in(folder_.path() / "store");
  (void)take(Module::compile(device, one));
  std::optional<store::ActionKey> key;
  ASSERT_TRUE(kept->list("kernel", 9, [&](const store::EntryRow& row) { return key = row.fields, true; }));
  ASSERT_TRUE(key);
  EXPECT_EQ(std::get<std::string>(key->options.at("plugin")), "cpu") << "another plugin's code would be found";
  ASSERT_TRUE(kept->put(*key, {{"bytes", "no library"}}, "a test"));
  const Module module = take(Module::compile(device, one));
  EXPECT_FALSE(module.from_cache());
  EXPECT_EQ(run(device, module, "k_one"), 1);
  EXPECT_TRUE(take(Module::compile(device, one)).from_cache()) << "it was not repaired";
}

TEST_F(CpuCompile, LeavesNoTemporaryFiles) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  const std::filesystem::path temporary = folder_.path() / "tmp";
  const std::filesystem::path old = temporary / "crucible-build-killed", young = temporary / "crucible-build-running";
  for (const auto& folder : {old, young}) std::filesystem::create_directories(folder);
  std::filesystem::last_write_time(old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(25));
  const auto device = open();
  setenv("TMPDIR", temporary.c_str(), 1);
  const std::vector<KernelSource> kernels = {adder("k_a", 1)};
  (void)take(Module::compile(device, kernels));
  kept.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", kept.c_str(), 1);
  EXPECT_FALSE(std::filesystem::exists(old));
  std::filesystem::remove(young);
  EXPECT_TRUE(std::filesystem::is_empty(temporary));
  EXPECT_TRUE(std::filesystem::is_empty(store() / "tmp"));
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

TEST_F(CpuCompile, KeepsNothingWhereOthersCouldPutSomething) {
  const std::vector<KernelSource> kernels = {adder("k_a", 7)};
  (void)take(Module::compile(open(), kernels));
  std::filesystem::permissions(store(), std::filesystem::perms::all);
  testing::internal::CaptureStderr();
  const auto device = open();
  const Module module = take(Module::compile(device, kernels));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("all users can write its folder"));
  EXPECT_FALSE(module.from_cache());
  EXPECT_EQ(run(device, module, "k_a"), 7);
  EXPECT_FALSE(take(Module::compile(device, kernels)).from_cache());
}

TEST_F(CpuCompile, SaysOnceThatNothingCanBeKept) {
  const auto kept = keep_in(folder_.path() / "store");
  const auto device = open({}, kept);
  std::filesystem::remove_all(store() / "tmp");  // as good as a full disk, and root meets it too
  testing::internal::CaptureStderr();
  const std::vector<KernelSource> one = {adder("k_a", 7)}, two = {adder("k_b", 8)};
  EXPECT_EQ(run(device, take(Module::compile(device, one)), "k_a"), 7);
  EXPECT_EQ(run(device, take(Module::compile(device, two)), "k_b"), 8);
  const std::string told = testing::internal::GetCapturedStderr();
  const std::string words = "cpu (compile): compiled kernels are not kept: ";
  EXPECT_NE(told.find(words), std::string::npos) << told;
  EXPECT_EQ(told.find(words, told.find(words) + 1), std::string::npos) << told;
}

TEST_F(CpuCompile, ComesToTermsWithoutAStore) {
  const auto device = take(take(Backend::load(take(find_backend("cpu")), {}))->open(""));
  const std::vector<KernelSource> kernels = {adder("k_a", 7)};
  EXPECT_EQ(run(device, take(Module::compile(device, kernels)), "k_a"), 7);
  EXPECT_FALSE(take(Module::compile(device, kernels)).from_cache());
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
