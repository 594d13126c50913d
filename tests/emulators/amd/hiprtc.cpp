// libhiprtc.so.6 of the emulator: compiles HIP text for the processor, and with CRUCIBLE_EMU_CHECK_ARCH really for AMD
// architectures too, whose refusal is the program's.
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulators/amd/code_object.hpp"
#include "tests/emulators/amd/hip_api.h"
#include "tests/emulators/amd/hiprtc_api.h"
#include "tests/emulators/amd/real_compile.hpp"
#include "tests/emulators/amd/runtime_beside.hpp"
#include "tests/emulators/amd/translate.hpp"
#include "tests/emulators/core/compiler.hpp"
#include "tests/emulators/core/faults.hpp"
#include "tests/emulators/core/settings.hpp"

extern "C" const char emulator_kernel_abi[];
extern "C" const char emulator_device_on_cpu[];
extern "C" const char emulator_matrix_on_cpu[];

using namespace crucible::emulator;

struct _hiprtcProgram {
  std::string text, name, log, code;
  std::map<std::string, std::string> headers;
};

namespace {

constexpr const char* kDefaultArch = "gfx90a";

struct Options {
  std::string arch;
  std::uint32_t wave = 0;
  std::vector<std::string> preprocessor, language, real;
};

/// Waves of 64 up to gfx9, of 32 after it.
std::uint32_t wave_of(std::string_view arch) { return arch.starts_with("gfx1") ? 32 : 64; }

/// What clang defines for it: __gfx1100__ and __GFX11__.
std::vector<std::string> arch_macros(const std::string& arch) {
  return {"__" + arch + "__", "__GFX" + arch.substr(3, arch.size() - 5) + "__"};
}

bool is_arch(std::string_view arch) {
  return arch.size() >= 6 && arch.starts_with("gfx") &&
         std::ranges::all_of(arch.substr(3), [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
}

/// The architecture of the calling thread's device, as the runtime beside the compiler tells it; without one the first
/// device's.
std::string current_arch() {
  static void* const runtime = open_runtime_beside(reinterpret_cast<const void*>(&hiprtcCompileProgram));
  const auto find = [](const char* name) { return runtime == nullptr ? nullptr : dlsym(runtime, name); };
  const auto get_device = reinterpret_cast<decltype(&hipGetDevice)>(find("hipGetDevice"));
  const auto get_properties =
      reinterpret_cast<decltype(&hipGetDevicePropertiesR0600)>(find("hipGetDevicePropertiesR0600"));
  int device = 0;
  hipDeviceProp_tR0600 properties = {};
  const bool told = get_device != nullptr && get_properties != nullptr && get_device(&device) == hipSuccess &&
                    get_properties(&properties, device) == hipSuccess;
  return told ? properties.gcnArchName : settings().arch(0, kDefaultArch);
}

/// Returns what is wrong, "" when nothing is.
std::string read_option(const std::string& option, Options& options) {
  const auto starts = [&](std::string_view head) { return std::string_view(option).starts_with(head); };
  for (const std::string_view head : {"--offload-arch=", "--gpu-architecture="}) {
    if (!starts(head)) continue;
    options.arch = option.substr(head.size());
    options.arch = options.arch.substr(0, options.arch.find(':'));
    return is_arch(options.arch) ? "" : "no architecture '" + options.arch + "': one like gfx90a";
  }
  if (option == "-mwavefrontsize64") {
    options.wave = 64;
  } else if (option == "-mno-wavefrontsize64") {
    options.wave = 32;
  } else if (starts("-D") || starts("-U") || starts("-I")) {
    options.preprocessor.push_back(option);
  } else if (starts("-std=") || starts("-ffp-contract=")) {
    options.language.push_back(option);
    options.real.push_back(option);
  } else if (starts("-O") || starts("-W") || starts("-w") || starts("-g")) {
    return "";
  } else if (starts("-f") || starts("-m") || starts("--gpu-max-threads-per-block=")) {
    options.real.push_back(option);  // for AMD's back end; it judges them when it is asked
  } else {
    return "unknown option '" + option + "'";
  }
  return "";
}

std::string read_options(int count, const char* const* words, Options& options) {
  for (int i = 0; i < count; ++i) {
    if (const std::string problem = read_option(words[i], options); !problem.empty()) return problem;
  }
  if (options.arch.empty()) options.arch = current_arch();
  if (settings().wave != 0) options.wave = static_cast<std::uint32_t>(settings().wave);
  if (options.wave == 0) options.wave = wave_of(options.arch);
  for (const char* const word : {"-D__HIP__=1", "-D__HIPCC_RTC__=1", "-D__HIP_DEVICE_COMPILE__=1",
                                 "-D__HIP_PLATFORM_AMD__=1", "-D__AMDGCN__=1"}) {
    options.preprocessor.push_back(word);
  }
  options.preprocessor.push_back("-D__AMDGCN_WAVEFRONT_SIZE=" + std::to_string(options.wave));
  for (const std::string& macro : arch_macros(options.arch)) options.preprocessor.push_back("-D" + macro + "=1");
  return "";
}

bool write_headers(const _hiprtcProgram& program, const ScratchFolder& folder) {
  // These are built in: including them is allowed and gives nothing new.
  bool written = folder.write("hip/hip_runtime.h", "") && folder.write("hip/hip_fp16.h", "");
  for (const auto& [name, text] : program.headers) written = written && folder.write(name, text);
  return written;
}

/// The text without macros and comments, lines marked with the program's name.
bool preprocess(const _hiprtcProgram& program, const Options& options, std::string& out) {
  const ScratchFolder folder;
  if (folder.path().empty() || !write_headers(program, folder) || !folder.write("program", program.text)) {
    out = "the emulator cannot write its files: set CRUCIBLE_EMU_CACHE";
    return false;
  }
  const std::string result = (folder.path() / "preprocessed").string();
  std::vector<std::string> words = {compiler(), "-E", "-x", "c++", "-w", "-I" + folder.path().string()};
  words.insert(words.end(), options.preprocessor.begin(), options.preprocessor.end());
  words.insert(words.end(), {(folder.path() / "program").string(), "-o", result});
  const CommandResult ran = run_command(words);
  if (ran.status != 0) {
    out = ran.output;
    return false;
  }
  std::ifstream stream(result, std::ios::binary);
  out.assign(std::istreambuf_iterator<char>(stream), {});
  const std::string file = "\"" + (folder.path() / "program").string() + "\"";
  for (std::size_t at = out.find(file); at != std::string::npos; at = out.find(file, at)) {
    out.replace(at, file.size(), "\"" + program.name + "\"");
  }
  return true;
}

/// What stands before a translated text.
std::string prelude(const Translation& translation, const Options& options) {
  std::string text = "#define EMU_WAVE " + std::to_string(options.wave) + "\n#define EMU_INDICES_OUTSIDE " +
                     (translation.indices_outside ? "1\n" : "0\n") + emulator_kernel_abi + emulator_device_on_cpu;
  if (!translation.matrices) return text;
  for (const std::string& macro : arch_macros(options.arch)) text += "#define " + macro + " 1\n";
  return text + emulator_matrix_on_cpu;
}

hiprtcResult compile(_hiprtcProgram& program, const Options& options) {
  std::string text;
  if (!preprocess(program, options, text)) {
    program.log = text;
    return HIPRTC_ERROR_COMPILATION;
  }
  const Translation translation = translate(text);
  SharedObjectText source = {.text = prelude(translation, options) + translation.text,
                             .language = "c++",
                             .files = {},
                             .flags = {"-std=c++17", "-O2", "-march=native", "-ffp-contract=fast-honor-pragmas",
                                       "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing",
                                       "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-w"}};
  source.flags.insert(source.flags.end(), options.language.begin(), options.language.end());
  const auto made = compile_shared_object(source);
  if (!made) {
    program.log = made.error();
    return HIPRTC_ERROR_COMPILATION;
  }
  for (const std::string& arch : settings().check_archs) {
    const RealCompile real = {.text = program.text, .headers = program.headers, .arch = arch,
                              .preprocessor = options.preprocessor, .flags = options.real};
    if (const std::string words = compile_really(real); !words.empty()) {
      program.log = arch + ": " + words;
      return HIPRTC_ERROR_COMPILATION;
    }
    faults().note("compiled for " + arch);
  }
  CodeObject code;
  code.arch = options.arch;
  code.wave = options.wave;
  for (const TranslatedKernel& kernel : translation.kernels) {
    code.kernels.push_back({kernel.name, kernel.meets, kernel.most_threads});
  }
  std::ifstream stream(*made, std::ios::binary);
  code.shared_object.assign(std::istreambuf_iterator<char>(stream), {});
  program.code = serialize(code);
  return HIPRTC_SUCCESS;
}

/// Handles that are there: one that is not is refused, not followed.
struct Programs {
  std::mutex mutex;
  std::set<hiprtcProgram> all;
  bool has(hiprtcProgram program) {
    const std::lock_guard lock(mutex);
    return all.contains(program);
  }
};
Programs& programs() {
  static auto& there = *new Programs;
  return there;
}

template <class Body>
hiprtcResult answer(Body body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return HIPRTC_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception&) {
    return HIPRTC_ERROR_INTERNAL_ERROR;
  }
}

template <class Body>
hiprtcResult answer_for(hiprtcProgram program, Body body) {
  return answer([&] { return programs().has(program) ? body() : HIPRTC_ERROR_INVALID_PROGRAM; });
}

}  // namespace

extern "C" {

hiprtcResult hiprtcVersion(int* major, int* minor) {
  if (major == nullptr || minor == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  *major = 6;
  *minor = 0;
  return HIPRTC_SUCCESS;
}

const char* hiprtcGetErrorString(hiprtcResult result) {
  switch (result) {
    case HIPRTC_SUCCESS:
      return "HIPRTC_SUCCESS";
    case HIPRTC_ERROR_OUT_OF_MEMORY:
      return "HIPRTC_ERROR_OUT_OF_MEMORY";
    case HIPRTC_ERROR_PROGRAM_CREATION_FAILURE:
      return "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case HIPRTC_ERROR_INVALID_INPUT:
      return "HIPRTC_ERROR_INVALID_INPUT";
    case HIPRTC_ERROR_INVALID_PROGRAM:
      return "HIPRTC_ERROR_INVALID_PROGRAM";
    case HIPRTC_ERROR_INVALID_OPTION:
      return "HIPRTC_ERROR_INVALID_OPTION";
    case HIPRTC_ERROR_COMPILATION:
      return "HIPRTC_ERROR_COMPILATION";
    case HIPRTC_ERROR_INTERNAL_ERROR:
      return "HIPRTC_ERROR_INTERNAL_ERROR";
  }
  return "HIPRTC_ERROR_UNKNOWN";
}

hiprtcResult hiprtcCreateProgram(hiprtcProgram* program, const char* text, const char* name, int header_count,
                                 const char* const* headers, const char* const* header_names) {
  return answer([&] {
    if (program == nullptr || text == nullptr || header_count < 0) return HIPRTC_ERROR_INVALID_INPUT;
    auto made = std::make_unique<_hiprtcProgram>();
    made->text = text;
    made->name = name != nullptr && *name != '\0' ? name : "CompileSourceXXXXXX";
    for (int i = 0; i < header_count; ++i) made->headers[header_names[i]] = headers[i];
    const std::lock_guard lock(programs().mutex);
    programs().all.insert(made.get());
    *program = made.release();
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program) {
  return answer([&] {
    if (program == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    const std::lock_guard lock(programs().mutex);
    if (programs().all.erase(*program) == 0) return HIPRTC_ERROR_INVALID_PROGRAM;
    delete *program;
    *program = nullptr;
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int option_count, const char* const* words) {
  return answer_for(program, [&] {
    program->log.clear();
    program->code.clear();
    if (const auto rule = faults().hit(Site::kCompile, program->name)) {
      program->log = "an injected fault: " + std::string(name(rule->action)) + "@compile";
      if (rule->action == Action::kOom) return HIPRTC_ERROR_OUT_OF_MEMORY;
      if (rule->action == Action::kFail) return HIPRTC_ERROR_COMPILATION;
    }
    Options options;
    if (const std::string problem = read_options(option_count, words, options); !problem.empty()) {
      program->log = problem;
      return HIPRTC_ERROR_INVALID_OPTION;
    }
    return compile(*program, options);
  });
}

hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t* size) {
  return answer_for(program, [&] {
    if (size == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    *size = program->log.size() + 1;
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char* log) {
  return answer_for(program, [&] {
    if (log == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    std::memcpy(log, program->log.c_str(), program->log.size() + 1);
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t* size) {
  return answer_for(program, [&] {
    if (size == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    if (program->code.empty()) return HIPRTC_ERROR_INVALID_PROGRAM;
    *size = program->code.size();
    return HIPRTC_SUCCESS;
  });
}

hiprtcResult hiprtcGetCode(hiprtcProgram program, char* code) {
  return answer_for(program, [&] {
    if (code == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    if (program->code.empty()) return HIPRTC_ERROR_INVALID_PROGRAM;
    std::memcpy(code, program->code.data(), program->code.size());
    return HIPRTC_SUCCESS;
  });
}

void crucible_emulator_reload_hiprtc(void) { reload_environment(); }

}  // extern "C"
