#include "plugins/loader/debug_layers.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "core/base/output.hpp"
#include "core/base/terminal.hpp"
#include "core/base/words.hpp"
#include "plugins/layers/layers.hpp"

namespace crucible::backend {
namespace {

void print_line(std::FILE* file, std::string_view text) {
  const std::string line = without_commands(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), file);
}


/// Appends to the file, or to standard error when it is "". Errors: kUnavailable.
Result<std::function<void(std::string_view)>> trace_writer(const std::filesystem::path& path) {
  if (path.empty()) return std::function<void(std::string_view)>([](std::string_view line) { tell("{}\n", line); });
  const Result<int> descriptor = open_to_append(path);
  if (!descriptor)
    return Error{ErrorCode::kUnavailable, fmt::format("the trace of plugin calls: {}", descriptor.error().message)};
  const std::shared_ptr<std::FILE> file(fdopen(*descriptor, "a"), [](std::FILE* opened) {
    if (opened != nullptr) std::fclose(opened);
  });
  if (file == nullptr)
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the trace of plugin calls cannot be written to {}", path.string())};
  return std::function<void(std::string_view)>([file](std::string_view line) { print_line(file.get(), line); });
}

}  // namespace

Result<int> wrap_in_layers(Tables& tables, const Examined& plugin) {
  layers::Options options;
  for (const std::string& layer : plugin.layers) {
    if (layer == "validate") {
      options.validate = true;
    } else if (layer == "trace") {
      options.trace = true;
    } else if (layer == "ledger") {
      options.ledger = true;
    } else {
      return Error{ErrorCode::kUsage,
                   fmt::format("there is no debug layer '{}': give validate, trace or ledger", layer)};
    }
  }
  if (!options.any()) return -1;
  options.plugin = plugin.candidate.name;
  options.report = [](std::string_view text) { tell("crucible: {}\n", text); };
  if (options.trace) {
    CRUCIBLE_TRY(options.write_trace, trace_writer(plugin.trace_file));
  }
  const int slot = layers::wrap(tables, options);
  if (slot < 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("debug layers go around at most {} plugins at once", layers::kSlots)};
  }
  return slot;
}

}  // namespace crucible::backend
