// Finding and calling the extension: see mutable_list.hpp.
#include "backends/intel/mutable_list.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

namespace crucible_intel {

namespace {

bool has_extension(const Functions& ze, ze_driver_handle_t driver, std::string_view name) {
  std::uint32_t count = 0;
  if (ze.zeDriverGetExtensionProperties(driver, &count, nullptr) != ZE_RESULT_SUCCESS) return false;
  std::vector<ze_driver_extension_properties_t> all(count);
  if (count == 0 || ze.zeDriverGetExtensionProperties(driver, &count, all.data()) != ZE_RESULT_SUCCESS) return false;
  all.resize(count);
  return std::ranges::any_of(all, [&](const ze_driver_extension_properties_t& one) {
    return name == std::string_view(one.name, strnlen(one.name, sizeof one.name));
  });
}

/// Loaders older than the extension do not have its functions, the driver does.
template <class Function>
Function from_driver(const Functions& ze, ze_driver_handle_t driver, const char* name) {
  void* address = nullptr;
  if (ze.zeDriverGetExtensionFunctionAddress == nullptr) return nullptr;
  if (ze.zeDriverGetExtensionFunctionAddress(driver, name, &address) != ZE_RESULT_SUCCESS) return nullptr;
  return reinterpret_cast<Function>(address);
}

/// The handle that the extension's functions take.
ze_command_list_handle_t handle_of(const MutableLists& lists, ze_command_list_handle_t list) {
  if (lists.translate == nullptr) return list;
  void* translated = nullptr;
  check(lists.translate(ZEL_HANDLE_COMMAND_LIST, list, &translated), "zelLoaderTranslateHandle of a command list");
  return static_cast<ze_command_list_handle_t>(translated);
}

}  // namespace

MutableLists find_mutable_lists(const Functions& ze, ze_driver_handle_t driver, ze_device_handle_t device) {
  MutableLists lists;
  if (!has_extension(ze, driver, ZE_MUTABLE_COMMAND_LIST_EXP_NAME)) {
    lists.why_not = "the driver has no " ZE_MUTABLE_COMMAND_LIST_EXP_NAME;
    return lists;
  }
  auto can = typed<ze_mutable_command_list_exp_properties_t>(ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_LIST_EXP_PROPERTIES);
  auto properties = typed<ze_device_properties_t>(ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2);
  properties.pNext = &can;
  if (ze.zeDeviceGetProperties(device, &properties) != ZE_RESULT_SUCCESS ||
      (can.mutableCommandFlags & ZE_MUTABLE_COMMAND_EXP_FLAG_KERNEL_ARGUMENTS) == 0) {
    lists.why_not = "the driver's mutable command lists do not change arguments";
    return lists;
  }
  lists.next_command_id = ze.zeCommandListGetNextCommandIdExp;
  lists.update = ze.zeCommandListUpdateMutableCommandsExp;
  if (lists.next_command_id == nullptr || lists.update == nullptr) {
    lists.next_command_id =
        from_driver<decltype(lists.next_command_id)>(ze, driver, "zeCommandListGetNextCommandIdExp");
    lists.update = from_driver<decltype(lists.update)>(ze, driver, "zeCommandListUpdateMutableCommandsExp");
    lists.translate = ze.zelLoaderTranslateHandle;
  }
  if (lists.next_command_id == nullptr || lists.update == nullptr)
    lists.why_not = "the driver lists " ZE_MUTABLE_COMMAND_LIST_EXP_NAME " and hands its functions out to nobody";
  return lists;
}

std::uint64_t next_command_id(const MutableLists& lists, ze_command_list_handle_t list) {
  auto description = typed<ze_mutable_command_id_exp_desc_t>(ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_ID_EXP_DESC);
  description.flags = ZE_MUTABLE_COMMAND_EXP_FLAG_KERNEL_ARGUMENTS;
  std::uint64_t id = 0;
  check(lists.next_command_id(handle_of(lists, list), &description, &id), "plan: zeCommandListGetNextCommandIdExp");
  return id;
}

void change_arguments(const Functions& ze, const MutableLists& lists, ze_command_list_handle_t list,
                      std::span<const ArgumentChange> changes) {
  std::vector<ze_mutable_kernel_argument_exp_desc_t> chain(
      changes.size(), typed<ze_mutable_kernel_argument_exp_desc_t>(ZE_STRUCTURE_TYPE_MUTABLE_KERNEL_ARGUMENT_EXP_DESC));
  auto all = typed<ze_mutable_commands_exp_desc_t>(ZE_STRUCTURE_TYPE_MUTABLE_COMMANDS_EXP_DESC);
  const void** link = &all.pNext;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    chain[i].commandId = changes[i].command;
    chain[i].argIndex = changes[i].index;
    chain[i].argSize = changes[i].size;
    chain[i].pArgValue = &changes[i].bits;
    *link = &chain[i];
    link = &chain[i].pNext;
  }
  check(lists.update(handle_of(lists, list), &all),
        "plan.set_slots: zeCommandListUpdateMutableCommandsExp of " + std::to_string(changes.size()) + " arguments");
  check(ze.zeCommandListClose(list), "plan.set_slots: zeCommandListClose");
}

}  // namespace crucible_intel
