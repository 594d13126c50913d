// Asks a plugin what it is in a process of its own (crucible-probe), with a limit of time and memory, and remembers
// what it answered for as long as the file stays the same.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/base/result.hpp"
#include "plugins/loader/policy.hpp"
#include "plugins/loader/probe_record.hpp"
#include "plugins/loader/trust.hpp"

namespace crucible::backend {

/// The helper program: beside a runtime folder, or in ../libexec/crucible of it. Errors: kUnavailable with the places.
Result<std::filesystem::path> find_probe();

enum class ProbeDepth { kQuery, kDevices };  // kDevices also starts the plugin and lists its devices

/// Runs the probe. A plugin that crashes, hangs or ends the process gets a refused step that says so, with what it
/// wrote. Only one thread of the caller waits; no signal handler is installed. A plugin that is started has `options`,
/// as it would in the host. Threads: any. Errors: kUnavailable when there is no probe or it cannot be started.
Result<ProbeAnswer> run_probe(const OpenFile& file, const LoadPolicy& policy, ProbeDepth depth,
                              const std::map<std::string, std::string>& options = {});

/// The answer of an earlier probe of this very file by this version of the host; nothing when there is none, or when
/// the entry is damaged or others could have written it.
std::optional<ProbeAnswer> remembered_answer(const OpenFile& file, const LoadPolicy& policy);

/// Keeps `answer` where it depends on the file alone: refusals that a library, a limit or a restart may mend are not
/// kept. A folder that cannot be written is no error: the next load asks again.
void remember_answer(const OpenFile& file, const LoadPolicy& policy, const ProbeAnswer& answer);

}  // namespace crucible::backend
