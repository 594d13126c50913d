// Alignment of iterations: see align.hpp.
#include "frontends/aten/align.hpp"

#include <fmt/format.h>

#include <bit>
#include <optional>
#include <utility>

#include "frontends/aten/schema.hpp"
#include "frontends/aten/thread_order.hpp"

namespace crucible::aten {
namespace {

using trace::Arg;
using Kind = trace::Arg::Kind;

bool is_number(const Arg& arg) { return arg.kind == Kind::kInt || arg.kind == Kind::kDouble; }

void collect(const std::vector<Arg>& args, bool keep_undefined, std::vector<trace::TensorId>& out) {
  for (const Arg& arg : args) {
    if (arg.kind == Kind::kTensor) out.push_back(arg.tensor);
    const bool empty = arg.kind == Kind::kUndefinedTensor || arg.kind == Kind::kNone;
    if (keep_undefined && empty) out.push_back(trace::kNone);
    if (arg.kind == Kind::kList) collect(arg.list, keep_undefined, out);
  }
}

/// True for ops that leave no trace in any tensor: control marks, and questions whose answer went to Python.
bool is_dropped(const trace::Trace& trace, const trace::Op& op) {
  const trace::Schema& schema = trace.schemas[op.schema];
  if (schema.name.starts_with("profiler::")) return true;
  return tensors_in(op.outputs).empty() && !writes_argument(schema.text);
}

std::string brief(const Arg& arg, const trace::Trace& trace) {
  switch (arg.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return arg.integer ? "True" : "False";
    case Kind::kInt:
      return fmt::format("{}", arg.integer);
    case Kind::kDouble:
      return fmt::format("{}", arg.real);
    case Kind::kTensor: {
      const trace::Tensor& t = trace.tensors[arg.tensor];
      return fmt::format("{}[{}] with strides [{}]", name(t.dtype), fmt::join(t.sizes, ", "),
                         fmt::join(t.strides, ", "));
    }
    case Kind::kList: {
      std::string text;
      for (const Arg& item : arg.list) text += (text.empty() ? "" : ", ") + brief(item, trace);
      return "[" + text + "]";
    }
    case Kind::kUndefinedTensor:
      return "no tensor";
    default:
      return arg.text.empty() ? fmt::format("{}", arg.integer) : arg.text;
  }
}

/// Compares one later iteration with the first.
class Comparison {
 public:
  Comparison(const trace::Trace& trace, Alignment& alignment, std::size_t iteration)
      : trace_(trace), alignment_(alignment), iteration_(iteration) {}

  Result<void> run() {
    const auto& first = alignment_.ops[0];
    const auto& other = alignment_.ops[iteration_];
    for (std::size_t p = 0; p < std::min(first.size(), other.size()); ++p) {
      CRUCIBLE_TRY_VOID(compare_op(static_cast<std::uint32_t>(p)));
    }
    if (first.size() != other.size()) {
      const bool longer = first.size() > other.size();
      const auto extra = longer ? first[other.size()] : other[first.size()];
      return Error{ErrorCode::kBadInput,
                   fmt::format("{}: the first has {} ops, the other {}; the first op without a partner is {} at {}; {}",
                               iterations_text(), first.size(), other.size(),
                               trace_.schemas[trace_.ops[extra].schema].full_name(),
                               trace_.site_text(trace_.ops[extra].site), kAdvice)};
    }
    return {};
  }

 private:
  static constexpr std::string_view kAdvice = "record with a larger --warmup, mark steps with crucible.step(), or "
                                                 "replay one iteration alone (crucible trace trim --iterations N-N)";

  std::string iterations_text() const {
    return fmt::format("iterations {} and {} differ", alignment_.iterations[0], alignment_.iterations[iteration_]);
  }

  Error differ(std::uint32_t position, const std::string& what) const {
    const trace::Op& op = trace_.ops[alignment_.ops[0][position]];
    return Error{ErrorCode::kBadInput, fmt::format("{} at op {} ({}): {}; {}", iterations_text(), position,
                                                   trace_.site_text(op.site), what, kAdvice)};
  }

  Result<void> compare_op(std::uint32_t position) {
    const trace::Op& a = trace_.ops[alignment_.ops[0][position]];
    const trace::Op& b = trace_.ops[alignment_.ops[iteration_][position]];
    const std::string name_a = trace_.schemas[a.schema].full_name(), name_b = trace_.schemas[b.schema].full_name();
    if (name_a != name_b) return differ(position, fmt::format("{} vs {}", name_a, name_b));
    if (a.args.size() != b.args.size() || a.outputs.size() != b.outputs.size()) {
      return differ(position, fmt::format("{} has {} arguments and {} results vs {} and {}", name_a, a.args.size(),
                                          a.outputs.size(), b.args.size(), b.outputs.size()));
    }
    position_ = position;
    seen_.clear();
    for (std::uint32_t k = 0; k < a.args.size(); ++k) {
      if (!same(a.args[k], b.args[k], {position, k, -1}, true)) {
        return differ(position, fmt::format("{} argument {}: {} vs {}{}", name_a, argument_name(a, k),
                                            brief(a.args[k], trace_), brief(b.args[k], trace_), reason_));
      }
    }
    for (std::uint32_t k = 0; k < a.outputs.size(); ++k) {
      if (!same(a.outputs[k], b.outputs[k], {position, k, -1}, false)) {
        return differ(position, fmt::format("{} result {}: {} vs {}{}", name_a, k, brief(a.outputs[k], trace_),
                                            brief(b.outputs[k], trace_), reason_));
      }
    }
    return {};
  }

