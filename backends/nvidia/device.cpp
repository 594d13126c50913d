// Device table: what the driver's devices are called and can do, and opening one on its primary context.
#include "backends/nvidia/device.hpp"

#include <cstdlib>
#include <memory>

#include "backends/nvidia/nvml.hpp"
#include "backends/nvidia/nvrtc.hpp"
#include "backends/nvidia/options.hpp"
#include "backends/nvidia/tables.hpp"
#include "plugins/abi/sized_launch.hpp"
#include "plugins/sdk/device_table.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

// The lanes of a multiprocessor, and the registers that a thread may have, four bytes each: what kernels are shaped
// for.
constexpr std::uint64_t kLanes = 128, kWarp = 32, kRegisterBytes = 255 * 4;
constexpr int kOldestCapability =
    53;  // fused multiply-add and subnormals are in all; NVRTC 11.2 compiles for nothing older

crucible_status enumerate(crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.enumerate: no function to report to");
    for (const DeviceFacts& facts : list_devices(cuda())) {
      sdk::report(
          sink, user,
          {sdk::text_item("id", facts.id), sdk::text_item("name", facts.name), sdk::text_item("kind", "nvidia"),
           sdk::text_item("uuid", facts.uuid), sdk::text_item("pci", facts.pci),
           sdk::number_item("threads", facts.units * kLanes), sdk::number_item("memory_bytes", facts.memory_bytes),
           sdk::number_item("emulated", facts.is_emulated() ? 1 : 0)});
    }
  });
}

void require_usable(const DeviceFacts& facts) {
  const std::string who = facts.id + " (" + facts.name + ")";
  if (facts.compute_mode == CU_COMPUTEMODE_PROHIBITED) {
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       who + " is in compute mode PROHIBITED: allow programs on it with `nvidia-smi -c DEFAULT`");
  }
  if (facts.capability < kOldestCapability) {
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, who + " has compute capability " +
                                                   std::to_string(facts.capability / 10) + "." +
                                                   std::to_string(facts.capability % 10) + ", 5.3 or newer is needed");
  }
}

crucible_status open(crucible_str device_id, crucible_device** out) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "device.open: no place for the device");
    const Cuda& driver = cuda();
    auto device = std::make_unique<crucible_device>();
    device->driver = &driver;
    device->facts = find_device(driver, device_id);
    require_usable(device->facts);
    device->watchdog.start(device->facts.id, options().get_u64("timeout_s"));
    device->code = options().get_text("code");
    device->batching = sdk::batching_of(options().get_text("batches"));
    if (options().get_bool("teams")) device->team_lanes = kWarp;
    std::string note;
    if (options().get_text("profiler") == "cupti")
      (void)find_cupti(driver, device->facts, note);  // refused here, not at a profile
    if (options().get_text("blas") == "cublaslt")
      (void)find_cublas(driver, device->facts, note);  // refused here, not at a product
    if (options().get_text("dnn") == "cudnn") (void)find_cudnn(device->facts, note);
    const std::string what = "device.open: cuDevicePrimaryCtxRetain of " + device->facts.id;
    check(driver, driver.cuDevicePrimaryCtxRetain(&device->context, device->facts.device), what);
    const Current current(*device);
    device->stream = device->make_stream("device.open: ");
    device->allocator = std::make_unique<Allocator>(*device);
    const auto unit = options().get_bool("matrix_units") ? sdk::matrix_unit_of_nvidia(device->facts.capability)
                                                         : sdk::MatrixUnit::kNone;
    device->matrix_products = sdk::make_graph_matrix_products<GraphApi>(*device, unit);
    *out = device.release();
  });
}

crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
    const DeviceFacts& facts = device->facts;
    std::string compiler, note, library, convolutions, profiler;
    (void)find_cupti(*device->driver, facts, profiler);
    (void)find_cublas(*device->driver, facts, library);
    if (const std::string refusal = device->products_refusal(); !refusal.empty()) library = "none (" + refusal + ")";
    (void)find_cudnn(facts, convolutions);
    if (const std::string refusal = device->convolutions_refusal(); !refusal.empty())
      convolutions = "none (" + refusal + ")";
    try {
      compiler = nvrtc(*device->driver).describe();
    } catch (const sdk::Failure& failure) {  // the device can still copy and fill
      compiler = "none";
      note = failure.what();
    }
    sdk::report(sink, user,
                {sdk::text_item("name", facts.name), sdk::text_item("vendor", "NVIDIA"), sdk::math_item(),
                 sdk::text_item("driver", "CUDA " + version_text(device->driver->version)),
                 sdk::text_item("architecture", facts.architecture()), sdk::text_item("compiler", compiler),
                 sdk::text_item("code", device->code), sdk::text_item("dialect", sdk::dialect_cuda().name),
                 sdk::number_item("multiprocessors", facts.units), sdk::number_item("threads", facts.units * kLanes),
                 sdk::number_item("lanes", kWarp), sdk::text_item(abi::kSizedLaunchesProperty, "1"),
                 sdk::number_item("register_bytes", kRegisterBytes),
                 sdk::text_item("memory", device->allocator->describe()), sdk::text_item("library", library),
                 sdk::text_item("matrix_units", sdk::name_of(device->matrix_products->unit())),
                 sdk::text_item("convolutions", convolutions), sdk::text_item("profiler", profiler)});
    if (!note.empty()) sdk::report(sink, user, {sdk::text_item("note", note)});
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
      sdk::report(sink, user, {sdk::text_item("CUDA_VISIBLE_DEVICES", visible)});
    if (facts.is_emulated())
      sdk::report(sink, user,
                  {sdk::text_item("note", "the device is an emulation: its times say nothing about a GPU")});
  });
}

