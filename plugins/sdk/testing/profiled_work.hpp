// What tests of plugins with profilers run and ask: a plan of a few ops, a product between two fills, what counters
// have counted, and what a refusal says.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugins/abi/stubs.hpp"
#include "plugins/loader/counters.hpp"
#include "plugins/sdk/testing/device_plugin.hpp"
#include "plugins/sdk/testing/told_health.hpp"

namespace crucible::backend {

constexpr std::int64_t kItems = 1000;

/// A fill, a launch, a launch of nothing and another one, over 1000 floats.
class Work {
 public:
  explicit Work(const std::shared_ptr<Device>& device)
      : memory_(take(Buffer::allocate(device, 2 * kItems * sizeof(float), 256))) {
    const KernelSource kernel = sums(2, DType::kF32);
    module_ = std::make_unique<Module>(take(Module::compile(device, std::span(&kernel, 1))));
    places_ = {memory_.address(), memory_.address() + kItems * sizeof(float)};
    std::vector<crucible_op> ops(4);
    for (crucible_op& op : ops) {
      op = {};
      op.struct_size = sizeof(op);
      op.kind = CRUCIBLE_OP_LAUNCH;
      op.buffers = places_.data();
      op.buffer_count = 2;
      op.grain = 1;
      op.grid = kItems;
      op.kernel = take(module_->kernel(kernel.name));
    }
    ops[0].kind = CRUCIBLE_OP_FILL;
    ops[0].kernel = nullptr;
    ops[0].buffer_count = 1;
    ops[0].size = kItems * sizeof(float);
    ops[2].grid = 0;
    plan_ = std::make_unique<Plan>(take(Plan::build(device, ops, 0)));
  }
  Plan& plan() { return *plan_; }

 private:
  Buffer memory_;
  std::unique_ptr<Module> module_;
  std::vector<std::uint64_t> places_;
  std::unique_ptr<Plan> plan_;
};

/// `run` in a process of its own, whose words on standard error are those of `said`.
inline void expect_run(const std::function<void()>& run, const char* said = "") {
  EXPECT_EXIT(
      {
        run();
        end_child();
      },
      ::testing::ExitedWithCode(0), said);
}

/// A fill, a product in three buffers of 16 KiB, and the fill again.
inline std::vector<std::uint64_t> times_around(const std::shared_ptr<Device>& device,
                                               const crucible_library_desc& product) {
  const Buffer memory = take(Buffer::allocate(device, 3 * 16384, 256));
  std::uint64_t scratch = 0;
  EXPECT_TRUE(to_result(device->backend().library_table().claim(device->handle(), &product, &scratch), "claim"));
  const std::vector<std::uint64_t> places = {memory.address(), memory.address() + 16384, memory.address() + 32768};
  crucible_op fill = {};
  fill.struct_size = sizeof(fill);
  fill.kind = CRUCIBLE_OP_FILL;
  fill.buffers = places.data();
  fill.buffer_count = 1;
  fill.size = 16384;
  fill.grain = 1;
  crucible_op call = fill;
  call.kind = CRUCIBLE_OP_LIBRARY;
  call.buffer_count = 3;
  call.size = 0;
  call.library = &product;
  const std::vector<crucible_op> ops = {fill, call, fill};
  return take(take(Plan::build(device, ops, 0)).profile());
}

/// What begin() answers, and the ABI's category of it.
inline std::pair<std::uint32_t, std::string> refusal(const std::shared_ptr<Device>& device,
                                                     const std::vector<std::string>& names) {
  std::vector<crucible_str> texts;
  for (const std::string& name : names) texts.push_back({name.data(), name.size()});
  crucible_status const status = device->backend().tables().profile.begin(device->handle(), texts.data(),
                                                                          static_cast<std::uint32_t>(texts.size()));
  if (status == nullptr) return {0, ""};
  const std::uint32_t code = static_cast<std::uint32_t>(abi::error_functions(status).code(status)) & 0xff;
  return {code, to_result(status, "begin").error().message};
}

inline std::vector<std::uint64_t> values_of(Counting& counting) {
  std::vector<std::uint64_t> values;
  for (const CounterValue& counter : take(counting.read())) values.push_back(counter.value);
  return values;
}

}  // namespace crucible::backend
