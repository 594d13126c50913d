// What a plugin may do wrong with the emulated MIOpen, which a real one may not notice: each with the status that it
// answers.
#include <gmock/gmock.h>

#include <array>

#include "backends/amd/miopen_types.hpp"
#include "tests/emulators/amd/testing.hpp"

namespace crucible::emulator {
namespace {

using crucible_amd::miopenConvolution, crucible_amd::miopenConvolutionDescriptor_t, crucible_amd::miopenConvSolution_t,
    crucible_amd::miopenFloat, crucible_amd::miopenHandle_t, crucible_amd::miopenMathPedantic,
    crucible_amd::miopenStatus_t, crucible_amd::miopenStatusBadParm, crucible_amd::miopenStatusSuccess,
    crucible_amd::miopenTensorDescriptor_t, crucible_amd::MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC,
    crucible_amd::MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE;

struct MiopenLibrary {
#define CRUCIBLE_TEST_MIOPEN_MEMBER(name, result, parameters) result(*name) parameters = nullptr;
  CRUCIBLE_MIOPEN_FUNCTIONS(CRUCIBLE_TEST_MIOPEN_MEMBER)
};

const MiopenLibrary& miopen() {
  static const MiopenLibrary library = [] {
    MiopenLibrary found;
    void* const handle = dlopen(CRUCIBLE_EMULATED_MIOPEN, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) ADD_FAILURE() << dlerror(), std::abort();
#define CRUCIBLE_TEST_MIOPEN_FIND(name, result, parameters) \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(handle, #name));
    CRUCIBLE_MIOPEN_FUNCTIONS(CRUCIBLE_TEST_MIOPEN_FIND)
    return found;
  }();
  return library;
}

constexpr miopenStatus_t kNotInitialized = 1, kInvalidValue = 2;

/// A forward convolution of long sums, ready to run.
class EmulatedMiopen : public HipTest {
 protected:
  void SetUp() override {
    HipTest::SetUp();
    EXPECT_HIP(hip().hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
    EXPECT_EQ(miopen().miopenCreateWithStream(&handle_, stream_), miopenStatusSuccess);
    x_ = tensor({1, 32, 4, 4}), weight_ = tensor({8, 32, 3, 3}), y_ = tensor({1, 8, 2, 2});
    EXPECT_EQ(miopen().miopenCreateConvolutionDescriptor(&how_), miopenStatusSuccess);
    init(how_);
    places_ = {allocate<float>(32 * 16), allocate<float>(8 * 32 * 9), allocate<float>(8 * 4), allocate<float>(1024)};
  }
  void TearDown() override {
    for (const miopenTensorDescriptor_t each : tensors_)
      EXPECT_EQ(miopen().miopenDestroyTensorDescriptor(each), miopenStatusSuccess);
    EXPECT_EQ(miopen().miopenDestroyConvolutionDescriptor(how_), miopenStatusSuccess);
    EXPECT_EQ(miopen().miopenDestroy(handle_), miopenStatusSuccess);
    EXPECT_HIP(hip().hipStreamDestroy(stream_));
    HipTest::TearDown();
  }
  static void init(miopenConvolutionDescriptor_t how) {
    const std::array<int, 2> zeros = {0, 0}, ones = {1, 1};
    EXPECT_EQ(
        miopen().miopenInitConvolutionNdDescriptor(how, 2, zeros.data(), ones.data(), ones.data(), miopenConvolution),
        miopenStatusSuccess);
  }
  miopenTensorDescriptor_t tensor(std::array<int, 4> sizes, int more = 0) {
    miopenTensorDescriptor_t result = nullptr;
    EXPECT_EQ(miopen().miopenCreateTensorDescriptor(&result), miopenStatusSuccess);
    const std::array<int, 4> strides = {sizes[1] * sizes[2] * sizes[3] + more, sizes[2] * sizes[3], sizes[3], 1};
    EXPECT_EQ(miopen().miopenSetTensorDescriptor(result, miopenFloat, 4, sizes.data(), strides.data()),
              miopenStatusSuccess);
    tensors_.push_back(result);
    return result;
  }
  /// Of the forward problem: operands as the functions take them.
  std::vector<miopenConvSolution_t> solutions(miopenTensorDescriptor_t first, miopenTensorDescriptor_t second,
                                              miopenTensorDescriptor_t result) {
    std::size_t count = 0;
    const miopenStatus_t status =
        miopen().miopenConvolutionForwardGetSolutionCount(handle_, first, second, how_, result, &count);
    if (status != miopenStatusSuccess || count == 0) return {};
    std::vector<miopenConvSolution_t> all(count);
    EXPECT_EQ(
        miopen().miopenConvolutionForwardGetSolution(handle_, first, second, how_, result, count, &count, all.data()),
        miopenStatusSuccess);
    EXPECT_EQ(count, all.size());
    return all;
  }
  miopenStatus_t run(std::uint64_t solution, std::size_t workspace_bytes = 4096, void* workspace = nullptr) {
    return miopen().miopenConvolutionForwardImmediate(handle_, weight_, places_[1], x_, places_[0], how_, y_,
                                                      places_[2], workspace == nullptr ? places_[3] : workspace,
                                                      workspace_bytes, solution);
  }

  hipStream_t stream_ = nullptr;
  miopenHandle_t handle_ = nullptr;
  miopenTensorDescriptor_t x_ = nullptr, weight_ = nullptr, y_ = nullptr;
  miopenConvolutionDescriptor_t how_ = nullptr;
  std::array<float*, 4> places_ = {};

 private:
  std::vector<miopenTensorDescriptor_t> tensors_;
};

TEST_F(EmulatedMiopen, DescriptorsHaveAnOrder) {
  EXPECT_EQ(solutions(x_, weight_, y_).size(), 0u);
  EXPECT_EQ(solutions(weight_, y_, x_).size(), 0u);
  EXPECT_GT(solutions(weight_, x_, y_).size(), 0u);
}

TEST_F(EmulatedMiopen, DescriptorsAreSetBeforeTheyAreUsed) {
  miopenConvolutionDescriptor_t how = nullptr;
  ASSERT_EQ(miopen().miopenCreateConvolutionDescriptor(&how), miopenStatusSuccess);
  EXPECT_EQ(miopen().miopenSetConvolutionGroupCount(how, 2), miopenStatusBadParm);
  EXPECT_EQ(miopen().miopenSetConvolutionAttribute(how, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1),
            miopenStatusBadParm);
  init(how);
  EXPECT_EQ(miopen().miopenSetConvolutionGroupCount(how, 2), miopenStatusSuccess);
  EXPECT_EQ(miopen().miopenDestroyConvolutionDescriptor(how), miopenStatusSuccess);
  EXPECT_EQ(miopen().miopenDestroyConvolutionDescriptor(how), miopenStatusBadParm);
  // The groups must be those of the tensors.
  EXPECT_EQ(miopen().miopenSetConvolutionGroupCount(how_, 2), miopenStatusSuccess);
  EXPECT_EQ(solutions(weight_, x_, y_).size(), 0u);
}

TEST_F(EmulatedMiopen, AttributesLeaveSolutionsOut) {
  EXPECT_EQ(solutions(weight_, x_, y_).size(), 4u);
  EXPECT_EQ(miopen().miopenSetConvolutionAttribute(how_, MIOPEN_CONVOLUTION_ATTRIB_DETERMINISTIC, 1),
            miopenStatusSuccess);
  EXPECT_EQ(solutions(weight_, x_, y_).size(), 3u);
  EXPECT_EQ(miopen().miopenSetConvolutionAttribute(how_, MIOPEN_CONVOLUTION_ATTRIB_MATH_TYPE, miopenMathPedantic),
            miopenStatusSuccess);
  EXPECT_EQ(solutions(weight_, x_, y_).size(), 2u);
  EXPECT_EQ(miopen().miopenSetConvolutionAttribute(how_, 77, 1), miopenStatusBadParm);
}

TEST_F(EmulatedMiopen, TensorsWithGapsHaveNoSolution) {
  EXPECT_EQ(solutions(weight_, tensor({1, 32, 4, 4}, 1), y_).size(), 0u);
}

TEST_F(EmulatedMiopen, ASolutionBelongsToItsProblem) {
  const std::uint64_t ours = solutions(weight_, x_, y_).back().solution_id;
  const auto other_x = tensor({2, 32, 4, 4}), other_y = tensor({2, 8, 2, 2});
  const std::uint64_t others = solutions(weight_, other_x, other_y).back().solution_id;
  EXPECT_EQ(solutions(weight_, x_, y_).back().solution_id, ours);
  EXPECT_EQ(miopen().miopenConvolutionForwardCompileSolution(handle_, weight_, x_, how_, y_, others), kInvalidValue);
  EXPECT_EQ(run(others), kInvalidValue);
  EXPECT_EQ(run(0), kInvalidValue);
  EXPECT_EQ(miopen().miopenConvolutionForwardCompileSolution(handle_, weight_, x_, how_, y_, ours),
            miopenStatusSuccess);
  EXPECT_EQ(run(ours), miopenStatusSuccess);
  EXPECT_HIP(hip().hipStreamSynchronize(stream_));
}

TEST_F(EmulatedMiopen, AWorkspaceIsLargeEnoughAndOnTheDevice) {
  const std::vector<miopenConvSolution_t> all = solutions(weight_, x_, y_);
  const miopenConvSolution_t& wants = all[2];
  ASSERT_EQ(wants.workspace_size, 4096u);
  std::vector<std::byte> of_the_host(4096);
  EXPECT_EQ(run(wants.solution_id, 4095), kInvalidValue);
  EXPECT_EQ(run(wants.solution_id, 4096, of_the_host.data()), kInvalidValue);
  EXPECT_EQ(run(wants.solution_id), miopenStatusSuccess);
  EXPECT_EQ(run(all[3].solution_id, 0), miopenStatusSuccess);
  EXPECT_HIP(hip().hipStreamSynchronize(stream_));
}

TEST_F(EmulatedMiopen, ACallHasAStreamAndDeviceMemory) {
  const std::uint64_t solution = solutions(weight_, x_, y_).back().solution_id;
  EXPECT_EQ(miopen().miopenSetStream(handle_, nullptr), miopenStatusSuccess);
  EXPECT_EQ(run(solution), kNotInitialized);
  EXPECT_EQ(miopen().miopenSetStream(handle_, stream_), miopenStatusSuccess);
  std::vector<float> of_the_host(32);
  places_[2] = of_the_host.data();
  EXPECT_EQ(run(solution), miopenStatusBadParm);
}

}  // namespace
}  // namespace crucible::emulator
