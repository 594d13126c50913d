// See warp_report.hpp.
#include "tests/emulators/nvidia/warp_report.hpp"

#include <cstdlib>
#include <fstream>

#include "tests/emulators/core/settings.hpp"

namespace crucible::emulators::nvidia {
namespace {

std::string list(const std::array<std::uint32_t, 3>& sizes) {
  return "[" + std::to_string(sizes[0]) + ", " + std::to_string(sizes[1]) + ", " + std::to_string(sizes[2]) + "]";
}

/// {"0": 1, "2": 5}, by graph.
std::string counts(const std::map<std::uint32_t, std::uint64_t>& by_graph) {
  std::string json;
  for (const auto& [graph, count] : by_graph)
    json += (json.empty() ? "\"" : ", \"") + std::to_string(graph) + "\": " + std::to_string(count);
  return "{" + json + "}";
}

}  // namespace

const ptx::Library& TellingModule::library() {
  std::call_once(once_, [&] {
    if (library_ != nullptr) return;
    auto loaded = ptx::Library::load(ptx::translate(ptx_, {.shared = emulator::settings().races, .warps = true}));
    if (!loaded) emulator::give_up("a text that tells of its warps is refused: " + loaded.error());
    library_ = std::make_shared<const ptx::Library>(std::move(*loaded));
  });
  return *library_;
}

std::optional<ptx::PtxasNumbers> TellingModule::ptxas(const std::string& kernel) {
  const std::string& library = emulator::settings().nvjitlink;
  if (library.empty()) return std::nullopt;
  std::call_once(asked_, [&] {
    auto numbers = ptx::ask_ptxas(ptx_, library);
    if (!numbers) emulator::give_up("CRUCIBLE_EMU_NVJITLINK: " + numbers.error());
    numbers_ = std::move(*numbers);
  });
  const auto found = numbers_.find(kernel);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

WarpReport* WarpReport::find() {
  static WarpReport* const report = []() -> WarpReport* {
    if (emulator::settings().timing != emulator::Timing::kWarps) return nullptr;
    std::atexit([] { find()->write(); });
    return new WarpReport;  // never destroyed: threads of a driver outlive main
  }();
  return report;
}

std::optional<emulator::Sampling> WarpReport::launched(TellingModule& module, std::uint32_t kernel,
                                                       const emulator::Launch& launch, std::uint32_t graph) {
  const ptx::Library& library = module.library();
  const ptx::Kernel& facts = library.translation().kernels[kernel];
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = rows_.try_emplace(shape_of(facts, launch));
  Row& row = found->second;
  ++row.launches[graph];
  if (!is_new) return std::nullopt;
  row.ptxas = module.ptxas(facts.name);
  row.launch = {std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2],
                launch.block[0] * launch.block[1] * launch.block[2],
                row.ptxas ? row.ptxas->registers : facts.warps.live_registers,
                facts.shared_bytes + launch.dynamic_shared_bytes};
  row.local_bytes = facts.local_bytes;
  return emulator::Sampling{library.code(kernel), ptx::sampled_blocks(row.launch.blocks), emulator::settings().empty,
                            [this, &row, &facts](std::uint64_t block, const emulator::LaneWords& words) {
                              ptx::BlockCounts counted = ptx::count_block(facts.warps, words);
                              const std::lock_guard inner(mutex_);
                              row.blocks[block] = std::move(counted);
                            }};
}

bool WarpReport::runs_whole(const ptx::Kernel& kernel, const emulator::Launch& launch) {
  constexpr double kCheap = 300'000;  // instructions of warps: some 10 ms here
  if (!emulator::settings().empty) return false;
  const std::lock_guard lock(mutex_);
  const auto found = rows_.find(shape_of(kernel, launch));
  if (found == rows_.end()) return false;
  ptx::WarpCounts counts;
  for (const auto& [number, counted] : found->second.blocks) counts += counted.counts;
  const auto looked_at = static_cast<double>(found->second.blocks.size());
  return looked_at != 0 && counts.instructions / looked_at * static_cast<double>(found->second.launch.blocks) <= kCheap;
}

void WarpReport::library_launched(const std::string& name, std::uint32_t graph) {
  const std::lock_guard lock(mutex_);
  ++library_launches_[name][graph];
}

void WarpReport::graph_launched(std::uint32_t graph) {
  const std::lock_guard lock(mutex_);
  ++graphs_[graph];
}

std::string WarpReport::to_json() {
  const std::lock_guard lock(mutex_);
  std::string json = std::string("{\"format\": 1, \"model\": \"h100\", \"computed\": ") +
                     (emulator::settings().empty ? "false" : "true") + ", \"graphs\": " + counts(graphs_) +
                     ",\n\"library\": {";
  const char* between = "";
  for (const auto& [name, launches] : library_launches_) {
    json += between + ("\"" + name + "\": ") + counts(launches);
    between = ", ";
  }
  json += "},\n\"kernels\": [";
  between = "\n";
  for (const auto& [shape, row] : rows_) {
    const auto& [name, grid, block, dynamic_shared] = shape;
    std::vector<ptx::BlockCounts> sampled;
    for (const auto& [number, counted] : row.blocks) sampled.push_back(counted);
    json += between + ("{\"kernel\": \"" + name + "\", \"grid\": ") + list(grid) + ", \"block\": " + list(block) +
            ", \"launches\": " + counts(row.launches) + ", \"registers\": " + std::to_string(row.launch.registers) +
            ", \"registers_from\": " + (row.ptxas ? "\"ptxas\"" : "\"estimate\"") +
            ", \"spilled_bytes\": " + std::to_string(row.ptxas ? row.ptxas->spilled_bytes : 0) +
            ", \"shared_bytes\": " + std::to_string(row.launch.shared_bytes) +
            ", \"local_bytes\": " + std::to_string(row.local_bytes) +
            ",\n \"counts\": " + ptx::to_json(ptx::extrapolate(row.launch, sampled)) + "}";
    between = ",\n";
  }
  return json + "]}\n";
}

void WarpReport::write() {
  std::ofstream stream(emulator::settings().warps);
  stream << to_json() << std::flush;
  if (!stream) emulator::give_up("CRUCIBLE_EMU_WARPS: " + emulator::settings().warps + " cannot be written");
}

}  // namespace crucible::emulators::nvidia
