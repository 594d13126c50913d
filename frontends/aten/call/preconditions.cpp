// Checks of recorded calls before they are lowered: see preconditions.hpp.
#include "frontends/aten/call/preconditions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "frontends/aten/recording/align.hpp"

namespace crucible::aten {
namespace {

using trace::Arg;
using Kind = trace::Arg::Kind;

constexpr std::int64_t kMostElements = std::int64_t{1} << 48;  // of a tensor: more than any memory, far from overflow
constexpr std::size_t kMostDimensions = 64;                    // as in the framework

bool is_nothing(const Arg& arg) { return arg.kind == Kind::kNone || arg.kind == Kind::kUndefinedTensor; }

/// Whether one value of this type may be recorded so; types that lowerings do not read by kind are anything.
bool fits(const std::string& type, const Arg& arg) {
  if (type == "Tensor") return arg.kind == Kind::kTensor;
  if (type == "int") return arg.kind == Kind::kInt;
  if (type == "float") return arg.kind == Kind::kDouble || arg.kind == Kind::kInt;
  if (type == "bool") return arg.kind == Kind::kBool;
  if (type == "str") return arg.kind == Kind::kString;
  if (type == "Scalar") {
    return arg.kind == Kind::kInt || arg.kind == Kind::kDouble || arg.kind == Kind::kBool ||
           arg.kind == Kind::kComplex || arg.kind == Kind::kTensor;
  }
  return true;
}

std::string wrong_kind(const Parameter& parameter, const Arg& arg) {
  if (is_nothing(arg)) {
    // Undefined tensors are recorded where the schema says Tensor too: gradients, masks, what a kernel did not save.
    if (parameter.is_optional || (parameter.type == "Tensor" && !parameter.is_list)) return "";
    return fmt::format("argument {} is missing", parameter.name);
  }
  // A Python number may stand where the schema says Tensor.
  const bool is_number = arg.kind == Kind::kInt || arg.kind == Kind::kDouble;
  if (!parameter.is_list && parameter.name == "other" && is_number) return "";
  if (!parameter.is_list) {
    return fits(parameter.type, arg) ? ""
                                     : fmt::format("argument {} is not of type {}", parameter.name, parameter.type);
  }
  if (arg.kind != Kind::kList) {
    // A list of one number may be recorded as the number.
    return parameter.type == "int" && arg.kind == Kind::kInt ? ""
                                                             : fmt::format("argument {} is not a list", parameter.name);
  }
  for (const Arg& item : arg.list) {
    if (fits(parameter.type, item) || (parameter.has_optional_items && is_nothing(item))) continue;
    return fmt::format("argument {} is not a list of {}", parameter.name, parameter.type);
  }
  return "";
}

std::string wrong_number(const Parameter& parameter, const Arg& arg) {
  if (parameter.type != "int") return "";
  if (arg.kind == Kind::kInt) return beyond_memory(parameter.name, arg.integer);
  for (const Arg& item : arg.list) {
    std::string problem = item.kind == Kind::kInt ? beyond_memory(parameter.name, item.integer) : "";
    if (!problem.empty()) return problem;
  }
  return "";
}

std::string wrong_sizes(const trace::Trace& trace, const Arg& arg) {
  for (const trace::TensorId id : tensors_in({arg})) {
    const trace::Tensor& t = trace.tensors[id];
    if (t.sizes.size() > kMostDimensions) return fmt::format("a tensor has {} dimensions", t.sizes.size());
    std::int64_t elements = 1;
    for (const std::int64_t size : t.sizes) {
      if (size < 0 || size > kMostElements)
        return fmt::format("a tensor of sizes [{}] is not possible", fmt::join(t.sizes, ", "));
      if (size > 0 && (elements > kMostElements / size)) {
        return fmt::format("a tensor of sizes [{}] is larger than any memory", fmt::join(t.sizes, ", "));
      }
      elements *= std::max<std::int64_t>(size, 1);
    }
  }
  return "";
}

/// Dimensions of the argument that arguments like `dim` speak of: self, wherever a schema has it, or the first tensor.
std::int64_t rank_of_meant(const trace::Trace& trace, const trace::Op& op, const std::vector<Parameter>& parameters) {
  std::int64_t first = -1;
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    std::int64_t rank = -1;
    for (const trace::TensorId id : tensors_in({op.args[i]}))
      rank = std::max(rank, static_cast<std::int64_t>(trace.tensors[id].sizes.size()));
    if (rank >= 0 && parameters[i].name == "self") return rank;
    if (first < 0) first = rank;
  }
  return first;
}

std::string wrong_dimension(const Parameter& parameter, const Arg& arg, std::int64_t rank, bool adds_one) {
  constexpr std::array<std::string_view, 11> kNames = {"dim",   "dim0",      "dim1",    "dim2",  "axis0", "axis1",
                                                       "axis", "start_dim", "end_dim", "batch_dim", "dims"};
  // Whatever type a schema gives it: lowerings look for the name.
  if (std::ranges::find(kNames, parameter.name) == kNames.end()) return "";
  // Without a tensor at all (rank -1) an op has no more dimensions than a number has.
  const std::int64_t count = std::max<std::int64_t>(1, rank + (adds_one ? 1 : 0));
  const auto is_wrong = [&](const Arg& a) {
    return a.kind == Kind::kInt && (a.integer < -count || a.integer >= count);
  };
  const auto complain = [&](const Arg& a) {
    return fmt::format("argument {} names dimension {} of {}", parameter.name, a.integer, count);
  };
  if (is_wrong(arg)) return complain(arg);
  for (const Arg& item : arg.list) {
    if (is_wrong(item)) return complain(item);
  }
  return "";
}

bool names(std::string_view list, std::string_view name) {
  for (std::size_t at = 0; at < list.size();) {
    const auto end = std::min(list.find(' ', at), list.size());
    if (list.substr(at, end - at) == name) return true;
    at = end + 1;
  }
  return false;
}

std::string wrong_rank(const trace::Trace& trace, const Parameter& parameter, const Arg& arg, std::size_t least) {
  if (least > 0 && is_nothing(arg) && !parameter.is_optional)
    return fmt::format("argument {} is missing", parameter.name);
  for (const trace::TensorId id : tensors_in({arg})) {
    const auto rank = trace.tensors[id].sizes.size();
    if (rank < least)
      return fmt::format("argument {} has {} dimensions, needs {} or more", parameter.name, rank, least);
  }
  return "";
}

/// Lists of one operator for many tensors have one length; optional ones may be empty.
std::string wrong_lengths(const Signature& signature, const trace::Op& op) {
  const std::size_t count = op.args.empty() ? 0 : op.args[0].list.size();
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    const bool may_be_empty =
        signature.arguments[i].name == "max_exp_avg_sqs" || signature.arguments[i].name == "momentum_buffer_list";
    if (op.args[i].kind != Kind::kList || (may_be_empty && op.args[i].list.empty())) continue;
    if (op.args[i].list.size() == count) continue;
    return fmt::format("argument {} has {} items, {} has {}", signature.arguments[i].name, op.args[i].list.size(),
                       signature.arguments[0].name, count);
  }
  for (const Arg& output : op.outputs) {
    if (output.kind == Kind::kList && output.list.size() != count) {
      return fmt::format("{} results for {} tensors", output.list.size(), count);
    }
  }
  return "";
}

