// Device table: what the runtime's devices are called and can do, and opening one.
#include "backends/amd/device.hpp"

#include <cstdlib>
#include <memory>

#include "backends/amd/compiler.hpp"
#include "backends/amd/options.hpp"
#include "backends/amd/profiler.hpp"
#include "backends/amd/smi.hpp"
#include "backends/amd/tables.hpp"
#include "plugins/abi/sized_launch.hpp"
#include "plugins/sdk/device_table.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/text.hpp"

namespace crucible_amd {
namespace {

using namespace crucible;

// The lanes of a compute unit, and the vector registers that a thread may have, four bytes each: what kernels are
// shaped for.
constexpr std::uint64_t kLanes = 64, kRegisterBytes = 256 * 4;

crucible_status enumerate(crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.enumerate: no function to report to");
    for (const DeviceFacts& facts : list_devices(hip())) {
      sdk::report(sink, user,
                  {sdk::text_item("id", facts.id), sdk::text_item("name", facts.name), sdk::text_item("kind", "amd"),
                   sdk::text_item("pci", facts.pci), sdk::number_item("threads", facts.units * kLanes),
                   sdk::number_item("memory_bytes", facts.memory_bytes),
                   sdk::number_item("emulated", facts.is_emulated() ? 1 : 0)});
    }
  });
}

crucible_status open(crucible_str device_id, crucible_device** out) {
  return sdk::guard([&] {
    sdk::require(out != nullptr, "device.open: no place for the device");
    const Hip& runtime = hip();
    auto device = std::make_unique<crucible_device>();
    device->driver = &runtime;
    device->facts = find_device(runtime, device_id);
    const DeviceFacts& facts = device->facts;
    if (facts.compute_mode == hipComputeModeProhibited) {
      throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                         facts.id + " (" + facts.name + ") is in compute mode PROHIBITED: allow programs on it");
    }
    device->watchdog.start(device->facts.id, options().get_u64("timeout_s"));
    device->batching = sdk::batching_of(options().get_text("batches"));
    if (options().get_bool("teams")) device->team_lanes = static_cast<std::uint32_t>(facts.wave);
    std::string note;
    if (options().get_text("blas") == "rocblas") (void)find_rocblas(facts, note);  // refused here, not at a product
    if (options().get_text("dnn") == "miopen") (void)find_miopen(facts, note);
    const Current current(*device);
    device->stream = device->make_stream("device.open: ");
    auto unit = options().get_bool("matrix_units") ? sdk::matrix_unit_of_amd(architecture_of(runtime, facts.device))
                                                   : sdk::MatrixUnit::kNone;
    if (sdk::wave_of(unit) != facts.wave) unit = sdk::MatrixUnit::kNone;  // the fragments are those of one width
    device->matrix_products = sdk::make_graph_matrix_products<GraphApi>(*device, unit);
    *out = device.release();
  });
}

crucible_status properties(crucible_device* device, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(device != nullptr && sink != nullptr, "device.properties: no device or no function to report to");
    const DeviceFacts& facts = device->facts;
    std::string note, library, convolutions, profiler;
    (void)find_rocblas(facts, library);
    if (const std::string refusal = device->products_refusal(); !refusal.empty()) library = "none (" + refusal + ")";
    (void)find_miopen(facts, convolutions);
    if (const std::string refusal = device->convolutions_refusal(); !refusal.empty())
      convolutions = "none (" + refusal + ")";
    (void)find_profiler(facts, profiler);
    const std::string compiler = describe_compiler(*device, note);
    const std::string arch = architecture_of(*device->driver, facts.device);
    sdk::report(sink, user,
                {sdk::text_item("name", facts.name), sdk::text_item("vendor", "AMD"), sdk::math_item(),
                 sdk::text_item("driver", "HIP " + version_text(device->driver->version)),
                 sdk::text_item("architecture", arch.empty() ? "as the compiler finds it" : arch),
                 sdk::text_item("compiler", compiler), sdk::text_item("dialect", sdk::dialect_hip().name),
                 sdk::number_item("compute_units", facts.units), sdk::number_item("wave", facts.wave),
                 sdk::number_item("threads", facts.units * kLanes), sdk::number_item("lanes", facts.wave),
                 sdk::text_item(abi::kSizedLaunchesProperty, "1"), sdk::number_item("register_bytes", kRegisterBytes),
                 sdk::text_item("library", library),
                 sdk::text_item("matrix_units", sdk::name_of(device->matrix_products->unit())),
                 sdk::text_item("convolutions", convolutions), sdk::text_item("profiler", profiler)});
    if (!note.empty()) sdk::report(sink, user, {sdk::text_item("note", note)});
    for (const char* variable : {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
      if (const char* visible = std::getenv(variable)) sdk::report(sink, user, {sdk::text_item(variable, visible)});
    }
    if (facts.is_emulated())
      sdk::report(sink, user,
                  {sdk::text_item("note", "the device is an emulation: its times say nothing about a GPU")});
  });
}

