// What CRUCIBLE_EMU_TIMING=warps writes into the file CRUCIBLE_EMU_WARPS when the process ends: for each kernel and
// shape how often it was launched, and what its warps did in some blocks of the first launch (ptx/warp_model.hpp).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "tests/emulators/core/grid.hpp"
#include "tests/emulators/ptx/load.hpp"
#include "tests/emulators/ptx/ptxas.hpp"
#include "tests/emulators/ptx/warp_model.hpp"

namespace crucible::emulators::nvidia {

/// A module's text, translated once more so that it tells of its warps; only when one of its kernels is counted.
class TellingModule {
 public:
  explicit TellingModule(std::string ptx) : ptx_(std::move(ptx)) {}
  /// Of a module whose own library tells: one with variables has to, for there is one of each.
  TellingModule(std::string ptx, std::shared_ptr<const ptx::Library> library)
      : ptx_(std::move(ptx)), library_(std::move(library)) {}
  /// Ends the process when the text that tells does not compile: the one that does not tell did. Threads: any.
  const ptx::Library& library();
  /// What ptxas says of a kernel, where CRUCIBLE_EMU_NVJITLINK names it; else nothing. Ends the process when it is no
  /// such library, or refuses the text.
  std::optional<ptx::PtxasNumbers> ptxas(const std::string& kernel);

 private:
  std::once_flag once_, asked_;
  std::map<std::string, ptx::PtxasNumbers> numbers_;
  const std::string ptx_;
  std::shared_ptr<const ptx::Library> library_;
};

/// Threads: any.
class WarpReport {
 public:
  /// Null unless warps are counted.
  static WarpReport* find();

  /// A launch that is about to run. The first of a kernel and shape is sampled: its blocks are counted while they run.
  std::optional<emulator::Sampling> launched(TellingModule& module, std::uint32_t kernel,
                                             const emulator::Launch& launch, std::uint32_t graph);
  /// Where sampled blocks alone run: whether a launch that was sampled is so cheap that it runs as a whole all the
  /// same. What prepares indices is, and others read what indices say.
  bool runs_whole(const ptx::Kernel& kernel, const emulator::Launch& launch);
  void library_launched(const std::string& name, std::uint32_t graph);
  void graph_launched(std::uint32_t graph);
  /// The file's text.
  std::string to_json();
  void write();

 private:
  using Shape = std::tuple<std::string, std::array<std::uint32_t, 3>, std::array<std::uint32_t, 3>, std::uint32_t>;
  static Shape shape_of(const ptx::Kernel& kernel, const emulator::Launch& launch) {
    return {kernel.name, launch.grid, launch.block, launch.dynamic_shared_bytes};
  }
  struct Row {
    std::map<std::uint32_t, std::uint64_t> launches;  // by graph; 0: none
    ptx::WarpLaunch launch;
    std::uint32_t local_bytes = 0;
    std::optional<ptx::PtxasNumbers> ptxas;
    std::map<std::uint64_t, ptx::BlockCounts> blocks;
  };

  std::mutex mutex_;
  std::map<Shape, Row> rows_;
  std::map<std::string, std::map<std::uint32_t, std::uint64_t>> library_launches_;  // by name and graph
  std::map<std::uint32_t, std::uint64_t> graphs_;
};

}  // namespace crucible::emulators::nvidia
