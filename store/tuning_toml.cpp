// Tuning records as text and back. What is read is the TOML that lists of flat tables need: `[[sample]]`, a key and a
// text or a number on a line, comments. A whole TOML parser is much more than strangers' files need here.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

#include "store/key.hpp"
#include "store/tuning.hpp"

namespace crucible::store {
namespace {

/// A basic string of TOML; bytes that are no ASCII stay as they are.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

bool is_id(std::string_view id) {
  return id.size() == 32 && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

using Scalar = std::variant<std::string, double, std::int64_t>;
using Table = std::map<std::string, Scalar, std::less<>>;

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) return put(0xc0 | code >> 6), put(0x80 | (code & 63));
  if (code < 0x10000) return put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
  put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 63)), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool is_rest_empty(std::string_view rest) { return trimmed(rest).empty() || trimmed(rest).front() == '#'; }

/// A basic string at the front of `text`, which then begins after it. Nothing: it is none.
std::optional<std::string> take_string(std::string_view& text) {
  static constexpr std::pair<char, char> kShort[] = {{'b', '\b'}, {'t', '\t'}, {'n', '\n'}, {'f', '\f'},
                                                     {'r', '\r'}, {'"', '"'},  {'\\', '\\'}};
  std::string out;
  for (std::size_t at = 1; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') {
      text.remove_prefix(at + 1);
      return out;
    }
    if (static_cast<unsigned char>(c) < 0x20 && c != '\t') return std::nullopt;
    if (c != '\\') {
      out += c;
      continue;
    }
    if (++at == text.size()) return std::nullopt;
    const char escape = text[at];
    bool is_known = false;
    for (const auto& [letter, meaning] : kShort) {
      if (letter != escape) continue;
      out += meaning;
      is_known = true;
    }
    if (is_known) continue;
    const std::size_t digits = escape == 'u' ? 4 : escape == 'U' ? 8 : 0;
    if (digits == 0 || text.size() - at - 1 < digits) return std::nullopt;
    std::uint32_t code = 0;
    const char* const begin = text.data() + at + 1;
    const auto [end, error] = std::from_chars(begin, begin + digits, code, 16);
    if (error != std::errc() || end != begin + digits || code > 0x10ffff || (code >> 11) == 27) return std::nullopt;
    append_utf8(out, code);
    at += digits;
  }
  return std::nullopt;
}

/// The value that is all of `text`, but for a comment.
std::optional<Scalar> scalar(std::string_view text) {
  if (text.starts_with('"')) {
    std::optional<std::string> string = take_string(text);
    if (!string || !is_rest_empty(text)) return std::nullopt;
    return *std::move(string);
  }
  text = trimmed(text.substr(0, text.find('#')));
  std::int64_t integer = 0;
  double number = 0;
  const char* const end = text.data() + text.size();
  if (const auto whole = std::from_chars(text.data(), end, integer); whole.ec == std::errc() && whole.ptr == end) {
    return integer;
  }
  const auto real = std::from_chars(text.data(), end, number);
  if (real.ec == std::errc() && real.ptr == end && std::isfinite(number)) return number;
  return std::nullopt;
}

Error refused(std::size_t line, std::string_view why) {
  return {ErrorCode::kBadInput, fmt::format("tuning records, line {}: {}", line, why)};
}

Result<Sample> sample_of(const Table& table, std::size_t line) {
  const auto text = [&](std::string_view name) -> const std::string* {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : std::get_if<std::string>(&found->second);
  };
  const std::string *const id = text("id"), *const action = text("action"), *const candidate = text("candidate"),
                           *const device = text("device"), *const maker = text("maker");
  const auto made = table.find("made_ns"), time = table.find("time_ns");
  if (!id || !action || !candidate || !device || !maker || made == table.end() || time == table.end() ||
      !std::holds_alternative<std::int64_t>(made->second) || std::holds_alternative<std::string>(time->second)) {
    return refused(line,
                   "this sample needs id, action, candidate, device, maker (texts), time_ns and made_ns (numbers)");
  }
  if (!is_id(*id)) return refused(line, "the id of this sample is not 32 hexadecimal digits");
  const Result<ContentHash> hash = parse_hash(*action);
  if (!hash) return refused(line, hash.error().message);
  const double* const real = std::get_if<double>(&time->second);
  const double time_ns = real != nullptr ? *real : static_cast<double>(std::get<std::int64_t>(time->second));
  if (!(time_ns > 0)) return refused(line, "the time_ns of this sample is not positive");
  return Sample{*id, *hash, *candidate, *device, time_ns, *maker, std::get<std::int64_t>(made->second)};
}

}  // namespace

Result<std::string> Tuning::to_toml() {
  std::string out = "# Measured choices of Crucible: a table per sample, times in nanoseconds.\nversion = 1\n";
  CRUCIBLE_TRY_VOID(each([&](const Sample& sample) {
    out += fmt::format(
        "\n[[sample]]\nid = \"{}\"\naction = \"{}\"\ncandidate = {}\ndevice = {}\ntime_ns = {:.17e}\nmaker = {}\n"
        "made_ns = {}\n",
        sample.id, sample.action.hex(), in_quotes(sample.candidate), in_quotes(sample.device), sample.time_ns,
        in_quotes(sample.maker), sample.made_ns);
    return true;
  }));
  return out;
}

Result<std::vector<Sample>> parse_samples(std::string_view text) {
  std::vector<Sample> samples;
  Table table;
  bool is_head = true;
  std::size_t line = 0, begun = 1;
  // The table that ends here: the head, which says the version, or a sample.
  const auto end_table = [&]() -> Result<void> {
    if (is_head) {
      const auto version = table.find("version");
      const bool is_ours = version != table.end() && version->second == Scalar(std::int64_t{1});
      if (!is_ours) return refused(line, "version = 1 does not stand at the top: another version, or no such file");
    } else {
      CRUCIBLE_TRY(Sample sample, sample_of(table, begun));
      samples.push_back(std::move(sample));
    }
    table.clear();
    return {};
  };
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view whole = trimmed(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line;
    if (is_rest_empty(whole)) continue;
    if (whole.starts_with("[[sample]]") && is_rest_empty(whole.substr(10))) {
      CRUCIBLE_TRY_VOID(end_table());
      is_head = false;
      begun = line;
      continue;
    }
    const std::size_t equals = whole.find('=');
    if (equals == std::string_view::npos) return refused(line, "neither [[sample]] nor a key with its value");
    std::optional<Scalar> value = scalar(trimmed(whole.substr(equals + 1)));
    if (!value) return refused(line, "the value is neither a text in quotes nor a number");
    if (!table.emplace(trimmed(whole.substr(0, equals)), *std::move(value)).second) {
      return refused(line, "the key is there twice");
    }
  }
  CRUCIBLE_TRY_VOID(end_table());
  return samples;
}

Result<std::uint64_t> Tuning::add_toml(std::string_view text) {
  CRUCIBLE_TRY(std::vector<Sample> samples, parse_samples(text));
  return add(std::move(samples));
}

}  // namespace crucible::store
