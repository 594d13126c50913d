// Switches that several commands have: see switches.hpp.
#include "frontends/cli/switches.hpp"

#include <CLI/CLI.hpp>

namespace crucible::cli {

void add_device_switches(CLI::App& command, DeviceChoice& choice) {
  command.add_option(
      "--backend", choice.backend,
      "The plugin that runs it, auto, or reference (default: $CRUCIBLE_BACKEND, crucible.toml, then cpu)");
  command.add_option("--device", choice.device,
                     "PLUGIN:INDEX, uuid:... or pci:..., see `crucible devices` (default: the backend's first)");
  command.add_option("--fallback", choice.fallback,
                     "forbid, warn or allow: what happens when the backend, or an op on it, cannot be used");
  command.add_option("--set", choice.sets, "KEY=VALUE of the configuration, for instance backend.cpu.threads=2")
      ->take_all();
  command.add_option(
      "--config", choice.config_file,
      "Take this file for the crucible.toml of this folder or one above; it may name programs (also $CRUCIBLE_CONFIG)");
  command.add_flag("--explain", choice.explain, "Say on standard error which devices there were and why this one");
}

void add_numerics_switch(CLI::App& command, DeviceChoice& choice) {
  command
      .add_option(
          "--numerics", choice.numerics,
          "fast: libraries, sums in the order that is fastest; strict: named orders, the same bits on every backend")
      ->check(CLI::IsMember({"fast", "strict"}));
}

void add_tune_switch(CLI::App& command, std::string& mode, bool can_measure) {
  std::vector<std::string> modes = {"off", "kept"};
  if (can_measure) modes.emplace_back("measure");
  command
      .add_option(
          "--tune", mode,
          can_measure
              ? "Library or generated kernel, and how that is cut, for each product and convolution: kept: as measured "
                "before, else the library; measure: what is not known is measured first, and kept; off: the library "
                "wherever it can"
              : "kept: library or generated kernel as measured by replay --tune measure; off: the library wherever "
                "it can")
      ->check(CLI::IsMember(modes))
      ->capture_default_str();
}

void add_memory_switches(CLI::App& command, MemorySwitches& switches) {
  command.add_option(
      "--memory-budget", switches.budget,
      "The most memory that the device may be asked for, as 4GiB or 800MB: what waits long is computed twice");
  command
      .add_option(
          "--objective", switches.objective,
          "fastest: the order of the recording; balanced: an order that needs less; least-memory: everything that can "
          "be computed twice")
      ->check(CLI::IsMember({"fastest", "balanced", "least-memory"}));
}

Result<void> check_sensitivity(const SpreadOptions& spread) {
  if (spread.look == SpreadOptions::Look::kEveryOp && spread.is_off()) {
    return Error{ErrorCode::kUsage, "--closely checks each op, and --sensitivity 0 nothing: leave one of them out"};
  }
  if (spread.backend.empty() || !spread.is_off()) return {};
  return Error{
      ErrorCode::kUsage,
      "--sensitivity-backend says where the runs of --sensitivity go, and with --sensitivity 0 there are none: "
      "leave one of them out"};
}

void add_sensitivity_switches(CLI::App& command, SpreadOptions& switches, const std::string& when) {
  command
      .add_option("--sensitivity", switches.runs,
                  when +
                      ", what differs is explained before it counts: by up to N more runs from starts one rounding "
                      "away, then by "
                      "the reference interpreter, then op by op. 0: not at all [40 runs, 30 seconds a stage]")
      ->check(CLI::Range(0u, 1000u));
  command.add_option(
      "--sensitivity-backend", switches.backend,
      "Where those runs go, for instance cpu when the judged device is slow: a plugin's name or PLUGIN:INDEX "
      "[the judged device]");
}

void add_sandbox_switch(CLI::App& command, DeviceChoice& choice) {
  command.add_flag_callback(
      "--sandbox", [&choice] { choice.sandbox = "on"; },
      "Read and run the file in a process that may write nothing but its caches and outputs, run nothing "
      "but the compiler, and has no network");
  command.add_flag_callback(
      "--no-sandbox", [&choice] { choice.sandbox = "off"; },
      "Without that process. Default: with it, on cpu and reference, for files that `crucible record` did "
      "not write here for this user");
}

}  // namespace crucible::cli
