// Health table: what ROCm SMI or AMD SMI measures of a device. Where there is neither, nothing is measured and that is
// said.
#include "backends/amd/device.hpp"
#include "backends/amd/smi.hpp"
#include "backends/amd/smi_sample.hpp"
#include "backends/amd/tables.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_amd {
namespace {

using namespace crucible;

crucible_status sample(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "health.sample: no function to report to");
    const DeviceFacts facts = find_device(hip(), device_id);
    const Smi* const library = smi();
    if (library == nullptr) return sdk::report(sink, user, {sdk::text_item("note", smi_refusal())});
    sample_smi(*library, facts.pci).send(sink, user);
  });
}

crucible_status state(crucible_str device_id, std::uint32_t* out, crucible_kv_sink why, void* user) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "health.state: no place for the answer");
    const DeviceFacts facts = find_device(hip(), device_id);
    const Smi* const library = smi();
    std::string complaint, reason = "nothing to complain of";
    if (library == nullptr) reason = "the runtime answers; " + smi_refusal();
    if (library != nullptr) {
      const sdk::HealthReport report = sample_smi(*library, facts.pci);
      const std::uint64_t errors = report.number_of("ecc_errors");
      if (errors != 0) sdk::add_to_list(complaint, std::to_string(errors) + " uncorrected errors");
      if (const std::string slow = report.text_of("throttle_reason"); !slow.empty())
        sdk::add_to_list(complaint, "clocks are slow: " + slow);
      if (const std::string note = report.text_of("note"); !note.empty()) reason = "the runtime answers; " + note;
    }
    if (why != nullptr) sdk::report(why, user, {sdk::text_item("reason", complaint.empty() ? reason : complaint)});
    *out = complaint.empty() ? CRUCIBLE_STATE_OK : CRUCIBLE_STATE_DEGRADED;
  });
}

}  // namespace

const crucible_if_health kHealthTable = {sizeof(crucible_if_health), CRUCIBLE_ABI_MINOR, sample, state};

}  // namespace crucible_amd
