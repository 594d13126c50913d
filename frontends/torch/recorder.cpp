// Storages, iterations and threads of a recording. The per-op writing is in op_scope.cpp.
#include "frontends/torch/recorder.hpp"

#include <ATen/Functions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <utility>

#include "core/base/hash.hpp"
#include "frontends/torch/op_scope.hpp"
#include "frontends/torch/trace_stream.hpp"
#include "frontends/torch/record_function.hpp"

namespace crucible::recorder {

namespace {

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}


}  // namespace

thread_local constinit Recorder::ThisThread Recorder::this_thread;

constinit Recorder* Recorder::the_one = nullptr;

void Recorder::make() {
  static Recorder* recorder = new Recorder;  // never destroyed: threads may still hold logs when the process ends
  the_one = recorder;
}

ThreadState& Recorder::enter_thread() {
  auto state = std::make_unique<ThreadState>();
  const std::lock_guard lock(threads_mutex_);
  state->number = static_cast<std::uint32_t>(state_->threads.size());
  state->random += state->number;
  state->keys = &c10::impl::raw_local_dispatch_key_set;
  this_thread = {state.get(), recording_number_.load(std::memory_order_relaxed)};
  state_->threads.push_back(std::move(state));
  return *this_thread.state;
}

void Recorder::start() {
  iteration_ = 0;
  state_->iteration_starts.push_back(state_->next_sequence);
  set_phase(trace::Phase::kForward);
  ThreadState& first = thread();  // number 0, and most often the only one
  lock_.bias(first.key());
  first.call_sites.stays_in_python();
  pauses_ = 0;
  passing_over_ = false;
  compares_sums_ = false;
  note_generators();
  recording_ = true;
  switch_thread(true);
}

void Recorder::stop() {
  recording_ = false;
  switch_thread(false);
}

void Recorder::clear() {
  if (stream_ != nullptr) {
    // A forked child has its parent's stream without the thread, and must leave the files alone: its copy is never freed.
    if (stream_->is_of_this_process()) {
      stream_->drop();
    } else {
      new std::shared_ptr<TraceStream>(stream_);
    }
  }
  stream_.reset();
  ++recording_number_;
  state_ = std::make_unique<RecordingState>();
}

bool Recorder::end_iteration() {
  if (passing_over_) {
    passing_over_ = false;
    resume();
  }
  if (!is_thread_on()) return false;
  const std::uint64_t start = now_ns();
  Batch batch = end_locked();
  state_->boundary_ns += now_ns() - start;
  if (stream_ != nullptr) {
    stream_->give(std::move(batch));
  } else {
    state_->complete.push_back(std::move(batch));
  }
  return true;
}

Batch Recorder::end_locked() {
  const Locked locked(lock_, thread());
  Batch batch = take_batch(!state_->is_passed_over(iteration_));
  state_->iteration_starts.push_back(state_->next_sequence);
  ++iteration_;
  // A program that changes its states behind our back in one iteration is expected to do so in every one.
  compares_sums_ = iteration_ == 1 || state_->outside_changes > 0;
  if (compares_sums_) {
    state_->storages.remove_dead([this](StorageTable::Slot& slot) { note_checksum(slot); });
  }
  note_generators();
  return batch;
}

Batch Recorder::take_batch(bool is_kept) {
  Batch batch = std::exchange(state_->open, {});
  batch.end_sequence = state_->next_sequence;
  batch.is_kept = is_kept;
  for (ExternalBytes& external : batch.externals) {
    const StorageDetails& known = state_->details[external.details];
    external.name = known.names().start;
    external.role = known.names().start_role;
  }
  {
    const std::lock_guard lock(threads_mutex_);
    for (const auto& thread : state_->threads) batch.records.push_back({thread->number, thread->log.cut()});
  }
  const auto& sites = call_sites_.sites();
  batch.sites.assign(sites.begin() + static_cast<std::ptrdiff_t>(state_->sites_given), sites.end());
  state_->sites_given = sites.size();
  const auto& modules = call_sites_.modules();
  batch.modules.assign(modules.begin() + static_cast<std::ptrdiff_t>(state_->modules_given), modules.end());
  state_->modules_given = modules.size();
  return batch;
}

void Recorder::stream_to(std::shared_ptr<TraceStream> stream) {
  stream_ = std::move(stream);
  for (Batch& batch : std::exchange(state_->complete, {})) stream_->give(std::move(batch));
}

void Recorder::note_checksum(StorageTable::Slot& slot) {
  if (slot.iteration >= kUnfilled || slot.details == kNothing || slot.written == kNeverUsed) return;
  StorageDetails& kept = details(slot);
  if (!kept.external) return;
  const auto bytes = bytes_in_place(*slot.impl);
  if (bytes.empty()) return;
  kept.checksum = checksum64(bytes);
  kept.checksum_iteration = iteration_;
}

StorageDetails& Recorder::details(StorageTable::Slot& slot) {
  if (slot.details == kNothing) {
    slot.details = static_cast<std::uint32_t>(state_->details.size());
    StorageDetails& added = state_->details.emplace_back();
    added.id = slot.id;
    added.born = slot.iteration == kUnfilled ? iteration_ : slot.iteration;
  }
  return state_->details[slot.details];
}