  std::string argument_name(const trace::Op& op, std::uint32_t k) const {
    const auto names = argument_names(trace_.schemas[op.schema].text);
    return k < names.size() ? names[k] : fmt::format("{}", k);
  }

  bool same(const Arg& a, const Arg& b, const ArgumentPath& path, bool may_differ) {
    reason_.clear();
    if (is_number(a) && is_number(b)) {
      const bool equal = a.kind == b.kind && a.integer == b.integer &&
                         std::bit_cast<std::uint64_t>(a.real) == std::bit_cast<std::uint64_t>(b.real);
      if (!equal && may_differ) alignment_.differing.insert(path);
      return true;  // numbers among results have gone to Python; only tensors matter
    }
    if (a.kind != b.kind) return false;
    switch (a.kind) {
      case Kind::kNone:
      case Kind::kUndefinedTensor:
      case Kind::kOpaque:
      case Kind::kGenerator:
        return true;
      case Kind::kComplex:
        return a.real == b.real && a.imaginary == b.imaginary;
      case Kind::kTensor:
        return same_tensor(a.tensor, b.tensor);
      case Kind::kList:
        if (a.list.size() != b.list.size()) return false;
        for (std::size_t i = 0; i < a.list.size(); ++i) {
          const ArgumentPath item{path.position, path.argument, static_cast<std::int32_t>(i)};
          if (!same(a.list[i], b.list[i], item, may_differ)) return false;
        }
        return true;
      default:
        return a.integer == b.integer && a.text == b.text;
    }
  }

  bool same_tensor(trace::TensorId id_a, trace::TensorId id_b) {
    const auto lazy_a = alignment_.lazy.find(id_a), lazy_b = alignment_.lazy.find(id_b), none = alignment_.lazy.end();
    if ((lazy_a == none) != (lazy_b == none)) return false;
    if (lazy_a != none) {
      const LazyView &x = lazy_a->second, &y = lazy_b->second;
      return x.conjugate == y.conjugate && x.negative == y.negative && same_tensor(x.base, y.base);
    }
    const auto sparse_a = alignment_.sparse.find(id_a), sparse_b = alignment_.sparse.find(id_b), dense = alignment_.sparse.end();
    if ((sparse_a == dense) != (sparse_b == dense) || alignment_.zeros.contains(id_a) != alignment_.zeros.contains(id_b)) return false;
    if (sparse_a != dense) {
      const SparseParts &x = sparse_a->second, &y = sparse_b->second;
      return trace_.tensors[id_a].sizes == trace_.tensors[id_b].sizes && x.sparse_dims == y.sparse_dims &&
             same_tensor(x.indices, y.indices) && same_tensor(x.values, y.values);
    }
    const trace::Tensor& a = trace_.tensors[id_a];
    const trace::Tensor& b = trace_.tensors[id_b];
    if (a.dtype != b.dtype || a.sizes != b.sizes || a.strides != b.strides) return false;
    if (a.is_wrapped_number != b.is_wrapped_number || (a.storage == trace::kNone) != (b.storage == trace::kNone)) {
      return false;
    }
    if (a.storage == trace::kNone) return a.offset == b.offset;
    if (seen_.emplace(id_a, b.offset).first->second != b.offset) {
      reason_ = " (one view of the first iteration stands for two of the other)";
      return false;
    }
    if (a.offset != b.offset || alignment_.moved.contains({position_, id_a})) {
      auto& offsets = alignment_.moved[{position_, id_a}];
      offsets.resize(alignment_.count(), a.offset);
      offsets[iteration_] = b.offset;
    }
    if (trace_.storages[a.storage].size_bytes != trace_.storages[b.storage].size_bytes) {
      reason_ = fmt::format(" (storages of {} vs {} bytes)", trace_.storages[a.storage].size_bytes,
                            trace_.storages[b.storage].size_bytes);
      return false;
    }
    const auto forth = alignment_.to_first[iteration_].emplace(b.storage, a.storage).first->second;
    const auto back = alignment_.from_first[iteration_].emplace(a.storage, b.storage).first->second;
    if (forth == a.storage && back == b.storage) return true;
    reason_ = " (their storages are shared with other tensors in different ways)";
    return false;
  }

