// Asking all platforms for their devices: see device.hpp.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "backends/opencl/device.hpp"
#include "plugins/sdk/device_table.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_opencl {

using namespace crucible;

namespace {

// Of cl_khr_device_uuid and cl_khr_pci_bus_info; older headers lack them.
constexpr cl_device_info kDeviceUuid = 0x106A, kDevicePciBusInfo = 0x410F;
// Of cl_nv_device_attribute_query and cl_amd_device_attribute_query: how many work-items go in step; and of
// cl_intel_required_subgroup_size.
constexpr cl_device_info kWarpSize = 0x4003, kWaveWidth = 0x4043, kSubgroupSizes = 0x4108;
constexpr cl_device_info kDeviceIlVersion = 0x105B;  // the same number in OpenCL 2.1 and in cl_khr_il_program

std::string platform_text(const Functions& cl, cl_platform_id platform, cl_platform_info what) {
  std::size_t size = 0;
  if (cl.clGetPlatformInfo(platform, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  if (cl.clGetPlatformInfo(platform, what, size, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(text.find('\0') == std::string::npos ? size : text.find('\0'));
  return text;
}

std::string device_text(const Functions& cl, cl_device_id device, cl_device_info what) {
  std::size_t size = 0;
  if (cl.clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS || size == 0) return "";
  std::string text(size, '\0');
  if (cl.clGetDeviceInfo(device, what, size, text.data(), nullptr) != CL_SUCCESS) return "";
  text.resize(text.find('\0') == std::string::npos ? size : text.find('\0'));
  return text;
}

template <class Number>
Number device_number(const Functions& cl, cl_device_id device, cl_device_info what) {
  Number number{};
  if (cl.clGetDeviceInfo(device, what, sizeof(number), &number, nullptr) != CL_SUCCESS) return Number{};
  return number;
}

std::string uuid_of(const Functions& cl, cl_device_id device) {
  unsigned char bytes[16] = {};
  if (cl.clGetDeviceInfo(device, kDeviceUuid, sizeof(bytes), bytes, nullptr) != CL_SUCCESS) return "";
  std::string text;
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", bytes[i]);
    text += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    text += digits;
  }
  return text;
}

std::string pci_of(const Functions& cl, cl_device_id device) {
  cl_uint place[4] = {};  // domain, bus, device, function
  if (cl.clGetDeviceInfo(device, kDevicePciBusInfo, sizeof(place), place, nullptr) != CL_SUCCESS) return "";
  char text[40];
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", place[0], place[1], place[2], place[3]);
  return text;
}

std::vector<std::size_t> sizes_of_subgroups(const Functions& cl, const DeviceFacts& facts) {
  const bool has_shuffles = facts.has("cl_intel_subgroups") || facts.has("cl_khr_subgroup_shuffle");
  std::size_t bytes = 0;
  if (!has_shuffles || !facts.has("cl_intel_required_subgroup_size") ||
      cl.clGetDeviceInfo(facts.device, kSubgroupSizes, 0, nullptr, &bytes) != CL_SUCCESS)
    return {};
  std::vector<std::size_t> sizes(bytes / sizeof(std::size_t));
  const bool is_told =
      !sizes.empty() && cl.clGetDeviceInfo(facts.device, kSubgroupSizes, bytes, sizes.data(), nullptr) == CL_SUCCESS;
  return is_told ? sizes : std::vector<std::size_t>();
}

DeviceFacts facts_of(const Functions& cl, cl_platform_id platform, cl_device_id device, std::size_t index) {
  DeviceFacts facts;
  facts.id = "opencl:" + std::to_string(index);
  facts.platform = platform;
  facts.device = device;
  facts.platform_name = platform_text(cl, platform, CL_PLATFORM_NAME);
  facts.name = device_text(cl, device, CL_DEVICE_NAME);
  facts.vendor = device_text(cl, device, CL_DEVICE_VENDOR);
  facts.version = device_text(cl, device, CL_DEVICE_VERSION);
  facts.driver = device_text(cl, device, CL_DRIVER_VERSION);
  facts.extensions = device_text(cl, device, CL_DEVICE_EXTENSIONS);
  facts.intermediate = device_text(cl, device, kDeviceIlVersion);
  if (facts.has("cl_khr_device_uuid")) facts.uuid = uuid_of(cl, device);
  if (facts.has("cl_khr_pci_bus_info")) facts.pci = pci_of(cl, device);
  facts.type = device_number<cl_device_type>(cl, device, CL_DEVICE_TYPE);
  facts.units = std::max<cl_uint>(1, device_number<cl_uint>(cl, device, CL_DEVICE_MAX_COMPUTE_UNITS));
  if (facts.is_processor()) {  // x86: registers of 64 bytes are 32, shorter ones 16
    const std::uint64_t vector_bytes =
        4 * std::uint64_t{device_number<cl_uint>(cl, device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT)};
    facts.register_bytes = vector_bytes * (vector_bytes >= 64 ? 32 : 16);
  }
  facts.group_size = std::max<std::size_t>(1, device_number<std::size_t>(cl, device, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  facts.local_bytes = device_number<cl_ulong>(cl, device, CL_DEVICE_LOCAL_MEM_SIZE);
  if (facts.has("cl_nv_device_attribute_query")) facts.in_step = device_number<cl_uint>(cl, device, kWarpSize);
  if (facts.has("cl_amd_device_attribute_query")) facts.in_step = device_number<cl_uint>(cl, device, kWaveWidth);
  facts.subgroup_sizes = sizes_of_subgroups(cl, facts);
  facts.megahertz = device_number<cl_uint>(cl, device, CL_DEVICE_MAX_CLOCK_FREQUENCY);
  facts.memory_bytes = device_number<cl_ulong>(cl, device, CL_DEVICE_GLOBAL_MEM_SIZE);
  facts.largest_buffer_bytes = device_number<cl_ulong>(cl, device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  facts.parameter_bytes = device_number<std::size_t>(cl, device, CL_DEVICE_MAX_PARAMETER_SIZE);
  facts.shared_memory = device_number<cl_device_svm_capabilities>(cl, device, CL_DEVICE_SVM_CAPABILITIES);
  facts.has_compiler = device_number<cl_bool>(cl, device, CL_DEVICE_COMPILER_AVAILABLE) != CL_FALSE;
  facts.rounds_division = (device_number<cl_device_fp_config>(cl, device, CL_DEVICE_SINGLE_FP_CONFIG) &
                           CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  return facts;
}

}  // namespace

bool DeviceFacts::has(std::string_view extension) const {
  return (" " + extensions + " ").find(" " + std::string(extension) + " ") != std::string::npos;
}

cl_version DeviceFacts::version_of(const Functions& cl, std::string_view extension) const {
  std::size_t size = 0;
  if (cl.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS_WITH_VERSION, 0, nullptr, &size) != CL_SUCCESS) return 0;
  std::vector<cl_name_version> all(size / sizeof(cl_name_version));
  if (all.empty() ||
      cl.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS_WITH_VERSION, size, all.data(), nullptr) != CL_SUCCESS)
    return 0;
  const auto is_it = [&](const cl_name_version& one) {
    return extension == std::string_view(one.name, strnlen(one.name, sizeof one.name));
  };
  const auto found = std::ranges::find_if(all, is_it);
  return found == all.end() ? 0 : found->version;
}

std::vector<DeviceFacts> list_devices(const Functions& cl) {
  constexpr const char* kAdvice =
      ": install a driver (for the processor: Debian's pocl-opencl-icd); the loader reads which there are from "
      "/etc/OpenCL/vendors, or from the folder in OCL_ICD_VENDORS";
  const ProcessGuard guard;
  cl_uint count = 0;
  const cl_int found = cl.clGetPlatformIDs(0, nullptr, &count);
  if (found == CL_PLATFORM_NOT_FOUND_KHR || (found == CL_SUCCESS && count == 0)) {
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE, std::string("there is no OpenCL platform") + kAdvice);
  }
  check(found, "clGetPlatformIDs");
  std::vector<cl_platform_id> platforms(count);
  check(cl.clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  std::vector<DeviceFacts> all;
  for (const cl_platform_id platform : platforms) {
    cl_uint devices_count = 0;
    // A platform without devices is none to speak of; one that fails must not hide the others.
    if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices_count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(devices_count);
    if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, devices_count, devices.data(), nullptr) != CL_SUCCESS) continue;
    for (const cl_device_id device : devices) all.push_back(facts_of(cl, platform, device, all.size()));
  }
  if (all.empty()) {
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       "none of the " + std::to_string(count) + " OpenCL platforms has a device" + kAdvice);
  }
  return all;
}

DeviceFacts find_device(const Functions& cl, crucible_str device_id) {
  return sdk::find_device(list_devices(cl), device_id);
}

}  // namespace crucible_opencl
