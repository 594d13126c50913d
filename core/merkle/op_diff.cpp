// The longest common sequence of what ops are, then each pair in detail.
#include "core/merkle/op_diff.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "core/graph/composite.hpp"
#include "core/graph/print.hpp"
#include "core/graph/view.hpp"

namespace crucible::merkle {
namespace {

using graph::kNone;
using graph::Op;
using graph::Operand;
using graph::OpId;
using graph::Program;
using graph::ValueId;

/// Tables of alignment have at most so many entries; longer lists are matched place by place.
constexpr std::size_t kMostEntries = std::size_t{1} << 23;

std::vector<OpId> in_program_order(std::span<const OpId> ops) {
  std::vector<OpId> sorted(ops.begin(), ops.end());
  std::ranges::sort(sorted);
  return sorted;
}

const graph::Source* source_of(const Program& program, OpId op) {
  const std::uint32_t source = program.ops[op].source;
  return source == kNone ? nullptr : &program.sources[source];
}

/// What has to be alike for two ops to be one op that was changed.
std::string sort_of(const Program& program, OpId op) {
  const graph::Source* source = source_of(program, op);
  return fmt::format("{} {}", graph::op_name(program, program.ops[op]), source == nullptr ? "" : source->op);
}

class Aligner {
 public:
  Aligner(const Program& a, std::span<const OpId> ops_a, const Program& b, std::span<const OpId> ops_b)
      : a_(a), b_(b), ops_a_(in_program_order(ops_a)), ops_b_(in_program_order(ops_b)) {}

  std::vector<std::pair<ChangeKind, std::string>> run() {
    align();
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      if (pairs_[i].first != kNone && pairs_[i].second != kNone) partner_[pairs_[i].first] = pairs_[i].second;
    }
    for (const auto& [a, b] : pairs_) {
      if (b == kNone) {
        add(ChangeKind::kRemoved, words(a_, a) + ": only in the first");
      } else if (a == kNone) {
        add(ChangeKind::kAdded, words(b_, b) + ": only in the second");
      } else {
        compare(a, b);
      }
    }
    std::vector<std::pair<ChangeKind, std::string>> lines;
    for (const auto& line : order_) {
      const std::size_t count = counts_.at(line);
      lines.emplace_back(line.first, count == 1 ? line.second : fmt::format("{} ({} ops)", line.second, count));
    }
    return lines;
  }

 private:
  void align() {
    std::map<std::string, std::uint32_t> numbers;
    const auto sorts = [&](const Program& program, const std::vector<OpId>& ops) {
      std::vector<std::uint32_t> list;
      for (const OpId op : ops) {
        list.push_back(
            numbers.try_emplace(sort_of(program, op), static_cast<std::uint32_t>(numbers.size())).first->second);
      }
      return list;
    };
    const auto as = sorts(a_, ops_a_), bs = sorts(b_, ops_b_);
    std::size_t begin = 0, tail = 0;
    const std::size_t shorter = std::min(as.size(), bs.size());
    while (begin < shorter && as[begin] == bs[begin]) ++begin;
    while (tail < shorter - begin && as[as.size() - 1 - tail] == bs[bs.size() - 1 - tail]) ++tail;
    for (std::size_t i = 0; i < begin; ++i) pairs_.emplace_back(ops_a_[i], ops_b_[i]);
    const std::size_t n = as.size() - begin - tail, m = bs.size() - begin - tail;
    std::size_t i = 0, j = 0;
    if ((n + 1) * (m + 1) <= kMostEntries) {
      std::vector<std::uint32_t> longest((n + 1) * (m + 1), 0);  // common to what is left of both
      for (std::size_t p = n; p-- > 0;) {
        for (std::size_t q = m; q-- > 0;) {
          longest[p * (m + 1) + q] = as[begin + p] == bs[begin + q]
                                         ? longest[(p + 1) * (m + 1) + q + 1] + 1
                                         : std::max(longest[(p + 1) * (m + 1) + q], longest[p * (m + 1) + q + 1]);
        }
      }
      while (i < n && j < m) {
        if (as[begin + i] == bs[begin + j]) {
          pairs_.emplace_back(ops_a_[begin + i++], ops_b_[begin + j++]);
        } else if (longest[(i + 1) * (m + 1) + j] >= longest[i * (m + 1) + j + 1]) {
          pairs_.emplace_back(ops_a_[begin + i++], kNone);
        } else {
          pairs_.emplace_back(kNone, ops_b_[begin + j++]);
        }
      }
    }
    for (; i < n; ++i) pairs_.emplace_back(ops_a_[begin + i], kNone);
    for (; j < m; ++j) pairs_.emplace_back(kNone, ops_b_[begin + j]);
    for (std::size_t k = tail; k-- > 0;) pairs_.emplace_back(ops_a_[as.size() - 1 - k], ops_b_[bs.size() - 1 - k]);
  }

  static std::string words(const Program& program, OpId op) {
    const graph::Source* source = source_of(program, op);
    const std::string name = graph::op_name(program, program.ops[op]);
    if (source == nullptr) return name;
    return source->site.empty() ? source->op : fmt::format("{} at {}", source->op, source->site);
  }

