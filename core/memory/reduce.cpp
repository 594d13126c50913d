// From a problem to parts: groups become blocks, bytes become units of the greatest common divisor, time becomes
// sections, and blocks that no chain of meetings connects go to different parts.
#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "core/memory/blocks.hpp"

namespace crucible::memory {
namespace {

/// A block before time is compressed. Sizes, alignments and pins are bytes at first, then units.
struct Raw {
  std::uint64_t size = 0, alignment = 1, pinned = kUnpinned;
};

struct TimeRange {
  std::uint32_t block = 0, begin = 0, end = 0;
};

/// Steps at which a buffer is alive; two ranges for one that is carried.
void add_life(const Buffer& buffer, std::uint32_t block, std::uint32_t period, std::vector<TimeRange>& ranges) {
  if (buffer.size_bytes == 0) return;
  if (!buffer.carried) {
    if (buffer.begin < buffer.end) ranges.push_back({block, buffer.begin, buffer.end});
    return;
  }
  if (buffer.end > 0) ranges.push_back({block, 0, buffer.end});
  if (buffer.begin < period) ranges.push_back({block, buffer.begin, period});
}

class Reduction {
 public:
  Reduction(const Problem& problem, std::uint32_t space) : problem_(problem), space_(space) {}

  SpaceBlocks run() {
    gather();
    join_ranges();
    to_units();
    find_sections();
    find_bound();
    find_parts();
    split();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kTimesPerRange = 8;

  /// Blocks and the ranges of their lives.
  void gather() {
    const std::uint64_t unit = problem_.spaces[space_].alignment;
    period_of_problem_ = period_of(problem_);
    std::unordered_map<std::uint32_t, std::uint32_t> groups;
    block_of_.assign(problem_.buffers.size(), kNone);
    for (std::uint32_t i = 0; i < problem_.buffers.size(); ++i) {
      const Buffer& buffer = problem_.buffers[i];
      if (buffer.space != space_) continue;
      const auto fresh = static_cast<std::uint32_t>(raw_.size());
      const std::uint32_t block =
          buffer.group == kNoGroup ? fresh : groups.try_emplace(buffer.group, fresh).first->second;
      if (block == fresh) raw_.push_back({});
      block_of_[i] = block;
      const std::size_t before = ranges_.size();
      add_life(buffer, block, period_of_problem_, ranges_);
      Raw& raw = raw_[block];
      if (ranges_.size() > before) raw.size = std::max(raw.size, (buffer.size_bytes + unit - 1) / unit * unit);
      raw.alignment = std::max({raw.alignment, buffer.alignment, unit});
      if (buffer.pinned_offset != kUnpinned) raw.pinned = buffer.pinned_offset;
    }
    drop_idle();
  }

  /// Blocks that occupy nothing are none: their buffers are listed, the others are numbered anew.
  void drop_idle() {
    std::vector<std::uint32_t> number(raw_.size(), kNone);
    std::uint32_t count = 0;
    for (std::uint32_t block = 0; block < raw_.size(); ++block) {
      if (raw_[block].size == 0) continue;
      number[block] = count;
      raw_[count++] = raw_[block];
    }
    raw_.resize(count);
    for (TimeRange& range : ranges_) range.block = number[range.block];
    out_.members.first.assign(count + 1, 0);
    for (std::uint32_t i = 0; i < block_of_.size(); ++i) {
      if (block_of_[i] == kNone) continue;
      block_of_[i] = number[block_of_[i]];
      if (block_of_[i] == kNone) {
        out_.idle.push_back(i);
      } else {
        ++out_.members.first[block_of_[i] + 1];
      }
    }
    std::partial_sum(out_.members.first.begin(), out_.members.first.end(), out_.members.first.begin());
    out_.members.items.resize(out_.members.first.back());
    std::vector<std::uint32_t> next(out_.members.first.begin(), out_.members.first.end() - 1);
    for (std::uint32_t i = 0; i < block_of_.size(); ++i) {
      if (block_of_[i] != kNone) out_.members.items[next[block_of_[i]]++] = i;
    }
  }

  /// One range for what touches or overlaps within a block; sorted by block, then time.
  void join_ranges() {
    const auto earlier = [](const TimeRange& a, const TimeRange& b) {
      return a.block != b.block ? a.block < b.block : a.begin < b.begin;
    };
    if (!std::ranges::is_sorted(ranges_, earlier)) std::ranges::stable_sort(ranges_, earlier);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (kept > 0 && ranges_[kept - 1].block == ranges_[i].block && ranges_[i].begin <= ranges_[kept - 1].end) {
        ranges_[kept - 1].end = std::max(ranges_[kept - 1].end, ranges_[i].end);
      } else {
        ranges_[kept++] = ranges_[i];
      }
    }
    ranges_.resize(kept);
    first_range_.assign(raw_.size() + 1, 0);
    for (const TimeRange& range : ranges_) ++first_range_[range.block + 1];
    std::partial_sum(first_range_.begin(), first_range_.end(), first_range_.begin());
  }

