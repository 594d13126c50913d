// Compiling and running schedules inside a test: see host_executor.hpp.
#include "core/kernel/testing/host_executor.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "plugins/kernel_ir/math_prelude.hpp"
#include "plugins/sdk/c_dialect.hpp"

extern char** environ;

namespace crucible::kernel {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Runs a program with its output in `log`; the exit status, or -1.
int run_program(const std::vector<std::string>& arguments, const std::filesystem::path& log) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), 0x241 /* create, write, truncate */, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace

std::string HostKernels::compiler() {
  for (const char* path : {"/usr/bin/clang-19", "/usr/bin/clang"}) {
    if (access(path, X_OK) == 0) return path;
  }
  return "";
}

Result<HostKernels> HostKernels::compile(const std::vector<const Schedule*>& schedules) {
  std::set<std::string> seen;
  std::string text;
  for (const Schedule* schedule : schedules) {
    for (const Kernel& kernel : schedule->kernels) {
      if (seen.insert(kernel.name).second)
        text += sdk::print_kernel(sdk::read_kernel(kernel.ir.data(), kernel.ir.size()), sdk::dialect_c(), kernel.name);
    }
  }
  return compile_text(text);
}

Result<HostKernels> HostKernels::compile_text(const std::string& text) {
  char folder[] = "/tmp/crucible-kernel-test-XXXXXX";
  if (mkdtemp(folder) == nullptr) return Error{ErrorCode::kUnavailable, "no temporary folder"};
  const std::filesystem::path base(folder);
  std::ofstream(base / "k.c") << math_prelude() << text;
  const std::vector<std::string> arguments = {
      compiler(),
      "-O2",
      "-march=native",
      "-mprefer-vector-width=512",
      "-fno-math-errno",
      "-fno-trapping-math",
      "-ffp-contract=off",
      "-mllvm",
      "-disable-vector-combine",  // wrong in LLVM 19 to 22: backends/cpu/compiler.cpp
      "-Wall",
      "-Werror",
      "-Wno-unused",
      "-Wno-pass-failed",
      "-fPIC",
      "-shared",
      "-o",
      (base / "k.so").string(),
      (base / "k.c").string()};
  const int status = run_program(arguments, base / "log");
  HostKernels kernels;
  Result<HostKernels> result = Error{ErrorCode::kUnavailable, "clang failed:\n" + read_text(base / "log")};
  if (status == 0) {
    kernels.handle_ = dlopen((base / "k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    if (kernels.handle_ == nullptr) {
      result = Error{ErrorCode::kUnavailable, fmt::format("the kernels do not load: {}", dlerror())};
    } else {
      result = std::move(kernels);
    }
  }
  if (std::getenv("CRUCIBLE_KEEP_KERNELS") == nullptr) std::filesystem::remove_all(base);
  return result;
}

void* HostKernels::symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

HostKernels::HostKernels(HostKernels&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

HostKernels& HostKernels::operator=(HostKernels&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

HostKernels::~HostKernels() {
  if (handle_ != nullptr) dlclose(handle_);
}

Result<std::vector<graph::Bytes>> run_on_host(const graph::Program& program, const Schedule& schedule,
                                              const HostKernels& kernels, std::vector<graph::Bytes> values,
                                              const std::vector<graph::Number>& slots, const RunOptions& options) {
  return run_schedule(program, schedule, std::move(values), slots, options, [&](const Launch& launch) -> Result<void> {
    const std::string& name = schedule.kernels[launch.step.kernel].name;
    const auto function = reinterpret_cast<KernelFunction>(kernels.symbol(name));
    if (function == nullptr) return Error{ErrorCode::kInternal, "no kernel " + name};
    std::vector<void*> buffers;
    for (graph::Bytes* buffer : launch.buffers) buffers.push_back(buffer->data());
    function(buffers.data(), reinterpret_cast<const double*>(launch.scalars.data()), launch.begin, launch.end);
    return {};
  });
}

}  // namespace crucible::kernel
