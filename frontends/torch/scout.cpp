// What an iteration is when it has to be guessed: the longest confirmed period (a short one is a layer within it), with
// a backward pass inside if the program has any, beginning after the writes that end it.
#include "frontends/torch/scout.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace crucible::recorder {

namespace {

constexpr std::size_t kMostWrites = std::size_t{1} << 16;
constexpr std::uint64_t kMostRemembered = std::uint64_t{3} << 16;  // ops; three of the longest iterations
constexpr std::uint64_t kLeastRun = 256;  // ops, where no backward pass tells an iteration from a layer

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0xBF58476D1CE4E5B9ull;
  return hash ^ hash >> 31;
}

std::uint64_t mix_tensor(std::uint64_t hash, const at::Tensor& tensor) {
  if (!tensor.defined()) return mix(hash, 1);
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  hash = mix(hash, 2 + static_cast<std::uint64_t>(tensor.scalar_type()));
  if (impl->layout() != c10::kStrided || impl->has_symbolic_sizes_strides() ||
      tensor.key_set().has(c10::DispatchKey::NestedTensor))
    return hash;
  for (const std::int64_t size : impl->sizes()) hash = mix(hash, static_cast<std::uint64_t>(size));
  return mix(hash, impl->sizes().size());
}

/// Calls `visit(argument number, tensor)` for every tensor among the arguments.
template <class Visit>
void for_each_tensor(const Operator& op, const c10::Stack& stack, Visit visit) {
  const std::size_t count = op.handle.schema().arguments().size();
  for (std::size_t i = 0; i < count; ++i) {
    const c10::IValue& value = stack[stack.size() - count + i];
    if (value.isTensor()) {
      visit(i, value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) visit(i, tensor);
    }
  }
}

}  // namespace

Scout& Scout::instance() {
  static Scout* scout = new Scout;  // never destroyed: kernels may be called while the process ends
  return *scout;
}

void Scout::start(PyObject* tell, std::uint64_t passed, bool trains) {
  stop();
  finder_.emplace();
  tell_ = Py_NewRef(tell);
  passed_ = passed;
  thread_ = std::this_thread::get_id();
  longest_broken_ = period_ = 0;
  trains_ = trains;
  backwards_.clear();
  looking_ = true;
  c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);
}

void Scout::stop() {
  if (!looking_) return;
  looking_ = false;
  writes_.clear();
  finder_.reset();
  period_ = 0;
  Py_CLEAR(tell_);
  if (std::this_thread::get_id() == thread_) c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, false);
}

void Scout::note_backward() {
  if (!is_looking() || std::this_thread::get_id() != thread_ || calling_) return;
  const bool is_news = !std::exchange(trains_, true);
  while (!backwards_.empty() && backwards_.front() + kMostRemembered < finder_->size()) backwards_.pop_front();
  backwards_.push_back(finder_->size());
  if (!is_news || period_ == 0) return;
  // What was taken for iterations lies inside a forward pass: layers that are alike.
  longest_broken_ = std::max(longest_broken_, finder_->size() - start_);
  period_ = 0;
  call("backward");
}

bool Scout::has_backward_in_each(std::uint64_t period) const {
  for (std::uint64_t block = 0; block < 3; ++block) {
    const std::uint64_t end = finder_->size() - block * period;
    const bool found =
        std::ranges::any_of(backwards_, [&](std::uint64_t begun) { return begun < end && begun + period >= end; });
    if (!found) return false;
  }
  return true;
}

std::uint64_t Scout::hash(const Operator& op, const c10::Stack& stack) const {
  std::uint64_t hash = mix(0x9E3779B97F4A7C15ull, op.id);
  for_each_tensor(op, stack, [&hash](std::size_t argument, const at::Tensor& tensor) {
    hash = mix_tensor(mix(hash, argument), tensor);
  });
  return hash;
}

void Scout::note_writes(const Operator& op, const c10::Stack& stack) {
  for_each_tensor(op, stack, [&](std::size_t argument, const at::Tensor& tensor) {
    if (!op.writes(argument) || !tensor.defined() || !tensor.has_storage()) return;
    if (writes_.size() == kMostWrites) writes_.pop_front();
    writes_.push_back({finder_->size(), tensor.storage().getWeakStorageImpl()});
  });
}

void Scout::before_op(const Operator& op, const c10::Stack& stack) {
  if (!is_looking() || std::this_thread::get_id() != thread_ || calling_) return;
  bool is_meta = false;
  for_each_tensor(op, stack, [&is_meta](std::size_t, const at::Tensor& tensor) {
    is_meta |= tensor.defined() && tensor.is_meta();
  });
  if (is_meta) return;  // it computes nothing, and is not recorded either
  if (op.written_arguments != 0) note_writes(op, stack);
  const std::uint64_t position = finder_->size();
  finder_->push(hash(op, stack));
  if (period_ == 0) {
    look_for_period();
  } else if (finder_->run_of(period_).length == 0) {
    longest_broken_ = std::max(longest_broken_, position - start_);
    period_ = 0;
    return call("broken");
  }
  if (period_ != 0 && position % period_ == boundary_ && (position - start_) / period_ >= passed_) call("boundary");
}

void Scout::look_for_period() {
  trace::PeriodFinder::Run best;
  finder_->for_each_confirmed([&](trace::PeriodFinder::Run run) {
    const bool is_sure = trains_ ? has_backward_in_each(run.period) : run.length >= kLeastRun;
    // What broke before was part of something longer.
    if (is_sure && run.period > longest_broken_ / 2) best = run;
  });
  if (best.period == 0) return;
  period_ = best.period;
  start_ = finder_->size() - best.length;
  boundary_ = choose_boundary();
}

/// After the last write to something that lives on: of all pauses between such writes, the longest follows it (the
/// forward pass). Without any, where the repetitions began.
std::uint64_t Scout::choose_boundary() const {
  std::vector<std::uint64_t> places;  // in the period, of writes to storages that outlived it
  for (const Write& write : writes_) {
    if (write.position < start_ || write.position + period_ > finder_->size() || write.storage.expired()) continue;
    places.push_back(write.position % period_);
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  if (places.empty()) return start_ % period_;
  std::uint64_t best = places.back(), gap = places.front() + period_ - places.back();
  for (std::size_t i = 0; i + 1 < places.size(); ++i) {
    if (places[i + 1] - places[i] > gap) best = places[i], gap = places[i + 1] - places[i];
  }
  return (best + 1) % period_;
}

void Scout::call(const char* event) {
  calling_ = true;
  {
    const PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    {
      const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
      PyObject* tell = Py_XNewRef(tell_);
      PyObject* done = tell == nullptr ? nullptr : PyObject_CallFunction(tell, "s", event);
      if (done == nullptr && tell != nullptr) PyErr_WriteUnraisable(tell);
      Py_XDECREF(done);
      Py_XDECREF(tell);
    }
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
  }
  calling_ = false;
  if (looking_)
    c10::impl::tls_set_dispatch_key_included(c10::DispatchKey::Fake, true);  // ending a recording switches it off
}

}  // namespace crucible::recorder
