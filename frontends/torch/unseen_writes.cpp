// Looks at memory between ops: see unseen_writes.hpp. The recorder's side of it is here too.
#include "frontends/torch/unseen_writes.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/hash.hpp"
#include "core/trace/unrecorded.hpp"
#include "frontends/torch/recorder.hpp"

namespace crucible::recorder {

namespace {

/// They write all of their first argument: what it held before does not matter.
constexpr std::string_view kOverwrite[] = {"aten::zero_",         "aten::fill_",    "aten::copy_",
                                           "aten::normal_",       "aten::uniform_", "aten::_foreach_zero_",
                                           "aten::_foreach_copy_"};

bool overwrites(const Operator& op) {
  return std::find(std::begin(kOverwrite), std::end(kOverwrite), op.name) != std::end(kOverwrite) ||
         op.overload.ends_with("out");
}

/// Looks at another device per iteration: each takes a few dozen microseconds of queueing, and reading is cheap there.
constexpr std::size_t kFirstLooks = 4096, kLaterLooks = 64, kCheaper = 256;

/// They return before their work is done, which another thread does.
bool is_asynchronous(const Operator& op) { return op.name.starts_with("c10d") || op.name.starts_with("_c10d"); }

/// `beta * self + ...`: with a factor of 0 the memory is not read.
bool scales_first(const Operator& op) {
  static constexpr std::string_view kNames[] = {"aten::addmm", "aten::baddbmm", "aten::addbmm",
                                                "aten::addmv", "aten::addr",    "aten::sspaddmm"};
  return std::find(std::begin(kNames), std::end(kNames), op.name) != std::end(kNames);
}

}  // namespace

void UnseenWrites::begin_iteration(std::uint32_t iteration, std::uint64_t first_sequence, std::uint64_t ops) {
  forget_all();
  left_ = iteration == 0 ? kFirstBytes : kLaterBytes;
  // Steps by the golden ratio leave no large gap after any number of iterations.
  const std::uint64_t share = (iteration * 0x9E3779B97F4A7C15ull) >> 32;
  start_ = first_sequence + (ops * share >> 32);
}

std::size_t UnseenWrites::place_of(std::uint32_t storage) const {
  const std::size_t mask = places_.size() - 1;
  std::size_t place = (storage * 0x9E3779B97F4A7C15ull >> 32) & mask;
  while (places_[place].round == round_ && places_[place].storage != storage) place = (place + 1) & mask;
  return place;
}

void UnseenWrites::grow() {
  std::vector<Place> before(std::max<std::size_t>(64, places_.size() * 2));
  before.swap(places_);
  used_ = 0;
  for (const Place& place : before) {
    if (place.round != round_ || !place.is_known) continue;
    places_[place_of(place.storage)] = place;
    ++used_;
  }
}

UnseenWrites::Seen& UnseenWrites::operator[](std::uint32_t storage) {
  if ((used_ + 1) * 2 > places_.size()) grow();
  Place& place = places_[place_of(storage)];
  if (place.round == round_ && place.is_known) return place.seen;
  if (place.round != round_) ++used_;
  ++known_;
  place = {storage, round_, true, {}};
  return place.seen;
}

const UnseenWrites::Seen* UnseenWrites::find(std::uint32_t storage) const {
  if (places_.empty()) return nullptr;
  const Place& place = places_[place_of(storage)];
  return place.round == round_ && place.is_known ? &place.seen : nullptr;
}

void UnseenWrites::forget(std::uint32_t storage) {
  if (places_.empty()) return;
  Place& place = places_[place_of(storage)];
  if (place.round != round_ || !place.is_known) return;
  place.is_known = false;
  --known_;
}

void UnseenWrites::forget_all() {
  ++round_;
  used_ = known_ = 0;
}

bool UnseenWrites::take(std::size_t size_bytes) {
  if (size_bytes > left_) {
    left_ = 0;
    return false;
  }
  left_ -= size_bytes;
  return true;
}

void Recorder::look_at(StorageTable::Slot& slot, c10::StorageImpl* impl, Usage usage) {
  if (usage == Usage::kView) return;
  const RecordHeader header = thread().log.header();
  if (header.operator_id >= kDroppedRecord) return;  // a loss
  UnseenWrites& unseen = state_->unseen;
  const Operator& op = operators_[header.operator_id];
  // A view reads nothing and writes nothing: what it returns may be memory that is filled for the next op just then.
  if (usage == Usage::kResult && op.viewed_arguments != 0 && op.written_arguments == 0) return;
  const bool is_unfilled =
      slot.iteration == kUnfilled || (usage == Usage::kResult && op.unfilled);  // followed in the file
  if (is_elsewhere(*impl)) return look_on_device(slot, impl, usage, is_unfilled || is_asynchronous(op));
  const auto bytes = bytes_in_place(*impl);
  if (is_unfilled || bytes.empty() || bytes.size() > UnseenWrites::kLargest || is_asynchronous(op))
    return unseen.forget(slot.id);
  if (!unseen.take(bytes.size() + 64)) {
    looks_ = false;
    return;
  }
  const CopyTimer timer(state_->snapshots, bytes.size());
  const std::uint64_t checksum = checksum64(bytes);
  UnseenWrites::Seen& seen = unseen[slot.id];
  const bool is_same_op = seen.sequence == header.sequence;
  if (usage != Usage::kResult && seen.is_known && !is_same_op && seen.size_bytes == bytes.size() &&
      seen.checksum != checksum && !(usage == Usage::kWrite && overwrites(op))) {
    note_changed(seen.operator_id, op.full_name(), header);
  }
  // What an op writes is known again when it is a result of that op, else when another one reads it.
  const bool was_written = is_same_op && !seen.is_known && seen.size_bytes != 0;
  seen = {checksum, bytes.size(), header.sequence, header.operator_id,
          usage == Usage::kResult || (usage == Usage::kRead && !was_written)};
}

void Recorder::look_on_device(const StorageTable::Slot& slot, c10::StorageImpl* impl, Usage usage, bool forgets) {
  std::vector<DeviceLook>& looks = state_->device_looks;
  if (forgets) return looks.push_back({.storage = slot.id});
  if (looks.size() >= (iteration_ == 0 ? kFirstLooks : kLaterLooks) ||
      !state_->unseen.take(impl->nbytes() / kCheaper + 64)) {
    (void)state_->unseen.take(SIZE_MAX);  // used up: what ops write from here on is not followed
    looks_ = false;
    return;
  }
  const CopyTimer timer(state_->snapshots, SIZE_MAX);
  looks.push_back({slot.id, impl->nbytes(), thread().log.header(), usage, false, queue_sums(impl)});
}

void Recorder::compare_device_looks() {
  std::vector<DeviceLook> looks = std::exchange(state_->device_looks, {});
  if (looks.empty()) return;
  std::unordered_map<std::uint32_t, UnseenWrites::Seen> known;
  for (const DeviceLook& look : looks) known.try_emplace(look.storage);
  // What ops have written is the program's own: what only enters may be filled for the next iteration already.
  const bool followed = !state_->unseen.is_used_up();
  state_->storages.for_each_alive([&](const StorageTable::Slot& slot) {
    if (followed && slot.written != kNeverUsed && known.contains(slot.id) && is_elsewhere(*slot.impl))
      looks.push_back({slot.id, slot.impl->nbytes(), {}, Usage::kRead, true, queue_sums(slot.impl)});
  });
  std::vector<at::Tensor> sums;
  for (const DeviceLook& look : looks) {
    if (look.sums.defined()) sums.push_back(look.sums);
  }
  if (sums.empty()) return;
  const std::vector<std::uint64_t> numbers = fetch_sums(sums);
  std::size_t next = 0;
  for (const DeviceLook& look : looks) {
    UnseenWrites::Seen& seen = known[look.storage];
    if (!look.sums.defined()) {
      seen = {};
      continue;
    }
    const std::uint64_t checksum = numbers[next++];
    const Operator* op = look.at_end ? nullptr : &operators_[look.header.operator_id];
    const bool is_same_op = !look.at_end && seen.size_bytes != 0 && seen.sequence == look.header.sequence;
    if (look.usage != Usage::kResult && seen.is_known && !is_same_op && seen.size_bytes == look.size_bytes &&
        seen.checksum != checksum && !(look.usage == Usage::kWrite && overwrites(*op))) {
      note_changed(seen.operator_id, op == nullptr ? "" : op->full_name(), look.header);
    }
    const bool was_written = is_same_op && !seen.is_known;
    seen = {checksum, look.size_bytes, look.header.sequence, look.header.operator_id,
            look.usage == Usage::kResult || (look.usage == Usage::kRead && !was_written)};
  }
}

void Recorder::note_changed(std::uint32_t before, const std::string& after, const RecordHeader& header) {
  std::uint32_t site = kNoSite;
  std::string module;
  if (!after.empty()) {
    site = header.site;
    const auto& modules = call_sites_.modules();
    if (header.module < modules.size()) module = modules[header.module];
  }
  count_not_recorded(trace::changed_memory_text(operators_[before].full_name(), after, module), site);
}

void Recorder::note_unwritten() {
  const RecordHeader header = thread().log.header();
  if (header.operator_id >= kDroppedRecord) return;
  const Operator& op = operators_[header.operator_id];
  if (is_asynchronous(op)) return;  // a collective: what it receives into may be empty, and a barrier reads nothing
  if (scales_first(op)) return;     // whether it reads the memory is said by a number that comes later: the file tells
  count_not_recorded("memory of `empty` that no recorded op wrote, read by " + op.full_name(), header.site);
}

void Recorder::begin_looks() {
  const auto& starts = state_->iteration_starts;
  const std::uint64_t ops = starts.size() < 2 ? 0 : starts.back() - starts[starts.size() - 2];
  state_->unseen.begin_iteration(iteration_, state_->next_sequence, ops);
  maybe_look();
}

void Recorder::look_at_end() {
  looks_ = false;
  compare_device_looks();
  UnseenWrites& unseen = state_->unseen;
  if (unseen.empty()) return;
  // What an op has written is the program's own: what only enters may be filled for the next iteration already.
  state_->storages.for_each_alive([&](const StorageTable::Slot& slot) {
    const UnseenWrites::Seen* seen = slot.written == kNeverUsed ? nullptr : unseen.find(slot.id);
    if (seen == nullptr || !seen->is_known) return;
    const auto bytes = bytes_in_place(*slot.impl);
    if (bytes.size() != seen->size_bytes || !unseen.take(bytes.size())) return;
    if (checksum64(bytes) != seen->checksum) note_changed(seen->operator_id, "", {});
  });
  unseen.forget_all();
}

}  // namespace crucible::recorder
