#include "frontends/cli/bench_peers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "core/base/words.hpp"
#include "core/trace/text.hpp"
#include "frontends/cli/command_words.hpp"
#include "frontends/cli/temporary_folder.hpp"
#include "runtime/judge/compare.hpp"
#include "runtime/judge/noise.hpp"

namespace crucible::cli {
namespace {

/// A compiler may add up in another order and contract products with sums: its results are no eager ones.
constexpr double kCompiledSlack = 100;

struct Recorded {
  std::vector<const trace::Iteration*> iterations;  // the complete ones
  std::vector<const trace::Output*> outputs;        // of these
};

Recorded recorded_of(const Work& work) {
  Recorded recorded;
  for (const trace::Iteration& iteration : work.trace.iterations) {
    if (iteration.complete) recorded.iterations.push_back(&iteration);
  }
  for (const trace::Output& output : work.trace.outputs) {
    if (output.iteration < recorded.iterations.size()) recorded.outputs.push_back(&output);
  }
  return recorded;
}

/// "" when the losses are those that were recorded, else what differs.
std::string judge_losses(const Recorded& recorded, const graph::Variants& variants, const PeerRun& run,
                         double tolerance) {
  for (std::size_t i = 0; i < recorded.iterations.size(); ++i) {
    const std::size_t turn = std::min(i, variants.turns.size() - 1);
    const graph::Program& program = *variants.programs[variants.turns[turn].variant];
    const std::vector<trace::Loss>& losses = recorded.iterations[i]->losses;
    const std::vector<double> here = i < run.losses.size() ? run.losses[i] : std::vector<double>();
    if (here.size() != losses.size())
      return fmt::format("iteration {} has {} losses, {} were recorded", i, here.size(), losses.size());
    for (std::size_t k = 0; k < losses.size(); ++k) {
      const double difference = runtime::relative_difference(here[k], losses[k].value);
      const double rounding = k < program.outputs.size() && program.outputs[k].is_number()
                                  ? runtime::rounding_of_loss(program, program.outputs[k])
                                  : 0;
      if (difference <= tolerance || std::fabs(here[k] - losses[k].value) <= rounding) continue;
      return fmt::format(
          "the loss of iteration {} is {:.9g}, {:.9g} was recorded (they differ by {:.2g}, more than {:g})", i, here[k],
          losses[k].value, difference, tolerance);
    }
  }
  return "";
}

DType dtype_of(const std::string& name) {
  if (name == "float16") return DType::kF16;
  if (name == "bfloat16") return DType::kBF16;
  return DType::kF32;
}

/// The same of what modules returned. An output that was recorded must be there.
std::string judge_outputs(const Recorded& recorded, const PeerRun& run, double slack) {
  for (const trace::Output* const wanted : recorded.outputs) {
    const auto found = std::ranges::find_if(run.outputs, [&](const PeerOutput& output) {
      return output.iteration == wanted->iteration && output.name == wanted->name;
    });
    if (found == run.outputs.end() || !found->is_recorded)
      return fmt::format("iteration {} gave back no {}", wanted->iteration, wanted->name);
    if (found->is_equal) continue;
    const double tolerance = runtime::output_tolerance(dtype_of(found->dtype)) * slack;
    if (found->max_rel_diff && *found->max_rel_diff <= tolerance) continue;
    return fmt::format("iteration {}: output {} {}", wanted->iteration, wanted->name,
                       found->max_rel_diff ? fmt::format("differs by {:.3g} of its largest value, more than {:g}",
                                                         *found->max_rel_diff, tolerance)
                                           : std::string("has another size, or is no number"));
  }
  return "";
}

std::string judge(const Recorded& recorded, const graph::Variants& variants, const PeerRun& run, double slack) {
  if (std::string words = judge_losses(recorded, variants, run, runtime::tolerances_of(variants).loss * slack);
      !words.empty())
    return words;
  return judge_outputs(recorded, run, slack);
}

Result<void> write_outputs(const Work& work, const Recorded& recorded, const std::filesystem::path& folder) {
  for (const trace::Output* const output : recorded.outputs) {
    CRUCIBLE_TRY(const std::vector<std::byte> bytes, work.trace.blob_store->load(output->blob));
    const std::filesystem::path place = folder / fmt::format("{}.{}", output->iteration, output->name);
    std::ofstream file(place, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) return Error{ErrorCode::kBadInput, fmt::format("cannot write {}", place.string())};
  }
  return {};
}

/// A compiled peer once more, with the draws of an eager one: whether it is these alone that make its losses others.
Result<void> check_with_eager_draws(PeerRequest request, const Recorded& recorded, const graph::Variants& variants,
                                    const std::string& difference, BenchRow& row) {
  request.has_own_random = false;
  CRUCIBLE_TRY(const std::unique_ptr<TorchPeer> peer, TorchPeer::start(std::move(request)));
  CRUCIBLE_TRY(const PeerRun run, peer->run_checked());
  if (!judge(recorded, variants, run, kCompiledSlack).empty())
    return Error{ErrorCode::kCheckFailed, "it computes something else: " + difference};
  row.note = "losses as recorded with eager's random numbers; timed with its own";
  return {};
}

}  // namespace

Result<std::vector<std::string>> peer_command(const PeerOptions& options, const Work& work, const std::string& file) {
  const std::string& recorded = work.trace.metadata.command;
  if (work.trace.iterations.empty())
    return Error{ErrorCode::kUsage,
                 fmt::format("{} is a capsule: no script belongs to it, so --peers cannot run", file)};
  if (work.trace.metadata.world_size.value_or(1) > 1) {
    return Error{ErrorCode::kUsage,
                 fmt::format("{} was recorded as one of {} processes; peers are programs of one process", file,
                             *work.trace.metadata.world_size)};
  }
  if (options.script.empty()) {
    constexpr const char* kAgain = "--peers runs the program again: give --script with its command";
    if (recorded.empty()) return Error{ErrorCode::kUsage, fmt::format("{}; {} does not say it", kAgain, file)};
    return Error{ErrorCode::kUsage,
                 fmt::format("{}. The recording was made by `{}`; --script recorded runs that, if you trust {}", kAgain,
                             printable(recorded), file)};
  }
  CRUCIBLE_TRY(std::vector<std::string> words, words_of(options.script == "recorded" ? recorded : options.script));
  if (words.empty())
    return Error{ErrorCode::kUsage,
                 options.script == "recorded" ? file + " has no command: give --script with one" : "--script is empty"};
  return words;
}

Result<std::unique_ptr<TorchPeer>> prepare_peer(const PeerOptions& options, const std::vector<std::string>& command,
                                                const Work& work, const graph::Variants& variants, BenchRow& row) {
  CRUCIBLE_TRY(const PeerKind kind, peer_kind_of(row.name));
  CRUCIBLE_TRY(const TemporaryFolder outputs, TemporaryFolder::create());
  const Recorded recorded = recorded_of(work);
  CRUCIBLE_TRY_VOID(write_outputs(work, recorded, outputs.path()));
  const PeerRequest request{.kind = kind,
                            .command = command,
                            .threads = options.threads,
                            .warmup = work.trace.metadata.warmup_iterations,
                            .iterations = static_cast<std::uint32_t>(variants.turns.size()),
                            .end_of_iteration = options.end_of_iteration,
                            .outputs = outputs.path(),
                            .patience_seconds = options.patience_seconds};
  CRUCIBLE_TRY(std::unique_ptr<TorchPeer> peer, TorchPeer::start(request));
  const PeerFacts& facts = peer->facts();
  row.device = fmt::format("{}, torch {}", facts.device, facts.torch);
  row.torch = facts.torch;
  row.threads = facts.threads;
  row.is_cpu = facts.device == "cpu";
  row.compile_ns = facts.warmup_ns;
  CRUCIBLE_TRY(const PeerRun run, peer->run_checked());
  const bool has_losses = std::ranges::any_of(
      recorded.iterations, [](const trace::Iteration* iteration) { return !iteration->losses.empty(); });
  if (!has_losses && recorded.outputs.empty()) {
    return Error{ErrorCode::kCheckFailed, "the recording has no loss and no output with which it could be compared"};
  }
  row.note = has_losses ? "losses as recorded" : "outputs as recorded";
  if (const std::string difference = judge(recorded, variants, run, kind.compile == "inductor" ? kCompiledSlack : 1);
      !difference.empty()) {
    if (kind.compile != "inductor") {
      return Error{ErrorCode::kCheckFailed,
                   fmt::format("it is not what was recorded: {}; give --script with the command that was", difference)};
    }
    CRUCIBLE_TRY_VOID(check_with_eager_draws(request, recorded, variants, difference, row));
  }
  row.is_verified = true;
  return peer;
}

runtime::Turn turn_of(TorchPeer& peer, std::uint32_t iterations, std::function<std::optional<double>()> joules) {
  return [&peer, iterations, joules = std::move(joules)]() -> Result<runtime::TurnResult> {
    std::optional<double> before;
    CRUCIBLE_TRY(PeerRun run, peer.run([&] { before = joules ? joules() : std::nullopt; }));
    const std::optional<double> after = before ? joules() : std::nullopt;
    runtime::TurnResult turn{.iteration_ns = runtime::median_of(std::move(run.times_ns))};
    if (after && iterations > 0) turn.joules = (*after - *before) / iterations;
    return turn;
  };
}

}  // namespace crucible::cli
