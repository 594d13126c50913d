// Choices among the library and generated kernels, against the real CPU plugin: what is measured is kept and found
// again, what is chosen is what runs, and what belongs to something else is not found.
#include "runtime/measure/choices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "plugins/loader/testing/kept.hpp"
#include "runtime/run/session.hpp"
#include "runtime/testing/test_programs.hpp"

namespace crucible::runtime {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

/// y (m x n) = a (m x k) b (k x n), all row-major.
kernel::LibraryCall product(std::int64_t m, std::int64_t k, std::int64_t n) {
  kernel::LibraryCall call;
  call.views[0] = {.sizes = {m, k}, .strides = {k, 1}};
  call.views[1] = {.sizes = {k, n}, .strides = {n, 1}};
  call.views[2] = {.sizes = {m, n}, .strides = {n, 1}};
  return call;
}

class ChoicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("crucible-choices-" + std::to_string(getpid()));
    fs::remove_all(folder_);
    device_ = open_cpu("2");
    LibraryClaims claims(device_);
    if (!claims.takes(product(8, 8, 8))) GTEST_SKIP() << "the CPU plugin has no library here";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::shared_ptr<backend::Device> open_cpu(const std::string& threads) const {
    auto loaded =
        backend::Backend::load(CRUCIBLE_TEST_CPU_PLUGIN, {{"threads", threads}}, backend::keep_in(folder_ / "store"));
    EXPECT_TRUE(loaded) << loaded.error().message;
    if (!loaded) return nullptr;
    auto opened = (*loaded)->open("");
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? *opened : nullptr;
  }
  void write(const kernel::LibraryCall& call, const std::map<std::string, std::string>& evidence) {
    ASSERT_TRUE(device_->backend().store()->put(Choices(device_).key_of(call), {}, "a test", evidence));
  }
  void write(const kernel::LibraryCall& call, int library_ns, const std::vector<int>& generated_ns) {
    Choices choices(device_);
    std::map<std::string, std::string> evidence = {{"rounds", "9"}, {"library", std::to_string(library_ns)}};
    for (std::size_t cut = 0; cut < generated_ns.size(); ++cut)
      evidence[Choices::name_of(choices.cuts(call), cut)] = std::to_string(generated_ns[cut]);
    write(call, evidence);
  }
  /// All ways to cut the kernel took the same time.
  void write(const kernel::LibraryCall& call, int library_ns, int generated_ns) {
    write(call, library_ns,
          std::vector<int>(std::max<std::size_t>(Choices(device_).cuts(call).size(), 1), generated_ns));
  }
  /// What the steps of a training step's products are, with what lies in the store.
  std::vector<kernel::StepKind> kinds_of_products(bool asks) {
    const graph::Program program = training_step();
    const Recording recording = record(program, 1, 7);
    auto session = Session::create(std::make_shared<const graph::Program>(recording.program), recording.blobs, device_,
                                   {.choices = asks ? std::make_shared<Choices>(device_) : nullptr});
    EXPECT_TRUE(session) << session.error().message;
    std::vector<kernel::StepKind> kinds;
    for (const kernel::Step& step : (*session)->schedule().steps) {
      for (const graph::OpId op : step.ops) {
        if ((*session)->program().ops[op].kind == graph::OpKind::kMatMul) kinds.push_back(step.kind);
      }
    }
    EXPECT_TRUE((*session)->run(0));
    return kinds;
  }

  fs::path folder_;
  std::shared_ptr<backend::Device> device_;  // shared: see plugins/loader
};

TEST_F(ChoicesTest, WhatWasMeasuredIsFoundByTheNextOne) {
  Choices first(device_);
  EXPECT_EQ(first.find(product(64, 64, 64)), nullptr);
  LibraryClaims claims(device_);
  const Result<Choice> measured = first.measure(claims, product(64, 64, 64));
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_GT(measured->library_ns, 0u);
  EXPECT_EQ(measured->generated_ns.size(), first.cuts(product(64, 64, 64)).size());
  EXPECT_THAT(measured->generated_ns, ::testing::Each(::testing::Gt(0u)));
  EXPECT_GE(measured->rounds, 7u);
  EXPECT_EQ(first.failure(), "");
  Choices second(device_);
  const Choice* const found = second.find(product(64, 64, 64));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->library_ns, measured->library_ns);
  EXPECT_EQ(found->generated_ns, measured->generated_ns);
  EXPECT_EQ(second.find(product(64, 64, 65)), nullptr);
  const Choices::Summary summary = second.summary();
  EXPECT_EQ(summary.calls, 2u);
  EXPECT_EQ(summary.measured, 1u);
}

/// A convolution has three operands of its own.
TEST_F(ChoicesTest, ConvolutionsAreMeasuredToo) {
  kernel::LibraryCall call;
  call.kind = kernel::LibraryKind::kConv2d;
  call.views[0] = {.sizes = {2, 8, 12, 12}, .strides = {1152, 144, 12, 1}};
  call.views[1] = {.sizes = {16, 8, 3, 3}, .strides = {72, 9, 3, 1}};
  call.views[2] = {.sizes = {2, 16, 10, 10}, .strides = {1600, 100, 10, 1}};
  LibraryClaims claims(device_);
  ASSERT_TRUE(claims.takes(call));
  const Result<Choice> measured = Choices(device_).measure(claims, call);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_GT(measured->best_generated_ns(), 0u);
}

