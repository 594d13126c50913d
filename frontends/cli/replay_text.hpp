// What a replay did, in words.
#pragma once

#include <string>

#include "frontends/replay/replay_report.hpp"

namespace crucible::cli {

using namespace replay;

/// What a person reads of a replay, in the order of the members; the verdict apart, for it has a colour.
struct ReplayText {
  std::string before, verdict, after;
};
ReplayText replay_text(const ReplayReport& report);

}  // namespace crucible::cli