std::string wrong_results(const trace::Op& op, const Signature& signature) {
  const bool is_backward = signature.text.substr(0, signature.text.find('(')).find("backward") != std::string::npos;
  if (op.outputs.size() > signature.results.size() || (op.outputs.empty() && !signature.results.empty())) {
    return fmt::format("{} results were recorded, the schema has {}", op.outputs.size(), signature.results.size());
  }
  for (std::size_t k = 0; k < op.outputs.size(); ++k) {
    const Parameter& result = signature.results[k];
    if (result.type != "Tensor") continue;
    const bool is_list = op.outputs[k].kind == Kind::kList;
    // A backward op gives nothing where its mask says so, other ones may leave out what only a gradient needs.
    const bool may_be_nothing = signature.results.size() > 1 && (k > 0 || is_backward) && is_nothing(op.outputs[k]);
    if (is_list != result.is_list && !may_be_nothing) return fmt::format("result {} is not what the schema says", k);
    if (!is_list && op.outputs[k].kind != Kind::kTensor && !may_be_nothing)
      return fmt::format("result {} is not a tensor", k);
  }
  return "";
}

}  // namespace

std::string beyond_memory(std::string_view name, std::int64_t number) {
  constexpr std::array<std::string_view, 10> kAnyNumber = {
      "start", "end", "low", "high", "from", "to", "ignore_index", "padding_idx", "seed", "fill_value"};
  if (std::ranges::find(kAnyNumber, name) != kAnyNumber.end() || (number <= kMostElements && number >= -kMostElements))
    return "";
  return fmt::format("argument {} is {}, beyond what any memory holds", name, number);
}

