// What the plugin asks of cuDNN, asked of NVIDIA's own library in its deviceless mode (tests/emulators/nvidia,
// cudnn_deviceless.cpp), for A100, H100 and B200: whether the graphs that the plugin makes are accepted, and by what
// kind of engine. Nothing can run. The library is that of torch's packages, or of CRUCIBLE_REAL_CUDNN.
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "backends/nvidia/testing.hpp"
#include "plugins/sdk/testing/device_attentions.hpp"
#include "plugins/sdk/testing/device_convolutions.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DevicePlugin);  // other tests of the plugin have those
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceAttentions);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceConvolutions);

constexpr std::uint32_t kBF16 = 7, kF32 = 8, kTypes[] = {6, kBF16};
constexpr std::uint32_t kConvolutions[] = {CRUCIBLE_LIB_CONV2D, CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT,
                                           CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT};

std::filesystem::path deviceless() { return emulated_cudnn().parent_path() / "deviceless" / "libcudnn.so.9"; }

class NvidiaRealCudnn : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const char* const named = std::getenv("CRUCIBLE_REAL_CUDNN");
    const std::string real = named != nullptr && *named != '\0' ? named : CRUCIBLE_TEST_CUDNN;
    if (real.empty() || !std::filesystem::exists(real))
      GTEST_SKIP() << "there is no real cuDNN: install PyPI's nvidia-cudnn-cu13 (torch for CUDA brings it), or name "
                      "its libcudnn.so.9 with CRUCIBLE_REAL_CUDNN";
    if (!std::filesystem::exists(deviceless()))
      GTEST_SKIP() << "its deviceless mode was not built (crucible_deviceless_cudnn)";
    setenv("CRUCIBLE_REAL_CUDNN", real.c_str(), 1);
    setenv("CRUCIBLE_DEVICELESS", GetParam(), 1);
    setenv("CRUCIBLE_EMU_MEMORY_MIB", "81920", 1);  // scratch is limited by it; nothing is written into it
    open({});
  }
  void open(const Options& more) {
    device_.reset();
    Options options = {{"cudnn", deviceless().string()}};
    for (const auto& [name, value] : more) options[name] = value;
    device_ = take(try_open(with_cudnn(options)));
  }
  /// "engine 62, tensor cores, 131 bytes", or why it is not taken.
  std::string told(const crucible_library_desc& desc) {
    std::uint64_t scratch = 0;
    const auto claimed = to_result(device_->backend().library_table().claim(device_->handle(), &desc, &scratch), "");
    if (!claimed) return claimed.error().message;
    void* const library = dlopen(deviceless().c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto last = reinterpret_cast<const char* (*)()>(dlsym(library, "crucible_emulator_last_plan"));
    std::string text = last();
    dlclose(library);
    EXPECT_THAT(text, HasSubstr(", " + std::to_string(scratch) + " bytes"));
    return text;
  }
  std::shared_ptr<Device> device_;
};

TEST_P(NvidiaRealCudnn, TakesAttention) {
  const AttentionShape gpt = {.batch = 4, .heads = 12, .rows = 1024, .keys = 1024, .width = 64, .values = 64};
  for (const std::uint32_t dtype : kTypes) {
    for (const bool is_causal : {false, true}) {
      AttentionShape shape = gpt;
      shape.is_causal = is_causal, shape.across = true;
      EXPECT_THAT(told(attention_of(shape, dtype)), HasSubstr("engine ")) << dtype << " causal " << is_causal;
    }
  }
  EXPECT_THAT(told(attention_of(gpt)), HasSubstr("engine ")) << "heads one behind the other";
  AttentionShape odd = gpt;
  odd.rows = odd.keys = 77, odd.is_causal = true;
  EXPECT_THAT(told(attention_of(odd)), HasSubstr("engine "));
  EXPECT_THAT(told(attention_of({.heads = 12, .rows = 1, .keys = 512, .width = 64, .values = 64})),
              HasSubstr("engine "));
  EXPECT_THAT(told(attention_of({.heads = 12, .rows = 128, .keys = 128, .width = 80, .values = 80})),
              HasSubstr("engine "));
  EXPECT_THAT(told(attention_of({.heads = 8, .rows = 256, .keys = 256, .width = 128, .values = 128})),
              HasSubstr("engine "));
}

