// Reads through read_toml(): dotted keys with places. A figure is a table of value, provenance, note and spread.
#include "frontends/config/profile_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "frontends/config/places.hpp"
#include "frontends/config/suggest.hpp"
#include "frontends/config/toml_file.hpp"
#include "hwprofiles/embedded.hpp"

namespace crucible::config {
namespace {

using hardware::DeviceProfile;
using hardware::Figure;
using hardware::FigureKey;
using hardware::Provenance;
using hardware::Quantity;

constexpr std::array<std::string_view, 8> kTexts = {"name",    "description", "source",  "date",
                                                    "backend", "driver",      "devices", "threads"};
constexpr std::array<std::string_view, 4> kParts = {"value", "provenance", "note", "spread"};

struct Unit {
  std::string_view name;
  Quantity quantity;
  double factor;
};
constexpr auto kUnits = std::to_array<Unit>({
    {"B", Quantity::kBytes, 1},
    {"KiB", Quantity::kBytes, 0x1p10},
    {"MiB", Quantity::kBytes, 0x1p20},
    {"GiB", Quantity::kBytes, 0x1p30},
    {"TiB", Quantity::kBytes, 0x1p40},
    {"KB", Quantity::kBytes, 1e3},
    {"MB", Quantity::kBytes, 1e6},
    {"GB", Quantity::kBytes, 1e9},
    {"TB", Quantity::kBytes, 1e12},
    {"B/s", Quantity::kBytesPerSecond, 1},
    {"KB/s", Quantity::kBytesPerSecond, 1e3},
    {"MB/s", Quantity::kBytesPerSecond, 1e6},
    {"GB/s", Quantity::kBytesPerSecond, 1e9},
    {"TB/s", Quantity::kBytesPerSecond, 1e12},
    {"FLOP/s", Quantity::kFlopsPerSecond, 1},
    {"KFLOP/s", Quantity::kFlopsPerSecond, 1e3},
    {"MFLOP/s", Quantity::kFlopsPerSecond, 1e6},
    {"GFLOP/s", Quantity::kFlopsPerSecond, 1e9},
    {"TFLOP/s", Quantity::kFlopsPerSecond, 1e12},
    {"PFLOP/s", Quantity::kFlopsPerSecond, 1e15},
    {"ns", Quantity::kSeconds, 1e-9},
    {"us", Quantity::kSeconds, 1e-6},
    {"ms", Quantity::kSeconds, 1e-3},
    {"s", Quantity::kSeconds, 1},
    {"Hz", Quantity::kHertz, 1},
    {"KHz", Quantity::kHertz, 1e3},
    {"MHz", Quantity::kHertz, 1e6},
    {"GHz", Quantity::kHertz, 1e9},
});

std::string kind_of(const Value& value) {
  if (std::holds_alternative<bool>(value)) return "true or false";
  if (std::holds_alternative<std::int64_t>(value)) return "an integer";
  if (std::holds_alternative<std::string>(value)) return "a text";
  if (std::holds_alternative<List>(value)) return "a list";
  return std::get<Foreign>(value).what;
}

/// What the file says of one figure, until all of it is read.
struct Draft {
  Figure figure;
  Origin origin;
  bool has_value = false, has_provenance = false;
};

class ProfileReader {
 public:
  Result<DeviceProfile> read(const std::string& text, const std::string& path) {
    FileContent content = read_toml(text, Layer::kUser, path);
    problems_ = std::move(content.problems);
    if (!problems_.empty()) return refusal(path);
    for (const Entry& entry : content.entries) take(entry);
    for (auto& [key, draft] : drafts_) finish(key, draft);
    check_header(path);
    if (problems_.empty()) {
      for (std::string& problem : hardware::check(profile_))
        problems_.push_back({whole_file(path), std::move(problem)});
    }
    if (!problems_.empty()) return refusal(path);
    return std::move(profile_);
  }

