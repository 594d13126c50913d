// Ops that are known and have no lowering, each with why and what to do instead: the sentence that a refusal says, so
// that who meets one need not guess. An op that is neither in the lowering table nor here is news, and the test over
// the framework's own list of operators (tests/aten/dispatcher_test.py) fails.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace crucible::aten {

struct Refusal {
  std::string_view names;   // one name, or a pattern that begins or ends with '*'
  std::string_view why;     // goes on after the op's name
  std::string_view advice;  // what to write instead; empty where there is nothing
};

/// All of them, the ones that go first in front.
std::span<const Refusal> refusals();

/// Of an op without a lowering; null where nothing is known of it. Threads: any.
const Refusal* find_refusal(std::string_view full_name);

/// "why; advice", or empty where there is none.
std::string refusal_text(std::string_view full_name);

}  // namespace crucible::aten
