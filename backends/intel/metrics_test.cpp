// Metrics of the emulated device as counters: what ran is what is counted, and what is said where they cannot be had.
// Each case is a process of its own, because an emulator reads its rules once. The same suite runs under the vendor's
// loader (CRUCIBLE_TEST_LEVEL_ZERO).
#include <gmock/gmock.h>

#include <bit>
#include <functional>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/capability.hpp"
#include "plugins/loader/counters.hpp"
#include "plugins/sdk/testing/told_health.hpp"

namespace crucible::backend {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kItems = 1000;
constexpr std::uint64_t kGroup = 128;  // the option group_size
const std::vector<std::string> kBoth = {"ComputeBasic.WorkItems", "ComputeBasic.Launches"};

class IntelMetrics : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("CRUCIBLE_INTEL_OPENCL") == nullptr)
      GTEST_SKIP() << "CRUCIBLE_INTEL_OPENCL does not name Intel's OpenCL driver (ci/test sets it)";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

template <class T>
T take(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::abort();
  }
  return *std::move(result);
}

/// A device whose driver shows its metrics, unless `switch_on` is null.
std::shared_ptr<Device> open(const char* rules, const char* switch_on = "1") {
  setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
  if (switch_on != nullptr) setenv("ZET_ENABLE_METRICS", switch_on, 1);
  const char* const loader = std::getenv("CRUCIBLE_TEST_LEVEL_ZERO");
  const Options options = {{"library", loader != nullptr ? loader : CRUCIBLE_EMULATED_LEVEL_ZERO}, {"teams", "false"}};
  return take(take(Backend::load(take(find_backend("intel")), options))->open(""));
}

