// What storages held when a recorded op last used them, so that a change that no op made is noticed at the next op that
// reads them. Bounded: so many bytes per iteration, small storages alone; what is looked at is the recorder's choice
// (Recorder::look_at). It knows checksums and no ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace crucible::recorder {

/// Threads: one at a time (the recorder's lock).
class UnseenWrites {
 public:
  struct Seen {
    std::uint64_t checksum = 0;
    std::size_t size_bytes = 0;
    std::uint64_t sequence = 0;     // of the op that used it last
    std::uint32_t operator_id = 0;  // and which that was
    bool is_known = false;          // false: an op has written it and gave it back in no result
  };
  // The first iteration is looked at from its start; each later one from an op of its own, so that in the long run all
  // are.
  static constexpr std::size_t kFirstBytes = 16u << 20, kLaterBytes = 1u << 20, kLargest = 4u << 20;

  /// `ops`: how many the last iteration had.
  void begin_iteration(std::uint32_t iteration, std::uint64_t first_sequence, std::uint64_t ops);
  /// Whether the iteration's looks begin with this op or have begun, and are not used up.
  bool starts_at(std::uint64_t sequence) const { return left_ > 0 && sequence >= start_; }
  /// Whether so many bytes may be looked at; takes them off what is left.
  bool take(std::size_t size_bytes);
  bool is_used_up() const { return left_ == 0; }
  /// Of a storage by the recorder's id, made where there is none; until the next call of this.
  Seen& operator[](std::uint32_t storage);
  const Seen* find(std::uint32_t storage) const;
  void forget(std::uint32_t storage);
  void forget_all();
  bool empty() const { return known_ == 0; }

 private:
  // A table of its own: it grows to the size of an iteration once and then allocates nothing, as every op's path must.
  struct Place {
    std::uint32_t storage = 0;
    std::uint32_t round = 0;  // another round than the present one: free
    bool is_known = false;    // false in this round: forgotten
    Seen seen;
  };
  /// Where `storage` is, or the free place where it would be. The table has a free place.
  std::size_t place_of(std::uint32_t storage) const;
  void grow();

  std::vector<Place> places_;  // a power of two
  std::uint32_t round_ = 1;
  std::size_t used_ = 0, known_ = 0;  // places of this round; of them those that are not forgotten
  std::size_t left_ = 0;
  std::uint64_t start_ = 0;
};

}  // namespace crucible::recorder
