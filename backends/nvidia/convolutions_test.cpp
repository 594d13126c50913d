// Convolutions by cuDNN through the loader, on the emulated driver and library: forward and both gradients against sums in double, in
// a plan and op by op; what is said of a library that is absent or fails.
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "backends/nvidia/testing.hpp"

namespace crucible::backend {
namespace {

using ::testing::HasSubstr;

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DevicePlugin);  // those are nvidia_test's

constexpr std::uint32_t kF16 = 6, kBF16 = 7, kF32 = 8;

std::filesystem::path emulated_cudnn() { return std::filesystem::path(CRUCIBLE_TEST_CUDA).parent_path() / "libcudnn.so.9"; }

PluginUnderTest with_cudnn(const Options& more = {}) {
  Options options = {{"cudnn", emulated_cudnn().string()}, {"dnn", "cudnn"}};
  for (const auto& [name, value] : more) options[name] = value;
  return emulated_nvidia(options);
}

struct Shape {
  std::int64_t n = 2, channels = 4, height = 9, width = 7, outputs = 6, groups = 1;
  std::array<std::int64_t, 2> kernel = {3, 3}, stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
};

crucible_view view_of(std::array<std::int64_t, 4> sizes, bool is_channels_last, std::uint32_t dtype, std::int64_t offset) {
  crucible_view view = {};
  view.rank = 4, view.dtype = dtype, view.offset = offset;
  std::int64_t stride = 1;
  for (const std::size_t i : is_channels_last ? std::array<std::size_t, 4>{1, 3, 2, 0} : std::array<std::size_t, 4>{3, 2, 1, 0}) {
    view.sizes[i] = sizes[i];
    view.strides[i] = stride;
    stride *= sizes[i];
  }
  return view;
}

crucible_library_desc describe(const Shape& s, std::uint32_t kind, std::uint32_t dtype, bool is_channels_last = false, std::int64_t offset = 0) {
  crucible_library_desc desc = {};
  desc.struct_size = sizeof(desc);
  desc.kind = kind;
  std::array<std::int64_t, 2> out;
  const std::array<std::int64_t, 2> in = {s.height, s.width};
  for (std::size_t i = 0; i < 2; ++i) {
    out[i] = (in[i] + 2 * s.padding[i] - (s.kernel[i] - 1) * s.dilation[i] - 1) / s.stride[i] + 1;
    desc.stride[i] = s.stride[i], desc.padding[i] = s.padding[i], desc.dilation[i] = s.dilation[i];
  }
  desc.groups = s.groups;
  const auto x = view_of({s.n, s.channels, s.height, s.width}, is_channels_last, dtype, offset);
  const auto weight = view_of({s.outputs, s.channels / s.groups, s.kernel[0], s.kernel[1]}, is_channels_last, dtype, offset);
  const auto y = view_of({s.n, s.outputs, out[0], out[1]}, is_channels_last, dtype, offset);
  desc.views[0] = kind == CRUCIBLE_LIB_CONV2D ? x : y;
  desc.views[1] = kind == CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT ? x : weight;
  desc.views[2] = kind == CRUCIBLE_LIB_CONV2D ? y : kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT ? x : weight;
  return desc;
}

std::size_t place(const crucible_view& v, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<std::size_t>(v.offset + a * v.strides[0] + b * v.strides[1] + c * v.strides[2] + d * v.strides[3]);
}
std::size_t extent(const crucible_view& v) { return place(v, v.sizes[0] - 1, v.sizes[1] - 1, v.sizes[2] - 1, v.sizes[3] - 1) + 1; }

/// The result's buffer: what it had, with the view overwritten by sums in double.
std::vector<double> expected_of(const crucible_library_desc& desc, const std::vector<double>& a, const std::vector<double>& b, std::vector<double> c) {
  const bool is_forward = desc.kind == CRUCIBLE_LIB_CONV2D, is_input = desc.kind == CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT;
  const crucible_view &x = desc.views[is_forward ? 0 : is_input ? 2 : 1], &y = desc.views[is_forward ? 2 : 0], &w = desc.views[is_forward || is_input ? 1 : 2];
  const crucible_view& r = desc.views[2];
  for (std::int64_t p = 0; p < r.sizes[0]; ++p)
    for (std::int64_t q = 0; q < r.sizes[1]; ++q)
      for (std::int64_t i = 0; i < r.sizes[2]; ++i)
        for (std::int64_t j = 0; j < r.sizes[3]; ++j) c[place(r, p, q, i, j)] = 0;
  const std::int64_t per_group = w.sizes[0] / desc.groups;
  for (std::int64_t n = 0; n < y.sizes[0]; ++n)
    for (std::int64_t o = 0; o < y.sizes[1]; ++o)
      for (std::int64_t h = 0; h < y.sizes[2]; ++h)
        for (std::int64_t v = 0; v < y.sizes[3]; ++v)
          for (std::int64_t i = 0; i < w.sizes[1]; ++i)
            for (std::int64_t p = 0; p < w.sizes[2]; ++p)
              for (std::int64_t q = 0; q < w.sizes[3]; ++q) {
                const std::int64_t row = h * desc.stride[0] + p * desc.dilation[0] - desc.padding[0];
                const std::int64_t column = v * desc.stride[1] + q * desc.dilation[1] - desc.padding[1];
                if (row < 0 || column < 0 || row >= x.sizes[2] || column >= x.sizes[3]) continue;
                const std::size_t at_x = place(x, n, o / per_group * w.sizes[1] + i, row, column), at_w = place(w, o, i, p, q), at_y = place(y, n, o, h, v);
                if (is_forward) c[at_y] += a[at_x] * b[at_w];
                if (is_input) c[at_x] += a[at_y] * b[at_w];
                if (!is_forward && !is_input) c[at_w] += a[at_y] * b[at_x];
              }
  return c;
}

std::size_t size_of(std::uint32_t dtype) { return dtype == kF32 ? 4 : 2; }

/// n / 8 for n from -8 to 8: every type holds them.
std::vector<double> numbers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<double> values(count);
  for (double& value : values) value = static_cast<double>(static_cast<int>(random() % 17) - 8) / 8;
  return values;
}

