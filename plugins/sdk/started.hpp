// A vendor's library as one device uses it: started at the first call, and once it did not start, never tried again.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"

namespace crucible::sdk {

/// Threads: any.
template <class Part>
class Started {
 public:
  /// `start` gives a unique_ptr<Part>. Errors: UNSUPPORTED with its reason, which is logged the first time with `cost`
  /// behind it.
  template <class Start>
  Part& require(const std::string& cost, Start start) {
    const std::lock_guard lock(mutex_);
    if (part_ != nullptr) return *part_;
    if (!refusal_.empty()) throw Failure(CRUCIBLE_E_UNSUPPORTED, refusal_);
    try {
      part_ = start();
    } catch (const Failure& failure) {
      refusal_ = failure.what();
      log(LogLevel::kWarning, "library", refusal_ + cost);
      throw Failure(CRUCIBLE_E_UNSUPPORTED, refusal_);
    }
    return *part_;
  }
  /// Null unless it was started.
  Part* get() {
    const std::lock_guard lock(mutex_);
    return part_.get();
  }
  /// "" or why it does not start, without starting anything.
  std::string refusal() {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }
  void stop() { part_ = nullptr; }

 private:
  std::mutex mutex_;
  std::unique_ptr<Part> part_;
  std::string refusal_;
};

}  // namespace crucible::sdk