Preconditions::Preconditions(std::string_view schema, std::string_view entry) : signature_(parse_signature(schema)) {
  adds_dimension_ = entry.find("unsqueeze") != std::string_view::npos || entry.starts_with("aten::stack") ||
                    entry.find("diag_embed") != std::string_view::npos ||
                    entry.find("_backward") != std::string_view::npos;  // the gradient of a view that lost a dimension
  const bool of_many = entry.starts_with("aten::_foreach_") || entry.starts_with("aten::_fused_");
  is_list_of_calls_ = of_many && !signature_.arguments.empty() && signature_.arguments[0].is_list;
  for (const LeastRank& row : least_ranks()) {
    if (entry.starts_with(row.entry) && names(row.arguments, "result")) result_rank_ = std::max(result_rank_, row.rank);
  }
  for (const Parameter& parameter : signature_.arguments) {
    std::size_t& least = ranks_.emplace_back(0);
    for (const LeastRank& row : least_ranks()) {
      if (entry.starts_with(row.entry) && names(row.arguments, parameter.name)) least = std::max(least, row.rank);
    }
  }
}

std::string Preconditions::broken_by(const trace::Trace& trace, const trace::Op& op) const {
  const auto& parameters = signature_.arguments;
  if (op.args.size() > parameters.size()) {
    return fmt::format("{} arguments were recorded, the schema has {}", op.args.size(), parameters.size());
  }
  for (std::size_t i = op.args.size(); i < parameters.size(); ++i) {
    // Frontends record defaults too: a lowering function that asked for one would find nothing.
    if (!parameters[i].is_optional) {
      return fmt::format("argument {} was not recorded", parameters[i].name);
    }
  }
  const std::int64_t rank = rank_of_meant(trace, op, parameters);
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    std::string problem = wrong_kind(parameters[i], op.args[i]);
    if (problem.empty()) problem = wrong_number(parameters[i], op.args[i]);
    if (problem.empty()) problem = wrong_sizes(trace, op.args[i]);
    if (problem.empty()) problem = wrong_dimension(parameters[i], op.args[i], rank, adds_dimension_);
    if (problem.empty()) problem = wrong_rank(trace, parameters[i], op.args[i], ranks_[i]);
    if (!problem.empty()) return problem;
  }
  if (std::string problem = is_list_of_calls_ ? wrong_lengths(signature_, op) : ""; !problem.empty()) return problem;
  const std::size_t least =
      result_rank_ == LeastRank::kAsFirst ? static_cast<std::size_t>(std::max<std::int64_t>(rank, 0)) : result_rank_;
  for (const trace::TensorId id : tensors_in(op.outputs)) {
    const auto result_rank = trace.tensors[id].sizes.size();
    if (result_rank < least) return fmt::format("a result has {} dimensions, needs {} or more", result_rank, least);
  }
  for (const Arg& output : op.outputs) {
    if (std::string problem = wrong_sizes(trace, output); !problem.empty()) return "its result: " + problem;
  }
  return wrong_results(op, signature_);
}

}  // namespace crucible::aten
