// What the tests of this plugin share: a device opened through the loader with given options, kernels from text, and
// buffers of floats. Tests see the plugin as any host does, through its one exported symbol.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "plugins/loader/backend.hpp"
#include "plugins/loader/testing/kept.hpp"
#include "plugins/loader/testing/kernels_in_c.hpp"

#if defined(__SANITIZE_THREAD__)
// oneDNN and its OpenMP threads are not built for the sanitizer, which therefore misses how they synchronise.
extern "C" __attribute__((used, visibility("default"))) const char* __tsan_default_suppressions() {
  return "called_from_lib:libdnnl.so\n";
}
#endif

namespace crucible::backend {

/// Fails the test with the error's text where a Result is an error.
#define CRUCIBLE_ASSERT_OK(expression)                                  \
  do {                                                                  \
    const auto& result_ = (expression);                                 \
    ASSERT_TRUE(static_cast<bool>(result_)) << result_.error().message; \
  } while (false)

/// The value of a Result that must hold one.
template <class T>
T take(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().message;
    std::abort();
  }
  return *std::move(result);
}

/// A folder of this test's own, removed at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "crucible-cpu-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline bool has_clang() { return !clang_path().empty(); }

/// Each test has a store of its own, unless it gives one.
class CpuTest : public testing::Test {
 protected:
  std::shared_ptr<Device> open(const Options& options = {}, std::shared_ptr<store::Store> store = nullptr) {
    if (!store) store = keep_in(folder_.path() / "store");
    const auto path = take(find_backend("cpu"));
    return take(take(Backend::load(path, options, std::move(store)))->open(""));
  }

  static std::string library_note(const Device& device) {
    for (const auto& [key, value] : take(device.properties())) {
      if (key == "library") return value;
    }
    return "";
  }
  static bool has_onednn(const Device& device) { return library_note(device).starts_with("oneDNN"); }

  TemporaryFolder folder_;
};

inline Buffer make_buffer(const std::shared_ptr<Device>& device, std::uint64_t bytes) {
  return take(Buffer::allocate(device, bytes, 64));
}

template <class T>
Buffer upload(const std::shared_ptr<Device>& device, const std::vector<T>& values) {
  Buffer buffer = make_buffer(device, values.size() * sizeof(T));
  const auto written = buffer.write(0, std::as_bytes(std::span(values)));
  EXPECT_TRUE(static_cast<bool>(written));
  return buffer;
}

template <class T>
std::vector<T> download(const Buffer& buffer, std::size_t count) {
  std::vector<T> values(count);
  const auto result = buffer.read(0, std::as_writable_bytes(std::span(values)));
  EXPECT_TRUE(static_cast<bool>(result));
  return values;
}

inline std::vector<float> random_floats(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = distribution(generator);
  return values;
}

/// A list of ops with all that they point to.
class OpList {
 public:
  void launch(crucible_kernel* kernel, std::vector<std::uint64_t> buffers, std::int64_t grid, std::int64_t grain = 1,
              std::vector<crucible_scalar> scalars = {}) {
    crucible_op& op = add(CRUCIBLE_OP_LAUNCH, std::move(buffers));
    op.kernel = kernel;
    op.grid = grid;
    op.grain = grain;
    scalars_.push_back(std::make_unique<std::vector<crucible_scalar>>(std::move(scalars)));
    op.scalars = scalars_.back()->data();
    op.scalar_count = static_cast<std::uint32_t>(scalars_.back()->size());
  }
  void copy(std::uint64_t destination, std::uint64_t source, std::uint64_t size) {
    add(CRUCIBLE_OP_COPY, {destination, source}).size = size;
  }
  void fill(std::uint64_t destination, std::uint64_t size, std::uint8_t pattern) {
    crucible_op& op = add(CRUCIBLE_OP_FILL, {destination});
    op.size = size;
    op.pattern = pattern;
  }
  void library(const crucible_library_desc& desc, std::vector<std::uint64_t> buffers, std::uint64_t scratch_bytes) {
    crucible_op& op = add(CRUCIBLE_OP_LIBRARY, std::move(buffers));
    descs_.push_back(std::make_unique<crucible_library_desc>(desc));
    op.library = descs_.back().get();
    op.scratch_bytes = scratch_bytes;
  }
  std::span<const crucible_op> ops() const { return ops_; }
  crucible_op& at(std::size_t index) { return ops_[index]; }

 private:
  crucible_op& add(std::uint32_t kind, std::vector<std::uint64_t> buffers) {
    crucible_op& op = ops_.emplace_back();
    op.struct_size = sizeof(op);
    op.kind = kind;
    buffers_.push_back(std::make_unique<std::vector<std::uint64_t>>(std::move(buffers)));
    op.buffers = buffers_.back()->data();
    op.buffer_count = static_cast<std::uint32_t>(buffers_.back()->size());
    return op;
  }
  std::vector<crucible_op> ops_;
  std::vector<std::unique_ptr<std::vector<std::uint64_t>>> buffers_;
  std::vector<std::unique_ptr<std::vector<crucible_scalar>>> scalars_;
  std::vector<std::unique_ptr<crucible_library_desc>> descs_;
};

inline crucible_scalar fixed(double value) {
  return {std::bit_cast<std::uint64_t>(value), CRUCIBLE_SLOT_NONE, CRUCIBLE_SCALAR_F64};
}
inline crucible_scalar slot(std::uint32_t index) { return {0, index, CRUCIBLE_SCALAR_F64}; }
inline crucible_scalar whole_slot(std::uint32_t index) { return {0, index, CRUCIBLE_SCALAR_I64}; }

}  // namespace crucible::backend
