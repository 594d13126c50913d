// What trials found, kept from one start to the next in the store of the device's plugin. A verdict belongs to the
// plugin, the device, the numerics, the kernel and the very binary that was tried.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/kernel/ir/numerics.hpp"
#include "plugins/loader/backend.hpp"
#include "store/key.hpp"

namespace crucible::runtime {

/// Not thread-safe.
class TrialVerdicts {
 public:
  /// Where the plugin keeps nothing, nothing is known and nothing kept.
  TrialVerdicts(const backend::Device& device, kernel::Numerics numerics);

  /// What the verdict of this binary is known by; nothing where none is kept.
  std::optional<store::ActionKey> key_of(const backend::KernelSource& kernel, std::string_view binary) const;
  /// Before find() of each: servers behind the store are asked for all at once.
  void look_ahead(std::span<const store::ActionKey> keys);
  /// "" when it passed, or what was wrong; nothing where nobody tried it.
  std::optional<std::string> find(const std::optional<store::ActionKey>& key);
  /// What cannot be kept is tried again by the next start.
  void note(const std::optional<store::ActionKey>& key, std::string_view what);

 private:
  std::shared_ptr<store::Store> store_;       // null: nowhere
  store::ActionKey about_;                    // what all keys begin with
  std::map<ContentHash, std::string> known_;  // by the hash of the key: of this session
};

/// Of the devices of one session: many programs are compiled for them, with kernels in common. Not thread-safe.
class VerdictsByDevice {
 public:
  TrialVerdicts& of(const backend::Device& device, kernel::Numerics numerics);

 private:
  std::map<const backend::Device*, std::unique_ptr<TrialVerdicts>> verdicts_;
};

}  // namespace crucible::runtime
