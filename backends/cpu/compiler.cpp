// The processor is part of the identity because -march=native is; the compiler counts by file, size and time of change,
// which cost no process, where --version would cost 40 ms in every run.
#include "backends/cpu/compiler.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>

#include "backends/cpu/device.hpp"
#include "backends/cpu/process.hpp"
#include "backends/cpu/sanitize.hpp"
#include "backends/cpu/sdk.hpp"
#include "plugins/sdk/kept.hpp"

namespace crucible_cpu {
namespace {

constexpr std::string_view kNames[] = {"clang-19", "clang-22", "clang-21", "clang-20", "clang-18", "clang-17",
                                       "gcc"};  // the last: same bits, slower kernels
constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

bool is_program(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

/// The first program `name` in the folders of PATH; relative folders are passed over.
std::optional<std::filesystem::path> search_path(std::string_view name) {
  const char* variable = std::getenv("PATH");
  std::string_view rest = variable != nullptr && *variable != '\0' ? variable : kDefaultPath;
  while (!rest.empty()) {
    const std::size_t colon = rest.find(':');
    const std::filesystem::path folder(rest.substr(0, colon));
    if (folder.is_absolute() && is_program(folder / name)) return folder / name;
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  }
  return std::nullopt;
}

[[noreturn]] void no_compiler(const std::string& looked_for) {
  throw Failure(CRUCIBLE_E_UNAVAILABLE, "no C compiler found (looked for " + looked_for +
                                            "): install the package clang-19, or set CRUCIBLE_CLANG");
}

std::filesystem::path locate(const std::string& wanted) {
  if (!wanted.empty()) {
    if (wanted.find('/') != std::string::npos) {
      if (is_program(wanted)) return std::filesystem::absolute(wanted);
      no_compiler(wanted + ", which is not a program");
    }
    if (const auto found = search_path(wanted)) return *found;
    no_compiler(wanted + " in PATH");
  }
  std::string looked_for;
  for (const std::string_view name : kNames) {
    if (const auto found = search_path(name)) return *found;
    looked_for += (looked_for.empty() ? "" : ", ") + std::string(name);
  }
  no_compiler(looked_for + " in PATH");
}

/// What it prints for --version; "" where it does not say.
std::string version_of(const std::filesystem::path& compiler) {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "crucible-version-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) return "";
  close(descriptor);
  std::string text;
  const Command command{{compiler.string(), "--version"}, name};
  if (run_all({&command, 1})[0] == 0) {
    std::ifstream stream(name);
    text.assign(std::istreambuf_iterator<char>(stream), {});
  }
  unlink(name.c_str());
  return text;
}

/// By its name, which costs nothing; what is called otherwise (a script around a compiler) is asked.
bool is_clang(const std::filesystem::path& compiler) {
  std::error_code error;
  const std::string name = std::filesystem::canonical(compiler, error).filename().string();
  if (name.find("clang") != std::string::npos) return true;
  if (name.find("gcc") != std::string::npos) return false;
  return version_of(compiler).find("clang") != std::string::npos;
}

/// Path, size and time of the program: asking it for its version would cost a process.
std::string toolchain_of(const Compiler& compiler) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(compiler.path, error);
  struct stat file = {};
  if (error || stat(real.c_str(), &file) != 0) no_compiler(compiler.path.string() + ", which cannot be read");
  return real.string() + ", " + std::to_string(file.st_size) + " bytes of " + std::to_string(file.st_mtim.tv_sec) +
         "." + std::to_string(file.st_mtim.tv_nsec);
}

std::string target_of(const std::string& features) {
  return "family " + cpuinfo("cpu family") + " model " + cpuinfo("model") + " stepping " + cpuinfo("stepping") +
         ", features " + crucible::sdk::binary_id(features);
}

}  // namespace

std::string compiler_in_words(const std::string& wanted) {
  try {
    return locate(wanted).string();
  } catch (const Failure&) {
    return "none found";
  }
}

Compiler find_compiler(const std::string& wanted, const CompileWay& way) {
  Compiler compiler;
  compiler.path = locate(wanted);
  // -fno-math-errno and -fno-trapping-math change no result; -ffp-contract=off keeps each rounding where the text has
  // it. No standard library is linked: what clang makes of copies (memset) is found in the process.
  compiler.flags = {"-x",
                    "c",
                    "-std=gnu17",
                    way.is_careful ? "-O1" : "-O3",
                    "-march=native",
                    "-fno-math-errno",
                    "-fno-trapping-math",
                    "-ffp-contract=off",
                    "-fPIC",
                    "-shared",
                    "-nostdlib",
                    "-w"};
  // VectorCombine of LLVM 19 to 22 takes a vector for a splat of one of its elements where one operation has both as
  // operands: a tile that multiplies numbers with themselves (v @ v.t()) came out wrong. llvm/llvm-project issue
  // 180338, fixed by its pull request 188989. The pass saves some shuffles; the safe way is to do without it.
#if defined(__x86_64__)
  compiler.flags.push_back(
      "-fstack-clash-protection");  // a frame touches each of its pages, the one behind the stack among them
#endif
  if (is_clang(compiler.path)) {
    compiler.flags.insert(compiler.flags.end(), {"-mllvm", "-disable-vector-combine"});
    if (way.is_careful)
      compiler.flags.insert(compiler.flags.end(),
                            {"-fno-vectorize", "-fno-slp-vectorize"});  // gcc does neither with -O1
  }
  if (way.is_sanitizing) {
    if (!is_clang(compiler.path)) {
      throw Failure(CRUCIBLE_E_UNAVAILABLE,
                    "kernels that check themselves (backend.cpu.sanitize) are made by clang, and " +
                        compiler.path.string() +
                        " is another compiler: install clang-19, name a clang with backend.cpu.compiler, or set "
                        "backend.cpu.sanitize to false");
    }
    compiler.flags.insert(compiler.flags.end(), kSanitizeFlags.begin(), kSanitizeFlags.end());
    compiler.before = kGuardText;
  }
  const std::string features = cpuinfo("flags");
  if ((features + " ").find(" avx512f ") != std::string::npos) compiler.flags.push_back("-mprefer-vector-width=512");
  compiler.toolchain = toolchain_of(compiler);
  compiler.target = target_of(features);
  return compiler;
}

}  // namespace crucible_cpu
