// An operator's schema text as types: what preconditions are checked by, and what tests make arguments from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crucible::aten {

/// One argument or result: "SymInt[2] stride=[1, 1]", "Tensor(a!)? out", "Tensor?[] indices".
struct Parameter {
  std::string type;       // "Tensor", "int" (SymInt too), "float", "Scalar", "bool", "str", "ScalarType", ...
  std::string name;       // "" for most results
  std::string fallback;   // the default's text, or ""
  std::string alias;      // "a" or "a!" where it shares memory with others of that letter
  bool is_optional = false;
  bool is_list = false;
  bool has_optional_items = false;
  int length = -1;  // of a list, where the schema says it
};

struct Signature {
  std::string text;
  std::vector<Parameter> arguments;
  std::vector<Parameter> results;
};

/// Reads "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor". What it does not understand
/// becomes a type of its own.
Signature parse_signature(std::string_view schema);

}  // namespace crucible::aten
