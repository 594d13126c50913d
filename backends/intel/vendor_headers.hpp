// The vendor's headers of Level Zero (Debian: libze-dev), for their types: functions are looked up in the machine's
// loader at run time. Behind them stands what Debian 12's, of interface 1.4, do not have yet: mutable command lists,
// which came with 1.9, and Sysman's own start, which came with 1.5. Names and layout are those of the specification
// (https://oneapi-src.github.io/level-zero-spec).
#pragma once

#include <level_zero/loader/ze_loader.h>
#include <level_zero/ze_api.h>
#include <level_zero/zes_api.h>
#include <level_zero/zet_api.h>

#include <cstddef>
#include <cstdint>

#ifndef ZE_MUTABLE_COMMAND_LIST_EXP_NAME
#define ZE_MUTABLE_COMMAND_LIST_EXP_NAME "ZE_experimental_mutable_command_list"

inline constexpr auto ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_LIST_EXP_PROPERTIES =
    static_cast<ze_structure_type_t>(0x00020015);
inline constexpr auto ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_LIST_EXP_DESC = static_cast<ze_structure_type_t>(0x00020016);
inline constexpr auto ZE_STRUCTURE_TYPE_MUTABLE_COMMAND_ID_EXP_DESC = static_cast<ze_structure_type_t>(0x00020017);
inline constexpr auto ZE_STRUCTURE_TYPE_MUTABLE_COMMANDS_EXP_DESC = static_cast<ze_structure_type_t>(0x00020018);
inline constexpr auto ZE_STRUCTURE_TYPE_MUTABLE_KERNEL_ARGUMENT_EXP_DESC = static_cast<ze_structure_type_t>(0x00020019);
inline constexpr std::uint32_t ZE_MUTABLE_COMMAND_EXP_FLAG_KERNEL_ARGUMENTS = 1;

struct ze_mutable_command_list_exp_properties_t {  // behind ze_device_properties_t
  ze_structure_type_t stype;
  void* pNext;
  std::uint32_t mutableCommandListFlags, mutableCommandFlags;
};
struct ze_mutable_command_list_exp_desc_t {  // behind ze_command_list_desc_t
  ze_structure_type_t stype;
  const void* pNext;
  std::uint32_t flags;
};
struct ze_mutable_command_id_exp_desc_t {
  ze_structure_type_t stype;
  const void* pNext;
  std::uint32_t flags;
};
struct ze_mutable_commands_exp_desc_t {  // what changes is a chain behind pNext
  ze_structure_type_t stype;
  const void* pNext;
  std::uint32_t flags;
};
struct ze_mutable_kernel_argument_exp_desc_t {
  ze_structure_type_t stype;
  const void* pNext;
  std::uint64_t commandId;
  std::uint32_t argIndex;
  std::size_t argSize;
  const void* pArgValue;
};
#endif

// Where the headers have these, this says the same once more.
extern "C" {
ze_result_t zeCommandListGetNextCommandIdExp(ze_command_list_handle_t, const ze_mutable_command_id_exp_desc_t*,
                                             std::uint64_t*);
ze_result_t zeCommandListUpdateMutableCommandsExp(ze_command_list_handle_t, const ze_mutable_commands_exp_desc_t*);
ze_result_t zesInit(std::uint32_t);
ze_result_t zesDriverGet(std::uint32_t*, zes_driver_handle_t*);
ze_result_t zesDeviceGet(zes_driver_handle_t, std::uint32_t*, zes_device_handle_t*);
}

namespace crucible_intel {

/// A struct that says its type and is 0 in all else, as the interface wants them.
template <class Struct>
Struct typed(decltype(Struct::stype) type) {
  Struct made = {};
  made.stype = type;
  return made;
}

}  // namespace crucible_intel
