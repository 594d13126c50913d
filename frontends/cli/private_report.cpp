// One row per kind; where a kind has many, the first of them and how many more.
#include "frontends/cli/private_report.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/terminal.hpp"
#include "core/base/words.hpp"
#include "core/trace/private_content.hpp"
#include "core/trace/strip.hpp"
#include "core/trace/text.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;
using trace::PrivateContent;

constexpr std::size_t kShown = 8;  // rows of one kind

std::string user_here() {
  const passwd* entry = getpwuid(getuid());
  return entry == nullptr || entry->pw_name == nullptr ? "" : entry->pw_name;
}

std::string host_here() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "";
}

/// Names that hashes have taken the place of tell nothing.
std::string table(const PrivateContent& found, bool is_stripped, unsigned mode) {
  std::vector<std::vector<std::string>> rows = {{"what", "how many", "which"}};
  const auto one = [&rows](const char* what, const std::string& value) {
    if (!value.empty()) rows.push_back({what, "1", printable(value)});
  };
  const auto list = [&rows](const char* what, const std::vector<std::string>& values) {
    for (std::size_t i = 0; i < values.size() && i < kShown; ++i) {
      rows.push_back({i == 0 ? what : "", i == 0 ? std::to_string(values.size()) : "", printable(values[i])});
    }
    if (values.size() > kShown)
      rows.push_back({"", "", fmt::format("and {} more (--json has all)", values.size() - kShown)});
  };
  one("command", found.command);
  list("may be secret", found.secrets);
  one("time", found.created);
  one("reason", found.reason);
  list("paths", found.paths);
  list("users", found.users);
  list("hosts", found.hosts);
  const char* hashed = is_stripped ? " (hashes)" : "";
  const auto names = [&](const char* what, const std::vector<std::string>& values) {
    if (values.empty()) return;
    std::string few;
    for (std::size_t i = 0; i < values.size() && i < 3; ++i) few += (i == 0 ? "" : ", ") + printable(values[i]);
    rows.push_back({what, std::to_string(values.size()), few + (values.size() > 3 ? ", ..." : "") + hashed});
  };
  names("modules", found.modules);
  names("functions", found.functions);
  names("tensors", found.tensors);
  names("outputs' names", found.outputs);
  names("texts of ops", found.texts);
  list("own operators", found.operators);
  for (const PrivateContent::Data& data : found.data) {
    rows.push_back({data.what, std::to_string(data.count),
                    fmt::format("{}, {}", format_bytes(data.size_bytes), is_stripped ? "noise" : "byte by byte")});
  }
  if (found.results > 0)
    rows.push_back(
        {"results", std::to_string(found.results), is_stripped ? "replaced" : "numbers that ops gave, and losses"});
  if (found.hashes > 0)
    rows.push_back({"hashes", std::to_string(found.hashes), "of results, by which equal ones are recognised"});
  rows.push_back(
      {"file mode", "1",
       fmt::format("{:04o}{}", mode, (mode & 077) != 0 ? ": others may read it (chmod 600)" : ": its owner alone")});
  return format_table(rows) + (is_stripped
                                   ? "\nThe recording was stripped: operators, sizes and Python numbers remain.\n"
                                   : "\ncrucible trace strip IN OUT makes a copy without; crucible record --no-command "
                                     "--no-paths leaves the first rows out\n");
}

ordered_json document(const std::string& file, const PrivateContent& found, bool is_stripped, unsigned mode) {
  ordered_json made = {{"file", file},
                       {"stripped", is_stripped},
                       {"mode", fmt::format("{:04o}", mode)},
                       {"others_may_read", (mode & 077) != 0},
                       {"command", found.command},
                       {"secret_options", found.secrets},
                       {"created", found.created},
                       {"incomplete_reason", found.reason},
                       {"paths", found.paths},
                       {"users", found.users},
                       {"hosts", found.hosts},
                       {"modules", found.modules},
                       {"functions", found.functions},
                       {"tensors", found.tensors},
                       {"outputs", found.outputs},
                       {"texts", found.texts},
                       {"operators", found.operators},
                       {"results", found.results},
                       {"hashes", found.hashes}};
  made["data"] = ordered_json::array();
  for (const PrivateContent::Data& data : found.data)
    made["data"].push_back({{"what", data.what}, {"count", data.count}, {"bytes", data.size_bytes}});
  return made;
}

}  // namespace

Result<int> print_private(const std::string& file, const trace::Trace& trace, bool json) {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0)
    return Error{ErrorCode::kBadInput, fmt::format("cannot look at {}: {}", file, std::strerror(errno))};
  const PrivateContent found = trace::private_content(trace, user_here(), host_here());
  const bool is_stripped = trace::is_stripped(trace);
  if (json) {
    print_json(document(file, found, is_stripped, status.st_mode & 0777));
  } else {
    print_text(table(found, is_stripped, status.st_mode & 0777));
  }
  return 0;
}

}  // namespace crucible::cli
