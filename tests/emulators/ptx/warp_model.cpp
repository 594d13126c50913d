// The figures of an H100 and the arithmetic: see warp_model.hpp.
#include "tests/emulators/ptx/warp_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace crucible::emulators::ptx {
namespace {

constexpr double kMultiprocessors = 132, kCyclesPerUs = 1755, kLaunchUs = 2.0;
constexpr double kMemoryBytesPerUs = 3.35e6, kL2BytesPerUs = 5.5e6;
constexpr double kSectorBytes = 32;
constexpr std::uint32_t kSchedulers = 4, kWarpsOfMultiprocessor = 64, kBlocksOfMultiprocessor = 32;
constexpr std::uint32_t kRegisters = 65536, kRegisterStep = 256, kSharedBytes = 227 * 1024, kSharedOfBlock = 1024;

std::uint32_t blocks_per_multiprocessor(const WarpLaunch& launch, std::uint32_t warps_of_block) {
  const std::uint32_t of_warp = (launch.registers * 32 + kRegisterStep - 1) / kRegisterStep * kRegisterStep;
  const std::uint32_t warps = std::min(kWarpsOfMultiprocessor, kRegisters / std::max(1u, of_warp));
  std::uint32_t blocks = std::min(kBlocksOfMultiprocessor, warps / warps_of_block);
  if (launch.shared_bytes != 0) blocks = std::min(blocks, kSharedBytes / (launch.shared_bytes + kSharedOfBlock));
  return std::max(1u, blocks);
}

/// Sectors that several of the blocks touched stand for themselves, others for those of blocks like theirs.
double distinct_sectors(const std::vector<BlockCounts>& sampled, const std::vector<double>& weights,
                        std::vector<std::uint64_t> BlockCounts::* of) {
  std::map<std::uint64_t, std::pair<int, double>> seen;
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    for (const std::uint64_t sector : sampled[i].*of) {
      auto& [times, weight] = seen[sector];
      ++times;
      weight = weights[i];
    }
  }
  double sum = 0;
  for (const auto& [sector, what] : seen) sum += what.first > 1 ? 1 : what.second;
  return sum;
}

}  // namespace

std::vector<std::uint64_t> sampled_blocks(std::uint64_t blocks) {
  std::vector<std::uint64_t> sampled = {0};
  if (blocks > 2) sampled.push_back(blocks / 2);
  if (blocks > 1) sampled.push_back(blocks - 1);
  return sampled;
}

LaunchCounts extrapolate(const WarpLaunch& launch, const std::vector<BlockCounts>& sampled) {
  LaunchCounts whole;
  const std::uint32_t warps_of_block = (launch.threads + 31) / 32;
  whole.warps = launch.blocks * warps_of_block;
  const std::uint32_t fitting = blocks_per_multiprocessor(launch, warps_of_block);
  const double resident = kMultiprocessors * fitting;
  whole.resident_warps =
      static_cast<std::uint64_t>(std::min(resident, static_cast<double>(launch.blocks))) * warps_of_block;
  whole.warps_per_multiprocessor = static_cast<double>(whole.resident_warps) / kMultiprocessors;
  whole.rounds = std::ceil(static_cast<double>(launch.blocks) / resident);
  whole.multiprocessors = std::min(kMultiprocessors, static_cast<double>(launch.blocks));
  whole.schedulers = std::min(kMultiprocessors * kSchedulers,
                              static_cast<double>(launch.blocks) * std::min(kSchedulers, warps_of_block));
  std::vector<double> weights(sampled.size(), 1);
  for (std::size_t i = 0; i + 1 < sampled.size(); ++i)
    weights[i] = static_cast<double>(launch.blocks - 1) / static_cast<double>(sampled.size() - 1);
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    whole.counts += sampled[i].counts * weights[i];
    whole.complete &= sampled[i].complete;
    for (std::size_t level = 0; level < whole.cycles.size(); ++level)
      whole.cycles[level] = std::max(whole.cycles[level], sampled[i].cycles[level]);
  }
  whole.complete &= sampled.size() == sampled_blocks(launch.blocks).size();
  whole.distinct_bytes = kSectorBytes * (distinct_sectors(sampled, weights, &BlockCounts::read) +
                                         distinct_sectors(sampled, weights, &BlockCounts::written));
  return whole;
}

