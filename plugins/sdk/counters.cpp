// See counters.hpp.
#include "plugins/sdk/counters.hpp"

#include <algorithm>

namespace crucible::sdk {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::vector<Counter>& known, const std::string& why_none) {
  std::string text = "profile.begin: there is no counter '" + name + "': ";
  if (known.empty()) throw Failure(CRUCIBLE_E_UNSUPPORTED, text + "this device has none (" + why_none + ")");
  text += "this device has ";
  for (const Counter& counter : known) text += (&counter == &known.front() ? "" : ", ") + counter.name;
  throw Failure(CRUCIBLE_E_UNSUPPORTED, text);
}

}  // namespace

void Counters::begin(std::span<const crucible_str> names, const std::vector<Counter>& known,
                     const std::string& why_none, const Start& start) {
  const std::lock_guard lock(mutex_);
  require(!is_begun_, "profile.begin: counters are counted already: profile.end comes first");
  std::vector<std::string> wanted;
  for (const crucible_str& text : names) {
    const std::string name(view(text));
    if (std::ranges::find(known, name, &Counter::name) == known.end()) refuse(name, known, why_none);
    if (std::ranges::find(wanted, name) == wanted.end()) wanted.push_back(name);
  }
  if (!wanted.empty()) counting_ = start(wanted);
  totals_.assign(wanted.size(), 0);
  names_ = std::move(wanted);
  is_begun_ = true;
}

void Counters::read(crucible_kv_sink sink, void* user) {
  const std::lock_guard lock(mutex_);
  require(is_begun_, "profile.read: nothing is counted: profile.begin comes first");
  if (counting_ == nullptr) return;
  const std::vector<std::uint64_t> more = counting_->read();
  for (std::size_t i = 0; i < names_.size(); ++i) {
    totals_[i] += more[i];
    report(sink, user, {number_item(names_[i], totals_[i])});
  }
}

void Counters::end() {
  const std::lock_guard lock(mutex_);
  require(is_begun_, "profile.end: nothing is counted: profile.begin comes first");
  counting_ = nullptr;
  is_begun_ = false;
}

bool Counters::is_counting() const {
  const std::lock_guard lock(mutex_);
  return counting_ != nullptr;
}

}  // namespace crucible::sdk
