// Finding HIPRTC and compiling with it: see hiprtc.hpp.
#include "backends/amd/hiprtc.hpp"

#include <map>
#include <memory>
#include <mutex>

#include "backends/amd/options.hpp"
#include "plugins/sdk/error.hpp"
#include "plugins/sdk/thread_kernel.hpp"

namespace crucible_amd {

using namespace crucible;

namespace {

constexpr std::size_t kLongestLog = 4000;  // of an error's text

/// The functions that `library` has; what it lacks is named in `missing`.
std::unique_ptr<Hiprtc> functions_of(const sdk::VendorLibrary& library, std::string& missing) {
  auto compiler = std::make_unique<Hiprtc>();
  compiler->file = library.file();
#define CRUCIBLE_HIPRTC_FIND(name, result, parameters)                               \
  compiler->name = reinterpret_cast<decltype(compiler->name)>(library.find(#name)); \
  if (compiler->name == nullptr) missing += std::string(missing.empty() ? "" : ", ") + #name;
  CRUCIBLE_HIPRTC_FUNCTIONS(CRUCIBLE_HIPRTC_FIND)
#undef CRUCIBLE_HIPRTC_FIND
  return compiler;
}

std::unique_ptr<Hiprtc> load(const std::string& option, const Hip& runtime) {
  std::unique_ptr<Hiprtc> compiler;
  std::string missing;
  if (option.empty()) compiler = functions_of(runtime.library, missing);
  if (option.empty() && !missing.empty()) compiler = nullptr;  // since HIP 6 it has a library of its own
  if (compiler == nullptr) {
    missing.clear();
    const std::string names[] = {option.empty() ? "libhiprtc.so." + std::to_string(runtime.major()) : option};
    compiler = functions_of(
        sdk::VendorLibrary::open("AMD's run-time compiler", names,
                                 "install HIPRTC of the runtime's version (AMD's package hip-runtime-amd), or name "
                                 "it with the option hiprtc"),
        missing);
  }
  if (!missing.empty() || compiler->hiprtcVersion(&compiler->major, &compiler->minor) != HIPRTC_SUCCESS) {
    throw sdk::Failure(CRUCIBLE_E_INCOMPATIBLE, "the library " + compiler->file + " is no HIPRTC" +
                                                    (missing.empty() ? "" : ": it lacks " + missing),
                       {{"where", compiler->file}});
  }
  return compiler;
}

struct Compilers {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Hiprtc>> loaded;
};
Compilers& compilers() {
  static Compilers& all = *new Compilers;  // never destroyed, like the libraries
  return all;
}

std::string log_of(const Hiprtc& compiler, hiprtcProgram program) {
  std::size_t size = 0;
  if (compiler.hiprtcGetProgramLogSize(program, &size) != HIPRTC_SUCCESS || size <= 1) return "";
  std::string log(size, '\0');
  if (compiler.hiprtcGetProgramLog(program, log.data()) != HIPRTC_SUCCESS) return "";
  const std::size_t end = log.find_last_not_of(std::string_view("\0\n ", 3));
  log.resize(end == std::string::npos ? 0 : end + 1);
  return log;
}

/// A program that is destroyed with this.
class Program {
 public:
  Program(const Hiprtc& compiler, const std::string& text) : compiler_(compiler) {
    check(compiler.hiprtcCreateProgram(&program_, text.c_str(), "crucible.hip", 0, nullptr, nullptr),
          "hiprtcCreateProgram");
  }
  ~Program() { (void)compiler_.hiprtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  hiprtcProgram get() const { return program_; }
  void check(hiprtcResult code, const std::string& what) const {
    if (code == HIPRTC_SUCCESS) return;
    throw sdk::Failure(CRUCIBLE_E_INTERNAL, what + ": " + compiler_.hiprtcGetErrorString(code),
                       {{"vendor.code", std::to_string(code)}, {"where", compiler_.file}});
  }

 private:
  const Hiprtc& compiler_;
  hiprtcProgram program_ = nullptr;
};

}  // namespace

Hiprtc::Compiled Hiprtc::compile(const std::string& text, const std::vector<std::string>& flags,
                                 const std::string& who) const {
  const Program program(*this, text);
  std::vector<const char*> words;
  std::string all;
  for (const std::string& flag : flags) {
    words.push_back(flag.c_str());
    all += " " + flag;
  }
  const hiprtcResult result = hiprtcCompileProgram(program.get(), static_cast<int>(words.size()), words.data());
  Compiled compiled;
  compiled.log = log_of(*this, program.get());
  if (result == HIPRTC_ERROR_COMPILATION) {
    throw sdk::Failure(
        CRUCIBLE_E_INTERNAL,
        describe() + " (" + file + ") refuses the kernels " + who + ": " + compiled.log.substr(0, kLongestLog),
        {{"where", "hiprtcCompileProgram" + all}, {"kernel", who}, {"vendor.code", std::to_string(result)}});
  }
  program.check(result, "hiprtcCompileProgram of " + who + " with" + all +
                            (compiled.log.empty() ? "" : " (" + compiled.log + ")"));
  std::size_t size = 0;
  program.check(hiprtcGetCodeSize(program.get(), &size), "hiprtcGetCodeSize");
  compiled.bytes.resize(size);
  program.check(hiprtcGetCode(program.get(), compiled.bytes.data()), "hiprtcGetCode");
  return compiled;
}

const Hiprtc& hiprtc(const Hip& hip) {
  const std::string option = options().get_text("hiprtc");
  Compilers& all = compilers();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<Hiprtc>& entry = all.loaded[option + "\n" + hip.file];
  if (entry == nullptr) entry = load(option, hip);
  return *entry;
}

std::vector<std::string> compile_flags(bool is_careful) {
  std::vector<std::string> flags = {is_careful ? "-O1" : "-O3", "-std=c++17", "-ffp-contract=off",
                                    "--gpu-max-threads-per-block=" + std::to_string(sdk::kMostBlockThreads), "-w"};
  if (const std::string arch = options().get_text("arch"); !arch.empty()) flags.push_back("--offload-arch=" + arch);
  return flags;
}

}  // namespace crucible_amd
