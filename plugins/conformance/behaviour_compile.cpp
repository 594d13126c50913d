// Compilation: caches that are honest, kernels with one name in two modules.
#include <fmt/format.h>

#include <memory>

#include "plugins/conformance/behaviour_cases.hpp"
#include "plugins/conformance/opened.hpp"

namespace crucible::conformance {
namespace {

/// A kernel that writes `number`; with another number it is another kernel of the same name.
std::vector<KernelText> writes(int number) {
  return {{"ck_writes",
           fmt::format("void ck_writes(void* const* buffers, const double* scalars, int64_t begin, int64_t end) {{\n"
                       "  for (int64_t i = begin; i < end; ++i) ((int32_t*)buffers[0])[i] = {} + HELP;\n}}\n",
                       number)}};
}

std::int32_t written_by(Opened& opened, crucible_kernel* kernel) {
  Memory out(opened, 40);
  OpList list;
  list.launch(kernel, {out.address()}, 10);
  run_once(opened, list);
  return out.values<std::int32_t>(10)[9];
}

std::string prelude(int help) { return fmt::format("#include <stdint.h>\n#define HELP {}\n", help); }

void by_content(const Settings& settings) {
  Opened opened(settings);
  need_c_dialect(opened);
  for (int round = 0; round < 2; ++round) {  // the second round may come from a cache
    const Kernels one(opened, prelude(0), writes(1)), two(opened, prelude(0), writes(2)),
        three(opened, prelude(20), writes(2));
    expect_equal(static_cast<std::uint64_t>(written_by(opened, one.find("ck_writes"))), 1,
                 "the result of the first kernel of this name");
    expect_equal(static_cast<std::uint64_t>(written_by(opened, two.find("ck_writes"))), 2,
                 "the result of another kernel of the same name");
    expect_equal(static_cast<std::uint64_t>(written_by(opened, three.find("ck_writes"))), 22,
                 "the result of the same text with another prelude");
  }
}

void info(const Settings& settings) {
  Opened opened(settings);
  need_c_dialect(opened);
  const std::vector<KernelText> texts = writes(7);
  const crucible_str name = borrow(texts[0].name), text = borrow(texts[0].text);
  const std::string head = prelude(0);
  crucible_compile_info info{};
  info.struct_size = sizeof(info);
  crucible_module* module = nullptr;
  expect_ok(must(opened.tables.compile.compile, "compile.compile")(opened.device, borrow(head), &name, &text, 1,
                                                                   &module, &info),
            "compile.compile with a place for info");
  expect(info.from_cache <= 1, "from_cache is 0 or 1", fmt::format("{}", info.from_cache));
  expect(info.binary_bytes > 0, "binary_bytes tells the compiled size", "0");
  expect(info.struct_size <= sizeof(info), "struct_size does not grow", fmt::format("{}", info.struct_size));
  expect_ok(must(opened.tables.compile.unload, "compile.unload")(module), "compile.unload");
  module = nullptr;
  expect_ok(opened.tables.compile.compile(opened.device, {}, nullptr, nullptr, 0, &module, nullptr),
            "compile.compile of no kernels");
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
           "a kernel is what its text and prelude say, whatever was compiled under its name before", by_content, true),
      make("compile.info", "compile tells how large the compiled module is (binary_bytes); no kernels are a module too",
           info, true),
      make("compile.kernel_info", "kernel_info tells what is known of a kernel", kernel_info, true),
  };
}

}  // namespace crucible::conformance