  const trace::Trace& trace_;
  Alignment& alignment_;
  std::size_t iteration_;
  std::uint32_t position_ = 0;                              // of the op that is compared
  std::unordered_map<trace::TensorId, std::int64_t> seen_;  // its tensors: the other iteration's offset
  std::string reason_;
};

/// The parts of a sparse tensor whose places are listed one by one; nothing where they do not fit each other.
std::optional<SparseParts> sparse_parts(const trace::Trace& trace, const trace::CompoundTensor& compound) {
  if (compound.kind != "sparse_coo") return std::nullopt;
  SparseParts parts;
  for (const auto& [name, part] : compound.parts) {
    if (name == "indices" && part.kind == Kind::kTensor) parts.indices = part.tensor;
    if (name == "values" && part.kind == Kind::kTensor) parts.values = part.tensor;
    if (name == "sparse_dim" && part.kind == Kind::kInt) parts.sparse_dims = part.integer;
  }
  if (parts.indices == trace::kNone || parts.values == trace::kNone) return std::nullopt;
  const trace::Tensor &whole = trace.tensors[compound.tensor], &indices = trace.tensors[parts.indices], &values = trace.tensors[parts.values];
  const auto rank = static_cast<std::int64_t>(whole.sizes.size());
  if (indices.storage == trace::kNone || values.storage == trace::kNone || parts.sparse_dims < 0 || parts.sparse_dims > rank) return std::nullopt;
  if (indices.dtype != DType::kI64 || indices.sizes.size() != 2 || indices.sizes[0] != parts.sparse_dims) return std::nullopt;
  // One row of values for each place: the dimensions that the indices do not name.
  std::vector<std::int64_t> wanted(whole.sizes.begin() + parts.sparse_dims, whole.sizes.end());
  wanted.insert(wanted.begin(), indices.sizes[1]);
  if (values.sizes != wanted || values.dtype != whole.dtype) return std::nullopt;
  return parts;
}

}  // namespace

const Arg& Alignment::argument(const trace::Trace& trace, std::size_t i, const ArgumentPath& path) const {
  const Arg& arg = trace.ops[ops[i][path.position]].args[path.argument];
  return path.element < 0 ? arg : arg.list[static_cast<std::size_t>(path.element)];
}

std::vector<trace::TensorId> tensors_in(const std::vector<Arg>& args, bool keep_undefined) {
  std::vector<trace::TensorId> ids;
  collect(args, keep_undefined, ids);
  return ids;
}

Result<Alignment> align(const trace::Trace& trace) {
  Alignment alignment;
  for (const trace::CompoundTensor& compound : trace.compounds) {
    if (compound.kind == "zero") alignment.zeros.insert(compound.tensor);
    if (const auto parts = sparse_parts(trace, compound)) alignment.sparse.emplace(compound.tensor, *parts);
    const bool conjugate = compound.kind.starts_with("conjugate"), negative = compound.kind.ends_with("negative");
    if ((!conjugate && !negative) || compound.parts.size() != 1 || compound.parts[0].second.kind != Kind::kTensor) continue;
    const trace::TensorId base = compound.parts[0].second.tensor;
    if (trace.tensors[base].storage == trace::kNone || trace.tensors[base].dtype != trace.tensors[compound.tensor].dtype) continue;
    alignment.lazy.emplace(compound.tensor, LazyView{base, conjugate, negative});
  }
  for (std::uint32_t i = 0; i < trace.iterations.size(); ++i) {
    const trace::Iteration& iteration = trace.iterations[i];
    if (!iteration.complete && !alignment.iterations.empty()) break;
    if (!iteration.complete) continue;
    alignment.iterations.push_back(i);
    auto& ops = alignment.ops.emplace_back();
    for (std::uint32_t op = iteration.first_op; op < iteration.first_op + iteration.op_count; ++op) {
      if (!is_dropped(trace, trace.ops[op])) ops.push_back(op);
    }
  }
  if (alignment.iterations.empty()) {
    const std::string& reason = trace.metadata.incomplete_reason;
    return Error{ErrorCode::kBadInput,
                 fmt::format("the recording holds no complete iteration{}{}: record at least one whole step",
                             reason.empty() ? "" : ", because ", reason)};
  }
  alignment.to_first.resize(alignment.count());
  alignment.from_first.resize(alignment.count());
  for (auto op : alignment.ops[0]) {
    for (const auto* args : {&trace.ops[op].args, &trace.ops[op].outputs}) {
      for (auto id : tensors_in(*args)) {
        const auto found = alignment.sparse.find(id);
        const std::vector<trace::TensorId> parts = found == alignment.sparse.end() ? std::vector{alignment.base_of(id)}
                                                                                   : std::vector{found->second.indices, found->second.values};
        for (auto part : parts) {
          const auto storage = trace.tensors[part].storage;
          if (storage != trace::kNone) alignment.to_first[0][storage] = alignment.from_first[0][storage] = storage;
        }
      }
    }
  }
  for (std::size_t i = 1; i < alignment.count(); ++i) {
    alignment.ops[i] = in_order_of(trace, alignment.ops[0], std::move(alignment.ops[i]));
    CRUCIBLE_TRY_VOID(Comparison(trace, alignment, i).run());
  }
  return alignment;
}

}  // namespace crucible::aten
