// A started plugin with one opened device, and what cases make on it: memory, kernels, lists of ops, plans. Each call
// is expected to succeed and fails the case when it does not; cases that want errors call the tables themselves.
#pragma once

#include <bit>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/kernel/schedule.hpp"
#include "plugins/conformance/subject.hpp"
#include "plugins/conformance/verdict.hpp"

namespace crucible::conformance {

/// Opens the device of the settings; closes it and shuts the plugin down at the end.
class Opened {
 public:
  explicit Opened(const Settings& settings);
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened();

  /// False when the device says that it has not `key`; true when it has, does not know, or cannot be asked.
  bool may_have(const std::string& key);

  Subject subject;
  const Tables& tables;
  std::string id;
  crucible_device* device = nullptr;
};

/// The ids of all devices. Fails the case when there is none.
std::vector<std::string> device_ids(const Subject& subject);

/// A buffer, freed at the end.
class Memory {
 public:
  Memory(Opened& opened, std::uint64_t size, std::uint64_t align = 64);
  template <class T>
  Memory(Opened& opened, const std::vector<T>& values) : Memory(opened, values.size() * sizeof(T)) {
    write(0, std::as_bytes(std::span(values)));
  }
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();
  void write(std::uint64_t offset, std::span<const std::byte> data);
  std::vector<std::byte> read(std::uint64_t offset, std::uint64_t size) const;
  void fill(std::uint64_t offset, std::uint64_t size, std::uint8_t byte);
  template <class T>
  std::vector<T> values(std::size_t count, std::uint64_t offset = 0) const {
    const std::vector<std::byte> bytes = read(offset, count * sizeof(T));
    std::vector<T> result(count);
    std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(std::span(result)).begin());
    return result;
  }
  std::uint64_t address() const { return address_; }
  std::uint64_t size() const { return size_; }
  crucible_buffer* handle() const { return handle_; }

 private:
  Opened& opened_;
  std::uint64_t size_ = 0, address_ = 0;
  crucible_buffer* handle_ = nullptr;
};

inline constexpr std::uint32_t kTestScalars = 16;  // that ck_scalars is launched with, always
/// The kit's kernels; what each does stands beside it (test_kernels.cpp).
const std::vector<kernel::Kernel>& test_kernels();
/// Writes `number` into an i32 buffer; with another number it is another kernel of the same name.
kernel::Kernel writing_kernel(std::string name, std::int64_t number);
/// Writes the sum of its two scalars, computed as `computed`, into a buffer of `stored`.
kernel::Kernel adding_kernel(std::string name, DType stored, DType computed);

/// A kernel as compile takes it; borrows it.
crucible_kernel_source source_of(const kernel::Kernel& kernel);

/// Compiled kernels, unloaded at the end.
class Kernels {
 public:
  /// The kit's own ones; `flags` as compile takes them. Unsupported when the device takes no kernel IR.
  explicit Kernels(Opened& opened, const std::vector<kernel::Kernel>& kernels = test_kernels(),
                   std::uint32_t flags = 0);
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels();
  crucible_kernel* find(std::string_view name) const;
  crucible_module* module() const { return module_; }

 private:
  Opened& opened_;
  crucible_module* module_ = nullptr;
};

/// Scalars filled up to kTestScalars.
std::vector<crucible_scalar> padded(std::vector<crucible_scalar> scalars);

/// A list of ops with all that they point to; may be moved about freely.
class OpList {
 public:
  void launch(crucible_kernel* kernel, std::vector<std::uint64_t> buffers, std::int64_t grid, std::int64_t grain = 1,
              std::vector<crucible_scalar> scalars = {});
  void copy(std::uint64_t destination, std::uint64_t source, std::uint64_t size);
  void fill(std::uint64_t destination, std::uint64_t size, std::uint32_t pattern);
  void library(const crucible_library_desc& desc, std::vector<std::uint64_t> buffers, std::uint64_t scratch_bytes);
  const crucible_op* data() const { return ops_.data(); }
  std::uint32_t count() const { return static_cast<std::uint32_t>(ops_.size()); }
  crucible_op& at(std::size_t index) { return ops_[index]; }

 private:
  crucible_op& add(std::uint32_t kind, std::vector<std::uint64_t> buffers);
  std::vector<crucible_op> ops_;
  std::deque<std::vector<std::uint64_t>> buffers_;
  std::deque<std::vector<crucible_scalar>> scalars_;
  std::deque<crucible_library_desc> descs_;
};

inline crucible_scalar fixed(double value) {
  return {std::bit_cast<std::uint64_t>(value), CRUCIBLE_SLOT_NONE, CRUCIBLE_SCALAR_F64};
}
inline crucible_scalar slot(std::uint32_t index) { return {0, index, CRUCIBLE_SCALAR_F64}; }
inline crucible_scalar whole(std::int64_t value) {
  return {static_cast<std::uint64_t>(value), CRUCIBLE_SLOT_NONE, CRUCIBLE_SCALAR_I64};
}
inline crucible_scalar whole_slot(std::uint32_t index) { return {0, index, CRUCIBLE_SCALAR_I64}; }

/// A plan, destroyed at the end.
class Plan {
 public:
  Plan(Opened& opened, const OpList& list, std::uint32_t slots = 0);
  Plan(Plan&& other) noexcept;
  Plan& operator=(Plan&&) = delete;
  ~Plan();
  /// Of real numbers alone.
  void set_slots(const std::vector<double>& values);
  /// The eight bytes of each.
  void set_words(const std::vector<std::uint64_t>& words);
  /// Submitted to a queue of its own, and waited for.
  void replay();
  crucible_plan* handle() const { return handle_; }

 private:
  Opened& opened_;
  crucible_plan* handle_ = nullptr;
  crucible_queue* queue_ = nullptr;  // both from the first replay on
  crucible_timeline* done_ = nullptr;
  std::uint64_t runs_ = 0;
};

/// Builds a plan, replays it once, destroys it.
void run_once(Opened& opened, const OpList& list);

/// Bytes with no pattern that a fault could repeat; the same seed gives the same bytes.
std::vector<std::byte> noise(std::size_t size, std::uint32_t seed);

/// Fails with the first difference.
void expect_bytes(std::span<const std::byte> got, std::span<const std::byte> wanted, std::string_view what);

}  // namespace crucible::conformance
