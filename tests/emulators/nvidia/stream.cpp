// Streams and events. Host functions, and kernels of emulated libraries, can be captured into a graph, which is enough
// for the emulated libraries.
#include <chrono>
#include <utility>

#include "tests/emulators/nvidia/driver.hpp"

namespace crucible::emulators::nvidia {

emulator::DeviceStream* stream_of(CUcontext context, CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
    return &context->device->default_stream();
  // Only cuLaunchHostFunc is captured; everything else is refused until the capture has ended.
  return driver().streams.has(handle) && handle->capturing == nullptr ? handle->stream : nullptr;
}

}  // namespace crucible::emulators::nvidia

using namespace crucible::emulators::nvidia;
using crucible::emulator::Site;

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (stream == nullptr || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUstream_st>();
  made->device = context->device;
  made->stream = &context->device->create_stream(flags == CU_STREAM_NON_BLOCKING);
  made->flags = flags;
  *stream = driver().streams.add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }

CUresult cuStreamDestroy(CUstream stream) {
  if (const CUresult code = ready()) return code;
  const auto taken = driver().streams.take(stream);
  if (taken == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  taken->device->destroy(taken->stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  auto* const stream = stream_of(context, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto fault = fault_at(context, Site::kSync, "cuStreamSynchronize", CUDA_ERROR_LAUNCH_FAILED)) return *fault;
  stream->synchronize();
  return state_code(*context->device);
}

CUresult cuStreamQuery(CUstream handle) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  auto* const stream = stream_of(context, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto fault = fault_at(context, Site::kQuery, "cuStreamQuery", CUDA_ERROR_LAUNCH_FAILED)) return *fault;
  return stream->idle() ? state_code(*context->device) : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  if (const CUresult code = ready()) return code;
  if (flags == nullptr || !driver().streams.has(stream)) return CUDA_ERROR_INVALID_HANDLE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  auto* const stream = stream_of(context, handle);
  if (stream == nullptr || !driver().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  stream->hold(event->event);
  return CUDA_SUCCESS;
}

/// On a stream, or into the graph that it is captured into.
static CUresult enqueue(CUstream handle, CUgraphNodeType type, crucible::emulator::NodeWork work) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  const auto when_good = [&device = *context->device, work = std::move(work)] {
    if (device.state() == crucible::emulator::DeviceState::kGood) work();
  };
  if (driver().streams.has(handle) && handle->capturing != nullptr) return capture(handle, type, when_good);
  auto* const stream = stream_of(context, handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  stream->push(when_good);
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(handle, CU_GRAPH_NODE_TYPE_HOST, [function, data] { function(data); });
}

/// For the emulated libraries: a kernel of theirs, which is a function of the host here.
extern "C" __attribute__((visibility("default"))) CUresult crucible_emulator_launch(CUstream handle, const char* name,
                                                                                    CUhostFn function, void* data) {
  return enqueue(handle, CU_GRAPH_NODE_TYPE_KERNEL, [name = std::string(name), function, data] {
    const crucible::emulator::ActivityScope scope({.name = name.c_str()});
    if (WarpReport* const report = WarpReport::find())
      report->library_launched(name, crucible::emulator::running_graph());
    function(data);
  });
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (!driver().streams.has(handle)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // the default streams
  if (handle->capturing != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (const auto fault = fault_at(context, Site::kRecord, "cuStreamBeginCapture", CUDA_ERROR_UNKNOWN)) return *fault;
  handle->last_captured = nullptr;
  return cuGraphCreate(&handle->capturing, 0);
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (graph == nullptr || !driver().streams.has(handle)) return CUDA_ERROR_INVALID_VALUE;
  if (handle->capturing == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  *graph = std::exchange(handle->capturing, nullptr);
  if (const auto fault =
          fault_at(context, Site::kRecord, "cuStreamEndCapture", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)) {
    (void)cuGraphDestroy(std::exchange(*graph, nullptr));
    return *fault;
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  if (const CUresult code = ready()) return code;
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool is_capturing = driver().streams.has(handle) && handle->capturing != nullptr;
  *status = is_capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_unique<CUevent_st>();
  made->has_time = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  *event = driver().events.add(std::move(made));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  if (const CUresult code = ready()) return code;
  return driver().events.take(event) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent event, CUstream handle) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  auto* const stream = stream_of(context, handle);
  if (stream == nullptr || !driver().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto fault = fault_at(context, Site::kRecord, "cuEventRecord", CUDA_ERROR_UNKNOWN)) return *fault;
  stream->record(event->event);
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (!driver().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto fault = fault_at(context, Site::kSync, "cuEventSynchronize", CUDA_ERROR_LAUNCH_FAILED)) return *fault;
  event->event.wait();
  return state_code(*context->device);
}

CUresult cuEventQuery(CUevent event) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (!driver().events.has(event)) return CUDA_ERROR_INVALID_HANDLE;
  if (const auto fault = fault_at(context, Site::kQuery, "cuEventQuery", CUDA_ERROR_LAUNCH_FAILED)) return *fault;
  return event->event.reached() ? state_code(*context->device) : CUDA_ERROR_NOT_READY;
}

static CUresult elapsed(float* milliseconds, CUevent begin, CUevent end) {
  CUcontext context = nullptr;
  if (const CUresult code = ready(&context)) return code;
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!driver().events.has(begin) || !driver().events.has(end)) return CUDA_ERROR_INVALID_HANDLE;
  if (!begin->has_time || !end->has_time || !begin->event.recorded() || !end->event.recorded())
    return CUDA_ERROR_INVALID_HANDLE;
  if (!begin->event.reached() || !end->event.reached()) return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(*end->event.time() - *begin->event.time()).count();
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  return elapsed(milliseconds, begin, end);
}
#undef cuEventElapsedTime
extern "C" __attribute__((visibility("default"))) CUresult cuEventElapsedTime(float* milliseconds, CUevent begin,
                                                                              CUevent end) {
  return elapsed(milliseconds, begin, end);
}

/// For the emulated CUPTI.
extern "C" __attribute__((visibility("default"))) void crucible_emulator_listen(
    crucible::emulator::ActivityListener listener) {
  crucible::emulator::listen_to_activities(listener);
}

extern "C" __attribute__((visibility("default"))) unsigned crucible_emulator_index_of(CUcontext context) {
  for (const auto& record : driver().devices) {
    if (&record->context == context) return record->device.index();
  }
  return ~0u;
}

/// For the emulated libraries, whose work is a host function: what a device would have done for it.
extern "C" __attribute__((visibility("default"))) void crucible_emulator_spend(const crucible::emulator::Work* work) {
  if (crucible::emulator::Device* const device = crucible::emulator::Device::running()) device->spend(*work);
}