 private:
  static Origin whole_file(const std::string& path) { return {Layer::kUser, path, 1, 1}; }

  Error refusal(const std::string& path) const {
    std::string text =
        problems_.size() == 1 ? "" : fmt::format("{} problems in the device profile {}:", problems_.size(), path);
    for (const Problem& problem : problems_) {
      text += fmt::format("{}{}: {}", problems_.size() == 1 ? "" : "\n  ", problem.origin.place(), problem.message);
    }
    return {ErrorCode::kBadInput, std::move(text)};
  }

  void complain(const Origin& origin, std::string message) { problems_.push_back({origin, std::move(message)}); }

  void take(const Entry& entry) {
    if (std::ranges::find(kTexts, entry.key) != kTexts.end()) return take_header(entry);
    const std::size_t dot = entry.key.rfind('.');
    const std::string table = dot == std::string::npos ? "" : entry.key.substr(0, dot);
    if (const FigureKey* key = hardware::find_figure_key(table))
      return take_part(entry, *key, entry.key.substr(dot + 1));
    if (hardware::find_figure_key(entry.key) != nullptr) {
      return complain(entry.origin,
                      fmt::format("'{}' is {}: a table is wanted, {{ value = ..., provenance = \"...\" }}", entry.key,
                                  kind_of(entry.value)));
    }
    // A mistyped figure in its table form, or a mistyped key of the header.
    const bool is_part =
        dot != std::string::npos && std::ranges::find(kParts, entry.key.substr(dot + 1)) != kParts.end();
    unknown(entry.origin, is_part ? table : entry.key);
  }

  void unknown(const Origin& origin, const std::string& word) {
    if (!complained_.insert(word).second) return;  // once for all parts of a figure
    std::vector<std::string> known(kTexts.begin(), kTexts.end());
    for (const FigureKey& key : hardware::figure_keys()) known.emplace_back(key.name);
    complain(origin, fmt::format("unknown key '{}'{}", word, did_you_mean(word, known)));
  }

  void take_header(const Entry& entry) {
    if (entry.key == "devices") {
      const auto* list = std::get_if<List>(&entry.value);
      if (list == nullptr)
        return complain(entry.origin, fmt::format("'devices' is {}: a list of texts is wanted", kind_of(entry.value)));
      profile_.devices = *list;
      return;
    }
    if (entry.key == "threads") {
      const auto* number = std::get_if<std::int64_t>(&entry.value);
      if (number == nullptr || *number < 1 || *number > 1'000'000) {
        return complain(entry.origin, "'threads' must be an integer from 1 to 1000000");
      }
      profile_.threads = static_cast<std::uint32_t>(*number);
      return;
    }
    const auto* text = std::get_if<std::string>(&entry.value);
    if (text == nullptr)
      return complain(entry.origin, fmt::format("'{}' is {}: a text is wanted", entry.key, kind_of(entry.value)));
    std::string& place = entry.key == "name"          ? profile_.name
                         : entry.key == "description" ? profile_.description
                         : entry.key == "source"      ? profile_.source
                         : entry.key == "date"        ? profile_.date
                         : entry.key == "backend"     ? profile_.backend
                                                      : profile_.driver;
    place = *text;
  }

  void take_part(const Entry& entry, const FigureKey& key, const std::string& part) {
    Draft& draft = drafts_.try_emplace(std::string(key.name), Draft{{}, entry.origin}).first->second;
    if (part == "value") {
      draft.has_value = true;
      if (const auto number = number_of(entry, key)) draft.figure.value = *number;
      return;
    }
    if (std::ranges::find(kParts, part) == kParts.end()) {
      return complain(entry.origin, fmt::format("unknown key '{}' of {}{}", part, key.name,
                                                did_you_mean(part, {kParts.begin(), kParts.end()})));
    }
    const auto* text = std::get_if<std::string>(&entry.value);
    if (part == "provenance") draft.has_provenance = true;
    if (text == nullptr) {
      return complain(entry.origin,
                      fmt::format("{} of {} is {}: a text is wanted", part, key.name, kind_of(entry.value)));
    }
    if (part == "note") draft.figure.note = *text;
    if (part == "spread") take_spread(entry.origin, key, *text, draft.figure);
    if (part == "provenance") take_provenance(entry.origin, key, *text, draft.figure);
  }

