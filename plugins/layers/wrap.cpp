// Table entries have no context argument, so each wrapped plugin takes one of a few slots, and each slot has functions
// of its own.
#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "plugins/layers/call.hpp"

namespace crucible::layers {
namespace {

struct Slots {
  std::mutex mutex;
  std::array<std::unique_ptr<State>, kSlots> states;
  std::array<bool, kSlots> taken{};
};

/// Never destroyed: a plugin's threads may be in a call when the process ends.
Slots& slots() {
  static Slots* const instance = new Slots;
  return *instance;
}

template <int Slot>
struct Wrapped {
  static State& state() { return *slots().states[Slot]; }

#include "plugins/layers/wrapped_tables.inc"
};

template <int... Slot>
abi::Tables tables_of(int slot, std::integer_sequence<int, Slot...>) {
  static constexpr std::array kMakers = {Wrapped<Slot>::tables...};
  return kMakers[static_cast<std::size_t>(slot)]();
}

}  // namespace

int wrap(abi::Tables& tables, const Options& options) {
  const std::lock_guard lock(slots().mutex);
  for (int slot = 0; slot < kSlots; ++slot) {
    const auto i = static_cast<std::size_t>(slot);
    if (slots().taken[i]) continue;
    slots().taken[i] = true;
    slots().states[i] = std::make_unique<State>();
    slots().states[i]->next = tables;
    slots().states[i]->options = options;
    tables = tables_of(slot, std::make_integer_sequence<int, kSlots>());
    return slot;
  }
  return -1;
}

std::uint64_t unwrap(int slot) {
  if (slot < 0 || slot >= kSlots) return 0;
  const std::lock_guard lock(slots().mutex);
  const auto i = static_cast<std::size_t>(slot);
  if (!slots().taken[i]) return 0;
  State& state = *slots().states[i];
  const std::vector<Object> alive = state.objects.all();
  if (state.options.ledger && state.options.report) {
    for (const Object& object : alive) {
      state.options.report("plugin " + state.options.plugin + ": leak: " + describe(object) + " of " +
                           std::string(object.made_by) + " was never destroyed");
    }
  }
  slots().taken[i] = false;
  return alive.size();
}

}  // namespace crucible::layers
