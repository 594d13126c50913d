// What the threads of test_races.py run: ops with nothing of Python between them. Called through ctypes, which lets the
// interpreter go meanwhile, so that the threads are inside the recorder at the same time.
#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace {

constexpr std::size_t kManyTensors = 4000;  // so many arguments that a thread's log needs new memory every few rounds

/// Read by all threads, written by none.
const at::Tensor& shared() {
  static const at::Tensor tensor = at::arange(8, at::kFloat);
  return tensor;
}

void throw_an_op(const at::Tensor& own) {
  try {
    (void)at::mm(own, own);  // no matrices
  } catch (const c10::Error&) {
    return;
  }
  throw std::logic_error("mm took vectors");
}

}  // namespace

/// Runs `rounds` rounds of ops. Each has one `fill_` with first, first + 1, ...: nothing may be missing in the file.
extern "C" void crucible_work(std::int64_t first, std::int64_t rounds) {
  at::Tensor own = at::zeros({8});
  for (std::int64_t round = 0; round < rounds; ++round) {
    own.fill_(static_cast<double>(first + round));
    const at::Tensor sum = at::add(own, shared());
    own.mul_(sum);
    (void)at::cat({own, sum}).view({4, 4}).sum();
    if (round % 8 == 0) (void)at::randn({4}).add_(at::empty({4}).fill_(1));
    if (round % 8 == 4) throw_an_op(own);
    if (round % 64 == 1) (void)at::cat(std::vector<at::Tensor>(kManyTensors, own));
  }
}
