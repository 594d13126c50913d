// The kernels that recordings become on devices of NVIDIA, AMD and Intel, as the plugins hand them to their vendors'
// compilers: one JSON document for compile_checks.py.
//
//   print_kernels FILE.crtrace... > kernels.json
//
// Texts come in the plugins' own batches, in both numerics modes; what strict numerics have already is not said again
// for fast ones. No library is asked, so that fast numerics have a kernel for everything too.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "backends/amd/clang.hpp"
#include "backends/nvidia/nvrtc.hpp"
#include "core/graph/program.hpp"
#include "core/kernel/schedule.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/aten/lower.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/kernel_ir.hpp"
#include "plugins/sdk/thread_kernel.hpp"
#include "plugins/spirv/emit_kernel.hpp"

namespace crucible_nvidia {
std::string version_text(int version) { return std::to_string(version); }  // cuda.cpp's, which needs a driver
}  // namespace crucible_nvidia

namespace crucible {
namespace {

using nlohmann::ordered_json;

struct Vendor {
  std::string name;
  kernel::DeviceShape shape;    // of an H100, an MI300X, a Max 1550: what the plugins say of such devices
  const sdk::Dialect* dialect;  // null: SPIR-V
};
const Vendor kVendors[] = {
    {"nvidia", {.workers = 132 * 128, .register_bytes = 1020, .lanes = 32}, &sdk::dialect_cuda()},
    {"amd", {.workers = 304 * 64, .register_bytes = 1024, .lanes = 64}, &sdk::dialect_hip()},
    {"intel", {.workers = 16384, .register_bytes = 0, .lanes = 16}, nullptr}};

struct Found {
  kernel::Kernel kernel;
  std::string ops;  // "matmul add relu"
  std::set<std::string> recordings;
};
using Kernels = std::map<std::string, Found>;  // by name, which is that of the text

std::string ops_of(const graph::Program& program, const kernel::Step& step) {
  std::vector<std::string> kinds;
  for (const graph::OpId op : step.ops) {
    std::string kind(graph::name(program.ops[op].kind));
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(std::move(kind));
  }
  std::string all;
  for (const std::string& kind : kinds) all += (all.empty() ? "" : " ") + kind;
  return all;
}

/// Adds the kernels of one recording. Errors: the schedule's.
Result<void> add_kernels(const graph::Program& given, const std::string& recording, const kernel::Options& options,
                         Kernels& kernels) {
  CRUCIBLE_TRY(kernel::Prepared prepared, kernel::prepare(given, options));
  const graph::Program& program = prepared.program ? *prepared.program : given;
  for (const kernel::Step& step : prepared.schedule.steps) {
    if (step.kind != kernel::StepKind::kLaunch) continue;
    const kernel::Kernel& kernel = prepared.schedule.kernels[step.kernel];
    if (kernel.is_opaque()) continue;
    Found& found = kernels.try_emplace(kernel.name, Found{kernel, ops_of(program, step), {}}).first->second;
    found.recordings.insert(recording);
  }
  return {};
}

ordered_json batches_of(const Kernels& kernels, const Vendor& vendor) {
  sdk::ThreadKernels printed;
  for (const auto& [name, found] : kernels) {
    printed.try_emplace(name, sdk::print_thread_kernel(sdk::read_kernel(found.kernel.ir.data(), found.kernel.ir.size()),
                                                       *vendor.dialect, name, vendor.shape.lanes));
  }
  ordered_json all = ordered_json::array();
  for (const sdk::KernelBatch& batch : sdk::batch_kernels(printed, *vendor.dialect))
    all.push_back({{"names", batch.names}, {"text", batch.text}});
  return all;
}

/// Functions that are called by number are computed in f64 (docs/kernels.md, "Mathematics"). A number that is written
/// down is rounded by the plugin, but for f16.
bool computes_in_f64(const sdk::Kernel& kernel) {
  const auto is_f64 = [](const auto& of) { return of.type == sdk::Type::kF64; };
  const auto computes = [&](const sdk::Expr& e) {
    const bool is_half = e.operation == sdk::Op::kConvert && e.type == sdk::Type::kF16;
    return e.operation == sdk::Op::kCall || (is_f64(e) && e.operation != sdk::Op::kReal) ||
           (is_half && is_f64(kernel.exprs[e.in[0]]));
  };
  return std::ranges::any_of(kernel.buffers, is_f64) || std::ranges::any_of(kernel.exprs, computes);
}

/// A module each, so that a word of the validator is about one kernel; with the teams that the plugin gives
/// them: sub-groups.
ordered_json modules_of(const Kernels& kernels, int lanes) {
  ordered_json all = ordered_json::array();
  for (const auto& [name, found] : kernels) {
    const sdk::Kernel kernel = sdk::read_kernel(found.kernel.ir.data(), found.kernel.ir.size());
    const sdk::Team team = sdk::plan_team(kernel, static_cast<std::uint32_t>(lanes), true);
    crucible::spirv::KernelModule module;
    (void)module.add(kernel, name, {.team = &team, .by_subgroups = true});
    all.push_back({{"names", {name}}, {"words", module.words()}, {"computes_in_f64", computes_in_f64(kernel)}});
  }
  return all;
}

ordered_json describe(const Kernels& kernels) {
  ordered_json all = ordered_json::object();
  for (const auto& [name, found] : kernels) all[name] = {{"ops", found.ops}, {"recordings", found.recordings}};
  return all;
}

Result<ordered_json> kernels_for(const Vendor& vendor, const std::map<std::string, graph::Program>& programs) {
  ordered_json document = {{"kernels", ordered_json::object()}};
  Kernels strict, fast;
  for (const auto& [recording, program] : programs) {
    CRUCIBLE_TRY_VOID(add_kernels(program, recording,
                                  {.claims = nullptr, .numerics = kernel::Numerics::kStrict, .device = vendor.shape},
                                  strict));
    CRUCIBLE_TRY_VOID(add_kernels(
        program, recording, {.claims = nullptr, .numerics = kernel::Numerics::kFast, .device = vendor.shape}, fast));
  }
  const std::size_t all_fast = fast.size();
  std::erase_if(fast, [&](const auto& entry) { return strict.contains(entry.first); });
  document["shared"] = all_fast - fast.size();
  for (const auto& [mode, kernels] : {std::pair<const char*, const Kernels&>("strict", strict), {"fast", fast}}) {
    document[mode] = vendor.dialect == nullptr ? modules_of(kernels, vendor.shape.lanes) : batches_of(kernels, vendor);
    document["kernels"].update(describe(kernels));
  }
  return document;
}

Result<ordered_json> print(int count, char** files) {
  std::map<std::string, graph::Program> programs;
  for (int i = 0; i < count; ++i) {
    const std::filesystem::path file = files[i];
    CRUCIBLE_TRY(const trace::Trace trace, trace::read_file(file));
    CRUCIBLE_TRY(graph::Program program, aten::lower(trace));
    programs.try_emplace(file.stem().string(), std::move(program));
  }
  ordered_json document;
  for (const Vendor& vendor : kVendors) {
    CRUCIBLE_TRY(document[vendor.name], kernels_for(vendor, programs));
  }
  document["nvidia"]["flags"] = crucible_nvidia::numeric_flags();
  document["amd"]["flags"] = crucible_amd::clang_flags("ARCH", 6);  // and the word that stands for an architecture
  document["amd"]["preamble"] = crucible_amd::clang_preamble();
  return document;
}

}  // namespace
}  // namespace crucible

int main(int count, char** words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: print_kernels FILE.crtrace... > kernels.json\n");
    return 2;
  }
  try {
    const auto document = crucible::print(count - 1, words + 1);
    if (!document) {
      std::fprintf(stderr, "print_kernels: %s\n", document.error().message.c_str());
      return 1;
    }
    std::printf("%s\n", document->dump().c_str());
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "print_kernels: %s\n", failure.what());
    return 1;
  }
  return 0;
}