crucible_status capabilities(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.capabilities: no function to report to");
    const DeviceFacts facts = find_device(cuda(), device_id);
    using sdk::Answer;
    const std::string no_nvml = nvml_refusal();
    std::string library, convolutions, profiler;
    const Cupti* const cupti = find_cupti(cuda(), facts, profiler);
    if (cupti != nullptr && !cupti->no_counters.empty()) profiler = cupti->no_counters;
    const bool has_products = find_cublas(cuda(), facts, library) != nullptr,
               has_convolutions = find_cudnn(facts, convolutions) != nullptr;
    sdk::report(sink, user,
                {sdk::answer_item("compile.opaque", Answer::kNo, "opaque ops are a framework's"),
                 sdk::answer_item("compile.ir", Answer::kYes, "printed as CUDA C++ for NVRTC"),
                 sdk::answer_item("f64", Answer::kYes, "all devices have it"),
                 sdk::answer_item("f16", Answer::kYes, "stored; computed as f32"),
                 sdk::answer_item("bf16", Answer::kYes, "stored; computed as f32"),
                 sdk::answer_item("async", Answer::kYes, "submit returns at once"),
                 sdk::answer_item("library.matmul", has_products ? Answer::kYes : Answer::kNo, library),
                 sdk::answer_item("library.conv2d", has_convolutions ? Answer::kYes : Answer::kNo, convolutions),
                 sdk::answer_item("profile", cupti != nullptr ? Answer::kYes : Answer::kNo, profiler),
                 sdk::answer_item("health", Answer::kYes, no_nvml.empty() ? "NVML" : no_nvml)});
  });
}

/// A multiprocessor's lanes do one multiply-add a cycle each: the peak without tensor cores.
crucible_status score(crucible_str device_id, const crucible_kv* workload, std::uint32_t count, std::uint64_t* out,
                      crucible_kv_sink why, void* user) {
  return sdk::tell_score(workload, count, out, why, user, [&](std::uint64_t peak_bytes) {
    const DeviceFacts facts = find_device(cuda(), device_id);
    if (facts.capability < kOldestCapability) return sdk::Score{0, "the device is too old"};
    if (facts.compute_mode == CU_COMPUTEMODE_PROHIBITED)
      return sdk::Score{0, "the device is in compute mode PROHIBITED"};
    return sdk::score_of_peak(facts, kLanes, "multiprocessors", peak_bytes);
  });
}

}  // namespace

Current::Current(crucible_device& device, EvenIfLost) : cuda_(*device.driver) {
  pushed_ = cuda_.cuCtxPushCurrent(device.context) == CUDA_SUCCESS;
}

Current::Current(crucible_device& device) : cuda_(*device.driver) {
  device.require_alive();
  device.check(cuda_.cuCtxPushCurrent(device.context), "cuCtxPushCurrent");
  pushed_ = true;
}

Current::~Current() {
  CUcontext mine = nullptr;
  if (pushed_) (void)cuda_.cuCtxPopCurrent(&mine);
}

const crucible_if_device kDeviceTable = {.struct_size = sizeof(crucible_if_device),
                                         .if_minor = CRUCIBLE_ABI_MINOR,
                                         .enumerate = enumerate,
                                         .open = open,
                                         .close = sdk::close_device,
                                         .properties = properties,
                                         .capabilities = capabilities,
                                         .score = score,
                                         .wait_idle = sdk::wait_for_device,
                                         .self_test = nullptr};

}  // namespace crucible_nvidia

crucible_nvidia::Products& crucible_device::require_products() {
  std::string note;
  const crucible_nvidia::CublasLt* const cublas = crucible_nvidia::find_cublas(*driver, facts, note);
  if (cublas == nullptr)
    throw crucible::sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "there is no library of products: " + note);
  return products_.require("; products are generated and slower",
                           [&] { return std::make_unique<crucible_nvidia::Products>(*this, *cublas); });
}

crucible_nvidia::Convolutions& crucible_device::require_convolutions() {
  std::string note;
  const crucible_nvidia::Cudnn* const cudnn = crucible_nvidia::find_cudnn(facts, note);
  if (cudnn == nullptr)
    throw crucible::sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "there is no library of convolutions: " + note);
  return convolutions_.require("; convolutions are generated and slower",
                               [&] { return std::make_unique<crucible_nvidia::Convolutions>(*this, *cudnn); });
}

crucible_nvidia::Attentions& crucible_device::require_attentions() {
  std::string note;
  const crucible_nvidia::Cudnn* const cudnn = crucible_nvidia::find_cudnn(facts, note);
  if (cudnn == nullptr)
    throw crucible::sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "there is no library of attentions: " + note);
  return attentions_.require("; attentions are generated and slower",
                             [&] { return std::make_unique<crucible_nvidia::Attentions>(*this, *cudnn); });
}

void crucible_device::report_memory(crucible_kv_sink sink, void* user) const {
  crucible::sdk::report(sink, user,
                        {crucible::sdk::number_item("mapped_bytes", allocator->mapped_bytes()),
                         crucible::sdk::number_item("kept_bytes", allocator->kept_bytes())});
}

crucible_device::~crucible_device() {
  if (counters.is_counting()) counters.end();
  if (context == nullptr) return;
  {
    const crucible_nvidia::Current current(*this, crucible_nvidia::Current::EvenIfLost{});
    products_.stop();
    convolutions_.stop();
    attentions_.stop();
    matrix_products = nullptr;
    allocator = nullptr;
    stream = {};
  }
  // A context that died goes with the last one that holds it, which need not be us: it is not opened again in this
  // process (sdk::never_again).
  (void)driver->cuDevicePrimaryCtxRelease(facts.device);
}
