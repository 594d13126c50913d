// libcudnn.so.9 in front of the real one, for machines without a device: a handle is the description of a device that
// is not here, and everything else is the real library's. So the plugin's own graphs are finalized, its heuristics
// asked and its execution plans built by the code that a GPU's owner runs; only nothing can be executed. It is cuDNN's
// deviceless mode: where a graph, heuristics or a plan would get a handle, they get the properties of a device.
//
// CRUCIBLE_REAL_CUDNN names the real library, CRUCIBLE_DEVICELESS the device: sm_80, sm_90, sm_100 as published for
// A100, H100 and B200, read whenever a handle is made. crucible_emulator_last_plan() says which engine the last
// execution plan that could be built has.
#pragma GCC visibility push(default)
#include <cudnn_graph.h>
#pragma GCC visibility pop

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

struct cudnnContext {
  cudnnBackendDescriptor_t properties = nullptr;
};

extern "C" {
/// "engine 62, tensor cores, 131 bytes"; "" before the first. Threads: that which finalizes plans.
__attribute__((visibility("default"))) const char* crucible_emulator_last_plan();
}

namespace {

constexpr int kPlanHandle = 400, kGraphHandle = 800;  // their names are deprecated in 9

/// Of NVIDIA's data sheets and the tables of the CUDA programming guide; what it has no name for is as the library
/// asks.
struct Model {
  std::string_view architecture, name;
  int capability, multiprocessors, shared_bytes, l2_bytes, kilohertz, memory_kilohertz;
  std::int64_t memory_bytes;
};
constexpr Model kModels[] = {
    {"sm_80", "NVIDIA A100-SXM4-80GB", 800, 108, 166912, 41943040, 1410000, 1593000, 84987740160},
    {"sm_90", "NVIDIA H100 80GB HBM3", 900, 132, 232448, 52428800, 1755000, 2619000, 85045673984},
    {"sm_100", "NVIDIA B200", 1000, 148, 232448, 132644864, 1965000, 3996000, 191503859712},
};

std::string json_of(const Model& m) {
  const auto number = [](std::string_view key, std::int64_t value) {
    return ",\"" + std::string(key) + "\":" + std::to_string(value);
  };
  return R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64])" + number("regsPerBlock", 65536) +
         number("multiProcessorCount", m.multiprocessors) + number("warpSize", 32) +
         number("maxSharedMemoryPerBlock", 49152) + number("maxSharedMemoryPerBlockOptin", m.shared_bytes) +
         number("reservedSharedMemoryPerBlock", 1024) + number("maxRegistersPerSM", 65536) +
         number("maxCtasPerSM", 32) + number("maxThreadsPerBlock", 1024) + number("maxThreadsPerSM", 2048) +
         number("pciDeviceId", 0) + number("isTccDriver", 0) + number("supportCoopLaunch", 1) +
         number("totalGlobalMem", m.memory_bytes) + number("smClockRateKHz", m.kilohertz) +
         number("memClockRateKHz", m.memory_kilohertz) + number("l2CacheSize", m.l2_bytes) + number("cudaDeviceId", 0) +
         number("deviceVer", m.capability) + number("driverVer", 13000) + ",\"deviceName\":\"" + std::string(m.name) +
         "\"}";
}

/// The real library, or nothing with a line on standard error.
struct Real {
  decltype(&cudnnGetVersion) version = nullptr;
  decltype(&cudnnGetErrorString) error_string = nullptr;
  decltype(&cudnnBackendCreateDescriptor) create = nullptr;
  decltype(&cudnnBackendDestroyDescriptor) destroy = nullptr;
  decltype(&cudnnBackendSetAttribute) set = nullptr;
  decltype(&cudnnBackendGetAttribute) get = nullptr;
  decltype(&cudnnBackendFinalize) finalize = nullptr;

  Real() {
    const char* const path = std::getenv("CRUCIBLE_REAL_CUDNN");
    void* const library = path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "no real cuDNN (CRUCIBLE_REAL_CUDNN): %s\n", path == nullptr ? "not set" : dlerror());
      return;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    };
    find(version, "cudnnGetVersion");
    find(error_string, "cudnnGetErrorString");
    find(create, "cudnnBackendCreateDescriptor");
    find(destroy, "cudnnBackendDestroyDescriptor");
    find(set, "cudnnBackendSetAttribute");
    find(get, "cudnnBackendGetAttribute");
    find(finalize, "cudnnBackendFinalize");
  }
  explicit operator bool() const { return version != nullptr && finalize != nullptr; }
};