/// Both directions, by engines that add in one order. Those of the gradient keep two bytes of each score in their
/// workspace, and not the six that they keep where the form is not quite theirs.
TEST_P(NvidiaRealCudnn, TakesAttentionInTraining) {
  AttentionShape gpt = {.batch = 4, .heads = 12, .rows = 1024, .keys = 1024, .width = 64, .values = 64};
  gpt.across = true;
  const std::uint64_t scores = 4 * 12 * 1024 * 1024;
  for (const std::uint32_t kind : {CRUCIBLE_LIB_ATTENTION_FORWARD, CRUCIBLE_LIB_ATTENTION_BACKWARD}) {
    for (const std::uint32_t dtype : kTypes) {
      for (const bool is_causal : {false, true}) {
        AttentionShape shape = gpt;
        shape.kind = kind, shape.is_causal = is_causal;
        const std::string text = told(attention_of(shape, dtype));
        EXPECT_THAT(text, AllOf(HasSubstr("engine "), HasSubstr("tensor cores"))) << kind << " " << dtype << is_causal;
        const std::size_t comma = text.rfind(", ");
        if (comma != std::string::npos) {
          EXPECT_LT(std::strtoull(text.c_str() + comma + 2, nullptr, 10), 3 * scores) << text;
        }
      }
    }
    AttentionShape other = gpt;
    other.kind = kind, other.across = false;
    EXPECT_THAT(told(attention_of(other)), HasSubstr("engine ")) << "heads one behind the other";
    other.width = other.values = 128, other.is_causal = true;
    EXPECT_THAT(told(attention_of(other)), HasSubstr("engine "));
    other = gpt;
    other.kind = kind, other.rows = other.keys = 77, other.is_causal = true;
    EXPECT_THAT(told(attention_of(other)), HasSubstr("engine ")) << "rows that fill no tile";
  }
}

TEST_P(NvidiaRealCudnn, ConvolutionsOfHalvesAreOnTensorCores) {
  const ConvolutionShape resnet50[] = {
      {.n = 256,
       .channels = 3,
       .height = 224,
       .width = 224,
       .outputs = 64,
       .kernel = {7, 7},
       .stride = {2, 2},
       .padding = {3, 3}},
      {.n = 256, .channels = 64, .height = 56, .width = 56, .outputs = 64, .padding = {1, 1}},
      {.n = 256, .channels = 64, .height = 56, .width = 56, .outputs = 256, .kernel = {1, 1}},
      {.n = 256, .channels = 256, .height = 56, .width = 56, .outputs = 512, .kernel = {1, 1}, .stride = {2, 2}},
      {.n = 256, .channels = 512, .height = 7, .width = 7, .outputs = 512, .padding = {1, 1}}};
  for (const ConvolutionShape& shape : resnet50) {
    for (const std::uint32_t kind : kConvolutions) {
      for (const bool is_channels_last : {false, true}) {
        EXPECT_THAT(told(convolution_of(shape, kind, kBF16, is_channels_last)), HasSubstr("tensor cores"))
            << shape.channels << " to " << shape.outputs << " kind " << kind << " NHWC " << is_channels_last;
      }
    }
  }
}

TEST_P(NvidiaRealCudnn, ConvolutionsOfF32AreOnTensorCoresWhereThatIsAllowedAlone) {
  const ConvolutionShape shape = {.n = 32, .channels = 64, .height = 56, .width = 56, .outputs = 64, .padding = {1, 1}};
  for (const std::uint32_t kind : kConvolutions)
    EXPECT_THAT(told(convolution_of(shape, kind, kF32)), AllOf(HasSubstr("engine "), Not(HasSubstr("tensor cores"))));
  open({{"tf32", "true"}});
  for (const std::uint32_t kind : kConvolutions)
    EXPECT_THAT(told(convolution_of(shape, kind, kF32)), HasSubstr("tensor cores"));
}

INSTANTIATE_TEST_SUITE_P(Devices, NvidiaRealCudnn, ::testing::Values("sm_80", "sm_90", "sm_100"),
                         [](const auto& device) { return std::string(device.param); });

}  // namespace
}  // namespace crucible::backend
