// crucible_fuzz_plugin PLUGIN [--calls N] [--seed S]: random calls of every function of a plugin, in one process. Calls
// that only a host could get right (a stale handle, a device closed before its buffers) are refused by the validation
// layer before they reach it; everything else must be answered: a crash, a hang or a mute error is a fault of the
// plugin.
#include <dlfcn.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "plugins/abi/stubs.hpp"
#include "plugins/fuzz/random_arguments.hpp"
#include "plugins/fuzz/random_call_count.hpp"
#include "plugins/layers/kept_in_memory.hpp"
#include "plugins/layers/layers.hpp"

namespace crucible::fuzz {
namespace {

void random_call(RandomArguments& r, const abi::Tables& tables) {
  switch (r.below(kRandomCalls)) {
#include "plugins/fuzz/random_calls.inc"
  }
}

struct Loaded {
  crucible_plugin_api api{};
  abi::Tables tables{};
};

bool load(const char* path, Loaded& loaded) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library == nullptr ? nullptr : dlsym(library, CRUCIBLE_QUERY_SYMBOL);
  if (symbol == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), false;
  const crucible_query_in in = {sizeof(in), CRUCIBLE_MAGIC, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR};
  crucible_query_out out = {};
  out.struct_size = sizeof(out);
  if (reinterpret_cast<crucible_plugin_query_fn>(symbol)(&in, &out) != 0)
    return std::fprintf(stderr, "%s\n", out.reject_reason), false;
  loaded.api = abi::copy_table<crucible_plugin_api>(out.api);
  abi::fill(loaded.api);
  loaded.tables = abi::unimplemented_tables();
  abi::for_each_interface(loaded.tables, [&](auto& table, std::uint32_t id, const char*, bool) {
    const void* const source = loaded.api.interface_table(id);
    if (source == nullptr) return;
    table = abi::copy_table<std::remove_reference_t<decltype(table)>>(source);
    abi::fill(table);
  });
  return true;
}

/// Buffers and their sizes, found by asking for each address and trying to read: the fuzzer keeps no books of its own.
std::vector<RandomArguments::Range> ranges(const abi::Tables& tables,
                                           const std::vector<std::pair<crucible_buffer*, std::uint64_t>>& buffers) {
  std::vector<RandomArguments::Range> found;
  for (const auto& [buffer, size] : buffers) {
    std::uint64_t address = 0;
    if (tables.memory.address(buffer, &address) == nullptr) found.push_back({address, size});
  }
  return found;
}

/// What was submitted is let run to its end: a host may neither destroy what work in flight names nor leave it waiting
/// for ever. False when the plugin does not come to an end in ten seconds.
bool finish_submitted(RandomArguments& r, const abi::Tables& tables) {
  static std::uint64_t beyond = 1000;  // every wait of value<crucible_point>() is for less
  ++beyond;
  for (void* timeline : r.live("timeline"))
    r.done("(signal)", tables.queue.timeline_signal(static_cast<crucible_timeline*>(timeline), beyond));
  for (void* device : r.live("device")) {
    crucible_status status = tables.device.wait_idle(static_cast<crucible_device*>(device), 10'000'000'000);
    if (status != nullptr) return r.done("(wait_idle)", status), false;
  }
  return true;
}

int run(const char* path, std::uint64_t calls, std::uint64_t seed) {
  Loaded loaded;
  if (!load(path, loaded)) return 4;
  static constexpr crucible_host_api kHost = {
      sizeof(crucible_host_api),
      CRUCIBLE_ABI_MINOR,
      nullptr,
      [](void*, std::uint32_t, crucible_str, crucible_str) {},
      [](void*, crucible_str, crucible_str*) -> std::uint32_t { return 0; },
      [](void*, std::uint64_t size, std::uint64_t) { return std::malloc(size); },
      [](void*, void* memory, std::uint64_t, std::uint64_t) { std::free(memory); },
      [](void*, const crucible_kv*, std::uint32_t) {},
      crucible::layers::kept_in_memory::find,
      crucible::layers::kept_in_memory::give_back,
      crucible::layers::kept_in_memory::keep,
      crucible::layers::kept_in_memory::claim,
      crucible::layers::kept_in_memory::unclaim};
  if (loaded.api.init(&kHost) != nullptr) return std::fprintf(stderr, "the plugin does not start\n"), 4;
  const int slot = layers::wrap(
      loaded.tables,
      {.validate = true, .trace = false, .ledger = false, .plugin = "fuzzed", .write_trace = {}, .report = {}});
  RandomArguments r(seed);
  // Ops work on buffers that live as long as the run, so that a plan never outlives what it points to.
  crucible_device* device = nullptr;
  if (loaded.tables.device.open({nullptr, 0}, &device) != nullptr)
    return std::fprintf(stderr, "no device can be opened\n"), 4;
  r.born("device", device);
  std::vector<std::pair<crucible_buffer*, std::uint64_t>> lasting;
  for (const std::uint64_t size : {64, 4096, 100000}) {
    crucible_buffer* buffer = nullptr;
    if (loaded.tables.memory.alloc(device, size, 64, &buffer) == nullptr) lasting.emplace_back(buffer, size);
  }
  r.set_ranges(ranges(loaded.tables, lasting));
  for (std::uint64_t i = 0; i < calls; ++i) {
    random_call(r, loaded.tables);
    if (r.last_success() == "queue.submit" && !finish_submitted(r, loaded.tables)) {
      return std::fprintf(stderr, "what was submitted in call %llu does not end\n", static_cast<unsigned long long>(i)),
             1;
    }
  }
  std::uint64_t succeeded = 0, failed = 0, silent = 0;
  for (const auto& [name, count] : r.counts()) {
    std::printf("%-28s %8llu ok %8llu refused\n", name.c_str(), static_cast<unsigned long long>(count.succeeded),
                static_cast<unsigned long long>(count.failed));
    succeeded += count.succeeded, failed += count.failed;
  }
  for (const std::string& function : r.mute_errors())
    std::printf("an error of %s says nothing\n", function.c_str()), ++silent;
  std::printf("%llu calls, seed %llu: %llu ok, %llu refused, %llu mute errors\n",
              static_cast<unsigned long long>(calls), static_cast<unsigned long long>(seed),
              static_cast<unsigned long long>(succeeded), static_cast<unsigned long long>(failed),
              static_cast<unsigned long long>(silent));
  layers::unwrap(slot);
  return silent == 0 && succeeded > calls / 10 ? 0 : 1;
}

bool parse(const char* text, std::uint64_t& number) {
  const char* const end = text + std::strlen(text);
  return std::from_chars(text, end, number).ptr == end && text != end;
}

}  // namespace
}  // namespace crucible::fuzz

int main(int argc, char** argv) {
  std::uint64_t calls = 10000, seed = 1;
  const char* path = nullptr;
  bool right = true;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--calls" || word == "--seed") {
      right = right && i + 1 < argc && crucible::fuzz::parse(argv[i + 1], word == "--calls" ? calls : seed);
      ++i;
    } else {
      right = right && path == nullptr;
      path = argv[i];
    }
  }
  if (!right || path == nullptr)
    return std::fprintf(stderr, "usage: crucible_fuzz_plugin PLUGIN [--calls N] [--seed S]\n"), 2;
  return crucible::fuzz::run(path, calls, seed);
}
