// The `crucible` command: parses the line, runs one subcommand, turns an error into one sentence and an exit code.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "frontends/cli/command.hpp"
#include "frontends/cli/pass_line.hpp"

namespace {

void print_error(const crucible::Error& error) {
  const bool colour = crucible::cli::use_colour(2);
  fmt::print(stderr, "{}crucible: error:{} {}\n", colour ? "\033[1;31m" : "", colour ? "\033[0m" : "", error.message);
}

int run(int argc, char** argv) {
  using namespace crucible::cli;
  Commands commands;
  commands.app.name("crucible");
  commands.app.description("Records what a PyTorch program executes, and replays it on any backend.");
  commands.app.set_version_flag("--version", "crucible 0.1.0");
  commands.app.require_subcommand(1);
  commands.app.footer("Example:\n  crucible record -o step.crtrace -- python train.py\n  crucible replay step.crtrace --verify");
  add_record(commands);
  add_trace(commands);
  add_replay(commands);
  add_compare(commands);
  add_bench(commands);
  add_plan(commands);
  add_memplan(commands);
  add_graph(commands);
  add_kernels(commands);
  add_devices(commands);
  add_health(commands);
  add_doctor(commands);
  add_plugin(commands);
  add_config(commands);
  try {
    commands.app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = commands.app.exit(error);
    return code == 0 ? 0 : exit_code(crucible::ErrorCode::kUsage);
  }
  const crucible::Result<int> result = [&] {
    const PassLine line;
    return commands.run();
  }();
  if (result) return *result;
  print_error(result.error());
  return exit_code(result.error().code);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    print_error({crucible::ErrorCode::kInternal, fmt::format("this should not happen: {}; please report it", error.what())});
    return 5;
  }
}
