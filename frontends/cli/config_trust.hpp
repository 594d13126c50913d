// `crucible config trust` without the command line.
#pragma once

#include <string>

#include "core/base/result.hpp"

namespace crucible::cli {

struct TrustSwitches {
  std::string file;
  bool yes = false, list = false, remove = false, json = false;
};

/// Lists, forgets or asks and keeps. Errors: kUsage and kBadInput for a file that is none; those of the store.
Result<int> run_config_trust(const TrustSwitches& switches);

}  // namespace crucible::cli
