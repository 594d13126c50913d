#include "core/graph/bounds.hpp"

#include <fmt/format.h>

namespace crucible::graph {
namespace {

bool is_settling(const Bound& bound) { return bound.low == kSettled && bound.high == kSettled; }

}  // namespace

std::string index_outside(const Source* source, std::int64_t index, const Bound& bound) {
  std::string text = source == nullptr || source->op.empty() ? "an op" : source->op;
  if (source != nullptr && (!source->module.empty() || !source->site.empty())) {
    text += fmt::format(" ({}{}{}{}{})", source->module.empty() ? "" : "in ", source->module,
                        source->module.empty() || source->site.empty() ? "" : " ", source->site.empty() ? "" : "at ",
                        source->site);
  }
  if (is_settling(bound)) {
    return text + ": what it decides hangs on a longer chain of decisions (boxes each of which suppresses the next) "
                  "than the program has rounds, so that its result is wrong";
  }
  return text + fmt::format(": an index is {}, outside of [{}, {}]", index, bound.low, bound.high);
}

Result<void> check_bounds(const Program& program, const Output& output, std::span<const std::int64_t> extrema) {
  std::string first;
  bool is_of_rounds = false;
  std::size_t count = 0;
  for (std::size_t i = 0; i < output.bounds.size() && 2 * i + 1 < extrema.size(); ++i) {
    const Bound& bound = output.bounds[i];
    const std::int64_t least = extrema[2 * i], most = extrema[2 * i + 1];
    if (least >= bound.low && most <= bound.high) continue;
    if (count++ > 0) continue;
    is_of_rounds = is_settling(bound);
    first = index_outside(bound.source < program.sources.size() ? &program.sources[bound.source] : nullptr,
                          least < bound.low ? least : most, bound);
  }
  if (count == 0) return {};
  if (is_of_rounds) {
    return Error{ErrorCode::kBadInput,
                 first + ": leave out more boxes before it (by a threshold of their scores, or all but the best few)"};
  }
  const std::string more = count == 1 ? "" : fmt::format(" ({} more ops have such indices)", count - 1);
  return Error{
      ErrorCode::kBadInput,
      first + more +
          "; nothing outside was read or written, but the results mean nothing: the recording's data is damaged, or "
          "was "
          "not made by running the program, which would have raised an IndexError here, or the device computed it "
          "wrongly: `crucible compare FILE --backends reference,BACKEND` tells"};
}

}  // namespace crucible::graph
