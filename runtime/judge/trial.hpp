// One compiled kernel tried on a few of its work items, beside the interpreter of its kernel IR: whether the compiler
// kept the kernel's meaning. The kernel runs whole, on numbers of ours; first, last and some middle items are
// interpreted, and what they write is compared. Which kernels are tried, and what becomes of wrong ones:
// kernel_trials.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "plugins/kernel_ir/kernel_ir.hpp"
#include "core/kernel/ir/touched_memory.hpp"
#include "core/kernel/ir/trial_data.hpp"
#include "plugins/loader/backend.hpp"

namespace crucible::runtime {

/// A kernel and what one of its steps hands it.
struct TrialSubject {
  kernel::KernelIr ir;
  std::vector<std::uint32_t> memory_of;  // per buffer: which piece of memory it lies in, from its start
  std::vector<std::uint64_t> memories;   // bytes of each
  std::vector<std::uint64_t> scalars;    // the bits of each, of the type that the kernel says
  std::int64_t grid = 1;

  std::uint64_t zone = 4096;  // bytes before, between and behind the pieces, where nothing may be written

  std::uint64_t bytes() const;  // on the device, with the zones
};

/// How near results have to be.
enum class Nearness : std::uint8_t {
  kBits,     // every number, and NaN for NaN
  kRounded,  // sums may have any order, functions the device's last places
};

struct TrialWay {
  bool may_sample = false;  // of large items some passes of their loops alone, which a difference does not prove yet
  std::uint64_t seed = 0;   // of the numbers
};

/// What a kernel is compared with. Made once, used for each compilation of it.
class TrialReference {
 public:
  /// Interprets items until `budget` (InterpretedWork::cost) is spent, the first and the last at least, or of large
  /// ones that cannot be sampled the last alone. Errors: kInternal where the interpreter refuses the kernel on all
  /// numbers that were thought of.
  static Result<TrialReference> make(const TrialSubject& subject, Nearness nearness, std::uint64_t budget,
                                     const TrialWay& way);

  const TrialSubject& subject() const { return *subject_; }
  std::int64_t items() const { return items_; }
  bool is_sampled() const { return is_sampled_; }
  /// What the process holds for its memories.
  std::uint64_t resident_bytes() const;

 private:
  friend class TrialBench;
  TrialReference() = default;
  Result<void> interpret(kernel::TrialNumbers kind, bool narrow);
  bool mostly_nan() const;
  const TrialSubject* subject_ = nullptr;
  Nearness nearness_ = Nearness::kBits;
  std::vector<std::unique_ptr<kernel::TouchedMemory>> memories_;  // as the interpreter left them
  std::uint64_t budget_ = 0;
  std::int64_t items_ = 0;
  TrialWay way_;
  bool is_sampled_ = false;
};

/// Memory of a device for trials, one after the other. Not thread-safe.
class TrialBench {
 public:
  /// `bytes`: of the largest subject. Errors: those of allocating.
  static Result<TrialBench> make(const std::shared_ptr<backend::Device>& device, std::uint64_t bytes);

  /// "" when the compiled kernel did what the interpreter did, else what was found instead. Errors: the device was
  /// lost, or cannot be written or read.
  Result<std::string> run(TrialReference& reference, crucible_kernel* kernel);

 private:
  explicit TrialBench(std::shared_ptr<backend::Device> device) : device_(std::move(device)) {}
  Result<void> load(const TrialReference& reference);
  Result<std::string> launch(const TrialReference& reference, crucible_kernel* kernel);
  Result<std::string> find_strays(const TrialReference& reference);
  Result<std::string> compare(TrialReference& reference, std::uint32_t buffer);

  std::shared_ptr<backend::Device> device_;  // shared: see plugins/loader
  std::optional<backend::Buffer> scratch_;
  bool is_sized_ = false;  // the device asks how large the buffers are
};

}  // namespace crucible::runtime
