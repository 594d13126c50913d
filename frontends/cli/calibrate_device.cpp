// See calibrate_device.hpp. What is measured is runtime/measure/calibrate.cpp's business.
#include "frontends/cli/calibrate_device.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "core/base/output.hpp"
#include "core/base/terminal.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/device_profile_tables.hpp"
#include "frontends/cli/terminal_observer.hpp"
#include "frontends/config/profile_file.hpp"
#include "frontends/replay/device_profiles.hpp"
#include "runtime/measure/calibrate.hpp"
#include "runtime/run/device_identity.hpp"
#include "store/store.hpp"

namespace crucible::cli {
namespace {

/// "2026-01-31", in universal time.
std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

/// A whole file or none, in a folder that is made for it.
Result<void> write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  if (error)
    return Error{ErrorCode::kBadInput,
                 fmt::format("cannot write the device profile {}: {}", path.string(), error.message())};
  const Result<void> written = write_output(path, text);
  if (written) return {};
  return Error{ErrorCode::kBadInput, fmt::format("the device profile: {}", written.error().message)};
}

std::string gigabytes(double per_second) { return fmt::format("{:.1f}", per_second / 1e9); }
std::string percent(double part) { return fmt::format("{:.0f}%", 100 * part); }

void print(const runtime::Calibration& calibration, const std::string& path) {
  std::vector<std::vector<std::string>> rows = {{"working set", "read gb/s", "spread", "update gb/s", "spread"}};
  for (const runtime::CalibratedPoint& point : calibration.curve) {
    rows.push_back({format_bytes(point.bytes), gigabytes(point.read.median), percent(point.read.spread),
                    gigabytes(point.update.median), percent(point.update.spread)});
  }
  print_out("{}: {}\n\n{}\n{}\n", calibration.profile.name, calibration.profile.description, format_table(rows),
             profile_text(calibration.profile));
  for (const std::string& note : calibration.notes) print_out("note: {}\n", note);
  print_out("took {}; written to {}\n", format_ns(static_cast<double>(calibration.wall_ns)), path);
}

nlohmann::ordered_json to_json(const runtime::Calibration& calibration, const std::string& path) {
  const hardware::DeviceProfile& profile = calibration.profile;
  nlohmann::ordered_json document = {{"name", profile.name},
                                     {"device", profile.description},
                                     {"backend", profile.backend},
                                     {"driver", profile.driver},
                                     {"date", profile.date},
                                     {"threads", profile.threads},
                                     {"file", path},
                                     {"kept", false},
                                     {"wall_ns", calibration.wall_ns},
                                     {"figures", figures_json(profile)},
                                     {"notes", calibration.notes},
                                     {"curve", nlohmann::ordered_json::array()}};
  for (const runtime::CalibratedPoint& point : calibration.curve) {
    document["curve"].push_back({{"bytes", point.bytes},
                                 {"read_bytes_per_second", point.read.median},
                                 {"read_spread", point.read.spread},
                                 {"update_bytes_per_second", point.update.median},
                                 {"update_spread", point.update.spread}});
  }
  return document;
}

constexpr const char *kProfile = "profile", *kDocument = "document";

/// What the store has of this device, measured so: its profile is written, its document returned.
std::optional<nlohmann::ordered_json> kept(store::Store& store, const store::ActionKey& key, std::string& profile) {
  const std::optional<store::Statement> entry = store.get(key);
  std::optional<nlohmann::ordered_json> document;
  for (const store::Output& output : entry ? entry->outputs : std::vector<store::Output>()) {
    const std::optional<std::string> bytes = store.read(output);
    if (!bytes) return std::nullopt;
    if (output.name == kProfile) profile = *bytes;
    if (output.name == kDocument) document = nlohmann::ordered_json::parse(*bytes, nullptr, false);
  }
  const bool is_whole = document && document->is_object() && document->contains("date") &&
                        config::read_profile(profile, "the store's profile").has_value();
  return is_whole ? document : std::nullopt;
}

}  // namespace

Result<int> calibrate_device(const CalibrateSwitches& switches, bool json) {
  const std::filesystem::path folder = config::user_profile_folder();
  if (switches.output.empty() && folder.empty()) {
    return Error{ErrorCode::kUsage, "there is no home folder to keep the profile in: name a file with -o"};
  }
  CRUCIBLE_TRY(const OpenedDevice opened, open_device(switches.device, terminal()));
  const std::shared_ptr<store::Store>& store = opened.device->backend().store();
  store::ActionKey key = runtime::key_about(*opened.device, "calibration", kernel::Numerics::kFast);
  key.specialisation = {{"largest_mib", switches.largest_mib}, {"rounds", switches.rounds}};
  std::string known;
  if (auto document = store && !switches.anew ? kept(*store, key, known) : std::nullopt) {
    CRUCIBLE_TRY(const hardware::DeviceProfile profile, config::read_profile(known, "the store's profile"));
    const std::filesystem::path path =
        switches.output.empty() ? folder / (profile.name + ".toml") : std::filesystem::path(switches.output);
    CRUCIBLE_TRY_VOID(write_file(path, known));
    (*document)["file"] = path.string();
    (*document)["kept"] = true;
    if (json) {
      print_json(*document);
    } else {
      print_out("{}: {}\n\n{}\nmeasured on {} and kept: --anew measures again; written to {}\n", profile.name,
                profile.description, profile_text(profile), profile.date, path.string());
    }
    return 0;
  }
  const bool is_shown = !json && isatty(2) == 1;
  runtime::CalibrateOptions options{.rounds = switches.rounds,
                                    .largest_bytes = std::uint64_t{switches.largest_mib} << 20,
                                    .date = today(),
                                    .threads = threads_of(*opened.device),
                                    .progress = nullptr};
  if (is_shown) options.progress = [](std::string_view what) { rewrite_line(fmt::format("calibrating: {}", what)); };
  const Result<runtime::Calibration> calibration = runtime::calibrate(opened.device, options);
  if (is_shown) rewrite_line("");
  if (!calibration) return calibration.error();
  const std::filesystem::path path =
      switches.output.empty() ? folder / (calibration->profile.name + ".toml") : std::filesystem::path(switches.output);
  const std::string profile = config::write_profile(calibration->profile);
  CRUCIBLE_TRY_VOID(write_file(path, profile));
  if (store) {  // where it cannot be kept, it is measured again
    const std::string document = to_json(*calibration, path.string()).dump();
    (void)store->put(key, {{kProfile, profile}, {kDocument, document}}, "crucible devices --calibrate");
  }
  if (json) {
    print_json(to_json(*calibration, path.string()));
  } else {
    print(*calibration, path.string());
  }
  return 0;
}

}  // namespace crucible::cli
