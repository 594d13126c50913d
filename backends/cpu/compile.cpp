// Compile table: kernels, which the SDK prints as C, to loaded ones. What the cache does not have is compiled
// (build.hpp), loaded with dlopen and put into the cache; what another process is compiling just now is waited for.
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
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
#include "plugins/sdk/c_dialect.hpp"
#include "plugins/sdk/careful.hpp"

namespace crucible_cpu {
namespace {

bool is_identifier(const std::string& name) {
  const auto is_part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_part) &&
         std::isdigit(static_cast<unsigned char>(name[0])) == 0;
}

/// What the compiler gets of one kernel. Errors: UNSUPPORTED when it has neither text nor IR, and those of
/// read_kernel().
std::string text_of(const crucible_kernel_source& source, const std::string& name) {
  if (source.text.size != 0) return to_string(source.text);
  if (source.ir == nullptr)
    throw Failure(CRUCIBLE_E_UNSUPPORTED, "kernel " + name + " has neither text nor kernel IR", {{"kernel", name}});
  return print_kernel(read_kernel(source.ir, source.ir_size), dialect_c(), name);
}

/// The kernels asked for, each with its key in the cache, each name once. The key is of what the compiler gets, so that
/// another printer does not find what this one wrote. Errors: INVALID_ARGUMENT, and those of read_kernel().
std::vector<Text> read_texts(const Compiler& compiler, const std::string& prelude,
                             const crucible_kernel_source* sources, std::uint32_t count) {
  std::map<std::string, Text> all;
  Sha256 beginning;  // of all keys; the prelude is longer than most kernels
  beginning.update_field("crucible kernel 1");
  beginning.update_field(compiler.identity);
  beginning.update_field(prelude);
  const SizedArray<crucible_kernel_source> each(sources);  // of an older or newer host
  for (std::uint32_t i = 0; i < count; ++i) {
    const crucible_kernel_source source = each[i];
    Text text{to_string(source.name), "", ""};
    if (!is_identifier(text.name)) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT,
                    "kernel " + std::to_string(i) + ": '" + text.name + "' is not a C name");
    }
    text.text = text_of(source, text.name);
    Sha256 hash = beginning;
    hash.update_field(text.name);
    hash.update_field(text.text);
    text.key = hash.hex();
    const auto [known, is_new] = all.try_emplace(text.name, text);
    if (!is_new && known->second.text != text.text) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "two kernels with different texts are named " + text.name);
    }
  }
  std::vector<Text> result;
  for (auto& [name, text] : all) result.push_back(std::move(text));
  return result;
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
std::vector<const Text*> load_cached(crucible_module& module, KernelCache& cache, const std::vector<const Text*>& texts,
                                     std::uint64_t& binary_bytes) {
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
      binary_bytes += bytes->size();
    } else {
      log(LogLevel::kInfo, "compile", "a cached object was not usable: " + problem);
      missing.insert(missing.end(), wanted.begin(), wanted.end());
    }
  }
  return missing;
}

/// Compiles, loads and stores the kernels. Errors: INTERNAL, UNAVAILABLE.
void compile_kernels(crucible_module& module, const Compiler& compiler, KernelCache& cache, const std::string& prelude,
                     const std::vector<const Text*>& kernels, std::uint64_t& binary_bytes) {
  cache.remove_leftovers();
  const Build build(compiler, cache, prelude, kernels);
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
    binary_bytes += error ? 0 : bytes;
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
                         const std::string& prelude, const std::vector<Text>& kernels,
                         std::chrono::seconds longest_wait, std::uint64_t& binary_bytes) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLook(10);
  std::vector<const Text*> all;
  for (const Text& kernel : kernels) all.push_back(&kernel);
  std::vector<const Text*> missing = load_cached(module, cache, all, binary_bytes);
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
    mine = load_cached(module, cache, mine, binary_bytes);
    if (!mine.empty()) compile_kernels(module, compiler, cache, prelude, mine, binary_bytes);
    compiled += mine.size();
    locks.unlock_all();
    missing = std::move(theirs);
    give_up = Clock::now() + longest_wait;
  }
  return compiled;
}

