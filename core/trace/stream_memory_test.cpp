// How much memory a recording of a million ops takes while it is written and finished: every allocation of this program
// is counted, which is why it is a program of its own.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>

#include "core/trace/stream_writer.hpp"
#include "core/trace/trace_samples.hpp"

namespace {

std::atomic<std::int64_t> live_bytes{0}, peak_bytes{0}, allocations{0};

void* counted(std::size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const std::int64_t now = live_bytes += static_cast<std::int64_t>(malloc_usable_size(memory));
  ++allocations;
  std::int64_t peak = peak_bytes;
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
  return memory;
}

void release(void* memory) noexcept {
  if (memory != nullptr) live_bytes -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }

namespace crucible::trace {
namespace {

constexpr std::uint32_t kOps = 1'000'000;

/// An op with two tensors, a number and a new result with a storage of its own; nothing is allocated for it but the
/// first time.
void add_op(StreamWriter& writer, std::uint32_t number) {
  const StorageId storage = writer.add(Storage{4096, "cpu"});
  static const Tensor kShape{0, DType::kF32, false, false, 0, {32, 32}, {32, 1}};
  Tensor tensor = kShape;
  tensor.storage = storage;
  const TensorId result = writer.add(tensor);
  static Op op = [] {
    Arg given{.kind = Arg::Kind::kTensor, .text = "", .list = {}};
    Arg scale{.kind = Arg::Kind::kDouble, .text = "", .list = {}};
    return Op{.args = {given, given, scale}, .outputs = {given}};
  }();
  op.schema = number % 7, op.site = number % 11, op.module = number % 13;
  op.args[0].tensor = op.outputs[0].tensor = result;
  op.args[1].tensor = result - (result > 0 ? 1 : 0);
  op.args[2].real = number;
  writer.add(op);
}

/// Peak of the heap while `ops` ops are recorded in `iterations` iterations and finished, in bytes above the start.
std::int64_t record(std::uint32_t ops, std::uint32_t iterations, const std::filesystem::path& path) {
  const std::int64_t before = live_bytes;
  peak_bytes = before;
  auto writer = StreamWriter::create(path, {});
  EXPECT_TRUE(writer);
  for (int i = 0; i < 13; ++i) {
    (*writer)->add(
        Schema{"aten::add", "Tensor", "aten::add.Tensor(Tensor self, Tensor other, Scalar alpha) -> Tensor"});
    (*writer)->add(Site{"train.py", static_cast<std::uint32_t>(i), "step"});
    (*writer)->add_module("blocks." + std::to_string(i));
  }
  const std::uint32_t each = ops / iterations;
  for (std::uint32_t i = 0; i < iterations; ++i) {
    for (std::uint32_t n = 0; n < each; ++n) add_op(**writer, i * each + n);
    const auto ended = (*writer)->end_iteration({i * each, each, true, {}});
    EXPECT_TRUE(ended);
  }
  EXPECT_LT((*writer)->memory_bytes(), 4u << 20);
  const auto done = (*writer)->finish({});
  EXPECT_TRUE(done) << done.error().message;
  writer->reset();
  std::printf("%u ops in %u iterations: %.1f bytes of heap per op at the peak, %.1f bytes per op in the file\n", ops,
              iterations, static_cast<double>(peak_bytes - before) / ops, static_cast<double>(*done) / ops);
  return peak_bytes - before;
}

TEST(StreamMemory, DoesNotGrowWithTheRecording) {
  const samples::Folder folder;
  for (const std::uint32_t iterations : {1u, 1000u}) {
    const std::int64_t peak = record(kOps, iterations, folder / "a.crtrace");
    EXPECT_LT(peak, 100ll * kOps) << "at most 100 bytes per op";
    EXPECT_LT(peak, 16ll * kOps) << "and far less, because records do not stay";
    EXPECT_LT(std::filesystem::file_size(folder / "a.crtrace"), 60u * kOps);
  }
  const auto layout = read_layout(folder / "a.crtrace");
  ASSERT_TRUE(layout);
}

TEST(StreamMemory, AllocatesNothingPerOpInSteadyState) {
  const samples::Folder folder;
  auto writer = StreamWriter::create(folder / "a.crtrace", {});
  ASSERT_TRUE(writer);
  const Trace sample = samples::scalar_trace({1.0});
  for (const Schema& it : sample.schemas) (*writer)->add(it);
  for (const Storage& it : sample.storages) (*writer)->add(it);
  for (const Tensor& it : sample.tensors) (*writer)->add(it);
  Op op = sample.ops[0];
  op.site = op.module = kNone;
  for (int i = 0; i < 100'000; ++i) (*writer)->add(op);  // the buffers reach their size
  const std::int64_t before = allocations;
  for (int i = 0; i < 1'000'000; ++i) (*writer)->add(op);
  EXPECT_EQ(allocations - before, 0);
  (*writer)->drop();
}

}  // namespace
}  // namespace crucible::trace
