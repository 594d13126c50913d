// Device table: what the driver's devices are called and can do, and opening one on its primary context.
#include "backends/nvidia/device.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "backends/nvidia/nvml.hpp"
#include "backends/nvidia/nvrtc.hpp"
#include "backends/nvidia/options.hpp"
#include "backends/nvidia/program.hpp"
#include "backends/nvidia/tables.hpp"
#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

// The lanes of a multiprocessor, and the registers that a thread may have, four bytes each: what kernels are shaped for.
constexpr std::uint64_t kLanes = 128, kWarp = 32, kRegisterBytes = 255 * 4;
constexpr int kOldestCapability = 53;  // fused multiply-add and subnormals are in all; NVRTC 11.2 compiles for nothing older

crucible_status enumerate(crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.enumerate: no function to report to");
    for (const DeviceFacts& facts : list_devices(cuda())) {
      sdk::report(sink, user,
                  {sdk::text_item("id", facts.id), sdk::text_item("name", facts.name), sdk::text_item("kind", "nvidia"),
                   sdk::text_item("uuid", facts.uuid), sdk::text_item("pci", facts.pci),
                   sdk::number_item("threads", facts.multiprocessors * kLanes),
                   sdk::number_item("memory_bytes", facts.memory_bytes),
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
    throw sdk::Failure(CRUCIBLE_E_UNSUPPORTED, who + " has compute capability " + std::to_string(facts.capability / 10) + "." +
                                                   std::to_string(facts.capability % 10) + ", 5.3 or newer is needed");
  }
}

crucible_status open(crucible_str device_id, crucible_device** out) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "device.open: no place for the device");
    const Cuda& driver = cuda();
    auto device = std::make_unique<crucible_device>();
    device->cuda = &driver;
    device->facts = find_device(driver, device_id);
    require_usable(device->facts);
    device->watchdog.start(device->facts.id, options().get_u64("timeout_s"));
    device->cache_dir = options().get_text("cache_dir");
    device->code = options().get_text("code");
    if (options().get_bool("teams")) device->team_lanes = kWarp;
    std::string note;
    if (options().get_text("profiler") == "cupti") (void)find_cupti(driver, device->facts, note);  // refused here, not at a profile
    if (options().get_text("blas") == "cublaslt") (void)find_cublas(driver, device->facts, note);  // refused here, not at a product
    if (options().get_text("dnn") == "cudnn") (void)find_cudnn(device->facts, note);
    const std::string what = "device.open: cuDevicePrimaryCtxRetain of " + device->facts.id;
    check(driver, driver.cuDevicePrimaryCtxRetain(&device->context, device->facts.device), what);
    const Current current(*device);
    CUstream stream = nullptr;
    device->check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "device.open: cuStreamCreate");
    device->stream = Stream(driver, stream);
    device->allocator = std::make_unique<Allocator>(*device);
    device->matrix_products = make_matrix_products(*device);
    *out = device.release();
  });
}

crucible_status close(crucible_device* device) {
  return sdk::guard([&] {
    sdk::require(device != nullptr, "device.close: no device");
    device->ledger.report_leaks("device");
    if (device->watchdog.is_suspect()) return sdk::abandon(device);
    delete device;
  });
}

crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
    const DeviceFacts& facts = device->facts;
    std::string compiler, note, library, convolutions, profiler;
    (void)find_cupti(*device->cuda, facts, profiler);
    (void)find_cublas(*device->cuda, facts, library);
    if (const std::string refusal = device->products_refusal(); !refusal.empty()) library = "none (" + refusal + ")";
    (void)find_cudnn(facts, convolutions);
    if (const std::string refusal = device->convolutions_refusal(); !refusal.empty()) convolutions = "none (" + refusal + ")";
    try {
      compiler = nvrtc(*device->cuda).describe();
    } catch (const sdk::Failure& failure) {  // the device can still copy and fill
      compiler = "none";
      note = failure.what();
    }
    sdk::report(sink, user,
                {sdk::text_item("name", facts.name), sdk::text_item("vendor", "NVIDIA"),
                 sdk::text_item("driver", "CUDA " + version_text(device->cuda->version)),
                 sdk::text_item("architecture", facts.architecture()), sdk::text_item("compiler", compiler),
                 sdk::text_item("code", device->code), sdk::text_item("dialect", sdk::dialect_cuda().name),
                 sdk::number_item("multiprocessors", facts.multiprocessors),
                 sdk::number_item("threads", facts.multiprocessors * kLanes),
                 sdk::number_item("lanes", kWarp), sdk::number_item("register_bytes", kRegisterBytes),
                 sdk::text_item("memory", device->allocator->describe()), sdk::text_item("library", library),
                 sdk::text_item("matrix_units", sdk::name_of(device->matrix_products->unit())),
                 sdk::text_item("convolutions", convolutions), sdk::text_item("profiler", profiler)});
    if (!note.empty()) sdk::report(sink, user, {sdk::text_item("note", note)});
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
      sdk::report(sink, user, {sdk::text_item("CUDA_VISIBLE_DEVICES", visible)});
    if (facts.is_emulated())
      sdk::report(sink, user, {sdk::text_item("note", "the device is an emulation: its times say nothing about a GPU")});
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
    const bool has_products = find_cublas(cuda(), facts, library) != nullptr, has_convolutions = find_cudnn(facts, convolutions) != nullptr;
    sdk::report(sink, user,
                {sdk::answer_item("compile.text", Answer::kNo, "the host prints C alone"),
                 sdk::answer_item("compile.ir", Answer::kYes, "printed as CUDA C++ for NVRTC"),
                 sdk::answer_item("f64", Answer::kYes, "all devices have it"),
                 sdk::answer_item("f16", Answer::kYes, "stored; computed as f32"),
                 sdk::answer_item("bf16", Answer::kYes, "stored; computed as f32"),
                 sdk::answer_item("queue", Answer::kYes, "one stream per queue; a thread of the host waits for timelines"),
                 sdk::answer_item("async", Answer::kYes, "submit returns at once"),
                 sdk::answer_item("library.matmul", has_products ? Answer::kYes : Answer::kNo, library),
                 sdk::answer_item("library.conv2d", has_convolutions ? Answer::kYes : Answer::kNo, convolutions),
                 sdk::answer_item("binary", Answer::kNo, "programs are kept in the plugin's own cache"),
                 sdk::answer_item("profile", cupti != nullptr ? Answer::kYes : Answer::kNo, profiler),
                 sdk::answer_item("health", Answer::kYes, no_nvml.empty() ? "NVML" : no_nvml)});
  });
}

std::uint64_t workload_number(const crucible_kv* workload, std::uint32_t count, std::string_view key) {
  for (std::uint32_t i = 0; i < count; ++i) {
    if (sdk::view(workload[i].key) == key) return workload[i].u;
  }
  return 0;
}

/// A multiprocessor's lanes do one multiply-add a cycle each: the peak without tensor cores.
crucible_status score(crucible_str device_id, const crucible_kv* workload, std::uint32_t count, std::uint64_t* out,
                      crucible_kv_sink why, void* user) {
  return sdk::guard([&] {
    sdk::require(out != nullptr && (workload != nullptr || count == 0), "device.score: no place for the score or no workload");
    const DeviceFacts facts = find_device(cuda(), device_id);
    const std::uint64_t megahertz = std::max<std::uint64_t>(facts.kilohertz / 1000, 1);
    std::uint64_t points = facts.multiprocessors * kLanes * 2 * megahertz;  // GFLOP/s times 1000
    std::string reason = std::to_string(facts.multiprocessors) + " multiprocessors at " + std::to_string(megahertz) + " MHz";
    const std::uint64_t peak = workload_number(workload, count, "peak_bytes");
    if (peak > facts.memory_bytes) {
      points = 0;
      reason = "the program needs " + std::to_string(peak) + " bytes, the device has " + std::to_string(facts.memory_bytes);
    }
    if (facts.compute_mode == CU_COMPUTEMODE_PROHIBITED || facts.capability < kOldestCapability) {
      points = 0;
      reason = facts.capability < kOldestCapability ? "the device is too old" : "the device is in compute mode PROHIBITED";
    }
    if (why != nullptr) sdk::report(why, user, {sdk::text_item("reason", reason)});
    *out = points;
  });
}

