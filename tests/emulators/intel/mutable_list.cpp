// ZE_experimental_mutable_command_list: arguments of appended launches that change. It is no table of a loader of 1.4:
// its functions are handed out by zeDriverGetExtensionFunctionAddress. The rule
// fail@query(ZE_experimental_mutable_command_list) makes a driver without it.
#include <cstring>
#include <string_view>

#include "tests/emulators/intel/machine.hpp"

using namespace crucible::emulator;

namespace {

ze_result_t refuse(const std::string& why) {
  faults().note(why);
  return ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

/// Where the new bytes go; null with a note when the change is none.
std::optional<std::uint64_t>* place_of(const _ze_command_list_handle_t& list,
                                       const ze_mutable_kernel_argument_exp_desc_t& change) {
  const auto found = list.launches.find(change.commandId);
  if (change.stype != ZE_STRUCTURE_TYPE_MUTABLE_KERNEL_ARGUMENT_EXP_DESC || found == list.launches.end() ||
      found->second == nullptr) {
    faults().note("a change of command " + std::to_string(change.commandId) + ", which the list does not have");
    return nullptr;
  }
  _ze_kernel_handle_t& kernel = found->second->kernel;
  if (change.argIndex >= kernel.arguments.size() || change.argSize != kernel.parameters[change.argIndex].size ||
      change.pArgValue == nullptr) {
    faults().note("a change of argument " + std::to_string(change.argIndex) + " of " + kernel.name + " to " +
                  std::to_string(change.argSize) + " bytes");
    return nullptr;
  }
  return &kernel.arguments[change.argIndex];
}

}  // namespace

extern "C" {

ze_result_t zeCommandListGetNextCommandIdExp(ze_command_list_handle_t list,
                                             const ze_mutable_command_id_exp_desc_t* description, std::uint64_t* id) {
  if (description->stype != ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_ID_EXP_DESC) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (!list->is_mutable) return refuse("a command's number is asked for in a list that is not mutable");
  if (list->state != ListState::kOpen) return refuse("a command's number is asked for in a closed list");
  if ((description->flags & ~ZE_MUTABLE_COMMAND_EXP_FLAG_KERNEL_ARGUMENTS) != 0)
    return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
  if (list->next_id != 0) return refuse("a command's number is asked for twice");
  static std::atomic<std::uint64_t> handed_out = 0;  // over all lists, so that a number of one is refused by another
  *id = list->next_id = ++handed_out;
  list->launches[*id] = nullptr;
  return ZE_RESULT_SUCCESS;
}

/// All changes or none.
ze_result_t zeCommandListUpdateMutableCommandsExp(ze_command_list_handle_t list,
                                                  const ze_mutable_commands_exp_desc_t* description) {
  if (const auto rule = faults().hit(Site::kRecord, "update")) {
    act(*rule);
    if (rule->action == Action::kFail) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  if (description->stype != ZE_STRUCTURE_TYPE_MUTABLE_COMMANDS_EXP_DESC || description->flags != 0)
    return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  if (list->state == ListState::kOpen) return refuse("a list is changed before it is closed");
  if (list->commands->running != 0) return refuse("a list is changed while it runs");
  for (auto* one = static_cast<const ze_mutable_kernel_argument_exp_desc_t*>(description->pNext); one != nullptr;
       one = static_cast<const ze_mutable_kernel_argument_exp_desc_t*>(one->pNext)) {
    if (place_of(*list, *one) == nullptr) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  }
  for (auto* one = static_cast<const ze_mutable_kernel_argument_exp_desc_t*>(description->pNext); one != nullptr;
       one = static_cast<const ze_mutable_kernel_argument_exp_desc_t*>(one->pNext)) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, one->pArgValue, one->argSize);
    *place_of(*list, *one) = bits;
  }
  list->state = ListState::kChanged;
  return present_state();
}

ze_result_t zeDriverGetExtensionProperties(ze_driver_handle_t, std::uint32_t* count,
                                           ze_driver_extension_properties_t* properties) {
  const auto rule = faults().hit(Site::kQuery, ZE_MUTABLE_COMMAND_LIST_EXP_NAME);
  const std::uint32_t all = rule && rule->action == Action::kFail ? 0 : 1;
  if (properties != nullptr && *count != 0 && all != 0) {
    std::strncpy(properties->name, ZE_MUTABLE_COMMAND_LIST_EXP_NAME, sizeof properties->name - 1);
    properties->version = 1 << 16;
  }
  *count = properties == nullptr ? all : std::min(*count, all);
  return ZE_RESULT_SUCCESS;
}

ze_result_t zeDriverGetExtensionFunctionAddress(ze_driver_handle_t, const char* name, void** address) {
  constexpr std::string_view kNextId = "zeCommandListGetNextCommandIdExp",
                             kUpdate = "zeCommandListUpdateMutableCommandsExp";
  if (name != kNextId && name != kUpdate) return ZE_RESULT_ERROR_INVALID_ARGUMENT;
  *address = name == kNextId ? reinterpret_cast<void*>(&zeCommandListGetNextCommandIdExp)
                             : reinterpret_cast<void*>(&zeCommandListUpdateMutableCommandsExp);
  return ZE_RESULT_SUCCESS;
}

}  // extern "C"
