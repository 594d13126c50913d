// The debug layers around a plugin that is a few functions of this file: each rule is broken once, and named.
#include "plugins/layers/layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

namespace crucible::layers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

crucible_str text(std::string_view words) { return {words.data(), words.size()}; }

std::string take(crucible_status status) {
  if (status == nullptr) return "ok";
  const auto functions = abi::error_functions(status);
  const crucible_str message = functions.message(status);
  std::string result(message.data, message.size);
  functions.destroy(status);
  return result;
}

/// What the plugin of this test does; static, as table entries have no context.
struct Fake {
  static inline std::uint64_t next_handle = 0;
  static inline int calls = 0;
  static inline std::function<void()> in_stats;
  template <class T>
  static crucible_status make(T** out) {
    ++calls;
    *out = reinterpret_cast<T*>(0x1000 + 16 * ++next_handle);
    return nullptr;
  }
};

class PluginLayers : public testing::Test {
 protected:
  PluginLayers() {
    Fake::next_handle = 0;
    Fake::calls = 0;
    Fake::in_stats = [] {};
    tables = abi::unimplemented_tables();
    tables.device.open = [](crucible_str, crucible_device** out) { return Fake::make(out); };
    tables.device.close = [](crucible_device*) -> crucible_status { return ++Fake::calls, nullptr; };
    tables.memory.alloc = [](crucible_device*, std::uint64_t, std::uint64_t, crucible_buffer** out) {
      return Fake::make(out);
    };
    tables.memory.free = [](crucible_buffer*) -> crucible_status { return ++Fake::calls, nullptr; };
    tables.memory.fill = [](crucible_buffer*, std::uint64_t, std::uint64_t, std::uint8_t) -> crucible_status {
      Fake::in_stats();
      return nullptr;
    };
    tables.compile.kernel = [](crucible_module*, crucible_str, crucible_kernel** out) { return Fake::make(out); };
  }
  ~PluginLayers() override {
    if (slot >= 0) unwrap(slot);
  }
  void start(bool validate, bool trace, bool ledger) {
    slot = wrap(tables, {validate, trace, ledger, "fake", [this](std::string_view line) { lines.emplace_back(line); },
                         [this](std::string_view line) { reports.emplace_back(line); }});
    ASSERT_GE(slot, 0);
  }
  crucible_device* open() {
    crucible_device* device = nullptr;
    EXPECT_EQ(take(tables.device.open(text("fake:0"), &device)), "ok");
    return device;
  }
  crucible_buffer* alloc(crucible_device* device) {
    crucible_buffer* buffer = nullptr;
    EXPECT_EQ(take(tables.memory.alloc(device, 64, 16, &buffer)), "ok");
    return buffer;
  }
  /// The call was refused with this text, and the plugin was not reached.
  void expect_misuse(crucible_status status, const std::string& expected) {
    const int before = Fake::calls;
    const std::string message = take(status);
    EXPECT_THAT(message, HasSubstr(expected));
    EXPECT_EQ(Fake::calls, before);
    ASSERT_FALSE(reports.empty());
    EXPECT_EQ(reports.back(), "plugin fake: " + message);
  }
  abi::Tables tables{};
  int slot = -1;
  std::vector<std::string> lines, reports;
};

TEST_F(PluginLayers, PassRightCallsOn) {
  start(true, false, true);
  crucible_device* const device = open();
  crucible_buffer* const buffer = alloc(device);
  EXPECT_EQ(take(tables.memory.free(buffer)), "ok");
  EXPECT_EQ(take(tables.device.close(device)), "ok");
  EXPECT_EQ(Fake::calls, 4);
  EXPECT_THAT(reports, IsEmpty());
  EXPECT_EQ(unwrap(slot), 0u);
}

TEST_F(PluginLayers, NameTheBrokenRule) {
  start(true, false, false);
  crucible_device* const device = open();
  crucible_buffer* buffer = nullptr;
  expect_misuse(tables.memory.alloc(nullptr, 64, 16, &buffer), "misuse of memory.alloc: device: no device was given");
  expect_misuse(tables.memory.alloc(device, 64, 24, &buffer),
                "misuse of memory.alloc: align: 24 is not a power of two");
  expect_misuse(tables.memory.alloc(device, 64, 16, nullptr), "misuse of memory.alloc: buffer: may not be NULL");
  expect_misuse(tables.device.open({nullptr, 5}, nullptr), "device_id: NULL for a text of 5 bytes");
  expect_misuse(tables.device.enumerate(nullptr, nullptr), "sink: may not be NULL");
  expect_misuse(tables.plan.build(device, nullptr, 3, 0, nullptr), "ops: NULL for 3 elements");
  crucible_library_desc description = {};
  std::uint64_t scratch = 0;
  expect_misuse(tables.library.claim(device, &description, &scratch), "desc: struct_size is 0");
  EXPECT_EQ(buffer, nullptr);
}

TEST_F(PluginLayers, NameStaleAndForeignHandles) {
  start(true, false, false);
  crucible_device* const device = open();
  crucible_buffer* const buffer = alloc(device);
  EXPECT_EQ(take(tables.memory.free(buffer)), "ok");
  expect_misuse(tables.memory.free(buffer), "buffer: a buffer that does not live (destroyed, or never made)");
  expect_misuse(tables.memory.free(reinterpret_cast<crucible_buffer*>(device)),
                "a buffer is wanted, device #1 was given");
}

