// A device for tests of the recorder, without hardware: `apart`, PyTorch's PrivateUse1. Its memory is closed to the
// processor but for the time of an operation of the device's own, so whoever reads it in place ends by a signal. Its
// streams are as late as they may be: with late(true), copies and ops that write in place wait in their stream's queue
// until somebody waits for them, and it is the waiting thread that does them. A test thus fails always, not sometimes.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace crucible::test_device {

inline constexpr c10::DeviceIndex kDevices = 2;
inline constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

/// The device's allocator; it knows which device is the calling thread's.
c10::Allocator* allocator();

/// The processor may use the memory at these addresses while it lives. Addresses of other memory are passed over.
class Opened {
 public:
  Opened() = default;
  explicit Opened(const void* address) { add(address); }
  ~Opened();
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  void add(const void* address);

 private:
  std::vector<char*> blocks_;
};

/// Of the calling thread.
c10::DeviceIndex current_device();
void set_device(c10::DeviceIndex device);
c10::Stream current_stream(c10::DeviceIndex device);
void set_stream(const c10::Stream& stream);

/// Does `work` as the stream's next: now, when nothing is late, else when somebody waits for it. A stream that captures
/// keeps it for the graph.
void enqueue(const c10::Stream& stream, std::function<void()> work);
/// Does everything that the stream was given before now.
/// Errors: an error of work that nobody has been told of; the stream captures (and the capture is lost by this).
void wait_for(const c10::Stream& stream);
void wait_for_device(c10::DeviceIndex device);
/// Whether the stream has nothing left to do.
bool is_done(const c10::Stream& stream);
/// How much the stream was given, and the same done up to there.
std::uint64_t given(const c10::Stream& stream);
void wait_until(const c10::Stream& stream, std::uint64_t given);
bool has_reached(const c10::Stream& stream, std::uint64_t given);
c10::Stream new_stream(c10::DeviceIndex device);

void set_late(bool late);
bool is_late();

/// From here on the current stream's work is kept and not done.
void begin_capture();
/// The work that was kept. Errors: something has waited meanwhile.
std::vector<std::function<void()>> end_capture();
bool is_capturing();

/// What crossed between the device and the processor, and how often somebody waited for it.
struct Counts {
  std::uint64_t copies_to_host = 0, copies_to_device = 0, waits = 0;
};
Counts& counts();

}  // namespace crucible::test_device
