// Compiled modules as bytes: out, checked, in again; and every damaged byte refused.
#include <gmock/gmock.h>

#include <utility>

#include "backends/cpu/testing.hpp"

namespace crucible::backend {
namespace {

using testing::HasSubstr;

class CpuBinary : public CpuTest {
 protected:
  void SetUp() override {
    if (!has_clang()) GTEST_SKIP() << "no clang on this machine";
    device_ = open();
    const crucible_str name = text("k_double");
    crucible_kernel_source source = {sizeof(source), 0, name, text(kText), nullptr, 0};
    crucible_compile_info info = {sizeof(info), 9, 0, 0};
    ASSERT_EQ(message(compile().compile_sources(device_->handle(), text(""), &source, 1, &module_, &info)), "");
    EXPECT_EQ(info.from_cache, 0u);
    EXPECT_GT(info.binary_bytes, 0u);
    ASSERT_EQ(message(table().save(module_, collect, &binary_)), "");
  }
  void TearDown() override {
    if (module_ == nullptr) return;
    EXPECT_EQ(message(compile().unload(module_)), "");
  }
  static crucible_str text(std::string_view words) { return {words.data(), words.size()}; }
  static void collect(void* user, const crucible_kv* items, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) static_cast<std::string*>(user)->assign(items[i].s.data, items[i].s.size);
  }
  static std::string message(crucible_status status) {
    const Result<void> result = to_result(status, "call");
    return result ? "" : result.error().message;
  }
  std::uint32_t check(std::string_view bytes, std::string* why = nullptr) {
    std::uint32_t answer = 99;
    std::string reason;
    EXPECT_EQ(message(table().check(text("cpu:0"), text(bytes), &answer, collect, &reason)), "");
    EXPECT_NE(reason, "");
    if (why != nullptr) *why = reason;
    return answer;
  }
  const crucible_if_binary& table() const { return device_->backend().tables().binary; }
  const crucible_if_compile& compile() const { return device_->backend().tables().compile; }

  static constexpr std::string_view kText =
      "void k_double(void* const* b, const double* s, long begin, long end) {\n"
      "  float* x = b[0]; for (long i = begin; i < end; ++i) x[i] *= 2;\n}\n";
  std::shared_ptr<Device> device_;
  crucible_module* module_ = nullptr;
  std::string binary_;
};

TEST_F(CpuBinary, RunsAfterARoundTrip) {
  EXPECT_EQ(check(binary_), CRUCIBLE_BINARY_OPTIMAL);
  crucible_module* loaded = nullptr;
  ASSERT_EQ(message(table().load(device_->handle(), text(binary_), &loaded)), "");
  crucible_kernel* kernel = nullptr;
  ASSERT_EQ(message(compile().kernel(loaded, text("k_double"), &kernel)), "");
  const Buffer buffer = upload(device_, std::vector<float>{1, 2, 3});
  OpList list;
  list.launch(kernel, {buffer.address()}, 3);
  {
    Plan plan = take(Plan::build(device_, list.ops(), 0));
    CRUCIBLE_ASSERT_OK(plan.replay());
  }
  EXPECT_EQ(download<float>(buffer, 3), (std::vector<float>{2, 4, 6}));
  std::string again;
  EXPECT_EQ(message(table().save(loaded, collect, &again)), "");
  EXPECT_EQ(again, binary_);
  EXPECT_EQ(message(compile().unload(loaded)), "");
}

TEST_F(CpuBinary, SavesAModuleThatTheCacheCouldNotTake) {
  ASSERT_EQ(message(compile().unload(std::exchange(module_, nullptr))), "");
  device_.reset();
  device_ = open({{"cache_dir", "/proc/none"}});
  const crucible_str name = text("k_double"), words = text(kText);
  testing::internal::CaptureStderr();
  ASSERT_EQ(message(compile().compile(device_->handle(), text(""), &name, &words, 1, &module_, nullptr)), "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("not kept"));
  std::string binary;
  EXPECT_EQ(message(table().save(module_, collect, &binary)), "");
  EXPECT_EQ(check(binary), CRUCIBLE_BINARY_OPTIMAL);
}

TEST_F(CpuBinary, SeesEveryDamagedByte) {
  crucible_module* loaded = nullptr;
  const std::size_t step = std::max<std::size_t>(1, binary_.size() / 300);
  for (std::size_t i = 0; i < binary_.size(); i += i < 400 ? 1 : step) {
    std::string damaged = binary_;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    EXPECT_EQ(check(damaged), CRUCIBLE_BINARY_NEVER) << "byte " << i;
    EXPECT_NE(message(table().load(device_->handle(), text(damaged), &loaded)), "") << "byte " << i;
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{5}, std::size_t{30}, binary_.size() / 2, binary_.size() - 1}) {
    EXPECT_EQ(check(std::string_view(binary_).substr(0, size)), CRUCIBLE_BINARY_NEVER) << size;
  }
  EXPECT_EQ(loaded, nullptr);
}

TEST_F(CpuBinary, SaysWhyItCannotBeUsed) {
  std::string why;
  check("\x7f" "ELF is not ours", &why);
  EXPECT_THAT(why, HasSubstr("not a binary of the plugin cpu"));
  check(std::string_view(binary_).substr(0, binary_.size() - 1), &why);
  EXPECT_THAT(why, HasSubstr("was damaged"));
}

TEST_F(CpuBinary, TellsWhatItDependsOn) {
  std::string format;
  EXPECT_EQ(message(table().compatibility_key(text("cpu:0"), collect, &format)), "");
  EXPECT_EQ(format, "crucible cpu binary 1");
  EXPECT_NE(message(table().compatibility_key(text("cpu:0"), nullptr, nullptr)), "");
}

TEST_F(CpuBinary, AKernelThatIsNotThereIsRefusedByName) {
  crucible_kernel_source source = {sizeof(source), 0, text("k_ir"), text(""), nullptr, 0};
  crucible_module* none = nullptr;
  crucible_status status = compile().compile_sources(device_->handle(), text(""), &source, 1, &none, nullptr);
  ASSERT_NE(status, nullptr);
  const auto functions = abi::error_functions(status);
  EXPECT_EQ(functions.code(status), CRUCIBLE_E_UNSUPPORTED);
  crucible_str key = {}, value = {};
  ASSERT_EQ(functions.payload(status, 0, &key, &value), 1u);
  EXPECT_EQ(std::string(key.data, key.size), "kernel");
  EXPECT_EQ(std::string(value.data, value.size), "k_ir");
  EXPECT_EQ(functions.payload(status, 1, &key, &value), 0u);
  functions.destroy(status);
  source.ir = "ir", source.ir_size = 2;
  EXPECT_THAT(message(compile().compile_sources(device_->handle(), text(""), &source, 1, &none, nullptr)),
              HasSubstr("2 bytes, a kernel has at least 52"));
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace crucible::backend
