// The ways of a plan and the kinds of memory, each on each driver that is here: the loader's first device (PoCL in
// ci/test), and Intel's driver for processors where CRUCIBLE_INTEL_OPENCL names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/testing/run_plan.hpp"

namespace crucible::backend {
namespace {

using kernel::ExprId;
using kernel::IrBuilder;
using kernel::LoopMode;
using ::testing::HasSubstr;

template <class T>
T take(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  return *std::move(result);
}

/// buffer[0][i] = (buffer[1][i] + buffer[2][i] + ...) * scalar 0 + scalar 1.
KernelSource scaled(const std::string& name, std::uint32_t buffers) {
  IrBuilder b;
  for (std::uint32_t i = 0; i < buffers; ++i) b.add_buffer(DType::kF32, i == 0);
  const std::uint32_t factor = b.add_scalar(), summand = b.add_scalar();
  const ExprId item = b.open_grid(LoopMode::kSerial);
  ExprId sum = b.let(b.load(1, item));
  for (std::uint32_t i = 2; i < buffers; ++i) sum = b.let(b.add(sum, b.load(i, item)));
  const ExprId product = b.let(b.binary(kernel::Operation::kMultiply, sum, b.scalar(factor, DType::kF32)));
  b.store(0, item, b.add(product, b.scalar(summand, DType::kF32)));
  b.close();
  return {name, "", kernel::serialize_ir(b.finish())};
}

/// A plan by the plugin's table, which tells more than Plan does.
class RawPlan {
 public:
  RawPlan(std::shared_ptr<Device> device, const std::vector<crucible_op>& ops, std::uint32_t slots)
      : device_(std::move(device)), count_(ops.size()) {
    built_ = to_result(
        table().build(device_->handle(), ops.data(), static_cast<std::uint32_t>(ops.size()), slots, &plan_), "build");
  }
  ~RawPlan() {
    if (plan_ == nullptr) return;
    EXPECT_TRUE(to_result(table().destroy(plan_), "destroy"));
  }
  RawPlan(const RawPlan&) = delete;
  RawPlan& operator=(const RawPlan&) = delete;
  const Result<void>& built() const { return built_; }
  void set(const std::vector<double>& values) {
    std::vector<std::uint64_t> words;
    for (const double value : values) words.push_back(std::bit_cast<std::uint64_t>(value));
    const auto done =
        to_result(table().set_slots(plan_, words.data(), static_cast<std::uint32_t>(words.size())), "set_slots");
    EXPECT_TRUE(done) << done.error().message;
  }
  void replay() {
    const auto done = run_plan(*device_, plan_);
    EXPECT_TRUE(done) << done.error().message;
  }
  std::vector<std::uint64_t> profile() {
    std::vector<std::uint64_t> times(count_);
    const auto done = to_result(table().profile(plan_, times.data(), static_cast<std::uint32_t>(count_)), "profile");
    EXPECT_TRUE(done) << done.error().message;
    return times;
  }
  std::map<std::string, std::string> describe() {
    std::map<std::string, std::string> told;
    const auto sink = [](void* user, const crucible_kv* items, std::uint32_t count) {
      auto& all = *static_cast<std::map<std::string, std::string>*>(user);
      for (std::uint32_t i = 0; i < count; ++i) {
        const crucible_kv& item = items[i];
        all[std::string(item.key.data, item.key.size)] =
            item.type == CRUCIBLE_V_STR ? std::string(item.s.data, item.s.size) : std::to_string(item.u);
      }
    };
    EXPECT_TRUE(to_result(table().describe(plan_, sink, &told), "describe"));
    return told;
  }