  void add(ChangeKind kind, std::string what) {
    const std::pair line(kind, std::move(what));
    if (counts_[line]++ == 0) order_.push_back(line);
  }

  static std::string type_of(const Program& program, const Operand& operand) {
    return fmt::format("{}[{}]", name(program.values[operand.value].dtype), fmt::join(operand.view.sizes, ", "));
  }

  std::string called(const Program& program, const Operand& operand, const char* otherwise) const {
    const std::string& name = program.values[operand.value].name;
    return name.empty() ? otherwise : name;
  }

  void compare(OpId a, OpId b) {
    const Op &x = a_.ops[a], &y = b_.ops[b];
    const std::string where = words(a_, a);
    for (std::size_t k = 0; k < std::min(x.outputs.size(), y.outputs.size()); ++k) {
      compare_type(where, "its result", x.outputs[k], y.outputs[k]);
    }
    if (x.inputs.size() != y.inputs.size()) {
      add(ChangeKind::kWiring, fmt::format("{}: {} operands, now {}", where, x.inputs.size(), y.inputs.size()));
    }
    for (std::size_t k = 0; k < std::min(x.inputs.size(), y.inputs.size()); ++k) {
      compare_operand(where, x.inputs[k], y.inputs[k]);
    }
    const std::string ax = attributes(a_, x), bx = attributes(b_, y);
    if (ax != bx) add(ChangeKind::kNumber, fmt::format("{}: {}, now {}", where, ax, bx));
  }

  /// A composite's number in its program says nothing; what it computes does.
  static std::string attributes(const Program& program, const Op& op) {
    if (op.kind == graph::OpKind::kComposite) return graph::attributes_text(graph::composite_of(program, op));
    return graph::attributes_text(program, op);
  }

  void compare_type(const std::string& where, const std::string& what, const Operand& x, const Operand& y) {
    const std::string tx = type_of(a_, x), ty = type_of(b_, y);
    if (tx != ty) return add(ChangeKind::kShape, fmt::format("{}: {} is {}, now {}", where, what, tx, ty));
    if (!graph::same_map(x.view, y.view)) {
      add(ChangeKind::kShape,
          fmt::format("{}: {} lies by strides [{}] from {}, now [{}] from {}", where, what,
                      fmt::join(x.view.strides, ", "), x.view.offset, fmt::join(y.view.strides, ", "), y.view.offset));
    }
  }

  void compare_operand(const std::string& where, const Operand& x, const Operand& y) {
    if (x.is_scalar() != y.is_scalar()) {
      return add(ChangeKind::kNumber, fmt::format("{}: {}, now {}", where, x.is_scalar() ? "a number" : "a tensor",
                                                  y.is_scalar() ? "a number" : "a tensor"));
    }
    if (x.is_scalar()) {
      const bool both_vary = x.scalar.slot != kNone && y.scalar.slot != kNone;
      if (both_vary || x.scalar == y.scalar) return;
      const auto text = [](const graph::Scalar& s) { return s.slot != kNone ? "one that varies" : graph::to_text(s); };
      return add(ChangeKind::kNumber, fmt::format("{}: {}, now {}", where, text(x.scalar), text(y.scalar)));
    }
    compare_type(where, called(a_, x, "an operand"), x, y);
    const OpId px = a_.values[x.value].producer, py = b_.values[y.value].producer;
    const auto inside = partner_.find(px);
    const bool both_inside = px != kNone && py != kNone && inside != partner_.end();
    if (both_inside ? inside->second == py : same_outside(x.value, y.value)) return;
    add(ChangeKind::kWiring, fmt::format("{}: reads {}, now {}", where, origin(a_, x), origin(b_, y)));
  }

  /// Values from outside stand for each other from where they first do.
  bool same_outside(ValueId x, ValueId y) {
    const auto [forth, is_new] = outside_.try_emplace(x, y);
    const auto [back, is_new_too] = outside_back_.try_emplace(y, x);
    return forth->second == y && back->second == x;
  }

  std::string origin(const Program& program, const Operand& operand) const {
    const graph::Value& value = program.values[operand.value];
    if (!value.name.empty()) return value.name;
    return value.producer == kNone ? "what comes from outside" : "the result of " + words(program, value.producer);
  }

  const Program &a_, &b_;
  std::vector<OpId> ops_a_, ops_b_;
  std::vector<std::pair<OpId, OpId>> pairs_;
  std::unordered_map<OpId, OpId> partner_;
  std::unordered_map<ValueId, ValueId> outside_, outside_back_;
  std::map<std::pair<ChangeKind, std::string>, std::size_t> counts_;
  std::vector<std::pair<ChangeKind, std::string>> order_;
};

}  // namespace

std::vector<std::pair<ChangeKind, std::string>> op_changes(const Program& a, std::span<const OpId> ops_a,
                                                           const Program& b, std::span<const OpId> ops_b) {
  return Aligner(a, ops_a, b, ops_b).run();
}

}  // namespace crucible::merkle
