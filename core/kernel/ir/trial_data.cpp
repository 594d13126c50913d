#include "core/kernel/ir/trial_data.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "core/graph/reference_numbers.hpp"

namespace crucible::kernel {
namespace {

/// Follows a guarded index back to the loads that it comes from.
class IndexSources {
 public:
  explicit IndexSources(const KernelIr& kernel)
      : kernel_(kernel), definitions_(kernel.variables.size()), ranges_(kernel.buffers.size()) {
    find_definitions(kernel.body);
  }

  std::vector<std::optional<IndexRange>> run() {
    for (const Expr& e : kernel_.exprs) {
      seen_.clear();
      if (const std::optional<IndexRange> range = guarded(e)) follow(kernel_.exprs[e.in[0]].in[0], *range, true);
      if (const std::optional<IndexRange> range = chosen(e)) follow(kernel_.exprs[e.in[0]].in[1], *range, true);
    }
    return std::move(ranges_);
  }

 private:
  /// Where a guard (IrBuilder::guard) lets numbers lie, and one more at either end, which it has to bring back.
  std::optional<IndexRange> guarded(const Expr& e) const {
    if (e.operation != Operation::kMaximum || e.type != DType::kI64) return std::nullopt;
    const Expr &least = kernel_.exprs[e.in[1]], &below = kernel_.exprs[e.in[0]];
    if (least.operation != Operation::kInteger || below.operation != Operation::kMinimum) return std::nullopt;
    const Expr& most = kernel_.exprs[below.in[1]];
    if (most.operation != Operation::kInteger || most.integer < least.integer) return std::nullopt;
    using Limits = std::numeric_limits<std::int64_t>;
    return IndexRange{std::max(least.integer, Limits::min() + 1) - 1, std::min(most.integer, Limits::max() - 1) + 1};
  }

  /// The same of a condition, first <= x and x < last, behind which an item puts what belongs to its own part of the
  /// elements.
  std::optional<IndexRange> chosen(const Expr& e) const {
    if (e.operation != Operation::kAnd) return std::nullopt;
    const Expr &from = kernel_.exprs[e.in[0]], &to = kernel_.exprs[e.in[1]];
    if (from.operation != Operation::kLessEqual || to.operation != Operation::kLess || from.in[1] != to.in[0])
      return std::nullopt;
    const Expr* last = &kernel_.exprs[to.in[1]];
    if (last->operation == Operation::kVariable && definitions_[last->id].size() == 1)
      last = &kernel_.exprs[definitions_[last->id][0]];
    if (last->operation != Operation::kMinimum) return std::nullopt;
    const Expr& elements = kernel_.exprs[last->in[1]];
    if (elements.operation != Operation::kInteger || elements.type != DType::kI64) return std::nullopt;
    return IndexRange{-1, elements.integer};
  }

  void find_definitions(const std::vector<Stmt>& body) {
    for (const Stmt& stmt : body) {
      if (stmt.kind == StmtKind::kLet || stmt.kind == StmtKind::kSet) definitions_[stmt.id].push_back(stmt.a);
      find_definitions(stmt.body);
    }
  }

  /// `is_itself`: nothing was computed on the way.
  void follow(ExprId id, const IndexRange& range, bool is_itself) {
    if (id == kNoId || !seen_.insert({id, is_itself}).second) return;
    const Expr& e = kernel_.exprs[id];
    switch (e.operation) {
      case Operation::kLoad:
        if (is_integral(kernel_.buffers[e.id].type)) restrict_to(e.id, is_itself ? range : IndexRange{0, 1});
        return;
      case Operation::kVariable:
        for (const ExprId definition : definitions_[e.id]) follow(definition, range, is_itself);
        return;
      case Operation::kConvert:
        follow(e.in[0], range, is_itself);
        return;
      case Operation::kSelect:  // the condition says whether, not where
        follow(e.in[1], range, is_itself);
        follow(e.in[2], range, is_itself);
        return;
      default:
        if (guarded(e)) return;  // has its own range
        for (const ExprId in : e.in) follow(in, range, false);
        return;
    }
  }

  void restrict_to(BufferId buffer, const IndexRange& range) {
    std::optional<IndexRange>& known = ranges_[buffer];
    if (!known) {
      known = range;
      return;
    }
    known->low = std::max(known->low, range.low);
    known->high = std::max(known->low, std::min(known->high, range.high));
  }