std::vector<std::byte> bytes_of(const std::vector<double>& values, std::uint32_t dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto number = static_cast<float>(values[i]);
    const auto half = static_cast<_Float16>(number);
    const auto brain = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number) >> 16);
    std::memcpy(bytes.data() + i * size_of(dtype), dtype == kF32 ? static_cast<const void*>(&number) : dtype == kF16 ? static_cast<const void*>(&half) : &brain, size_of(dtype));
  }
  return bytes;
}

double number_at(const std::vector<std::byte>& bytes, std::size_t i, std::uint32_t dtype) {
  float number = 0;
  _Float16 half = 0;
  std::uint16_t brain = 0;
  std::memcpy(dtype == kF32 ? static_cast<void*>(&number) : dtype == kF16 ? static_cast<void*>(&half) : &brain, bytes.data() + i * size_of(dtype), size_of(dtype));
  return static_cast<double>(dtype == kF32 ? number : dtype == kF16 ? static_cast<float>(half) : std::bit_cast<float>(static_cast<std::uint32_t>(brain) << 16));
}

/// Claims, builds, replays twice and profiles; "" or what went wrong. `shift`: elements that all buffers begin behind a good place.
std::string run(const std::shared_ptr<Device>& device, const crucible_library_desc& desc, std::size_t shift = 0, bool gives_scratch = true) {
  const std::uint32_t dtype = desc.views[0].dtype;
  std::uint64_t scratch = 0;
  if (const auto claimed = to_result(device->backend().library_table().claim(device->handle(), &desc, &scratch), "claim"); !claimed) return claimed.error().message;
  const std::vector<double> a = numbers(extent(desc.views[0]), 1), b = numbers(extent(desc.views[1]), 2), c = numbers(extent(desc.views[2]), 3);
  const std::uint64_t moved = shift * size_of(dtype);
  std::vector<Buffer> buffers;
  std::vector<std::uint64_t> places;
  for (const auto& values : {a, b, c}) {
    buffers.push_back(take(Buffer::allocate(device, moved + values.size() * size_of(dtype), 256)));
    EXPECT_TRUE(buffers.back().write(moved, bytes_of(values, dtype)));
    places.push_back(buffers.back().address() + moved);
  }
  buffers.push_back(take(Buffer::allocate(device, scratch + 1, 256)));
  places.push_back(buffers.back().address());
  crucible_op op = {};
  op.struct_size = sizeof(op);
  op.kind = CRUCIBLE_OP_LIBRARY;
  op.library = &desc;
  op.buffers = places.data();
  op.buffer_count = 4;
  op.scratch_bytes = gives_scratch ? scratch : 0;
  auto plan = Plan::build(device, std::span(&op, 1), 0);
  if (!plan) return plan.error().message;
  const std::vector<double> expected = expected_of(desc, a, b, c);
  const double tolerance = dtype == kF32 ? 1e-5 : dtype == kF16 ? 1e-3 : 8e-3;
  for (const char* how : {"plan", "plan again", "op by op"}) {  // an old result must not be added
    if (std::string(how) == "op by op") {
      EXPECT_TRUE(plan->profile());
    } else if (const auto replayed = plan->replay(); !replayed) {
      return replayed.error().message;
    }
    std::vector<std::byte> bytes(c.size() * size_of(dtype));
    EXPECT_TRUE(buffers[2].read(moved, bytes));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::fabs(number_at(bytes, i, dtype) - expected[i]) > tolerance * (1 + std::fabs(expected[i])))
        return std::string("wrong result, ") + how + ": element " + std::to_string(i) + " is " + std::to_string(number_at(bytes, i, dtype)) + ", expected " + std::to_string(expected[i]);
    }
  }
  return "";
}