/// Two launches of buffer[0][i] = buffer[0][i] + scalar over 1000 floats, with a slot.
class Work {
 public:
  explicit Work(const std::shared_ptr<Device>& device)
      : memory_(take(Buffer::allocate(device, kItems * sizeof(float), 64))) {
    kernel::IrBuilder b;
    b.add_buffer(DType::kF32, true);
    const std::uint32_t scalar = b.add_scalar();
    const kernel::ExprId item = b.open_grid(kernel::LoopMode::kSerial);
    b.store(0, item, b.add(b.load(0, item), b.scalar(scalar, DType::kF32)));
    b.close();
    const KernelSource kernel = {"adds", "", kernel::serialize_ir(b.finish())};
    module_ = std::make_unique<Module>(take(Module::compile(device, std::span(&kernel, 1))));
    place_ = memory_.address();
    slot_ = {};
    slot_.slot = 0;
    std::vector<crucible_op> ops(2);
    for (crucible_op& op : ops) {
      op = {};
      op.struct_size = sizeof(op);
      op.kind = CRUCIBLE_OP_LAUNCH;
      op.kernel = take(module_->kernel(kernel.name));
      op.buffers = &place_;
      op.buffer_count = 1;
      op.scalars = &slot_;
      op.scalar_count = 1;
      op.grid = kItems;
      op.grain = 1;
    }
    plan_ = std::make_unique<Plan>(take(Plan::build(device, ops, 1)));
    EXPECT_TRUE(memory_.fill(0, kItems * sizeof(float), 0));
  }
  void replay(double scalar) {
    EXPECT_TRUE(plan_->set_slots(std::vector{std::bit_cast<std::uint64_t>(scalar)}));
    EXPECT_TRUE(plan_->replay());
  }
  float last() {
    float value = 0;
    EXPECT_TRUE(memory_.read((kItems - 1) * sizeof(float), std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }

 private:
  Buffer memory_;
  std::unique_ptr<Module> module_;
  std::uint64_t place_ = 0;
  crucible_scalar slot_ = {};
  std::unique_ptr<Plan> plan_;
};

/// `run` in a process of its own.
void expect_run(const std::function<void()>& run) {
  EXPECT_EXIT(
      {
        run();
        end_child();
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(IntelMetrics, CountWhatPlansRanAndChangeNothing) {
  expect_run([] {
    const auto device = open("");
    Work work(device);
    work.replay(1);  // recorded before anything is counted
    {
      auto counting = take(Counting::begin(device, kBoth));
      const auto read = [&] {
        std::vector<std::uint64_t> values;
        for (const CounterValue& counter : take(counting.read())) values.push_back(counter.value);
        return values;
      };
      EXPECT_THAT(read(), ElementsAre(0u, 0u));
      work.replay(2);
      const std::uint64_t groups = (kItems + kGroup - 1) / kGroup;
      EXPECT_THAT(read(), ElementsAre(2 * groups * kGroup, 2u));
      work.replay(4);
      EXPECT_THAT(read(), ElementsAre(4 * groups * kGroup, 4u)) << "since the begin";
    }
    work.replay(8);  // as it was recorded, with the new scalar
    EXPECT_EQ(work.last(), 2 * (1.0f + 2.0f + 4.0f + 8.0f));
  });
}

TEST_F(IntelMetrics, ListedAreThoseThatCanBeAddedUp) {
  expect_run([] {
    const auto device = open("");
    const KnownCounters known = known_counters(device->backend(), "intel:0");
    std::vector<std::string> names;
    for (const Counter& counter : known.counters) names.push_back(counter.name);
    EXPECT_THAT(names, ElementsAre("ComputeBasic.GpuTime", "ComputeBasic.WorkItems", "ComputeBasic.Launches"))
        << "no ratio, no group that samples time";
    EXPECT_EQ(known.counters[0].what, "emulated: time between begin and end of the query, in ns");
    auto counting = take(Counting::begin(device, std::vector<std::string>{"ComputeBasic.GpuTime"}));
    Work(device).replay(1);
    EXPECT_GT(take(counting.read())[0].value, 0u);
  });
}

TEST_F(IntelMetrics, TheSwitchThatIsOffIsNamed) {
  expect_run([] {
    const auto device = open("", nullptr);
    const KnownCounters known = known_counters(device->backend(), "intel:0");
    EXPECT_TRUE(known.counters.empty());
    EXPECT_THAT(known.why_none,
                AllOf(HasSubstr("ZE_RESULT_ERROR_UNSUPPORTED_FEATURE"), HasSubstr("set ZET_ENABLE_METRICS=1")));
    const auto counting = Counting::begin(device, kBoth);
    ASSERT_FALSE(counting);
    EXPECT_THAT(counting.error().message, AllOf(HasSubstr("there is no counter 'ComputeBasic.WorkItems'"),
                                                HasSubstr("set ZET_ENABLE_METRICS=1")));
  });
}

TEST_F(IntelMetrics, WantOfRightsIsToldWithWhatToDo) {
  expect_run([] {
    const auto device = open("deny@query(zetContextActivateMetricGroups)#1");
    const crucible_str name = {kBoth[0].data(), kBoth[0].size()};
    crucible_status const status = device->backend().tables().profile.begin(device->handle(), &name, 1);
    ASSERT_NE(status, nullptr);
    EXPECT_EQ(abi::error_functions(status).code(status) & 0xff, CRUCIBLE_E_PERMISSION);
    EXPECT_THAT(to_result(status, "begin").error().message,
                AllOf(HasSubstr("ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS"), HasSubstr("perf_stream_paranoid=0"),
                      HasSubstr("observation_paranoid=0")));
    EXPECT_TRUE(Counting::begin(device, kBoth)) << "nothing was left behind";
  });
  expect_run([] {
    const auto device = open("deny@query(zetMetricGroupGet)");
    EXPECT_THAT(known_counters(device->backend(), "intel:0").why_none, HasSubstr("perf_stream_paranoid=0"));
    EXPECT_THAT(capability_reason(device->backend(), "intel:0", "profile"), HasSubstr("perf_stream_paranoid=0"));
  });
}

TEST_F(IntelMetrics, AnUnknownOneNamesThoseThatThereAre) {
  expect_run([] {
    const auto counting = Counting::begin(open(""), std::vector<std::string>{"ComputeBasic.EuActive"});
    ASSERT_FALSE(counting);
    EXPECT_THAT(counting.error().message,
                HasSubstr("this device has ComputeBasic.GpuTime, ComputeBasic.WorkItems, ComputeBasic.Launches"));
  });
}

}  // namespace
}  // namespace crucible::backend
