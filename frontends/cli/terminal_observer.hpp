// What frontends/replay has to say, on standard error.
#pragma once

#include "frontends/cli/progress.hpp"
#include "frontends/replay/observer.hpp"

namespace crucible::cli {

/// Notices as lines, what is odd about the configuration once in a process, and what --explain asks for. The same for
/// all; without a line of progress.
const replay::Observer& terminal();

/// The same with `progress`, which it borrows.
replay::Observer terminal(Progress& progress);

}  // namespace crucible::cli
