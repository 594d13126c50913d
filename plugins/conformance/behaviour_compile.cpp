// Compilation: caches that are honest, kernels with one name in two modules.
#include <fmt/format.h>

#include <memory>

#include "plugins/conformance/behaviour_cases.hpp"
#include "plugins/conformance/opened.hpp"

namespace crucible::conformance {
namespace {

std::int32_t written_by(Opened& opened, crucible_kernel* kernel) {
  Memory out(opened, 40);
  OpList list;
  list.launch(kernel, {out.address()}, 10);
  run_once(opened, list);
  return out.values<std::int32_t>(10)[9];
}

void by_content(const Settings& settings) {
  Opened opened(settings);
  const auto result_of = [&](std::int64_t number, std::uint32_t flags) {
    const Kernels kernels(opened, {writing_kernel("ck_writes", number)}, flags);
    return static_cast<std::uint64_t>(written_by(opened, kernels.find("ck_writes")));
  };
  for (int round = 0; round < 2; ++round) {  // the second round may come from a cache
    const Kernels one(opened, {writing_kernel("ck_writes", 1)}), two(opened, {writing_kernel("ck_writes", 2)});
    expect_equal(static_cast<std::uint64_t>(written_by(opened, one.find("ck_writes"))), 1,
                 "the result of the first kernel of this name");
    expect_equal(static_cast<std::uint64_t>(written_by(opened, two.find("ck_writes"))), 2,
                 "the result of another kernel of the same name");
    expect_equal(result_of(2, CRUCIBLE_COMPILE_CAREFUL), 2, "the result of the same kernel, compiled carefully");
    expect_equal(result_of(3, CRUCIBLE_COMPILE_CAREFUL), 3, "the result of another kernel, compiled carefully");
    expect_equal(result_of(3, ~std::uint32_t{0} << 8), 3, "the result of a kernel with flags that nobody knows");
  }
}

void info(const Settings& settings) {
  Opened opened(settings);
  if (!opened.may_have("compile.ir")) unsupported("the device takes no kernel IR, and the kit's kernels are that");
  const kernel::Kernel kernel = writing_kernel("ck_writes", 7);
  const crucible_kernel_source twice[] = {source_of(kernel), source_of(kernel)};
  crucible_compile_info info{};
  info.struct_size = sizeof(info);
  crucible_module* module = nullptr;
  const auto compile = must(opened.tables.compile.compile, "compile.compile");
  expect_ok(compile(opened.device, twice, 2, 0, &module, &info), "compile.compile of a kernel that is named twice");
  expect(info.from_cache <= 1, "from_cache is 0 or 1", fmt::format("{}", info.from_cache));
  expect(info.binary_bytes > 0, "binary_bytes tells the compiled size", "0");
  expect(info.struct_size <= sizeof(info), "struct_size does not grow", fmt::format("{}", info.struct_size));
  expect_ok(must(opened.tables.compile.unload, "compile.unload")(module), "compile.unload");
  module = nullptr;
  expect_ok(compile(opened.device, nullptr, 0, 0, &module, nullptr), "compile.compile of no kernels");
  expect_ok(opened.tables.compile.unload(module), "compile.unload of an empty module");
}

void kernel_info(const Settings& settings) {
  Opened opened(settings);
  const auto kernel_info = need(opened.tables.compile.kernel_info, "compile.kernel_info");
  const Kernels kernels(opened);
  Items items;
  expect_ok(kernel_info(kernels.find("ck_count"), items.sink(), items.user()), "compile.kernel_info");
  expect(!items.all.empty(), "kernel_info tells something about the kernel", "nothing");
  if (items.has("binary_bytes")) {
    expect(items.number("binary_bytes") > 0, "a compiled kernel has some bytes", items.all["binary_bytes"]);
  }
  if (const auto log = opened.tables.compile.compile_log) {
    Items words;
    expect_ok(log(kernels.module(), words.sink(), words.user()), "compile.compile_log");
  }
}

}  // namespace

std::vector<Case> behaviour_compile_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&), bool quick) {
    return Case{"behaviour." + std::move(name), Tier::kBehaviour, std::move(rule), quick, run, 90};
  };
  return {
      make("compile.by_content",
           "a kernel is what its IR says, whatever was compiled under its name before, and with whichever flags",
           by_content, true),
      make("compile.info", "compile tells how large the compiled module is (binary_bytes); no kernels are a module too",
           info, true),
      make("compile.kernel_info", "kernel_info tells what is known of a kernel", kernel_info, true),
  };
}

}  // namespace crucible::conformance
