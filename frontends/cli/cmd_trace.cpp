// `crucible trace`: registers its subcommands, one per file cmd_trace_NAME.cpp, and what they share.
// Reads and writes files only; what ops mean is the lowering's business (crucible graph).
#include <fmt/format.h>

#include <cstdio>

#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

void print_text(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

void add_trace(Commands& commands) {
  CLI::App* trace =
      add_subcommand(commands.app, "trace", "Shows and checks recordings.", "crucible trace info step.crtrace");
  trace->require_subcommand(1);
  add_trace_info(commands, *trace);
  add_trace_ops(commands, *trace);
  add_trace_check(commands, *trace);
  add_trace_recover(commands, *trace);
}

}  // namespace crucible::cli