  const KernelIr& kernel_;
  std::vector<std::vector<ExprId>> definitions_;  // per variable
  std::vector<std::optional<IndexRange>> ranges_;
  std::set<std::pair<ExprId, bool>> seen_;
};

bool has_sum(const KernelIr& kernel, const std::vector<Stmt>& body, bool is_free) {
  return std::ranges::any_of(body, [&](const Stmt& stmt) {
    if (stmt.kind == StmtKind::kSet && is_free && is_floating(kernel.variables[stmt.id].type)) return true;
    const bool is_loop = stmt.kind == StmtKind::kFor;  // items have variables of their own
    return has_sum(kernel, stmt.body, is_free || (is_loop && stmt.mode == LoopMode::kVector));
  });
}

bool has_statement(const std::vector<Stmt>& body, StmtKind kind) {
  return std::ranges::any_of(body,
                             [&](const Stmt& stmt) { return stmt.kind == kind || has_statement(stmt.body, kind); });
}

std::uint64_t mix(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Sign, exponent and mantissa at the places of a float with `mantissa` bits behind the point.
[[gnu::always_inline]] inline std::uint64_t float_bits(std::uint64_t random, int mantissa, int exponent_bits,
                                                       TrialNumbers kind) {
  const std::uint64_t bias = (std::uint64_t{1} << (exponent_bits - 1)) - 1;
  const std::uint64_t ones = (std::uint64_t{1} << exponent_bits) - 1;  // of infinities
  const std::uint64_t fraction = random >> 8 & ((std::uint64_t{1} << mantissa) - 1);
  const std::uint64_t sign = kind == TrialNumbers::kPositive ? 0 : random & 1;
  std::uint64_t exponent = bias - 3 + (random >> 4) % 5, low = fraction;
  if ((random >> 55 & 3) == 0)
    low &= std::uint64_t{3} << (mantissa - 2);  // numbers that are there twice, and those that texts name
  if (kind == TrialNumbers::kSpecial && (random >> 59) == 0) {
    const std::uint64_t exponents[] = {ones,     ones, 0, 0,
                                       ones - 1, bias, 1, bias + static_cast<std::uint64_t>(mantissa)};
    const std::uint64_t fractions[] = {0,       std::uint64_t{1} << (mantissa - 1), 0, fraction, fraction, 0, fraction,
                                       fraction};
    const std::size_t which = random >> 56 & 7;
    exponent = exponents[which];
    low = fractions[which];
  }
  return (sign << (mantissa + exponent_bits)) | (exponent << mantissa) | low;
}

template <class T>
std::uint64_t integer_bits(std::uint64_t random, TrialNumbers kind, const std::optional<IndexRange>& range) {
  if (range) {
    const auto low = static_cast<std::uint64_t>(range->low), count = static_cast<std::uint64_t>(range->high) - low + 1;
    const std::uint64_t edge = random >> 61;  // the ends come often
    if (edge == 0) return low;
    if (edge == 1) return static_cast<std::uint64_t>(range->high);
    return count == 0 ? random : low + random % count;
  }
  if (kind == TrialNumbers::kSpecial && (random >> 59) == 0) {
    constexpr T kEnds[] = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 0, 1};
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(kEnds[random & 3]));
  }
  const auto small = static_cast<std::int64_t>(random % 101);
  const bool is_negative =
      kind != TrialNumbers::kPositive && std::numeric_limits<T>::is_signed && (random >> 32 & 1) != 0;
  return static_cast<std::uint64_t>(is_negative ? -small : small + (kind == TrialNumbers::kPositive ? 1 : 0));
}

/// `body` with what makes the bits of a number of the type: one choice for many numbers.
template <class Body>
void with_bits(DType type, TrialNumbers kind, const std::optional<IndexRange>& range, const Body& body) {
  const auto integers = [&]<class T>(T) {
    body([&](std::uint64_t random) { return integer_bits<T>(random, kind, range); });
  };
  switch (type) {
    case DType::kBool:
      return body([](std::uint64_t random) { return random & 1; });
    case DType::kU8:
      return integers(std::uint8_t{});
    case DType::kI8:
      return integers(std::int8_t{});
    case DType::kI16:
      return integers(std::int16_t{});
    case DType::kI32:
      return integers(std::int32_t{});
    case DType::kI64:
      return integers(std::int64_t{});
    case DType::kF16:
      return body([kind](std::uint64_t random) { return float_bits(random, 10, 5, kind); });
    case DType::kBF16:
      return body([kind](std::uint64_t random) { return float_bits(random, 7, 8, kind); });
    case DType::kF32:
      return body([kind](std::uint64_t random) { return float_bits(random, 23, 8, kind); });
    default:
      return body([kind](std::uint64_t random) { return float_bits(random, 52, 11, kind); });
  }
}

/// Random numbers of a type of floats, made once for all kernels: memory is filled with pieces of them that begin
/// anywhere.
class FloatTable {
 public:
  static constexpr std::size_t kElements = 4096;

