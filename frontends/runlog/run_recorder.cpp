#include "frontends/runlog/run_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/version.hpp"
#include "core/merkle/region.hpp"
#include "core/trace/content_hash.hpp"
#include "core/trace/mapped_file.hpp"
#include "frontends/aten/recording/branches.hpp"
#include "frontends/replay/receipt.hpp"
#include "frontends/runlog/content.hpp"
#include "runtime/run/capsule.hpp"

namespace crucible::runlog {
namespace {

constexpr std::size_t kMostLosses = 16, kMostWords = 4000;
constexpr std::size_t kMostPayload = 2u << 20;  // a line of it, as base64, is below the limit

std::string now_in_words() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  char text[32] = "";
  if (gmtime_r(&now.tv_sec, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text, now.tv_nsec / 1'000'000);
}

std::string text_of(const nlohmann::ordered_json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Machine machine_of(const replay::OpenedDevice& opened) {
  if (!opened.device) {
    Machine machine;
    machine.backend = replay::kReferenceBackend;
    return machine;
  }
  const nlohmann::ordered_json plugin = replay::plugin_json(opened.settings, opened.plugin, opened.device->backend());
  const nlohmann::ordered_json device = replay::device_json(*opened.device);
  Machine machine{.backend = opened.plugin,  // as --backend has it
                  .version = text_of(plugin, "version"),
                  .build_id = text_of(plugin, "build_id"),
                  .library = text_of(plugin, "sha256"),
                  .device = text_of(device, "id"),
                  .name = text_of(device, "name"),
                  .uuid = text_of(device, "uuid"),
                  .driver = text_of(device, "driver"),
                  .mathematics = {},
                  .emulated = opened.device->info().emulated};
  if (const auto properties = device.find("properties"); properties != device.end() && properties->is_object())
    machine.mathematics = text_of(*properties, "math");
  return machine;
}

std::string shortened(std::string words) {
  if (words.size() > kMostWords) words.resize(kMostWords);
  return words;
}

}  // namespace

Source source_of(const std::string& file, const trace::Trace& trace) {
  Source source{.file = std::filesystem::path(file).filename().string(), .content = {}};
  if (!runtime::is_capsule(file)) {
    source.content = trace::hash_content(trace).content;
  } else if (const Result<trace::MappedFile> capsule = trace::MappedFile::open(file); capsule) {
    source.content = sha256(capsule->bytes());
  }
  return source;
}

ProgramName program_name(const trace::Trace& trace, const graph::Variants& variants) {
  std::vector<ContentHash> constants;
  for (const trace::Blob& blob : trace.blobs) constants.push_back(blob.hash);
  graph::Branches branches;
  if (variants.programs.size() > 1) branches = aten::find_branches(trace, variants);
  return {.hash = hash_of_programs(variants, trace.blobs),
          .merkle = merkle::regions_of(variants, branches, constants).root().merkle,
          .variants = variants.programs.size()};
}

Result<void> RunRecorder::begin(replay::Replay& replay, const RunFacts& facts) {
  CRUCIBLE_TRY_VOID(replay.start());
  iterations_ = facts.iterations == 0 ? replay.iterations() : facts.iterations;
  every_ = facts.every != 0 ? facts.every : std::max(1u, (iterations_ + RunFacts::kMost - 1) / RunFacts::kMost);
  const auto read = [this](runtime::Session& session) -> Result<void> {
    CRUCIBLE_TRY(states_, states_of(session));
    return {};
  };
  CRUCIBLE_TRY_VOID(replay.ask(read));
  is_current_ = true;
  RunBegin run{.started = now_in_words(),
               .tool = kNameAndVersion,
               .source = source_of(facts.file, replay.trace()),
               .program = program_name(replay.trace(), replay.variants()),
               .iterations = iterations_,
               .every = every_,
               .numerics = replay.opened().settings.text("numerics"),
               .options = facts.options,
               .machine = machine_of(replay.opened()),
               .states = states_.size(),
               .state = root_of(states_)};
  sink_({.previous = {}, .content = std::move(run)});
  has_begun_ = true;
  return {};
}

void RunRecorder::note_losses(const replay::Replay& replay) {
  const std::vector<runtime::DeviceLoss> losses = replay.losses();
  for (; losses_ < losses.size(); ++losses_) {
    const runtime::DeviceLoss& loss = losses[losses_];
    sink_({.previous = {},
           .content = Moved{.from = loss.device,
                            .reason = shortened(loss.when + ": " + loss.reason),
                            .first = loss.from_iteration,
                            .machine = machine_of(replay.opened())}});
  }
}

Result<void> RunRecorder::log_iteration(replay::Replay& replay, std::uint32_t index) {
  IterationRecord record{.index = index,
                         .variant = replay.variants().turns[index].variant,
                         .inputs = hash_of_inputs(replay.variants(), index, replay.trace().blobs),
                         .slots = hash_of_slots(replay.variants(), index),
                         .state = {},
                         .outputs = {},
                         .losses = {}};
  const auto read = [&](runtime::Session& session) -> Result<void> {
    CRUCIBLE_TRY(record.outputs, hash_of_outputs(session, replay.variants(), index, replay.results()[index]));
    CRUCIBLE_TRY(states_, states_of(session));
    return {};
  };
  CRUCIBLE_TRY_VOID(replay.ask(read));
  note_losses(replay);
  const std::vector<double>& losses = replay.results()[index].losses;
  for (std::size_t k = 0; k < std::min(losses.size(), kMostLosses); ++k) record.losses.emplace_back(losses[k]);
  record.state = root_of(states_);
  is_current_ = true;
  sink_({.previous = {}, .content = std::move(record)});
  return {};
}

Result<int> RunRecorder::run(replay::Replay& replay, const std::function<int()>& interrupted) {
  while (ran_ < iterations_) {
    if (const int signal = interrupted(); signal != 0) {
      const auto read = [this](runtime::Session& session) -> Result<void> {
        CRUCIBLE_TRY(states_, states_of(session));
        return {};
      };
      is_current_ = is_current_ || replay.ask(read);
      end({.ending = Ending::kInterrupted,
           .words = fmt::format("SIG{}", sigabbrev_np(signal)),
           .iterations = {},
           .verified = {},
           .state = {},
           .states = {}});
      return signal;
    }
    is_current_ = false;
    CRUCIBLE_TRY_VOID(replay.run(ran_ + 1));
    ++ran_;
    note_losses(replay);
    if (ran_ % every_ == 0 || ran_ == iterations_) CRUCIBLE_TRY_VOID(log_iteration(replay, ran_ - 1));
  }
  return 0;
}

void RunRecorder::end(RunEnd end) {
  if (!has_begun_ || has_ended_) return;
  has_ended_ = true;
  end.iterations = ran_;
  if (is_current_) {
    end.state = root_of(states_);
    end.states = states_;
  }
  Record record{.previous = {}, .content = std::move(end)};
  if (to_json(record).size() > kMostPayload) std::get<RunEnd>(record.content).states.clear();
  sink_(record);
}

void RunRecorder::done(std::optional<bool> verified) {
  end({.ending = Ending::kDone, .words = {}, .iterations = {}, .verified = verified, .state = {}, .states = {}});
}

void RunRecorder::failed(const std::string& why) {
  end({.ending = Ending::kFailed,
       .words = shortened(why),
       .iterations = {},
       .verified = {},
       .state = {},
       .states = {}});
}

}  // namespace crucible::runlog
