// Where tests keep what their plugins compile.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "core/base/terminal.hpp"
#include "store/store.hpp"

namespace crucible::backend {

/// The store in `folder`, which is made where it is missing; faults are told as the product tells them.
inline std::shared_ptr<store::Store> keep_in(const std::filesystem::path& folder) {
  store::StoreOptions options;
  options.folder = folder;
  options.is_durable = false;
  options.tell = [](const std::string& words) { tell("crucible: {}\n", words); };
  auto opened = store::Store::open(std::move(options));
  if (!opened) {
    tell("crucible: {}\n", opened.error().message);
    std::abort();
  }
  return *std::move(opened);
}

/// One for all tests of all programs, so that equal kernels are compiled once.
inline std::shared_ptr<store::Store> shared_store() {
  return keep_in(std::filesystem::temp_directory_path() / "crucible_runtime_test_store");
}

}  // namespace crucible::backend