TEST_F(PluginLayers, NameADeviceThatIsClosedTooEarly) {
  start(true, false, false);
  crucible_device* const device = open();
  alloc(device);
  expect_misuse(tables.device.close(device),
                "device: 1 objects that were made from it live, the first is buffer #2 of memory.alloc");
}

TEST_F(PluginLayers, NameCallsThatAreNotSerialised) {
  start(true, false, false);
  crucible_buffer* const buffer = alloc(open());
  std::latch inside(1), done(1);
  Fake::in_stats = [&] {
    inside.count_down();
    done.wait();
  };
  std::thread other([&] { EXPECT_EQ(take(tables.memory.fill(buffer, 0, 1, 0)), "ok"); });
  inside.wait();
  expect_misuse(tables.memory.fill(buffer, 0, 1, 0), "buffer #2 is in use by another thread");
  done.count_down();
  other.join();
  Fake::in_stats = [] {};
  EXPECT_EQ(take(tables.memory.fill(buffer, 0, 1, 0)), "ok");
}

TEST_F(PluginLayers, CatchWhatThePluginLetsOut) {
  tables.device.wait_idle = [](crucible_device*, std::uint64_t) -> crucible_status {
    throw std::runtime_error("oops");
  };
  start(true, false, false);
  EXPECT_THAT(take(tables.device.wait_idle(open(), 0)),
              HasSubstr("device.wait_idle let the exception \"oops\" cross the boundary"));
}

TEST_F(PluginLayers, RefuseErrorObjectsWithoutFunctions) {
  static crucible_error broken = {nullptr};
  tables.device.wait_idle = [](crucible_device*, std::uint64_t) -> crucible_status { return &broken; };
  start(true, false, false);
  EXPECT_THAT(take(tables.device.wait_idle(open(), 0)), HasSubstr("returned an error object without functions"));
}

TEST_F(PluginLayers, CountLeaksByKindAndMaker) {
  start(false, false, true);
  crucible_device* const device = open();
  alloc(device);
  crucible_kernel* kernel = nullptr;
  EXPECT_EQ(take(tables.compile.kernel(reinterpret_cast<crucible_module*>(1), text("k"), &kernel)),
            "ok");  // borrowed: no leak
  EXPECT_EQ(unwrap(slot), 2u);
  EXPECT_THAT(reports, ElementsAre("plugin fake: leak: device #1 of device.open was never destroyed",
                                   "plugin fake: leak: buffer #2 of memory.alloc was never destroyed"));
}

TEST_F(PluginLayers, TraceEachCallAsJson) {
  start(false, true, false);
  crucible_device* const device = open();
  alloc(device);
  EXPECT_EQ(take(tables.memory.stats(device, nullptr, nullptr)), "the plugin has no memory.stats: use a newer one");
  ASSERT_EQ(lines.size(), 3u);
  const auto first = nlohmann::json::parse(lines[0]), second = nlohmann::json::parse(lines[1]),
             third = nlohmann::json::parse(lines[2]);
  EXPECT_EQ(first["call"], "device.open");
  EXPECT_EQ(first["device_id"], "fake:0");
  EXPECT_EQ(first["made"], "device #1");
  EXPECT_EQ(second["device"], "device #1");
  EXPECT_EQ(second["size"], 64);
  EXPECT_EQ(second["result"], "ok");
  EXPECT_EQ(third["result"], "error");
  EXPECT_TRUE(third["time_ns"].is_number_unsigned());
}

TEST_F(PluginLayers, TraceEscapesAndShortensTexts) {
  start(false, true, false);
  crucible_device* device = nullptr;
  const std::string name = "\"\\\n\xff" + std::string(500, 'x');
  EXPECT_EQ(take(tables.device.open(text(name), &device)), "ok");
  const auto line = nlohmann::json::parse(lines.at(0));
  EXPECT_THAT(line["device_id"].get<std::string>(), HasSubstr("xxx..."));
  EXPECT_LT(lines.at(0).size(), 400u);
}

TEST(LayersSlots, RunOutAndComeBack) {
  std::vector<int> slots;
  for (int i = 0; i < kSlots; ++i) {
    abi::Tables tables = abi::unimplemented_tables();
    slots.push_back(wrap(tables, {}));
  }
  abi::Tables tables = abi::unimplemented_tables();
  const auto before = tables.device.open;
  EXPECT_EQ(wrap(tables, {}), -1);
  EXPECT_EQ(tables.device.open, before);
  for (const int slot : slots) EXPECT_EQ(unwrap(slot), 0u);
  EXPECT_EQ(unwrap(slots[0]), 0u);
  EXPECT_GE(slots[0] = wrap(tables, {}), 0);
  unwrap(slots[0]);
}

TEST(LayersStubs, AnswerTheirNames) {
  const abi::Tables tables = abi::unimplemented_tables();
  EXPECT_EQ(take(tables.device.open({}, nullptr)), "the plugin has no device.open: use a newer one");
  EXPECT_EQ(take(tables.health.state({}, nullptr, nullptr, nullptr)),
            "the plugin has no health.state: use a newer one");
}

}  // namespace
}  // namespace crucible::layers
