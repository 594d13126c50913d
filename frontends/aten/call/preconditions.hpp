// What must hold before a lowering function looks at a recorded op: arguments of the kinds that the schema says,
// tensors with as many dimensions as the operator reads, dimensions that exist, sizes that memory could hold. Lowering
// functions rely on it. A recording of the framework keeps all of this; a damaged or invented one is refused here, with
// a sentence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/trace.hpp"
#include "frontends/aten/call/signature.hpp"

namespace crucible::aten {

/// A row of the table in least_ranks.cpp: tensors of this operator whose sizes its lowering reads by their places.
struct LeastRank {
  static constexpr std::size_t kAsFirst = 100;  // as many as the first tensor among the arguments
  std::string_view entry;      // the beginning of the entry's name
  std::string_view arguments;  // names, separated by spaces; of those that the operator has; "result": each result
  std::size_t rank;
};

std::span<const LeastRank> least_ranks();

/// What is wrong with a whole number that a lowering computes with: it counts elements or says places, and no tensor
/// could have so many. Ends of ranges, labels and what fills a tensor may be any number. "" where nothing is wrong.
std::string beyond_memory(std::string_view name, std::int64_t number);

/// The checks of one operator, made once for all of its calls. Threads: any.
class Preconditions {
 public:
  /// `entry`: the name of the operator's lowering.
  Preconditions(std::string_view schema, std::string_view entry);

  /// What is wrong with the call, or "". `trace` must be valid.
  std::string broken_by(const trace::Trace& trace, const trace::Op& op) const;

 private:
  Signature signature_;
  std::vector<std::size_t> ranks_;  // per argument
  std::size_t result_rank_ = 0;     // the fewest dimensions of results; LeastRank::kAsFirst: the first tensor's
  bool is_list_of_calls_ = false;   // one call per item of its lists
  bool adds_dimension_ = false;     // its `dim` may be behind the last one
};

}  // namespace crucible::aten
