// One listener per thread: see progress.hpp.
#include "core/base/progress.hpp"

#include <algorithm>
#include <utility>

namespace crucible {
namespace {

thread_local const Listener* current = nullptr;  // owned by the ListenToProgress that is alive
constexpr std::uint64_t kEvery = 1024, kFew = 100;  // parts

}  // namespace

ListenToProgress::ListenToProgress(Listener listener) : listener_(std::move(listener)), before_(current) {
  current = &listener_;
}
ListenToProgress::~ListenToProgress() { current = before_; }

void report_progress(std::string_view pass, std::uint64_t done, std::uint64_t all) {
  if (current == nullptr) return;
  const std::uint64_t every = std::clamp<std::uint64_t>(all / kFew, 1, kEvery);
  if (done % every == 0) (*current)(pass, done, all);
}

}  // namespace crucible
