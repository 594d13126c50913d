#include "frontends/cli/plugin_words.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace crucible::cli {

Result<void> write_decisions(backend::DecisionLog& log, const std::string& file) {
  if (file.empty() || log.append_to(file)) return {};
  return Error{ErrorCode::kUsage, fmt::format("--decisions {}: it cannot be written: {}", file, std::strerror(errno))};
}

std::string first_line(const std::string& reason) { return reason.substr(0, reason.find('\n')); }

}  // namespace crucible::cli
