#include "frontends/runlog/log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace crucible::runlog {
namespace {

constexpr std::size_t kEnvelopeDepth = 4;

/// Whether the first line is at least the beginning of one of a log: then what is wrong with it is damage.
bool begins_as_log(std::string_view line) {
  const std::string opening = fmt::format(R"({{"payloadType":"{}",)", kRecordType);
  return line.substr(0, opening.size()) == std::string_view(opening).substr(0, line.size());
}

/// Of what is signed and of who signed it: a chain tells what was changed in a line by the next one, and the last line
/// has none.
std::string checksum_of(const store::Envelope& envelope) {
  std::string bytes = store::signed_bytes(envelope.type, envelope.payload);
  for (std::size_t at = 1; at < envelope.signatures.size(); ++at) {  // the first has the sum itself
    const store::Signature& signature = envelope.signatures[at];
    bytes += fmt::format("\n{} {}", signature.key_id, store::to_base64(signature.bytes));
  }
  const ContentHash hash = sha256(std::as_bytes(std::span(bytes)));
  return {reinterpret_cast<const char*>(hash.bytes.data()), hash.bytes.size()};
}

/// `text`: without its line feed.
Result<Line> parse_line(std::string_view text) {
  if (text.size() > kLineLimit) {
    return Error{ErrorCode::kBadInput, fmt::format("it has {} bytes, the limit is {}", text.size(), kLineLimit)};
  }
  if (!is_shallow(text, kEnvelopeDepth)) return Error{ErrorCode::kBadInput, "its JSON is nested too deep"};
  Line line;
  CRUCIBLE_TRY(line.envelope, store::parse_envelope(text));
  if (line.envelope.type != kRecordType) {
    return Error{ErrorCode::kBadInput, fmt::format("it holds {}, not {}", line.envelope.type, kRecordType)};
  }
  const std::vector<store::Signature>& signatures = line.envelope.signatures;
  if (signatures.empty() || signatures[0].key_id != kChecksumKey) {
    return Error{ErrorCode::kBadInput, "it lacks its checksum"};
  }
  if (signatures[0].bytes != checksum_of(line.envelope)) {
    return Error{ErrorCode::kBadInput, "it was changed: its checksum is another one"};
  }
  for (std::size_t at = 1; at < signatures.size(); ++at) line.keys.push_back(signatures[at].key_id);
  CRUCIBLE_TRY(line.record, parse_record(line.envelope.payload));
  // One way to write a line: else two files would say the same, and the last line could be changed unseen.
  const std::string again = store::to_json(line.envelope);
  if (std::string_view(again).substr(0, again.size() - 1) != text) {
    return Error{ErrorCode::kBadInput, "it was changed: it is not written as crucible writes it"};
  }
  line.hash = hash_of_line(text);
  return line;
}

/// Where the record may not stand; "": it may. Else the run that it belongs to has it.
std::string add(Log& log, const Line& line) {
  const std::size_t place = log.lines.size();
  if (std::holds_alternative<RunBegin>(line.record.content)) {
    log.runs.push_back({.first = place, .count = 1, .iterations = {}, .moves = {}, .end = {}});
    return "";
  }
  if (log.runs.empty() || log.runs.back().end) return "no run is going on that it could belong to";
  Run& run = log.runs.back();
  if (const auto* const iteration = std::get_if<IterationRecord>(&line.record.content)) {
    if (!run.iterations.empty() && log.iteration(run.iterations.back()).index >= iteration->index)
      return "its iteration does not come after the one before";
    if (iteration->index >= log.begin(run).iterations) return "its iteration is beyond those that were to run";
    run.iterations.push_back(place);
  } else if (std::holds_alternative<Moved>(line.record.content)) {
    run.moves.push_back(place);
  } else {
    const RunEnd& end = std::get<RunEnd>(line.record.content);
    const bool is_last = !run.iterations.empty() && log.iteration(run.iterations.back()).index + 1 == end.iterations;
    if (end.state && is_last && log.iteration(run.iterations.back()).state != *end.state)
      return "the state at the end is not that after the last iteration";
    run.end = place;
  }
  ++run.count;
  return "";
}

}  // namespace

const ContentHash& Log::last_state(const Run& run) const {
  if (const RunEnd* const at_end = end(run); at_end != nullptr && at_end->state) return *at_end->state;
  return run.iterations.empty() ? begin(run).state : iteration(run.iterations.back()).state;
}

ContentHash hash_of_line(std::string_view line) { return sha256(std::as_bytes(std::span(line))); }

std::string sealed(const Record& record, const std::optional<store::SecretKey>& key) {
  store::Envelope envelope{std::string(kRecordType), to_json(record), {}};
  envelope.signatures.push_back({std::string(kChecksumKey), {}});
  if (key) {
    envelope.signatures.push_back(
        {key->public_key().id(), key->sign(store::signed_bytes(envelope.type, envelope.payload))});
  }
  envelope.signatures[0].bytes = checksum_of(envelope);
  return store::to_json(envelope);
}

