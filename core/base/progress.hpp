// What work on large programs says of itself while it goes on: the name of the pass, and how much of it is done.
// Whoever waits for it in the same thread may listen; nobody has to, and then a report costs next to nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace crucible {

/// `done` of `all` parts; `all` is 0 where nobody knows how many there are, and the pass is "" when nothing goes on any
/// more.
using Listener = std::function<void(std::string_view pass, std::uint64_t done, std::uint64_t all)>;

/// Hears all reports of its thread while it lives; whoever listened before does so again afterwards.
class ListenToProgress {
 public:
  explicit ListenToProgress(Listener listener);
  ~ListenToProgress();
  ListenToProgress(const ListenToProgress&) = delete;
  ListenToProgress& operator=(const ListenToProgress&) = delete;

 private:
  Listener listener_;
  const Listener* before_;
};

/// To be called for each part: one in some thousand is passed on, or one in a hundred where there are fewer.
void report_progress(std::string_view pass, std::uint64_t done, std::uint64_t all);

/// A pass that is one call: named while this lives.
class PassInProgress {
 public:
  explicit PassInProgress(std::string_view pass) { report_progress(pass, 0, 0); }
  ~PassInProgress() { report_progress("", 0, 0); }
  PassInProgress(const PassInProgress&) = delete;
  PassInProgress& operator=(const PassInProgress&) = delete;
};

}  // namespace crucible
