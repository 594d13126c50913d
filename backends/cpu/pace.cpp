#include "backends/cpu/pace.hpp"

#include <algorithm>
#include <cstdio>

namespace crucible_cpu {
namespace {

constexpr int kTrialReplays = 3, kMostTrialReplays = 16;
constexpr double kShortestTrial = 200e3;                   // ns: what a trial of short replays takes at least
constexpr double kShortestWait = 20e6, kLongestWait = 5e9;  // ns between two trials of one number
constexpr double kWaitPerLoss = 30;                         // so that trials cost at most a thirtieth
constexpr double kStalled = 0.2;  // of a replay: a sign that its number of threads is to be left at once
constexpr double kMostCredit =
    40e6;  // ns: what replays that were faster for their threads may lose again, two time slices
constexpr double kBetterWithMore = 0.96, kBetterWithFewer = 0.99;
constexpr double kSmall = 1e6;  // ns of shared work, below which fewer threads may be better on a quiet machine, too
constexpr int kUneven = 8, kMostUneven = 40;
constexpr std::uint64_t kFirstReplays = 3;  // which fill caches, and tell what the first number costs

}  // namespace

Pace::Pace(const Settings& settings) : is_fixed_(settings.is_fixed), shared_ns_(settings.shared_ns) {
  const int most = std::max(1, settings.most);
  if (!is_fixed_) {
    for (int threads = 1; threads < most; threads *= 2) levels_.push_back({.threads = threads});
  }
  levels_.push_back({.threads = most});
  while (at_ + 1 < levels_.size() && levels_[at_ + 1].threads <= settings.first) ++at_;
}

void Pace::took(const Facts& facts) {
  const auto ns = static_cast<double>(std::max<std::int64_t>(facts.ns, 0)),
             stalled = static_cast<double>(facts.stalled_ns);
  ++replays_;
  spent_ns_ += ns;
  stalls_ += facts.stalls != 0 ? 1 : 0;
  stalled_ns_ += facts.stalled_ns;
  if (levels_.size() == 1) return note(levels_[at_], ns, stalled);
  const bool has_stalled = stalled > kStalled * ns;
  if (trial_.is_on) {
    ++trial_.replays;
    trial_.ns += ns;
    const bool is_long =
        trial_.replays >= kTrialReplays && (trial_.ns >= kShortestTrial || trial_.replays >= kMostTrialReplays);
    const bool is_bad = has_stalled && trial_.ns / trial_.replays > levels_[at_].ns;
    if (is_bad || is_long) end_trial();
    return;
  }
  Level& level = levels_[at_];
  if (replays_ > 1 || facts.stalls != 0) note(level, ns, stalled);
  if (at_ > 0 && level.least_ns != 0) {
    lost_ns_ = std::max(lost_ns_ + ns - at_most(levels_[at_ - 1]), -kMostCredit);
    if (has_stalled && lost_ns_ > 0) {
      put_off(level, lost_ns_);
      return go_to(at_ - 1);
    }
  }
  const bool is_sign = stalled * 50 > ns || ns > 1.5 * level.least_ns;
  if (replays_ > 1) uneven_ = std::clamp(uneven_ + (is_sign ? 4 : -1), 0, kMostUneven);
  if (replays_ >= kFirstReplays) begin_trial();
}

void Pace::note(Level& level, double ns, double stalled_ns) {
  level.ns += level.ns == 0 ? ns : (ns - level.ns) / 8;
  const double running = std::max(ns - stalled_ns, 0.0);
  level.least_ns = level.least_ns == 0 ? running : std::min(level.least_ns * 1.005, running);
}

/// What a replay takes with so many threads: what it took, else what it would take if those of the number in use shared
/// all of it evenly.
double Pace::at_most(const Level& level) const {
  return level.ns != 0 ? level.ns : levels_[at_].least_ns * levels_[at_].threads / level.threads;
}

void Pace::go_to(std::size_t level) {
  at_ = level;
  uneven_ = 0;
  lost_ns_ = 0;
  ++changes_;
}

/// Not again until what it lost is a small part of what went by, and twice as long as the last time.
void Pace::put_off(Level& level, double lost_ns) {
  level.wait_ns = std::clamp(std::max(2 * level.wait_ns, kWaitPerLoss * lost_ns), kShortestWait, kLongestWait);
  level.next_ns = spent_ns_ + level.wait_ns;
}

void Pace::begin_trial() {
  const auto begin = [&](std::size_t level) { trial_ = {.is_on = true, .level = level}; };
  if (at_ + 1 < levels_.size() && spent_ns_ >= levels_[at_ + 1].next_ns) return begin(at_ + 1);
  const bool may_be_less = shared_ns_ < kSmall || uneven_ >= kUneven;
  if (at_ > 0 && may_be_less && spent_ns_ >= levels_[at_ - 1].next_ns) begin(at_ - 1);
}

void Pace::end_trial() {
  const bool is_more = trial_.level > at_;
  Level &tried = levels_[trial_.level], &used = levels_[at_];
  const double mean = trial_.ns / trial_.replays, lost = (mean - used.ns) * trial_.replays;
  tried.ns = mean;
  tried.least_ns = mean;
  trial_.is_on = false;
  if (mean < used.ns * (is_more ? kBetterWithMore : kBetterWithFewer)) {
    tried.wait_ns /= 4;
    put_off(used, -lost);
    return go_to(trial_.level);
  }
  put_off(tried, std::max(lost, 0.0));
}

std::string Pace::in_words() const {
  const int now = levels_[at_].threads, most = levels_.back().threads;
  std::string words = std::to_string(now) + " of " + std::to_string(most);
  if (is_fixed_) {
    words += ", as the option threads says";
  } else if (levels_.size() == 1) {
    words += shared_ns_ > 0 ? ": the process may use one processor" : ": there is nothing that threads could share";
  }
  if (stalls_ != 0) {
    char lost[32];
    std::snprintf(lost, sizeof(lost), "%.1f ms", static_cast<double>(stalled_ns_) / 1e6);
    words += "; in " + std::to_string(stalls_) + (stalls_ == 1 ? " replay" : " replays") +
             " a thread had no processor, " + lost + " were lost";
  }
  return words;
}

}  // namespace crucible_cpu
