// Lanes to warps, and the clock of a warp: see warp_counter.hpp.
#include "tests/emulators/ptx/warp_counter.hpp"

#include <algorithm>
#include <bit>
#include <deque>
#include <span>
#include <unordered_map>

namespace crucible::emulators::ptx {
namespace {

constexpr std::uint32_t kLanes = 32;
constexpr std::uint64_t kSectorBytes = 32, kSectorsOfLine = 4;

using Kind = WarpStep::Kind;

/// When a warp's instructions begin and end. In a basic block nothing waits for its turn, only for what it reads; at
/// the block's end everything of it has begun.
class Clock {
 public:
  Clock(double memory_latency, std::uint32_t registers) : memory_latency_(memory_latency), ready_(registers) {}

  void begin_block() {
    start_ = now_;
    latest_ = now_;
    last_store_ = 0;
  }
  void issue(double weight) { issued_ += weight; }
  void end_block() {
    now_ = std::max(latest_, issued_);
    issued_ = std::max(issued_, now_);
  }

  void compute(const WarpStep& step, double latency) { finish(step, begin(step, start_), latency); }
  void load(const WarpStep& step, bool is_l1_hit, std::size_t lines) {
    double at = begin(step, start_);
    if (!step.is_constant) at = std::max({at, last_store_, floor_});
    finish(step, at, (is_l1_hit ? kL1Latency : memory_latency_) + 2 * static_cast<double>(lines - 1));
    last_memory_ = std::max(last_memory_, at);
  }
  void shared_load(const WarpStep& step, double wavefronts) {
    const double at = std::max({begin(step, start_), last_store_, floor_});
    finish(step, at, kSharedLatency + 2 * (wavefronts - 1));
    last_memory_ = std::max(last_memory_, at + kSharedLatency);
  }
  void local_load(const WarpStep& step) { finish(step, std::max(begin(step, start_), last_store_), kLocalLatency); }
  /// `seen_after`: cycles until others may read it.
  void store(const WarpStep& step, double seen_after) {
    const double at = begin(step, std::max(start_, floor_));
    last_store_ = std::max(last_store_, at);
    latest_ = std::max(latest_, at);
    last_memory_ = std::max(last_memory_, at + seen_after);
  }
  void atomic(const WarpStep& step) {
    const double at = std::max({begin(step, start_), last_store_, floor_});
    finish(step, at, memory_latency_);
    last_memory_ = std::max(last_memory_, at);
  }
  void copy(const WarpStep& step, bool is_l1_hit) {
    const double at = std::max(begin(step, start_), floor_);
    latest_ = std::max(latest_, at);
    copied_ = std::max(copied_, at + (is_l1_hit ? kL1Latency : memory_latency_));
  }
  void copy_wait() {
    latest_ = std::max(latest_, copied_);
    floor_ = std::max(floor_, copied_);
  }
  void warp_barrier() {
    latest_ = std::max(latest_, last_memory_);
    floor_ = std::max(floor_, last_memory_);
  }
  double arrival() const { return std::max({latest_, last_memory_, issued_}); }
  void leave_barrier(double at) {
    start_ = latest_ = floor_ = now_ = at;
    issued_ = std::max(issued_, at);
  }
  double now() const { return now_; }

 private:
  double begin(const WarpStep& step, double at) const {
    for (const int r : step.read) at = std::max(at, ready_[static_cast<std::size_t>(r)]);
    return at;
  }
  void finish(const WarpStep& step, double at, double latency) {
    for (const int r : step.written) ready_[static_cast<std::size_t>(r)] = at + latency;
    latest_ = std::max(latest_, at);
  }

  double memory_latency_;
  std::vector<double> ready_;
  double now_ = 0, start_ = 0, latest_ = 0, issued_ = 0, last_store_ = 0, last_memory_ = 0, floor_ = 0, copied_ = 0;
};

/// The lines that a warp touched last.
class LineCache {
 public:
  /// True when it was there.
  bool touch(std::uint64_t line) {
    const std::uint64_t now = ++time_;
    const bool was_here = !last_.insert_or_assign(line, now).second;
    order_.push_back({line, now});
    while (last_.size() > kLines || order_.size() > 8 * kLines) {
      const auto [oldest, when] = order_.front();
      order_.pop_front();
      const auto found = last_.find(oldest);
      if (found != last_.end() && found->second == when) last_.erase(found);
    }
    return was_here;
  }

