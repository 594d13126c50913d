// What compile.cpp calls the guard of signal handlers.
#pragma once

#include "plugins/sdk/signal_guard.hpp"

namespace crucible_intel {

using ProcessGuard = crucible::sdk::SignalGuard;

}  // namespace crucible_intel
