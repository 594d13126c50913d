// Whether measured choices among library and generated kernels count, and whether missing ones are measured.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/measure/choices.hpp"
#include "runtime/judge/kernel_trials.hpp"
#include "frontends/config/settings.hpp"
#include "frontends/replay/observer.hpp"

namespace crucible::replay {

/// Whether compiled kernels are tried (key kernel_trial).
runtime::TrialOptions trial_of(const config::Settings& settings);

struct Tuned {
  std::shared_ptr<runtime::Choices> choices;  // null: none count. Shared with the session
  std::size_t measured_now = 0;
};

/// Mode "kept": what was measured before counts. "off": nothing does. "measure": what is missing is measured first, and
/// the observer hears what it is at. `device` null has no choices; in strict numerics the library is none of them.
/// Errors: those of Choices::measure().
Result<Tuned> tune(const std::string& mode, std::span<const std::shared_ptr<const graph::Program>> programs,
                   const std::shared_ptr<backend::Device>& device, bool fuse, kernel::Numerics numerics,
                   const Observer& observer);

}  // namespace crucible::replay