 private:
  static constexpr std::size_t kLines = 512;
  std::uint64_t time_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> last_;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> order_;
};

void sort_unique(std::vector<std::uint64_t>& values) {
  std::ranges::sort(values);
  const auto rest = std::ranges::unique(values);
  values.erase(rest.begin(), rest.end());
}

/// 32 banks of four bytes: how often the most wanted one is asked for another word.
double wavefronts_of(std::span<const std::uint64_t> offsets, std::uint32_t bytes) {
  std::vector<std::uint64_t> words;
  for (const std::uint64_t offset : offsets) {
    for (std::uint32_t i = 0; i < std::max(1u, bytes / 4); ++i) words.push_back((offset + 4 * i) / 4);
  }
  sort_unique(words);
  std::array<int, 32> banks = {};
  for (const std::uint64_t word : words) ++banks[word % 32];
  return std::max(1, *std::ranges::max_element(banks));
}

class Warp {
 public:
  Warp(const WarpProgram& program, const emulator::LaneWords& words, std::uint32_t first, BlockCounts& out)
      : program_(program),
        out_(out),
        clocks_{Clock(kMemoryLatency[0], program.registers), Clock(kMemoryLatency[1], program.registers)} {
    for (std::uint32_t lane = 0; lane < kLanes && first + lane < words.threads(); ++lane) {
      lanes_.push_back({words.of(first + lane), 0});
    }
  }

  /// Up to the next barrier of the block; false when the warp has ended.
  bool run() {
    for (;;) {
      if (step_ == end_ && !next_block()) return false;
      while (step_ != end_) {
        const WarpStep& step = program_.steps[step_++];
        if (step.kind == Kind::kBarrier) {
          count(step);
          ++out_.counts.barriers;
          return true;
        }
        do_step(step);
      }
      for (Clock& clock : clocks_) clock.end_block();
    }
  }
  std::array<Clock, 2>& clocks() { return clocks_; }

 private:
  struct Lane {
    std::span<const std::uint64_t> words;
    std::size_t at = 0;
    bool has_ended() const { return at >= words.size(); }
  };