StorageTable::Slot& Recorder::first_use(StorageTable::Slot* slot, c10::StorageImpl* impl, bool written, bool read) {
  // Most often: a parameter or a state that ops write, in a program that changes none of them behind our back.
  if (slot != nullptr && slot->iteration < kUnfilled && slot->written != kNeverUsed && slot->details != kNothing && !compares_sums_) {
    slot->iteration = iteration_;
  } else if (slot == nullptr) {
    slot = &state_->storages.insert(impl, iteration_);
    take_external(*slot);
  } else if (slot->iteration == kUnfilled) {
    use_unfilled(*slot, written, read);
  } else if (slot->iteration == kAfterPause || slot->iteration == kTakeAgain) {
    check_after_pause(*slot);
  } else if (slot->iteration != iteration_) {
    StorageDetails& known = details(*slot);  // says when it was born: ask before that is overwritten
    slot->iteration = iteration_;
    if (known.born == kNeverUsed) {
      known.born = iteration_;
      take_external(*slot);
    } else if (known.external) {
      check_unchanged(*slot);
    }
  }
  if (written) slot->written = iteration_;
  return *slot;
}

void Recorder::use_unfilled(StorageTable::Slot& slot, bool written, bool read) {
  if (!written && !read) return;
  slot.iteration = iteration_;
  if (written) return;  // from here on as any other
  const StorageDetails& known = details(slot);
  const auto bytes = bytes_in_place(*slot.impl);
  bool changed = !known.external;
  if (known.external) {
    const auto before = known.taken;
    changed = before.size() != bytes.size() || std::memcmp(before.data(), bytes.data(), bytes.size()) != 0;
  }
  if (changed) take_external(slot);
  slot.iteration = kUnfilled;  // it may be filled again, and no op would tell
}

void Recorder::note_unfilled(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  StorageTable::Slot* slot = state_->storages.find(tensor.storage().unsafeGetStorageImpl());
  // Only a storage that this op has made: resize_ keeps what there was.
  if (slot != nullptr && slot->details == kNothing && slot->written != iteration_) {
    slot->iteration = kUnfilled;
    if (hashes_ops()) state_->op_hashes.set_filled(slot->id, false);
  }
}

bool Recorder::is_filled(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return true;
  const Locked locked(lock_, thread());
  const StorageTable::Slot* slot = state_->storages.find(tensor.storage().unsafeGetStorageImpl());
  return slot == nullptr || state_->op_hashes.is_filled(slot->id);
}

void Recorder::note_filled(const at::Tensor& tensor) {
  const Locked locked(lock_, thread());
  const StorageTable::Slot* slot = state_->storages.find(tensor.storage().unsafeGetStorageImpl());
  if (slot != nullptr) state_->op_hashes.set_filled(slot->id, true);
}

void Recorder::first_return(StorageTable::Slot& slot) {
  if (slot.iteration == kUnfilled) return;
  if (StorageDetails& known = details(slot); known.born == kNeverUsed) known.born = iteration_;
  slot.iteration = iteration_;
}

void Recorder::take_external(StorageTable::Slot& slot) {
  StorageDetails& known = details(slot);
  known.external = true;
  known.taken = state_->snapshots.copy_storage(slot.impl);
  known.taken_iteration = iteration_;
  state_->open.externals.push_back({slot.id, state_->next_sequence - 1, known.taken, slot.details, {}, trace::Role::kUnknown});
}

void Recorder::check_unchanged(StorageTable::Slot& slot) {
  const StorageDetails& known = details(slot);
  const auto bytes = bytes_in_place(*slot.impl);
  if (bytes.empty()) return;
  bool changed = false;
  if (slot.written == kNeverUsed) {
    const auto before = known.taken;
    const CopyTimer timer(state_->snapshots, bytes.size());
    changed = before.size() != bytes.size() || std::memcmp(before.data(), bytes.data(), bytes.size()) != 0;
  } else if (known.checksum_iteration == iteration_) {
    const CopyTimer timer(state_->snapshots, bytes.size());
    changed = checksum64(bytes) != known.checksum;
  }
  if (!changed) return;
  ++state_->outside_changes;
  take_external(slot);
}

void Recorder::add_draw(std::uint64_t sequence, std::uint32_t output, const at::Tensor& tensor) {
  state_->open.draws.push_back({sequence, output, state_->snapshots.copy_tensor(tensor)});
}

void Recorder::count_not_recorded(const std::string& what, std::uint32_t site) {
  NotRecordedCount& entry = state_->not_recorded[what];
  if (entry.count++ == 0) entry.site = site;
}

void Recorder::add_loss(const at::Tensor& tensor) {
  if (!is_recording() || !is_thread_on() || !tensor.defined() || tensor.numel() != 1 || !tensor.has_storage() ||
      !at::isFloatingType(tensor.scalar_type()) || tensor.is_meta()) {
    return;
  }
  double value = 0;
  {
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKeySet(c10::DispatchKey::Fake) | c10::autograd_dispatch_keyset);
    value = tensor.item<double>();
  }
  ThreadState& state = thread();
  const Locked locked(lock_, state);
  Encoder encoder(*this, state.log, false);
  state.log.begin_record(kLossRecord, 0, 0, state_->next_sequence, 0);
  encoder.tensor(tensor, Encoder::Access::kResult);
  state.log.reserve(2);
  encoder.real(value);
  state.log.finish_record();
}

void Recorder::name_tensor(const at::Tensor& tensor, std::string name, trace::Role role, bool final) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.is_meta()) return;
  c10::StorageImpl* impl = tensor.storage().unsafeGetStorageImpl();
  const Locked locked(lock_, thread());
  StorageTable::Slot* slot = state_->storages.find(impl);
  if (slot == nullptr) {
    if (final) return;  // no recorded op ever used it
    slot = &state_->storages.insert(impl, kNeverUsed);
  }
  StorageDetails& kept = details(*slot);
  if (kept.own_names == nullptr) kept.own_names = std::make_unique<StorageNames>();
  StorageNames& names = *kept.own_names;
  std::string& place = final ? names.final : names.start;
  if (!place.empty()) return;  // tied tensors: the first name stays
  place = std::move(name);
  (final ? names.final_role : names.start_role) = role;
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