crucible_status wait_idle(crucible_device* device, std::uint64_t timeout_ns) {
  return sdk::guard([&] {
    sdk::require(device != nullptr, "device.wait_idle: no device");
    if (device->wait_for_queues(timeout_ns)) return;
    throw sdk::Failure(CRUCIBLE_E_CANCELLED, "device.wait_idle: a queue had work after " + std::to_string(timeout_ns) + " ns");
  });
}

}  // namespace

Current::Current(crucible_device& device, EvenIfLost) : cuda_(*device.cuda) {
  pushed_ = cuda_.cuCtxPushCurrent(device.context) == CUDA_SUCCESS;
}

Current::Current(crucible_device& device) : cuda_(*device.cuda) {
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
                                         .close = close,
                                         .properties = properties,
                                         .capabilities = capabilities,
                                         .score = score,
                                         .wait_idle = wait_idle,
                                         .self_test = nullptr};

}  // namespace crucible_nvidia

using crucible_nvidia::CUresult;

void crucible_device::check(CUresult code, std::string_view what) {
  // Unavailable is busy before it is open, and gone afterwards.
  const bool is_gone = code == crucible_nvidia::CUDA_ERROR_DEVICE_UNAVAILABLE && stream.get() != nullptr;
  if (is_gone || crucible_nvidia::is_sticky(code)) {
    const std::lock_guard lock(lost_mutex_);
    if (lost_.empty()) lost_ = std::string(what) + ": " + crucible_nvidia::error_text(*cuda, code);
  }
  if (is_gone) require_alive();
  crucible_nvidia::check(*cuda, code, what);
}

void crucible_device::require_alive() {
  watchdog.require_alive();
  const std::lock_guard lock(lost_mutex_);
  if (lost_.empty()) return;
  throw crucible::sdk::Failure(CRUCIBLE_E_DEVICE_LOST, facts.id + " was lost (" + lost_ + "): close it and open it again",
                               {{"where", facts.id}});
}

crucible_nvidia::Products& crucible_device::require_products() {
  std::string note;
  const crucible_nvidia::CublasLt* const cublas = crucible_nvidia::find_cublas(*cuda, facts, note);
  if (cublas == nullptr) throw crucible::sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "there is no library of products: " + note);
  return products_.require("; products are generated and slower",
                           [&] { return std::make_unique<crucible_nvidia::Products>(*this, *cublas); });
}

crucible_nvidia::Convolutions& crucible_device::require_convolutions() {
  std::string note;
  const crucible_nvidia::Cudnn* const cudnn = crucible_nvidia::find_cudnn(facts, note);
  if (cudnn == nullptr) throw crucible::sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "there is no library of convolutions: " + note);
  return convolutions_.require("; convolutions are generated and slower",
                               [&] { return std::make_unique<crucible_nvidia::Convolutions>(*this, *cudnn); });
}

crucible_nvidia::Attentions& crucible_device::require_attentions() {
  std::string note;
  const crucible_nvidia::Cudnn* const cudnn = crucible_nvidia::find_cudnn(facts, note);
  if (cudnn == nullptr) throw crucible::sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "there is no library of attentions: " + note);
  return attentions_.require("; attentions are generated and slower", [&] { return std::make_unique<crucible_nvidia::Attentions>(*this, *cudnn); });
}

void crucible_device::synchronize(crucible_nvidia::CUstream stream, std::string_view what) {
  crucible_nvidia::CUresult code = crucible_nvidia::CUDA_ERROR_NOT_READY;
  if (watchdog.is_on()) {
    watchdog.wait(what, [&] { return (code = cuda->cuStreamQuery(stream)) != crucible_nvidia::CUDA_ERROR_NOT_READY; });
  } else {
    code = cuda->cuStreamSynchronize(stream);
  }
  check(code, std::string(what) + ": cuStreamSynchronize");
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
  // The last one to release a context that died ends it: the next open gets a new one.
  (void)cuda->cuDevicePrimaryCtxRelease(facts.device);
}
