#include "frontends/cli/plugin_words.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace crucible::cli {

Result<void> write_decisions(backend::DecisionLog& log, const std::string& file) {
  if (file.empty() || log.append_to(file)) return {};
  return Error{ErrorCode::kUsage,
               fmt::format("the loader's decisions cannot be written to {}: {}", file, std::strerror(errno))};
}

std::string short_reason(const std::string& reason, const std::filesystem::path& plugin) {
  std::string text = reason.substr(0, reason.find('\n'));
  const std::string path = plugin.string();
  const auto remove_all = [&](const std::string& words, const std::string& instead) {
    for (std::size_t at; !path.empty() && (at = text.find(words)) != std::string::npos;) {
      text.replace(at, words.size(), instead);
    }
  };
  remove_all("plugin " + path + ": ", "");
  remove_all("plugin " + path, "it");
  remove_all(path + ": ", "");
  remove_all(path, "it");
  return text;
}

}  // namespace crucible::cli
