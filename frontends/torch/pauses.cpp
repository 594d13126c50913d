// Recording that stands still for a while: inside an excluded module, during an evaluation. Ops pass unseen meanwhile, so
// whatever they may have changed is looked at again before an op reads it. Also the threads of the program that join.
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "core/base/hash.hpp"
#include "frontends/torch/recorder.hpp"

namespace crucible::recorder {

void Recorder::pause() {
  if (pauses_++ > 0) return;
  recording_ = false;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, false);
  const std::lock_guard lock(lock_);
  state_->storages.purge();
  for (const std::uint32_t id : state_->storages.held()) {
    StorageRecord& record = state_->storages.record(id);
    StorageTable::Slot* slot = state_->storages.find(record.impl);
    if (slot->iteration == kNeverUsed || slot->iteration == kTakeAgain) continue;
    if (record.external && !record.written) {
      slot->iteration = kAfterPause;  // its bytes were copied when they entered: they are compared with those
      continue;
    }
    // Its writes are not seen, and the final states must not have them: as before any write that is seen.
    const bool is_copied = record.details != kNothing && details(record).copied_iteration == state_->kept_iterations();
    if (record.external && record.born < iteration_ && !is_copied) keep_copy(record);
    note_checksum(record, kAfterPause);
    slot->iteration = kAfterPause;
  }
}

void Recorder::resume() {
  if (pauses_ == 0 || --pauses_ > 0) return;
  recording_ = true;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
}

void Recorder::pass_over() {
  if (passing_over_) return;
  {
    const std::lock_guard lock(lock_);
    state_->passed_over.push_back(iteration_);
    // What the ops of this iteration wrote is not in the file, and what they brought in is not either.
    state_->storages.purge();
    for (const std::uint32_t id : state_->storages.held()) {
      StorageRecord& record = state_->storages.record(id);
      StorageTable::Slot* slot = state_->storages.find(record.impl);
      if (slot->iteration != iteration_) continue;
      if (record.external && record.born < iteration_ &&
          (record.details == kNothing || details(record).copied_iteration != state_->kept_iterations())) {
        keep_copy(record);
      }
      slot->iteration = kTakeAgain;
    }
  }
  passing_over_ = true;
  pause();
}

void Recorder::check_after_pause(StorageTable::Slot& slot) {
  StorageRecord& record = state_->storages.record(slot.id);
  const bool take = slot.iteration == kTakeAgain;
  slot.iteration = iteration_;
  if (take) return take_external(slot);
  if (record.external && !record.written) return check_unchanged(slot);
  const auto bytes = bytes_in_place(*slot.impl);
  if (bytes.empty() || record.details == kNothing || details(record).checksum_iteration != kAfterPause) return;
  if (checksum64(bytes) != details(record).checksum) take_external(slot);
}

void Recorder::join_thread() {
  ++joined_threads_;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
}

void Recorder::leave_thread() {
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, false);
  --joined_threads_;
}

}  // namespace crucible::recorder
