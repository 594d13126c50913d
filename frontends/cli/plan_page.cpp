// Fills the page's places with style, script and data: see plan_page.hpp.
#include "frontends/cli/plan_page.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "core/base/words.hpp"
#include "frontends/cli/command.hpp"

namespace crucible::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Texts by number: names of modules and lines stand in thousands of rows.
class StringTable {
 public:
  std::size_t number(const std::string& text) {
    const auto [place, is_new] = numbers_.try_emplace(text, strings_.size());
    if (is_new) strings_.push_back(text);
    return place->second;
  }
  Json take() { return std::move(strings_); }

 private:
  std::unordered_map<std::string, std::size_t> numbers_;
  Json strings_ = Json::array();
};

/// JSON that may stand inside a script element: no "<", so that nothing in it can end the element or begin a comment.
std::string to_script_text(const Json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

Json buffer_columns(const PlanReport& report, StringTable& strings) {
  Json columns;
  for (const char* name : {"name", "module", "site", "op", "role", "offset", "size", "begin", "end"})
    columns[name] = Json::array();
  columns["turns"] = Json::object();  // by number of the buffer: [step, role, step, role, ...]
  for (std::size_t id = 0; id < report.buffers.size(); ++id) {
    const PlannedBuffer& buffer = report.buffers[id];
    for (const runtime::Turn& turn : buffer.turns) {
      Json& turns = columns["turns"][std::to_string(id)];
      turns.push_back(turn.begin);
      turns.push_back(static_cast<int>(turn.role));
    }
    columns["name"].push_back(strings.number(buffer.name));
    columns["module"].push_back(strings.number(buffer.module));
    columns["site"].push_back(strings.number(buffer.site));
    columns["op"].push_back(strings.number(buffer.op));
    columns["role"].push_back(static_cast<int>(buffer.role));
    columns["offset"].push_back(buffer.offset_bytes);
    columns["size"].push_back(buffer.size_bytes);
    columns["begin"].push_back(buffer.begin);
    columns["end"].push_back(buffer.end);
  }
  return columns;
}

Json step_columns(const PlanReport& report, StringTable& strings) {
  Json columns;
  for (const char* name : {"phase", "ops", "module", "site"}) columns[name] = Json::array();
  for (const PlannedStep& step : report.steps) {
    columns["phase"].push_back(static_cast<int>(step.phase));
    columns["ops"].push_back(strings.number(step.ops));
    columns["module"].push_back(strings.number(step.module));
    columns["site"].push_back(strings.number(step.site));
  }
  return columns;
}

}  // namespace

Json page_data(const PlanReport& report) {
  StringTable strings;
  Json data;
  data["file"] = report.file;
  data["kernels"] = report.kernels;
  data["peak_bytes"] = report.plan.peak_bytes;
  data["lower_bound_bytes"] = report.plan.lower_bound_bytes;
  data["lower_bound_step"] = report.plan.lower_bound_time;
  if (report.answer) {
    data["device"] = {{"name", report.answer->device.name}, {"usable_bytes", report.answer->fit.usable_bytes}};
  }
  data["alignment"] = runtime::kAlignment;
  data["roles"] = Json::array();
  for (int role = 0; role < runtime::kRoleCount; ++role) {
    const auto each = static_cast<runtime::Role>(role);
    data["roles"].push_back({{"name", runtime::role_name(each)}, {"colour", colour_of(each)}});
  }
  data["phases"] = {"forward", "backward", "optimizer"};
  data["buffers"] = buffer_columns(report, strings);
  data["steps"] = step_columns(report, strings);
  data["live_bytes"] = report.live_bytes;
  data["strings"] = strings.take();
  return data;
}

std::string plan_page(const PlanReport& report) {
  const std::pair<std::string_view, std::string> places[] = {
      {"{{title}}", escape_markup(fmt::format("{}: memory plan", report.file))},
      {"{{style}}", std::string(page_text("page.css"))},
      {"{{data}}", to_script_text(page_data(report))},
      {"{{script}}", fmt::format("{}\n{}\n{}", page_text("data.js"), page_text("plot.js"), page_text("page.js"))},
  };
  std::string_view rest = page_text("page.html");
  std::string page;
  for (const auto& [place, text] :
       places) {  // in the order in which they stand: what is filled in is not looked at again
    const std::size_t at = rest.find(place);
    if (at == std::string_view::npos) continue;
    page += rest.substr(0, at);
    page += text;
    rest.remove_prefix(at + place.size());
  }
  return page + std::string(rest);
}

}  // namespace crucible::cli
