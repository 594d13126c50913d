// The plugin as a file and as an answer to the query: what it exports, what it links, whom it refuses, which options
// and arguments it does not take.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <array>
#include <cstdio>

#include "backends/cpu/testing.hpp"

namespace crucible::backend {
namespace {

using testing::HasSubstr;

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 256> buffer;
  while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  if (pipe != nullptr) pclose(pipe);
  return text;
}

class CpuPlugin : public CpuTest {};

TEST_F(CpuPlugin, ExportsOneSymbol) {
  if (output_of("command -v nm").empty()) GTEST_SKIP() << "no nm on this machine";
  const std::string names =
      output_of("nm -D --defined-only --format=just-symbols '" + take(find_backend("cpu")).string() + "'");
  EXPECT_EQ(names, "crucible_plugin_query\n");
}

TEST_F(CpuPlugin, LinksNoVendorLibraryAndNothingOfCore) {
  const std::string libraries = output_of("ldd '" + take(find_backend("cpu")).string() + "'");
  ASSERT_THAT(libraries, HasSubstr("libc.so"));
  for (const char* name :
       {"dnnl", "gomp", "iomp", "mkl", "torch", "LLVM", "clang", "crucible", "boost", "fmt", "OpenCL"}) {
    EXPECT_THAT(libraries, testing::Not(HasSubstr(name)));
  }
}

TEST_F(CpuPlugin, RefusesOtherHostsInWords) {
  void* handle = dlopen(take(find_backend("cpu")).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  const auto query = reinterpret_cast<crucible_plugin_query_fn>(dlsym(handle, CRUCIBLE_QUERY_SYMBOL));
  ASSERT_NE(query, nullptr);
  const auto ask = [&](crucible_query_in in, std::uint32_t out_size = sizeof(crucible_query_out)) {
    crucible_query_out out{};
    out.struct_size = out_size;
    const std::int32_t code = query(&in, &out);
    return std::pair(code, std::string(out.reject_reason));
  };
  const crucible_query_in good = {sizeof(good), CRUCIBLE_MAGIC, CRUCIBLE_ABI_MAJOR, CRUCIBLE_ABI_MINOR};
  EXPECT_EQ(ask(good).first, 0);
  crucible_query_in newer = good, junk = good, small = good;
  newer.host_major = CRUCIBLE_ABI_MAJOR + 1;
  junk.magic = 0x12345678;
  small.struct_size = 4;
  EXPECT_THAT(ask(newer).second, HasSubstr("major numbers must be equal"));
  EXPECT_THAT(ask(junk).second, HasSubstr("size or magic"));
  EXPECT_NE(ask(small).first, 0);
  EXPECT_NE(ask(good, 8).first, 0);
  EXPECT_NE(query(&good, nullptr), 0);
  EXPECT_NE(query(nullptr, nullptr), 0);
}

TEST_F(CpuPlugin, ListsOneDeviceWithItsThreads) {
  const auto device = open({{"threads", "3"}});
  const auto devices = take(const_cast<Backend&>(device->backend()).devices());
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].id, "cpu:0");
  EXPECT_EQ(devices[0].kind, "cpu");
  EXPECT_GT(devices[0].memory_bytes, 0u);
  EXPECT_GE(devices[0].threads, 1u);
  EXPECT_THAT(take(device->properties()), testing::Contains(testing::Pair("threads", "3")));
  EXPECT_THAT(take(device->properties()), testing::Contains(testing::Pair("dialect", "c")));
}

TEST_F(CpuPlugin, RefusesOptionsThatItDoesNotKnow) {
  const auto path = take(find_backend("cpu"));
  for (const Options& options : {Options{{"threads", "many"}}, Options{{"threads", "0"}}, Options{{"threads", "9999"}},
                                 Options{{"library", "magic"}}}) {
    const auto device = take(Backend::load(path, options))->open("");
    ASSERT_FALSE(device) << options.begin()->second;
    EXPECT_EQ(device.error().code, ErrorCode::kBadInput);
    EXPECT_THAT(device.error().message, HasSubstr("'" + options.begin()->second + "'"));
  }
}

TEST_F(CpuPlugin, AnswersNullArgumentsWithErrors) {
  const auto device = open();
  const Backend& backend = device->backend();
  crucible_buffer* buffer = nullptr;
  const auto fails = [](crucible_status status) { return !to_result(status, "call"); };
  EXPECT_TRUE(fails(backend.device_table().enumerate(nullptr, nullptr)));
  EXPECT_TRUE(fails(backend.device_table().open({nullptr, 0}, nullptr)));
  EXPECT_TRUE(fails(backend.memory_table().alloc(nullptr, 1, 1, &buffer)));
  EXPECT_TRUE(fails(backend.memory_table().alloc(device->handle(), 1, 3, &buffer)));
  EXPECT_TRUE(fails(backend.memory_table().write(nullptr, 0, nullptr, 0)));
  EXPECT_TRUE(fails(backend.compile_table().compile(device->handle(), nullptr, 1, 0, nullptr, nullptr)));
  EXPECT_TRUE(fails(backend.queue_table().submit(nullptr, nullptr, nullptr, 0, nullptr, 0)));
  EXPECT_TRUE(fails(backend.library_table().claim(device->handle(), nullptr, nullptr)));
  EXPECT_EQ(buffer, nullptr);
}

}  // namespace
}  // namespace crucible::backend
