// Subcommands with their example, and what those that read recordings have in common. Apart from command.cpp, which
// wants no CLI11.
#include <CLI/CLI.hpp>

#include "core/trace/limits.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {

CLI::App* add_subcommand(CLI::App& parent, const std::string& name, const std::string& description,
                         const std::string& example) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->footer("Example:\n  " + example);
  return command;
}

CLI::App* add_reading_subcommand(CLI::App& parent, const std::string& name, const std::string& description,
                                 const std::string& example) {
  CLI::App* command = add_subcommand(parent, name, description, example);
  command
      ->add_option_function<std::uint64_t>(
          "--table-limit", [](std::uint64_t bytes) { trace::set_limits(trace::tables_of(bytes)); },
          "what each table of a recording may unpack to, for instance 4GiB, however few bytes of the file that are "
          "(default: 1GiB, and 256 times those)")
      ->transform(CLI::AsSizeValue(false));
  return command;
}

}  // namespace crucible::cli
