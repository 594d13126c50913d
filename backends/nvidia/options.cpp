// The options of this plugin, in one list: what they are called, what they may be, what they mean.
#include "backends/nvidia/options.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr sdk::OptionSpec kSpecs[] = {
    {.name = "library",
     .type = sdk::OptionType::kPath,
     .help = "the driver's library; default: libcuda.so.1",
     .env = "CRUCIBLE_CUDA_LIBRARY"},
    {.name = "nvrtc",
     .type = sdk::OptionType::kPath,
     .help = "the run-time compiler: libnvrtc.so.N or the folder that it is in; default: by name, the newest that the driver takes",
     .env = "CRUCIBLE_NVRTC"},
    {.name = "nvml",
     .type = sdk::OptionType::kPath,
     .help = "the library of the devices' health; default: libnvidia-ml.so.1",
     .env = "CRUCIBLE_NVML"},
    {.name = "code",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto ptx cubin",
     .help = "what kernels are compiled to; auto: machine code where compiler and driver know the device, else PTX"},
    {.name = "cache_dir",
     .type = sdk::OptionType::kPath,
     .help = "where compiled programs are kept; default: the user's cache folder",
     .env = "CRUCIBLE_CACHE_DIR"},
};
constexpr sdk::Options kOptions(kSpecs);

}  // namespace

const sdk::Options& options() { return kOptions; }

}  // namespace crucible_nvidia