 private:
  const crucible_if_plan& table() const { return device_->backend().plan_table(); }
  std::shared_ptr<Device> device_;
  std::size_t count_;
  crucible_plan* plan_ = nullptr;
  Result<void> built_;
};

std::string library_of(const std::string& driver) {
  if (driver == "loader") return "libOpenCL.so.1";
  const char* intel = std::getenv("CRUCIBLE_INTEL_OPENCL");
  return intel == nullptr ? "" : intel;
}

/// `language`: c, spirv, or "spirv_items": with the mapping of other devices than processors.
Result<std::shared_ptr<Device>> try_open(const std::string& driver, const std::string& plans, const std::string& memory,
                                         const std::string& language = "auto") {
  const bool by_items = language == "spirv_items";
  const Options options = {{"library", library_of(driver)},
                           {"plans", plans},
                           {"memory", memory},
                           {"language", by_items ? "spirv" : language},
                           {"mapping", by_items ? "items" : "auto"}};
  Result<std::shared_ptr<Backend>> backend = Backend::load(take(find_backend("opencl")), options);
  if (!backend) return backend.error();
  return (*backend)->open("");
}

std::map<std::string, std::string> told_by(const Device& device) {
  std::map<std::string, std::string> told;
  for (const auto& [key, value] : take(device.properties())) told[key] = value;
  return told;
}

class OpenClPlan : public ::testing::TestWithParam<std::tuple<std::string, std::string, std::string, std::string>> {
 protected:
  /// Buffers of the second kernel: more than the driver takes arguments, PoCL 1024 bytes of them, Intel's 3840.
  static std::uint32_t many() { return std::get<0>(GetParam()) == "loader" ? 100 : 500; }
  static constexpr std::uint64_t kCount = 1000, kBytes = kCount * sizeof(float), kOdd = sizeof(float);

  void SetUp() override {
    const auto& [driver, plans, memory, language] = GetParam();
    if (library_of(driver).empty())
      GTEST_SKIP() << "CRUCIBLE_INTEL_OPENCL does not name Intel's OpenCL driver (ci/test sets it)";
    auto opened = try_open(driver, plans, memory, language);
    if (!opened) GTEST_SKIP() << opened.error().message;
    device_ = *opened;
    arena_ = std::make_unique<Buffer>(take(Buffer::allocate(device_, 8 * (kBytes + 64), 4096)));
    EXPECT_EQ(arena_->address() % 4096, 0u);
  }
  /// A driver may take a quarter of a second for each.
  void compile(const std::vector<KernelSource>& kernels) {
    module_ = std::make_unique<Module>(take(Module::compile(device_, kernels)));
  }
  std::uint64_t at(std::uint64_t row) const { return row * (kBytes + 64) + kOdd; }  // in the arena
  std::vector<float> row(std::uint64_t number) const {
    std::vector<float> values(kCount);
    EXPECT_TRUE(arena_->read(at(number), std::as_writable_bytes(std::span(values))));
    return values;
  }
  void fill_row(std::uint64_t number, float value) {
    const std::vector<float> values(kCount, value);
    EXPECT_TRUE(arena_->write(at(number), std::as_bytes(std::span(values))));
  }
  crucible_op op(std::uint32_t kind, const std::vector<std::uint64_t>& places) const {
    crucible_op made = {};
    made.struct_size = sizeof(made);
    made.kind = kind;
    made.buffers = places.data();
    made.buffer_count = static_cast<std::uint32_t>(places.size());
    made.size = kBytes;
    made.grain = 1;
    return made;
  }
  crucible_op launch(const std::string& kernel, const std::vector<std::uint64_t>& places,
                     const crucible_scalar* scalars) const {
    crucible_op made = op(CRUCIBLE_OP_LAUNCH, places);
    made.kernel = take(module_->kernel(kernel));
    made.grid = kCount;
    made.scalars = scalars;
    made.scalar_count = 2;
    return made;
  }
  std::shared_ptr<Device> device_;
  std::unique_ptr<Module> module_;
  std::unique_ptr<Buffer> arena_;
};

/// Row 1 = row 0 * slot 0 + 0.5; row 2 = a copy of row 1; row 3 = row 2 many times, once row 0 and once another buffer,
/// times slot 1, plus 0.5; row 4 = a byte.
TEST_P(OpenClPlan, OpsAreDoneInTheirOrderWithThePresentSlots) {
  const auto& [driver, plans, memory, language] = GetParam();
  EXPECT_EQ(told_by(*device_)["dialect"], language == "auto" ? "opencl" : "spirv");
  compile({scaled("one", 2), scaled("many", many())});
  const auto place = [&](std::uint64_t number) { return arena_->address() + at(number); };
  const std::vector<std::uint64_t> first = {place(1), place(0)}, copied = {place(2), place(1)}, filled = {place(4)};
  Buffer other = take(Buffer::allocate(device_, kBytes, 4096));
  const std::vector<float> sevens(kCount, 7);
  EXPECT_TRUE(other.write(0, std::as_bytes(std::span(sevens))));
  std::vector<std::uint64_t> places(many(), place(2));
  places[0] = place(3);
  places[1] = place(0);
  places[5] = other.address();
  const crucible_scalar half = {
      .bits = std::bit_cast<std::uint64_t>(0.5), .slot = CRUCIBLE_SLOT_NONE, .type = CRUCIBLE_SCALAR_F64};
  const crucible_scalar slots[][2] = {{{.bits = 0, .slot = 0, .type = CRUCIBLE_SCALAR_F64}, half},
                                      {{.bits = 0, .slot = 1, .type = CRUCIBLE_SCALAR_F64}, half}};
  crucible_op fill = op(CRUCIBLE_OP_FILL, filled);
  fill.pattern = 0x3f;
  fill.size = kBytes - 3;  // no multiple of a wide pattern
  RawPlan plan(device_,
               {launch("one", first, slots[0]), op(CRUCIBLE_OP_COPY, copied), launch("many", places, slots[1]), fill},
               2);
  if (!plan.built()) {  // the one thing that a driver with command buffers may not have
    EXPECT_EQ(plans, "command_buffer");
    EXPECT_THAT(plan.built().error().message, HasSubstr("memory that is a pointer, which came with 0.9.4"));
    GTEST_SKIP() << plan.built().error().message;
  }
  fill_row(0, 1);
  const auto expect_rows = [&](float one, float two) {
    const float byte = std::bit_cast<float>(0x3f3f3f3fu);
    const float first = one + 0.5f, times = static_cast<float>(many() - 3);
    EXPECT_EQ(row(1), std::vector<float>(kCount, first));
    EXPECT_EQ(row(2), std::vector<float>(kCount, first));
    EXPECT_EQ(row(3), std::vector<float>(kCount, (times * first + 7 + 1) * two + 0.5f));
    std::vector<float> bytes = row(4);
    EXPECT_EQ(bytes[kCount - 2], byte);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(bytes[kCount - 1]), 0xff00003fu);
  };
  const std::uint32_t untouched = 0xff000000u;
  EXPECT_TRUE(arena_->write(at(4) + kBytes - 4, std::as_bytes(std::span(&untouched, 1))));
  plan.set({2, 3});
  plan.replay();
  expect_rows(2, 3);
  plan.set({2, 5});
  plan.set({2, 5});  // changes nothing
  plan.replay();
  expect_rows(2, 5);

