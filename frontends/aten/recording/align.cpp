// Alignment of iterations: see align.hpp.
#include "frontends/aten/recording/align.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "core/graph/reference_numbers.hpp"
#include "core/graph/view.hpp"
#include "frontends/aten/call/schema.hpp"
#include "frontends/aten/call/signature.hpp"
#include "frontends/aten/complex/complex.hpp"
#include "frontends/aten/recording/align_parts.hpp"
#include "frontends/aten/recording/thread_order.hpp"

namespace crucible::aten {
namespace {

using trace::Arg;
using Kind = trace::Arg::Kind;

/// Of a list in a sentence.
constexpr std::size_t kShownElements = 8;

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

/// A number of Python that entered the op as a tensor.
bool is_python_number(const trace::Tensor& tensor) {
  return tensor.is_wrapped_number && tensor.sizes.empty() && tensor.storage != trace::kNone;
}

/// As Python writes it: what is no whole number by its type shows it.
std::string real_text(double number) {
  const std::string text = fmt::format("{}", number);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

/// "the Python number 0.5", or of which type it is where the recording has not its bytes.
std::string number_text(const trace::Trace& trace, const trace::Tensor& tensor) {
  for (const trace::External& external : trace.externals) {
    if (external.storage != tensor.storage || !trace.blob_store || is_complex(tensor.dtype) ||
        tensor.dtype == DType::kOther)
      continue;
    const auto bytes = trace.blob_store->load(external.blob);
    const std::size_t size = size_bytes(tensor.dtype), held = bytes && size > 0 ? bytes->size() / size : 0;
    if (tensor.offset < 0 || static_cast<std::uint64_t>(tensor.offset) >= held) break;
    const std::size_t at = static_cast<std::size_t>(tensor.offset) * size;
    if (tensor.dtype == DType::kBool)
      return std::to_integer<int>((*bytes)[at]) != 0 ? "the Python number True" : "the Python number False";
    if (is_floating(tensor.dtype))
      return fmt::format("the Python number {}", real_text(graph::load_real(tensor.dtype, bytes->data() + at)));
    return fmt::format("the Python number {}", graph::load_integer(tensor.dtype, bytes->data() + at));
  }
  return fmt::format("a Python number ({})", name(tensor.dtype));
}

std::string tensor_text(const trace::Trace& trace, const trace::Tensor& tensor) {
  if (is_python_number(tensor)) return number_text(trace, tensor);
  if (tensor.sizes.empty())
    return fmt::format("a {} tensor without dimensions{}", name(tensor.dtype),
                       tensor.storage == trace::kNone ? " and memory" : "");
  return fmt::format("{}[{}] with strides [{}]{}", name(tensor.dtype), fmt::join(tensor.sizes, ", "),
                     fmt::join(tensor.strides, ", "), tensor.storage == trace::kNone ? " without memory" : "");
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
      return Error{
          ErrorCode::kBadInput,
          fmt::format("{}: the first has {} ops, the other {}; the first op without a partner is {} at {}",
                      iterations_text(), first.size(), other.size(),
                      trace_.schemas[trace_.ops[extra].schema].full_name(), trace_.site_text(trace_.ops[extra].site))};
    }
    return compare_losses();
  }

 private:
  std::string iterations_text() const {
    return fmt::format("iterations {} and {} differ", alignment_.iterations[0], alignment_.iterations[iteration_]);
  }

  Error differ(std::uint32_t position, const std::string& what) const {
    const trace::Op& op = trace_.ops[alignment_.ops[0][position]];
    return Error{ErrorCode::kBadInput,
                 fmt::format("{} at op {} ({}): {}", iterations_text(), position, trace_.site_text(op.site), what)};
  }

