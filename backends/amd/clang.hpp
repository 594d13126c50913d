// clang as AMD's compiler, where HIPRTC is missing or broken: HIP C++ to a code object, by a program that is found
// here, in a process of its own. It needs clang 18 or newer (older ones round square roots to a unit in the last place)
// with the amdgcn target, and lld.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/amd/hiprtc.hpp"

namespace crucible_amd {

struct Clang {
  std::string file;     // the program
  std::string version;  // "19.1.7"

  /// "clang 19.1.7"
  std::string describe() const { return "clang " + version; }
  /// The code object of `text` for `architecture` (gfx942, gfx90a:xnack-), for a runtime of that major version;
  /// `is_careful`: with less optimisation. Threads: any. Errors: INTERNAL with clang's words and `who`; UNAVAILABLE
  /// when it cannot be started or lld is missing.
  Hiprtc::Compiled compile(const std::string& text, const std::string& architecture, int runtime_major,
                           const std::string& who, bool is_careful = false) const;
};

/// Option `clang`, else ROCm's own, else a clang in PATH, newest first. Threads: any. Errors: UNAVAILABLE with what was
/// looked for; INCOMPATIBLE when it is no clang, or older than 18.
const Clang& clang();

/// What HIPRTC has built in and the kernels use, put in front of their text: the place of a thread.
std::string_view clang_preamble();
/// What a text is compiled with to a code object.
std::vector<std::string> clang_flags(const std::string& architecture, int runtime_major, bool is_careful = false);

}  // namespace crucible_amd
