// Library table: which products, convolutions and attentions a vendor's library takes. The host asks before it plans
// memory, in fast mode alone.
//
// A Device says what it takes as thread_plan.hpp reads it (kTakesConvolutions, kTakesAttentions), and has
// require_products(), require_convolutions(), require_attentions(), each with `scratch_bytes(description)`, and
// `matrix_products` for products that the library declines. Current makes it the calling thread's own.
#pragma once

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/matrix_product.hpp"
#include "plugins/sdk/thread_plan.hpp"

namespace crucible::sdk {

template <class Device, class Current>
crucible_status claim_library_call(Device* device, const crucible_library_desc* desc,
                                   std::uint64_t* out_scratch_bytes) {
  return guard([&] {
    require(device != nullptr && out_scratch_bytes != nullptr, "library.claim: no device or no place for the answer");
    if (is_convolution(desc)) {
      const Convolution convolution = read_convolution(desc);
      const Current current(*device);
      *out_scratch_bytes = device->require_convolutions().scratch_bytes(convolution);
      return;
    }
    if constexpr (takes_attentions<Device>()) {
      if (is_attention(desc)) {
        const Attention attention = read_attention(desc);
        const Current current(*device);
        *out_scratch_bytes = device->require_attentions().scratch_bytes(attention);
        return;
      }
    }
    const Gemm gemm = read_gemm(desc, takes_epilogues<Device>());
    const Current current(*device);
    *out_scratch_bytes = claim_product(gemm, *device->matrix_products, [&](const Gemm& asked) {
      return device->require_products().scratch_bytes(asked);
    });
  });
}

template <class Device, class Current>
constexpr crucible_if_library make_library_table() {
  return {sizeof(crucible_if_library), CRUCIBLE_ABI_MINOR, claim_library_call<Device, Current>};
}

}  // namespace crucible::sdk