const Real& real() {
  static const Real found;
  return found;
}

/// What descriptors were told: which device a graph is for (heuristics get the graph alone), and a plan's engine.
struct Told {
  std::mutex mutex;
  std::map<cudnnBackendDescriptor_t, cudnnBackendDescriptor_t> properties, configurations;
  std::string last_plan;
};
Told& told() {
  static auto& all = *new Told;
  return all;
}

std::string text_of(cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t configuration) {
  std::int64_t count = 0, index = -1, bytes = -1;
  cudnnBackendDescriptor_t engine = nullptr;
  (void)real().create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
  (void)real().get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);
  (void)real().get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &index);
  (void)real().get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
  cudnnBackendNumericalNote_t notes[64] = {};
  std::int64_t noted = 0;
  (void)real().get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 64, &noted, notes);
  std::string text = "engine " + std::to_string(index);
  for (std::int64_t i = 0; i < noted && i < 64; ++i)
    text += notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ? ", tensor cores" : ", note " + std::to_string(notes[i]);
  (void)real().destroy(engine);
  return text + ", " + std::to_string(bytes) + " bytes";
}

cudnnStatus_t set_properties(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t attribute,
                             cudnnBackendDescriptor_t properties) {
  return real().set(descriptor, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties);
}

}  // namespace

size_t cudnnGetVersion() { return real() ? real().version() : 0; }

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return real() ? real().error_string(status) : "no real cuDNN (CRUCIBLE_REAL_CUDNN)";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (!real()) return CUDNN_STATUS_NOT_INITIALIZED;
  const char* const wanted = std::getenv("CRUCIBLE_DEVICELESS");
  for (const Model& model : kModels) {
    if (wanted == nullptr || model.architecture != wanted) continue;
    const std::string json = json_of(model);
    cudnnBackendDescriptor_t properties = nullptr;
    cudnnStatus_t status = real().create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &properties);
    if (status == CUDNN_STATUS_SUCCESS)
      status = real().set(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                          static_cast<std::int64_t>(json.size()), json.data());
    if (status == CUDNN_STATUS_SUCCESS) status = real().finalize(properties);
    if (status == CUDNN_STATUS_SUCCESS) *handle = new cudnnContext{properties};
    return status;
  }
  return CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (handle != nullptr) (void)real().destroy(handle->properties);
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  return real().create(type, descriptor);
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  {
    const std::lock_guard lock(told().mutex);
    told().properties.erase(descriptor);
    told().configurations.erase(descriptor);
  }
  return real().destroy(descriptor);
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t attribute,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (type == CUDNN_TYPE_HANDLE) {
    cudnnBackendDescriptor_t const properties = (*static_cast<const cudnnHandle_t*>(values))->properties;
    if (static_cast<int>(attribute) == kPlanHandle)
      return set_properties(descriptor, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties);
    if (static_cast<int>(attribute) != kGraphHandle) return CUDNN_STATUS_BAD_PARAM;
    const std::lock_guard lock(told().mutex);
    told().properties[descriptor] = properties;
    return CUDNN_STATUS_SUCCESS;
  }
  const cudnnStatus_t status = real().set(descriptor, attribute, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS || type != CUDNN_TYPE_BACKEND_DESCRIPTOR) return status;
  cudnnBackendDescriptor_t const part = *static_cast<const cudnnBackendDescriptor_t*>(values);
  const std::lock_guard lock(told().mutex);
  if (attribute == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) told().configurations[descriptor] = part;
  if (attribute != CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH) return status;
  const auto found = told().properties.find(part);
  return found == told().properties.end() ? CUDNN_STATUS_BAD_PARAM
                                          : set_properties(descriptor, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, found->second);
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted, int64_t* count, void* values) {
  return real().get(descriptor, name, type, wanted, count, values);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  const cudnnStatus_t status = real().finalize(descriptor);
  const std::lock_guard lock(told().mutex);
  const auto configuration = told().configurations.find(descriptor);
  if (status == CUDNN_STATUS_SUCCESS && configuration != told().configurations.end())
    told().last_plan = text_of(descriptor, configuration->second);
  return status;
}

const char* crucible_emulator_last_plan() { return told().last_plan.c_str(); }

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_EXECUTION_FAILED;  // there is no device
}
