// In-place and out= forms of ops. The framework derives them from functional ops by rules of naming; here the rules run
// backwards, so that the lowering table has functional ops only and every variant of them is lowered too.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace crucible::aten {

/// The names under which the table may hold the functional form of an op, best first: "aten::add_.Tensor" gives
/// "aten::add.Tensor"; "aten::maximum.out" gives "aten::maximum" and "aten::maximum.Tensor". Empty for an op that is
/// functional already. Results of such an op alias the argument that it writes, so the functional lowering is the whole
/// meaning.
std::vector<std::string> functional_names(std::string_view full_name);

}  // namespace crucible::aten
