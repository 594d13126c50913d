// Which compiler makes code objects for a device: HIPRTC, or clang where HIPRTC is missing or broken. HIPRTC is tried
// on one kernel in a child process first: versions of it crash for devices that they are older than, and would take the
// host with them.
#pragma once

#include <string>

#include "backends/amd/clang.hpp"
#include "backends/amd/device.hpp"
#include "backends/amd/hiprtc.hpp"

namespace crucible_amd {

/// One of the two.
struct Compiler {
  const Hiprtc* hiprtc = nullptr;
  const Clang* clang = nullptr;
  std::string architecture;  // of clang's code; "" where HIPRTC asks the device
  std::string note;          // why it is clang, where the user did not ask for it

  std::string describe() const { return clang != nullptr ? clang->describe() : hiprtc->describe(); }
  std::string file() const { return clang != nullptr ? clang->file : hiprtc->file; }
  /// What it compiles with, for keys of kept programs.
  std::string flags(const Hip& hip, bool is_careful = false) const;
  /// Errors: those of Hiprtc::compile() and Clang::compile(). Threads: any.
  Hiprtc::Compiled compile(const Hip& hip, const std::string& text, const std::string& who,
                           bool is_careful = false) const;
};

/// As option `compiler` says; with `auto` HIPRTC where it loads and passes its trial, else clang. The trial is made
/// once per process, and its verdict kept for that very library and device. Threads: any. Errors:
/// those of hiprtc() and clang(), both where neither can be used; INCOMPATIBLE when clang is to be used and nobody says
/// for which architecture.
const Compiler& compiler_of(crucible_device& device);

/// The same without a trial: what `properties` says.
std::string describe_compiler(const crucible_device& device, std::string& note);

/// "gfx942:sramecc+:xnack-" by option `arch`, else as the runtime tells it; "" when it does not.
std::string architecture_of(const Hip& hip, int device);

/// Compiles one kernel with HIPRTC in a child process that has `seconds`. "" when it makes code, else what happened to
/// it, as "a segmentation fault ends it". Threads: any; the child is a copy of this process with this thread alone.
std::string try_hiprtc(const Hiprtc& compiler, const std::string& architecture, unsigned seconds);

/// The same, by what the host has kept of an earlier trial of that very file for a device of that name.
std::string verdict_on(const Hiprtc& compiler, const std::string& architecture, const std::string& device_name);

}  // namespace crucible_amd