  bool next_block() {
    std::uint64_t earliest = ~0ull;
    for (const Lane& lane : lanes_) {
      if (!lane.has_ended()) earliest = std::min(earliest, lane.words[lane.at]);
    }
    if (earliest == ~0ull) return false;
    const std::uint64_t block = earliest & ~kBlockWord;
    if ((earliest & kBlockWord) == 0 || block + 1 >= program_.blocks.size()) {
      out_.complete = false;
      return false;
    }
    here_.clear();
    for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].has_ended() || lanes_[i].words[lanes_[i].at] != earliest) continue;
      here_.push_back(i);
      ++lanes_[i].at;
    }
    step_ = program_.blocks[block];
    end_ = program_.blocks[block + 1];
    for (Clock& clock : clocks_) clock.begin_block();
    return true;
  }

  void count(const WarpStep& step) {
    out_.counts.instructions += step.weight;
    out_.counts.lane_use += step.weight * static_cast<double>(here_.size()) / kLanes;
    for (Clock& clock : clocks_) clock.issue(step.weight);
  }

  /// The addresses that the lanes told, without those whose guard was false.
  std::vector<std::uint64_t> addresses() {
    std::vector<std::uint64_t> found;
    for (const std::uint32_t i : here_) {
      if (lanes_[i].has_ended()) continue;  // it faulted
      const std::uint64_t address = lanes_[i].words[lanes_[i].at++];
      if (address != 0) found.push_back(address);
    }
    return found;
  }

  void do_step(const WarpStep& step) {
    count(step);
    switch (step.kind) {
      case Kind::kCompute:
      case Kind::kBranch:
        for (Clock& clock : clocks_) clock.compute(step, step.latency);
        break;
      case Kind::kShuffle:
        ++out_.counts.shuffles;
        for (Clock& clock : clocks_) clock.compute(step, kShuffleLatency);
        break;
      case Kind::kWarpBarrier:
        ++out_.counts.warp_barriers;
        for (Clock& clock : clocks_) clock.warp_barrier();
        break;
      case Kind::kBarrier:
        break;
      case Kind::kLoad:
        load(step, addresses());
        break;
      case Kind::kStore:
        store(step, addresses());
        break;
      case Kind::kAtomic:
        atomic(step, addresses());
        break;
      case Kind::kCopy:
        shared(addresses(), step.bytes);
        copy(step, addresses());
        break;
      case Kind::kCopyWait:
        for (Clock& clock : clocks_) clock.copy_wait();
        break;
      case Kind::kMatrixLoad:
        matrix_load(step, addresses());
        break;
    }
  }

  static bool is_shared(std::uint64_t address) { return (address & emulator::kSharedWord) != 0; }
  static bool is_local(std::uint64_t address) { return (address & emulator::kLocalWord) != 0; }
  static std::vector<std::uint64_t> offsets(std::vector<std::uint64_t> addresses) {
    for (std::uint64_t& address : addresses) address &= ~emulator::kSharedWord;
    return addresses;
  }
  /// What a lane takes at once is aligned to its size, so that it lies in one sector.
  static std::vector<std::uint64_t> sectors_of(std::vector<std::uint64_t> addresses) {
    for (std::uint64_t& address : addresses) address /= kSectorBytes;
    sort_unique(addresses);
    return addresses;
  }
  double shared(const std::vector<std::uint64_t>& addresses, std::uint32_t bytes) {
    const double wavefronts = wavefronts_of(offsets(addresses), bytes);
    ++out_.counts.shared_requests;
    out_.counts.shared_wavefronts += wavefronts;
    return wavefronts;
  }
  /// Each lane has a column of local memory: what lanes read at one place lies together.
  void local(std::size_t lanes, std::uint32_t bytes) {
    ++out_.counts.local_requests;
    out_.counts.local_sectors += std::max(1.0, static_cast<double>(lanes * bytes) / kSectorBytes);
  }

  void load(const WarpStep& step, const std::vector<std::uint64_t>& addresses) {
    if (addresses.empty()) {
      for (Clock& clock : clocks_) clock.compute(step, 0);
      return;
    }
    if (is_shared(addresses[0])) {
      const double wavefronts = shared(addresses, step.bytes);
      for (Clock& clock : clocks_) clock.shared_load(step, wavefronts);
      return;
    }
    if (is_local(addresses[0])) {
      local(addresses.size(), step.bytes);
      for (Clock& clock : clocks_) clock.local_load(step);
      return;
    }
    std::size_t lines = 0;
    const bool is_hit = global_load(step, addresses, lines);
    for (Clock& clock : clocks_) clock.load(step, is_hit, lines);
  }

  void copy(const WarpStep& step, const std::vector<std::uint64_t>& addresses) {
    std::size_t lines = 0;
    const bool is_hit = global_load(step, addresses, lines);
    for (Clock& clock : clocks_) clock.copy(step, is_hit);
  }

  /// True when all of its lines are in the L1.
  bool global_load(const WarpStep& step, const std::vector<std::uint64_t>& addresses, std::size_t& lines) {
    const std::vector<std::uint64_t> sectors = sectors_of(addresses);
    bool is_hit = true;
    std::uint64_t last = ~0ull;
    for (const std::uint64_t sector : sectors) {
      const std::uint64_t line = sector / kSectorsOfLine;
      if (line == last) continue;
      last = line;
      ++lines;
      is_hit &= l1_.touch(line);
    }
    WarpCounts& counts = out_.counts;
    ++counts.load_requests;
    counts.wide_requests += step.bytes >= 16 ? 1 : 0;
    counts.load_sectors += static_cast<double>(sectors.size());
    counts.load_bytes += static_cast<double>(addresses.size() * step.bytes);
    if (is_hit) counts.l1_sectors += static_cast<double>(sectors.size());
    remember(out_.read, sectors);
    return is_hit;
  }

  void store(const WarpStep& step, const std::vector<std::uint64_t>& addresses) {
    const bool is_in_shared = !addresses.empty() && is_shared(addresses[0]);
    if (is_in_shared) {
      shared(addresses, step.bytes);
    } else if (!addresses.empty() && is_local(addresses[0])) {
      local(addresses.size(), step.bytes);
    } else if (!addresses.empty()) {
      const std::vector<std::uint64_t> sectors = sectors_of(addresses);
      ++out_.counts.store_requests;
      out_.counts.wide_requests += step.bytes >= 16 ? 1 : 0;
      out_.counts.store_sectors += static_cast<double>(sectors.size());
      out_.counts.store_bytes += static_cast<double>(addresses.size() * step.bytes);
      remember(out_.written, sectors);
    }
    for (Clock& clock : clocks_) clock.store(step, is_in_shared ? 0.6 * kSharedLatency : 0);
  }

  void atomic(const WarpStep& step, const std::vector<std::uint64_t>& addresses) {
    if (!addresses.empty() && is_shared(addresses[0])) {
      const double wavefronts = shared(addresses, step.bytes);
      for (Clock& clock : clocks_) clock.shared_load(step, wavefronts);
      return;
    }
    const std::vector<std::uint64_t> sectors = sectors_of(addresses);
    ++out_.counts.atomic_requests;
    out_.counts.atomic_sectors += static_cast<double>(sectors.size());
    remember(out_.read, sectors);
    remember(out_.written, sectors);
    for (Clock& clock : clocks_) clock.atomic(step);
  }

  /// Eight lanes' rows of 16 bytes are a wavefront when no two of them want the same bank.
  void matrix_load(const WarpStep& step, const std::vector<std::uint64_t>& addresses) {
    const std::size_t rows = std::min<std::size_t>(addresses.size(), 8 * step.written.size());
    double wavefronts = 0;
    for (std::size_t i = 0; i < rows; i += 8) {
      wavefronts += wavefronts_of(offsets({addresses.begin() + static_cast<std::ptrdiff_t>(i),
                                           addresses.begin() + static_cast<std::ptrdiff_t>(std::min(i + 8, rows))}),
                                  16);
    }
    ++out_.counts.shared_requests;
    out_.counts.shared_wavefronts += wavefronts;
    for (Clock& clock : clocks_) clock.shared_load(step, std::max(1.0, wavefronts));
  }

  static void remember(std::vector<std::uint64_t>& all, const std::vector<std::uint64_t>& sectors) {
    constexpr std::size_t kWhenSorted = 1 << 20;
    all.insert(all.end(), sectors.begin(), sectors.end());
    if (all.size() >= kWhenSorted && std::has_single_bit(all.size() / kWhenSorted) &&
        all.size() % kWhenSorted < sectors.size())
      sort_unique(all);
  }

  const WarpProgram& program_;
  BlockCounts& out_;
  std::array<Clock, 2> clocks_;
  LineCache l1_;
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> here_;
  std::uint32_t step_ = 0, end_ = 0;
};

