// What must hold of the operands, results and attributes of each kind of op: one table (op_rules.cpp), which the
// verifier follows (verify_ops.cpp) and docs/op-rules.md shows. The notation, which rule_language.hpp reads:
//
// shapes   "[batch..., m, k], [batch..., k, n] -> [batch..., m, n]": the same name is the same extent everywhere,
// `batch...` any
//          number of extents, "s.../dims" those of s with 1 in place of each that attribute dims names. "[s...]?" may
//          be a number, "number" must be one; "..." behind an operand: any number of them; "..." alone: anything, which
//          a check of its own judges.
// dtypes   "T=number, id -> T": classes of dtypes, see names_of_dtypes(); T is the same dtype everywhere, "T+" is T, or
// f32 where T is
//          f16 or bf16.
// dims     "one of s" or "any of s": how many of the dimensions of s attribute dims may name.
// where    conditions on extents and attributes, apart by ";", in whole numbers that cannot wrap; words behind ":" are
// what a message
//          says. all(s) is the product of the extents of s, along(s) of those that dims names. A name whose `name0` and
//          `name1` are extents or numbers of an attribute stands for both, one condition each.
// also     a check that no such line says, with the words for it.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "core/graph/op_table.hpp"

namespace crucible::graph {

/// Checks that verify_ops.cpp has as functions.
enum class OpCheck : std::uint8_t { kNone, kPieces, kRegion, kFiniteAlpha, kWindowsHaveElements };

struct OpRule {
  OpClass op_class;
  std::initializer_list<OpKind> kinds;  // empty: all of the class
  std::string_view shapes, dtypes, dims;
  std::initializer_list<std::string_view> where;
  OpCheck also = OpCheck::kNone;
};

/// Each neutral kind belongs to exactly one.
std::span<const OpRule> op_rules();

/// The place of the kind's rule in op_rules(); of an opaque op or a composite, which have none, one behind the last.
std::size_t rule_of(OpKind kind);

/// "alpha is finite".
std::string_view words(OpCheck check);

/// The table as a page shows it, in Markdown.
std::string op_rule_table();

}  // namespace crucible::graph
