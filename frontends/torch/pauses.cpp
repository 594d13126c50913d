// Recording that stands still for a while: inside an excluded module, during an evaluation. Ops pass unseen meanwhile,
// so whatever they may have changed is looked at again before an op reads it. Also the threads of the program that
// join.

#include "frontends/torch/record_function.hpp"
#include "frontends/torch/recorder.hpp"

namespace crucible::recorder {

void Recorder::set_aside(StorageTable::Slot& slot, std::uint32_t mark) {
  if (slot.iteration == kNeverUsed || slot.iteration == kTakeAgain || slot.iteration == kUnfilled) return;
  if (slot.iteration == kAfterPause && mark == kAfterPause) return;  // not used since: the older checksum holds
  StorageDetails& known = details(slot);
  slot.iteration = mark;
  if (known.is_live || (known.external && slot.written == kNeverUsed))
    return;  // its bytes were copied when they entered: they are compared with those
  const auto checksum = checksum_of(slot.impl);
  if (!checksum.has_value()) return;
  known.checksum = *checksum;
  known.checksum_iteration = kAfterPause;
}

void Recorder::pause() {
  if (pauses_++ > 0) return;
  recording_ = false;
  switch_thread(false);
  const Locked locked(lock_, me());
  state_->unseen.forget_all();
  state_->device_looks.clear();
  wait_for_devices();
  state_->storages.remove_dead([this](StorageTable::Slot& slot) { set_aside(slot, kAfterPause); });
}

void Recorder::resume() {
  if (pauses_ == 0 || --pauses_ > 0) return;
  recording_ = true;
  switch_thread(true);
}

void Recorder::take_over() {
  ThreadState& mine = thread();
  mine.call_sites.stays_in_python();
  const Locked locked(lock_, me());
  for (const auto& other : state_->threads) {
    if (other->number == 0) std::swap(mine.number, other->number);
    if (mine.number == 0) return;
  }
}

void Recorder::pass_over() {
  if (passing_over_) return;
  {
    const Locked locked(lock_, me());
    state_->passed_over.push_back(iteration_);
    wait_for_devices();
    // What the ops of this iteration wrote is not in the file, and what they brought in is not either.
    state_->storages.remove_dead([this](StorageTable::Slot& slot) {
      if (slot.iteration == iteration_) {
        const StorageDetails& known = details(slot);
        const bool is_in_file = slot.written != iteration_ && known.born < iteration_ &&
                                (!known.external || known.taken_iteration < iteration_);
        set_aside(slot, is_in_file ? kAfterPause : kTakeAgain);
      }
      if (slot.iteration == kUnfilled && slot.details != kNothing) details(slot).external = false;
    });
  }
  passing_over_ = true;
  pause();
}

bool Recorder::use_for_input(c10::StorageImpl* impl, Usage usage) {
  StorageTable::Slot* slot = state_->storages.find(impl);
  if (slot == nullptr || slot->iteration == kNeverUsed || slot->iteration == kUnfilled) return false;
  if (usage == Usage::kWrite) {
    set_aside(*slot, kAfterPause);
    state_->unseen.forget(slot->id);
    if (is_elsewhere(*impl) && !state_->device_looks.empty()) state_->device_looks.push_back({.storage = slot->id});
    return false;
  }
  const bool has_entered = slot->details != kNothing && state_->details[slot->details].external;
  return usage == Usage::kRead && (!has_entered || slot->written != kNeverUsed);
}

void Recorder::check_after_pause(StorageTable::Slot& slot) {
  const bool take = slot.iteration == kTakeAgain || state_->changed_in_pause(slot);
  slot.iteration = iteration_;
  if (take) take_external(slot);
}

bool RecordingState::changed_in_pause(const StorageTable::Slot& slot) const {
  if (slot.details == kNothing) return false;
  const StorageDetails& known = details[slot.details];
  if (known.is_live) return false;
  if (!known.external || slot.written != kNeverUsed)
    return known.checksum_iteration == kAfterPause && checksum_of(slot.impl).value_or(known.checksum) != known.checksum;
  return !known.taken.empty() && !holds(slot.impl, known.taken);
}

bool RecordingState::is_as_kept(const StorageTable::Slot& slot) const {
  std::uint32_t last = complete_iterations();
  do {
    if (last == 0) return false;
    --last;
  } while (is_passed_over(last));
  if (slot.written != kNeverUsed && slot.written > last) return false;
  if (slot.iteration == kTakeAgain) return false;  // an iteration that was passed over changed it, none read it since
  if (slot.iteration == kAfterPause) return !changed_in_pause(slot);
  const StorageDetails& known = details[slot.details];
  return !known.external || known.taken_iteration <= last;
}

void Recorder::join_thread() {
  ++joined_threads_;
  switch_thread(true);
}

void Recorder::leave_thread() {
  switch_thread(false);
  --joined_threads_;
}

}  // namespace crucible::recorder