/// All that wait for the others of the block go on when the last has come.
void meet(std::span<Warp* const> waiting) {
  for (std::size_t level = 0; level < kMemoryLatency.size(); ++level) {
    double last = 0;
    for (Warp* const warp : waiting) last = std::max(last, warp->clocks()[level].arrival());
    for (Warp* const warp : waiting) warp->clocks()[level].leave_barrier(last);
  }
}

}  // namespace

WarpCounts& WarpCounts::operator+=(const WarpCounts& other) {
  instructions += other.instructions;
  lane_use += other.lane_use;
  load_requests += other.load_requests;
  store_requests += other.store_requests;
  load_sectors += other.load_sectors;
  store_sectors += other.store_sectors;
  load_bytes += other.load_bytes;
  store_bytes += other.store_bytes;
  l1_sectors += other.l1_sectors;
  atomic_requests += other.atomic_requests;
  atomic_sectors += other.atomic_sectors;
  wide_requests += other.wide_requests;
  shared_requests += other.shared_requests;
  shared_wavefronts += other.shared_wavefronts;
  local_requests += other.local_requests;
  local_sectors += other.local_sectors;
  shuffles += other.shuffles;
  barriers += other.barriers;
  warp_barriers += other.warp_barriers;
  return *this;
}

WarpCounts WarpCounts::operator*(double factor) const {
  WarpCounts scaled = *this;
  for (double* const count :
       {&scaled.instructions, &scaled.lane_use, &scaled.load_requests, &scaled.store_requests, &scaled.load_sectors,
        &scaled.store_sectors, &scaled.load_bytes, &scaled.store_bytes, &scaled.l1_sectors, &scaled.atomic_requests,
        &scaled.atomic_sectors, &scaled.wide_requests, &scaled.shared_requests, &scaled.shared_wavefronts,
        &scaled.local_requests, &scaled.local_sectors, &scaled.shuffles, &scaled.barriers, &scaled.warp_barriers})
    *count *= factor;
  return scaled;
}

BlockCounts count_block(const WarpProgram& program, const emulator::LaneWords& words) {
  BlockCounts counts;
  counts.complete = words.complete();
  if (!counts.complete) return counts;
  std::vector<Warp> warps;
  for (std::uint32_t first = 0; first < words.threads(); first += kLanes)
    warps.emplace_back(program, words, first, counts);
  std::vector<Warp*> running;
  for (Warp& warp : warps) running.push_back(&warp);
  while (!running.empty()) {
    std::erase_if(running, [](Warp* warp) { return !warp->run(); });
    meet(running);
  }
  for (Warp& warp : warps) {
    for (std::size_t level = 0; level < counts.cycles.size(); ++level)
      counts.cycles[level] = std::max(counts.cycles[level], warp.clocks()[level].now());
  }
  sort_unique(counts.read);
  sort_unique(counts.written);
  return counts;
}

}  // namespace crucible::emulators::ptx
