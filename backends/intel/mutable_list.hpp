// Command lists whose launches get other arguments after they were recorded (ZE_experimental_mutable_command_list):
// what a driver has of it, and patching. Without it a list whose scalars change is recorded again; plan.cpp decides.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backends/intel/level_zero.hpp"

namespace crucible_intel {

/// The extension of one device's driver.
struct MutableLists {
  decltype(Functions::zeCommandListGetNextCommandIdExp) next_command_id = nullptr;
  decltype(Functions::zeCommandListUpdateMutableCommandsExp) update = nullptr;
  decltype(Functions::zelLoaderTranslateHandle) translate =
      nullptr;          // where the functions are the driver's own: they take its handles
  std::string why_not;  // the reason; "" when there is one to use

  bool usable() const { return why_not.empty(); }
};

/// Threads: any. Errors: none; what is missing is in `why_not`.
MutableLists find_mutable_lists(const Functions& functions, ze_driver_handle_t driver, ze_device_handle_t device);

/// The number of the command that is appended next. `list` was made with a MutableListDesc. Errors: the driver's
/// result.
std::uint64_t next_command_id(const MutableLists& lists, ze_command_list_handle_t list);

/// Argument `index` of command `command` becomes the `size` bytes at `value`.
struct ArgumentChange {
  std::uint64_t command = 0;
  std::uint32_t index = 0;
  std::size_t size = 0;
  std::uint64_t bits = 0;
};
/// Changes a closed list that is not running, and closes it again. Errors: the driver's result; the list is then to be
/// recorded anew.
void change_arguments(const Functions& functions, const MutableLists& lists, ze_command_list_handle_t list,
                      std::span<const ArgumentChange> changes);

}  // namespace crucible_intel
