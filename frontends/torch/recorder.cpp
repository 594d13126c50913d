// Storages, iterations and threads of a recording. The per-op writing is in op_scope.cpp.
#include "frontends/torch/recorder.hpp"

#include <ATen/Functions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/base/hash.hpp"
#include "core/trace/unrecorded.hpp"
#include "frontends/torch/op_scope.hpp"
#include "frontends/torch/record_function.hpp"
#include "frontends/torch/trace_stream.hpp"

namespace crucible::recorder {

namespace {

/// Drawn values that may wait on their device for the iteration's end, instead of a wait of the program for each.
constexpr std::size_t kMostOnDevice = std::size_t{256} << 20;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

thread_local constinit Recorder::ThisThread Recorder::this_thread;
thread_local std::shared_ptr<ThreadState> Recorder::kept_for_this_thread;

constinit std::atomic<Recorder*> Recorder::the_one{nullptr};

Recorder& Recorder::make() {
  static Recorder* recorder = new Recorder;  // never destroyed: threads may still hold logs when the process ends
  the_one.store(recorder, std::memory_order_release);
  return *recorder;
}

ThreadState& Recorder::enter_thread() {
  auto state = std::make_shared<ThreadState>();
  const Locked locked(lock_, me());
  state->number = static_cast<std::uint32_t>(state_->threads.size());
  state->recording = recording_number_.load(std::memory_order_relaxed);
  state->random += state->number;
  state->keys = &c10::impl::raw_local_dispatch_key_set;
  this_thread = {state.get(), state->recording};
  state_->threads.push_back(state);
  kept_for_this_thread = std::move(state);
  return *this_thread.state;
}

void Recorder::notice_fork() {
  if (process_ != getpid()) lock_.forget();
  process_ = getpid();
}

void Recorder::start() {
  notice_fork();
  lock_.bias(me());
  ThreadState& first = thread();  // most often the only one
  first.call_sites.stays_in_python();
  set_phase(trace::Phase::kForward);
  pauses_ = 0;
  passing_over_ = false;
  {
    const Locked locked(lock_, me());
    // It is number 0 even if a thread that had begun an op in the last recording came before it.
    std::swap(first.number, state_->threads.front()->number);
    iteration_ = 0;
    compares_sums_ = false;
    state_->iteration_starts.push_back(state_->next_sequence);
    note_generators();
    begin_looks();
    running_ = true;
  }
  recording_ = true;
  switch_thread(true);
}

void Recorder::stop() {
  notice_fork();
  recording_ = false;
  {
    const Locked locked(lock_, me());
    running_ = false;  // ops that run on other threads now are not recorded
  }
  switch_thread(false);
}

void Recorder::clear() {
  if (stream_ != nullptr) {
    // A forked child has its parent's stream without the thread, and must leave the files alone: its copy is never
    // freed.
    if (stream_->is_of_this_process()) {
      stream_->drop();
    } else {
      new std::shared_ptr<TraceStream>(stream_);
    }
  }
  stream_.reset();
  notice_fork();
  auto old = std::make_unique<RecordingState>();
  {
    const Locked locked(lock_, me());
    running_ = false;
    recording_number_.fetch_add(1, std::memory_order_relaxed);
    std::swap(state_, old);
  }
  this_thread = {};
  kept_for_this_thread.reset();
}

bool Recorder::end_iteration() {
  if (passing_over_) {
    passing_over_ = false;
    resume();
  }
  if (!is_thread_on()) return false;
  const std::uint64_t start = now_ns();
  Batch batch = end_locked(start);
  if (stream_ != nullptr) {
    stream_->give(std::move(batch));
  } else {
    state_->complete.push_back(std::move(batch));
  }
  return true;
}

Batch Recorder::end_locked(std::uint64_t started_ns) {
  const Locked locked(lock_, me());
  wait_for_devices();
  look_at_end();
  fetch_draws();
  Batch batch = take_batch(!state_->is_passed_over(iteration_));
  state_->iteration_starts.push_back(state_->next_sequence);
  ++iteration_;
  check_devices();
  // A program that changes its states behind our back in one iteration is expected to do so in every one.
  compares_sums_ = iteration_ == 1 || state_->outside_changes > 0;
  if (compares_sums_) {
    state_->storages.remove_dead([this](StorageTable::Slot& slot) { note_checksum(slot); });
  }
  note_generators();
  begin_looks();
  state_->boundary_ns += now_ns() - started_ns;
  return batch;
}

Batch Recorder::take_batch(bool is_kept) {
  Batch batch = std::exchange(state_->open, {});
  batch.is_kept = is_kept;
  for (ExternalBytes& external : batch.externals) {
    const StorageDetails& known = state_->details[external.details];
    external.name = known.names().start;
    external.role = known.names().start_role;
  }
  for (const auto& thread : state_->threads) batch.records.push_back({thread->number, thread->log.cut()});
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
  if (!kept.external || kept.is_live) return;
  const auto bytes = bytes_in_place(*slot.impl);  // for other devices check_devices() has done it
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
  if (slot != nullptr && slot->iteration < kUnfilled && slot->written != kNeverUsed && slot->details != kNothing &&
      !compares_sums_) {
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
  if (!known.external || (!known.is_live && !holds(slot.impl, known.taken))) {
    take_external(slot);
    note_unwritten();
  }
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
  const Locked locked(lock_, me());
  const StorageTable::Slot* slot = state_->storages.find(tensor.storage().unsafeGetStorageImpl());
  return slot == nullptr || state_->op_hashes.is_filled(slot->id);
}

void Recorder::note_filled(const at::Tensor& tensor) {
  const Locked locked(lock_, me());
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
  known.taken = known.is_live ? std::span<const std::byte>() : state_->snapshots.copy_storage(slot.impl);
  known.taken_iteration = iteration_;
  // It may enter as somebody takes a view of it, to change it by something that is no op.
  if (looks_ && is_elsewhere(*slot.impl)) look_on_device(slot, slot.impl, Usage::kRead, false);
  state_->open.externals.push_back({slot.id,
                                    state_->next_sequence - 1,
                                    {known.taken, slot.impl->nbytes(), known.is_live},
                                    slot.details,
                                    {},
                                    trace::Role::kUnknown});
}

void Recorder::check_unchanged(StorageTable::Slot& slot) {
  const StorageDetails& known = details(slot);
  if (known.is_live || slot.impl->data() == nullptr || slot.impl->nbytes() == 0) return;
  bool changed = false;
  const bool is_here = slot.impl->device().is_cpu();
  const CopyTimer timer(state_->snapshots, is_here ? slot.impl->nbytes() : SIZE_MAX);
  if (is_here && slot.written == kNeverUsed) {
    changed = !holds(slot.impl, known.taken);
  } else if (known.checksum_iteration == iteration_ && (is_here || compares_sums_)) {
    changed = checksum_of(slot.impl).value_or(known.checksum) != known.checksum;
  }
  if (!changed) return;
  ++state_->outside_changes;
  take_external(slot);
}

void Recorder::wait_for_devices() {
  std::vector<c10::Device> waited;
  state_->storages.for_each_alive([&waited](const StorageTable::Slot& slot) {
    if (!is_elsewhere(*slot.impl) || std::ranges::find(waited, slot.impl->device()) != waited.end()) return;
    waited.push_back(slot.impl->device());
    wait_for_device_of(*slot.impl);
  });
}

void Recorder::check_devices() {
  std::vector<c10::StorageImpl*> storages;
  std::vector<at::Tensor> sums;
  state_->storages.for_each_alive([&](const StorageTable::Slot& slot) {
    if (slot.iteration >= kUnfilled || slot.details == kNothing || !is_elsewhere(*slot.impl)) return;
    if (!state_->details[slot.details].external) return;
    storages.push_back(slot.impl);
    sums.push_back(queue_sums(slot.impl));
  });
  if (storages.empty()) return;
  const std::vector<std::uint64_t> numbers = fetch_sums(sums);
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const StorageTable::Slot& slot = *state_->storages.find(storages[i]);
    StorageDetails& kept = state_->details[slot.details];
    const std::uint32_t ended = iteration_ - 1;
    const bool is_known = kept.checksum_iteration == ended && slot.written != ended && kept.taken_iteration != ended;
    if (is_known && kept.checksum != numbers[i]) {
      ++state_->outside_changes;
      const std::string& name = kept.names().start;
      count_not_recorded(trace::changed_memory_text("the first use of " + (name.empty() ? "an input" : name), "", ""),
                         kNoSite);
    }
    kept.checksum = numbers[i];
    kept.checksum_iteration = iteration_;
  }
}

void Recorder::fetch_draws() {
  for (const DeviceDraw& draw : std::exchange(state_->device_draws, {}))
    state_->open.draws.push_back({draw.sequence, draw.output, keep(draw.kept)});
  state_->device_draw_bytes = 0;
}

/// The elements, dense and row-major.
KeptBytes Recorder::keep(const at::Tensor& tensor) {
  if (!state_->leaves_out) return {state_->snapshots.copy_tensor(tensor)};
  return {{}, tensor.defined() ? tensor.nbytes() : 0, true};
}

void Recorder::add_draw(std::uint64_t sequence, std::uint32_t output, const at::Tensor& tensor) {
  if (tensor.defined() && tensor.has_storage() && is_elsewhere(*tensor.storage().unsafeGetStorageImpl())) {
    const PlainOps plain;
    state_->device_draws.push_back({sequence, output, tensor.detach().clone(at::MemoryFormat::Contiguous)});
    state_->device_draw_bytes += tensor.nbytes();
    if (state_->device_draw_bytes > kMostOnDevice) fetch_draws();
    return;
  }
  state_->open.draws.push_back({sequence, output, keep(tensor)});
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
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKeySet(c10::DispatchKey::Fake) |
                                                        c10::autograd_dispatch_keyset);
    value = tensor.item<double>();
  }
  ThreadState& state = thread();
  const Locked locked(lock_, me());
  if (!takes(state.recording)) return;
  Encoder encoder(*this, state.log, false);
  state.log.begin_record(kLossRecord, 0, 0, state_->next_sequence, 0);
  encoder.tensor(tensor, Encoder::Access::kResult);
  state.log.reserve(2);
  encoder.real(value);
  state.log.finish_record();
}

