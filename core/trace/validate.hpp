// Consistency of a trace beyond the encoding: ids within their tables, iterations in order, ranks that match, lists and
// compound tensors that are not too deep. The reader asks after decoding, the writers before anything is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/result.hpp"
#include "core/trace/records.hpp"
#include "core/trace/trace.hpp"

namespace crucible::trace {

/// Errors: kBadInput naming the section and the record.
Result<void> validate(const Trace& trace);

/// The same one record at a time, for tables that are not in memory as a whole. Feed it the tables in the order of
/// kTableSections and every record in the table's order: some rules look back. Threads: one at a time.
class RecordChecker {
 public:
  /// How many records each table has in the end.
  struct Sizes {
    std::size_t schemas = 0, sites = 0, modules = 0, storages = 0, tensors = 0, ops = 0, iterations = 0, op_hashes = 0,
                blobs = 0;
  };
  explicit RecordChecker(const Sizes& sizes) : sizes_(sizes) {}

  /// What is wrong with the tables' sizes alone. Errors: kBadInput.
  Result<void> check_sizes() const;

  // "" or what is wrong with the record.
  std::string check(const Schema&) { return ""; }
  std::string check(const Site&) { return ""; }
  std::string check(const std::string&) { return ""; }
  std::string check(const Storage&) { return ""; }
  std::string check(const Tensor& tensor);
  std::string check(const Op& op);
  std::string check(const Iteration& iteration);
  std::string check(const External& external) const;
  std::string check(const Draw& draw) const;
  std::string check(const FinalState& state) const;
  std::string check(const NotRecorded& item) const;
  std::string check(const GeneratorState& state) const;
  std::string check(const Output& output) const;
  std::string check(const CompoundTensor& compound);
  std::string check(const OpHashes&) { return ""; }

 private:
  std::string check_arg(const Arg& arg, int depth) const;
  void count_uses(const Arg& arg);
  std::string check_parts(const Arg& arg, int& height, std::uint64_t& size);

  Sizes sizes_;
  std::uint64_t free_from_ = 0;              // the first op that no iteration has yet
  std::vector<bool> has_storage_;            // per tensor
  std::vector<std::uint16_t> output_count_;  // per op, at most 65535
  struct Unfolded {
    int height = 1;          // 1 when no part is compound
    std::uint64_t size = 0;  // arguments in all its parts, theirs included
  };
  std::unordered_map<TensorId, Unfolded> compounds_;
  std::unordered_set<TensorId> plain_parts_;  // parts that were not compound when they were named
  std::unordered_map<TensorId, std::uint64_t> uses_;  // by ops, of tensors without a storage
  std::uint64_t use_count_ = 0, unfolded_ = 0;        // of those uses: all, and the arguments that they unfold to
};

}  // namespace crucible::trace
