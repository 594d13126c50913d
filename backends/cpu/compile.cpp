// Compile table: C text to loaded kernels. What the cache does not have is written into as many files as there are
// cores, compiled by that many clang processes at once, put into the cache and loaded with dlopen.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>
#include <vector>

#include "backends/cpu/cache.hpp"
#include "backends/cpu/compiler.hpp"
#include "backends/cpu/device.hpp"
#include "backends/cpu/kernel.hpp"
#include "backends/cpu/module.hpp"
#include "backends/cpu/process.hpp"
#include "backends/cpu/sdk.hpp"
#include "backends/cpu/sha256.hpp"
#include "backends/cpu/tables.hpp"

namespace crucible_cpu {
namespace {

struct Text {
  std::string name, text, key;
  bool operator<(const Text& other) const { return name < other.name; }
};

/// A folder for the files of one compilation, removed with all that is in it unless kept.
class WorkFolder {
 public:
  explicit WorkFolder(const KernelCache& cache) {
    std::error_code error;
    // Beside the objects, so that they can be renamed into place; elsewhere when the cache cannot be used.
    std::filesystem::path parent = cache.usable() ? cache.folder() : std::filesystem::temp_directory_path(error);
    if (error) parent = "/tmp";
    std::string name = (parent / "build-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot create a folder like " + name + " for the compiler: " +
                                                std::strerror(errno) + "; set TMPDIR to a folder with space");
    }
    path_ = name;
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code error;
    if (!kept_) std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

bool is_identifier(const std::string& name) {
  const auto is_part = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_part) &&
         std::isdigit(static_cast<unsigned char>(name[0])) == 0;
}

/// The kernels asked for, each with its key in the cache, each name once. Errors: INVALID_ARGUMENT.
std::vector<Text> read_texts(const Compiler& compiler, const std::string& prelude, const crucible_str* names,
                             const crucible_str* texts, std::uint32_t count) {
  std::map<std::string, Text> all;
  for (std::uint32_t i = 0; i < count; ++i) {
    Text text{to_string(names[i]), to_string(texts[i]), ""};
    if (!is_identifier(text.name)) {
      throw Failure(CRUCIBLE_E_INVALID_ARGUMENT,
                    "kernel " + std::to_string(i) + ": '" + text.name + "' is not a C name");
    }
    Sha256 hash;
    for (const std::string& field :
         {std::string("crucible kernel 1"), compiler.identity, prelude, text.name, text.text}) {
      hash.update_field(field);
    }
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

/// Loads an object and takes the given kernels from it. False when one of them is not there.
bool load_object(crucible_module& module, const std::filesystem::path& file, const std::vector<const Text*>& texts,
                 std::string& problem) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    problem = dlerror();
    return false;
  }
  module.objects.push_back({handle, file, {}, {}});
  std::error_code error;
  const std::uint64_t bytes = std::filesystem::file_size(file, error);
  for (const Text* text : texts) {
    void* symbol = dlsym(handle, text->name.c_str());
    if (symbol == nullptr) {
      problem = "it has no function " + text->name;
      return false;
    }
    module.objects.back().kernels.push_back(text->name);
    module.kernels[text->name] = crucible_kernel{reinterpret_cast<KernelFunction>(symbol), text->name, error ? 0 : bytes};
  }
  return true;
}

/// Takes what the cache has; returns what must be compiled.
std::vector<const Text*> load_cached(crucible_module& module, KernelCache& cache, const std::vector<Text>& texts,
                                     std::uint64_t& binary_bytes) {
  std::map<std::string, std::vector<const Text*>> by_object;
  std::vector<const Text*> missing;
  for (const Text& text : texts) {
    if (const auto object = cache.find(text.key)) {
      by_object[*object].push_back(&text);
    } else {
      missing.push_back(&text);
    }
  }
  for (const auto& [object, wanted] : by_object) {
    std::string problem;
    std::error_code error;
    if (load_object(module, cache.object_path(object), wanted, problem)) {
      binary_bytes += std::filesystem::file_size(cache.object_path(object), error);
    } else {
      log(LogLevel::kInfo, "compile", "a cached object was not usable: " + problem);
      missing.insert(missing.end(), wanted.begin(), wanted.end());
    }
  }
  return missing;
}

/// Even shares of the text, longest kernels first, each to the file that has least so far.
std::vector<std::vector<const Text*>> split(std::vector<const Text*> texts) {
  constexpr std::size_t kFewestPerFile = 2;  // a process costs as much as some small kernels
  const std::size_t most = std::max<std::size_t>(1, texts.size() / kFewestPerFile);
  std::vector<std::vector<const Text*>> files(std::min<std::size_t>(static_cast<std::size_t>(usable_cores()), most));
  std::vector<std::size_t> load(files.size(), 0);
  std::stable_sort(texts.begin(), texts.end(), [](auto* a, auto* b) { return a->text.size() > b->text.size(); });
  for (const Text* text : texts) {
    const auto lightest = static_cast<std::size_t>(std::min_element(load.begin(), load.end()) - load.begin());
    files[lightest].push_back(text);
    load[lightest] += text->text.size() + 200;
  }
  return files;
}

std::string first_lines(const std::filesystem::path& file, int count) {
  std::ifstream stream(file);
  std::string text, line;
  while (count-- > 0 && std::getline(stream, line)) text += "\n  " + line;
  return text.empty() ? "\n  (it printed nothing)" : text;
}

/// Writes one C file with the prelude and the kernels. Errors: UNAVAILABLE when the disk does not take it.
void write_source(const std::filesystem::path& file, const std::string& prelude,
                  const std::vector<const Text*>& texts) {
  std::ofstream stream(file, std::ios::binary);
  stream << prelude << "\n";
  for (const Text* text : texts) stream << text->text << "\n";
  if (!stream.flush()) {
    throw Failure(CRUCIBLE_E_UNAVAILABLE, "cannot write " + file.string() + ": " + std::strerror(errno) +
                                              "; make room, or set TMPDIR or the option cache_dir");
  }
}

/// Compiles the files 0.c, 1.c, ... in the folder to 0.so, 1.so, ... Errors: INTERNAL with clang's words; the folder is
/// then kept.
void run_compiler(const Compiler& compiler, WorkFolder& folder, std::size_t files) {
  std::vector<Command> commands;
  for (std::size_t i = 0; i < files; ++i) {
    const std::string stem = (folder.path() / std::to_string(i)).string();
    Command command{{compiler.path.string()}, stem + ".log"};
    command.arguments.insert(command.arguments.end(), compiler.flags.begin(), compiler.flags.end());
    for (const std::string& argument : {std::string("-o"), stem + ".so", stem + ".c"})
      command.arguments.push_back(argument);
    commands.push_back(std::move(command));
  }
  const std::vector<int> statuses = run_all(commands);
  for (std::size_t i = 0; i < files; ++i) {
    std::error_code error;
    const std::filesystem::path stem = folder.path() / std::to_string(i);
    if (statuses[i] == 0 && std::filesystem::exists(stem.string() + ".so", error)) continue;
    folder.keep();
    throw Failure(CRUCIBLE_E_INTERNAL, compiler.path.string() + " ended with status " + std::to_string(statuses[i]) +
                                           " on " + stem.string() +
                                           ".c (kept):" + first_lines(stem.string() + ".log", 8));
  }
}

/// Compiles, stores and loads what is missing. Errors: INTERNAL, UNAVAILABLE.
void compile_missing(crucible_module& module, const Compiler& compiler, KernelCache& cache, const std::string& prelude,
                     std::vector<const Text*> missing, std::uint64_t& binary_bytes) {
  WorkFolder folder(cache);
  const std::vector<std::vector<const Text*>> files = split(std::move(missing));
  for (std::size_t i = 0; i < files.size(); ++i) {
    write_source(folder.path() / (std::to_string(i) + ".c"), prelude, files[i]);
  }
  run_compiler(compiler, folder, files.size());
  bool stored = true;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::filesystem::path file = folder.path() / (std::to_string(i) + ".so");
    std::error_code error;
    binary_bytes += std::filesystem::file_size(file, error);
    if (const auto object = cache.add_object(file)) {
      file = cache.object_path(*object);
      for (const Text* text : files[i]) stored = cache.add_kernel(text->key, *object) && stored;
    } else {
      stored = false;
    }
    std::ifstream words(folder.path() / (std::to_string(i) + ".log"));
    module.log.append(std::istreambuf_iterator<char>(words), {});
    std::string problem;
    if (!load_object(module, file, files[i], problem)) {
      folder.keep();
      throw Failure(CRUCIBLE_E_INTERNAL, "cannot load what clang made of " +
                                             (folder.path() / std::to_string(i)).string() + ".c (kept): " + problem);
    }
  }
  if (!stored) {
    log(LogLevel::kWarning, "compile",
        "compiled kernels are not kept: " +
            (cache.usable() ? cache.folder().string() + " does not take them" : cache.problem()));
  }
}

crucible_status dialect(crucible_device* device, crucible_str* out) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "compile.dialect: no device or no place for the answer");
    *out = {"c", 1};
  });
}

