// The peers of `crucible bench`: which command runs them, and whether they compute what was recorded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/graph/variants.hpp"
#include "frontends/cli/bench_rows.hpp"
#include "frontends/cli/torch_peer.hpp"
#include "frontends/replay/read_work.hpp"

namespace crucible::cli {

using namespace replay;

struct PeerOptions {
  std::vector<std::string> names;  // of peer_kind_of()
  std::string script;              // a command line, or "recorded": the one that the recording has
  unsigned threads = 0;            // 0: as many as the backend on the processors
  std::string end_of_iteration = "auto";
  int patience_seconds = 900;
};

/// The command that runs a recording's program again. It is never taken from the recording unless the user says so: a
/// recording may come from somebody else, and its command runs with the user's rights. Errors: kUsage, with the command
/// that the recording has.
Result<std::vector<std::string>> peer_command(const PeerOptions& options, const Work& work, const std::string& file);

/// Starts the peer, runs the recorded iterations and compares what they gave - losses, or what modules returned - with
/// the recording. Fills the row's device, torch, threads, note and compile_ns. Errors: why it is not timed.
Result<std::unique_ptr<TorchPeer>> prepare_peer(const PeerOptions& options, const std::vector<std::string>& command,
                                                const Work& work, const graph::Variants& variants, BenchRow& row);

/// A turn of a peer that prepare_peer() gave. `joules` as in runtime::turn_of().
runtime::Turn turn_of(TorchPeer& peer, std::uint32_t iterations, std::function<std::optional<double>()> joules);

}  // namespace crucible::cli
