// Compile table: kernel IR, which the SDK prints as C, to loaded kernels. What the cache does not have is compiled
// (build.hpp), loaded with dlopen and put into the cache; what another process is compiling just now is waited for.
#include <dlfcn.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/build.hpp"
#include "backends/cpu/cache.hpp"
#include "backends/cpu/compiler.hpp"
#include "backends/cpu/device.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/lock.hpp"
#include "backends/cpu/module.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/sealed.hpp"
#include "backends/cpu/sha256.hpp"
#include "backends/cpu/tables.hpp"
#include "plugins/sdk/mathematics.hpp"
#include "plugins/sdk/module_table.hpp"

namespace crucible_cpu {
namespace {

/// What the compiler gets of each kernel, with its key in the cache. The key is of what the compiler gets, so that
/// another printer does not find what this one wrote.
std::vector<Text> print_texts(const Compiler& compiler, const ModuleSources& sources) {
  Sha256 beginning;  // of all keys; the mathematics are longer than most kernels
  beginning.update_field("crucible kernel 1");
  beginning.update_field(compiler.identity);
  beginning.update_field(math_text(dialect_c()));
  std::vector<Text> all;
  for (const auto& [name, kernel] : sources.kernels) {
    Text text{name, print_kernel(kernel, dialect_c(), name), ""};
    Sha256 hash = beginning;
    hash.update_field(text.name);
    hash.update_field(text.text);
    text.key = hash.hex();
    all.push_back(std::move(text));
  }
  return all;
}

/// Takes the given kernels from an object that was opened; `handle` may be null, with the reason in `problem`. False
/// when one of them is not there.
bool take_kernels(crucible_module& module, void* handle, const std::filesystem::path& file, std::uint64_t bytes,
                  const std::vector<const Text*>& texts, bool from_cache, std::string& problem) {
  if (handle == nullptr) return false;
  module.objects.push_back({handle, file, {}, {}});
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

/// Takes what the cache has; returns what must be compiled.
std::vector<const Text*> load_cached(crucible_module& module, KernelCache& cache,
                                     const std::vector<const Text*>& texts) {
  std::map<std::string, std::vector<const Text*>> by_object;
  std::vector<const Text*> missing;
  for (const Text* text : texts) {
    if (const auto object = cache.find(text->key)) {
      by_object[*object].push_back(text);
    } else {
      missing.push_back(text);
    }
  }
  for (const auto& [object, wanted] : by_object) {
    std::string problem = "it is missing or damaged";
    const std::optional<std::string> bytes = cache.read_object(object);
    if (bytes && take_kernels(module, open_sealed(*bytes, problem), cache.object_path(object), bytes->size(), wanted,
                              true, problem)) {
      for (const Text* text : wanted) module.kernels[text->name].binary = object;
      module.binary_bytes += bytes->size();
    } else {
      log(LogLevel::kInfo, "compile", "a cached object was not usable: " + problem);
      missing.insert(missing.end(), wanted.begin(), wanted.end());
    }
  }
  return missing;
}

/// Compiles, loads and stores the kernels. Errors: INTERNAL, UNAVAILABLE.
void compile_kernels(crucible_module& module, const Compiler& compiler, KernelCache& cache,
                     const std::vector<const Text*>& kernels) {
  cache.remove_leftovers();
  const Build build(compiler, cache, kernels);
  bool stored = true;
  for (const Object& object : build.objects()) {
    const std::string stem = object.stem.string();
    std::string problem;
    std::error_code error;
    const std::uint64_t bytes = std::filesystem::file_size(stem + ".so", error);
    void* const handle = dlopen((stem + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);  // a folder of this run's own
    if (handle == nullptr) problem = dlerror();
    if (!take_kernels(module, handle, stem + ".so", error ? 0 : bytes, object.kernels, false, problem)) {
      object.folder->keep(object.stem);
      throw Failure(CRUCIBLE_E_INTERNAL,
                    "cannot load what " + compiler.path.string() + " made of " + stem + ".c (kept): " + problem);
    }
    std::ifstream words(stem + ".log");
    module.log.append(std::istreambuf_iterator<char>(words), {});
    module.binary_bytes += error ? 0 : bytes;
    const auto name = cache.add_object(stem + ".so");
    if (name) {
      module.objects.back().path = cache.object_path(*name);
    } else {  // the file goes with the folder
      std::ifstream file(stem + ".so", std::ios::binary);
      module.objects.back().bytes.assign(std::istreambuf_iterator<char>(file), {});
    }
    for (const Text* kernel : object.kernels) {
      stored = name && cache.add_kernel(kernel->key, *name) && stored;
      if (name) module.kernels[kernel->name].binary = *name;
    }
  }
  if (!stored) log(LogLevel::kWarning, "compile", "compiled kernels are not kept: " + cache.problem());
}

/// Takes the kernels from the cache or compiles them, each in one process at a time: who finds a kernel locked waits,
/// at most so long, until it is stored or the lock is free. Returns how many were compiled. Errors: INTERNAL,
/// UNAVAILABLE.
std::size_t load_kernels(crucible_module& module, const Compiler& compiler, KernelCache& cache,
                         const std::vector<Text>& kernels, std::chrono::seconds longest_wait) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook(10);
  std::vector<const Text*> all;
  for (const Text& kernel : kernels) all.push_back(&kernel);
  std::vector<const Text*> missing = load_cached(module, cache, all);
  if (missing.empty()) return 0;
  KernelLocks locks(cache.usable() ? cache.folder() / "lock" : "");
  std::size_t compiled = 0;
  Clock::time_point give_up = Clock::now() + longest_wait;
  for (bool is_told = false; !missing.empty();) {
    const bool is_late = Clock::now() >= give_up;
    std::vector<const Text*> mine, theirs;
    for (const Text* kernel : missing) (locks.try_lock(kernel->key) ? mine : theirs).push_back(kernel);
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
    // They may have been stored between the last look and the lock.
    mine = load_cached(module, cache, mine);
    if (!mine.empty()) compile_kernels(module, compiler, cache, mine);
    compiled += mine.size();
    locks.unlock_all();
    missing = std::move(theirs);
    give_up = Clock::now() + longest_wait;
  }
  return compiled;
}

struct Modules {
  /// Looks into the cache, compiles, loads. Errors: UNAVAILABLE, INTERNAL.
  static void build(crucible_module& module, const ModuleSources& sources) {
    const crucible_device& device = *module.device;
    const Compiler compiler = find_compiler(device.compiler, {sources.is_careful, device.sanitizes});
    const std::vector<Text> all = print_texts(compiler, sources);
    KernelCache cache(device.cache_dir);
    module.from_cache = load_kernels(module, compiler, cache, all, std::chrono::seconds(device.compile_wait_s)) == 0;
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