  const auto told = plan.describe();
  EXPECT_EQ(told.at("times"), "the profiling event of each op, by itself on the queue");
  const bool recorded = told.at("form") == "native", patches = told.at("slots").find("patched") != std::string::npos;
  EXPECT_EQ(told.at("recorded"), !recorded ? "0" : patches ? "1" : "3") << told.at("slots");  // at first with zeros
  EXPECT_EQ(told.at("patched"), recorded && patches ? "3" : "0");
  EXPECT_EQ(told.at("memory"), told_by(*device_)["memory"]);
  EXPECT_THAT(told.at("plans"), ::testing::StartsWith(plans == "auto" ? "" : plans));
  EXPECT_THAT(told.at("memory"), ::testing::StartsWith(memory == "auto" ? "" : memory));

  plan.set({4, 6});
  fill_row(1, 0);
  fill_row(3, 0);
  const std::vector<std::uint64_t> times = plan.profile();
  expect_rows(4, 6);
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_GT(times[i], 0u) << i;
  fill_row(1, 0);
  plan.replay();
  expect_rows(4, 6);
}

TEST_P(OpenClPlan, APlanOfNothingAndAnEmptyLaunchAreDone) {
  RawPlan nothing(device_, {}, 0);
  ASSERT_TRUE(nothing.built());
  nothing.replay();
  compile({scaled("one", 2)});
  const std::vector<std::uint64_t> places = {arena_->address() + at(1), arena_->address() + at(0)};
  const crucible_scalar slots[] = {{.bits = 0, .slot = 0, .type = CRUCIBLE_SCALAR_F64},
                                   {.bits = 0, .slot = CRUCIBLE_SLOT_NONE, .type = CRUCIBLE_SCALAR_F64}};
  crucible_op empty = launch("one", places, slots);
  empty.grid = 0;
  RawPlan plan(device_, {empty}, 1);
  ASSERT_TRUE(plan.built());
  fill_row(1, 7);
  plan.set({3});
  plan.replay();
  EXPECT_EQ(row(1), std::vector<float>(kCount, 7));
}

TEST_P(OpenClPlan, AddressesMayBeAnywhereInABuffer) {
  const std::vector<std::uint64_t> beyond = {arena_->address() + arena_->size_bytes() - 8};
  crucible_op fill = op(CRUCIBLE_OP_FILL, beyond);
  fill.size = 9;
  RawPlan plan(device_, {fill}, 0);
  ASSERT_FALSE(plan.built());
  EXPECT_THAT(plan.built().error().message, HasSubstr("9 bytes, where buffer 0 has 8 left"));
}

INSTANTIATE_TEST_SUITE_P(
    , OpenClPlan,
    ::testing::Combine(::testing::Values("loader", "intel"), ::testing::Values("auto", "queue", "command_buffer"),
                       ::testing::Values("auto", "buffers", "usm", "svm"), ::testing::Values("auto")),
    [](const auto& info) {
      return std::get<0>(info.param) + "_" + std::get<1>(info.param) + "_" + std::get<2>(info.param);
    });
INSTANTIATE_TEST_SUITE_P(Spirv, OpenClPlan,
                         ::testing::Combine(::testing::Values("intel"), ::testing::Values("queue", "command_buffer"),
                                            ::testing::Values("buffers", "usm", "svm"),
                                            ::testing::Values("spirv", "spirv_items")),
                         [](const auto& info) {
                           return std::get<1>(info.param) + "_" + std::get<2>(info.param) + "_" +
                                  std::get<3>(info.param);
                         });

TEST(OpenClWays, IntelsDriverHasThemAllAndPatchesSlots) {
  if (library_of("intel").empty())
    GTEST_SKIP() << "CRUCIBLE_INTEL_OPENCL does not name Intel's OpenCL driver (ci/test sets it)";
  for (const char* plans : {"queue", "command_buffer"}) {
    for (const char* memory : {"buffers", "usm", "svm"})
      EXPECT_TRUE(try_open("intel", plans, memory)) << plans << " " << memory;
  }
  {
    const auto device = take(try_open("intel", "command_buffer", "usm"));
    EXPECT_EQ(told_by(*device)["memory"], "usm");
    EXPECT_THAT(told_by(*device)["plans"], HasSubstr("slots patched"));
  }
  const auto device = take(try_open("intel", "auto", "auto"));
  EXPECT_EQ(told_by(*device)["memory"], "buffers");  // it is a processor
  EXPECT_THAT(told_by(*device)["plans"],
              HasSubstr("queue (by the option auto a processor's driver gets the commands one by one"));
}

TEST(OpenClWays, WhatADriverHasNotIsRefusedWithTheReason) {
  std::string platform;
  if (const auto device = try_open("loader", "auto", "auto")) platform = told_by(**device)["platform"];
  if (platform != "Portable Computing Language") GTEST_SKIP() << "no PoCL";
  const auto opened = try_open("loader", "auto", "usm");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("memory = usm cannot be had on opencl:0"));
  EXPECT_THAT(opened.error().message,
              HasSubstr("the driver has no cl_intel_unified_shared_memory; set memory to auto"));
  const auto spirv = try_open("loader", "auto", "auto", "spirv");
  ASSERT_FALSE(spirv);
  EXPECT_THAT(spirv.error().message, HasSubstr("language = spirv cannot be had on opencl:0"));
  EXPECT_THAT(spirv.error().message, HasSubstr("set language to c"));
}

}  // namespace
}  // namespace crucible::backend