crucible_status dialect(crucible_device* device, crucible_str* out) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "compile.dialect: no device or no place for the answer");
    *out = {"c", 1};
  });
}

/// Checks, looks into the cache, compiles, loads. Errors: INVALID_ARGUMENT, UNAVAILABLE, INTERNAL.
std::unique_ptr<crucible_module> make_module(const crucible_device& device, crucible_str prelude,
                                             const crucible_kernel_source* sources, std::uint32_t count,
                                             crucible_compile_info* info) {
  const auto start = std::chrono::steady_clock::now();
  const std::string prelude_text = to_string(prelude);
  const Compiler compiler = find_compiler(device.compiler, {crucible::sdk::is_careful(prelude_text), device.sanitizes});
  const std::vector<Text> all = read_texts(compiler, prelude_text, sources, count);
  KernelCache cache(device.cache_dir);
  auto module = std::make_unique<crucible_module>();
  crucible_compile_info result = {};
  const std::chrono::seconds longest_wait(device.compile_wait_s);
  result.from_cache =
      load_kernels(*module, compiler, cache, prelude_text, all, longest_wait, result.binary_bytes) == 0 ? 1 : 0;
  result.compile_ns = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
  if (info != nullptr) {
    result.struct_size = std::min<std::uint32_t>(info->struct_size, sizeof(result));
    std::memcpy(static_cast<void*>(info), &result, result.struct_size);
  }
  return module;
}

crucible_status compile(crucible_device* device, crucible_str prelude, const crucible_str* names,
                        const crucible_str* texts, std::uint32_t count, crucible_module** out,
                        crucible_compile_info* info) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "compile: no device or no place for the module");
    require(count == 0 || (names != nullptr && texts != nullptr), "compile: names or texts are missing");
    std::vector<crucible_kernel_source> sources;
    for (std::uint32_t i = 0; i < count; ++i)
      sources.push_back({sizeof(crucible_kernel_source), 0, names[i], texts[i], nullptr, 0});
    *out = make_module(*device, prelude, sources.data(), count, info).release();
  });
}

crucible_status compile_sources(crucible_device* device, crucible_str prelude, const crucible_kernel_source* sources,
                                std::uint32_t count, crucible_module** out, crucible_compile_info* info) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "compile_sources: no device or no place for the module");
    require(count == 0 || sources != nullptr, "compile_sources: the sources are missing");
    *out = make_module(*device, prelude, sources, count, info).release();
  });
}

crucible_status kernel_info(crucible_kernel* kernel, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(kernel != nullptr && sink != nullptr, "compile.kernel_info: no kernel or no function to report to");
    const crucible_kv items[] = {
        number_item("binary_bytes", kernel->binary_bytes),  // of the object that it shares with others
        number_item("from_cache", kernel->from_cache ? 1 : 0), text_item("binary", kernel->binary)};
    sink(user, items, std::size(items));
  });
}

crucible_status compile_log(crucible_module* module, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(module != nullptr && sink != nullptr, "compile.compile_log: no module or no function to report to");
    const crucible_kv item = text_item("log", module->log);
    sink(user, &item, 1);
  });
}

crucible_status kernel(crucible_module* module, crucible_str name, crucible_kernel** out) {
  return guard([&] {
    require(module != nullptr && out != nullptr, "compile.kernel: no module or no place for the kernel");
    const auto found = module->kernels.find(to_string(name));
    if (found == module->kernels.end()) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT, "the module of " + std::to_string(module->kernels.size()) +
                                                     " kernels has none named " + to_string(name));
    }
    *out = &found->second;
  });
}

crucible_status unload(crucible_module* module) {
  return guard([&] { delete module; });
}

}  // namespace

const crucible_if_compile kCompileTable = {
    sizeof(crucible_if_compile), CRUCIBLE_ABI_MINOR, dialect, compile, kernel, unload, compile_sources, kernel_info,
    compile_log};

}  // namespace crucible_cpu
