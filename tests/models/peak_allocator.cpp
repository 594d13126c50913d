// Counts what PyTorch asks of its CPU allocator: a shared library for measure_peak.py, which loads it with ctypes. It
// stands in front of the allocator that was there and counts, for every block that is alive, the bytes that were asked
// for: no rounding, no cache, no bookkeeping of malloc. What libraries allocate past PyTorch (scratchpads inside
// oneDNN, Python objects) is not seen.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace {

/// Threads: any.
class Counter final : public c10::Allocator {
 public:
  explicit Counter(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t size) override {
    void* data = inner_->raw_allocate(size);
    if (data != nullptr) note(data, size);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

  void forget(void* data) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = sizes_.find(data);
      if (found != sizes_.end()) {
        alive_ -= found->second;
        sizes_.erase(found);
      }
    }
    if (data != nullptr) inner_->raw_deallocate(data);
  }
  /// The most bytes alive since the last call with `restart`.
  std::uint64_t peak(bool restart) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t most = peak_;
    if (restart) peak_ = alive_;
    return most;
  }
  std::uint64_t alive() {
    const std::lock_guard lock(mutex_);
    return alive_;
  }
  std::uint64_t size_of(void* data) {
    const std::lock_guard lock(mutex_);
    const auto found = sizes_.find(data);
    return found == sizes_.end() ? 0 : found->second;
  }

 private:
  static void give_back(void* data);
  void note(void* data, std::uint64_t size) {
    const std::lock_guard lock(mutex_);
    sizes_[data] = size;
    alive_ += size;
    if (alive_ > peak_) peak_ = alive_;
  }

  c10::Allocator* inner_;
  std::mutex mutex_;
  std::unordered_map<void*, std::uint64_t> sizes_;
  std::uint64_t alive_ = 0, peak_ = 0;
};

Counter* counter = nullptr;  // as long as the process: tensors that outlast main give their memory back through it

void Counter::give_back(void* data) { counter->forget(data); }

}  // namespace

extern "C" {

/// From here on every block is counted; call it before the first tensor is made.
void peak_allocator_install() {
  if (counter != nullptr) return;
  counter = new Counter(c10::GetAllocator(c10::DeviceType::CPU));
  c10::SetAllocator(c10::DeviceType::CPU, counter, 255);
}
std::uint64_t peak_allocator_alive() { return counter->alive(); }
std::uint64_t peak_allocator_peak(int restart) { return counter->peak(restart != 0); }
/// Bytes of the block that begins at `data`; 0 when it is none of ours.
std::uint64_t peak_allocator_size(void* data) { return counter->size_of(data); }
}
