// The options of this plugin, in one list: what they are called, what they may be, what they mean.
#include "backends/nvidia/options.hpp"

#include "plugins/sdk/batching.hpp"
#include "plugins/sdk/watchdog.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

constexpr sdk::OptionSpec kSpecs[] = {
    {.name = "library",
     .type = sdk::OptionType::kPath,
     .help = "the driver's library; default: libcuda.so.1",
     .env = "CRUCIBLE_CUDA_LIBRARY",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "nvrtc",
     .type = sdk::OptionType::kPath,
     .help = "the run-time compiler: libnvrtc.so.N or the folder that it is in; default: by name, the newest that the "
             "driver takes",
     .env = "CRUCIBLE_NVRTC",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "nvml",
     .type = sdk::OptionType::kPath,
     .help = "the library of the devices' health; default: libnvidia-ml.so.1",
     .env = "CRUCIBLE_NVML",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "blas",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto cublaslt none",
     .help =
         "the library of matrix products in fast mode; auto: cuBLASLt where it is found, else products are generated",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "cublaslt",
     .type = sdk::OptionType::kPath,
     .help = "libcublasLt.so.N or the folder that it is in; default: by name, the newest that the driver takes",
     .env = "CRUCIBLE_CUBLASLT",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "matrix_units",
     .type = sdk::OptionType::kBool,
     .default_value = "true",
     .help = "in fast mode, products of f16 and bf16 that no library takes are kernels for the tensor cores (of sm_80 "
             "and later)",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "dnn",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto cudnn none",
     .help = "the library of convolutions and attentions in fast mode; auto: cuDNN where it is found, else they are "
             "generated",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "cudnn",
     .type = sdk::OptionType::kPath,
     .help = "libcudnn.so.N or the folder that it is in; default: by name, libcudnn.so.9, else .8",
     .env = "CRUCIBLE_CUDNN",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "profiler",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto cupti none",
     .help = "who times the launches of a plan and counts; auto: CUPTI where it is found, else events time and nothing "
             "is counted",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "cupti",
     .type = sdk::OptionType::kPath,
     .help = "libcupti.so.N or the folder that it is in; default: by name, the newest that the driver takes",
     .env = "CRUCIBLE_CUPTI",
     .from_folder = sdk::FromFolder::kNeedsTrust},
    {.name = "tf32",
     .type = sdk::OptionType::kBool,
     .default_value = "false",
     .help = "allow cuBLASLt and cuDNN to round the operands of f32 products and convolutions to TF32, as "
             "torch.backends' allow_tf32 do",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "measure_products",
     .type = sdk::OptionType::kBool,
     .default_value = "false",
     .help = "the algorithms that cuBLASLt proposes for a product are timed on the device when it is first asked for, "
             "and the fastest is taken: another one in another run, perhaps, with other last bits",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "blas_workspace_mib",
     .type = sdk::OptionType::kU64,
     .default_value = "32",
     .max = 4096,
     .help = "the most scratch memory that one product of cuBLASLt may ask for, in MiB",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "dnn_workspace_mib",
     .type = sdk::OptionType::kU64,
     .default_value = "1024",
     .max = 1 << 20,
     .help =
         "the most scratch memory that one convolution or attention of cuDNN may ask for, in MiB; never more than a "
         "sixteenth of the device's",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "memory",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto plain virtual",
     .help =
         "where device memory comes from; auto: large buffers in one range of addresses, the others from a pool, as "
         "far as the "
         "device has both; plain: cuMemAlloc; virtual: auto, and refused where there is no virtual memory management",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "memory_keep_mib",
     .type = sdk::OptionType::kU64,
     .default_value = "256",
     .max = 1 << 20,
     .help = "freed memory that the arena and the pool may each keep for the next buffer, in MiB",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "code",
     .type = sdk::OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto ptx cubin",
     .help = "what kernels are compiled to; auto: machine code where compiler and driver know the device, else PTX",
     .from_folder = sdk::FromFolder::kHarmless},
    {.name = "teams",
     .type = sdk::OptionType::kBool,
     .default_value = "true",
     .help = "the threads of a warp do a kernel's work item together where its loops allow; false: each thread does "
             "its own",
     .from_folder = sdk::FromFolder::kHarmless},
    sdk::kBatchesOption,
    sdk::kTimeoutOption,
};
constexpr sdk::Options kOptions(kSpecs);

}  // namespace

const sdk::Options& options() { return kOptions; }

}  // namespace crucible_nvidia
