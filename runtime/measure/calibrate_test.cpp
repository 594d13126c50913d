// Calibration against the real CPU plugin: what it computes, and the form of what it says. No time is judged.
#include "runtime/measure/calibrate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>

#include "core/kernel/schedule.hpp"
#include "plugins/loader/testing/kept.hpp"
#include "runtime/measure/calibrate_kernels.hpp"

namespace crucible::runtime {
namespace {

std::shared_ptr<backend::Device> open_cpu() {
  auto loaded = backend::Backend::load(CRUCIBLE_TEST_CPU_PLUGIN, {{"threads", "2"}}, backend::shared_store());
  EXPECT_TRUE(loaded) << loaded.error().message;
  if (!loaded) return nullptr;
  auto opened = (*loaded)->open("");
  return opened ? *opened : nullptr;
}

/// Runs one kernel on numbers that are `start` everywhere; the content of buffer 0, and of buffer 1 behind it.
std::vector<float> run(const CalibrationKernel& kernel, double passes, float start) {
  const auto device = open_cpu();
  const Result<backend::KernelSource> source = source_of(kernel);
  EXPECT_TRUE(source) << source.error().message;
  if (!device || !source) return {};
  auto module = backend::Module::compile(device, std::span(&*source, 1));
  EXPECT_TRUE(module) << module.error().message;
  if (!module) return {};
  auto data = backend::Buffer::allocate(device, static_cast<std::uint64_t>(kernel.elements) * 4, 256);
  auto results =
      backend::Buffer::allocate(device, static_cast<std::uint64_t>(std::max<std::int64_t>(kernel.results, 1)) * 4, 256);
  std::vector<float> numbers(static_cast<std::size_t>(kernel.elements), start);
  EXPECT_TRUE(data->write(0, std::as_bytes(std::span(numbers))));
  const std::uint64_t buffers[] = {data->address(), results->address()};
  const crucible_scalar scalar{std::bit_cast<std::uint64_t>(passes), CRUCIBLE_SLOT_NONE, 0};
  crucible_op op{};
  op.struct_size = sizeof op;
  op.kind = CRUCIBLE_OP_LAUNCH;
  op.kernel = *module->kernel(kernel.name);
  op.buffers = buffers;
  op.buffer_count = static_cast<std::uint32_t>(kernel.ir.buffers.size());
  op.scalars = &scalar;
  op.scalar_count = 1;
  op.grid = kernel.items;
  op.grain = 1;
  auto plan = backend::Plan::build(device, std::span(&op, 1), 0);
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan || !plan->replay()) return {};
  EXPECT_TRUE(data->read(0, std::as_writable_bytes(std::span(numbers))));
  std::vector<float> sums(static_cast<std::size_t>(kernel.results));
  if (!sums.empty()) {
    EXPECT_TRUE(results->read(0, std::as_writable_bytes(std::span(sums))));
  }
  numbers.insert(numbers.end(), sums.begin(), sums.end());
  return numbers;
}

TEST(CalibrationKernels, DoWhatTheyAreTimedFor) {
  for (const Walk walk : {Walk::kPieces, Walk::kStrided}) {
    const std::vector<float> read = run(read_kernel("read", 3, 40, walk), 5, 2);
    ASSERT_EQ(read.size(), 123u);
    for (std::size_t i = 120; i < 123; ++i) EXPECT_EQ(read[i], 400);  // every pass reads every element
    const std::vector<float> updated = run(update_kernel("update", 3, 40, walk), 2, 4);
    ASSERT_EQ(updated.size(), 120u);
    for (const float number : updated) EXPECT_EQ(number, 2.5f);
  }
  const std::vector<float> added = run(multiply_add_kernel("multiply_add", 2, 8), 1, 0);
  ASSERT_EQ(added.size(), 16u);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(added[i], static_cast<float>(i % 8) * 0.5f + 1);
  const std::vector<float> touched = run(touch_kernel("touch", 2), 1, 4);
  for (std::size_t i = 0; i < touched.size(); ++i) EXPECT_EQ(touched[i], i % 16 == 0 ? 3 : 4);
}

TEST(Calibrate, GivesAWholeProfile) {
  const auto device = open_cpu();
  ASSERT_NE(device, nullptr);
  std::vector<std::string> said;
  CalibrateOptions options{.rounds = 2,
                           .largest_bytes = 1 << 20,
                           .bytes_per_round = 1 << 20,
                           .date = "2026-01-31",
                           .threads = 2,
                           .progress = nullptr};
  options.progress = [&](std::string_view what) { said.emplace_back(what); };
  const Result<Calibration> calibration = calibrate(device, options);
  ASSERT_TRUE(calibration) << calibration.error().message;
  const hardware::DeviceProfile& profile = calibration->profile;
  EXPECT_THAT(hardware::check(profile), ::testing::IsEmpty());
  EXPECT_TRUE(profile.name.starts_with("cpu-") && profile.name.ends_with("-2-threads")) << profile.name;
  EXPECT_EQ(profile.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
  EXPECT_EQ(profile.devices, std::vector<std::string>{device->info().name});
  EXPECT_EQ(profile.threads, 2u);
  EXPECT_EQ(profile.value("host_link.bandwidth"), 0);
  EXPECT_EQ(calibration->curve.front().bytes, 2u * 8192);
  EXPECT_EQ(calibration->curve.back().bytes, 1u << 20);
  for (const CalibratedPoint& point : calibration->curve) {
    EXPECT_GT(point.read.median, 0);
    EXPECT_GT(point.update.median, 0);
  }
  for (const auto& [key, figure] : profile.figures)
    EXPECT_EQ(figure.provenance, hardware::Provenance::kCalibrated) << key;
  EXPECT_THAT(said, ::testing::Contains("multiply-adds"));
  EXPECT_GT(calibration->wall_ns, 0u);
}

}  // namespace
}  // namespace crucible::runtime