  static const FloatTable& of(DType type, TrialNumbers kind) {
    static std::array<std::array<FloatTable, 3>, 4> tables;
    const std::size_t which = type == DType::kF16 ? 0 : type == DType::kBF16 ? 1 : type == DType::kF32 ? 2 : 3;
    FloatTable& table = tables[which][static_cast<std::size_t>(kind)];
    std::call_once(table.is_made_, [&] { table.make(type, kind); });
    return table;
  }

  /// As many bytes as one piece of memory has, from element random % kElements on.
  const std::byte* piece(std::uint64_t random, std::size_t element_bytes) const {
    return bytes_.data() + random % kElements * element_bytes;
  }

 private:
  void make(DType type, TrialNumbers kind) {
    const std::size_t size = size_bytes(type), count = kElements + TouchedMemory::kPiece / size;
    bytes_.resize(count * size);
    with_bits(type, kind, {}, [&](const auto& bits_of) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t bits = bits_of(mix(i));
        std::memcpy(bytes_.data() + i * size, &bits, size);
      }
    });
  }

  std::once_flag is_made_;
  std::vector<std::byte> bytes_;
};

TouchedMemory::Fill floats(DType type, std::uint64_t seed, TrialNumbers kind, std::vector<std::uint64_t> constants) {
  return [size = size_bytes(type), start = mix(seed), constants = std::move(constants),
          &table = FloatTable::of(type, kind)](std::uint64_t first, std::span<std::byte> into) {
    std::uint64_t random = mix(start + first);
    std::memcpy(into.data(), table.piece(random, size), into.size());
    if (constants.empty()) return;
    for (std::size_t block = 0; block < into.size(); block += 16 * size) {  // one of each 16, of all constants in turn
      random = mix(random);
      const std::size_t at = block + (random >> 40 & 15) * size;
      const std::uint64_t which = start + (first + block) / std::min<std::uint64_t>(16 * size, TouchedMemory::kPiece);
      if (at + size <= into.size()) std::memcpy(into.data() + at, &constants[which % constants.size()], size);
    }
  };
}

}  // namespace

std::vector<std::optional<IndexRange>> index_ranges(const KernelIr& kernel) { return IndexSources(kernel).run(); }

bool sums_in_any_order(const KernelIr& kernel) { return has_sum(kernel, kernel.body, false); }

bool gathers_up(const KernelIr& kernel) {
  return !kernel.arrays.empty() || !kernel.tiles.empty() || has_statement(kernel.body, StmtKind::kSet);
}

std::vector<std::uint64_t> constants_as(const KernelIr& kernel, DType type, TrialNumbers kind) {
  // No larger ones: an infinity, or a mask's least number, among moderate ones would hide all others.
  constexpr double kMost = 16;
  std::set<std::uint64_t> bits;
  for (const Expr& e : kernel.exprs) {
    if (e.operation != (is_floating(type) ? Operation::kReal : Operation::kInteger)) continue;
    const double value = is_floating(type) ? e.real : static_cast<double>(e.integer);
    if (!(std::abs(value) <= kMost) || (value <= 0 && (kind == TrialNumbers::kPositive || type == DType::kU8)))
      continue;
    std::uint64_t made = static_cast<std::uint64_t>(e.integer);
    if (is_floating(type)) graph::store_real(type, value, reinterpret_cast<std::byte*>(&made));
    bits.insert(made);
  }
  return {bits.begin(), bits.end()};
}

TouchedMemory::Fill trial_numbers(DType type, std::uint64_t seed, TrialNumbers kind,
                                  const std::optional<IndexRange>& range, std::vector<std::uint64_t> constants) {
  if (is_floating(type)) return floats(type, seed, kind, std::move(constants));
  if (range || type == DType::kBool) constants.clear();
  return [=](std::uint64_t first, std::span<std::byte> into) {
    static_assert(std::endian::native == std::endian::little);
    const std::size_t size = size_bytes(type);
    const std::uint64_t start = mix(seed) + first / size;
    with_bits(type, kind, range, [&](const auto& bits_of) {
      for (std::size_t i = 0; (i + 1) * size <= into.size(); ++i) {
        const std::uint64_t random = mix(start + i);
        const bool is_constant = !constants.empty() && (random >> 40 & 15) == 0;
        const std::uint64_t bits = is_constant ? constants[(random >> 44) % constants.size()] : bits_of(random);
        std::memcpy(into.data() + i * size, &bits, size);
      }
    });
  };
}

}  // namespace crucible::kernel
