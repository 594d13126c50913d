// The options of this plugin, in one list: what they are called, what they may be, what they mean.
#include "backends/intel/options.hpp"

#include "plugins/sdk/watchdog.hpp"

namespace crucible_intel {

using namespace crucible;

namespace {

constexpr sdk::OptionSpec kSpecs[] = {
    {.name = "library",
     .type = sdk::OptionType::kPath,
     .help = "Level Zero's loader; default: libze_loader.so.1",
     .env = "CRUCIBLE_LEVEL_ZERO_LIBRARY",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "teams",
     .type = sdk::OptionType::kBool,
     .default_value = "true",
     .help = "several work-items do a kernel's item together where its loops allow; false: each does its own",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "subgroups",
     .type = sdk::OptionType::kBool,
     .default_value = "true",
     .help = "those are a sub-group, where the device lets a kernel demand its size; false: a whole group",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "registers",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto usual large",
     .help = "registers of a work-item; large: twice as many for half as many (-ze-opt-large-register-file); auto: for "
             "kernels that keep many numbers",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "group_size",
     .type = sdk::OptionType::kU64,
     .default_value = "128",
     .min = 1,
     .max = 1024,
     .help = "work-items of one group, at most; a device that takes fewer gets fewer",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "plans",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto mutable recorded",
     .help = "a changed slot is patched in a mutable command list, or the list is recorded again; auto: mutable where "
             "the driver has it",
     .from_folder = sdk::FromFolder::kHarmless},
    sdk::kTimeoutOption,
};
constexpr sdk::Options kOptions(kSpecs);

}  // namespace

const sdk::Options& options() { return kOptions; }

}  // namespace crucible_intel
