// The little of an operator's schema text that lowering needs: names of arguments and whether any is written in place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crucible::aten {

/// Whether the text is a schema as far as its brackets, quotes and arrow go: what follows takes it apart by those.
bool is_schema(std::string_view text);

/// Argument names in order; "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" gives self,
/// other, alpha. Empty for a text without parentheses.
std::vector<std::string> argument_names(std::string_view schema);

/// True when the schema says that an argument is written ("Tensor(a!) self").
bool writes_argument(std::string_view schema);

/// Per argument of argument_names(), whether the schema says that it is written.
std::vector<bool> written_arguments(std::string_view schema);

}  // namespace crucible::aten
