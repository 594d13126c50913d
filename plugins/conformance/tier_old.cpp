// The same plugin under a host of ABI 0.1: its shorter tables, its shorter structs, its services without alloc and
// free.
#include <fmt/format.h>

#include <cstddef>
#include <cstring>

#include "plugins/conformance/opened.hpp"

namespace crucible::conformance {
namespace {

constexpr std::uint32_t kMinor = 1;

void starts(const Settings& settings) {
  for (int round = 0; round < 3; ++round) {
    Opened opened(settings, kMinor);
    expect(!opened.id.empty(), "a device under a host of 0.1", "none");
  }
}

void memory(const Settings& settings) {
  Opened opened(settings, kMinor);
  Memory memory(opened, 10'000);
  expect_bytes(memory.read(0, 10'000), std::vector<std::byte>(10'000), "a fresh buffer under a host of 0.1");
  const std::vector<std::byte> data = noise(777, 1);
  memory.write(13, data);
  expect_bytes(memory.read(13, 777), data, "bytes under a host of 0.1");
}

void plans(const Settings& settings) {
  Opened opened(settings, kMinor);
  const Kernels kernels(opened);
  Memory out(opened, 4 * 8), other(opened, 4 * 8);
  OpList list;
  list.launch(kernels.find("ck_scalars"), {out.address()}, 4, 1, padded({slot(0), fixed(2), slot(1), fixed(4)}));
  list.copy(other.address(), out.address(), 4 * 8);
  Plan plan(opened, list, 2);
  plan.set_slots({11, 33});
  plan.replay();
  expect(other.values<double>(4) == std::vector<double>({11, 2, 33, 4}),
         "a plan under a host of 0.1 gives 11, 2, 33, 4", fmt::format("{}", other.values<double>(1)[0]));
}

/// A description as 0.1 had it: what lies behind its end is not the host's.
void library(const Settings& settings) {
  Opened opened(settings, kMinor);
  const auto claim = need(opened.tables.library.claim, "library.claim");
  constexpr std::size_t kSize = offsetof(crucible_library_desc, epilogue);
  alignas(8) unsigned char bytes[sizeof(crucible_library_desc)];
  std::memset(bytes, 0xff, sizeof(bytes));
  crucible_library_desc desc{};
  desc.struct_size = kSize;
  desc.kind = CRUCIBLE_LIB_MATMUL;
  for (int v = 0; v < 3; ++v) {
    desc.views[v].rank = 2;
    desc.views[v].dtype = 8;  // f32
    for (int d = 0; d < 2; ++d) desc.views[v].sizes[d] = 8;
    desc.views[v].strides[0] = 8, desc.views[v].strides[1] = 1;
  }
  desc.alpha_f64_bits = std::bit_cast<std::uint64_t>(1.0);
  desc.groups = 1;
  for (int d = 0; d < 2; ++d) desc.stride[d] = desc.dilation[d] = 1;
  std::memcpy(bytes, &desc, kSize);
  const auto* old = reinterpret_cast<const crucible_library_desc*>(bytes);
  std::uint64_t scratch = 0;
  if (crucible_status status = claim(opened.device, old, &scratch)) {
    const PluginError error =
        expect_error(status, {CRUCIBLE_E_UNSUPPORTED}, "library.claim of a description of 0.1, if it fails,");
    unsupported("the plugin does not take a product of 8x8 matrices of f32: " + error.message);
  }
  std::vector<float> a(64), identity(64, 0.0f);
  for (std::size_t i = 0; i < 64; ++i) a[i] = static_cast<float>(i), identity[i] = i % 9 == 0 ? 1.0f : 0.0f;
  const Memory x(opened, a), y(opened, identity);
  Memory result(opened, 64 * 4), workspace(opened, scratch + 1);
  OpList list;
  list.library(*old, {x.address(), y.address(), result.address(), workspace.address()}, scratch);
  // The list keeps a whole description; the one of 0.1 is what the plugin must see.
  list.at(0).library = old;
  run_once(opened, list);
  expect(result.values<float>(64) == a, "a product with the identity under a host of 0.1", "another matrix");
}

void errors(const Settings& settings) {
  Opened opened(settings, kMinor);
  crucible_buffer* buffer = nullptr;
  expect_error(must(opened.tables.memory.alloc, "memory.alloc")(opened.device, 1, 3, &buffer),
               {CRUCIBLE_E_INVALID_ARGUMENT}, "memory.alloc with alignment 3 under a host of 0.1");
}

}  // namespace

std::vector<Case> old_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&)) {
    return Case{"old.host_0_1." + std::move(name), Tier::kOld, std::move(rule), false, run, 60};
  };
  return {
      make("starts", "a host of ABI 0.1 can start the plugin", starts),
      make("memory", "memory works under a host of ABI 0.1", memory),
      make("plans", "kernels, slots and plans work under a host of ABI 0.1", plans),
      make("library", "a library call described as in ABI 0.1 works", library),
      make("errors", "errors work under a host of ABI 0.1", errors),
  };
}

}  // namespace crucible::conformance
