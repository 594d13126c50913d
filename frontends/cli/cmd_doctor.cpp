// `crucible doctor`: what this machine has for recording and replaying, what is missing, and which package has it.
// Every check is made, not guessed: devices test themselves and compile a kernel; libraries are looked up, never loaded
// here.
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/terminal.hpp"
#include "core/kernel/ir/ir_builder.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/replay/kept_store.hpp"
#include "frontends/replay/open_device.hpp"
#include "frontends/replay/plugin_access.hpp"
#include "plugins/kernel_ir/serialize.hpp"
#include "plugins/loader/backend.hpp"
#include "plugins/loader/capability.hpp"

namespace crucible::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// ok; missing: something that this machine could have and has not; failed: something that is needed and does not work.
enum class Verdict : std::uint8_t { kOk, kMissing, kFailed };

struct Check {
  std::string name;
  Verdict verdict = Verdict::kOk;
  std::string detail, fix;
};

std::string_view word(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kMissing:
      return "missing";
    case Verdict::kFailed:
      return "failed";
  }
  return "";
}

/// What a command prints on standard output, "" when it cannot be run or fails.
std::string output_of(const std::string& command) {
  std::string text;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::array<char, 4096> piece{};
  for (std::size_t size = 0; (size = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    text.append(piece.data(), size);
  return pclose(pipe) == 0 ? text : "";
}

/// A kernel of one line, compiled and looked up: that is what a replay needs. "" or what is wrong.
std::string compile_something(const std::shared_ptr<backend::Device>& device) {
  kernel::IrBuilder nothing;
  nothing.open_grid(kernel::LoopMode::kSerial);
  nothing.close();
  const std::vector<backend::KernelSource> kernels = {{"doctor_probe", "", kernel::serialize_ir(nothing.finish())}};
  const auto module = backend::Module::compile(device, kernels);
  if (!module) return module.error().message;
  const auto kernel = module->kernel("doctor_probe");
  return kernel ? "" : kernel.error().message;
}

Check check_device(config::Settings& settings, const std::string& plugin, const backend::DeviceInfo& info) {
  Check check{fmt::format("device {}", info.id), Verdict::kOk, info.name, ""};
  const auto device = open_listed(settings, plugin, info.id, terminal());
  if (!device) return {check.name, Verdict::kFailed, device.error().message, ""};
  const auto ignore = [](void*, const crucible_kv*, std::uint32_t) {};
  const crucible_if_device& table = (*device)->backend().tables().device;
  if (const auto tested = backend::to_result(table.self_test((*device)->handle(), 0, ignore, nullptr), "self test");
      !tested && tested.error().message.find("has no device.self_test") == std::string::npos) {
    return {check.name, Verdict::kFailed, tested.error().message, ""};
  }
  if (backend::has_capability((*device)->backend(), info.id, "compile.ir")) {
    if (const std::string problem = compile_something(*device); !problem.empty())
      return {check.name, Verdict::kFailed, problem, ""};
    check.detail += "; tests itself, compiles";
  }
  if (const auto properties = (*device)->properties()) {
    for (const auto& [key, value] : *properties) {
      if (key == "library") check.detail += fmt::format("; {}", value);
    }
  }
  return check;
}

void check_plugins(std::vector<Check>& checks) {
  config::Settings settings = load_unchecked_settings({}, terminal());
  if (const Result<void> sound = settings.check(); !sound) {
    checks.push_back({"configuration", Verdict::kFailed, sound.error().message, "crucible config --explain"});
  }
  const std::vector<backend::FoundBackend> found = list_plugins(settings);
  if (found.empty()) {
    checks.push_back({"plugins", Verdict::kFailed, "no plugin in the places that are searched",
                      "build all of Crucible, or set CRUCIBLE_PLUGIN_PATH to the folder that has libcrucible_NAME.so"});
  }
  for (const backend::FoundBackend& plugin : found) {
    const auto device = open_listed(settings, plugin.name, "", terminal());
    if (!device) {
      // A plugin that runs and says that there is no driver is not a fault of this installation: few machines have
      // every vendor's.
      const Error& error = device.error();
      const bool is_missing = error.code == ErrorCode::kUnavailable &&
                              error.message.starts_with("listing the devices of " + plugin.name + ": ");
      checks.push_back({"plugin " + plugin.name, is_missing ? Verdict::kMissing : Verdict::kFailed, error.message,
                        "crucible plugin explain " + plugin.name});
      continue;
    }
    const backend::Backend& backend = (*device)->backend();
    checks.push_back({"plugin " + plugin.name, Verdict::kOk,
                      fmt::format("{} {} ({})", backend.name(), backend.version(), plugin.path.string()), ""});
    const auto infos = backend.devices();
    if (!infos) continue;
    for (const backend::DeviceInfo& info : *infos) checks.push_back(check_device(settings, plugin.name, info));
  }
  for (const backend::Decision& decision : passed_over(settings)) {
    checks.push_back(
        {"plugin " + decision.plugin, Verdict::kFailed, decision.reason, "crucible plugin explain " + decision.plugin});
  }
}

void check_recorder(std::vector<Check>& checks) {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  fs::path folder;
  for (const fs::path& candidate :
       {executable.parent_path() / "python", executable.parent_path().parent_path() / "lib/crucible/python"}) {
    if (fs::exists(candidate / "start/sitecustomize.py", error)) folder = candidate;
  }
  checks.push_back(folder.empty()
                       ? Check{"recorder", Verdict::kMissing, "not built: replaying works, recording does not",
                               "configure with CRUCIBLE_PYTHON set to a Python that has torch, and build again"}
                       : Check{"recorder", Verdict::kOk, folder.string(), ""});
  // Python looks for modules in the folder in which one stands, which may be somebody else's: not from there.
  const std::string version = output_of(
      "cd / && python3 -c 'import sys; sys.path = [folder for folder in sys.path if folder]; import importlib.metadata "
      "as m; print(m.version(\"torch\"))' 2>/dev/null");
  checks.push_back(version.empty() ? Check{"python3 with torch", Verdict::kMissing, "the python3 in PATH has no torch",
                                           "record with the Python of an environment that has it: PyPI package torch"}
                                   : Check{"python3 with torch", Verdict::kOk,
                                           "torch " + version.substr(0, version.find('\n')), ""});
}

void check_store(std::vector<Check>& checks, const config::Settings& settings) {
  const fs::path folder = store_folder(settings);
  fs::path there = folder;
  std::error_code error;
  while (!there.empty() && !fs::exists(there, error) && there != there.root_path()) there = there.parent_path();
  struct statvfs space = {};
  if (access(there.c_str(), W_OK) != 0 || statvfs(there.c_str(), &space) != 0) {
    checks.push_back({"store", Verdict::kMissing,
                      fmt::format("{} cannot be written: kernels are compiled every time", folder.string()),
                      "set CRUCIBLE_STORE_DIR to a folder of yours"});
    return;
  }
  checks.push_back(
      {"store", Verdict::kOk,
       fmt::format("{}, {} free", folder.string(), format_bytes(std::uint64_t{space.f_bavail} * space.f_frsize)), ""});
}

/// Vendors' libraries that plugins open at run time: looked up in the dynamic loader's cache, not loaded.
void check_vendor_libraries(std::vector<Check>& checks) {
  struct Library {
    std::string_view name;
    std::vector<std::string_view> versions;  // the plugins' order
    std::string_view what, package;
  };
  const std::vector<Library> libraries = {
      {"libdnnl.so", {"2"}, "oneDNN, for the CPU", "libdnnl2"},
      {"libOpenCL.so", {"1"}, "OpenCL", "ocl-icd-libopencl1, and pocl-opencl-icd for a device on the CPU"},
      {"libcuda.so", {"1"}, "NVIDIA's driver", "nvidia-driver (non-free)"},
      {"libnvrtc.so",
       {"13", "12", "11.2"},
       "NVIDIA's compiler",
       "PyPI package nvidia-cuda-nvrtc, and name its folder with backend.nvidia.nvrtc"},
      {"libcublasLt.so",
       {"13", "12", "11"},
       "NVIDIA's products",
       "PyPI package nvidia-cublas, and name its folder with backend.nvidia.cublaslt"},
      {"libcudnn.so",
       {"9", "8"},
       "NVIDIA's convolutions",
       "PyPI package nvidia-cudnn-cu13, and name its folder with backend.nvidia.cudnn"},
      {"libnvidia-ml.so", {"1"}, "health of NVIDIA's devices", "libnvidia-ml1 (non-free)"},
      {"libamdhip64.so", {"7", "6", "5"}, "AMD's HIP", "ROCm, or libamdhip64-5"},
      {"librocblas.so", {"5", "4", "3", "0"}, "AMD's products (backend.amd.blas)", "ROCm's rocblas, or librocblas0"},
      {"libMIOpen.so", {"1"}, "AMD's convolutions (backend.amd.dnn)", "ROCm's miopen-hip"},
      {"librocm_smi64.so", {"7", "6", "5", "1"}, "health of AMD's devices", "ROCm's rocm-smi-lib, or librocm-smi64-1"},
      {"libze_loader.so", {"1"}, "Intel's Level Zero, and health of Intel's devices", "libze1"},
  };
  const std::string known = output_of("/sbin/ldconfig -p 2>/dev/null");
  for (const Library& library : libraries) {
    std::size_t at = std::string::npos;
    std::string file;
    for (const std::string_view version : library.versions) {
      file = fmt::format("{}.{}", library.name, version);
      at = known.find(fmt::format("\t{} ", file));
      if (at != std::string::npos) break;
    }
    if (at == std::string::npos) {
      file = fmt::format("{}.{}", library.name, library.versions[0]);
      checks.push_back(
          {file, Verdict::kMissing, std::string(library.what), fmt::format("install {}", library.package)});
      continue;
    }
    const std::size_t arrow = known.find("=> ", at), end = known.find('\n', at);
    checks.push_back(
        {file, Verdict::kOk, fmt::format("{}: {}", library.what, known.substr(arrow + 3, end - arrow - 3)), ""});
  }
}

Result<int> run_doctor(bool json) {
  std::vector<Check> checks;
  check_plugins(checks);
  check_store(checks, load_unchecked_settings({}, terminal()));
  check_recorder(checks);
  check_vendor_libraries(checks);
  const bool well = std::ranges::none_of(checks, [](const Check& check) { return check.verdict == Verdict::kFailed; });
  if (json) {
    ordered_json document = {{"well", well}, {"checks", ordered_json::array()}};
    for (const Check& check : checks) {
      document["checks"].push_back(ordered_json{
          {"name", check.name}, {"verdict", word(check.verdict)}, {"detail", check.detail}, {"fix", check.fix}});
    }
    print_json(document);
    return well ? 0 : 1;
  }
  std::vector<std::vector<std::string>> rows = {{"check", "verdict", "detail"}};
  std::string fixes;
  for (const Check& check : checks) {
    rows.push_back({check.name, std::string(word(check.verdict)), check.detail});
    if (!check.fix.empty()) fixes += fmt::format("  {}: {}\n", check.name, check.fix);
  }
  print_out("{}{}", format_table(rows), fixes.empty() ? "" : "\nwhat would help:\n" + fixes);
  return well ? 0 : 1;
}

}  // namespace

void add_doctor(Commands& commands) {
  auto json = std::make_shared<bool>(false);
  CLI::App* doctor = add_subcommand(commands.app, "doctor", "What is here, what is missing, and which package has it.",
                                    "crucible doctor --json");
  doctor->add_flag("--json", *json, "One JSON document on standard output");
  doctor->callback([&commands, json] { commands.run = [json] { return run_doctor(*json); }; });
}

}  // namespace crucible::cli