void Recorder::name_tensor(const at::Tensor& tensor, std::string name, trace::Role role, bool final, bool is_live) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.is_meta()) return;
  c10::StorageImpl* impl = tensor.storage().unsafeGetStorageImpl();
  const Locked locked(lock_, me());
  StorageTable::Slot* slot = state_->storages.find(impl);
  if (slot == nullptr) {
    if (final) return;  // no recorded op ever used it
    slot = &state_->storages.insert(impl, kNeverUsed);
  }
  StorageDetails& kept = details(*slot);
  if (kept.own_names == nullptr) kept.own_names = std::make_unique<StorageNames>();
  StorageNames& names = *kept.own_names;
  std::string& place = final ? names.final : names.start;
  kept.is_live |= is_live;
  if (!place.empty()) return;  // tied tensors: the first name stays
  place = std::move(name);
  (final ? names.final_role : names.start_role) = role;
}

void Recorder::note_input(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.is_meta() || tensor.requires_grad()) return;
  c10::StorageImpl* impl = tensor.storage().unsafeGetStorageImpl();
  const Locked locked(lock_, me());
  if (!running_) return;
  StorageTable::Slot* slot = state_->storages.find(impl);
  if (slot == nullptr) slot = &state_->storages.insert(impl, kNeverUsed);
  if (slot->iteration != kNeverUsed) return;
  StorageDetails& kept = details(*slot);
  if (kept.own_names == nullptr) kept.own_names = std::make_unique<StorageNames>();
  if (kept.own_names->start_role == trace::Role::kUnknown) kept.own_names->start_role = trace::Role::kInput;
}

