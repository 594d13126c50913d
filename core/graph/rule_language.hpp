// The notation of op_rules.hpp, read: patterns of shapes and dtypes, and conditions with their arithmetic. Our own
// tables are the only text that is read here, so a mistake in it is an exception (std::logic_error), which tests see.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/op_rules.hpp"

namespace crucible::graph {

__extension__ using Wide = __int128;  // products of two extents fit; what does not fit is found

using Sizes = std::vector<std::int64_t>;
using NameId = std::uint8_t;
inline constexpr std::size_t kMostNames = 12;

/// How one operand or result looks: "[batch..., m, k]".
struct ShapePattern {
  bool is_tensor = true, is_number = false;  // both: "[s...]?"
  bool repeats = false;                      // stands for any number of operands
  std::vector<NameId> before, after;         // extents around the run
  std::optional<NameId> run;
  bool is_kept = false;  // "s.../dims"
};

/// "T=number", "i64", "T+", "f32|f64".
struct DTypePattern {
  bool repeats = false, is_same = false, may_be_wider = false;  // is_same: as T
  std::vector<std::string_view> classes;                        // one must fit; none: any
};

/// One step of a postfix expression.
struct Step {
  enum class Kind : std::uint8_t {
    kNumber,
    kExtent,
    kAll,
    kAlong,
    kAttribute,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kRemainder,
    kMinimum,
    kMaximum
  };
  Kind kind = Kind::kNumber;
  std::int64_t number = 0;  // of kNumber; else which name or attribute is meant
  std::string_view name = {};
};

struct Condition {
  enum class Compare : std::uint8_t { kEqual, kLess, kLessEqual, kGreater, kGreaterEqual };
  std::string text;        // "x0 < 2^31"
  std::string_view words;  // may be empty
  Compare compare = Compare::kEqual;
  std::vector<Step> left, right;
};

/// A rule of op_rules(), read. Its names are those of extents first, runs among them.
struct ReadRule {
  std::vector<std::string_view> names;
  std::vector<ShapePattern> operands, results;
  std::vector<DTypePattern> operand_dtypes, result_dtypes;
  std::optional<NameId> dims_of;  // the run that attribute dims names dimensions of
  bool is_one_dim = false;
  std::vector<Condition> conditions;
  OpCheck also = OpCheck::kNone;
};

/// Throws std::logic_error: the text is not of the notation.
ReadRule read_rule(const OpRule& rule);

/// What the names of a rule stand for in one op.
struct Bindings {
  const Attributes& attributes;
  std::array<std::optional<std::int64_t>, kMostNames> extents = {};
  std::array<std::optional<std::span<const std::int64_t>>, kMostNames> runs = {};  // of the op's own lists
};

/// Whether the condition holds; nothing where a number does not fit or is divided by less than 1. All its names are
/// bound.
std::optional<bool> holds(const Condition& condition, const Bindings& bindings);

/// "x0 is 4, padding0 is 1": what the condition looks at.
std::string numbers_of(const Condition& condition, const Bindings& bindings);

/// True where `dtype` is of one of the classes: "any", "number" (any but bool), "float", "integer", "id" (i64 or i32),
/// or a dtype's name.
bool is_of(DType dtype, const std::vector<std::string_view>& classes);

/// "any dtype but bool", "i64 or i32": what is_of() asks.
std::string names_of_dtypes(const std::vector<std::string_view>& classes);

}  // namespace crucible::graph
