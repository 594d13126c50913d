// What of the process belongs to the host and must be the same before and after a plugin has run: threads, open files,
// signal handlers, locale, floating-point mode, environment, folder, mask.
#pragma once

#include <string>
#include <vector>

namespace crucible::conformance {

/// Facts by name, each as text.
using ProcessState = std::vector<std::pair<std::string, std::string>>;

/// Everything but threads and files.
ProcessState process_state();

/// The open descriptors with what they lead to, sorted.
std::string open_files();
unsigned thread_count();
/// Resident memory. Units: bytes.
unsigned long long resident_bytes();

/// Fails when a fact differs from what it was. `when` names what has run in between.
void expect_same_state(const ProcessState& before, const std::string& when);

/// Waits at most two seconds for threads that are just ending; fails when there are more than `most` after that.
void expect_threads(unsigned most, const std::string& when);

}  // namespace crucible::conformance
