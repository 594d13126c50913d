// One emulated device as all vendors see it: whether it still works, its streams with the old default stream among
// them, and where faults act. What a vendor calls an error is the skin's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/emulators/core/faults.hpp"
#include "tests/emulators/core/grid.hpp"
#include "tests/emulators/core/settings.hpp"
#include "tests/emulators/core/stream.hpp"

namespace crucible::emulator {

/// What has happened to a device. All but kGood stay until reset().
enum class DeviceState { kGood, kIllegalAddress, kTrap, kTimeout, kLost };

/// A stream of a device. Streams that are not `free_running` keep the old rule of the default stream: it waits for
/// them, they wait for it.
class DeviceStream {
 public:
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  /// Runs `work` in order, unless the device has stopped working by then.
  void push(Stream::Work work);
  /// In order, whatever the device's state: for events, which end waits.
  void record(Event& event);
  void hold(const Event& event);
  void synchronize() const { stream_.synchronize(); }
  bool idle() const { return stream_.idle(); }
  bool free_running() const { return free_running_; }

 private:
  friend class Device;
  DeviceStream(class Device& device, bool free_running) : device_(device), free_running_(free_running) {}
  Device& device_;
  bool free_running_;
  Stream stream_;
};

/// Threads: any.
class Device {
 public:
  explicit Device(unsigned index) : index_(index) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  unsigned index() const { return index_; }
  DeviceState state() const { return state_.load(); }
  /// The first failure stays.
  void fail(DeviceState state);

  /// Lives until destroy() or the end of the device. The default stream is there from the first call on.
  DeviceStream& create_stream(bool free_running);
  DeviceStream& default_stream();
  /// Waits for its work. False when it is no stream of this device.
  bool destroy(DeviceStream* stream);
  bool owns(const DeviceStream* stream) const;
  void synchronize();

  /// Asks the faults at a place. What can be done here is done: hang and slow wait (`bytes` at the rule's rate), lost
  /// and trap change the state. The rule that fired is returned for the rest: oom, fail and flip are the caller's.
  std::optional<Rule> at(Site site, std::string_view name = "", std::uint64_t bytes = 0);

  /// Runs a grid in the calling thread, which is a stream's, with the state kept when it fails. Where sampled blocks
  /// alone run, no failure counts: what they read was never computed.
  void run(const KernelCode& kernel, const Launch& launch, const Sampling* sampling = nullptr);

  /// What the model of times takes this device for. Without it, and unless CRUCIBLE_EMU_TIMING is roofline, times are
  /// the emulator's.
  void set_rates(const Rates& rates);
  /// Moves the clock of the calling stream's thread on by what the device would take. run() does it by itself.
  void spend(const Work& work);
  /// The device whose work the calling thread runs, or null.
  static Device* running();

  /// Ends hangs, waits for all streams and works again. Streams stay.
  void reset();

 private:
  friend class DeviceStream;
  /// Pushes into `stream` that it waits for what the rule of the default stream demands.
  void keep_default_order(DeviceStream& stream);

  const unsigned index_;
  const bool is_empty_ = settings().empty;
  std::optional<Rates> rates_;
  std::atomic<DeviceState> state_ = DeviceState::kGood;
  std::atomic<bool> cancelled_ = false;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceStream>> streams_;
  DeviceStream* default_ = nullptr;
};

}  // namespace crucible::emulator
