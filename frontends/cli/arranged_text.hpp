// What arranging a schedule in memory decided, as `plan` and `replay` say it.
#pragma once

#include <string>

#include "frontends/replay/arranged.hpp"

namespace crucible::cli {

using namespace replay;

/// A line per thing that was done, none for a plan in the recording's order: "order     31 steps moved: ...".
std::string arranged_text(const ArrangedMemory& arranged, std::size_t label_width);

}  // namespace crucible::cli
