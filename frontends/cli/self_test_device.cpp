// See self_test_device.hpp. What is tested is runtime/judge/self_test.cpp's business.
#include "frontends/cli/self_test_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/terminal.hpp"
#include "runtime/judge/self_test.hpp"
#include "frontends/cli/command.hpp"
#include "frontends/cli/progress.hpp"
#include "frontends/cli/terminal_observer.hpp"

namespace crucible::cli {

Result<int> self_test_device(const DeviceChoice& choice, bool all_patterns, bool json) {
  CRUCIBLE_TRY(const OpenedDevice opened, open_device(choice, terminal()));
  Progress progress(json);
  const auto said = [&](double done) {
    progress.say(fmt::format("computing every function of strict numerics {:.0f} %", 100 * done));
  };
  CRUCIBLE_TRY(
      const runtime::SelfTest test,
      runtime::self_test(opened.device, all_patterns ? runtime::Extent::kAll : runtime::Extent::kOnDemand, said));
  progress.say("");
  const backend::DeviceInfo& info = opened.device->info();
  if (json) {
    nlohmann::ordered_json document = {{"device", info.id},
                                       {"name", info.name},
                                       {"samples", test.samples},
                                       {"passed", test.passed()},
                                       {"items", nlohmann::ordered_json::array()}};
    for (const runtime::SelfTestItem& item : test.items) {
      document["items"].push_back(
          {{"name", item.name}, {"expected", item.expected}, {"found", item.found}, {"passed", item.passed()}});
    }
    print_json(document);
  } else {
    std::vector<std::vector<std::string>> rows = {{"function or rule", "named", "found", "result"}};
    for (const runtime::SelfTestItem& item : test.items)
      rows.push_back({std::string(item.name), item.expected, item.found, item.passed() ? "equal" : "DIFFERS"});
    print_out("{}\n{} ({}): {} of {} equal, each on {} bit patterns. {}\n", format_table(rows), info.id, info.name,
              std::ranges::count_if(test.items, &runtime::SelfTestItem::passed), test.items.size(), test.samples,
              test.passed() ? "It is admitted to strict numerics."
                            : "It cannot be strict; --numerics fast runs here, within tolerances.");
  }
  return test.passed() ? 0 : exit_code(ErrorCode::kCheckFailed);
}

}  // namespace crucible::cli