TEST_F(ChoicesTest, WhatIsChosenIsWhatRuns) {
  LibraryClaims claims(device_);
  const auto calls = products_of(training_step(), claims, true, kernel::Numerics::kFast);
  ASSERT_TRUE(calls) << calls.error().message;
  ASSERT_GE(calls->size(), 2u);
  for (const kernel::LibraryCall& call : *calls) write(call, 100, 200);
  EXPECT_THAT(kinds_of_products(true), ::testing::Each(kernel::StepKind::kLibrary));
  for (const kernel::LibraryCall& call : *calls) write(call, 200, 100);
  EXPECT_THAT(kinds_of_products(true), ::testing::Each(kernel::StepKind::kLaunch));
  EXPECT_THAT(kinds_of_products(false), ::testing::Each(kernel::StepKind::kLibrary));
}

/// A stale choice: the same store, another number of threads.
TEST_F(ChoicesTest, ChoicesOfOtherDevicesAreNotFound) {
  write(product(32, 32, 32), 200, 100);
  EXPECT_NE(Choices(device_).find(product(32, 32, 32)), nullptr);
  device_.reset();
  Choices other(open_cpu("1"));
  EXPECT_EQ(other.find(product(32, 32, 32)), nullptr);
}

TEST_F(ChoicesTest, WhatIsNoChoiceCountsAsNone) {
  using Evidence = std::map<std::string, std::string>;
  const kernel::LibraryCall call = product(16, 16, 16);
  const std::string name = Choices::name_of(Choices(device_).cuts(call), 0);
  for (const Evidence& evidence : {Evidence{},
                                   {{"rounds", "9"}},
                                   {{"rounds", "9"}, {"library", "5"}},
                                   {{"rounds", "9"}, {name, "-2"}},
                                   {{"rounds", "9"}, {name, "2 ns"}},
                                   {{"rounds", "0"}, {name, "2"}},
                                   {{"rounds", "9"}, {"another", "2"}}}) {
    write(call, evidence);
    EXPECT_EQ(Choices(device_).find(call), nullptr);
  }
  write(call, 5, 2);
  EXPECT_NE(Choices(device_).find(call), nullptr);
}

TEST_F(ChoicesTest, SamplesOfLaterRunsCountAndLosersAreKept) {
  const kernel::LibraryCall call = product(64, 64, 64);
  Choices choices(device_);
  LibraryClaims claims(device_);
  ASSERT_TRUE(choices.measure(claims, call));
  const auto tuning = device_->backend().store()->tuning();
  ASSERT_TRUE(tuning);
  const ContentHash action = store::hash_of(choices.key_of(call));
  const auto candidates = (*tuning)->candidates(action, device_->info().name);
  ASSERT_TRUE(candidates);
  EXPECT_EQ(candidates->size(), std::max<std::size_t>(choices.cuts(call).size(), 1) + 1);
  const std::uint64_t before = candidates->front().samples;
  std::vector<store::Sample> many(before + 1);  // as if the library had taken a second each time
  for (store::Sample& sample : many)
    sample = {.id = "",
              .action = action,
              .candidate = "library",
              .device = device_->info().name,
              .time_ns = 1e9,
              .maker = "a test",
              .made_ns = 0};
  ASSERT_TRUE((*tuning)->add(many));
  Choices later(device_);
  const Choice* const found = later.find(call);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->library_ns, 1000000000u);
  EXPECT_TRUE(found->is_generated());
}

TEST_F(ChoicesTest, AStoreThatCannotBeWrittenIsSaidAndNoError) {
  fs::remove_all(folder_ / "store" / "tmp");  // as good as a full disk, and root meets it too
  Choices choices(device_);
  LibraryClaims claims(device_);
  const Result<Choice> measured = choices.measure(claims, product(16, 16, 16));
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_THAT(choices.failure(), HasSubstr("store"));
  EXPECT_NE(choices.find(product(16, 16, 16)), nullptr);  // for this process
}

/// Each cut of the kernel is forced in turn, and is what runs.
TEST_F(ChoicesTest, TheFastestCutIsTheKernelThatRuns) {
  const kernel::LibraryCall call = product(900, 300, 800);
  const std::size_t cuts = Choices(device_).cuts(call).size();
  ASSERT_GE(cuts, 2u);
  std::vector<std::string> names;
  for (std::size_t cut = 0; cut < cuts; ++cut) {
    std::vector<int> times(cuts, 500);
    times[cut] = 100;
    write(call, 200, times);
    Choices choices(device_);
    EXPECT_EQ(choices.cut(call), cut);
    LibraryClaims claims(device_);
    kernel::Options options;
    options.device = shape_of(*device_);
    ask(options, claims, &choices);
    const auto scheduled = kernel::schedule(program_of(call), options);
    ASSERT_TRUE(scheduled) << scheduled.error().message;
    ASSERT_EQ(scheduled->kernels.size(), 1u);
    EXPECT_THAT(names, ::testing::Not(::testing::Contains(scheduled->kernels[0].name)));
    names.push_back(scheduled->kernels[0].name);
    EXPECT_EQ(choices.summary().recut, cut > 0 ? 1u : 0u);
  }
}

/// Strict: the library is no candidate, and what was measured with it is not found.
TEST_F(ChoicesTest, StrictNumericsChooseAmongGeneratedKernels) {
  const kernel::LibraryCall call = product(100, 64, 100);
  write(call, 1, 5);
  Choices strict(device_, kernel::Numerics::kStrict);
  EXPECT_EQ(strict.find(call), nullptr);
  LibraryClaims claims(device_);
  const Result<Choice> measured = strict.measure(claims, call);
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(measured->library_ns, 0u);
  EXPECT_TRUE(measured->is_generated());
  EXPECT_FALSE(strict.takes(claims, call));
}

}  // namespace
}  // namespace crucible::runtime
