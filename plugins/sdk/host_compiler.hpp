// Kernels as C text, compiled by the machine's C compiler and loaded into this process: what a plugin whose device is
// the host runs, and what a new plugin runs until its own compiler is in place.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/options.hpp"

namespace crucible::sdk {

/// A kernel in the dialect "c": does the work items [begin, end) of a launch; items are independent of each other.
using HostKernel = void (*)(void* const* buffers, const double* scalars, std::int64_t begin, std::int64_t end);

/// Functions of one compiled text. Unmapped with the object.
class HostLibrary {
 public:
  /// Compiles a self-contained C text (prelude and kernels). `compiler` is a path or a name; "" looks for clang-19 and
  /// its neighbours, then clang, cc and gcc in PATH. Threads: any. Errors: UNAVAILABLE when there is no compiler or no
  /// place for its files; INTERNAL with the compiler's own words.
  static std::unique_ptr<HostLibrary> compile(const std::string& text, const std::string& compiler = "");

  /// The two halves of it, for who keeps what was compiled (kept.hpp): the bytes of a shared object, with the
  /// compiler's words in `log`; and the functions in such bytes.
  static std::string build(const std::string& text, const std::string& compiler, std::string& log);
  static std::unique_ptr<HostLibrary> load(const std::string& bytes);
  /// What a compiled text depends on: the compiler that build() would take and its age. Errors: those of finding it.
  static std::string compiler_id(const std::string& compiler);

  HostLibrary(const HostLibrary&) = delete;
  HostLibrary& operator=(const HostLibrary&) = delete;
  ~HostLibrary();
  /// Null when there is no such function.
  HostKernel kernel(const std::string& name) const;
  /// Bytes of a kernel's machine code; 0 when there is no such function.
  std::uint64_t kernel_bytes(const std::string& name) const;
  std::uint64_t binary_bytes() const { return binary_bytes_; }
  /// What the compiler printed: warnings.
  const std::string& log() const { return log_; }

 private:
  HostLibrary() = default;
  void* handle_ = nullptr;
  std::uint64_t binary_bytes_ = 0;
  std::string log_;
};

/// The option that names a compiler: `help` says which one and what is taken where nobody names one, `env` is the
/// variable that names it, too, or "".
constexpr OptionSpec compiler_option(std::string_view help, std::string_view env = {}) {
  return {
      .name = "compiler", .type = OptionType::kPath, .help = help, .env = env, .from_folder = FromFolder::kNeedsTrust};
}

/// The option that `compiler` of HostLibrary comes from.
inline constexpr OptionSpec kCompilerOption =
    compiler_option("C compiler of the kernels, a path or a name in PATH; by default clang, cc or gcc.");

/// True for a name that C takes: letters, digits and '_', not starting with a digit.
bool is_c_name(std::string_view name);

}  // namespace crucible::sdk
