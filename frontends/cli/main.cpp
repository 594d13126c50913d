// The `crucible` command: parses the line, runs one subcommand, turns an error into one sentence and an exit code.
#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <sstream>
#include <system_error>

#include "core/base/version.hpp"
#include "core/base/terminal.hpp"
#include "runtime/run/kernel_faults.hpp"
#include "core/trace/text.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/pass_line.hpp"
#include "frontends/cli/standard_output.hpp"

namespace {

void print_error(const crucible::Error& error) {
  crucible::tell_error(error.message, crucible::cli::use_colour(2));
}

void print_internal_error(const std::exception& error) {
  print_error(
      {crucible::ErrorCode::kInternal, fmt::format("this should not happen: {}; please report it", error.what())});
}

int run(int argc, char** argv) {
  using namespace crucible::cli;
  CLI::App app;
  Commands commands{.app = app, .run = {}, .before = {}};
  app.name("crucible");
  app.description("Records what a PyTorch program executes, and replays it on any backend.");
  app.set_version_flag("--version", crucible::kNameAndVersion);
  app.require_subcommand(1);
  app.footer("Example:\n  crucible record -o step.crtrace -- python train.py\n  crucible replay step.crtrace --verify");
  add_record(commands);
  add_trace(commands);
  add_replay(commands);
  add_compare(commands);
  add_bench(commands);
  add_plan(commands);
  add_memplan(commands);
  add_graph(commands);
  add_diff(commands);
  add_show(commands);
  add_store(commands);
  add_log(commands);
  add_kernels(commands);
  add_devices(commands);
  add_health(commands);
  add_doctor(commands);
  add_plugin(commands);
  add_config(commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help may be longer than what is buffered: written in pieces, nobody would know any more why one of them failed.
    std::ostringstream out, err;
    const int code = app.exit(error, out, err);
    crucible::print_text(out.str());
    crucible::tell_text(err.str());
    return code == 0 ? 0 : exit_code(crucible::ErrorCode::kUsage);
  }
  const crucible::Result<int> result = [&]() -> crucible::Result<int> {
    if (commands.before) {
      CRUCIBLE_TRY(const std::optional<int> code, commands.before());
      if (code) return *code;
    }
    const PassLine line;
    return commands.run();
  }();
  if (result) return *result;
  print_error(result.error());
  return exit_code(result.error().code);
}

}  // namespace

int main(int argc, char** argv) {
  int code = 5;
  // The reference interpreter frees and takes again what each op computes: given back to the system each time, those
  // pages would be cleared and mapped anew at each op, a sixth of its time.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  crucible::runtime::report_kernel_faults();
  std::optional<std::error_code> thrown;
  crucible::cli::prepare_standard_streams();
  try {
    code = run(argc, argv);
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) {
      thrown = error.code();
    } else if (std::ferror(stderr) != 0) {
      code = crucible::cli::exit_code(crucible::ErrorCode::kBadInput);  // which cannot be told
    } else {
      print_internal_error(error);
    }
  } catch (const std::bad_alloc&) {
    print_error(
        {crucible::ErrorCode::kUnavailable,
         "there is not enough memory for this, or a limit on it was reached (ulimit -v, sandbox.memory_bytes)"});
    code = crucible::cli::exit_code(crucible::ErrorCode::kUnavailable);
  } catch (const std::exception& error) {
    print_internal_error(error);
  }
  return crucible::cli::end_standard_output(code, thrown);
}