constexpr std::uint32_t kKinds[] = {CRUCIBLE_LIB_CONV2D, CRUCIBLE_LIB_CONV2D_BACKWARD_INPUT, CRUCIBLE_LIB_CONV2D_BACKWARD_WEIGHT};

class NvidiaConvolutions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(emulated_cudnn())) GTEST_SKIP() << "no emulated cuDNN was built (crucible_emulated_cudnn)";
  }
  static void expect_told(const char* rules, const std::string& part, const Options& more = {}) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
          setenv("CRUCIBLE_EMU_FAULTS", rules, 1);
          const auto device = try_open(with_cudnn(more));
          const std::string told = device ? run(*device, describe({}, CRUCIBLE_LIB_CONV2D, kF32)) : device.error().message;
          std::fprintf(stderr, "told: %s\n", told.c_str());
          std::_Exit(part.empty() ? !told.empty() : told.find(part) == std::string::npos);
        },
        ::testing::ExitedWithCode(0), "told: ")
        << rules;
  }
  static std::string told_of(const Options& options) {
    const auto device = try_open(with_cudnn(options));
    return device ? property(*device, "convolutions") : device.error().message;
  }
};

TEST_F(NvidiaConvolutions, EveryKindTypeLayoutAndGeometry) {
  const auto device = take(try_open(with_cudnn()));
  const Shape shapes[] = {{},
                          {.padding = {1, 1}},
                          {.stride = {2, 2}, .padding = {1, 1}},
                          {.stride = {2, 1}, .padding = {0, 2}, .dilation = {2, 1}},
                          {.kernel = {1, 1}},
                          {.n = 1, .channels = 1, .outputs = 1, .kernel = {3, 1}, .stride = {3, 2}},
                          {.groups = 2, .padding = {1, 1}},
                          {.outputs = 8, .groups = 4, .kernel = {3, 2}, .stride = {1, 2}, .dilation = {1, 2}},
                          {.channels = 32, .outputs = 4, .padding = {1, 1}},
                          {.height = 3, .width = 3}};
  for (const Shape& shape : shapes) {
    for (const std::uint32_t kind : kKinds) {
      for (const std::uint32_t dtype : {kF32, kF16, kBF16}) {
        for (const bool is_channels_last : {false, true}) {
          const std::string told = run(device, describe(shape, kind, dtype, is_channels_last, 5));
          EXPECT_EQ(told, "") << "shape " << &shape - shapes << " kind " << kind << " type " << dtype << " " << is_channels_last;
        }
      }
    }
  }
}

