// Finding clang and compiling with it: see clang.hpp.
#include "backends/amd/clang.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "backends/amd/options.hpp"
#include "plugins/sdk/child_program.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

constexpr int kOldest = 18;
constexpr std::size_t kLongestLog = 4000;  // of an error's text
constexpr const char* kNames[] = {"clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang"};

/// What the kernels use of HIP's language. A launch's blocks are all whole, so that a grid's size is its blocks times
/// theirs.
constexpr std::string_view kPreamble =
    "#define CRUCIBLE_AXIS(axis, expression) \\\n"
    "  __attribute__((device)) unsigned get_##axis() const { return expression; } \\\n"
    "  __declspec(property(get = get_##axis)) unsigned axis;\n"
    "#define CRUCIBLE_PLACE(name, number) \\\n"
    "  struct name { CRUCIBLE_AXIS(x, number(x)) CRUCIBLE_AXIS(y, number(y)) CRUCIBLE_AXIS(z, number(z)) };\n"
    "#define CRUCIBLE_THREAD(axis) __builtin_amdgcn_workitem_id_##axis()\n"
    "#define CRUCIBLE_BLOCK(axis) __builtin_amdgcn_workgroup_id_##axis()\n"
    "#define CRUCIBLE_BLOCK_SIZE(axis) __builtin_amdgcn_workgroup_size_##axis()\n"
    "#define CRUCIBLE_GRID_SIZE(axis) (__builtin_amdgcn_grid_size_##axis() / "
    "__builtin_amdgcn_workgroup_size_##axis())\n"
    "CRUCIBLE_PLACE(crucible_thread_place, CRUCIBLE_THREAD)\n"
    "CRUCIBLE_PLACE(crucible_block_place, CRUCIBLE_BLOCK)\n"
    "CRUCIBLE_PLACE(crucible_block_size, CRUCIBLE_BLOCK_SIZE)\n"
    "CRUCIBLE_PLACE(crucible_grid_size, CRUCIBLE_GRID_SIZE)\n"
    "#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))\n"
    "#define threadIdx (crucible_thread_place())\n"
    "#define blockIdx (crucible_block_place())\n"
    "#define blockDim (crucible_block_size())\n"
    "#define gridDim (crucible_grid_size())\n";

std::filesystem::path find_clang(const std::string& option) {
  if (!option.empty()) {
    if (std::filesystem::path found = sdk::find_program(option); !found.empty()) return found;
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       "the compiler " + option + " of the option clang is no program: give a path or a name in PATH",
                       {{"where", option}});
  }
  const char* const rocm = std::getenv("ROCM_PATH");
  const std::string root = rocm != nullptr && *rocm != '\0' ? rocm : "/opt/rocm";
  std::filesystem::path found = sdk::find_program(root + "/llvm/bin/clang");
  for (const char* name : kNames) {
    if (found.empty()) found = sdk::find_program(name);
  }
  if (!found.empty()) return found;
  throw sdk::Failure(
      CRUCIBLE_E_UNAVAILABLE,
      "no clang was found in " + root +
          "/llvm/bin or PATH: install ROCm's, or clang-19 and lld-19, or name one with the option clang");
}

/// "19.1.7" of "Debian clang version 19.1.7 (...)"; "" of anything else.
std::string version_of(const std::string& words) {
  constexpr std::string_view kMark = "clang version ";
  const std::size_t at = words.find(kMark);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + kMark.size();
  return words.substr(begin, words.find_first_not_of("0123456789.", begin) - begin);
}

std::unique_ptr<Clang> open(const std::string& option) {
  auto compiler = std::make_unique<Clang>();
  compiler->file = find_clang(option).string();
  const sdk::ScratchFolder folder;
  const std::filesystem::path log = folder.path() / "log";
  (void)sdk::run_program({compiler->file, "--version"}, log);
  compiler->version = version_of(sdk::read_bytes(log, kLongestLog));
  int major = 0;
  std::from_chars(compiler->version.data(), compiler->version.data() + compiler->version.size(), major);
  if (major >= kOldest) return compiler;
  throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                     compiler->file + (compiler->version.empty() ? " is no clang" : " is clang " + compiler->version) +
                         ": clang " + std::to_string(kOldest) +
                         " or newer is needed, older ones round square roots wrongly; name one with the option clang",
                     {{"have", compiler->version}, {"need", std::to_string(kOldest)}, {"where", compiler->file}});
}

struct Compilers {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Clang>> found;
};

}  // namespace

const Clang& clang() {
  static Compilers& all = *new Compilers;  // never destroyed: a queue's thread may compile at the very end
  const std::string option = options().get_text("clang");
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<Clang>& entry = all.found[option];
  if (entry == nullptr) entry = open(option);
  return *entry;
}

std::string_view clang_preamble() { return kPreamble; }

std::vector<std::string> clang_flags(const std::string& architecture, int runtime_major, bool is_careful) {
  return {"-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "--offload-arch=" + architecture,
          // The runtime reads what of the code object's form: HIP 5 knows none newer than 4.
          std::string("-mcode-object-version=") + (runtime_major <= 5 ? "4" : "5"),
          // No ROCm has to be there: what its headers and libraries would give is in the preamble, or a builtin.
          // The pass that -mllvm names is wrong in LLVM 19 to 22: backends/cpu/compiler.cpp.
          "-mllvm", "-disable-vector-combine", "-nogpuinc", "-nogpulib", "-fdeclspec", "-std=c++17",
          is_careful ? "-O1" : "-O3", "-ffp-contract=off", "-fhip-fp32-correctly-rounded-divide-sqrt",
          "-fno-gpu-flush-denormals-to-zero", "--gpu-max-threads-per-block=" + std::to_string(sdk::kMostBlockThreads),
          "-w"};
}

Hiprtc::Compiled Clang::compile(const std::string& text, const std::string& architecture, int runtime_major,
                                const std::string& who, bool is_careful) const {
  const sdk::ScratchFolder folder;
  const std::filesystem::path source =
      folder.write("kernels.hip", std::string(kPreamble) + "#line 1 \"crucible.hip\"\n" + text);
  const std::filesystem::path object = folder.path() / "kernels.co", log = folder.path() / "log";
  std::vector<std::string> words = {file};
  for (std::string& flag : clang_flags(architecture, runtime_major, is_careful)) words.push_back(std::move(flag));
  words.insert(words.end(), {source.string(), "-o", object.string()});
  const int status = sdk::run_program(words, log);
  Hiprtc::Compiled compiled;
  compiled.log = sdk::read_bytes(log);
  compiled.bytes = sdk::read_bytes(object);
  if (status == 0 && !compiled.bytes.empty()) return compiled;
  const std::string said = describe() + " (" + file + ") ";
  if (compiled.log.find("lld' failed") != std::string::npos ||
      compiled.log.find("unable to execute command") != std::string::npos ||
      compiled.log.find("lld: error: unknown") != std::string::npos) {
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       said + "has no linker of its version for " + architecture + " (" +
                           compiled.log.substr(0, kLongestLog) +
                           "): install lld beside it, Debian's lld-19 for clang-19",
                       {{"where", file}, {"need", "lld"}});
  }
  throw sdk::Failure(CRUCIBLE_E_INTERNAL,
                     said + "refuses the kernels " + who + " for " + architecture + " (status " +
                         std::to_string(status) + "): " + compiled.log.substr(0, kLongestLog),
                     {{"where", file}, {"kernel", who}, {"vendor.code", std::to_string(status)}});
}

}  // namespace crucible_amd
