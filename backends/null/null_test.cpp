// The null plugin through the loader: it counts what it is asked for, checks arguments, and computes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

template <class T>
T take(Result<T> result) {
  EXPECT_TRUE(static_cast<bool>(result)) << result.error().message;
  return *std::move(result);
}

class Null : public ::testing::Test {
 protected:
  std::shared_ptr<Device> device_ = take(take(Backend::load(take(find_backend("null")), {}))->open(""));
  std::map<std::string, std::string> counts() {
    const Properties properties = take(device_->properties());
    return {properties.begin(), properties.end()};
  }
};

TEST_F(Null, CountsBytesThatItDoesNotKeep) {
  Buffer buffer = take(Buffer::allocate(device_, std::uint64_t{1} << 40, 256));  // more than any machine has
  EXPECT_EQ(buffer.address() % 256, 0u);
  std::vector<std::byte> data(100, std::byte{7});
  ASSERT_TRUE(buffer.write((std::uint64_t{1} << 40) - 100, data));
  ASSERT_TRUE(buffer.read(5, data));
  EXPECT_EQ(data, std::vector<std::byte>(100));
  ASSERT_TRUE(buffer.fill(0, 1000, 1));
  auto counted = counts();
  EXPECT_EQ(counted["buffers_made"], "1");
  EXPECT_EQ(counted["bytes_allocated"], std::to_string(std::uint64_t{1} << 40));
  EXPECT_EQ(counted["bytes_written"], "100");
  EXPECT_EQ(counted["bytes_read"], "100");
  EXPECT_EQ(counted["bytes_filled"], "1000");
  EXPECT_EQ(take(device_->peak_bytes()), std::uint64_t{1} << 40);
}

TEST_F(Null, CountsLaunchesPerReplay) {
  kernel::KernelIr nothing;
  nothing.variables = {{DType::kI64, false}};
  nothing.body = {{.kind = kernel::StmtKind::kGrid, .id = 0, .body = {}}};
  const std::vector<KernelSource> kernels = {{"k", "", kernel::serialize_ir(nothing)}};
  const Module module = take(Module::compile(device_, kernels));
  Buffer memory = take(Buffer::allocate(device_, 4096, 64));
  const std::uint64_t buffers[] = {memory.address(), memory.address() + 2048};
  crucible_op ops[3] = {};
  for (crucible_op& op : ops) op.struct_size = sizeof(op), op.buffers = buffers, op.buffer_count = 2, op.size = 64;
  ops[0].kind = CRUCIBLE_OP_LAUNCH;
  ops[0].kernel = take(module.kernel("k"));
  ops[0].grid = 1000;
  ops[1].kind = CRUCIBLE_OP_COPY;
  ops[2].kind = CRUCIBLE_OP_FILL;
  Plan plan = take(Plan::build(device_, ops, 1));
  const std::uint64_t slot = 3;
  ASSERT_TRUE(plan.set_slots(std::span(&slot, 1)));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(plan.replay());
  EXPECT_EQ(take(plan.profile()), (std::vector<std::uint64_t>{0, 0, 0}));
  EXPECT_EQ(plan.times_from(), "nothing: no op takes any");
  auto counted = counts();
  EXPECT_EQ(counted["kernels_compiled"], "1");
  EXPECT_EQ(counted["ir_bytes"], std::to_string(kernels[0].ir.size()));
  EXPECT_EQ(counted["ops_built"], "3");
  EXPECT_EQ(counted["replays"], "4");
  EXPECT_EQ(counted["launches"], "4");
  EXPECT_EQ(counted["work_items"], "4000");
  EXPECT_EQ(counted["bytes_copied"], "256");
  EXPECT_EQ(counted["bytes_patterned"], "256");
  EXPECT_EQ(counted["slots_set"], "1");
}

TEST_F(Null, RefusesWhatNoDeviceTakes) {
  Buffer buffer = take(Buffer::allocate(device_, 10, 1));
  const auto written = buffer.write(8, std::vector<std::byte>(3));
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, HasSubstr("bytes 8 and 3 on are not inside a buffer of 10"));
  const auto absurd = Buffer::allocate(device_, UINT64_MAX, 64);
  ASSERT_FALSE(absurd);
  EXPECT_THAT(absurd.error().message, HasSubstr("at most"));
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_LIBRARY;
  const auto plan = Plan::build(device_, std::span(&op, 1), 0);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, HasSubstr("op 0 is a library call, and this plugin claims none"));
  op.kind = CRUCIBLE_OP_LAUNCH;
  EXPECT_THAT(Plan::build(device_, std::span(&op, 1), 0).error().message, HasSubstr("a launch without a kernel"));
  op.kind = CRUCIBLE_OP_COPY;
  EXPECT_THAT(Plan::build(device_, std::span(&op, 1), 0).error().message, HasSubstr("it has 0 buffers and needs 2"));
  const std::vector<KernelSource> broken = {{"k", "", std::vector<std::byte>(60)}}, opaque = {{"k", "{}"}};
  EXPECT_THAT(Module::compile(device_, broken).error().message, HasSubstr("the first four bytes are not CKIR"));
  EXPECT_THAT(Module::compile(device_, opaque).error().message,
              HasSubstr("kernel k is an opaque op, and the device runs kernel IR alone"));
}

}  // namespace
}  // namespace crucible::backend
