// What one recording has gathered: its threads' logs, its storages, the bytes of the iteration that is running. The
// recorder (recorder.hpp) changes it under its lock; TraceStream reads what is complete.
#pragma once

#include <ATen/core/MT19937RNGEngine.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"
#include "frontends/torch/batch.hpp"
#include "frontends/torch/call_site.hpp"
#include "frontends/torch/device_bytes.hpp"
#include "frontends/torch/log.hpp"
#include "frontends/torch/op_hashes.hpp"
#include "frontends/torch/snapshots.hpp"
#include "frontends/torch/storage_table.hpp"
#include "frontends/torch/unseen_writes.hpp"

namespace crucible::recorder {

/// One recording thread. Threads: its own; `number`, `log` and what was sampled: who holds the recorder's lock.
struct ThreadState {
  std::uint32_t number = 0;                           // in the order in which threads first recorded
  std::uint32_t recording = 0;                        // the number of the recording that it is part of
  std::uint32_t until_sample = 16;                    // ops until the next one that is timed
  c10::impl::PODLocalDispatchKeySet* keys = nullptr;  // the thread's own, in its local storage
  Log log;
  CallSiteCache call_sites;
  std::uint64_t random = 0x9E3779B97F4A7C15ull;
  std::uint64_t sampled_ops = 0;
  std::uint64_t sampled_ns = 0;
};

/// operator_id of a record that is a loss: its tensor, then its value as kDouble; its sequence is the next op's.
inline constexpr std::uint32_t kLossRecord = 0xffffffffu;
/// operator_id of a record that is no op: one that threw, kept for the sizes of storages that it made known.
inline constexpr std::uint32_t kDroppedRecord = 0xfffffffeu;

/// What Python called a storage at first, and at the end.
struct StorageNames {
  std::string start, final;
  trace::Role start_role = trace::Role::kUnknown, final_role = trace::Role::kUnknown;
};

/// Beyond its slot in the table, for storages that entered, have a name or outlive an iteration. Every Python number
/// that an op takes as a tensor is one: it is kept small.
struct StorageDetails {
  std::uint32_t id = 0;
  std::uint32_t born = kNeverUsed;                 // iteration in which an op used it first
  bool external = false;                           // its bytes were recorded when an op first read it
  bool is_live = false;                            // its bytes are nobody's concern: who reads the file has the memory
  std::span<const std::byte> taken;                // its bytes when they were recorded last
  std::uint32_t taken_iteration = 0;               // and when that was
  std::uint64_t checksum = 0;                      // of its bytes when iteration checksum_iteration - 1 ended
  std::uint32_t checksum_iteration = 0xffffffffu;  // kAfterPause: taken when a pause began
  std::unique_ptr<StorageNames> own_names;         // null: it has none
  const StorageNames& names() const {
    static const StorageNames none;
    return own_names == nullptr ? none : *own_names;
  }
};

/// The state of the CPU's default generator when it was kept last, and its bytes as the framework writes them.
struct GeneratorMemory {
  at::mt19937_data_pod engine{};
  std::optional<float> next_float;
  std::optional<double> next_double;
  std::span<const std::byte> bytes;
};

/// Everything that one recording has gathered.
struct RecordingState {
  std::uint64_t next_sequence = 0;
  StorageTable storages;
  // Each is shared with its thread, which may be inside an op when this ends.
  std::vector<std::shared_ptr<ThreadState>> threads;
  std::deque<StorageDetails> details;
  Snapshots snapshots;
  bool leaves_out = false;      // bytes of outputs and draws
  Batch open;                   // of the iteration that is running: its bytes; the records are in the logs
  std::vector<Batch> complete;  // iterations that no stream has taken
  std::size_t sites_given = 0, modules_given = 0;
  OpHashTable op_hashes;  // filled when hashes_ops()
  std::map<std::string, NotRecordedCount> not_recorded;
  std::vector<std::uint64_t> iteration_starts;  // sequence numbers; the last one ends the last complete iteration
  GeneratorMemory generator;
  UnseenWrites unseen;
  std::vector<DeviceLook> device_looks;  // of the iteration that is running, as are the two below
  std::vector<DeviceDraw> device_draws;
  std::size_t device_draw_bytes = 0;
  std::uint64_t outside_changes = 0;       // storages found changed by something that is not an op
  std::uint64_t boundary_ns = 0;           // time at iteration ends
  std::vector<std::uint32_t> passed_over;  // numbers of iterations that are left out, ascending
  std::uint32_t complete_iterations() const { return static_cast<std::uint32_t>(iteration_starts.size()) - 1; }
  bool is_passed_over(std::uint32_t iteration) const {
    return std::binary_search(passed_over.begin(), passed_over.end(), iteration);
  }
  /// Complete iterations that go into the file.
  std::uint32_t kept_iterations() const {
    const auto end = std::lower_bound(passed_over.begin(), passed_over.end(), complete_iterations());
    return complete_iterations() - static_cast<std::uint32_t>(end - passed_over.begin());
  }
  /// Whether what the storage holds is what it held at the end of the last iteration that goes into the file.
  bool is_as_kept(const StorageTable::Slot& slot) const;
  /// Whether the storage was changed since the pause began from which on it was not looked at.
  bool changed_in_pause(const StorageTable::Slot& slot) const;
};

}  // namespace crucible::recorder
