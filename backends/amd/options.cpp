// The options of this plugin, in one list: what they are called, what they may be, what they mean.
#include "backends/amd/options.hpp"

#include "plugins/sdk/batching.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

constexpr sdk::OptionSpec kSpecs[] = {
    {.name = "library",
     .type = sdk::OptionType::kPath,
     .help = "the HIP runtime; default: libamdhip64.so.7, .6 or .5, whichever is found first",
     .env = "CRUCIBLE_HIP_LIBRARY",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "hiprtc",
     .type = sdk::OptionType::kPath,
     .help = "the run-time compiler; default: libhiprtc.so of the runtime's version, or the runtime itself (HIP 5)",
     .env = "CRUCIBLE_HIPRTC",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "smi",
     .type = sdk::OptionType::kPath,
     .help = "the library of the devices' health; default: librocm_smi64.so.7, .6, .5 or .1, else libamd_smi.so",
     .env = "CRUCIBLE_ROCM_SMI",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "compiler",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto hiprtc clang",
     .help = "what compiles kernels; auto: HIPRTC, or clang where HIPRTC is missing or broken",
     .env = "CRUCIBLE_HIP_COMPILER",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "clang",
     .type = sdk::OptionType::kPath,
     .help = "the clang of compiler = clang; default: ROCm's, else the newest of clang-22 to clang-18 in PATH",
     .env = "CRUCIBLE_HIP_CLANG",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "arch",
     .type = sdk::OptionType::kText,
     .help = "the architecture that kernels are compiled for, as gfx942; default: the device's own",
     .env = "CRUCIBLE_HIP_ARCH",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "blas",
     .type = sdk::OptionType::kChoice,
     .default_value = "none",
     .choices = "auto rocblas none",
     .help =
         "the library of matrix products in fast mode; auto: rocBLAS where it is found; none: products are generated",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "rocblas",
     .type = sdk::OptionType::kPath,
     .help = "rocBLAS or the folder that it is in; default: librocblas.so.5, .4, .3 or .0, whichever is found first",
     .env = "CRUCIBLE_ROCBLAS",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "teams",
     .type = sdk::OptionType::kBool,
     .default_value = "true",
     .help = "the threads of a wave do a kernel's work item together where its loops allow; false: each thread does "
             "its own",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "matrix_units",
     .type = sdk::OptionType::kBool,
     .default_value = "true",
     .help = "in fast mode, products of f16 and bf16 that no library takes are kernels for the matrix units, where the "
             "device has some that are known",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "dnn",
     .type = sdk::OptionType::kChoice,
     .default_value = "none",
     .choices = "auto miopen none",
     .help =
         "the library of convolutions in fast mode; auto: MIOpen where it is found; none: convolutions are generated",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "miopen",
     .type = sdk::OptionType::kPath,
     .help = "MIOpen or the folder that it is in; default: by name, libMIOpen.so.1",
     .env = "CRUCIBLE_MIOPEN",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "dnn_workspace_mib",
     .type = sdk::OptionType::kU64,
     .default_value = "32",
     .max = 4096,
     .help = "the most scratch memory that one convolution of MIOpen may ask for, in MiB",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "profiler",
     .type = sdk::OptionType::kChoice,
     .default_value = "none",
     .choices = "auto rocprofiler none",
     .help = "who times the launches of a plan, and counts; auto: rocprofiler-sdk where it is found; none: events, and "
             "nothing is counted",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "rocprofiler",
     .type = sdk::OptionType::kPath,
     .help = "rocprofiler-sdk or the folder that it is in; default: by name, librocprofiler-sdk.so.1",
     .env = "CRUCIBLE_ROCPROFILER",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    sdk::kBatchesOption,
    sdk::kTimeoutOption,
};
constexpr sdk::Options kOptions(kSpecs);

}  // namespace

const sdk::Options& options() { return kOptions; }

}  // namespace crucible_amd
