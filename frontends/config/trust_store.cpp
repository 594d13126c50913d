// One line per file: the SHA-256, a space, the place. A place with a control character is never trusted, so that lines
// are lines.
#include "frontends/config/trust_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <sstream>
#include <system_error>

#include "core/base/file_owners.hpp"
#include "core/base/hash.hpp"

namespace crucible::config {
namespace {

constexpr std::string_view kFormat = "crucible trusted files 1";
constexpr std::size_t kDigits = 64;

Error bad(const std::filesystem::path& store, std::string_view why) {
  return {ErrorCode::kBadInput, fmt::format("{}: {}", store.string(), why)};
}

bool is_one_line(const std::string& text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

bool is_digest(std::string_view text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::filesystem::path trust_store(const Surroundings& surroundings) {
  const std::filesystem::path file = user_config_file(surroundings);
  return file.empty() ? file : file.parent_path() / "trusted";
}

std::string place_of(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(file, error);
  const std::filesystem::path folder = std::filesystem::weakly_canonical(whole.parent_path(), error);
  return (error ? whole.lexically_normal() : folder / whole.filename()).string();
}

std::string sha256_of(const std::string& text) { return sha256(std::as_bytes(std::span(text))).hex(); }

Result<std::vector<TrustedFile>> read_trusted(const std::filesystem::path& store) {
  struct stat status = {};
  if (store.empty() || (lstat(store.c_str(), &status) != 0 && errno != EACCES)) return std::vector<TrustedFile>();
  if (!S_ISREG(status.st_mode)) return bad(store, "is no file: remove it, and trust again what you trust");
  const std::vector<std::string> doubts = doubts_about(store, "it");
  if (!doubts.empty())
    return bad(store,
               fmt::format("does not count, for others can change it: {}; chmod or chown it", fmt::join(doubts, ", ")));
  const std::optional<std::string> text = read_text(store);
  if (!text) return bad(store, "cannot be read, or is longer than 1 MiB");
  std::istringstream lines(*text);
  std::string line;
  if (!std::getline(lines, line) || line != kFormat)
    return bad(store, "is damaged: remove it, and trust again what you trust");
  std::vector<TrustedFile> files;
  while (std::getline(lines, line)) {
    if (line.size() < kDigits + 2 || line[kDigits] != ' ' || !is_digest(std::string_view(line).substr(0, kDigits))) {
      return bad(store, "is damaged: remove it, and trust again what you trust");
    }
    files.push_back({line.substr(kDigits + 1), line.substr(0, kDigits)});
  }
  return files;
}

Result<void> write_trusted(const std::filesystem::path& store, const std::vector<TrustedFile>& files) {
  if (store.empty()) return Error{ErrorCode::kBadInput, "there is no home folder to keep it in: set HOME"};
  std::string text = fmt::format("{}\n", kFormat);
  for (const TrustedFile& file : files) {
    if (!is_one_line(file.place))
      return Error{ErrorCode::kBadInput, "a path with control characters cannot be trusted: rename the folder"};
    text += fmt::format("{} {}\n", file.sha256, file.place);
  }
  std::error_code error;
  std::filesystem::create_directories(store.parent_path().parent_path(), error);
  if (mkdir(store.parent_path().c_str(), 0700) != 0 && errno != EEXIST) {
    return bad(store.parent_path(), fmt::format("cannot be made: {}", std::strerror(errno)));
  }
  std::string fresh = store.string() + ".XXXXXX";
  const int descriptor = mkostemp(fresh.data(), O_CLOEXEC);  // 0600
  if (descriptor < 0) return bad(store, fmt::format("cannot be written: {}", std::strerror(errno)));
  bool written =
      write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(descriptor) == 0;
  written = close(descriptor) == 0 && written;
  if (written && std::rename(fresh.c_str(), store.c_str()) == 0) return {};
  const int reason = errno;
  (void)unlink(fresh.c_str());
  return bad(store, fmt::format("cannot be written: {}", std::strerror(reason)));
}

}  // namespace crucible::config
