// Compile table: kernel IR, which the SDK prints as C, to loaded kernels. What the host has not kept is compiled
// (build.hpp), loaded with dlopen and kept; what another process is compiling just now is waited for.
#include <dlfcn.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/build.hpp"
#include "backends/cpu/compiler.hpp"
#include "backends/cpu/device.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/module.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/sealed.hpp"
#include "backends/cpu/tables.hpp"
#include "plugins/sdk/kept.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/module_table.hpp"

namespace crucible_cpu {

namespace sdk = crucible::sdk;

namespace {

/// What the compiler gets of each kernel, which is also what it is kept under: another printer does not find what this
/// one wrote.
std::vector<Text> print_texts(const Compiler& compiler, const ModuleSources& sources) {
  std::string options;
  for (const std::string& flag : compiler.flags) options += flag + " ";
  // They are longer than most kernels, and the same in all.
  options += "mathematics " + sdk::binary_id(math_text(dialect_c()));
  if (!compiler.before.empty()) options += " guards " + sdk::binary_id(compiler.before);
  std::vector<Text> all;
  for (const auto& [name, kernel] : sources.kernels) {
    all.push_back({name,
                   {.content = print_kernel(kernel, dialect_c(), name),
                    .target = compiler.target,
                    .toolchain = compiler.toolchain,
                    .options = options}});
  }
  return all;
}

/// Takes the given kernels from an object that was opened; `handle` may be null, with the reason in `problem`. False
/// when one of them is not there.
bool take_kernels(crucible_module& module, void* handle, std::uint64_t bytes, const std::vector<const Text*>& texts,
                  bool from_cache, std::string& problem) {
  if (handle == nullptr) return false;
  module.objects.push_back({handle, {}});
  const auto enter = reinterpret_cast<GuardEnter>(dlsym(handle, "crucible_guard_enter"));
  for (const Text* text : texts) {
    void* symbol = dlsym(handle, text->name.c_str());
    if (symbol == nullptr) {
      problem = "it has no function " + text->name;
      return false;
    }
    module.objects.back().kernels.push_back(text->name);
    module.kernels[text->name] = {reinterpret_cast<KernelFunction>(symbol), text->name, bytes, from_cache, "", enter};
  }
  return true;
}

/// Takes what is kept; returns what must be compiled.
std::vector<const Text*> load_kept(crucible_module& module, const std::vector<const Text*>& texts) {
  std::vector<sdk::KeptKey> keys;
  keys.reserve(texts.size());
  for (const Text* text : texts) keys.push_back(text->key);
  const std::vector<std::shared_ptr<const std::string>> found = sdk::find_kept(keys);
  std::map<std::shared_ptr<const std::string>, std::vector<const Text*>> by_object;
  std::vector<const Text*> missing;
  for (std::size_t i = 0; i < texts.size(); ++i) (found[i] ? by_object[found[i]] : missing).push_back(texts[i]);
  for (const auto& [bytes, wanted] : by_object) {
    std::string problem;
    if (take_kernels(module, open_sealed(*bytes, problem), bytes->size(), wanted, true, problem)) {
      const std::string binary = sdk::binary_id(*bytes);
      for (const Text* text : wanted) module.kernels[text->name].binary = binary;
      module.binary_bytes += bytes->size();
    } else {
      log(LogLevel::kInfo, "compile", "a kept object was not usable: " + problem);
      missing.insert(missing.end(), wanted.begin(), wanted.end());
    }
  }
  return missing;
}

/// Compiles, loads and keeps the kernels. Errors: INTERNAL, UNAVAILABLE.
void compile_kernels(crucible_module& module, const Compiler& compiler, const std::vector<const Text*>& kernels) {
  const Build build(compiler, kernels);
  for (const Object& object : build.objects()) {
    const std::string stem = object.stem.string();
    std::string problem;
    std::ifstream file(stem + ".so", std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    void* const handle = dlopen((stem + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);  // a folder of this run's own
    if (handle == nullptr) problem = dlerror();
    if (!take_kernels(module, handle, bytes.size(), object.kernels, false, problem)) {
      object.folder->keep(object.stem);
      throw Failure(CRUCIBLE_E_INTERNAL,
                    "cannot load what " + compiler.path.string() + " made of " + stem + ".c (kept): " + problem);
    }
    std::ifstream words(stem + ".log");
    module.log.append(std::istreambuf_iterator<char>(words), {});
    module.binary_bytes += bytes.size();
    const std::string binary = sdk::binary_id(bytes);
    std::vector<sdk::KeptKey> keys;
    for (const Text* kernel : object.kernels) {
      module.kernels[kernel->name].binary = binary;
      keys.push_back(kernel->key);
    }
    sdk::keep(keys, bytes);
  }
}

/// Takes the kernels that are kept or compiles them, each in one process at a time: who finds a kernel claimed waits,
/// at most so long, until it is kept or the claim is free. Returns how many were compiled. Errors: INTERNAL,
/// UNAVAILABLE.
std::size_t load_kernels(crucible_module& module, const Compiler& compiler, const std::vector<Text>& kernels,
                         std::chrono::seconds longest_wait) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook(10);
  std::vector<const Text*> all;
  for (const Text& kernel : kernels) all.push_back(&kernel);
  std::vector<const Text*> missing = load_kept(module, all);
  if (missing.empty()) return 0;
  sdk::KeptClaims claims;
  std::size_t compiled = 0;
  Clock::time_point give_up = Clock::now() + longest_wait;
  for (bool is_told = false; !missing.empty();) {
    const bool is_late = Clock::now() >= give_up;
    std::vector<const Text*> mine, theirs;
    for (const Text* kernel : missing) (claims.claim(kernel->key) ? mine : theirs).push_back(kernel);
    if (is_late && !theirs.empty()) {
      log(LogLevel::kWarning, "compile",
          "another process has not compiled " + std::to_string(theirs.size()) + " kernels in " +
              std::to_string(longest_wait.count()) + " s: compiling them here too");
      mine = std::exchange(missing, {});
      theirs.clear();
    }
    if (mine.empty()) {
      if (!is_told)
        log(LogLevel::kInfo, "compile",
            "another process compiles " + std::to_string(theirs.size()) + " of the kernels: waiting for it");
      is_told = true;
      std::this_thread::sleep_for(kLook);
      continue;
    }
    // They may have been stored between the last look and the claim.
    mine = load_kept(module, mine);
    if (!mine.empty()) compile_kernels(module, compiler, mine);
    compiled += mine.size();
    claims.release_all();
    missing = std::move(theirs);
    give_up = Clock::now() + longest_wait;
  }
  return compiled;
}

struct Modules {
  /// Looks for what is kept, compiles, loads. Errors: UNAVAILABLE, INTERNAL.
  static void build(crucible_module& module, const ModuleSources& sources) {
    const crucible_device& device = *module.device;
    const Compiler compiler = find_compiler(device.compiler, {sources.is_careful, device.sanitizes});
    const std::vector<Text> all = print_texts(compiler, sources);
    module.from_cache = load_kernels(module, compiler, all, std::chrono::seconds(device.compile_wait_s)) == 0;
  }

  static void describe(const crucible_kernel& kernel, crucible_kv_sink sink, void* user) {
    report(sink, user,
           {number_item("binary_bytes", kernel.binary_bytes),  // of the object that it shares with others
            number_item("from_cache", kernel.from_cache ? 1 : 0), text_item("binary", kernel.binary)});
  }

  static void log(const crucible_module& module, crucible_kv_sink sink, void* user) {
    report(sink, user, {text_item("log", module.log)});
  }
};

}  // namespace

const crucible_if_compile kCompileTable =
    make_module_table<crucible_device, crucible_module, crucible_kernel, Modules>();

}  // namespace crucible_cpu