  void to_units() {
    std::uint64_t unit = 0;
    for (const Raw& raw : raw_) {
      unit = std::gcd(unit, raw.size);
      if (raw.alignment > problem_.spaces[space_].alignment) unit = std::gcd(unit, raw.alignment);
      if (raw.pinned != kUnpinned) unit = std::gcd(unit, raw.pinned);
    }
    out_.unit_bytes = unit == 0 ? problem_.spaces[space_].alignment : unit;
    for (Raw& raw : raw_) {
      raw.size /= out_.unit_bytes;
      raw.alignment = std::max<std::uint64_t>(1, raw.alignment / out_.unit_bytes);
      if (raw.pinned != kUnpinned) raw.pinned /= out_.unit_bytes;
    }
  }

  /// A section ends where a block that began in it may meet no newcomer: at the first begin after an end.
  void find_sections() {
    number_times();
    std::vector<bool> begins(times_.size()), ends(times_.size());
    for (const TimeRange& range : ranges_) begins[range.begin] = true, ends[range.end] = true;
    bool ended = true;
    for (std::uint32_t time = 0; time < times_.size(); ++time) {
      ended = ended || ends[time];
      if (!begins[time]) continue;
      if (ended) section_time_.push_back(time);
      section_time_.back() = time;
      ended = false;
    }
    sections_ = static_cast<std::uint32_t>(section_time_.size());
    std::vector<std::uint32_t> section_at(times_.size());  // the first one that is not earlier
    for (std::uint32_t time = 0, section = 0; time < times_.size(); ++time) {
      section_at[time] = section;
      if (section < sections_ && section_time_[section] == time) ++section;
    }
    for (TimeRange& range : ranges_) {
      lengths_.push_back(times_[range.end] - times_[range.begin]);
      range.begin = section_at[range.begin];
      range.end = section_at[range.end];
    }
    for (std::uint32_t& time : section_time_) time = times_[time];
  }

  /// Ranges from times to numbers of times: of all from the first to the last, or if these are many more than the
  /// ranges, of those at which one begins or ends.
  void number_times() {
    if (ranges_.empty()) return;
    std::uint32_t first = ranges_[0].begin, last = ranges_[0].end;
    for (const TimeRange& range : ranges_) first = std::min(first, range.begin), last = std::max(last, range.end);
    if ((last - first) / kTimesPerRange < ranges_.size()) {
      times_.resize(std::size_t{last} - first + 1);
      std::iota(times_.begin(), times_.end(), first);
      for (TimeRange& range : ranges_) range.begin -= first, range.end -= first;
      return;
    }
    for (const TimeRange& range : ranges_) times_.push_back(range.begin), times_.push_back(range.end);
    std::ranges::sort(times_);
    times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
    const auto number = [&](std::uint32_t time) {
      return static_cast<std::uint32_t>(std::ranges::lower_bound(times_, time) - times_.begin());
    };
    for (TimeRange& range : ranges_) range.begin = number(range.begin), range.end = number(range.end);
  }

  /// A buffer of the block that is alive at the time of the bound.
  std::uint32_t alive_member(std::uint32_t block) const {
    const std::uint32_t time = out_.bound_time, period = period_of_problem_;
    for (const std::uint32_t i : out_.members[block]) {
      std::vector<TimeRange> life;
      add_life(problem_.buffers[i], block, period, life);
      for (const TimeRange& range : life) {
        if (range.begin <= time && time < range.end) return i;
      }
    }
    return out_.members[block][0];
  }

