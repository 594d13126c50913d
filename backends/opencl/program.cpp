// Compiling a program: see program.hpp.
#include "backends/opencl/program.hpp"

#include "plugins/sdk/error.hpp"
#include "plugins/sdk/host.hpp"
#include "plugins/sdk/kept.hpp"

namespace crucible_opencl {

using namespace crucible;

namespace {

constexpr std::size_t kLongestLog = 4000;  // of an error's text

std::string build_log(const crucible_device& device, cl_program program) {
  const Functions& cl = *device.cl;
  std::size_t size = 0;
  if (cl.clGetProgramBuildInfo(program, device.facts.device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) != CL_SUCCESS)
    return "";
  std::string log(size, '\0');
  if (cl.clGetProgramBuildInfo(program, device.facts.device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr) !=
      CL_SUCCESS)
    return "";
  const std::size_t end = log.find_last_not_of(std::string_view("\0\n ", 3));
  log.resize(end == std::string::npos ? 0 : end + 1);
  return log;
}

/// The machine code, or "" where the driver does not hand it out.
std::string binary_of(const crucible_device& device, cl_program program) {
  const Functions& cl = *device.cl;
  std::size_t size = 0;  // of the context's one device
  if (cl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, nullptr) != CL_SUCCESS) return "";
  std::string bytes(size, '\0');
  unsigned char* place = reinterpret_cast<unsigned char*>(bytes.data());
  if (cl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(place), &place, nullptr) != CL_SUCCESS) return "";
  return bytes;
}

/// A program of a binary that this driver made once; none when it does not take it (any more).
Program load(const crucible_device& device, const std::string& bytes, const std::string& flags) {
  const Functions& cl = *device.cl;
  const unsigned char* place = reinterpret_cast<const unsigned char*>(bytes.data());
  const std::size_t size = bytes.size();
  cl_int status = CL_SUCCESS, code = CL_SUCCESS;
  Program program(
      cl, cl.clCreateProgramWithBinary(device.context.get(), 1, &device.facts.device, &size, &place, &status, &code));
  if (code != CL_SUCCESS || status != CL_SUCCESS) return {};
  code = cl.clBuildProgram(program.get(), 1, &device.facts.device, flags.c_str(), nullptr, nullptr);
  return code == CL_SUCCESS ? std::move(program) : Program();
}

/// The oldest language that has what the texts use, "" for SPIR-V. Khronos' sub-groups belong to 2.0 or newer, Intel's
/// to all.
std::string language_flag(const crucible_device& device) {
  if (device.language == Language::kSpirv) return "";
  if (device.teams != Teams::kSubgroups || device.facts.has("cl_intel_subgroups")) return "-cl-std=CL1.2";
  return device.facts.version.starts_with("OpenCL 2.") ? "-cl-std=CL2.0" : "-cl-std=CL3.0";
}

Program create(const crucible_device& device, const std::string& given) {
  const Functions& cl = *device.cl;
  const char* source = given.c_str();
  const std::size_t size = given.size();
  cl_int code = CL_SUCCESS;
  if (device.language == Language::kSpirv) {
    Program program(cl, device.create_spirv(device.context.get(), source, size, &code));
    check(code, "compile: clCreateProgramWithIL");
    return program;
  }
  Program program(cl, cl.clCreateProgramWithSource(device.context.get(), 1, &source, &size, &code));
  check(code, "compile: clCreateProgramWithSource");
  return program;
}

Program compile(const crucible_device& device, const std::string& given, const std::string& flags, std::string& log) {
  const Functions& cl = *device.cl;
  Program program = create(device, given);
  cl_int code = cl.clBuildProgram(program.get(), 1, &device.facts.device, flags.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS && !device.facts.rounds_division)  // perhaps it does not take what it does not promise
    code = cl.clBuildProgram(program.get(), 1, &device.facts.device, language_flag(device).c_str(), nullptr, nullptr);
  log = build_log(device, program.get());
  if (code == CL_SUCCESS) return program;
  if (code != CL_BUILD_PROGRAM_FAILURE) check(code, "compile: clBuildProgram with " + flags);
  throw sdk::Failure(CRUCIBLE_E_INTERNAL,
                     "the OpenCL compiler of " + device.facts.id + " (" + device.facts.platform_name + ", " +
                         device.facts.driver + ") refuses the kernels: " + log.substr(0, kLongestLog),
                     {{"where", "clBuildProgram " + flags}, {"vendor.code", std::to_string(code)}});
}

/// PoCL keeps what it compiles itself, and to hand a binary out it compiles every kernel a second time.
bool driver_has_cache(const DeviceFacts& facts) { return facts.version.find("PoCL") != std::string::npos; }

}  // namespace

std::string build_flags(const crucible_device& device) {
  // Nothing that fuses, reorders or flushes: every -cl-fast flag is left out on purpose.
  const std::string language = language_flag(device);
  return language + (language.empty() ? "" : " ") + "-cl-fp32-correctly-rounded-divide-sqrt";
}

Built build_program(const crucible_device& device, const std::string& code, bool is_careful) {
  const DeviceFacts& facts = device.facts;
  const std::string flags = build_flags(device) + (is_careful ? " -cl-opt-disable" : "");
  const bool is_kept = sdk::keeps() && !driver_has_cache(facts);
  const sdk::KeptKey key{.content = code,
                         .target = facts.platform_name + ", " + facts.name,
                         .toolchain = facts.version + ", driver " + facts.driver,
                         .options = flags};
  Built built;
  if (const std::string bytes = is_kept ? sdk::find_kept(key) : ""; !bytes.empty()) {
    built.program = load(device, bytes, flags);
    built.binary_bytes = bytes.size();
    built.binary = sdk::binary_id(bytes);
    built.from_cache = built.program.get() != nullptr;
    if (built.from_cache) return built;
    sdk::log(sdk::LogLevel::kWarning, "compile",
             "the driver of " + facts.id + " does not take a program that it compiled before; it is compiled again");
  }
  built.program = compile(device, code, flags, built.log);
  built.binary = "of " + sdk::binary_id(key.target + key.toolchain + flags + code);
  if (!is_kept) return built;
  const std::string bytes = binary_of(device, built.program.get());
  built.binary_bytes = bytes.size();
  if (bytes.empty()) return built;
  sdk::keep(key, bytes);
  built.binary = sdk::binary_id(bytes);
  return built;
}

}  // namespace crucible_opencl
