// Choices of a command: see tuning.hpp.
#include "frontends/cli/tuning.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "core/base/terminal.hpp"

namespace crucible::cli {

void add_tune_switch(CLI::App& command, std::string& mode, bool can_measure) {
  std::vector<std::string> modes = {"off", "kept"};
  if (can_measure) modes.emplace_back("measure");
  command
      .add_option("--tune", mode,
                  can_measure ? "Library or generated kernel, and how that is cut, for each product and convolution: kept: as measured before, else "
                                "the library; measure: what is not known is measured first, and kept; off: the library wherever it can"
                              : "kept: library or generated kernel as measured by replay --tune measure; off: the library wherever it can")
      ->check(CLI::IsMember(modes))
      ->capture_default_str();
}

namespace {

/// $`variable`, else a folder of that name in the user's cache.
std::filesystem::path user_folder(const char* variable, std::string_view name) {
  if (const char* const set = std::getenv(variable); set != nullptr && *set != '\0') return set;
  if (const char* const xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/') return std::filesystem::path(xdg) / "crucible" / name;
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/') return std::filesystem::path(home) / ".cache/crucible" / name;
  return std::filesystem::path("/tmp") / ("crucible-" + std::to_string(getuid())) / name;
}

}  // namespace

std::filesystem::path choices_folder() { return user_folder("CRUCIBLE_CHOICES_DIR", "choices"); }

runtime::TrialOptions trial_of(const config::Settings& settings) {
  return {.is_on = settings.flag("kernel_trial"), .folder = user_folder("CRUCIBLE_TRIALS_DIR", "trials")};
}

Result<Tuned> tune(const std::string& mode, const graph::Program& program, const std::shared_ptr<backend::Device>& device, bool fuse,
                   kernel::Numerics numerics, Progress* progress) {
  if (!device || mode == "off") return Tuned{};
  Tuned tuned{std::make_shared<runtime::Choices>(choices_folder(), device, numerics)};
  if (mode != "measure") return tuned;
  runtime::LibraryClaims claims(device);
  CRUCIBLE_TRY(const std::vector<kernel::LibraryCall> calls, runtime::products_of(program, claims, fuse, numerics));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (tuned.choices->find(calls[i]) != nullptr) continue;
    if (progress != nullptr) progress->say(fmt::format("measuring library and generated kernels, {} of {}", i + 1, calls.size()));
    CRUCIBLE_TRY_VOID(tuned.choices->measure(claims, calls[i]));
    ++tuned.measured_now;
  }
  if (!tuned.choices->failure().empty())
    tell("crucible: warning: choices count for this run only: {}\n", tuned.choices->failure());
  return tuned;
}

}  // namespace crucible::cli