  void find_bound() {
    load_.assign(sections_ + 1, 0);
    for (const TimeRange& range : ranges_) {
      load_[range.begin] += raw_[range.block].size;
      load_[range.end] -= raw_[range.block].size;  // wraps; the running sum comes out right
    }
    std::partial_sum(load_.begin(), load_.end(), load_.begin());
    if (raw_.empty()) return;
    const auto highest = std::ranges::max_element(load_);
    const auto section = static_cast<std::uint32_t>(highest - load_.begin());
    out_.bound = *highest;
    out_.bound_time = section_time_[section];
    for (const TimeRange& range : ranges_) {
      if (range.begin <= section && section < range.end) out_.witness.push_back(alive_member(range.block));
    }
    for (std::uint32_t block = 0; block < raw_.size(); ++block) {
      if (raw_[block].pinned == kUnpinned || raw_[block].pinned + raw_[block].size <= out_.bound) continue;
      out_.bound = raw_[block].pinned + raw_[block].size;
      out_.bound_time = section_time_[ranges_[first_range_[block]].begin];
      out_.witness = {alive_member(block)};
    }
  }

  std::uint32_t root(std::uint32_t section) {
    while (leader_[section] != section) section = leader_[section] = leader_[leader_[section]];
    return section;
  }
  void join(std::uint32_t a, std::uint32_t b) {
    a = root(a), b = root(b);
    leader_[std::max(a, b)] = std::min(a, b);
  }

  /// Occupies nothing itself, though its group may.
  bool is_idle(std::uint32_t buffer) const {
    std::vector<TimeRange> life;
    add_life(problem_.buffers[buffer], 0, period_of_problem_, life);
    return life.empty();
  }

  /// Sections that a life or a pair kept apart connects have one leader, their first.
  void find_parts() {
    leader_.resize(sections_);
    std::iota(leader_.begin(), leader_.end(), 0u);
    std::vector<std::int64_t> crossing(sections_ + 1, 0);
    for (const TimeRange& range : ranges_) ++crossing[range.begin + 1], --crossing[range.end];
    std::int64_t alive = 0;
    for (std::uint32_t section = 1; section < sections_; ++section) {
      alive += crossing[section];
      if (alive > 0) join(section - 1, section);
    }
    for (std::size_t i = 1; i < ranges_.size(); ++i) {
      if (ranges_[i].block == ranges_[i - 1].block) join(ranges_[i].begin, ranges_[i - 1].begin);
    }
    for (const Apart& pair : problem_.apart) {
      const std::uint32_t a = block_of_[pair.first], b = block_of_[pair.second];
      if (a == kNone || b == kNone || is_idle(pair.first) || is_idle(pair.second)) continue;
      apart_.push_back({a, b});
      join(ranges_[first_range_[a]].begin, ranges_[first_range_[b]].begin);
    }
  }

  void split() {
    std::vector<std::uint32_t> part_of(sections_, kNone), section_in_part(sections_);
    for (std::uint32_t section = 0; section < sections_; ++section) {
      const std::uint32_t leader = root(section);
      if (leader == section) {
        part_of[section] = static_cast<std::uint32_t>(out_.parts.size());
        out_.parts.push_back({});
      }
      part_of[section] = part_of[leader];
      Part& part = out_.parts[part_of[section]];
      section_in_part[section] = part.sections++;
      part.load.push_back(load_[section]);
      part.bound = std::max(part.bound, load_[section]);
    }
    number_.resize(raw_.size());
    part_of_block_.resize(raw_.size());
    for (std::uint32_t block = 0; block < raw_.size(); ++block) {
      part_of_block_[block] = part_of[ranges_[first_range_[block]].begin];
      add_block(block, section_in_part, out_.parts[part_of_block_[block]]);
    }
    for (std::uint32_t p = 0; p < out_.parts.size(); ++p) add_rare_rules(section_in_part, out_.parts[p]);
    if (!apart_.empty()) add_apart();
  }

  void add_block(std::uint32_t block, const std::vector<std::uint32_t>& section_in_part, Part& part) {
    number_[block] = static_cast<std::uint32_t>(part.blocks.size());
    const std::uint32_t first = first_range_[block], last = first_range_[block + 1] - 1;
    const std::uint32_t end =
        section_in_part[ranges_[last].end - 1] + 1;  // the last section that it is alive in, plus one
    part.blocks.push_back({raw_[block].size, section_in_part[ranges_[first].begin], end});
    part.ids.push_back(block);
    part.length.push_back(std::reduce(lengths_.begin() + first, lengths_.begin() + last + 1));
    if (raw_[block].pinned != kUnpinned) part.bound = std::max(part.bound, raw_[block].pinned + raw_[block].size);
  }

