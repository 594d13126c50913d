#include "frontends/cli/command.hpp"

#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/base/terminal.hpp"
#include "core/base/words.hpp"

namespace crucible::cli {

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCheckFailed: return 1;
    case ErrorCode::kUsage: return 2;
    case ErrorCode::kBadInput: return 3;
    case ErrorCode::kUnavailable: return 4;
    case ErrorCode::kInternal: return 5;
  }
  return 5;
}

bool use_colour(int descriptor) { return isatty(descriptor) == 1 && std::getenv("NO_COLOR") == nullptr; }

std::string json_text(const nlohmann::ordered_json& document) {
  return json_without_commands(document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)) + "\n";
}

void print_json(const nlohmann::ordered_json& document) { print_text(json_text(document)); }

}  // namespace crucible::cli