  Result<void> compare_losses() const {
    const auto& first = trace_.iterations[alignment_.iterations[0]].losses;
    const auto& other = trace_.iterations[alignment_.iterations[iteration_]].losses;
    if (first.size() != other.size()) {
      return Error{ErrorCode::kBadInput, fmt::format("{}: the first calls backward on {} losses, the other on {}",
                                                     iterations_text(), first.size(), other.size())};
    }
    const auto& to_first = alignment_.to_first[iteration_];
    for (std::size_t k = 0; k < first.size(); ++k) {
      const auto own = to_first.find(trace_.tensors[other[k].tensor].storage);
      if (own != to_first.end() && own->second == trace_.tensors[first[k].tensor].storage) continue;
      return Error{ErrorCode::kBadInput, fmt::format("{}: loss {} is the result of another op", iterations_text(), k)};
    }
    return {};
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
    // An op on a thousand tensors leaves as many buckets behind, and clear() goes through all of them.
    constexpr std::size_t kMostBuckets = 64;
    if (seen_.bucket_count() > kMostBuckets) decltype(seen_)().swap(seen_);
    seen_.clear();
    mixed_ = trace::kNone;
    for (argument_ = 0; argument_ < a.args.size(); ++argument_) {
      const Arg &x = a.args[argument_], &y = b.args[argument_];
      if (!same(x, y, {position, argument_, -1}, true)) {
        return differ(position, fmt::format("{} argument {}: {}{}", name_a, argument_name(a, argument_),
                                            both_texts(x, y), reason_));
      }
    }
    const auto mixed_text = [&] {
      const Arg &x = a.args[mixed_], &y = b.args[mixed_];
      return fmt::format(
          "argument {} is {}, a whole number in one iteration and a real one in the other, so that the op computes in "
          "another type",
          argument_name(a, mixed_), both_texts(x, y));
    };
    for (std::uint32_t k = 0; k < a.outputs.size(); ++k) {
      if (!same(a.outputs[k], b.outputs[k], {position, k, -1}, false)) {
        return differ(position, fmt::format("{} result {}: {}{}{}", name_a, k, both_texts(a.outputs[k], b.outputs[k]),
                                            reason_, mixed_ == trace::kNone ? "" : "; " + mixed_text()));
      }
    }
    if (mixed_ != trace::kNone && !is_same_with_either(a))
      return differ(position, fmt::format("{}: {}", name_a, mixed_text()));
    if (changed_before(0, position) != changed_before(iteration_, position)) {
      return differ(position,
                    fmt::format("{}: something other than an op changed memory before it in one of them", name_a));
    }
    return {};
  }

  /// The storages that were changed before the op, called as in the first iteration.
  std::set<trace::StorageId> changed_before(std::size_t iteration, std::uint32_t position) const {
    std::set<trace::StorageId> storages;
    const auto found = alignment_.changes->find(alignment_.ops[iteration][position]);
    if (found == alignment_.changes->end()) return storages;
    for (const ChangedMemory& change : found->second) {
      const auto role = alignment_.to_first[iteration].find(change.storage);
      storages.insert(role == alignment_.to_first[iteration].end() ? trace::kNone : role->second);
    }
    return storages;
  }

  /// "2 vs 2.5", of lists the first element that differs. Where both read alike, what tells them apart is not among
  /// what is shown: the reason is said then.
  std::string both_texts(const Arg& a, const Arg& b) const {
    if (a.kind == Kind::kList && b.kind == Kind::kList) {
      const std::size_t count = a.list.size(), longest = std::max(count, b.list.size());
      if (count == b.list.size() && element_ < count)
        return fmt::format("element {} of {}: {}", element_, count, pair_text(a.list[element_], b.list[element_]));
      if (longest > kShownElements) return fmt::format("{} elements vs {}", count, b.list.size());
    }
    return pair_text(a, b);
  }

  std::string pair_text(const Arg& a, const Arg& b) const {
    const std::string first = argument_text(trace_, a), other = argument_text(trace_, b);
    if (first == other && kind_text(a, b).empty() && !reason_.empty()) return first;
    return fmt::format("{} vs {}{}{}", first, other, kind_text(a, b),
                       first == other && kind_text(a, b).empty() && reason_.empty() ? " of another kind" : "");
  }

  /// How tensors differ that have the same type and sizes.
  std::string kind_text(const Arg& a, const Arg& b) const {
    if (a.kind != Kind::kTensor || b.kind != Kind::kTensor) return "";
    const auto words = [&](trace::TensorId id) {
      if (alignment_.zeros.contains(id)) return "zeros without memory";
      if (alignment_.sparse.contains(id)) return "sparse";
      const auto lazy = alignment_.lazy.find(id);
      if (lazy == alignment_.lazy.end()) return "dense";
      return lazy->second.conjugate ? "a conjugated view" : "a negative view";
    };
    const std::string_view first = words(a.tensor), other = words(b.tensor);
    return first == other ? "" : fmt::format(" ({} vs {})", first, other);
  }

