// Translated kernels as code of this process: compiled by core/compiler, kept in its cache, loaded.
#pragma once

#include <expected>
#include <string>

#include "tests/emulators/core/grid.hpp"
#include "tests/emulators/ptx/ptx.hpp"

namespace crucible::emulators::ptx {

/// Unmapped with the object; no kernel of it may be running then. Threads: any after load().
class Library {
 public:
  /// Errors: the compiler's or the loader's words. Threads: any.
  static std::expected<Library, std::string> load(Translation translation);
  Library(Library&& other) noexcept;
  Library& operator=(Library&& other) noexcept;
  ~Library();

  const Translation& translation() const { return translation_; }
  /// How kernel `index` of the translation is entered.
  emulator::KernelCode code(std::size_t index) const;
  /// Host address of a global.
  char* address(const Global& global) const;

 private:
  Library(Translation translation, void* handle) : translation_(std::move(translation)), handle_(handle) {}
  Translation translation_;
  void* handle_ = nullptr;
};

}  // namespace crucible::emulators::ptx
