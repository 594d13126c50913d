// The receipt of a run: what ran, on what, how, under which configuration, and what did not run the way it was meant
// to.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "frontends/replay/replay_report.hpp"

namespace crucible::replay {

/// Steps of a schedule by who runs them.
struct StepCounts {
  std::size_t library = 0, generated = 0, opaque = 0;
  std::size_t generated_products = 0;  // contractions that no library took
  std::size_t library_products = 0;    // of `library`: products of matrices
};
StepCounts count_steps(const ReplayReport& report);

/// Inputs that are values which random ops drew while recording.
std::size_t count_draws(const graph::Program& program);

/// What does not run the way it was meant to, each with its cost.
std::vector<std::string> notes(const ReplayReport& report);

/// A kernel that its compiler got wrong, and what became of it.
std::string wrong_in_words(const runtime::Session& session, const runtime::WrongKernel& wrong);

/// A plugin's name, vendor, version, build id, path and the SHA-256 of its file; null where it does not say.
nlohmann::ordered_json plugin_json(const config::Settings& settings, const std::string& name,
                                   const backend::Backend& backend);
/// A device's id, name, marks, driver and its own words.
nlohmann::ordered_json device_json(const backend::Device& device);

/// The keys are described in docs/configuration.md.
nlohmann::ordered_json receipt_json(const ReplayReport& report);

}  // namespace crucible::replay
