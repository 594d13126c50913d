// The options of this plugin, in one list: what they are called, what they may be, what they mean.
#include "backends/cpu/sdk.hpp"

namespace crucible_cpu {
namespace {

constexpr OptionSpec kSpecs[] = {
    {.name = "threads",
     .type = OptionType::kU64,
     .min = 1,
     .max = 1024,
     .help = "each replay has so many threads; default: as many as pay, up to the processors that mask and quota allow",
     .env = "CRUCIBLE_THREADS",
     .from_folder = FromFolder::kHarmless},
    {.name = "compiler",
     .type = OptionType::kPath,
     .help = "clang or gcc, by path or name; default: clang-19, any other from 17 on, else gcc",
     .env = "CRUCIBLE_CLANG",
     .from_folder = FromFolder::kNeedsTrust},
    {.name = "compile_wait_s",
     .type = OptionType::kU64,
     .default_value = "60",
     .max = 86400,
     .help = "seconds to wait for another process that compiles the same kernel, before it is compiled here too",
     .from_folder = FromFolder::kHarmless},
    {.name = "library",
     .type = OptionType::kChoice,
     .default_value = "auto",
     .choices = "auto onednn none",
     .help = "oneDNN for products and convolutions: when it is there, always, or never",
     .env = "CRUCIBLE_LIBRARY",
     .from_folder = FromFolder::kHarmless},
    {.name = "sanitize",
     .type = OptionType::kBool,
     .default_value = "false",
     .help = "kernels check each access and what C leaves undefined, and end with an error: slow, by clang, for "
             "finding mistakes of the generator",
     .from_folder = FromFolder::kHarmless},
};

}  // namespace

const Options kOptions(kSpecs);

}  // namespace crucible_cpu
