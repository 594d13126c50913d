// Lowering of sequences of different lengths, packed: the first elements of all, then the second ones of those that
// have any, and so on. How many elements there are is what the recording says.
#include "frontends/aten/algebra/algebra.hpp"
#include "frontends/aten/indexing/index_plan.hpp"
#include "frontends/aten/lower_table.hpp"

namespace crucible::aten {
namespace {

void pack(OpCall& c) {
  Emitter& e = c.emit();
  const Expression given = c.tensor("input");
  const Expression lengths = e.cast(c.tensor("lengths"), DType::kI64);
  if (given.rank() < 2) return e.fail("sequences without a dimension of steps and one of sequences");
  const Expression input = c.boolean("batch_first") ? e.transpose(given, 0, 1) : given;
  const std::int64_t batch = input.size(1);
  if (lengths.sizes() != Sizes{batch}) return e.fail("not one length for each sequence");
  // Sorted by length; steps behind the longest one's end are in no result.
  const std::int64_t steps = c.result(1).sizes.empty() ? 0 : c.result(1).sizes[0];
  if (steps > input.size(0)) return e.fail("a sequence is longer than the steps that are there");
  e.expect_in(lengths, 1, steps);
  const Expression is_inside = e.expand(e.position(0, {steps, batch}) < e.unsqueeze(lengths, 0), {steps, batch});
  c.set(1, e.drop(e.sum(e.cast(is_inside, DType::kI64), {1}), {1}));
  const Sizes& sizes = c.result(0).sizes;
  if (sizes.empty()) return e.fail("packed sequences without a dimension");
  std::vector<Term> indices = true_coordinates(e, is_inside, sizes[0]);
  for (Term& index : indices) {
    Sizes one(sizes.size(), 1);
    one[0] = sizes[0];
    index = e.reshape(index, one);
  }
  for (std::size_t d = 1; d < sizes.size(); ++d) indices.push_back(e.position(static_cast<std::int64_t>(d), sizes));
  c.set(0, e.expand(e.take_at(input, indices), sizes));
}

constexpr Entry kEntries[] = {
    {"aten::_pack_padded_sequence", pack},
};

}  // namespace

std::span<const Entry> packed_entries() { return kEntries; }

}  // namespace crucible::aten