  void take_spread(const Origin& origin, const FigureKey& key, const std::string& text, Figure& figure) {
    double percent = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
    if (error != std::errc() || std::string_view(end, text.data() + text.size()) != " %" ||
        !(percent >= 0 && percent < 1e6)) {
      return complain(origin, fmt::format("spread of {} is '{}': a number and \" %\" are wanted", key.name, text));
    }
    figure.spread = percent / 100;
  }

  void take_provenance(const Origin& origin, const FigureKey& key, const std::string& text, Figure& figure) {
    std::vector<std::string> known;
    for (const Provenance provenance : {Provenance::kDatasheet, Provenance::kCalibrated, Provenance::kGuessed}) {
      known.emplace_back(name(provenance));
      if (text != name(provenance)) continue;
      figure.provenance = provenance;
      return;
    }
    complain(origin, fmt::format("provenance of {} is '{}'{}; datasheet, calibrated and guessed are known", key.name,
                                 text, did_you_mean(text, known)));
  }

  /// A whole number of a count, a number with a unit of anything else.
  std::optional<double> number_of(const Entry& entry, const FigureKey& key) {
    const auto wrong = [&](std::string_view what) {
      complain(entry.origin, fmt::format("{} is {}: {} is wanted", key.name, what, words(key.quantity)));
      return std::nullopt;
    };
    if (key.quantity == Quantity::kCount) {
      const auto* number = std::get_if<std::int64_t>(&entry.value);
      if (number == nullptr) return wrong(kind_of(entry.value));
      if (*number < 1) return wrong(std::to_string(*number));
      return static_cast<double>(*number);
    }
    const auto* text = std::get_if<std::string>(&entry.value);
    if (text == nullptr) return wrong(kind_of(entry.value) + " without a unit");
    double number = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    std::string_view rest(end, text->data() + text->size());
    while (rest.starts_with(' ')) rest.remove_prefix(1);
    const auto unit = std::ranges::find(kUnits, rest, &Unit::name);
    if (error != std::errc() || unit == kUnits.end()) return wrong(fmt::format("'{}'", *text));
    if (unit->quantity != key.quantity) {
      const std::string_view meant = words(unit->quantity);
      return wrong(fmt::format("'{}', {}", *text, meant.substr(0, meant.find(" ("))));
    }
    const double value = number * unit->factor;
    if (!std::isfinite(value) || value <= 0 || value > 1e19) return wrong(fmt::format("'{}', out of range", *text));
    return value;
  }

  void finish(const std::string& key, Draft& draft) {
    if (!draft.has_value) return complain(draft.origin, fmt::format("{} has no value", key));
    if (!draft.has_provenance) {
      return complain(draft.origin, fmt::format("{} has no provenance: datasheet, calibrated or guessed", key));
    }
    if (draft.figure.provenance == Provenance::kGuessed && draft.figure.note.empty()) {
      complain(draft.origin, fmt::format("{} is guessed and has no note: say why", key));
    }
    profile_.figures.emplace(key, std::move(draft.figure));
  }

  void check_header(const std::string& path) {
    if (profile_.name.empty()) {
      complain(whole_file(path), "name is missing");
    } else if (profile_.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos) {
      complain(whole_file(path),
               fmt::format("name '{}': lower case letters, digits and '-' are wanted", profile_.name));
    }
    if (profile_.source.empty()) complain(whole_file(path), "source is missing: where are the numbers from?");
  }

