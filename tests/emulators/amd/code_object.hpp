// The emulator's code object: what hiprtc hands out and a module is loaded from. A head in lines (architecture, wave,
// kernels, length and sum of what follows), then the shared object.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "tests/emulators/core/grid.hpp"

namespace crucible::emulator {

struct CodeObject {
  std::string arch;
  std::uint32_t wave = 64;
  struct Kernel {
    std::string name;
    bool meets = false;
    std::uint32_t most_threads = 1024;
  };
  std::vector<Kernel> kernels;
  std::string shared_object;
};

std::string serialize(const CodeObject& code);

enum class ImageError {
  kNotOurs,       // a real code object, or anything else
  kDamaged,
  kNotLoadable,   // dlopen refuses it
};

/// Reads what serialize() made. The caller cannot say how long it is, so nothing behind the head is read before the
/// head was found right.
std::expected<CodeObject, ImageError> read_code_object(const char* image);

struct Parameter {
  std::uint32_t offset = 0, size = 0;
  enum class Kind : std::uint32_t { kNumber = 0, kPointer = 1, kOther = 2 } kind = Kind::kNumber;
};

struct LoadedKernel {
  std::string name;
  KernelCode code;
  std::vector<Parameter> parameters;
  std::uint32_t argument_bytes = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t most_threads = 1024;
};

/// A loaded code object; its functions live as long as it. Threads: any once it is loaded.
class LoadedCode {
 public:
  static std::expected<std::shared_ptr<const LoadedCode>, ImageError> load(const CodeObject& code);
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;
  ~LoadedCode();

  const std::string& arch() const { return arch_; }
  /// Null when there is none of that name.
  const LoadedKernel* find(const std::string& name) const;

 private:
  LoadedCode() = default;
  bool add(const CodeObject::Kernel& kernel, std::uint32_t wave, const std::string& elf);
  void* library_ = nullptr;
  std::string arch_;
  std::size_t thread_local_bytes_ = 0;
  std::vector<std::unique_ptr<LoadedKernel>> kernels_;
};

}  // namespace crucible::emulator
