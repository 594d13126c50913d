// Less memory for more work: a tensor that waits long for its next reader is dropped and computed again right before
// it, or loaded again, or waits on the host; an input comes when it is needed, and so does a state whose home is the
// host.
//
// Which tensors, is chosen by what a byte costs: each round takes the way that takes most off the positions above the
// target per nanosecond of work, over the whole line, chains of repeated nodes included. The rounds go down a stair of
// targets that depends on the line alone, so a larger budget never needs more work than a smaller one, and the smallest
// peak that is reported is one that can be asked for.
#pragma once

#include <set>
#include <tuple>

#include "core/budget/transfer.hpp"

namespace crucible::budget {

struct Excess;  // recompute.cpp

class Recompute {
 public:
  /// `work`: visits of arguments and tensors that the search may make, so that its time is bounded for any size. What
  /// models of some thousand steps need is a small part of it.
  explicit Recompute(Line line, std::uint64_t work = 1'000'000'000);

  /// The next step down: lowers the peak by at least one part in 64, or as far as it can. False when nothing that could
  /// be repeated lowers it, or the work is spent; the line is then that of the lowest peak.
  bool descend();

  const Line& line() const { return line_; }
  std::uint64_t peak() const { return live_.peak; }
  /// Nodes that run again.
  std::uint32_t repeats() const;

 private:
  enum class Way : std::uint8_t { kRepeat, kLoad, kComeLater, kWaitOnHost, kLiveOnHost };
  struct Candidate {
    Way way = Way::kRepeat;
    TensorId tensor = kNone;
    std::uint32_t last_use = 0;  // position of the reader or writer before the gap
    std::uint32_t use = 0;  // position of the reader that gets the repeated content
    double rank = 0;        // bytes above the wish that go, per nanosecond
    std::vector<Stay> stays = {};  // of kLiveOnHost
  };
  /// What a candidate is about, whatever has been put into the order since.
  using Key = std::tuple<Way, TensorId, NodeId, std::size_t>;
  Key key_of(const Candidate& candidate) const;
  /// One round: the first candidate that helps. Those that do not are in vain until the next target.
  bool improve(std::uint64_t target, std::uint64_t wish, std::set<Key>& vain);
  std::vector<Candidate> candidates(std::uint64_t target, std::uint64_t wish, const std::set<Key>& vain) const;
  void offer_stays(const Excess& must, const Excess& wish, const std::set<Key>& vain,
                   std::vector<Candidate>& found) const;
  std::uint64_t visits() const;
  bool apply(const Candidate& candidate);
  bool repeat(TensorId tensor, std::uint32_t use);
  void load(TensorId tensor, std::uint32_t use);

  Line line_;
  Live live_;
  std::uint64_t work_;
};

}  // namespace crucible::budget