  DeviceProfile profile_;
  std::map<std::string, Draft> drafts_;
  std::set<std::string> complained_;
  std::vector<Problem> problems_;
};

/// A basic string of TOML; control characters as escapes.
std::string toml_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += fmt::format("\\{}", c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string figure_line(const FigureKey& key, const Figure& figure) {
  const std::string value = format_figure(key.quantity, figure.value);
  std::string line =
      fmt::format("{{ value = {}, provenance = {}", key.quantity == Quantity::kCount ? value : toml_text(value),
                  toml_text(name(figure.provenance)));
  if (figure.spread > 0) line += fmt::format(", spread = \"{:.3g} %\"", 100 * figure.spread);
  if (!figure.note.empty()) line += fmt::format(", note = {}", toml_text(figure.note));
  return line + " }";
}

}  // namespace

Result<DeviceProfile> read_profile(const std::string& text, const std::string& path) {
  return ProfileReader().read(text, path);
}

Result<DeviceProfile> read_profile_file(const std::filesystem::path& path) {
  const std::optional<std::string> text = read_text(path);
  if (!text) {
    return Error{ErrorCode::kBadInput,
                 fmt::format("cannot read the device profile {}: it is not there, not readable, or "
                             "larger than 1 MiB",
                             path.string())};
  }
  return read_profile(*text, path.string());
}

std::string write_profile(const DeviceProfile& profile) {
  std::string text = fmt::format("name = {}\n", toml_text(profile.name));
  const auto line = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) text += fmt::format("{} = {}\n", key, toml_text(value));
  };
  line("description", profile.description);
  line("source", profile.source);
  line("date", profile.date);
  line("backend", profile.backend);
  line("driver", profile.driver);
  if (!profile.devices.empty()) {
    text += "devices = [";
    for (std::size_t i = 0; i < profile.devices.size(); ++i)
      text += (i > 0 ? ", " : "") + toml_text(profile.devices[i]);
    text += "]\n";
  }
  if (profile.threads > 0) text += fmt::format("threads = {}\n", profile.threads);
  std::string_view table;
  for (const FigureKey& key : hardware::figure_keys()) {
    const Figure* figure = profile.find(key.name);
    if (figure == nullptr) continue;
    const std::string_view own = key.name.substr(0, key.name.rfind('.'));
    if (own != table) text += fmt::format("\n[{}]\n", own);
    table = own;
    text += fmt::format("{} = {}\n", key.name.substr(own.size() + 1), figure_line(key, *figure));
  }
  return text;
}

Result<std::vector<DeviceProfile>> shipped_profiles() {
  std::vector<DeviceProfile> profiles;
  for (const hwprofiles::File& file : hwprofiles::files()) {
    Result<DeviceProfile> profile = read_profile(std::string(file.text), fmt::format("hwprofiles/{}", file.name));
    if (!profile) return Error{ErrorCode::kInternal, profile.error().message};
    profiles.push_back(std::move(*profile));
  }
  std::ranges::sort(profiles, {}, &DeviceProfile::name);
  return profiles;
}

std::filesystem::path user_profile_folder() {
  const Surroundings surroundings = process_surroundings();
  if (surroundings.privileged) return {};  // more rights than the user: nothing of the user's environment names a file
  const std::filesystem::path file = user_config_file(surroundings);
  return file.empty() ? file : file.parent_path() / "device_profiles";
}

Result<std::vector<DeviceProfile>> read_profile_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".toml") paths.push_back(it->path());
  }
  std::ranges::sort(paths);
  std::vector<DeviceProfile> profiles;
  for (const std::filesystem::path& path : paths) {
    CRUCIBLE_TRY(DeviceProfile profile, read_profile_file(path));
    if (hardware::find_profile(profiles, profile.name) != nullptr) {
      return Error{ErrorCode::kBadInput, fmt::format("{}: another file of {} also has the profile '{}'", path.string(),
                                                     folder.string(), profile.name)};
    }
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace crucible::config
