// The groups of iterations: see align.hpp. While all iterations are alike, each is compared with the first and nothing
// else is done. Once they are not, an iteration is compared only with groups whose ops have the same names and sizes:
// a hash finds them, so that a thousand groups cost no more than one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "frontends/aten/recording/align_parts.hpp"
#include "frontends/aten/recording/signatures.hpp"

namespace crucible::aten {
namespace {

std::vector<std::uint32_t> first_seen(const trace::Trace& trace, std::span<const Alignment> groups) {
  std::vector<std::uint32_t> seen(trace.storages.size(), trace::kNone);
  for (const Alignment& group : groups) {
    for (std::size_t m = 0; m < group.count(); ++m) {
      for (const auto& [own, role] : group.to_first[m]) seen[own] = std::min(seen[own], group.iterations[m]);
    }
  }
  return seen;
}

class Grouping {
 public:
  explicit Grouping(const trace::Trace& trace) : trace_(trace), signatures_(trace), kinds_(kinds_of_tensors(trace)) {}

  void add(std::uint32_t iteration, std::vector<std::uint32_t> ops) {
    if (groups_.empty()) {
      groups_.push_back(first_of_group(trace_, kinds_, iteration, std::move(ops)));
      return;
    }
    std::string difference;
    if (groups_.size() == 1) {
      const Result<void> joined = join(trace_, groups_[0], iteration, ops);
      if (joined) return;
      difference = joined.error().message;
    }
    if (by_signature_.empty()) by_signature_.emplace(signatures_.of(groups_[0].ops[0]), 0);
    const std::uint64_t signature = signatures_.of(ops);
    const auto [begin, end] = by_signature_.equal_range(signature);
    for (auto candidate = begin; candidate != end; ++candidate) {
      if (groups_.size() == 1) break;  // that one was tried
      const Result<void> joined = join(trace_, groups_[candidate->second], iteration, ops);
      if (joined) return;
      difference = joined.error().message;
    }
    if (difference.empty()) {
      const Result<void> joined = join(trace_, groups_[0], iteration, ops);
      if (joined) return;
      difference = joined.error().message;
    }
    by_signature_.emplace(signature, groups_.size());
    groups_.push_back(first_of_group(trace_, kinds_, iteration, std::move(ops)));
    groups_.back().difference = std::move(difference);
  }

  std::vector<Alignment> take() {
    if (groups_.size() > 1) {
      const auto seen = std::make_shared<const std::vector<std::uint32_t>>(first_seen(trace_, groups_));
      for (Alignment& group : groups_) group.first_seen = seen;
    }
    return std::move(groups_);
  }

 private:
  const trace::Trace& trace_;
  Signatures signatures_;
  const Alignment kinds_;
  std::vector<Alignment> groups_;
  std::unordered_multimap<std::uint64_t, std::size_t> by_signature_;  // empty while there is one group
};

}  // namespace

std::vector<std::uint64_t> signatures_of(const trace::Trace& trace, const std::vector<Alignment>& groups) {
  Signatures signatures(trace);
  std::vector<std::uint64_t> all;
  for (const Alignment& group : groups) all.push_back(signatures.of(group.ops[0]));
  return all;
}

Result<std::vector<Alignment>> align(const trace::Trace& trace) {
  Grouping grouping(trace);
  bool is_begun = false;
  for (std::uint32_t i = 0; i < trace.iterations.size(); ++i) {
    const trace::Iteration& iteration = trace.iterations[i];
    if (!iteration.complete && is_begun) break;
    if (!iteration.complete) continue;
    std::vector<std::uint32_t> ops;
    for (std::uint32_t op = iteration.first_op; op < iteration.first_op + iteration.op_count; ++op) {
      if (is_aligned(trace, trace.ops[op])) ops.push_back(op);
    }
    grouping.add(i, std::move(ops));
    is_begun = true;
  }
  if (!is_begun) {
    const std::string& reason = trace.metadata.incomplete_reason;
    return Error{ErrorCode::kBadInput,
                 fmt::format("the recording holds no complete iteration{}{}: record at least one whole step",
                             reason.empty() ? "" : ", because ", reason)};
  }
  return grouping.take();
}

std::vector<Alignment> split(const trace::Trace& trace, const Alignment& group, const ArgumentPath& path,
                             const std::string& difference) {
  Alignment kinds;
  kinds.lazy = group.lazy, kinds.sparse = group.sparse, kinds.nested = group.nested, kinds.zeros = group.zeros;
  kinds.changes = group.changes, kinds.read_as_real = group.read_as_real, kinds.first_seen = group.first_seen,
  kinds.origins = group.origins;
  if (!kinds.first_seen)  // there was this group alone
    kinds.first_seen = std::make_shared<const std::vector<std::uint32_t>>(first_seen(trace, {&group, 1}));
  std::vector<Alignment> parts;
  for (std::size_t m = 0; m < group.count(); ++m) {
    const trace::Arg& number = group.argument(trace, m, path);
    const auto alike = [&](const Alignment& part) { return part.argument(trace, 0, path) == number; };
    const auto part = std::ranges::find_if(parts, alike);
    if (part != parts.end() && join(trace, *part, group.iterations[m], group.ops[m])) continue;
    parts.push_back(first_of_group(trace, kinds, group.iterations[m], group.ops[m]));
    parts.back().difference = parts.size() == 1 ? group.difference : difference;
  }
  return parts;
}

}  // namespace crucible::aten