crucible_status capabilities(crucible_str device_id, crucible_kv_sink sink, void* user) {
  return sdk::guard([&] {
    sdk::require(sink != nullptr, "device.capabilities: no function to report to");
    const DeviceFacts facts = find_device(hip(), device_id);
    std::string library, convolutions, profiler;
    const bool has_products = find_rocblas(facts, library) != nullptr,
               has_convolutions = find_miopen(facts, convolutions) != nullptr;
    const bool has_profiler = find_profiler(facts, profiler) != nullptr;
    const std::string no_smi = smi_refusal();
    using sdk::Answer;
    sdk::report(sink, user,
                {sdk::answer_item("compile.opaque", Answer::kNo, "opaque ops are a framework's"),
                 sdk::answer_item("compile.ir", Answer::kYes, "printed as HIP C++ for HIPRTC or clang"),
                 sdk::answer_item("f64", Answer::kYes, "all devices have it"),
                 sdk::answer_item("f16", Answer::kYes, "stored; computed as f32"),
                 sdk::answer_item("bf16", Answer::kYes, "stored; computed as f32"),
                 sdk::answer_item("async", Answer::kYes, "submit returns at once"),
                 sdk::answer_item("library.matmul", has_products ? Answer::kYes : Answer::kNo, library),
                 sdk::answer_item("library.conv2d", has_convolutions ? Answer::kYes : Answer::kNo, convolutions),
                 sdk::answer_item("profile", has_profiler ? Answer::kYes : Answer::kNo, profiler),
                 sdk::answer_item("health", Answer::kYes, no_smi.empty() ? smi()->name() : no_smi)});
  });
}

/// A compute unit's lanes do one multiply-add a cycle each: the peak without matrix cores.
crucible_status score(crucible_str device_id, const crucible_kv* workload, std::uint32_t count, std::uint64_t* out,
                      crucible_kv_sink why, void* user) {
  return sdk::tell_score(workload, count, out, why, user, [&](std::uint64_t peak_bytes) {
    return sdk::score_of_peak(find_device(hip(), device_id), kLanes, "compute units", peak_bytes);
  });
}

}  // namespace

Current::Current(crucible_device& device, EvenIfLost) : hip_(*device.driver) {
  if (hip_.hipGetDevice(&before_) != hipSuccess) before_ = -1;
  (void)hip_.hipSetDevice(device.facts.device);  // a lost device refuses
}

Current::Current(crucible_device& device) : hip_(*device.driver) {
  device.require_alive();
  if (hip_.hipGetDevice(&before_) != hipSuccess) before_ = -1;
  device.check(hip_.hipSetDevice(device.facts.device), "hipSetDevice of " + device.facts.id);
}

Current::~Current() {
  if (before_ >= 0) (void)hip_.hipSetDevice(before_);
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

}  // namespace crucible_amd

crucible_amd::Products& crucible_device::require_products() {
  if (crucible_amd::Products* const started = products_.get()) return *started;  // for each call of a replay
  std::string note;
  const crucible_amd::RocBlas* const rocblas = crucible_amd::find_rocblas(facts, note);
  if (rocblas == nullptr)
    throw crucible::sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "there is no library of products: " + note);
  return products_.require("; products are generated and slower",
                           [&] { return std::make_unique<crucible_amd::Products>(*this, *rocblas); });
}

crucible_amd::Convolutions& crucible_device::require_convolutions() {
  if (crucible_amd::Convolutions* const started = convolutions_.get()) return *started;
  std::string note;
  const crucible_amd::Miopen* const miopen = crucible_amd::find_miopen(facts, note);
  if (miopen == nullptr)
    throw crucible::sdk::Failure(CRUCIBLE_E_UNSUPPORTED, "there is no library of convolutions: " + note);
  return convolutions_.require("; convolutions are generated and slower",
                               [&] { return std::make_unique<crucible_amd::Convolutions>(*this, *miopen); });
}

crucible_device::~crucible_device() {
  if (counters.is_counting()) counters.end();
  if (stream.get() == nullptr) return;
  const crucible_amd::Current current(*this, crucible_amd::Current::EvenIfLost{});
  products_.stop();
  convolutions_.stop();
  matrix_products = nullptr;
  stream = {};
}
