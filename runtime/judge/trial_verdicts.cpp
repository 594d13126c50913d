#include "runtime/judge/trial_verdicts.hpp"

#include <fmt/format.h>

#include "core/base/hash.hpp"
#include "runtime/run/device_identity.hpp"
#include "store/store.hpp"

namespace crucible::runtime {
namespace {

constexpr const char* kVerdict = "verdict";  // in the evidence of its entry
constexpr std::string_view kPassed = "passed";
constexpr std::string_view kMaker = "kernel trial 3";  // grows when a trial sees more than before

}  // namespace

TrialVerdicts::TrialVerdicts(const backend::Device& device, kernel::Numerics numerics)
    : store_(device.backend().store()) {
  if (!store_) return;
  about_ = key_about(device, kVerdict, numerics);
  about_.toolchain += fmt::format(", {}", kMaker);
}

std::optional<store::ActionKey> TrialVerdicts::key_of(const backend::KernelSource& kernel,
                                                      std::string_view binary) const {
  if (!store_ || binary.empty()) return std::nullopt;
  store::ActionKey key = about_;
  key.region = sha256(kernel.ir);
  key.specialisation = {{"binary", std::string(binary)}, {"kernel", kernel.name}};
  return key;
}

void TrialVerdicts::look_ahead(std::span<const store::ActionKey> keys) {
  if (store_) store_->prefetch(keys);
}

std::optional<std::string> TrialVerdicts::find(const std::optional<store::ActionKey>& key) {
  if (!key) return std::nullopt;
  const ContentHash hash = store::hash_of(*key);
  if (const auto found = known_.find(hash); found != known_.end()) return found->second;
  const std::optional<store::Statement> entry = store_->get(*key);
  if (!entry) return std::nullopt;
  const auto verdict = entry->evidence.find(kVerdict);
  if (verdict == entry->evidence.end() || verdict->second.empty()) return std::nullopt;
  return known_[hash] = verdict->second == kPassed ? std::string() : verdict->second;
}

void TrialVerdicts::note(const std::optional<store::ActionKey>& key, std::string_view what) {
  if (!key) return;
  known_.insert_or_assign(store::hash_of(*key), std::string(what));
  (void)store_->put(*key, {}, std::string(kMaker), {{kVerdict, std::string(what.empty() ? kPassed : what)}});
}

TrialVerdicts& VerdictsByDevice::of(const backend::Device& device, kernel::Numerics numerics) {
  std::unique_ptr<TrialVerdicts>& its = verdicts_[&device];
  if (!its) its = std::make_unique<TrialVerdicts>(device, numerics);
  return *its;
}

}  // namespace crucible::runtime