Result<Log> read_log_text(std::string_view text, const std::string& file) {
  Log log{.file = file, .lines = {}, .runs = {}, .fault = {}};
  ContentHash previous;
  while (!text.empty() && !log.fault) {
    const std::size_t number = log.lines.size() + 1, size = std::min(text.find('\n'), text.size());
    const bool is_torn = size == text.size();
    Result<Line> line = parse_line(text.substr(0, size));
    // A line that lacks no more than its line feed is no line either: what follows it would be written behind it.
    if (number == 1 && !begins_as_log(text.substr(0, size))) {
      return Error{ErrorCode::kBadInput,
                   fmt::format("{} is no run log: line 1: {}; crucible replay --log FILE makes one", file,
                               line ? "it begins otherwise" : line.error().message)};
    }
    if (is_torn) {
      log.fault = {number, "it is torn: whoever wrote it was ended meanwhile, or the file was cut off", true};
    } else if (!line && line.error().code == ErrorCode::kUnavailable) {
      return Error{ErrorCode::kBadInput, fmt::format("{}: line {}: {}", file, number, line.error().message)};
    } else if (!line) {
      log.fault = {number, line.error().message};
    } else if (line->record.previous != previous) {
      log.fault = {number, fmt::format("it names {} as the line before, which is {}: lines were changed, taken out or "
                                       "put in here",
                                       line->record.previous.hex().substr(0, 12), previous.hex().substr(0, 12))};
    } else if (std::string why = add(log, *line); !why.empty()) {
      log.fault = {number, std::move(why)};
    } else {
      previous = line->hash;
      log.lines.push_back(*std::move(line));
      text.remove_prefix(size + 1);
    }
  }
  return log;
}

Result<Log> read_log(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status{};
  if (descriptor < 0 || fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    const int reason = errno;
    if (descriptor >= 0) close(descriptor);
    return Error{ErrorCode::kBadInput, fmt::format("cannot read {}: {}", file.string(),
                                                   descriptor < 0 ? std::strerror(reason)
                                                                  : "it is no file; crucible replay --log FILE "
                                                                    "makes one")};
  }
  if (static_cast<std::uintmax_t>(status.st_size) > kFileLimit) {
    close(descriptor);
    return Error{ErrorCode::kBadInput,
                 fmt::format("{} has {} bytes, and a run log at most {}", file.string(), status.st_size, kFileLimit)};
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t size = ::read(descriptor, text.data() + have, text.size() - have);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      const int reason = errno;
      close(descriptor);
      return Error{ErrorCode::kBadInput, fmt::format("cannot read {}: {}", file.string(), std::strerror(reason))};
    }
    if (size == 0) break;
    have += static_cast<std::size_t>(size);
  }
  close(descriptor);
  text.resize(have);
  return read_log_text(text, file.string());
}

std::optional<Fault> fault_of_signatures(const Log& log, const std::vector<store::PublicKey>& keys) {
  const store::Trust trust{.policy = store::Policy::kEnforce, .keys = keys};
  for (std::size_t at = 0; at < log.lines.size(); ++at) {
    const Line& line = log.lines[at];
    const std::string why = store::fault_of(line.envelope, trust);
    if (why.empty()) continue;
    if (line.keys.empty()) return Fault{at + 1, "it is not signed"};
    const bool is_ours = std::ranges::any_of(
        keys, [&](const store::PublicKey& key) { return std::ranges::count(line.keys, key.id()) > 0; });
    return Fault{at + 1,
                 is_ours ? "its signature is wrong: it was changed"
                         : fmt::format("key {} signed it, which is none of those given", line.keys[0].substr(0, 12))};
  }
  return std::nullopt;
}

Result<std::size_t> find_run(const Log& log, std::string_view prefix) {
  std::optional<std::size_t> found;
  for (std::size_t at = 0; at < log.runs.size(); ++at) {
    if (prefix.empty() || !log.id(log.runs[at]).hex().starts_with(prefix)) continue;
    if (found) {
      return Error{ErrorCode::kUsage, fmt::format("{}: runs {} and {} both begin with {}: give more digits", log.file,
                                                  log.id(log.runs[*found]).hex().substr(0, 16),
                                                  log.id(log.runs[at]).hex().substr(0, 16), prefix)};
    }
    found = at;
  }
  if (!found) {
    return Error{ErrorCode::kUsage, fmt::format("{} has no run whose name begins with '{}': crucible log {} lists them",
                                                log.file, prefix, log.file)};
  }
  return *found;
}

}  // namespace crucible::runlog