/// Checks, looks into the cache, compiles, loads. Errors: INVALID_ARGUMENT, UNAVAILABLE, INTERNAL.
std::unique_ptr<crucible_module> make_module(const crucible_device& device, crucible_str prelude, const crucible_str* names,
                                             const crucible_str* texts, std::uint32_t count, crucible_compile_info* info) {
  const auto start = std::chrono::steady_clock::now();
  const Compiler compiler = find_compiler(device.compiler);
  const std::string prelude_text = to_string(prelude);
  const std::vector<Text> all = read_texts(compiler, prelude_text, names, texts, count);
  KernelCache cache(device.cache_dir);
  auto module = std::make_unique<crucible_module>();
  crucible_compile_info result = {};
  const std::vector<const Text*> missing = load_cached(*module, cache, all, result.binary_bytes);
  result.from_cache = missing.empty() ? 1 : 0;
  if (!missing.empty()) compile_missing(*module, compiler, cache, prelude_text, missing, result.binary_bytes);
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
    *out = make_module(*device, prelude, names, texts, count, info).release();
  });
}

crucible_status compile_sources(crucible_device* device, crucible_str prelude, const crucible_kernel_source* sources,
                                std::uint32_t count, crucible_module** out, crucible_compile_info* info) {
  return guard([&] {
    require(device != nullptr && out != nullptr, "compile_sources: no device or no place for the module");
    require(count == 0 || sources != nullptr, "compile_sources: the sources are missing");
    std::vector<crucible_str> names, texts;
    SizedArray<crucible_kernel_source> all(sources);
    for (std::uint32_t i = 0; i < count; ++i) {
      const crucible_kernel_source source = all[i];
      if (source.text.size == 0) {
        throw Failure(CRUCIBLE_E_UNSUPPORTED, "the kernel " + to_string(source.name) + " has no text, and this device takes no kernel IR",
                      {{"kernel", to_string(source.name)}});
      }
      names.push_back(source.name);
      texts.push_back(source.text);
    }
    *out = make_module(*device, prelude, names.data(), texts.data(), count, info).release();
  });
}

crucible_status kernel_info(crucible_kernel* kernel, crucible_kv_sink sink, void* user) {
  return guard([&] {
    require(kernel != nullptr && sink != nullptr, "compile.kernel_info: no kernel or no function to report to");
    const crucible_kv item = number_item("binary_bytes", kernel->binary_bytes);  // of the object that it shares with others
    sink(user, &item, 1);
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
