// plan.build's list of ops, read from a host of any minor and checked, for every plugin. What a vendor makes of it
// (nodes of a graph, closed command lists, calls one after the other) is the plugin's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plugins/abi/crucible_plugin.h"
#include "plugins/sdk/address_map.hpp"
#include "plugins/sdk/attention.hpp"
#include "plugins/sdk/convolution.hpp"
#include "plugins/sdk/gemm.hpp"

namespace crucible::sdk {

struct ListedOp {
  std::uint32_t kind = 0;                // CRUCIBLE_OP_LAUNCH, _COPY, _FILL or _LIBRARY
  crucible_kernel* kernel = nullptr;     // LAUNCH
  std::vector<std::uint64_t> addresses;  // LAUNCH: of its buffers; COPY: to, from; FILL: where; LIBRARY: of its
                                         // description, then scratch if there is some
  std::vector<std::uint64_t> scalars;    // LAUNCH: eight bytes each, of a double or an i64 as the kernel takes it
  std::vector<Place> places;             // of the addresses, where the device looks them up (OpChecks::find)
  std::vector<std::uint64_t> sizes;  // LAUNCH: of its buffers, where the device asks for them (OpChecks::takes_sizes)
  std::int64_t grid = 0, grain = 0;  // LAUNCH: work items; how many are worth a thread of a processor
  std::uint64_t size = 0;            // COPY, FILL: bytes
  std::uint8_t pattern = 0;          // FILL
  std::unique_ptr<const Gemm> product;  // LIBRARY: this, or one of the next two
  std::unique_ptr<const Convolution> convolution;
  std::unique_ptr<const Attention> attention;
  const crucible_library_desc* library = nullptr;  // LIBRARY: the host's own words, until plan.build returns
  std::uint64_t scratch_bytes = 0;                 // LIBRARY: that the last address has
  /// LIBRARY: of its scratch, 0 where there is none.
  std::uint64_t scratch_address() const { return scratch_bytes == 0 ? 0 : addresses.back(); }
  /// The addresses and the scalars as a kernel in C takes them, on a device whose addresses are the host's.
  void* pointer(std::size_t i) const { return reinterpret_cast<void*>(addresses[i]); }
  void* const* pointers() const { return reinterpret_cast<void* const*>(addresses.data()); }
  const double* numbers() const { return reinterpret_cast<const double*>(scalars.data()); }

  /// False for one that does nothing: an empty grid, no bytes.
  bool does_something() const {
    if (kind == CRUCIBLE_OP_LIBRARY) return true;
    return kind == CRUCIBLE_OP_LAUNCH ? grid != 0 : size != 0;
  }
};

/// Scalar `scalar` of op `op` is slot `slot`.
struct SlotUse {
  std::uint32_t slot, op, scalar;
};

struct OpList {
  std::vector<ListedOp> ops;
  std::vector<SlotUse> slot_uses;
  std::uint32_t slot_count = 0;
};

/// What a list is checked against. What is left empty is not checked, or not taken.
struct KernelShape {
  std::string name;
  std::uint32_t buffer_count = 0, scalar_count = 0;
};
struct OpChecks {
  std::function<KernelShape(const crucible_kernel&)> shape_of = {};
  std::function<Place(std::uint64_t address)> find = {};  // throws for an address in no buffer
  bool takes_products = false;                            // library calls that are matrix products
  bool takes_convolutions = false;                        // and those that are convolutions
  Epilogues epilogues = Epilogues::kDeclined;             // of products
  bool takes_attentions = false;                          // and those that are attentions
  bool takes_all_calls = false;                           // library calls that the plugin reads itself: from `library`
  bool takes_sizes = false;                               // plugins/abi/sized_launch.hpp
};

/// Errors: INVALID_ARGUMENT naming the op that is wrong, and what is wrong with it.
[[noreturn]] void refuse_op(std::size_t index, const std::string& what);

/// Errors: INVALID_ARGUMENT naming the first of a launch's buffers that lies at no multiple of so many bytes.
void require_alignment(std::size_t index, const ListedOp& launch, const std::string& kernel, std::uint32_t bytes);

/// Reads and checks all ops. Threads: any. Errors: INVALID_ARGUMENT naming the op; UNSUPPORTED for a library call that
/// is not taken.
OpList read_ops(const crucible_op* ops, std::uint32_t count, std::uint32_t slot_count, const OpChecks& checks);

/// Checks plan.rebind's list: buffers that ops have, and addresses with room behind them for what the op uses there, as
/// far as the list tells. Errors: INVALID_ARGUMENT naming the first that is wrong.
void check_rebindings(const OpList& list, std::span<const crucible_rebinding> rebindings, const OpChecks& checks);

}  // namespace crucible::sdk
