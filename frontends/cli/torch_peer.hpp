// A peer of `crucible bench`: the program that was recorded, run again in a process of its own by the framework itself,
// stopped at the end of an iteration and told when to go on. The process's side is
// frontends/torch/package/crucible_torch/peer.py, which has the protocol.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "frontends/cli/child_process.hpp"
#include "frontends/cli/temporary_folder.hpp"

namespace crucible::cli {

/// What the framework does in a peer: "eager" nothing beyond the program; "compile" and "compile:MODE" torch.compile
/// around its outermost modules; "cudagraphs" their eager kernels as CUDA graphs.
struct PeerKind {
  std::string name;
  std::string compile = "";  // the compiler behind torch.compile; "": none
  std::string mode = "default";
};

/// Errors: kUsage, with the names that there are.
Result<PeerKind> peer_kind_of(const std::string& name);

struct PeerRequest {
  PeerKind kind;
  std::vector<std::string> command;   // at least one word
  unsigned threads = 0;               // 0: as many as the framework takes
  std::uint32_t warmup = 0;           // iterations that pass before the first one that counts
  std::uint32_t iterations = 0;       // in one turn, at least one
  std::string end_of_iteration = "auto";  // as of `crucible record`: auto, optimizer, step or module
  std::filesystem::path outputs = {};  // a folder with the recorded outputs, one file ITERATION.NAME each; "": none
  bool has_own_random = true;         // false: a compiled peer draws what an eager one would
  int patience_seconds = 900;         // for which it may say nothing
};

/// What the framework said when it had warmed up.
struct PeerFacts {
  std::string torch, device;
  unsigned threads = 0;
  std::uint64_t warmup_ns =
      0;  // from the end of its import to the end of the warm-up: building the model and compiling it
};

struct PeerOutput {
  std::uint32_t iteration = 0;
  std::string name, dtype;
  bool is_recorded = false, is_equal = false;
  std::optional<double> max_rel_diff =
      {};  // of the largest recorded value; nothing where the sizes differ or it is no number
};

struct PeerRun {
  std::vector<double> times_ns;             // one per iteration
  std::vector<std::vector<double>> losses;  // likewise, where it was asked for
  std::vector<PeerOutput> outputs;
};

/// Threads: one at a time.
class TorchPeer {
 public:
  /// Starts the program and waits until it has warmed up. Errors: kUnavailable with one sentence: why it cannot be run,
  /// how it ended, or that no iteration was seen, and what to do.
  static Result<std::unique_ptr<TorchPeer>> start(PeerRequest request);

  const PeerFacts& facts() const { return facts_; }
  /// The next iterations, with what they computed. Right after start() they are those that were recorded. Errors: as
  /// start().
  Result<PeerRun> run_checked();
  /// The next iterations. A program that ends within them is started again, and these are then its first ones after the
  /// warm-up. `begins` is called when they are about to run, once more where they begin anew. Errors: as start().
  Result<PeerRun> run(const std::function<void()>& begins);

 private:
  explicit TorchPeer(PeerRequest request, TemporaryFolder folder)
      : request_(std::move(request)), folder_(std::move(folder)) {}
  Result<void> launch();
  Result<nlohmann::json> run_once(bool is_checked);
  Error why_not(const nlohmann::json& event);
  std::string last_error() const;

  PeerRequest request_;
  TemporaryFolder folder_;
  std::unique_ptr<ChildProcess> child_;  // null: to be started
  PeerFacts facts_;
  unsigned started_ = 0;
};

}  // namespace crucible::cli
