// The recorder: what is being recorded, by which threads, and what the program's storages are. Kernels on the Fake key
// (typed_kernel.hpp, boxed_kernel.cpp) write one record per op through an OpScope (op_scope.hpp); Python says where
// iterations begin and end (python_module.cpp); TraceStream (trace_stream.hpp) takes them from there.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/trace/trace.hpp"
#include "frontends/torch/biased_lock.hpp"
#include "frontends/torch/call_site.hpp"
#include "frontends/torch/log.hpp"
#include "frontends/torch/operators.hpp"
#include "frontends/torch/recording_state.hpp"

namespace crucible::recorder {

/// The keys below ours: where a kernel goes on. Never a stored number: the order of keys differs between versions.
inline const c10::DispatchKeySet kKeysBelow{c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake};

/// Holds the lock as the thread that the recorder calls `me`.
class Locked {
 public:
  Locked(BiasedLock& lock, std::uint64_t me) : lock_(lock) { lock_.lock(me); }
  ~Locked() { lock_.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  BiasedLock& lock_;
};

/// Counts and times of a recording so far.
struct Measures {
  std::uint64_t ops = 0, overhead_ns_per_op = 0, copy_ns = 0, boundary_ns = 0;
  std::size_t log_bytes = 0, copied_bytes = 0, passed_over = 0;
  std::uint32_t complete_iterations = 0;  // that go into the file
};

class TraceStream;

class Recorder {
 public:
  /// The process's only one: kernels are called by the dispatcher without a context of ours.
  static Recorder& instance() {
    Recorder* const recorder = the_one.load(std::memory_order_acquire);
    return recorder != nullptr ? *recorder : make();
  }

  /// Starts the first iteration on the calling thread. Threads: holds the GIL, as for all below.
  void start();
  /// Ends the iteration and starts the next. False when recording was switched off behind our back: it is lost.
  bool end_iteration();
  /// Switches recording off; what was recorded stays.
  void stop();
  /// Forgets what was recorded; drops the stream unless it was finished.
  void clear();
  /// Writes to `stream` from now on: what is complete at once, each iteration at its end.
  void stream_to(std::shared_ptr<TraceStream> stream);
  TraceStream* stream() const { return stream_.get(); }

  void set_phase(trace::Phase phase) { phase_.store(static_cast<std::uint8_t>(phase), std::memory_order_relaxed); }
  trace::Phase phase() const { return static_cast<trace::Phase>(phase_.load(std::memory_order_relaxed)); }
  /// The line of the backward pass that runs: on its own threads there is no Python.
  void set_backward_site(std::uint32_t site) { backward_site_.store(site, std::memory_order_relaxed); }
  std::uint32_t backward_site() const { return backward_site_.load(std::memory_order_relaxed); }
  /// Whether each op's results are hashed from now on; see op_hashes.hpp.
  void hash_ops(bool on) { hashes_ops_.store(on, std::memory_order_relaxed); }
  bool hashes_ops() const { return hashes_ops_.load(std::memory_order_relaxed); }
  /// Threads: who holds the lock.
  void add_hashes(std::uint64_t number, std::vector<std::uint64_t> hashes) {
    state_->op_hashes.keep(number, std::move(hashes));
  }
  /// Whether all memory of a tensor's storage was filled by ops, as far as hash_ops() goes; `note_filled`: from now on.
  bool is_filled(const at::Tensor& tensor);
  void note_filled(const at::Tensor& tensor);
  /// Notes a tensor on which backward is called, when it has one element.
  void add_loss(const at::Tensor& tensor);
  /// Says what a tensor's storage is to the program; `final` names hold for the end of the recording. `is_live`: the
  /// file is read beside the storage, which may change at will: its bytes are neither kept nor compared.
  void name_tensor(const at::Tensor& tensor, std::string name, trace::Role role, bool final, bool is_live = false);
  /// Bytes of outputs and of what random ops draw are not kept: the file is read by who makes them anew.
  void leave_out() { state_->leaves_out = true; }
  bool leaves_out() const { return state_->leaves_out; }
  /// A loader has given it to the program: unless an op has used it, what enters with it is data.
  void note_input(const at::Tensor& tensor);

  /// Lets ops pass unseen until resume(), on all threads. What they change is taken again when an op reads it (compared
  /// on the CPU only). Nests. Threads: the one that started, as for the next two.
  void pause();
  void resume();
  /// In a pause: the calling thread, not the one that started, is recorded from resume() on, and is number 0 of the
  /// file.
  void take_over();
  /// Pauses, and leaves the present iteration out of the file. The next end_iteration() ends both.
  void pass_over();
  /// Keeps an output of the present iteration with its elements. Tensors without plain elements are counted instead.
  void add_output(std::string name, const at::Tensor& tensor);
  /// Records the calling thread too, from now on; the kernels must stay installed until leave_thread().
  void join_thread();
  void leave_thread();
  std::uint32_t joined_threads() const { return joined_threads_.load(); }
  bool is_recording() const { return recording_.load(std::memory_order_relaxed); }
  Operators& operators() { return operators_; }
  CallSites& call_sites() { return call_sites_; }
  const CallSites& call_sites() const { return call_sites_; }
  const Operators& operators() const { return operators_; }
  const RecordingState& state() const { return *state_; }
  /// Recorder's own nanoseconds per op, sampled, without the copying of bytes. 0: nothing was sampled. Threads: any.
  std::uint64_t overhead_ns_per_op() const { return measures().overhead_ns_per_op; }
  Measures measures() const;
  /// Ops of the iteration that is running, so far, but for those that only read: what a program logs varies.
  std::uint64_t ops_of_iteration() const;

  /// The calling thread's state in the present recording.
  ThreadState& thread() {
    if (is_present(this_thread.recording)) [[likely]]
      return *this_thread.state;
    return enter_thread();
  }