  /// Whether an op of which one number is whole in one iteration and real in another does the same with both, where its
  /// results have the same type: a number decides the type that is computed in where no tensor is of real numbers. An
  /// op that takes a number as what is written, and one whose results are real whatever its operands are, compute in
  /// the type of the result.
  bool is_same_with_either(const trace::Op& op) const {
    static constexpr std::array<std::string_view, 9> kWrites = {
        "fill", "fill_", "full", "full_like", "new_full", "masked_fill", "index_fill", "scatter", "scalar_tensor"};
    std::string_view base = trace_.schemas[op.schema].name;
    base.remove_prefix(std::min(base.size(), base.rfind(':') + 1));
    if (std::ranges::any_of(
            kWrites, [&](std::string_view writes) { return base == writes || base == std::string(writes) + "_"; }))
      return true;
    bool has_out = false;
    for (std::uint32_t k = 0; k < op.args.size(); ++k) {
      if (argument_name(op, k) == "out") {
        has_out = true;
        continue;
      }
      for (const auto id : tensors_in({op.args[k]})) {
        const trace::Tensor& tensor = trace_.tensors[id];
        if (!is_python_number(tensor) && (is_floating(tensor.dtype) || is_complex(tensor.dtype))) return true;
      }
    }
    const auto results = tensors_in(op.outputs);
    return !has_out && !results.empty() &&
           std::ranges::all_of(results, [&](auto id) { return is_floating(trace_.tensors[id].dtype); });
  }

  void note_kinds(bool is_real, bool is_other_real) {
    if (is_real != is_other_real) mixed_ = argument_;
  }