  /// Fills what Part has only where a block needs it.
  void add_rare_rules(const std::vector<std::uint32_t>& section_in_part, Part& part) {
    bool aligns = false, pins = false, has_gaps = false;
    for (const std::uint32_t block : part.ids) {
      aligns = aligns || raw_[block].alignment > 1;
      pins = pins || raw_[block].pinned != kUnpinned;
      has_gaps = has_gaps || first_range_[block + 1] - first_range_[block] > 1;
    }
    for (const std::uint32_t block : part.ids) {
      if (aligns) part.alignment.push_back(raw_[block].alignment);
      if (pins) part.pinned.push_back(raw_[block].pinned);
      if (!has_gaps) continue;
      part.ranges.first.push_back(static_cast<std::uint32_t>(part.ranges.items.size()));
      for (std::uint32_t r = first_range_[block]; r < first_range_[block + 1]; ++r) {
        part.ranges.items.push_back({section_in_part[ranges_[r].begin], section_in_part[ranges_[r].end - 1] + 1});
      }
    }
    if (has_gaps) part.ranges.first.push_back(static_cast<std::uint32_t>(part.ranges.items.size()));
    find_max_load(part);
  }

  /// The highest load during each block's life, by a tree of maxima over the sections.
  static void find_max_load(Part& part) {
    const std::size_t leaves = part.sections;
    std::vector<std::uint64_t> tree(2 * leaves);
    std::ranges::copy(part.load, tree.begin() + static_cast<std::ptrdiff_t>(leaves));
    for (std::size_t node = leaves - 1; node > 0; --node) tree[node] = std::max(tree[2 * node], tree[2 * node + 1]);
    for (std::uint32_t block = 0; block < part.blocks.size(); ++block) {
      std::uint64_t highest = 0;
      Range own;
      for (const Range& range : part.life(block, own)) {
        for (std::size_t low = range.begin + leaves, high = range.end + leaves; low < high; low /= 2, high /= 2) {
          if (low % 2 == 1) highest = std::max(highest, tree[low++]);
          if (high % 2 == 1) highest = std::max(highest, tree[--high]);
        }
      }
      part.max_load.push_back(highest);
    }
  }

  void add_apart() {
    for (std::uint32_t p = 0; p < out_.parts.size(); ++p) {
      Part& part = out_.parts[p];
      std::vector<std::vector<std::uint32_t>> others(part.blocks.size());
      bool any = false;
      for (const auto& [a, b] : apart_) {
        if (part_of_block_[a] != p) continue;
        others[number_[a]].push_back(number_[b]);
        others[number_[b]].push_back(number_[a]);
        any = true;
      }
      if (!any) continue;
      for (std::vector<std::uint32_t>& list : others) {
        std::ranges::sort(list);
        list.erase(std::unique(list.begin(), list.end()), list.end());
        part.apart.first.push_back(static_cast<std::uint32_t>(part.apart.items.size()));
        part.apart.items.insert(part.apart.items.end(), list.begin(), list.end());
      }
      part.apart.first.push_back(static_cast<std::uint32_t>(part.apart.items.size()));
    }
  }

  const Problem& problem_;
  std::uint32_t space_ = 0, period_of_problem_ = 0;
  SpaceBlocks out_;
  std::vector<std::uint32_t> block_of_;       // per buffer
  std::vector<Raw> raw_;                      // per block
  std::vector<TimeRange> ranges_;             // by block; times, then sections
  std::vector<std::uint32_t> first_range_;    // per block, and one more
  std::vector<std::uint64_t> lengths_;        // per range: steps
  std::vector<std::uint32_t> times_;          // numbered, for find_sections
  std::vector<std::uint32_t> section_time_;   // per section: when all its blocks are alive
  std::uint32_t sections_ = 0;
  std::vector<std::uint64_t> load_;           // per section, and one more
  std::vector<std::uint32_t> leader_;         // per section, for find_parts
  std::vector<std::pair<std::uint32_t, std::uint32_t>> apart_;  // blocks
  std::vector<std::uint32_t> part_of_block_, number_;           // per block: its part, its number there
};

}  // namespace

SpaceBlocks reduce(const Problem& problem, std::uint32_t space) { return Reduction(problem, space).run(); }

}  // namespace crucible::memory
