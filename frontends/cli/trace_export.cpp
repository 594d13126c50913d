// Both formats are written op by op, so that a long recording needs no more memory than itself.
#include "frontends/cli/trace_export.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/words.hpp"
#include "core/trace/summary.hpp"
#include "core/trace/text.hpp"
#include "frontends/cli/trace_json.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;
using trace::Op;
using trace::Trace;

std::string one_line(const ordered_json& document) {
  return json_without_commands(document.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

// --- JSON lines ---

ordered_json header_json(const Trace& trace, const std::string& file) {
  ordered_json header = {{"format", "crucible-trace-jsonl"},
                         {"version", 1},
                         {"file", file},
                         {"framework", trace.metadata.framework},
                         {"frontend", trace.metadata.frontend},
                         {"device", trace.metadata.device},
                         {"command", trace.metadata.command},
                         {"created", trace.metadata.created},
                         {"incomplete_reason", trace.metadata.incomplete_reason},
                         {"ops", trace.ops.size()}};
  header["iterations"] = ordered_json::array();
  for (const trace::Iteration& iteration : trace.iterations) {
    ordered_json losses = ordered_json::array();
    for (const trace::Loss& loss : iteration.losses)
      losses.push_back({{"tensor", loss.tensor}, {"value", number_json(loss.value)}});
    header["iterations"].push_back({{"first_op", iteration.first_op},
                                    {"ops", iteration.op_count},
                                    {"complete", iteration.complete},
                                    {"losses", std::move(losses)}});
  }
  JsonMembers schemas;
  for (const trace::Schema& schema : trace.schemas) schemas.add(schema.full_name(), schema.text);
  header["schemas"] = schemas.take();
  return header;
}

/// What belongs to one op, by the op's number.
class Attachments {
 public:
  explicit Attachments(const Trace& trace) : trace_(trace) {
    for (const trace::External& external : trace.externals) externals_[external.op].push_back(&external);
    for (const trace::Draw& draw : trace.draws) draws_[draw.op].push_back(&draw);
  }

  void add_to(std::uint32_t op, ordered_json& document) const {
    document["externals"] = ordered_json::array();
    if (const auto found = externals_.find(op); found != externals_.end()) {
      for (const trace::External* external : found->second) {
        document["externals"].push_back({{"storage", external->storage},
                                         {"role", name(external->role)},
                                         {"name", external->name},
                                         {"bytes", trace_.blobs[external->blob].size_bytes},
                                         {"sha256", trace_.blobs[external->blob].hash.hex()}});
      }
    }
    document["draws"] = ordered_json::array();
    if (const auto found = draws_.find(op); found != draws_.end()) {
      for (const trace::Draw* draw : found->second)
        document["draws"].push_back({{"output", draw->output}, {"sha256", trace_.blobs[draw->blob].hash.hex()}});
    }
    if (trace_.op_hashes.empty()) return;
    document["hashes"] = ordered_json::array();
    for (const std::uint64_t hash : trace_.op_hashes[op]) document["hashes"].push_back(fmt::format("{:016x}", hash));
  }

 private:
  const Trace& trace_;
  std::map<std::uint32_t, std::vector<const trace::External*>> externals_;
  std::map<std::uint32_t, std::vector<const trace::Draw*>> draws_;
};

// --- Chrome ---

/// The slices that are open on one thread, outermost first.
struct Track {
  struct Slice {
    std::string name;
    const char* category;
    bool operator==(const Slice&) const = default;
  };
  std::vector<Slice> open;
  std::uint64_t end = 0;  // of its last op
};

class ChromeWriter {
 public:
  ChromeWriter(const Trace& trace, TextSink& sink) : trace_(trace), sink_(sink) {}

  void run(const std::string& file) {
    const std::string note = "positions are op numbers, not time: a recording has no times";
    sink_.append("{\"displayTimeUnit\":\"ms\",\"otherData\":" +
                 one_line({{"note", note}, {"file", file}, {"framework", trace_.metadata.framework}}) +
                 ",\"traceEvents\":[\n");
    event({{"ph", "M"}, {"pid", 1}, {"name", "process_name"}, {"args", {{"name", "op numbers, not time: " + file}}}});
    for (std::size_t i = 0; i < trace_.iterations.size(); ++i) {
      const trace::Iteration& iteration = trace_.iterations[i];
      for (std::uint32_t k = 0; k < iteration.op_count; ++k) write_op(i, iteration.first_op + k);
    }
    for (auto& [thread, track] : tracks_) close(thread, track, 0);
    sink_.append("\n]}\n");
  }

 private:
  void event(const ordered_json& document) {
    sink_.append((is_first_ ? "" : ",\n") + one_line(document));
    is_first_ = false;
  }

  Track& track_of(std::uint32_t thread) {
    const auto [found, is_new] = tracks_.try_emplace(thread);
    if (is_new) {
      event({{"ph", "M"},
             {"pid", 1},
             {"tid", thread},
             {"name", "thread_name"},
             {"args", {{"name", fmt::format("thread {} (op numbers, not time)", thread)}}}});
    }
    return found->second;
  }

  void close(std::uint32_t thread, Track& track, std::size_t depth) {
    for (; track.open.size() > depth; track.open.pop_back())
      event({{"ph", "E"}, {"pid", 1}, {"tid", thread}, {"ts", track.end}, {"name", track.open.back().name}});
  }

  /// Iteration, phase, then "blocks", "blocks.0", "blocks.0.norm1".
  std::vector<Track::Slice> slices_of(std::size_t iteration, const Op& op) const {
    std::vector<Track::Slice> slices = {{fmt::format("iteration {}", iteration), "iteration"},
                                        {std::string(name(op.phase)), "phase"}};
    if (op.module == trace::kNone) return slices;
    const std::string& path = trace_.modules[op.module];
    for (std::size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', dot + 1))
      slices.push_back({path.substr(0, dot), "module"});
    slices.push_back({path, "module"});
    return slices;
  }

  void write_op(std::size_t iteration, std::uint32_t index) {
    const Op& op = trace_.ops[index];
    Track& track = track_of(op.thread);
    const std::vector<Track::Slice> slices = slices_of(iteration, op);
    std::size_t same = 0;
    while (same < slices.size() && same < track.open.size() && slices[same] == track.open[same]) ++same;
    close(op.thread, track, same);
    for (; same < slices.size(); ++same) {
      event({{"ph", "B"},
             {"pid", 1},
             {"tid", op.thread},
             {"ts", index},
             {"name", slices[same].name},
             {"cat", slices[same].category}});
      track.open.push_back(slices[same]);
    }
    event({{"ph", "X"},
           {"pid", 1},
           {"tid", op.thread},
           {"ts", index},
           {"dur", 1},
           {"name", trace_.schemas[op.schema].full_name()},
           {"cat", "op"},
           {"args", {{"op", index}, {"site", trace_.site_text(op.site)}, {"call", trace::op_text(compounds_, op)}}}});
    track.end = std::uint64_t{index} + 1;
  }

  const Trace& trace_;
  const trace::Compounds compounds_{trace_};
  TextSink& sink_;
  bool is_first_ = true;
  std::map<std::uint32_t, Track> tracks_;
};

}  // namespace

void export_jsonl(const Trace& trace, const std::string& file, TextSink& sink) {
  sink.append(one_line(header_json(trace, file)) + "\n");
  const Attachments attachments(trace);
  const trace::Compounds compounds(trace);
  for (std::size_t i = 0; i < trace.iterations.size(); ++i) {
    const trace::Iteration& iteration = trace.iterations[i];
    for (std::uint32_t k = 0; k < iteration.op_count; ++k) {
      ordered_json document = op_json(compounds, i, iteration.first_op + k, true);
      attachments.add_to(iteration.first_op + k, document);
      sink.append(one_line(document) + "\n");
    }
  }
}

void export_chrome(const Trace& trace, const std::string& file, TextSink& sink) { ChromeWriter(trace, sink).run(file); }

}  // namespace crucible::cli
