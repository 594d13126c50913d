// Finding and calling the extension: see mutable_list.hpp.
#include "backends/intel/mutable_list.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>


namespace crucible_intel {

namespace {

bool has_extension(const Functions& ze, ze::Driver driver, std::string_view name) {
  std::uint32_t count = 0;
  if (ze.zeDriverGetExtensionProperties(driver, &count, nullptr) != ze::Result::kSuccess) return false;
  std::vector<ze::ExtensionProperties> all(count);
  if (count == 0 || ze.zeDriverGetExtensionProperties(driver, &count, all.data()) != ze::Result::kSuccess) return false;
  all.resize(count);
  return std::ranges::any_of(all, [&](const ze::ExtensionProperties& one) {
    return name == std::string_view(one.name, strnlen(one.name, sizeof one.name));
  });
}

/// Loaders older than the extension do not have its functions, the driver does.
template <class Function>
Function from_driver(const Functions& ze, ze::Driver driver, const char* name) {
  void* address = nullptr;
  if (ze.zeDriverGetExtensionFunctionAddress == nullptr) return nullptr;
  if (ze.zeDriverGetExtensionFunctionAddress(driver, name, &address) != ze::Result::kSuccess) return nullptr;
  return reinterpret_cast<Function>(address);
}

/// The handle that the extension's functions take.
ze::List handle_of(const MutableLists& lists, ze::List list) {
  if (lists.translate == nullptr) return list;
  void* translated = nullptr;
  check(lists.translate(ze::kHandleOfList, list, &translated), "zelLoaderTranslateHandle of a command list");
  return static_cast<ze::List>(translated);
}

}  // namespace

MutableLists find_mutable_lists(const Functions& ze, ze::Driver driver, ze::Device device) {
  MutableLists lists;
  if (!has_extension(ze, driver, ze::kMutableListExtension)) {
    lists.why_not = std::string("the driver has no ") + ze::kMutableListExtension;
    return lists;
  }
  ze::MutableListProperties can;
  ze::DeviceProperties properties;
  properties.next = &can;
  if (ze.zeDeviceGetProperties(device, &properties) != ze::Result::kSuccess ||
      (can.command_flags & ze::kMutableArguments) == 0) {
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
    lists.why_not =
        std::string("the driver lists ") + ze::kMutableListExtension + " and hands its functions out to nobody";
  return lists;
}

std::uint64_t next_command_id(const MutableLists& lists, ze::List list) {
  const ze::MutableCommandIdDesc description;
  std::uint64_t id = 0;
  check(lists.next_command_id(handle_of(lists, list), &description, &id), "plan: zeCommandListGetNextCommandIdExp");
  return id;
}

void change_arguments(const Functions& ze, const MutableLists& lists, ze::List list,
                      std::span<const ArgumentChange> changes) {
  std::vector<ze::MutableArgumentDesc> chain(changes.size());
  ze::MutableCommandsDesc all;
  const void** link = &all.next;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    chain[i].command = changes[i].command;
    chain[i].index = changes[i].index;
    chain[i].size = changes[i].size;
    chain[i].value = &changes[i].bits;
    *link = &chain[i];
    link = &chain[i].next;
  }
  check(lists.update(handle_of(lists, list), &all),
        "plan.set_slots: zeCommandListUpdateMutableCommandsExp of " + std::to_string(changes.size()) + " arguments");
  check(ze.zeCommandListClose(list), "plan.set_slots: zeCommandListClose");
}

}  // namespace crucible_intel
