// See library_call.hpp.
#include "plugins/sdk/testing/library_call.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "plugins/sdk/testing/number_bytes.hpp"

namespace crucible::backend {
namespace {

constexpr std::uint8_t kUntouched = 0x5a;

}  // namespace

std::string run_library_call(const std::shared_ptr<Device>& device, const LibraryRun& run) {
  const auto dtype_of = [&](std::size_t i) { return run.dtypes.empty() ? run.desc.views[0].dtype : run.dtypes[i]; };
  std::uint64_t scratch = 0;
  if (const auto claimed =
          to_result(device->backend().library_table().claim(device->handle(), &run.desc, &scratch), "claim");
      !claimed)
    return claimed.error().message;
  std::vector<Buffer> buffers;
  std::vector<std::uint64_t> places;
  for (std::size_t i = 0; i < run.values.size(); ++i) {
    const std::uint32_t dtype = dtype_of(i);
    const std::uint64_t moved = run.shift * size_of(dtype);
    buffers.push_back(take(Buffer::allocate(device, moved + run.values[i].size() * size_of(dtype), 256)));
    EXPECT_TRUE(buffers.back().write(moved, bytes_of(run.values[i], dtype)));
    places.push_back(buffers.back().address() + moved);
  }
  buffers.push_back(take(Buffer::allocate(device, scratch + 1, 256)));
  places.push_back(buffers.back().address());
  // Behind another op, so that the call is not all there is.
  std::array<crucible_op, 2> ops = {};
  for (crucible_op& op : ops) op.struct_size = sizeof(op);
  ops[0].kind = CRUCIBLE_OP_FILL;
  ops[0].buffers = &places.back();
  ops[0].buffer_count = 1;
  ops[0].size = scratch + 1;
  ops[0].pattern = kUntouched;
  ops[1].kind = CRUCIBLE_OP_LIBRARY;
  ops[1].library = &run.desc;
  ops[1].buffers = places.data();
  ops[1].buffer_count = static_cast<std::uint32_t>(places.size());
  ops[1].scratch_bytes = run.gives_scratch ? scratch : 0;
  auto plan = Plan::build(device, ops, 0);
  if (!plan) return plan.error().message;
  const std::vector<double> expected = run.expected();
  const std::uint32_t dtype = dtype_of(run.result);
  for (const char* how : {"plan", "plan again", "op by op"}) {  // an old result must not be added
    if (std::string(how) == "op by op") {
      EXPECT_TRUE(plan->profile());
    } else if (const auto replayed = plan->replay(); !replayed) {
      return replayed.error().message;
    }
    std::vector<std::byte> bytes(expected.size() * size_of(dtype));
    EXPECT_TRUE(buffers[run.result].read(run.shift * size_of(dtype), bytes));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double got = number_at(bytes, i, dtype), wanted = expected[i];
      if (std::fabs(got - wanted) > run.absolute + run.relative * std::fabs(wanted))
        return std::string("wrong result, ") + how + ": element " + std::to_string(i) + " is " + std::to_string(got) +
               ", expected " + std::to_string(wanted);
    }
    // What was not given stays as it is, as does what lies behind it.
    std::vector<std::byte> rest(scratch + 1);
    EXPECT_TRUE(buffers.back().read(0, rest));
    const std::size_t used = run.gives_scratch ? scratch : 0;
    if (std::any_of(rest.begin() + static_cast<std::ptrdiff_t>(used), rest.end(),
                    [](std::byte each) { return each != std::byte{kUntouched}; }))
      return std::string("scratch that was not given is written, ") + how;
  }
  return "";
}

}  // namespace crucible::backend
