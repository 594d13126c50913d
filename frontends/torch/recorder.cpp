// Storages, iterations and threads of a recording. The per-op writing is in op_scope.cpp.
#include "frontends/torch/recorder.hpp"

#include <ATen/Functions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "core/base/hash.hpp"
#include "frontends/torch/op_scope.hpp"

namespace crucible::recorder {

namespace {

struct ThisThread {
  ThreadState* state = nullptr;
  std::uint32_t recording = 0;
};

// Initial-exec: one load instead of a call into the dynamic linker per op; the few bytes fit into the reserve that the
// C library keeps for libraries loaded later.
__attribute__((tls_model("initial-exec"))) thread_local ThisThread this_thread;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

bool is_key_on() { return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake); }

}  // namespace

void SpinLock::wait() const {
  for (int spins = 0; held_.load(std::memory_order_relaxed); ++spins) {
    if (spins > 100) std::this_thread::yield();
  }
}

Recorder& Recorder::instance() {
  static Recorder* recorder = new Recorder;  // never destroyed: threads may still hold logs when the process ends
  return *recorder;
}

ThreadState& Recorder::thread() {
  const std::uint32_t recording = recording_number_.load(std::memory_order_relaxed);
  if (this_thread.state != nullptr && this_thread.recording == recording) [[likely]] return *this_thread.state;
  auto state = std::make_unique<ThreadState>();
  const std::lock_guard lock(lock_);
  state->number = static_cast<std::uint32_t>(state_->threads.size());
  state->random += state->number;
  this_thread = {state.get(), recording};
  state_->threads.push_back(std::move(state));
  return *this_thread.state;
}

void Recorder::start() {
  iteration_ = 0;
  state_->iteration_starts.push_back(state_->next_sequence);
  set_phase(trace::Phase::kForward);
  thread();  // the thread that starts is number 0
  pauses_ = 0;
  passing_over_ = false;
  note_generators();
  recording_ = true;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
}

void Recorder::stop() {
  recording_ = false;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, false);
}

void Recorder::clear() {
  ++recording_number_;
  state_ = std::make_unique<RecordingState>();
}

bool Recorder::end_iteration() {
  if (passing_over_) {
    passing_over_ = false;
    resume();
  }
  if (!is_key_on()) return false;
  const std::uint64_t start = now_ns();
  const std::lock_guard lock(lock_);
  state_->iteration_starts.push_back(state_->next_sequence);
  ++iteration_;
  state_->storages.purge();
  // A program that changes its states behind our back in one iteration is expected to do so in every one.
  if (iteration_ == 1 || state_->outside_changes > 0) note_checksums();
  note_generators();
  state_->boundary_ns += now_ns() - start;
  return true;
}

void Recorder::note_checksums() {
  for (const std::uint32_t id : state_->storages.held()) {
    StorageRecord& record = state_->storages.record(id);
    if (record.external && record.written) note_checksum(record, iteration_);
  }
}

void Recorder::note_checksum(StorageRecord& record, std::uint32_t iteration) {
  const auto bytes = bytes_in_place(*record.impl);
  if (bytes.empty()) return;
  StorageDetails& kept = details(record);
  kept.checksum = checksum64(bytes);
  kept.checksum_iteration = iteration;
}

StorageDetails& Recorder::details(StorageRecord& record) {
  if (record.details == kNothing) {
    record.details = static_cast<std::uint32_t>(state_->details.size());
    state_->details.emplace_back();
  }
  return state_->details[record.details];
}

std::uint32_t Recorder::first_use(StorageTable::Slot* slot, c10::StorageImpl* impl, bool written) {
  if (slot == nullptr) {
    slot = &state_->storages.insert(impl, iteration_);
    take_external(*slot);
  } else if (slot->iteration == kAfterPause || slot->iteration == kTakeAgain) {
    check_after_pause(*slot);
  } else if (slot->iteration != iteration_) {
    slot->iteration = iteration_;
    StorageRecord& record = state_->storages.record(slot->id);
    if (record.born == kNeverUsed) {
      record.born = iteration_;
      take_external(*slot);
    } else if (record.external) {
      check_unchanged(*slot);
    }
  }
  if (written) note_write(state_->storages.record(slot->id));
  return slot->id;
}

void Recorder::take_external(StorageTable::Slot& slot) {
  StorageRecord& record = state_->storages.record(slot.id);
  record.size_bytes = slot.impl->nbytes();
  record.external = true;
  record.last_external = static_cast<std::uint32_t>(state_->externals.size());
  state_->externals.push_back({slot.id, iteration_, state_->next_sequence - 1, state_->snapshots.copy_storage(slot.impl)});
}

