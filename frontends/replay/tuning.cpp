// Where choices are kept, and how they come about: see tuning.hpp.
#include "frontends/replay/tuning.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace crucible::replay {

namespace {

/// $`variable`, else a folder of that name in the user's cache.
std::filesystem::path user_folder(const char* variable, std::string_view name) {
  if (const char* const set = std::getenv(variable); set != nullptr && *set != '\0') return set;
  if (const char* const xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg == '/')
    return std::filesystem::path(xdg) / "crucible" / name;
  if (const char* const home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::filesystem::path(home) / ".cache/crucible" / name;
  return std::filesystem::path("/tmp") / ("crucible-" + std::to_string(getuid())) / name;
}

}  // namespace

std::filesystem::path choices_folder() { return user_folder("CRUCIBLE_CHOICES_DIR", "choices"); }

runtime::TrialOptions trial_of(const config::Settings& settings) {
  return {.is_on = settings.flag("kernel_trial"), .folder = user_folder("CRUCIBLE_TRIALS_DIR", "trials")};
}

Result<Tuned> tune(const std::string& mode, std::span<const std::shared_ptr<const graph::Program>> programs,
                   const std::shared_ptr<backend::Device>& device, bool fuse, kernel::Numerics numerics,
                   const Observer& observer) {
  if (!device || mode == "off") return Tuned{};
  Tuned tuned{std::make_shared<runtime::Choices>(choices_folder(), device, numerics)};
  if (mode != "measure") return tuned;
  runtime::LibraryClaims claims(device);
  std::vector<kernel::LibraryCall> calls;
  for (const auto& program : programs) {
    CRUCIBLE_TRY(const std::vector<kernel::LibraryCall> more,
                 runtime::products_of(*program, claims, fuse, numerics));
    calls.insert(calls.end(), more.begin(), more.end());
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (tuned.choices->find(calls[i]) != nullptr) continue;
    observer.say(fmt::format("measuring library and generated kernels, {} of {}", i + 1, calls.size()));
    CRUCIBLE_TRY_VOID(tuned.choices->measure(claims, calls[i]));
    ++tuned.measured_now;
  }
  if (!tuned.choices->failure().empty())
    observer.tell(Notice::Level::kWarning,
                  fmt::format("choices count for this run only: {}", tuned.choices->failure()));
  return tuned;
}

}  // namespace crucible::replay
