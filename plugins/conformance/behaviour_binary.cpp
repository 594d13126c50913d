// Compilation and binaries: caches that are honest, kernels with one name in two modules, modules as bytes and back.
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

std::string save(Opened& opened, crucible_module* module) {
  Items items;
  expect_ok(need(opened.tables.binary.save, "binary.save")(module, items.sink(), items.user()), "binary.save");
  expect(items.has("binary") && !items.all["binary"].empty(), "binary.save gives the bytes under the key binary",
         "there are none");
  return items.all["binary"];
}

void round_trip(const Settings& settings) {
  Opened opened(settings);
  need(opened.tables.binary.save, "binary.save");
  std::string bytes;
  {
    const Kernels kernels(opened, prelude(3), writes(40));
    bytes = save(opened, kernels.module());
    expect(save(opened, kernels.module()) == bytes, "binary.save gives the same bytes twice", "they differ");
  }
  std::uint32_t answer = 99;
  Items why;
  expect_ok(must(opened.tables.binary.check, "binary.check")(borrow(opened.id), borrow(bytes), &answer, why.sink(),
                                                             why.user()),
            "binary.check");
  expect_equal(answer, CRUCIBLE_BINARY_OPTIMAL, "binary.check of what this device has just made");
  crucible_module* module = nullptr;
  expect_ok(must(opened.tables.binary.load, "binary.load")(opened.device, borrow(bytes), &module), "binary.load");
  crucible_kernel* kernel = nullptr;
  expect_ok(must(opened.tables.compile.kernel, "compile.kernel")(module, borrow("ck_writes"), &kernel),
            "compile.kernel of a loaded binary");
  expect_equal(static_cast<std::uint64_t>(written_by(opened, kernel)), 43, "the result of a kernel from a binary");
  expect(save(opened, module) == bytes, "a loaded binary can be saved again, the same", "the bytes differ");
  expect_ok(opened.tables.compile.unload(module), "compile.unload of a loaded binary");
}

void stands_alone(const Settings& settings) {
  Opened opened(settings);
  need(opened.tables.binary.save, "binary.save");
  std::string bytes;
  {
    const Kernels kernels(opened, prelude(5), writes(60));
    bytes = save(opened, kernels.module());
  }
  crucible_module* module = nullptr;
  expect_ok(must(opened.tables.binary.load, "binary.load")(opened.device, borrow(bytes), &module),
            "binary.load after the module is unloaded");
  crucible_kernel* kernel = nullptr;
  expect_ok(must(opened.tables.compile.kernel, "compile.kernel")(module, borrow("ck_writes"), &kernel),
            "compile.kernel");
  expect_equal(static_cast<std::uint64_t>(written_by(opened, kernel)), 65,
               "the result of a kernel from a binary whose module is gone");
  expect_ok(must(opened.tables.compile.unload, "compile.unload")(module), "compile.unload");
}

void key(const Settings& settings) {
  Opened opened(settings);
  const auto compatibility_key = need(opened.tables.binary.compatibility_key, "binary.compatibility_key");
  Items first, second;
  expect_ok(compatibility_key(borrow(opened.id), first.sink(), first.user()), "binary.compatibility_key");
  expect_ok(compatibility_key(borrow(opened.id), second.sink(), second.user()), "binary.compatibility_key again");
  expect(!first.all.empty(), "the compatibility key has items", "it is empty");
  expect(first.all == second.all, "the compatibility key is the same twice", "it differs");
}

}  // namespace

std::vector<Case> behaviour_binary_cases() {
  const auto make = [](std::string name, std::string rule, void (*run)(const Settings&), bool quick) {
    return Case{"behaviour." + std::move(name), Tier::kBehaviour, std::move(rule), quick, run, 90};
  };
  return {
      make("compile.by_content",
           "a kernel is what its text and prelude say, whatever was compiled under its name before", by_content, true),
      make("compile.info", "compile tells how large the compiled module is (binary_bytes); no kernels are a module too",
           info, true),
      make("compile.kernel_info", "kernel_info tells what is known of a kernel", kernel_info, true),
      make("binary.round_trip", "a module saved, checked and loaded gives the same results", round_trip, true),
      make("binary.stands_alone", "a binary needs nothing of the module that it was made from", stands_alone, false),
      make("binary.key", "the compatibility key is given and does not change", key, false),
  };
}

}  // namespace crucible::conformance