  /// Who the calling thread is to the lock.
  static std::uint64_t me() { return reinterpret_cast<std::uintptr_t>(&this_thread); }

  // For OpScope and Encoder, which hold the lock around each of these.
  BiasedLock& lock() { return lock_; }
  /// Whether the recording with this number is the present one, and whether its ops are taken: an op may be running on
  /// another thread when its recording ends.
  bool is_present(std::uint32_t recording) const {
    return recording == recording_number_.load(std::memory_order_relaxed);
  }
  bool takes(std::uint32_t recording) const { return running_ && is_present(recording); }
  /// The slot of a storage that an op is about to use (and write, if `written`; without `read` its elements do not
  /// matter). Takes its bytes when they are unknown.
  StorageTable::Slot& input_storage(c10::StorageImpl* impl, bool written, bool read) {
    StorageTable::Slot* slot = state_->storages.find(impl);
    if (slot == nullptr || slot->iteration != iteration_ || (written && slot->written != iteration_)) [[unlikely]] {
      return first_use(slot, impl, written, read);
    }
    return *slot;
  }
  /// The slot of a storage that an op has returned: a new generation unless it is known.
  StorageTable::Slot& output_storage(c10::StorageImpl* impl) {
    StorageTable::Slot* slot = state_->storages.find(impl);
    if (slot == nullptr) return state_->storages.insert(impl, iteration_);
    if (slot->iteration != iteration_) [[unlikely]]
      first_return(*slot);
    return *slot;
  }
  /// Data is made with it: what is written is looked at again. True where it reads what the recorded program computes.
  [[gnu::cold]] bool use_for_input(c10::StorageImpl* impl, Usage usage);
  /// The next op's number, until the next call.
  std::uint64_t take_sequence() { return state_->next_sequence++; }
  /// `empty` has returned it: whoever fills it without an op is seen when an op reads it.
  void note_unfilled(const at::Tensor& tensor);
  /// Whether the storages that ops use are looked at now: for changes that no op has made.
  bool looks() const { return looks_; }
  /// Compares what a storage that the present op uses or returns holds with what it held when an op last used it.
  [[gnu::cold]] void look_at(StorageTable::Slot& slot, c10::StorageImpl* impl, Usage usage);
  /// The looks of an iteration begin with some op: called with one in a while.
  void maybe_look() { looks_ = state_->unseen.starts_at(state_->next_sequence); }
  KeptBytes keep(const at::Tensor& tensor);
  void add_draw(std::uint64_t sequence, std::uint32_t output, const at::Tensor& tensor);
  void count_not_recorded(const std::string& what, std::uint32_t site);

 private:
  Recorder() = default;
  [[gnu::cold]] static Recorder& make();
  [[gnu::cold]] ThreadState& enter_thread();
  void notice_fork();
  [[gnu::hot]] StorageTable::Slot& first_use(StorageTable::Slot* slot, c10::StorageImpl* impl, bool written, bool read);
  void use_unfilled(StorageTable::Slot& slot, bool written, bool read);
  void note_unwritten();
  void note_changed(std::uint32_t before, const std::string& after, const RecordHeader& header);
  void look_at_end();
  void look_on_device(const StorageTable::Slot& slot, c10::StorageImpl* impl, Usage usage, bool forgets);
  void compare_device_looks();
  void check_devices();
  /// Before sums where an iteration ends or pauses: another stream than the calling thread's may still be writing.
  void wait_for_devices();
  void fetch_draws();
  void begin_looks();
  void first_return(StorageTable::Slot& slot);
  void take_external(StorageTable::Slot& slot);
  void check_unchanged(StorageTable::Slot& slot);
  void note_generators();
  void check_after_pause(StorageTable::Slot& slot);
  void set_aside(StorageTable::Slot& slot, std::uint32_t mark);
  void note_checksum(StorageTable::Slot& slot);
  StorageDetails& details(StorageTable::Slot& slot);
  Batch end_locked(std::uint64_t started_ns);
  Batch take_batch(bool is_kept);

  static constinit std::atomic<Recorder*> the_one;
  struct ThisThread {
    ThreadState* state = nullptr;
    std::uint32_t recording = 0;  // never the number of a recording
  };
  // Initial-exec: one load instead of a call into the dynamic linker per op; the few bytes fit into the reserve that
  // the C library keeps for libraries loaded later.
  __attribute__((tls_model("initial-exec"))) static thread_local constinit ThisThread this_thread;
  static thread_local std::shared_ptr<ThreadState> kept_for_this_thread;  // what this_thread points to

  std::atomic<bool> recording_{false};
  std::atomic<bool> hashes_ops_{false};
  std::atomic<std::uint8_t> phase_{0};
  std::atomic<std::uint32_t> backward_site_{kNoSite};
  std::atomic<std::uint32_t> recording_number_{1};  // threads compare it to know that their state is stale
  std::uint32_t iteration_ = 0;
  bool compares_sums_ = false;  // checksums were taken when the last iteration ended
  bool looks_ = false;          // see looks()
  bool passing_over_ = false;
  bool running_ = false;  // between start() and stop(), pauses included
  // Guards running_, iteration_, compares_sums_, recording_number_ (where it is written), all of *state_.
  mutable BiasedLock lock_;
  std::unique_ptr<RecordingState> state_ = std::make_unique<RecordingState>();
  std::uint32_t pauses_ = 0;
  std::atomic<std::uint32_t> joined_threads_{0};
  int process_ = 0;  // in which recording began
  Operators operators_;
  CallSites call_sites_;
  // Shared only because its type is incomplete here; null: nothing is written yet.
  std::shared_ptr<TraceStream> stream_;
};

}  // namespace crucible::recorder
