// `crucible trace diff A B`: in what two recordings differ, in words; 0 when in nothing, 1 otherwise.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/figures.hpp"
#include "core/base/terminal.hpp"
#include "core/trace/diff.hpp"
#include "core/trace/trace_file.hpp"
#include "frontends/cli/trace_command.hpp"

namespace crucible::cli {

namespace {

using nlohmann::ordered_json;
using trace::Trace;

ordered_json difference_json(const trace::Difference& difference) {
  const auto number = [](const std::optional<std::uint32_t>& it) {
    return it ? ordered_json(*it) : ordered_json(nullptr);
  };
  return {{"kind", difference.kind},         {"iteration", number(difference.iteration)},
          {"op", number(difference.op_a)},   {"other_op", number(difference.op_b)},
          {"schema", difference.schema},     {"module", difference.module},
          {"site", difference.site},         {"argument", difference.argument},
          {"what", difference.what},         {"text", difference.text()}};
}

void print_differences(const Trace& a, const trace::Diff& diff) {
  if (diff.is_equal()) {
    return print_text(
        fmt::format("equal: {}, {}\n", plural(a.iterations.size(), "iteration"), plural(a.ops.size(), "op")));
  }
  for (const trace::Difference& difference : diff.differences) print_text(difference.text() + "\n");
  if (diff.count > diff.differences.size()) {
    print_text(
        fmt::format("{} differences, {} of them shown; --limit 0 shows all\n", diff.count, diff.differences.size()));
  } else {
    print_text(plural(diff.count, "difference") + "\n");
  }
}

}  // namespace

Result<int> run_trace_diff(const DiffArguments& arguments) {
  CRUCIBLE_TRY(const Trace a, trace::read_file(arguments.a));
  CRUCIBLE_TRY(const Trace b, trace::read_file(arguments.b));
  CRUCIBLE_TRY(const trace::Diff diff, trace::diff(a, b, arguments.options));
  if (arguments.json) {
    ordered_json document = {{"a", arguments.a}, {"b", arguments.b}, {"equal", diff.is_equal()}, {"count", diff.count}};
    document["differences"] = ordered_json::array();
    for (const trace::Difference& difference : diff.differences)
      document["differences"].push_back(difference_json(difference));
    print_json(document);
  } else {
    print_differences(a, diff);
  }
  return diff.is_equal() ? 0 : 1;
}

}  // namespace crucible::cli
