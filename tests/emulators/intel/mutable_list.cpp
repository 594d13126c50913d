// ZE_experimental_mutable_command_list: arguments of appended launches that change. It is no table of a loader of 1.4:
// its functions are handed out by zeDriverGetExtensionFunctionAddress. The rule
// fail@query(ZE_experimental_mutable_command_list) makes a driver without it.
#include <cstring>
#include <string_view>

#include "tests/emulators/intel/machine.hpp"

using namespace crucible::emulator;
using namespace crucible_intel::ze;

namespace {

Result refuse(const std::string& why) {
  faults().note(why);
  return Result::kInvalidArgument;
}

/// Where the new bytes go; null with a note when the change is none.
std::optional<std::uint64_t>* place_of(const ListObject& list, const MutableArgumentDesc& change) {
  const auto found = list.launches.find(change.command);
  if (change.type != Structure::kMutableArgumentDesc || found == list.launches.end() || found->second == nullptr) {
    faults().note("a change of command " + std::to_string(change.command) + ", which the list does not have");
    return nullptr;
  }
  KernelObject& kernel = found->second->kernel;
  if (change.index >= kernel.arguments.size() || change.size != kernel.parameters[change.index].size ||
      change.value == nullptr) {
    faults().note("a change of argument " + std::to_string(change.index) + " of " + kernel.name + " to " +
                  std::to_string(change.size) + " bytes");
    return nullptr;
  }
  return &kernel.arguments[change.index];
}

}  // namespace

extern "C" {

Result zeCommandListGetNextCommandIdExp(List list, const MutableCommandIdDesc* description, std::uint64_t* id) {
  if (description->type != Structure::kMutableCommandIdDesc) return Result::kInvalidArgument;
  if (!list->is_mutable) return refuse("a command's number is asked for in a list that is not mutable");
  if (list->state != ListState::kOpen) return refuse("a command's number is asked for in a closed list");
  if ((description->flags & ~kMutableArguments) != 0) return Result::kUnsupportedFeature;
  if (list->next_id != 0) return refuse("a command's number is asked for twice");
  static std::atomic<std::uint64_t> handed_out = 0;  // over all lists, so that a number of one is refused by another
  *id = list->next_id = ++handed_out;
  list->launches[*id] = nullptr;
  return Result::kSuccess;
}

/// All changes or none.
Result zeCommandListUpdateMutableCommandsExp(List list, const MutableCommandsDesc* description) {
  if (const auto rule = faults().hit(Site::kRecord, "update")) {
    act(*rule);
    if (rule->action == Action::kFail) return Result::kInvalidArgument;
  }
  if (description->type != Structure::kMutableCommandsDesc || description->flags != 0) return Result::kInvalidArgument;
  if (list->state == ListState::kOpen) return refuse("a list is changed before it is closed");
  if (list->commands->running != 0) return refuse("a list is changed while it runs");
  for (auto* one = static_cast<const MutableArgumentDesc*>(description->next); one != nullptr;
       one = static_cast<const MutableArgumentDesc*>(one->next)) {
    if (place_of(*list, *one) == nullptr) return Result::kInvalidArgument;
  }
  for (auto* one = static_cast<const MutableArgumentDesc*>(description->next); one != nullptr;
       one = static_cast<const MutableArgumentDesc*>(one->next)) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, one->value, one->size);
    *place_of(*list, *one) = bits;
  }
  list->state = ListState::kChanged;
  return present_state();
}

Result zeDriverGetExtensionProperties(Driver, std::uint32_t* count, ExtensionProperties* properties) {
  const auto rule = faults().hit(Site::kQuery, kMutableListExtension);
  const std::uint32_t all = rule && rule->action == Action::kFail ? 0 : 1;
  if (properties != nullptr && *count != 0 && all != 0) {
    std::strncpy(properties->name, kMutableListExtension, sizeof properties->name - 1);
    properties->version = 1 << 16;
  }
  *count = properties == nullptr ? all : std::min(*count, all);
  return Result::kSuccess;
}

Result zeDriverGetExtensionFunctionAddress(Driver, const char* name, void** address) {
  constexpr std::string_view kNextId = "zeCommandListGetNextCommandIdExp",
                             kUpdate = "zeCommandListUpdateMutableCommandsExp";
  if (name != kNextId && name != kUpdate) return Result::kInvalidArgument;
  *address = name == kNextId ? reinterpret_cast<void*>(&zeCommandListGetNextCommandIdExp)
                             : reinterpret_cast<void*>(&zeCommandListUpdateMutableCommandsExp);
  return Result::kSuccess;
}

}  // extern "C"
