// Library table: which matrix products cuBLASLt takes, and which convolutions and attentions cuDNN. The host asks before it plans memory, in fast mode alone.
#include "backends/nvidia/cublas.hpp"
#include "backends/nvidia/device.hpp"
#include "backends/nvidia/tables.hpp"
#include "plugins/sdk/error.hpp"

namespace crucible_nvidia {
namespace {

using namespace crucible;

crucible_status claim(crucible_device* device, const crucible_library_desc* desc, std::uint64_t* out_scratch_bytes) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && out_scratch_bytes != nullptr, "library.claim: no device or no place for the answer");
    if (sdk::is_convolution(desc)) {
      const sdk::Convolution convolution = sdk::read_convolution(desc);
      const Current current(*device);
      *out_scratch_bytes = device->require_convolutions().scratch_bytes(convolution);
      return;
    }
    if (sdk::is_attention(desc)) {
      const sdk::Attention attention = sdk::read_attention(desc);
      const Current current(*device);
      *out_scratch_bytes = device->require_attentions().scratch_bytes(attention);
      return;
    }
    const sdk::Gemm gemm = sdk::read_gemm(desc, sdk::Epilogues::kTaken);
    const Current current(*device);
    *out_scratch_bytes = sdk::claim_product(gemm, *device->matrix_products, [&](const sdk::Gemm& asked) { return device->require_products().scratch_bytes(asked); });
  });
}

}  // namespace

const crucible_if_library kLibraryTable = {sizeof(crucible_if_library), CRUCIBLE_ABI_MINOR, claim};

}  // namespace crucible_nvidia
