// Finding NVRTC and compiling with it: see nvrtc.hpp.
#include "backends/nvidia/nvrtc.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "backends/nvidia/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/vendor_library.hpp"

namespace crucible_nvidia {

using namespace crucible;

namespace {

struct Release {
  int major;
  const char* name;
};
// 11.2 is the name of all later 11.
constexpr Release kReleases[] = {{13, "libnvrtc.so.13"}, {12, "libnvrtc.so.12"}, {11, "libnvrtc.so.11.2"}};
constexpr std::size_t kLongestLog = 4000;  // of an error's text
constexpr const char* kAdvice =
    "install NVIDIA's toolkit, or PyPI's package nvidia-cuda-nvrtc (of the driver's major version) and name its "
    "folder, "
    "site-packages/nvidia/.../lib, with the option nvrtc";

/// What to try, in this order: for a folder, the libraries that it has.
std::vector<std::string> names_to_try(const std::string& option, int driver_major) {
  if (!option.empty() && !std::filesystem::is_directory(option)) return {option};
  std::vector<std::string> names;
  for (const Release& release : kReleases) {
    if (option.empty()) {
      if (release.major <= driver_major) names.emplace_back(release.name);
      continue;
    }
    const auto file = std::filesystem::path(option) / release.name;
    std::error_code error;
    if (std::filesystem::exists(file, error)) names.push_back(file.string());
  }
  if (names.empty() && !option.empty()) {
    throw sdk::Failure(CRUCIBLE_E_UNAVAILABLE,
                       "the folder " + option + " of the option nvrtc has no libnvrtc.so.13, .12 or .11.2: " + kAdvice,
                       {{"where", option}});
  }
  return names;
}

std::unique_ptr<Nvrtc> load(const std::string& option, const Cuda& driver) {
  const int driver_major = driver.version / 1000;
  const std::vector<std::string> names = names_to_try(option, driver_major);
  const auto library = sdk::VendorLibrary::open("NVIDIA's run-time compiler", names, kAdvice);
  auto compiler = std::make_unique<Nvrtc>();
  compiler->file = library.file();
  std::string missing;
#define CRUCIBLE_NVRTC_FIND(name, result, parameters)                                         \
  compiler->name = reinterpret_cast<decltype(compiler->name)>(library.find(#name)); \
  if (compiler->name == nullptr) missing += std::string(missing.empty() ? "" : ", ") + #name;
  CRUCIBLE_NVRTC_FUNCTIONS(CRUCIBLE_NVRTC_FIND)
#undef CRUCIBLE_NVRTC_FIND
  if (!missing.empty()) {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE, "the library " + compiler->file + " lacks " + missing +
                                                    ": it is no NVRTC of 11.2 or newer; " + kAdvice,
                       {{"where", compiler->file}, {"need", "NVRTC 11.2"}});
  }
  int count = 0;
  if (compiler->nvrtcVersion(&compiler->major, &compiler->minor) != NVRTC_SUCCESS ||
      compiler->nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0) {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                       "the library " + compiler->file + " does not say what it compiles for: " + kAdvice,
                       {{"where", compiler->file}});
  }
  compiler->architectures.resize(static_cast<std::size_t>(count));
  if (compiler->nvrtcGetSupportedArchs(compiler->architectures.data()) != NVRTC_SUCCESS)
    compiler->architectures.clear();
  std::ranges::sort(compiler->architectures);
  if (compiler->major > driver_major) {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                       compiler->describe() + " (" + compiler->file +
                           ") makes code that the driver does not take: it speaks CUDA " +
                           version_text(driver.version) + "; update the driver, or name an NVRTC " +
                           std::to_string(driver_major) + " with the option nvrtc",
                       {{"have", version_text(driver.version)}, {"need", std::to_string(compiler->major) + ".0"}});
  }
  return compiler;
}

struct Compilers {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Nvrtc>> loaded;
};
Compilers& compilers() {
  static Compilers& all = *new Compilers;  // never destroyed, like the libraries
  return all;
}

std::string log_of(const Nvrtc& compiler, nvrtcProgram program) {
  std::size_t size = 0;
  if (compiler.nvrtcGetProgramLogSize(program, &size) != NVRTC_SUCCESS || size <= 1) return "";
  std::string log(size, '\0');
  if (compiler.nvrtcGetProgramLog(program, log.data()) != NVRTC_SUCCESS) return "";
  const std::size_t end = log.find_last_not_of(std::string_view("\0\n ", 3));
  log.resize(end == std::string::npos ? 0 : end + 1);
  return log;
}

/// A program that is destroyed with this.
class Program {
 public:
  Program(const Nvrtc& compiler, const std::string& text) : compiler_(compiler) {
    check(compiler.nvrtcCreateProgram(&program_, text.c_str(), "crucible.cu", 0, nullptr, nullptr),
          "nvrtcCreateProgram");
  }
  ~Program() { (void)compiler_.nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  nvrtcProgram get() const { return program_; }
  void check(nvrtcResult code, const std::string& what) const {
    if (code == NVRTC_SUCCESS) return;
    throw sdk::Failure(CRUCIBLE_E_INTERNAL, what + ": " + compiler_.nvrtcGetErrorString(code),
                       {{"vendor.code", std::to_string(code)}, {"where", compiler_.file}});
  }

 private:
  const Nvrtc& compiler_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace

bool Nvrtc::knows(int capability) const { return std::ranges::find(architectures, capability) != architectures.end(); }

std::string Nvrtc::architecture_flag(int capability, Code code) const {
  if (code == Code::kCubin) return "--gpu-architecture=sm_" + std::to_string(capability);
  const auto above = std::ranges::upper_bound(architectures, capability);
  if (above == architectures.begin()) {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE,
                       describe() + " (" + file + ") compiles for nothing older than sm_" +
                           (architectures.empty() ? "?" : std::to_string(architectures.front())) +
                           ", the device is sm_" + std::to_string(capability) +
                           ": name an older NVRTC with the option nvrtc",
                       {{"have", "sm_" + std::to_string(capability)}});
  }
  return "--gpu-architecture=compute_" + std::to_string(*std::prev(above));
}

Nvrtc::Compiled Nvrtc::compile(const std::string& text, const std::vector<std::string>& flags, Code code,
                               const std::string& who) const {
  const Program program(*this, text);
  std::vector<const char*> words;
  std::string all;
  for (const std::string& flag : flags) {
    words.push_back(flag.c_str());
    all += " " + flag;
  }
  const nvrtcResult result = nvrtcCompileProgram(program.get(), static_cast<int>(words.size()), words.data());
  Compiled compiled;
  compiled.log = log_of(*this, program.get());
  if (result == NVRTC_ERROR_COMPILATION) {
    throw sdk::Failure(
        CRUCIBLE_E_INTERNAL,
        describe() + " (" + file + ") refuses the kernels " + who + ": " + compiled.log.substr(0, kLongestLog),
        {{"where", "nvrtcCompileProgram" + all}, {"kernel", who}, {"vendor.code", std::to_string(result)}});
  }
  program.check(result, "nvrtcCompileProgram of " + who + " with" + all +
                            (compiled.log.empty() ? "" : " (" + compiled.log + ")"));
  std::size_t size = 0;
  if (code == Code::kCubin) {
    program.check(nvrtcGetCUBINSize(program.get(), &size), "nvrtcGetCUBINSize");
    compiled.bytes.resize(size);
    program.check(nvrtcGetCUBIN(program.get(), compiled.bytes.data()), "nvrtcGetCUBIN");
  } else {
    program.check(nvrtcGetPTXSize(program.get(), &size), "nvrtcGetPTXSize");
    compiled.bytes.resize(size);
    program.check(nvrtcGetPTX(program.get(), compiled.bytes.data()), "nvrtcGetPTX");
  }
  return compiled;
}

const Nvrtc& nvrtc(const Cuda& cuda) {
  const std::string option = options().get_text("nvrtc");
  Compilers& all = compilers();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<Nvrtc>& entry = all.loaded[option + "\n" + cuda.file];
  if (entry == nullptr) entry = load(option, cuda);
  return *entry;
}

std::vector<std::string> numeric_flags() {
  return {"--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false", "--disable-warnings"};
}

}  // namespace crucible_nvidia