TEST_F(NvidiaConvolutions, WorsePlacesAndLessScratchThanWereClaimedWorkToo) {
  const auto device = take(try_open(with_cudnn()));
  const crucible_library_desc desc = describe({.channels = 32}, CRUCIBLE_LIB_CONV2D, kF32);
  std::uint64_t scratch = 0;
  EXPECT_TRUE(to_result(device->backend().library_table().claim(device->handle(), &desc, &scratch), "claim"));
  EXPECT_EQ(scratch, 4096u);  // the emulated library's own rule
  for (const std::size_t shift : {0, 1, 3}) {
    EXPECT_EQ(run(device, desc, shift), "");
    EXPECT_EQ(run(device, desc, shift, false), "");
  }
}

TEST_F(NvidiaConvolutions, WhatIsNotTakenIsUnsupported) {
  const auto device = take(try_open(with_cudnn()));
  crucible_library_desc desc = describe({}, CRUCIBLE_LIB_CONV2D, 9);
  EXPECT_THAT(run(device, desc), HasSubstr("only f16, bf16 and f32"));
  desc = describe({}, CRUCIBLE_LIB_CONV2D, kF32);
  desc.views[0].strides[0] = 0;
  EXPECT_THAT(run(device, desc), HasSubstr("a stride below 1"));
  desc.views[0].strides[0] = 4;
  EXPECT_THAT(run(device, desc), HasSubstr("a tensor overlaps itself"));
  desc = describe({}, CRUCIBLE_LIB_CONV2D, kF32);
  desc.stride[1] = 2;
  EXPECT_THAT(run(device, desc), HasSubstr("the result's size does not fit"));
}

TEST_F(NvidiaConvolutions, TheLibraryIsNamedAndAnAbsentOneIsSaid) {
  EXPECT_THAT(told_of({}), HasSubstr("cuDNN 9."));
  EXPECT_THAT(told_of({{"dnn", "none"}}), HasSubstr("none (switched off by the option dnn; convolutions are generated"));
  EXPECT_THAT(told_of({{"dnn", "auto"}, {"cudnn", "/nowhere/libcudnn.so.9"}}), HasSubstr("none (cuDNN /nowhere/libcudnn.so.9 cannot be loaded"));
  EXPECT_THAT(told_of({{"dnn", "auto"}, {"cudnn", "libz.so.1"}}), HasSubstr("lacks cudnnGetVersion"));
  EXPECT_THAT(told_of({{"dnn", "auto"}, {"cudnn", "/"}}), HasSubstr("the folder / of the option cudnn has no libcudnn.so.9 or .8"));
  EXPECT_THAT(told_of({{"dnn", "auto"}, {"cudnn", ""}}), HasSubstr("an emulated device takes only"));
  EXPECT_THAT(told_of({{"cudnn", "/nowhere/libcudnn.so.9"}}), HasSubstr("the option dnn demands cuDNN: "));
}

TEST_F(NvidiaConvolutions, FaultsAreTold) {
  expect_told("fail@init(cudnnCreate)", "does not start on nvidia:0: cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED");
  expect_told("fail@query(conv_f32_forward*)", "has no plan for conv2d f32");
  expect_told("oom@query(conv*)", "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED");
  expect_told("fail@compile(conv*)", "has no plan for conv2d f32");
  expect_told("fail@compile(conv*)#1", "");  // the next engine does it
  expect_told("fail@launch(conv*)", "cudnnBackendExecute of conv2d f32");
  expect_told("fail@record(cuStreamEndCapture)", "a convolution by cuDNN (option dnn=none does without)");
  expect_told("flip:byte=3,bit=5@launch(conv*)", "wrong result");
}

TEST_F(NvidiaConvolutions, Tf32IsOffUntilItIsAllowed) {
  expect_told("fail@launch(conv_tf32*)", "");
  expect_told("fail@launch(conv_tf32*)", "cudnnBackendExecute", {{"tf32", "true"}});
}

}  // namespace
}  // namespace crucible::backend
