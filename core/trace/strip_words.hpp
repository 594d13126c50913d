// The texts of a stripped recording (strip.hpp): words that the framework and we ourselves use stay, all others become
// hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/hash.hpp"

namespace crucible::trace {

/// 64 bits of the SHA-256 of `key` and `text`.
std::uint64_t keyed(const ContentHash& key, std::string_view text);

/// The same word has the same hash everywhere in a recording, and another one in every other copy. Threads: one.
class StripWords {
 public:
  explicit StripWords(const ContentHash& key) : key_(key) {}

  /// "blocks.0.norm1" as "n8c1f0a2b4d.0.n03b1d9e8f7": part by part, numbers stay.
  std::string dotted(std::string_view text);
  /// "exp_avg of blocks.0.norm1.weight": what torch.optim calls its states stays too.
  std::string state(std::string_view text);
  /// "/home/a/train.py" as "n1b2c3d4e5.py".
  std::string file(std::string_view text);
  /// "cpu", "default cuda:0"; a device of another name becomes a hash.
  std::string device(std::string_view text);
  /// An argument of an op: "mean", "reflect", equations of einsum.
  std::string string(std::string_view text);
  /// The name of a type, of a process group with its numbers.
  std::string opaque(std::string_view text);
  /// Kinds of compound tensors and their parts.
  std::string compound(std::string_view text);
  /// What the recorder could not keep.
  std::string not_recorded(std::string_view text);
  /// "torch 2.11.0, built for the CPU".
  static std::string framework(std::string_view text);
  /// "crucible 0.1.0, typed kernels on the Fake key".
  std::string frontend(std::string_view text);

  std::size_t count() const { return known_.size(); }

 private:
  const std::string& hashed(std::string_view word);

  ContentHash key_;
  std::map<std::string, std::string, std::less<>> known_;
};

}  // namespace crucible::trace