void Recorder::check_unchanged(StorageTable::Slot& slot) {
  StorageRecord& record = state_->storages.record(slot.id);
  const auto bytes = bytes_in_place(*slot.impl);
  if (bytes.empty()) return;
  bool changed = false;
  if (!record.written) {
    const auto before = state_->externals[record.last_external].bytes;
    const CopyTimer timer(state_->snapshots, bytes.size());
    changed = before.size() != bytes.size() || std::memcmp(before.data(), bytes.data(), bytes.size()) != 0;
  } else if (record.details != kNothing && details(record).checksum_iteration == iteration_) {
    const CopyTimer timer(state_->snapshots, bytes.size());
    changed = checksum64(bytes) != details(record).checksum;
  }
  if (!changed) return;
  ++state_->outside_changes;
  take_external(slot);
}

void Recorder::note_write(StorageRecord& record) {
  record.written = true;
  // Until an iteration is complete its writes may have to be undone: the final states are those of the last complete one.
  if (record.born < iteration_ && (record.details == kNothing || details(record).copied_iteration != state_->kept_iterations())) {
    keep_copy(record);
  }
}

void Recorder::keep_copy(StorageRecord& record) {
  StorageDetails& kept = details(record);
  const std::uint64_t size = record.impl->nbytes();
  if (kept.copy == nullptr || kept.copy_size != size) {
    kept.copy = std::make_unique_for_overwrite<std::byte[]>(size);
    kept.copy_size = size;
  }
  state_->snapshots.copy_into(kept.copy.get(), record.impl);
  kept.copied_iteration = state_->kept_iterations();
}

std::uint32_t Recorder::output_storage(c10::StorageImpl* impl) {
  StorageTable::Slot* slot = state_->storages.find(impl);
  if (slot == nullptr) return state_->storages.insert(impl, iteration_).id;
  slot->iteration = iteration_;
  StorageRecord& record = state_->storages.record(slot->id);
  if (record.born == kNeverUsed) record.born = iteration_;
  record.size_bytes = std::max<std::uint64_t>(record.size_bytes, impl->nbytes());  // resize_ lets it grow
  return slot->id;
}

void Recorder::add_draw(std::uint64_t sequence, std::uint32_t output, const at::Tensor& tensor) {
  state_->draws.push_back({sequence, output, state_->snapshots.copy_tensor(tensor)});
}

void Recorder::count_not_recorded(const std::string& what, std::uint32_t site) {
  NotRecordedCount& entry = state_->not_recorded[what];
  if (entry.count++ == 0) entry.site = site;
}

void Recorder::add_loss(const at::Tensor& tensor) {
  if (!is_recording() || !is_key_on() || !tensor.defined() || tensor.numel() != 1 || !tensor.has_storage() ||
      !at::isFloatingType(tensor.scalar_type()) || tensor.is_meta()) {
    return;
  }
  double value = 0;
  {
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
    value = tensor.detach().item<double>();
  }
  ThreadState& state = thread();
  const std::lock_guard lock(lock_);
  Encoder encoder(*this, state.log);
  state.log.begin_record();
  encoder.tensor(tensor, Encoder::Access::kResult);
  state.log.reserve(2);
  encoder.real(value);
  RecordHeader header;
  header.operator_id = kLossRecord;
  header.sequence = state_->next_sequence;
  state.log.finish_record(header);
}

void Recorder::name_tensor(const at::Tensor& tensor, std::string name, trace::Role role, bool final) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.is_meta()) return;
  c10::StorageImpl* impl = tensor.storage().unsafeGetStorageImpl();
  const std::lock_guard lock(lock_);
  StorageTable::Slot* slot = state_->storages.find(impl);
  if (slot == nullptr) {
    if (final) return;  // no recorded op ever used it
    slot = &state_->storages.insert(impl, kNeverUsed);
  }
  StorageDetails& kept = details(state_->storages.record(slot->id));
  std::string& place = final ? kept.final_name : kept.start_name;
  if (!place.empty()) return;  // tied tensors: the first name stays
  place = std::move(name);
  (final ? kept.final_role : kept.start_role) = role;
}

std::uint64_t Recorder::overhead_ns_per_op() const {
  std::uint64_t ops = 0, ns = 0;
  for (const auto& thread : state_->threads) {
    ops += thread->sampled_ops;
    ns += thread->sampled_ns;
  }
  return ops == 0 ? 0 : (ns + ops / 2) / ops;
}

}  // namespace crucible::recorder