double LaunchCounts::moved_bytes() const {
  return kSectorBytes * (counts.load_sectors + counts.store_sectors + 2 * counts.atomic_sectors);
}

double LaunchCounts::bytes_per_lane() const {
  const double requests = counts.load_requests + counts.store_requests;
  return requests == 0 ? 0 : (counts.load_bytes + counts.store_bytes) / requests / 32;
}

ModelledTime LaunchCounts::time(MemoryLevel level, double least_bytes) const {
  ModelledTime time;
  time.latency_us = rounds * cycles[static_cast<std::size_t>(level)] / kCyclesPerUs;
  time.issue_us = counts.instructions / schedulers / kCyclesPerUs;
  time.shared_us = counts.shared_wavefronts / multiprocessors / kCyclesPerUs;
  time.l2_us = (moved_bytes() - kSectorBytes * counts.l1_sectors) / kL2BytesPerUs;
  time.bound_us = (least_bytes != 0 ? least_bytes : distinct_bytes) /
                  (level == MemoryLevel::kDram ? kMemoryBytesPerUs : kL2BytesPerUs);
  double most = 0;
  for (const auto& [us, name] :
       {std::pair(time.bound_us, "memory"), std::pair(time.l2_us, "l2"), std::pair(time.issue_us, "issue"),
        std::pair(time.shared_us, "shared"), std::pair(time.latency_us, "latency")}) {
    if (us <= most) continue;
    most = us;
    time.longest = name;
  }
  time.us = kLaunchUs + most;
  time.factor = most / std::max(time.bound_us, 1.0);
  return time;
}

std::string to_json(const LaunchCounts& launch) {
  std::string json = "{";
  const auto add = [&](const char* name, double value) {
    char number[64];
    std::snprintf(number, sizeof number, "%s\"%s\": %.6g", json.size() == 1 ? "" : ", ", name, value);
    json += number;
  };
  const WarpCounts& c = launch.counts;
  add("warps", static_cast<double>(launch.warps));
  add("warps_per_multiprocessor", launch.warps_per_multiprocessor);
  add("rounds", launch.rounds);
  add("instructions", c.instructions);
  add("lane_use", c.instructions == 0 ? 0 : c.lane_use / c.instructions);
  add("load_requests", c.load_requests);
  add("store_requests", c.store_requests);
  add("load_sectors", c.load_sectors);
  add("store_sectors", c.store_sectors);
  add("load_bytes", c.load_bytes);
  add("store_bytes", c.store_bytes);
  add("l1_sectors", c.l1_sectors);
  add("wide_requests", c.wide_requests);
  add("atomic_requests", c.atomic_requests);
  add("atomic_sectors", c.atomic_sectors);
  add("bytes_per_lane", launch.bytes_per_lane());
  add("moved_bytes", launch.moved_bytes());
  add("distinct_bytes", launch.distinct_bytes);
  add("shared_requests", c.shared_requests);
  add("shared_wavefronts", c.shared_wavefronts);
  add("local_requests", c.local_requests);
  add("local_sectors", c.local_sectors);
  add("shuffles", c.shuffles);
  add("barriers", c.barriers);
  add("warp_barriers", c.warp_barriers);
  for (const auto& [level, name] : {std::pair(MemoryLevel::kL2, "l2"), std::pair(MemoryLevel::kDram, "dram")}) {
    const ModelledTime time = launch.time(level);
    json += std::string(", \"") + name + "\": {\"longest\": \"" + time.longest + "\"";
    add("cycles", launch.cycles[static_cast<std::size_t>(level)]);
    add("us", time.us);
    add("bound_us", time.bound_us);
    add("factor", time.factor);
    add("latency_us", time.latency_us);
    add("issue_us", time.issue_us);
    add("shared_us", time.shared_us);
    add("l2_us", time.l2_us);
    json += "}";
  }
  return json + (launch.complete ? ", \"complete\": true}" : ", \"complete\": false}");
}

}  // namespace crucible::emulators::ptx
