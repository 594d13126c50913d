// Streams and events of libamdhip64.
#include <chrono>

#include "tests/emulators/amd/machine.hpp"

using namespace crucible::emulator;

namespace {

hipError_t create_stream(hipStream_t* stream, unsigned flags) {
  return answer_on_device([&](AmdDevice& device) {
    if (stream == nullptr || flags > hipStreamNonBlocking) return hipErrorInvalidValue;
    *stream = reinterpret_cast<hipStream_t>(&device.device.create_stream(flags == hipStreamNonBlocking));
    return hipSuccess;
  });
}

}  // namespace

extern "C" {

hipError_t hipStreamCreate(hipStream_t* stream) { return create_stream(stream, hipStreamDefault); }
hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) { return create_stream(stream, flags); }
hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int) {
  return create_stream(stream, flags);
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return answer([&] {
    AmdDevice* const device = current_device();
    if (device == nullptr) return hipErrorNoDevice;
    const Target target = target_of(*device, stream);
    const bool gone = target.stream != nullptr && target.device->device.destroy(target.stream);
    return gone ? hipSuccess : hipErrorInvalidHandle;
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return answer_on_stream(stream, [](const Target& target) {
    const hipError_t fault = fault_at(*target.device, Site::kSync, "hipStreamSynchronize", hipErrorUnknown);
    if (fault != hipSuccess) return fault;
    target.stream->synchronize();
    return target.device->error();
  });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return answer_on_stream(stream, [](const Target& target) {
    if (!target.stream->idle()) return hipErrorNotReady;
    return target.device->error();
  });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  return answer_on_stream(stream, [&](const Target& target) {
    if (flags != 0) return hipErrorInvalidValue;
    if (!machine().events.has(event)) return hipErrorInvalidHandle;
    target.stream->hold(event->event);
    return hipSuccess;
  });
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* data) {
  return answer_on_stream(stream, [&](const Target& target) {
    if (function == nullptr) return hipErrorInvalidValue;
    target.stream->push([function, data] { function(data); });
    return hipSuccess;
  });
}

/// For the emulated libraries: a kernel of theirs, which is a function of the host here.
hipError_t crucible_emulator_launch(hipStream_t stream, const char* name, hipHostFn_t function, void* data) {
  return answer_on_stream(stream, [&](const Target& target) {
    target.stream->push([name = std::string(name), function, data] {
      const ActivityScope scope({.name = name.c_str()});
      function(data);
    });
    return hipSuccess;
  });
}

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return answer_on_device([&](AmdDevice&) {
    if (event == nullptr) return hipErrorInvalidValue;
    auto made = std::make_unique<ihipEvent_t>();
    made->timed = (flags & hipEventDisableTiming) == 0;
    *event = machine().events.add(std::move(made));
    return hipSuccess;
  });
}
hipError_t hipEventCreate(hipEvent_t* event) { return hipEventCreateWithFlags(event, hipEventDefault); }

hipError_t hipEventDestroy(hipEvent_t event) {
  return answer([&] { return machine().events.take(event) != nullptr ? hipSuccess : hipErrorInvalidHandle; });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return answer_on_stream(stream, [&](const Target& target) {
    if (!machine().events.has(event)) return hipErrorInvalidHandle;
    if (const hipError_t fault = fault_at(*target.device, Site::kRecord, "hipEventRecord", hipErrorUnknown))
      return fault;
    target.stream->record(event->event);
    return hipSuccess;
  });
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  return answer_on_device([&](AmdDevice& device) {
    if (!machine().events.has(event)) return hipErrorInvalidHandle;
    if (const hipError_t fault = fault_at(device, Site::kSync, "hipEventSynchronize", hipErrorUnknown)) return fault;
    event->event.wait();
    return device.error();
  });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return answer_on_device([&](AmdDevice&) {
    if (!machine().events.has(event)) return hipErrorInvalidHandle;
    return event->event.reached() ? hipSuccess : hipErrorNotReady;
  });
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t begin, hipEvent_t end) {
  return answer_on_device([&](AmdDevice&) {
    if (milliseconds == nullptr) return hipErrorInvalidValue;
    for (const hipEvent_t event : {begin, end}) {
      if (!machine().events.has(event) || !event->timed || !event->event.recorded()) return hipErrorInvalidHandle;
    }
    const auto from = begin->event.time(), to = end->event.time();
    if (!from || !to) return hipErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(*to - *from).count();
    return hipSuccess;
  });
}

}  // extern "C"
