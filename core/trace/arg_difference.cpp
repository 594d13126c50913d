// Scalars by their bits, tensors field by field, storages by their partners.
#include "core/trace/arg_difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/words.hpp"
#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"

namespace crucible::trace {

namespace {

constexpr int kDeepest = 32;  // compound tensors of a damaged file could contain themselves

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

std::string_view kind_name(Arg::Kind kind) {
  switch (kind) {
    case Arg::Kind::kNone: return "none";
    case Arg::Kind::kBool: return "bool";
    case Arg::Kind::kInt: return "int";
    case Arg::Kind::kDouble: return "double";
    case Arg::Kind::kComplex: return "complex";
    case Arg::Kind::kString: return "string";
    case Arg::Kind::kDType: return "dtype";
    case Arg::Kind::kDevice: return "device";
    case Arg::Kind::kLayout: return "layout";
    case Arg::Kind::kMemoryFormat: return "memory format";
    case Arg::Kind::kGenerator: return "generator";
    case Arg::Kind::kTensor: return "tensor";
    case Arg::Kind::kUndefinedTensor: return "undefined tensor";
    case Arg::Kind::kList: return "list";
    case Arg::Kind::kOpaque: return "opaque";
  }
  return "unknown";
}

std::string list_text(const std::vector<std::int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

/// The text of a scalar with its bits where the text alone would not show the difference (NaN payloads).
std::string double_pair(double a, double b) {
  if (double_text(a) != double_text(b)) return fmt::format("{} against {}", double_text(a), double_text(b));
  return fmt::format("{} (bits {:#018x}) against {} (bits {:#018x})", double_text(a), std::bit_cast<std::uint64_t>(a),
                     double_text(b), std::bit_cast<std::uint64_t>(b));
}

bool mentions(const Trace& trace, const std::vector<Arg>& args, StorageId storage) {
  return std::ranges::any_of(args, [&](const Arg& arg) {
    if (arg.kind == Arg::Kind::kTensor) return trace.tensors[arg.tensor].storage == storage;
    return mentions(trace, arg.list, storage);
  });
}

}  // namespace

ArgComparison::ArgComparison(const Trace& a, const Trace& b)
    : a_{&a, Compounds(a)},
      b_{&b, Compounds(b)},
      to_b_(a.storages.size(), kNone),
      to_a_(b.storages.size(), kNone) {}

void ArgComparison::compare(const Arg& a, const Arg& b, const Report& report) { compare_at(a, b, "", 0, report); }

void ArgComparison::compare_tensors(TensorId a, TensorId b, const Report& report) {
  compare_tensors_at(a, b, "", 0, report);
}

void ArgComparison::compare_at(const Arg& a, const Arg& b, const std::string& place, int depth, const Report& report) {
  const auto texts = [&] { return fmt::format("{} against {}", arg_text(a_.compounds, a), arg_text(b_.compounds, b)); };
  if (a.kind != b.kind) {
    const auto described = [](const Compounds& compounds, const Arg& arg) {
      const bool is_clear = arg.kind == Arg::Kind::kNone || arg.kind == Arg::Kind::kUndefinedTensor;
      return is_clear ? std::string(kind_name(arg.kind))
                      : fmt::format("{} {}", kind_name(arg.kind), arg_text(compounds, arg));
    };
    return report(place, fmt::format("{} against {}", described(a_.compounds, a), described(b_.compounds, b)));
  }
  switch (a.kind) {
    case Arg::Kind::kNone:
    case Arg::Kind::kUndefinedTensor:
      return;
    case Arg::Kind::kBool:
    case Arg::Kind::kInt:
    case Arg::Kind::kDType:
    case Arg::Kind::kLayout:
    case Arg::Kind::kMemoryFormat:
      if (a.integer != b.integer) report(place, texts());
      return;
    case Arg::Kind::kDouble:
      if (!same_bits(a.real, b.real)) report(place, double_pair(a.real, b.real));
      return;
    case Arg::Kind::kComplex:
      if (!same_bits(a.real, b.real)) report(place + ".real", double_pair(a.real, b.real));
      if (!same_bits(a.imaginary, b.imaginary)) report(place + ".imaginary", double_pair(a.imaginary, b.imaginary));
      return;
    case Arg::Kind::kString:
    case Arg::Kind::kDevice:
    case Arg::Kind::kGenerator:
    case Arg::Kind::kOpaque:
      if (a.text != b.text) report(place, texts());
      return;
    case Arg::Kind::kTensor:
      return compare_tensors_at(a.tensor, b.tensor, place, depth, report);
    case Arg::Kind::kList:
      if (a.list.size() != b.list.size())
        report(place, fmt::format("{} elements against {}", a.list.size(), b.list.size()));
      for (std::size_t i = 0; i < std::min(a.list.size(), b.list.size()) && depth < kDeepest; ++i)
        compare_at(a.list[i], b.list[i], fmt::format("{}[{}]", place, i), depth + 1, report);
      return;
  }
}

void ArgComparison::compare_tensors_at(TensorId a, TensorId b, const std::string& place, int depth,
                                       const Report& report) {
  const Tensor& x = a_.trace->tensors[a];
  const Tensor& y = b_.trace->tensors[b];
  std::vector<std::string> found;
  const auto differ = [&](std::string_view what, const std::string& in_a, const std::string& in_b) {
    found.push_back(fmt::format("{} {} against {}", what, in_a, in_b));
  };
  if (x.dtype != y.dtype) differ("type", std::string(name(x.dtype)), std::string(name(y.dtype)));
  if (x.sizes != y.sizes) {
    differ("shape", list_text(x.sizes), list_text(y.sizes));  // other strides follow from that
  } else if (x.strides != y.strides) {
    differ("strides", list_text(x.strides), list_text(y.strides));
  }
  if (x.offset != y.offset) differ("offset", std::to_string(x.offset), std::to_string(y.offset));
  const auto flag = [&](std::string_view what, bool in_a, bool in_b) {
    if (in_a != in_b) differ(what, in_a ? "true" : "false", in_b ? "true" : "false");
  };
  flag("requires_grad", x.requires_grad, y.requires_grad);
  flag("is_wrapped_number", x.is_wrapped_number, y.is_wrapped_number);
  if (std::string storages = compare_storages(x.storage, y.storage, found.empty()); !storages.empty())
    found.push_back(std::move(storages));
  if (!found.empty()) report(place, fmt::format("{}", fmt::join(found, "; ")));
  compare_compounds(a, b, place, depth, report);
}

void ArgComparison::compare_compounds(TensorId a, TensorId b, const std::string& place, int depth,
                                      const Report& report) {
  const CompoundTensor *in_a = a_.compounds.find(a), *in_b = b_.compounds.find(b);
  if (in_a == nullptr && in_b == nullptr) return;
  if (in_a == nullptr || in_b == nullptr) {
    const std::string& kind = in_a == nullptr ? in_b->kind : in_a->kind;
    return report(place, in_a == nullptr ? "a plain tensor against one that is " + printable(kind)
                                         : "a tensor that is " + printable(kind) + " against a plain one");
  }
  const CompoundTensor &x = *in_a, &y = *in_b;
  if (x.kind != y.kind)
    return report(place, fmt::format("{} tensor against {}", printable(x.kind), printable(y.kind)));
  if (x.parts.size() != y.parts.size())
    report(place, fmt::format("{} parts against {}", x.parts.size(), y.parts.size()));
  for (std::size_t i = 0; i < std::min(x.parts.size(), y.parts.size()) && depth < kDeepest; ++i) {
    if (x.parts[i].first != y.parts[i].first) {
      report(place, fmt::format("part {} against {}", printable(x.parts[i].first), printable(y.parts[i].first)));
      continue;
    }
    compare_at(x.parts[i].second, y.parts[i].second, fmt::format("{}.{}", place, printable(x.parts[i].first)),
               depth + 1, report);
  }
}

std::string ArgComparison::compare_storages(StorageId a, StorageId b, bool with_size) {
  if (a == kNone && b == kNone) return "";
  if (a == kNone || b == kNone) return a == kNone ? "no storage against one" : "a storage against none";
  if (to_b_[a] == b && to_a_[b] == a) return "";
  if (to_b_[a] == kNone && to_a_[b] == kNone) {
    to_b_[a] = b;
    to_a_[b] = a;
    const Storage& x = a_.trace->storages[a];
    const Storage& y = b_.trace->storages[b];
    std::string text;
    if (with_size && x.size_bytes != y.size_bytes)
      text = fmt::format("storage of {} bytes against {}", x.size_bytes, y.size_bytes);
    if (x.device != y.device)
      text += fmt::format("{}device {} against {}", text.empty() ? "" : "; ", printable(x.device), printable(y.device));
    return text;
  }
  if (!told_.emplace(a, b).second) return "";
  return fmt::format("another storage is shared: {} against {}", storage_text(a, false), storage_text(b, true));
}

std::string ArgComparison::storage_text(StorageId storage, bool of_second) const {
  const Trace& trace = of_second ? *b_.trace : *a_.trace;
  for (const External& external : trace.externals) {
    if (external.storage == storage && !external.name.empty()) return printable(external.name);
  }
  for (std::size_t number = 0; number < trace.iterations.size(); ++number) {
    const Iteration& iteration = trace.iterations[number];
    for (std::uint32_t i = 0; i < iteration.op_count; ++i) {
      const Op& op = trace.ops[iteration.first_op + i];
      const bool is_used = mentions(trace, op.args, storage);
      if (!is_used && !mentions(trace, op.outputs, storage)) continue;
      return fmt::format("the one that op {} of iteration {}, {}, {}", i, number,
                         printable(trace.schemas[op.schema].full_name()), is_used ? "used first" : "made");
    }
  }
  return fmt::format("storage {}", storage);
}

}  // namespace crucible::trace
