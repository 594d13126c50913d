// One op being recorded: arguments before it runs, results after it, nothing at all if it throws. Typed and boxed
// kernels write the same record through it. What the words mean stands in log.hpp.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Storage.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <tuple>
#include <typeinfo>
#include <vector>

#include "frontends/torch/recorder.hpp"

namespace crucible::recorder {

/// The project's number for an element type of the framework.
constexpr DType dtype_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Bool: return DType::kBool;
    case c10::ScalarType::Byte: return DType::kU8;
    case c10::ScalarType::Char: return DType::kI8;
    case c10::ScalarType::Short: return DType::kI16;
    case c10::ScalarType::Int: return DType::kI32;
    case c10::ScalarType::Long: return DType::kI64;
    case c10::ScalarType::Half: return DType::kF16;
    case c10::ScalarType::BFloat16: return DType::kBF16;
    case c10::ScalarType::Float: return DType::kF32;
    case c10::ScalarType::Double: return DType::kF64;
    case c10::ScalarType::ComplexFloat: return DType::kC64;
    case c10::ScalarType::ComplexDouble: return DType::kC128;
    default: return DType::kOther;
  }
}

/// Writes items into a thread's log. Threads: one, holding the recorder's lock.
class Encoder {
 public:
  using Access = Usage;

  /// `may_grow`: storages may have become larger since they were last seen, as an op that writes can make them.
  Encoder(Recorder& recorder, Log& log, bool may_grow) : recorder_(recorder), log_(log), may_grow_(may_grow) {}

  [[gnu::hot]] void tensor(const at::Tensor& tensor, Access access);  // hot: laid out side by side with the others
  void storage(const c10::Storage& storage, Access access);
  void boolean(bool value) { log_.put(Tag::kBool, value ? 1 : 0); }
  void integer(std::int64_t value) {
    log_.put(Tag::kInt);
    log_.put(static_cast<std::uint64_t>(value));
  }
  void real(double value) {
    log_.put(Tag::kDouble);
    log_.put(std::bit_cast<std::uint64_t>(value));
  }
  [[gnu::hot]] void scalar(const c10::Scalar& value);
  void string(std::string_view value) { log_.put_bytes(Tag::kString, value.data(), value.size()); }
  void opaque(std::string_view type) { log_.put_bytes(Tag::kOpaque, type.data(), type.size()); }
  void device(const c10::Device& device);
  void generator(const at::Generator& generator);
  void dtype(c10::ScalarType type) { log_.put(Tag::kDType, static_cast<std::uint64_t>(dtype_of(type))); }
  void none() { log_.put(Tag::kNone); }
  void list(std::size_t elements) {
    log_.reserve(1 + 3 * elements);
    log_.put(Tag::kList, elements);
  }
  void integers(c10::ArrayRef<std::int64_t> values);
  void symbolic(const c10::SymInt& value);
  void symbolic_list(c10::ArrayRef<c10::SymInt> values);
  Log& log() { return log_; }
  /// True once a tensor of the meta device, or one without real sizes, was met: the op computes nothing.
  bool is_abstract() const { return is_abstract_; }
  /// What replay cannot take, met since the start: counted and named by the scope.
  const char* unusual() const { return unusual_; }
  /// True once a storage's size was written that the log did not have.
  bool has_news() const { return has_news_; }

 private:
  [[gnu::cold]] void other_tensor(const at::Tensor& tensor, Access access);
  Recorder& recorder_;
  Log& log_;
  bool may_grow_ = false;
  bool is_abstract_ = false;
  bool has_news_ = false;
  const char* unusual_ = nullptr;
};

/// Lives from before the op's arguments are read until its results are. Destroyed without finish(), it leaves no
/// record; so does one whose recording ends on another thread meanwhile.
class OpScope {
 public:
  [[gnu::hot]] explicit OpScope(const Operator& op);
  ~OpScope() {
    if (open_) abandon();
  }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;

  /// False when there is nothing to record any more: the op passes by, and nothing else here may be called.
  bool is_open() const { return open_; }
  Encoder& encoder() { return encoder_; }
  Encoder::Access access(std::size_t argument) const { return op_.usage(argument); }
  /// All arguments are written: the op may run.
  [[gnu::hot]] void before_run();
  /// The op has run: results may be written, unless false comes back.
  [[gnu::hot]] bool after_run();
  /// Notes what a random op drew, as result number `output`, and memory that was returned without being filled.
  void drawn(std::uint32_t output, const at::Tensor& tensor) {
    if (op_.special_results) [[unlikely]] note_result(output, tensor);
  }
  /// The keys of the calling thread, which has made the scope.
  c10::impl::PODLocalDispatchKeySet& keys() { return *thread_.keys; }
  /// Notes the hashes of the op's results. Call between before_run() and after_run().
  void keep_hashes(std::vector<std::uint64_t> hashes);
  /// Keeps the record.
  [[gnu::hot]] void finish();

 private:
  void lock() {
    recorder_.lock().lock(Recorder::me());
    locked_ = true;
  }
  void unlock() {
    locked_ = false;
    recorder_.lock().unlock();
  }
  bool takes() const { return recorder_.takes(recording_); }
  void note_result(std::uint32_t output, const at::Tensor& tensor);
  [[gnu::cold]] void abandon();
  [[gnu::cold]] void begin_sample();
  [[gnu::cold]] void end_sample();
  static std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }

  Recorder& recorder_;
  const Operator& op_;
  ThreadState& thread_;     // of the recording that had begun with the op: once that has ended it is not touched
  std::uint32_t recording_;
  Encoder encoder_;
  std::uint64_t sequence_ = 0;
  bool open_ = false;    // a record was begun
  bool locked_ = false;
  bool sampled_ = false;
  std::uint64_t started_ns_ = 0, spent_ns_ = 0, copied_before_ns_ = 0;
};

/// While it lives, the calling thread's ops pass unseen: what the framework's ExcludeDispatchKeyGuard does for our key,
/// without looking for the thread's keys again.
class Unrecorded {
 public:
  explicit Unrecorded(c10::impl::PODLocalDispatchKeySet& keys)
      : keys_(keys), added_(c10::DispatchKeySet(c10::DispatchKey::Fake) - keys.excluded()) {
    keys_.set_excluded(keys_.excluded() | added_);
  }
  ~Unrecorded() { keys_.set_excluded(keys_.excluded() - added_); }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  c10::impl::PODLocalDispatchKeySet& keys_;
  c10::DispatchKeySet added_;
};

}  // namespace crucible::recorder
