// Health table: what Sysman measures of a device. Where there is no Sysman, nothing is measured and that is said.
#include "backends/intel/device.hpp"
#include "backends/intel/sysman.hpp"
#include "backends/intel/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_intel {
namespace {

using namespace crucible;

crucible_status sample(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "health.sample: no function to report to");
    const DeviceFacts facts = find_device(level_zero(), device_id);
    const SysmanFunctions* const functions = sysman();
    if (functions == nullptr) return sdk::report(sink, user, {sdk::text_item("note", sysman_refusal())});
    sample_sysman(*functions, facts).report.send(sink, user);
  });
}

struct Opinion {
  std::uint32_t state = CRUCIBLE_STATE_OK;
  std::string reason = "nothing to complain of";
};

Opinion opinion_on(const SysmanSample& sample) {
  const sdk::HealthReport& report = sample.report;
  if (sample.is_lost) return {CRUCIBLE_STATE_LOST, "the driver calls the device lost"};
  if (sample.needs_reset) return {CRUCIBLE_STATE_DEGRADED, "the driver wants the device to be reset"};
  const std::uint64_t errors = report.number_of("ecc_errors") + report.number_of("device_errors");
  if (errors != 0) return {CRUCIBLE_STATE_DEGRADED, std::to_string(errors) + " uncorrected errors"};
  const std::string memory = report.text_of("memory_health");
  if (!memory.empty() && memory != "ok") return {CRUCIBLE_STATE_DEGRADED, "the memory's health: " + memory};
  if (const std::string slow = report.text_of("throttle_reason"); !slow.empty())
    return {CRUCIBLE_STATE_DEGRADED, "clocks are slow: " + slow};
  if (const std::string note = report.text_of("note"); !note.empty())
    return {CRUCIBLE_STATE_OK, "the driver answers; " + note};
  return {};
}

crucible_status state(crucible_str device_id, std::uint32_t* out, crucible_kv_sink why, void* user) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "health.state: no place for the answer");
    const DeviceFacts facts = find_device(level_zero(), device_id);
    const SysmanFunctions* const functions = sysman();
    const Opinion opinion = functions != nullptr
                                ? opinion_on(sample_sysman(*functions, facts))
                                : Opinion{CRUCIBLE_STATE_OK, "the driver answers; " + sysman_refusal()};
    if (why != nullptr) sdk::report(why, user, {sdk::text_item("reason", opinion.reason)});
    *out = opinion.state;
  });
}

}  // namespace

const crucible_if_health kHealthTable = {sizeof(crucible_if_health), CRUCIBLE_ABI_MINOR, sample, state};

}  // namespace crucible_intel
