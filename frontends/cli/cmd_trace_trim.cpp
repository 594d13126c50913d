// `crucible trace trim FILE --iterations A-B -o OUT`: some iterations as a recording of their own.
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/figures.hpp"
#include "core/base/terminal.hpp"
#include "core/trace/own_recordings.hpp"
#include "core/trace/trace_file.hpp"
#include "core/trace/trim.hpp"
#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;
using trace::Trace;

/// "2-5" or "3". Errors: kUsage.
Result<std::pair<std::uint32_t, std::uint32_t>> parse_range(std::string_view text) {
  const auto number = [](std::string_view digits, std::uint32_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  const std::size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash), last = dash == text.npos ? first : text.substr(dash + 1);
  std::pair<std::uint32_t, std::uint32_t> range;
  if (number(first, range.first) && number(last, range.second)) return range;
  return Error{ErrorCode::kUsage, fmt::format("--iterations {}: write two numbers from 0, as in 0-3, or one", text)};
}

}  // namespace

Result<int> run_trace_trim(const TrimOptions& options) {
  CRUCIBLE_TRY(const auto range, parse_range(options.iterations));
  CRUCIBLE_TRY_VOID(check_output(options.output, options.force));
  const bool is_own = trace::is_own_recording(options.file);  // before it may be replaced
  CRUCIBLE_TRY(const Trace whole, trace::read_file(options.file));
  auto kept = trace::trim(whole, range.first, range.second);
  if (!kept) return Error{kept.error().code, fmt::format("{}: {}", options.file, kept.error().message)};
  trace::WriteOptions write;
  write.blob_folder = blob_folder_of(options.file, whole);
  CRUCIBLE_TRY_VOID(trace::write_file(*kept, options.output, write));
  if (is_own) trace::remember_recording(options.output);
  CRUCIBLE_TRY(const trace::FileLayout layout, trace::read_layout(options.output));
  if (options.json) {
    print_json({{"file", options.file},
                {"output", options.output},
                {"iterations", kept->iterations.size()},
                {"ops", kept->ops.size()},
                {"externals", kept->externals.size()},
                {"final_states", kept->final_states.size()},
                {"incomplete_reason", kept->metadata.incomplete_reason},
                {"file_bytes", layout.file_bytes}});
  } else {
    print_text(fmt::format("{}: {} of {}, {}, {}, {}\n", options.output, plural(kept->iterations.size(), "iteration"),
                           whole.iterations.size(), plural(kept->ops.size(), "op"),
                           plural(kept->externals.size(), "external"), format_bytes(layout.file_bytes)));
    if (kept->final_states.size() < whole.final_states.size())
      print_text(fmt::format("without {} of {} final states: they are those of the last iteration\n",
                             whole.final_states.size() - kept->final_states.size(), whole.final_states.size()));
  }
  return 0;
}

}  // namespace crucible::cli