std::uint64_t Recorder::ops_of_iteration() const {
  const Locked locked(lock_, me());
  std::uint64_t ops = 0;
  for (const auto& thread : state_->threads) {
    thread->log.for_each_uncut([&](const RecordHeader& header) {
      if (header.operator_id < kDroppedRecord && !operators_[header.operator_id].only_reads) ++ops;
    });
  }
  return ops;
}

Measures Recorder::measures() const {
  const Locked locked(lock_, me());
  Measures measures;
  std::uint64_t sampled_ops = 0, sampled_ns = 0;
  for (const auto& thread : state_->threads) {
    sampled_ops += thread->sampled_ops;
    sampled_ns += thread->sampled_ns;
    measures.log_bytes += thread->log.words_written() * sizeof(std::uint64_t);
  }
  measures.overhead_ns_per_op = sampled_ops == 0 ? 0 : (sampled_ns + sampled_ops / 2) / sampled_ops;
  measures.ops = state_->next_sequence;
  measures.copy_ns = state_->snapshots.copy_ns();
  measures.copied_bytes = state_->snapshots.size_bytes();
  measures.boundary_ns = state_->boundary_ns;
  measures.passed_over = state_->passed_over.size();
  measures.complete_iterations = state_->iteration_starts.empty() ? 0 : state_->kept_iterations();
  return measures;
}

}  // namespace crucible::recorder
