// The options of this plugin, in one list: what they are called, what they may be, what they mean.
#include "backends/opencl/options.hpp"

#include "plugins/sdk/watchdog.hpp"

namespace crucible_opencl {

using namespace crucible;

namespace {

constexpr sdk::OptionSpec kSpecs[] = {
    {.name = "library",
     .type = sdk::OptionType::kPath,
     .help = "OpenCL's loader or one driver's own library; default: libOpenCL.so.1",
     .env = "CRUCIBLE_OPENCL_LIBRARY",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "mapping",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto chunks items",
     .help = "a work-item does one chunk of a launch, or single items a stride apart; auto: chunks on processors",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "teams",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto none groups subgroups",
     .help =
         "work-items do a kernel's item together where its loops allow, a sub-group or a whole group of them; auto: "
         "sub-groups, or groups where a kernel cannot demand their width; none on processors",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "lanes",
     .type = sdk::OptionType::kU64,
     .default_value = "0",
     .max = 64,
     .help = "work-items of such a team, a power of two; 0: by the device",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "language",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto c spirv",
     .help = "kernels are printed as OpenCL C, or written as SPIR-V where the driver takes it; auto: OpenCL C",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "plans",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto queue command_buffer",
     .help = "a replay enqueues each op, or one command buffer; auto: a command buffer where the driver can patch its "
             "slots and is not a processor's",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "memory",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto buffers usm svm",
     .help = "buffers, unified shared memory or shared virtual memory; auto: unified where the driver has it and is "
             "not a processor's",
     .from_folder = sdk::FromFolder::kHarmless},
    sdk::kTimeoutOption,
};
constexpr sdk::Options kOptions(kSpecs);

}  // namespace

const sdk::Options& options() { return kOptions; }

}  // namespace crucible_opencl