  /// Of the schema's type Scalar, as which a truth value is a number.
  bool takes_a_number(const ArgumentPath& path) const {
    const auto arguments =
        parse_signature(trace_.schemas[trace_.ops[alignment_.ops[0][path.position]].schema].text).arguments;
    return path.argument < arguments.size() && arguments[path.argument].type == "Scalar";
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
      if (equal) return true;
      const bool has_truth = a.kind == Kind::kBool || b.kind == Kind::kBool;
      if (has_truth && (!may_differ || !takes_a_number(path))) return false;
      if (!may_differ) return true;  // numbers among results have gone to Python; only tensors matter
      alignment_.differing.insert(path);
      note_kinds(a.kind == Kind::kDouble, b.kind == Kind::kDouble);
      return true;
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
          if (same(a.list[i], b.list[i], item, may_differ)) continue;
          element_ = i;
          return false;
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
    const auto sparse_a = alignment_.sparse.find(id_a), sparse_b = alignment_.sparse.find(id_b),
               dense = alignment_.sparse.end();
    if ((sparse_a == dense) != (sparse_b == dense) ||
        alignment_.zeros.contains(id_a) != alignment_.zeros.contains(id_b))
      return false;
    if (sparse_a != dense) {
      const SparseParts &x = sparse_a->second, &y = sparse_b->second;
      if ((x.begins == trace::kNone) != (y.begins == trace::kNone) || x.by_columns != y.by_columns) return false;
      if (x.begins != trace::kNone && !same_tensor(x.begins, y.begins)) return false;
      return trace_.tensors[id_a].sizes == trace_.tensors[id_b].sizes && x.sparse_dims == y.sparse_dims &&
             same_tensor(x.indices, y.indices) && same_tensor(x.values, y.values);
    }
    const auto nested_a = alignment_.nested.find(id_a), nested_b = alignment_.nested.find(id_b),
               plain = alignment_.nested.end();
    if ((nested_a == plain) != (nested_b == plain)) return false;
    if (nested_a != plain) {
      if (nested_a->second.sizes == nested_b->second.sizes)
        return same_tensor(nested_a->second.buffer, nested_b->second.buffer);
      reason_ = " (a tensor of tensors whose sizes differ between the iterations)";
      return false;
    }
    const trace::Tensor& a = trace_.tensors[id_a];
    const trace::Tensor& b = trace_.tensors[id_b];
    const auto is_plain = [](DType dtype) {
      return dtype == DType::kBool || dtype == DType::kI64 || dtype == DType::kF64;
    };
    // A number of Python may be whole in one iteration and real in another; compare_op() sees whether that matters.
    const bool is_of_two_types =
        a.dtype != b.dtype && is_python_number(a) && is_python_number(b) && is_plain(a.dtype) && is_plain(b.dtype);
    if ((a.dtype != b.dtype && !is_of_two_types) || a.sizes != b.sizes || a.strides != b.strides) return false;
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
    if (is_of_two_types) {
      note_kinds(is_floating(a.dtype), is_floating(b.dtype));
      alignment_.number_dtypes[{iteration_, a.storage}] = b.dtype;
    } else if (trace_.storages[a.storage].size_bytes != trace_.storages[b.storage].size_bytes) {
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
  std::uint32_t position_ = 0;                         // of the op that is compared
  std::size_t element_ = 0;                            // of the list that differs: the first that does
  std::uint32_t argument_ = 0, mixed_ = trace::kNone;  // its argument; the last one that is whole here and real there
  std::unordered_map<trace::TensorId, std::int64_t> seen_;  // its tensors: the other iteration's offset
  std::string reason_;
};

/// The parts of a sparse matrix whose rows or columns lie one after the other; nothing where they do not fit each
/// other.
std::optional<SparseParts> compressed_parts(const trace::Trace& trace, const trace::CompoundTensor& compound) {
  SparseParts parts{.sparse_dims = 2, .by_columns = compound.kind == "sparse_csc"};
  for (const auto& [name, part] : compound.parts) {
    if (part.kind != Kind::kTensor || trace.tensors[part.tensor].storage == trace::kNone) continue;
    if (name == "compressed_indices") parts.begins = part.tensor;
    if (name == "plain_indices") parts.indices = part.tensor;
    if (name == "values") parts.values = part.tensor;
  }
  if (parts.begins == trace::kNone || parts.indices == trace::kNone || parts.values == trace::kNone)
    return std::nullopt;
  const trace::Tensor &whole = trace.tensors[compound.tensor], &begins = trace.tensors[parts.begins],
                      &indices = trace.tensors[parts.indices], &values = trace.tensors[parts.values];
  const auto is_index = [](const trace::Tensor& t) {
    return (t.dtype == DType::kI64 || t.dtype == DType::kI32) && t.sizes.size() == 1;
  };
  if (whole.sizes.size() != 2 || !is_index(begins) || !is_index(indices)) return std::nullopt;
  if (begins.sizes[0] < 1 || begins.sizes[0] - 1 != whole.sizes[parts.by_columns ? 1 : 0]) return std::nullopt;
  if (values.sizes != indices.sizes || values.dtype != whole.dtype) return std::nullopt;
  return parts;
}

/// The parts of a sparse tensor whose places are listed one by one; nothing where they do not fit each other.
std::optional<SparseParts> sparse_parts(const trace::Trace& trace, const trace::CompoundTensor& compound) {
  if (compound.kind == "sparse_csr" || compound.kind == "sparse_csc") return compressed_parts(trace, compound);
  if (compound.kind != "sparse_coo") return std::nullopt;
  SparseParts parts;
  for (const auto& [name, part] : compound.parts) {
    if (name == "indices" && part.kind == Kind::kTensor) parts.indices = part.tensor;
    if (name == "values" && part.kind == Kind::kTensor) parts.values = part.tensor;
    if (name == "sparse_dim" && part.kind == Kind::kInt) parts.sparse_dims = part.integer;
  }
  if (parts.indices == trace::kNone || parts.values == trace::kNone) return std::nullopt;
  const trace::Tensor &whole = trace.tensors[compound.tensor], &indices = trace.tensors[parts.indices],
                      &values = trace.tensors[parts.values];
  const auto rank = static_cast<std::int64_t>(whole.sizes.size());
  if (indices.storage == trace::kNone || values.storage == trace::kNone || parts.sparse_dims < 0 ||
      parts.sparse_dims > rank)
    return std::nullopt;
  if (indices.dtype != DType::kI64 || indices.sizes.size() != 2 || indices.sizes[0] != parts.sparse_dims)
    return std::nullopt;
  // One row of values for each place: the dimensions that the indices do not name.
  std::vector<std::int64_t> wanted(whole.sizes.begin() + parts.sparse_dims, whole.sizes.end());
  wanted.insert(wanted.begin(), indices.sizes[1]);
  if (values.sizes != wanted || values.dtype != whole.dtype) return std::nullopt;
  return parts;
}

/// The numbers of a matrix of i64 that entered with its bytes, row by row; nothing where they are not there.
std::vector<std::vector<std::int64_t>> rows_of(const trace::Trace& trace, trace::TensorId id,
                                               const std::unordered_map<trace::StorageId, trace::BlobId>& blobs) {
  const trace::Tensor& table = trace.tensors[id];
  const auto found = blobs.find(table.storage);
  const bool is_matrix = table.dtype == DType::kI64 && table.sizes.size() == 2 && table.offset == 0 &&
                         table.strides[1] == 1 && table.strides[0] == table.sizes[1];
  if (!is_matrix || found == blobs.end() || !trace.blob_store) return {};
  const auto bytes = trace.blob_store->load(found->second);
  const auto rows = static_cast<std::size_t>(table.sizes[0]), columns = static_cast<std::size_t>(table.sizes[1]);
  if (!bytes || columns == 0 || columns > 64 || bytes->size() / columns / sizeof(std::int64_t) < rows) return {};
  std::vector<std::vector<std::int64_t>> numbers(rows, std::vector<std::int64_t>(columns));
  for (std::size_t i = 0; i < rows; ++i)
    std::memcpy(numbers[i].data(), bytes->data() + i * columns * sizeof(std::int64_t), columns * sizeof(std::int64_t));
  return numbers;
}

/// The parts of a tensor of tensors that fill its buffer one after the other, row-major; nothing where they do not.
std::optional<NestedParts> nested_parts(const trace::Trace& trace, const trace::CompoundTensor& compound,
                                        const std::unordered_map<trace::StorageId, trace::BlobId>& blobs) {
  if (compound.kind != "nested") return std::nullopt;
  NestedParts parts;
  std::vector<std::vector<std::int64_t>> strides;
  for (const auto& [name, part] : compound.parts) {
    if (part.kind != Kind::kTensor) continue;
    if (name == "buffer") parts.buffer = part.tensor;
    if (name == "sizes") parts.sizes = rows_of(trace, part.tensor, blobs);
    if (name == "strides") strides = rows_of(trace, part.tensor, blobs);
  }
  if (parts.buffer == trace::kNone || parts.sizes.empty() || parts.sizes.size() != strides.size()) return std::nullopt;
  const trace::Tensor& buffer = trace.tensors[parts.buffer];
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parts.sizes.size(); ++i) {
    const auto elements = graph::checked_elements(parts.sizes[i]);
    if (!elements || strides[i] != graph::View::contiguous(parts.sizes[i]).strides ||
        __builtin_add_overflow(total, *elements, &total))
      return std::nullopt;
  }
  const bool is_list = buffer.storage != trace::kNone && buffer.offset == 0 && buffer.sizes == std::vector{total};
  return is_list && (total < 2 || buffer.strides[0] == 1) ? std::optional(std::move(parts)) : std::nullopt;
}

}  // namespace

std::string argument_text(const trace::Trace& trace, const Arg& arg) {
  switch (arg.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return arg.integer ? "True" : "False";
    case Kind::kInt:
      return fmt::format("{}", arg.integer);
    case Kind::kDouble:
      return real_text(arg.real);
    case Kind::kComplex:
      return fmt::format("{}+{}j", arg.real, arg.imaginary);
    case Kind::kTensor:
      return tensor_text(trace, trace.tensors[arg.tensor]);
    case Kind::kList: {
      std::string text;
      std::size_t shown = 0;
      for (; shown < arg.list.size() && shown < kShownElements && text.size() < 80; ++shown)
        text += (shown == 0 ? "" : ", ") + argument_text(trace, arg.list[shown]);
      return shown == arg.list.size() ? fmt::format("[{}]", text)
                                      : fmt::format("[{}, ... ({} elements)]", text, arg.list.size());
    }
    case Kind::kUndefinedTensor:
      return "no tensor";
    default:
      return arg.text.empty() ? fmt::format("{}", arg.integer) : arg.text;
  }
}

DType Alignment::number_dtype(std::size_t i, const trace::Tensor& first) const {
  const auto found = number_dtypes.find({i, first.storage});
  return found == number_dtypes.end() ? first.dtype : found->second;
}

const Arg& Alignment::argument(const trace::Trace& trace, std::size_t i, const ArgumentPath& path) const {
  const Arg& arg = trace.ops[ops[i][path.position]].args[path.argument];
  return path.element < 0 ? arg : arg.list[static_cast<std::size_t>(path.element)];
}

std::vector<trace::TensorId> tensors_in(const std::vector<Arg>& args, bool keep_undefined) {
  std::vector<trace::TensorId> ids;
  collect(args, keep_undefined, ids);
  return ids;
}

Alignment first_of_group(const trace::Trace& trace, const Alignment& kinds, std::uint32_t iteration,
                         std::vector<std::uint32_t> ops) {
  Alignment group = kinds;
  group.iterations.push_back(iteration);
  group.to_first.resize(1);
  group.from_first.resize(1);
  for (const auto op : ops) {
    for (const auto* args : {&trace.ops[op].args, &trace.ops[op].outputs}) {
      for (const auto id : tensors_in(*args)) {
        const auto found = group.sparse.find(id);
        std::vector<trace::TensorId> parts{group.base_of(id)};
        if (found != group.sparse.end()) parts = {found->second.indices, found->second.values};
        if (found != group.sparse.end() && found->second.begins != trace::kNone) parts.push_back(found->second.begins);
        if (const auto nested = group.nested.find(id); nested != group.nested.end()) parts = {nested->second.buffer};
        for (const auto part : parts) {
          const auto storage = trace.tensors[part].storage;
          if (storage != trace::kNone) group.to_first[0][storage] = group.from_first[0][storage] = storage;
        }
      }
    }
  }
  group.ops.push_back(std::move(ops));
  return group;
}

Result<void> join(const trace::Trace& trace, Alignment& group, std::uint32_t iteration,
                  const std::vector<std::uint32_t>& ops) {
  const auto differing = group.differing;
  const auto moved = group.moved;
  const auto number_dtypes = group.number_dtypes;
  group.iterations.push_back(iteration);
  group.to_first.emplace_back();
  group.from_first.emplace_back();
  group.ops.push_back(in_order_of(trace, group.ops[0], ops));
  Result<void> same = Comparison(trace, group, group.count() - 1).run();
  if (same) return same;
  group.differing = differing;
  group.moved = moved;
  group.number_dtypes = number_dtypes;
  group.iterations.pop_back();
  group.to_first.pop_back();
  group.from_first.pop_back();
  group.ops.pop_back();
  return same;
}

Alignment kinds_of_tensors(const trace::Trace& trace) {
  Alignment kinds;
  kinds.changes = changes_of(trace);
  kinds.read_as_real = std::make_shared<const std::unordered_map<trace::StorageId, DType>>(read_as_real(trace));
  std::unordered_map<trace::StorageId, trace::BlobId> blobs;
  if (!trace.compounds.empty()) {
    for (const trace::External& external : trace.externals) blobs.emplace(external.storage, external.blob);
  }
  for (const trace::CompoundTensor& compound : trace.compounds) {
    if (auto parts = nested_parts(trace, compound, blobs)) kinds.nested.emplace(compound.tensor, std::move(*parts));
    if (compound.kind == "zero") kinds.zeros.insert(compound.tensor);
    if (const auto parts = sparse_parts(trace, compound)) kinds.sparse.emplace(compound.tensor, *parts);
    const bool conjugate = compound.kind.starts_with("conjugate"), negative = compound.kind.ends_with("negative");
    if ((!conjugate && !negative) || compound.parts.size() != 1 || compound.parts[0].second.kind != Kind::kTensor)
      continue;
    const trace::TensorId base = compound.parts[0].second.tensor;
    if (trace.tensors[base].storage == trace::kNone ||
        trace.tensors[base].dtype != trace.tensors[compound.tensor].dtype)
      continue;
    kinds.lazy.emplace(compound.tensor, LazyView{base, conjugate, negative});
  }
  return kinds;
}

bool is_aligned(const trace::Trace& trace, const trace::Op& op) { return !is_dropped(trace, op); }

}  // namespace crucible::aten
