// How choices come about: see tuning.hpp.
#include "frontends/replay/tuning.hpp"

#include <fmt/format.h>
namespace crucible::replay {

runtime::TrialOptions trial_of(const config::Settings& settings) { return {.is_on = settings.flag("kernel_trial")}; }

Result<Tuned> tune(const std::string& mode, std::span<const std::shared_ptr<const graph::Program>> programs,
                   const std::shared_ptr<backend::Device>& device, bool fuse, kernel::Numerics numerics,
                   const Observer& observer) {
  if (!device || mode == "off") return Tuned{};
  Tuned tuned{std::make_shared<runtime::Choices>(device, numerics)};
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
