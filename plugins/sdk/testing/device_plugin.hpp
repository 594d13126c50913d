// What every plugin for devices with compilers and graphs must do, as a suite that each such plugin's own test
// instantiates: the plugin through the loader, by its one exported symbol. Cases that need a device are skipped where
// there is none.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/kernel/ir/ir_builder.hpp"
#include "core/kernel/schedule.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/testing/kept.hpp"

namespace crucible::backend {

struct PluginUnderTest {
  std::string name, dialect;  // "nvidia", "cuda"
  Options options;            // which libraries
};
/// For the names of the cases.
inline void PrintTo(const PluginUnderTest& plugin, std::ostream* out) { *out << plugin.name; }

template <class T>
T take(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  return *std::move(result);
}

/// The plugin's first device. `more` come on top of the plugin's options; nothing is kept without a store.
Result<std::shared_ptr<Device>> try_open(const PluginUnderTest& plugin, const Options& more = {},
                                         std::shared_ptr<store::Store> store = nullptr);

/// buffer[0][i] = the sum of all the others at i; with one type for all.
KernelSource sums(std::uint32_t buffers, DType type);

/// Compiles and runs sums() on a new device and says what went wrong, then what a read answers: "" where nothing did.
/// For emulated drivers with faults, in a process of its own, because rules are read once.
std::string run_under_faults(const PluginUnderTest& plugin, const char* rules);

class DevicePlugin : public ::testing::TestWithParam<PluginUnderTest> {
 protected:
  void SetUp() override;
  /// A plugin is started once, with one set of options: closes the device first.
  std::shared_ptr<Device> reopen(const Options& more, std::shared_ptr<store::Store> store = nullptr);
  /// `kernel` over the values; all buffers lie in one arena, one behind the other, at odd places.
  template <class T>
  std::vector<T> run(const KernelSource& kernel, std::uint32_t buffers, const std::vector<T>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    const std::vector<std::byte> result = run_bytes(kernel, buffers, bytes, sizeof(T));
    std::vector<T> typed(values.size());
    std::memcpy(typed.data(), result.data(), result.size());
    return typed;
  }
  std::shared_ptr<Device> device_;

 private:
  std::vector<std::byte> run_bytes(const KernelSource& kernel, std::uint32_t buffers,
                                   const std::vector<std::byte>& values, std::size_t element);
};

}  // namespace crucible::backend
